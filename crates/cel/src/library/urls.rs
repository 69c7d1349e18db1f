//! URLs, read as Go reads them: an absolute URI or an absolute path.

use std::{collections::BTreeMap, net::Ipv6Addr};

use percent_encoding::percent_decode_str;

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::{EvalError, shown},
    value::{Extension, Key, Map, Text, Value},
};

const ONE: Cost = Cost::One;

pub(super) const ROWS: &[Row] = &[
    ("url(string)->url", url, Cost::Tenth(0), Grows::Unknown),
    ("isURL(string)->bool", is_url, Cost::Scan(0), Grows::Unknown),
    ("url::getScheme()->string", scheme, ONE, Grows::Unknown),
    ("url::getHost()->string", host, ONE, Grows::Unknown),
    ("url::getHostname()->string", hostname, ONE, Grows::Unknown),
    ("url::getPort()->string", port, ONE, Grows::Unknown),
    ("url::getEscapedPath()->string", escaped_path, ONE, Grows::Unknown),
    ("url::getQuery()->map(string,list(string))", query, ONE, Grows::Unknown),
];

/// A URL and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As it was written.
    pub text: String,
    /// Before the colon, in lower case.
    pub scheme: String,
    /// Host and port.
    pub host: String,
    /// The path, escaped.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
}

impl Url {
    /// Reads a URL; the error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        Url::read(text).map_err(|why| format!("parse {:?}: {why}", shown(text)))
    }

    fn read(text: &str) -> Result<Url, &'static str> {
        if text.is_empty() {
            return Err("empty url");
        }
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err("net/url: invalid control character in URL");
        }
        let (whole, _fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(whole)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            // Something like `mailto:a@b` has no parts we could name.
            if scheme.is_empty() {
                return Err("invalid URI for request");
            }
            return Ok(Url::new(text, scheme, "", "", query));
        }
        let (host, path) =
            match rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
                Some(authority) => {
                    let end = authority.find('/').unwrap_or(authority.len());
                    (host_of(&authority[..end])?, &authority[end..])
                }
                None => ("", rest),
            };
        check_escapes(path)?;
        Ok(Url::new(text, scheme, host, &escape_path(path), query))
    }

    fn new(text: &str, scheme: &str, host: &str, path: &str, query: &str) -> Url {
        Url {
            text: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        }
    }

    /// Name and port of the host; brackets are not part of the name.
    fn name_and_port(&self) -> (&str, &str) {
        if let Some((name, rest)) = self.host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            return (name, rest.strip_prefix(':').unwrap_or(""));
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Ok((&text[..at], &text[at + 1..])),
            b':' => return Err("missing protocol scheme"),
            _ => break,
        }
    }
    Ok(("", text))
}

fn host_of(authority: &str) -> Result<&str, &'static str> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(allowed) {
                return Err("net/url: invalid userinfo");
            }
            check_escapes(user)?;
            host
        }
        None => authority,
    };
    let port = if let Some(inner) = host.strip_prefix('[') {
        let (address, rest) = inner.split_once(']').ok_or("missing ']' in host")?;
        let address = address.split_once("%25").map_or(address, |(address, _zone)| address);
        if address.parse::<Ipv6Addr>().is_err() {
            return Err("invalid IPv6 host");
        }
        match rest.strip_prefix(':') {
            Some(port) => port,
            None if rest.is_empty() => "",
            None => return Err("invalid port after host"),
        }
    } else {
        let (name, port) = host.split_once(':').unwrap_or((host, ""));
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=%\"<>".contains(c) || !c.is_ascii();
        if !name.chars().all(allowed) {
            return Err("invalid character in host name");
        }
        check_escapes(name)?;
        port
    };
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err("invalid port after host");
    }
    Ok(host)
}

/// Every percent sign must have two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), &'static str> {
    for (at, _) in text.match_indices('%') {
        if !text.as_bytes().get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)) {
            return Err("invalid URL escape");
        }
    }
    Ok(())
}

/// Escapes what a path must not have; what is escaped already stays so.
fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(byte as char),
            _ if b"-._~!$&'()*+,;=:@/%[]".contains(&byte) => escaped.push(byte as char),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn read(args: &[Value<'_>]) -> Result<Result<Url, String>, EvalError> {
    let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
    Ok(Url::parse(text))
}

fn url<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let url = read(args)?
        .map_err(|why| EvalError::failed(format!("URL parse error during conversion from string: {why}")))?;
    Ok(Value::extension(Extension::Url(Box::new(url))))
}

fn is_url<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(read(args)?.is_ok()))
}

fn part<'a>(args: &[Value<'a>], part: impl Fn(&Url) -> &str) -> Outcome<'a> {
    match args {
        [Value::Extension(extension)] => match extension.as_ref() {
            Extension::Url(url) => Ok(Value::text(part(url))),
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}

fn scheme<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| &url.scheme)
}

fn host<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| &url.host)
}

fn hostname<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| url.name_and_port().0)
}

fn port<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| url.name_and_port().1)
}

fn escaped_path<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| &url.path)
}

fn query<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Extension(extension)] = args else { return mismatch() };
    let Extension::Url(url) = extension.as_ref() else { return mismatch() };
    // A pair takes two characters at least, and some memory.
    tools.budget.charge(url.query.len() as u64 / 2)?;
    let mut values: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if check_escapes(pair).is_err() {
            continue;
        }
        values.entry(unescape(name)).or_default().push(Value::text(unescape(value)));
    }
    let entries = values
        .into_iter()
        .map(|(name, values)| (Key::String(Text::Shared(name.into())), Value::list(values)));
    Ok(Value::Map(Map::from_entries(entries.collect())?))
}

fn unescape(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
