//! Names: what Kubernetes takes as the name of an object, a label, an annotation, a finalizer, a port.
//!
//! Each function says what is wrong in the words Kubernetes clients know: the first fault, or all of them where
//! a list is returned. `generate` means that the text is the beginning of a generated name, so it may end with a
//! dash. Nothing here looks at where the name is used.

use std::borrow::Cow;
use std::net::IpAddr;

/// Most bytes of a DNS subdomain.
pub const SUBDOMAIN_MOST: usize = 253;
/// Most bytes of a DNS label, of the name part of a qualified name, and of a label value.
pub const LABEL_MOST: usize = 63;
/// Most bytes of the name of a port.
pub const PORT_NAME_MOST: usize = 15;

/// A rule for the names of one kind: the name, whether it is the beginning of a generated name, what is wrong.
pub type NameRule = fn(&str, bool) -> Option<String>;

/// A shape that names can have: what it is called, the expression shown to people, and examples.
struct Shape {
    words: &'static str,
    expression: &'static str,
    examples: &'static [&'static str],
}

impl Shape {
    fn says(&self) -> String {
        let mut text = format!("{} (", self.words);
        if !self.examples.is_empty() {
            text.push_str("e.g. ");
            // The blank after the comma and the one before "or" are how Kubernetes writes it.
            let quoted: Vec<String> = self.examples.iter().map(|example| format!("'{example}', ")).collect();
            text.push_str(&quoted.join(" or "));
        }
        text.push_str(&format!("regex used for validation is '{}')", self.expression));
        text
    }
}

const SUBDOMAIN: Shape = Shape {
    words: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    expression: r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["example.com"],
};
const LABEL: Shape = Shape {
    words: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    expression: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "123-abc"],
};
const LABEL_1035: Shape = Shape {
    words: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    expression: "[a-z]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "abc-123"],
};
const WILDCARD: Shape = Shape {
    words: "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    expression: r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["*.example.com"],
};
const QUALIFIED: Shape = Shape {
    words: "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    expression: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    examples: &["MyName", "my.name", "123-abc"],
};
const LABEL_VALUE: Shape = Shape {
    words: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    expression: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    examples: &["MyValue", "my_value", "12345"],
};
const CONFIG_KEY: Shape = Shape {
    words: "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    expression: "[-._a-zA-Z0-9]+",
    examples: &["key.name", "KEY_NAME", "key-name"],
};
const C_IDENTIFIER: Shape = Shape {
    words: "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
    expression: "[A-Za-z_][A-Za-z0-9_]*",
    examples: &["my_name", "MY_NAME", "MyName"],
};
const HEADER: Shape = Shape {
    words: "a valid HTTP header must consist of alphanumeric characters or '-'",
    expression: "[-A-Za-z0-9]+",
    examples: &["X-Header-Name"],
};
const PERCENT: Shape = Shape {
    words: "a valid percent string must be a numeric string followed by an ending '%'",
    expression: "[0-9]+%",
    examples: &["1%", "93%"],
};

/// What is said about a text of more than `most` bytes.
pub fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// What is said about a number outside of a range.
pub fn out_of_range(least: i64, most: i64) -> String {
    format!("must be between {least} and {most}, inclusive")
}

/// A DNS subdomain of RFC 1123: most names.
pub fn subdomain(name: &str, generate: bool) -> Option<String> {
    subdomain_faults(&masked(name, generate)).into_iter().next()
}

/// A DNS label of RFC 1123: namespaces and what becomes part of a host name.
pub fn label(name: &str, generate: bool) -> Option<String> {
    label_faults(&masked(name, generate)).into_iter().next()
}

/// A DNS label of RFC 1035, which begins with a letter.
pub fn label_1035(name: &str, generate: bool) -> Option<String> {
    let name = &*masked(name, generate);
    if name.len() > LABEL_MOST {
        return Some(too_long(LABEL_MOST));
    }
    let fits = is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
    (!fits).then(|| LABEL_1035.says())
}

/// A name that is only required to be one segment of a path: roles, custom names.
pub fn path_segment(name: &str, generate: bool) -> Option<String> {
    match name {
        "." | ".." if !generate => Some(format!("may not be '{name}'")),
        _ => ['/', '%'].into_iter().find(|c| name.contains(*c)).map(|c| format!("may not contain '{c}'")),
    }
}

/// A DNS subdomain whose first label may be `*`.
pub fn wildcard_subdomain(name: &str) -> Vec<String> {
    let mut faults = vec![];
    if name.len() > SUBDOMAIN_MOST {
        faults.push(too_long(SUBDOMAIN_MOST));
    }
    if !name.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(WILDCARD.says());
    }
    faults
}

/// Everything wrong with a DNS subdomain of RFC 1123.
pub fn subdomain_faults(name: &str) -> Vec<String> {
    let mut faults = vec![];
    if name.len() > SUBDOMAIN_MOST {
        faults.push(too_long(SUBDOMAIN_MOST));
    }
    if !is_subdomain(name) {
        faults.push(SUBDOMAIN.says());
    }
    faults
}

/// Everything wrong with a DNS label of RFC 1123.
pub fn label_faults(name: &str) -> Vec<String> {
    let mut faults = vec![];
    if name.len() > LABEL_MOST {
        faults.push(too_long(LABEL_MOST));
    }
    if !is_label(name) {
        faults.push(if is_subdomain(name) { "must not contain dots".to_owned() } else { LABEL.says() });
    }
    faults
}

/// A name with an optional DNS prefix: label keys, annotation keys, finalizers, condition types.
pub fn qualified(text: &str) -> Vec<String> {
    let mut faults = vec![];
    let (prefix, name) = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED.says()
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            faults.extend(subdomain_faults(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
        }
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MOST {
        faults.push(format!("name part {}", too_long(LABEL_MOST)));
    }
    if !is_qualified_name(name) {
        faults.push(format!("name part {}", QUALIFIED.says()));
    }
    faults
}

/// The value of a label, which may be empty.
pub fn label_value(text: &str) -> Vec<String> {
    let mut faults = vec![];
    if text.len() > LABEL_MOST {
        faults.push(too_long(LABEL_MOST));
    }
    if !text.is_empty() && !is_qualified_name(text) {
        faults.push(LABEL_VALUE.says());
    }
    faults
}

/// A key of a config map or a secret, which becomes a file name.
pub fn config_key(key: &str) -> Vec<String> {
    let mut faults = vec![];
    if key.len() > SUBDOMAIN_MOST {
        faults.push(too_long(SUBDOMAIN_MOST));
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        faults.push(CONFIG_KEY.says());
    }
    match key {
        "." | ".." => faults.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// The name of an environment variable: any printable ASCII but `=`.
pub fn env_name(name: &str) -> Vec<String> {
    let mut faults = vec![];
    if name.is_empty() {
        faults.push("environment variable name must be non-empty".to_owned());
    }
    if name.bytes().any(|b| !(b' '..=b'~').contains(&b) || b == b'=') {
        faults.push("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned());
    }
    faults
}

/// The name of a port as IANA registers them.
pub fn port_name(name: &str) -> Vec<String> {
    let mut faults = vec![];
    let mut fault = |is: bool, text: &str| {
        if is {
            faults.push(text.to_owned());
        }
    };
    fault(name.len() > PORT_NAME_MOST, &too_long(PORT_NAME_MOST));
    let allowed = !name.is_empty() && name.bytes().all(is_label_byte);
    fault(!allowed, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    fault(!name.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    fault(name.contains("--"), "must not contain consecutive hyphens");
    fault(name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen");
    faults
}

/// The number of a port.
pub fn port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { vec![] } else { vec![out_of_range(1, 65535)] }
}

/// An IP address, in one of the two forms that all programs read alike.
pub fn ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            vec!["must not be an IPv4-mapped IPv6 address".to_owned()]
        }
        Ok(_) => vec![],
        Err(_) if without_leading_zeros(text).parse::<IpAddr>().is_ok() => {
            vec!["must not have leading 0s".to_owned()]
        }
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

/// A range of IP addresses in CIDR form.
pub fn cidr(text: &str) -> Vec<String> {
    let wrong = || vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    let Some((address, bits)) = text.split_once('/') else { return wrong() };
    let Ok(address) = address.parse::<IpAddr>() else { return wrong() };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    match bits.parse::<u8>() {
        Ok(bits) if digits && bits <= most => match address {
            IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
                vec!["must not have an IPv4-mapped IPv6 address".to_owned()]
            }
            _ => vec![],
        },
        _ => wrong(),
    }
}

/// An identifier of the C language.
pub fn c_identifier(name: &str) -> Vec<String> {
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if fits { vec![] } else { vec![C_IDENTIFIER.says()] }
}

/// The name of an HTTP header.
pub fn header_name(name: &str) -> Vec<String> {
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if fits { vec![] } else { vec![HEADER.says()] }
}

/// A percentage such as `25%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let fits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if fits { vec![] } else { vec![PERCENT.says()] }
}

/// The beginning of a generated name, judged as if something were already appended to its dash.
fn masked(name: &str, generate: bool) -> Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(rest) if generate && !rest.is_empty() => {
            let mut text = rest.to_owned();
            text.pop();
            text.push('a');
            Cow::Owned(text)
        }
        _ => Cow::Borrowed(name),
    }
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_label_byte) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified_name(text: &str) -> bool {
    let (Some(first), Some(last)) = (text.bytes().next(), text.bytes().last()) else { return false };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// An IPv4 address without the zeros that some programs read as the sign of an octal number.
fn without_leading_zeros(text: &str) -> String {
    let parts: Vec<&str> = text
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_are_judged_by_their_rule() {
        let long = "a".repeat(254);
        let labelled = "a".repeat(64);
        for (rule, name, fits) in [
            (subdomain as NameRule, "a", true),
            (subdomain, "a.b-c.1", true),
            (subdomain, "", false),
            (subdomain, "A", false),
            (subdomain, "-a", false),
            (subdomain, "a-", false),
            (subdomain, "a..b", false),
            (subdomain, "a.-b", false),
            (subdomain, "a_b", false),
            (subdomain, "ä", false),
            (subdomain, &long[1..], true),
            (subdomain, &long, false),
            (label, "1a", true),
            (label, "a.b", false),
            (label, &labelled[1..], true),
            (label, &labelled, false),
            (label_1035, "a1", true),
            (label_1035, "1a", false),
            (label_1035, "a-", false),
            (path_segment, "a:B c", true),
            (path_segment, ".", false),
            (path_segment, "..", false),
            (path_segment, "...", true),
            (path_segment, "a/b", false),
            (path_segment, "a%b", false),
        ] {
            assert_eq!(rule(name, false).is_none(), fits, "{name}");
        }
    }

    #[test]
    fn the_beginning_of_a_generated_name_may_end_with_a_dash() {
        for rule in [subdomain as NameRule, label, label_1035] {
            assert_eq!(rule("web-", true), None);
            assert!(rule("web-", false).is_some());
            assert!(rule("-", true).is_some());
            assert!(rule("Web-", true).is_some());
            assert!(rule("wé-", true).is_none() == rule("w", true).is_none());
        }
        assert_eq!(path_segment("..", true), None);
    }

    #[test]
    fn messages_are_those_of_kubernetes() {
        assert_eq!(
            subdomain("A", false).as_deref(),
            Some(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            )
        );
        assert_eq!(
            label("a_", false).as_deref(),
            Some(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            )
        );
        assert_eq!(label("a.b", false).as_deref(), Some("must not contain dots"));
        assert_eq!(label(&"a".repeat(64), false).as_deref(), Some("must be no more than 63 bytes"));
        assert_eq!(
            label_value("a b"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(path_segment("a/b", false).as_deref(), Some("may not contain '/'"));
        assert_eq!(path_segment("..", false).as_deref(), Some("may not be '..'"));
    }

    #[test]
    fn qualified_names_have_an_optional_prefix() {
        for text in ["a", "A.b_c-1", "example.com/a", "x.y/Z"] {
            assert_eq!(qualified(text), [""; 0], "{text}");
        }
        let begins = |text: &str| -> Vec<String> {
            qualified(text)
                .iter()
                .map(|fault| fault.split(" (").next().unwrap_or_default().to_owned())
                .collect()
        };
        let shape = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        assert_eq!(begins(""), ["name part must be non-empty", shape]);
        assert_eq!(begins("/a"), ["prefix part must be non-empty"]);
        assert_eq!(begins("a/"), ["name part must be non-empty", shape]);
        assert_eq!(begins("a/b/c").len(), 1);
        assert_eq!(begins("A/b").len(), 1);
        assert_eq!(begins(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert_eq!(begins("-a"), [shape]);
    }

    #[test]
    fn keys_ports_and_addresses_are_judged() {
        for (check, text, faults) in [
            (config_key as fn(&str) -> Vec<String>, "a.B_c-1", 0),
            (config_key, ".a", 0),
            (config_key, "", 1),
            (config_key, "a/b", 1),
            (config_key, "..a", 1),
            (config_key, "..", 1),
            (env_name, "A B", 0),
            (env_name, "1.a-b", 0),
            (env_name, "", 1),
            (env_name, "a=b", 1),
            (env_name, "a\nb", 1),
            (env_name, "ä", 1),
            (port_name, "http-2", 0),
            (port_name, "80", 1),
            (port_name, "", 2),
            (port_name, "a--b", 1),
            (port_name, "-a", 1),
            (port_name, "HTTP", 2),
            (port_name, "abcdefghijklmnop", 1),
            (ip, "10.0.0.1", 0),
            (ip, "::1", 0),
            (ip, "10.0.0", 1),
            (ip, "::ffff:1.2.3.4", 1),
            (ip, "1.2.3.4.", 1),
            (cidr, "10.0.0.0/8", 0),
            (cidr, "fd00::/64", 0),
            (cidr, "10.0.0.0/33", 1),
            (cidr, "10.0.0.0/+8", 1),
            (cidr, "10.0.0.0", 1),
            (wildcard_subdomain, "*.a.b", 0),
            (wildcard_subdomain, "*", 1),
            (wildcard_subdomain, "a.*.b", 1),
            (c_identifier, "_a1", 0),
            (c_identifier, "1a", 1),
            (header_name, "X-Y", 0),
            (header_name, "X Y", 1),
            (percent, "25%", 0),
            (percent, "%", 1),
            (percent, "-1%", 1),
        ] {
            assert_eq!(check(text).len(), faults, "{text}: {:?}", check(text));
        }
        assert_eq!(ip("010.0.0.1"), ["must not have leading 0s"]);
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    }
}
