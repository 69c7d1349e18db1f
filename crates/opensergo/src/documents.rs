//! Rules as people write them down: YAML or JSON, several in a file, also in lists.

use kube::api::DynamicObject;
use serde_json::{Map, Value};
use windlass_machinery::decode::decode_yaml;

use crate::topic::KindId;

/// What is in a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoRules(String);

/// All rules in a text.
pub fn rules_in(text: &str) -> Result<Vec<(KindId, DynamicObject)>, NoRules> {
    let mut rules = vec![];
    for document in documents(text) {
        let decoded = decode_yaml(document.as_bytes()).map_err(|error| NoRules(error.to_string()))?;
        if let Some(path) = decoded.duplicates.first() {
            return Err(NoRules(format!("{path} is given twice")));
        }
        let objects = match decoded.object.get("items") {
            Some(Value::Array(items)) => items.clone(),
            _ => vec![Value::Object(decoded.object)],
        };
        for object in objects {
            rules.push(rule(object)?);
        }
    }
    Ok(rules)
}

fn rule(mut object: Value) -> Result<(KindId, DynamicObject), NoRules> {
    let word = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let id = format!("{}/{}", word("apiVersion"), word("kind"));
    let Some(kind) = KindId::find(&id) else {
        let known: Vec<String> = KindId::all().map(|kind| kind.kind().id()).collect();
        return Err(NoRules(format!("{id}: expected one of these kinds:\n  {}", known.join("\n  "))));
    };
    // What is wrong with the rest is said by the translation, with its path.
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_else(|| Value::Object(Map::new()));
    let metadata =
        serde_json::from_value(metadata).map_err(|error| NoRules(format!("{id}: metadata: {error}")))?;
    Ok((kind, DynamicObject { types: None, metadata, data: object }))
}

/// The documents of a text that say anything. Each begins in the line that it has in the text, so that errors name it.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for (idx, line) in text.lines().enumerate() {
        let after = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if after.is_some() {
            documents.push("\n".repeat(idx));
        }
        if let Some(document) = documents.last_mut() {
            document.push_str(after.unwrap_or(line));
            document.push('\n');
        }
    }
    let says = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    documents.retain(|document| document.lines().any(says));
    documents
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;

    #[test]
    fn documents_are_told_apart_and_keep_their_lines() {
        for (text, expected) in [
            ("", vec![]),
            ("# nothing\n---\n \n", vec![]),
            ("a: 1", vec!["a: 1\n"]),
            ("a: 1\n---\nb: 2\n", vec!["a: 1\n", "\n\nb: 2\n"]),
            ("---\na: |\n  ---\n---  {b: 2}\n", vec!["\na: |\n  ---\n", "\n\n\n  {b: 2}\n"]),
            ("---a: 1\n", vec!["---a: 1\n"]),
        ] {
            assert_eq!(documents(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lists_have_rules_in_them() {
        let text = "kind: List\nitems:\n- {apiVersion: fault-tolerance.opensergo.io/v1alpha1, \
            kind: RateLimitStrategy, metadata: {name: a, namespace: b}}\n";
        let rules = rules_in(text).expect("rules");
        let names: Vec<_> = rules.iter().map(|(kind, rule)| (kind.kind().kind, rule.name_any())).collect();
        assert_eq!(names, [("RateLimitStrategy", "a".to_owned())]);
    }

    #[test]
    fn other_kinds_are_refused_with_those_there_are() {
        let text = rules_in("apiVersion: v1\nkind: Pod\n").expect_err("no rule").to_string();
        assert!(text.starts_with("v1/Pod: expected one of"), "{text}");
        assert!(text.contains("fault-tolerance.opensergo.io/v1alpha1/FaultToleranceRule"), "{text}");
    }
}
