//! The `fieldPath` of a rule: `.spec.name`, `.labels['a.b']`, held against the schema.

use serde_json::Value;

/// The path as messages have it; `None` when it leads nowhere.
pub(super) fn normalize(path: &str, schema: &Value) -> Option<String> {
    let mut schema = schema;
    let mut normal = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('.') {
            Some(after) => {
                let end = after.find(['.', '[', ']']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
            None => quoted(rest.strip_prefix("['")?)?,
        };
        if name.is_empty() {
            return None;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        if let Some(properties) = properties {
            schema = properties.get(&name)?;
            if !normal.is_empty() {
                normal.push('.');
            }
            normal.push_str(&name);
        } else {
            schema = schema.get("additionalProperties").filter(|schema| schema.is_object())?;
            normal.push_str(&format!("[{name}]"));
        }
        rest = after;
    }
    Some(normal)
}

/// What stands between the quotes, and what follows the bracket.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, character)) = chars.next() {
        match character {
            '\'' => return Some((name, text[at + 1..].strip_prefix(']')?)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                other @ ('\'' | '\\') => other,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_what_the_schema_has() {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a.b": {"type": "string"}, "it's": {"type": "string"}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "string"}},
            },
        });
        for (path, normal) in [
            ("", Some("")),
            (".spec", Some("spec")),
            (".spec['a.b']", Some("spec.a.b")),
            ("['spec']", Some("spec")),
            (".spec['it\\'s']", Some("spec.it's")),
            (".labels.x", Some("labels[x]")),
            (".labels['x.y']", Some("labels[x.y]")),
            ("spec", None),
            (".", None),
            (".other", None),
            (".spec.other", None),
            (".list[0]", None),
            (".spec['a.b'", None),
            (".spec['a.b", None),
            (".spec[a]", None),
            (".labels.x.y", None),
        ] {
            assert_eq!(normalize(path, &schema).as_deref(), normal, "{path}");
        }
    }
}
