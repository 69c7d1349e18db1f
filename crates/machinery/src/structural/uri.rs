//! URIs, as far as it has to be known whether a text is one and which host it names.

/// The parts of a URI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uri<'a> {
    /// Empty if it is only a path.
    pub(crate) scheme: &'a str,
    /// What stands before an `@`.
    pub(crate) user: Option<&'a str>,
    /// With the port.
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) fragment: &'a str,
}

impl<'a> Uri<'a> {
    /// Reads an absolute URI or an absolute path, as it can stand in a request.
    pub(crate) fn request(text: &'a str) -> Result<Self, &'static str> {
        let uri = Self::parse(text)?;
        match uri.scheme.is_empty() && !text.starts_with('/') && text != "*" {
            true => Err("invalid URI for request"),
            false => Ok(uri),
        }
    }

    /// Reads any reference to something.
    pub(crate) fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("empty url");
        }
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("invalid control character in URL");
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Uri { scheme, query, fragment, path: rest, ..Uri::default() };
        if scheme.is_empty() && rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon");
        }
        if let Some(rest) = rest.strip_prefix("//")
            && !scheme.is_empty()
        {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            uri.path = path;
            uri.host = match authority.rsplit_once('@') {
                Some((user, host)) => {
                    uri.user = Some(user);
                    host
                }
                None => authority,
            };
            check_host(uri.host)?;
        }
        check_escapes(uri.path)?;
        Ok(uri)
    }
}

fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme"),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), &'static str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("missing ']' in host")?,
        None => host.find(':').map_or((host, ""), |colon| host.split_at(colon)),
    };
    if name.bytes().any(|byte| b" \"<>\\^`{|}".contains(&byte)) {
        return Err("invalid character in host name");
    }
    check_escapes(name)?;
    let digits = port.strip_prefix(':').unwrap_or_default();
    let fits = port.is_empty() || port.starts_with(':') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits { Ok(()) } else { Err("invalid port after host") }
}

fn check_escapes(text: &str) -> Result<(), &'static str> {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    match escapes.into_iter().all(|(at, _)| is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2))) {
        true => Ok(()),
        false => Err("invalid URL escape"),
    }
}
