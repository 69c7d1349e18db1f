//! Names of fields as expressions write them: what CEL cannot spell is escaped as Kubernetes does.

/// Words that CEL keeps for itself.
pub(crate) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const SEQUENCES: [(&str, &str); 4] = [("__", "underscores"), (".", "dot"), ("-", "dash"), ("/", "slash")];

/// The name by which an expression reads a field; `None` when it cannot.
///
/// ```
/// use windlass_cel::escape;
/// assert_eq!(escape("my-prop").as_deref(), Some("my__dash__prop"));
/// assert_eq!(escape("namespace").as_deref(), Some("__namespace__"));
/// assert_eq!(escape("$ref"), None);
/// ```
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some((plain, word)) = SEQUENCES.iter().find(|(plain, _)| rest.starts_with(plain)) {
            escaped.push_str("__");
            escaped.push_str(word);
            escaped.push_str("__");
            rest = &rest[plain.len()..];
        } else if first.is_ascii_alphanumeric() || first == '_' {
            escaped.push(first);
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(escaped)
}

/// The name of the field that an expression reads by an escaped name; `None` for a broken escape.
pub fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(first) = rest.chars().next() {
        if let Some((word, after)) = sequence(rest) {
            match SEQUENCES.iter().find(|(_, known)| *known == word) {
                Some((plain, _)) => name.push_str(plain),
                // A word is escaped only as a whole.
                None if RESERVED.contains(&word) && word.len() + 4 == escaped.len() => name.push_str(word),
                None => return None,
            }
            rest = after;
        } else {
            name.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Some(name)
}

/// The word of `__word__` at the beginning of a text, and what comes after.
fn sequence(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("__")?;
    let end = inner.find('_').filter(|end| *end > 0)?;
    Some((&inner[..end], inner[end..].strip_prefix("__")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_come_back() {
        for (name, escaped) in [
            ("plain", Some("plain")),
            ("with_one", Some("with_one")),
            ("redact__d", Some("redact__underscores__d")),
            ("x-prop", Some("x__dash__prop")),
            ("a.b", Some("a__dot__b")),
            ("k8s.io/name", Some("k8s__dot__io__slash__name")),
            ("namespace", Some("__namespace__")),
            ("int", Some("int")),
            ("string", Some("string")),
            ("____", Some("__underscores____underscores__")),
            ("___", Some("__underscores___")),
            ("", None),
            ("1a", None),
            ("a b", None),
            ("$ref", None),
            ("é", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        }
        for broken in ["__nothing__", "a__namespace__", "__namespace__b"] {
            assert_eq!(unescape(broken), None, "{broken}");
        }
    }
}
