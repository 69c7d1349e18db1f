//! Rules as people write them down: YAML or JSON, several in a file, also in lists.

use kube::api::DynamicObject;
use serde_json::{Map, Value};
use windlass_machinery::decode::{Decoded, decode_yaml};

use crate::topic::KindId;

/// What begins a document.
const SEPARATOR: &str = "---";

/// What is in a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoRules(String);

/// All rules in a text.
pub fn rules_in(text: &str) -> Result<Vec<(KindId, DynamicObject)>, NoRules> {
    let mut rules = vec![];
    for document in documents(text) {
        let decoded = document.decode()?;
        if let Some(path) = decoded.duplicates.first() {
            return Err(NoRules(format!("{path} is given twice")));
        }
        for object in objects(decoded.object)? {
            rules.push(rule(object)?);
        }
    }
    Ok(rules)
}

/// What is in a list, or the object itself if it is none.
fn objects(mut object: Map<String, Value>) -> Result<Vec<Value>, NoRules> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !kind.ends_with("List") {
        return Ok(vec![Value::Object(object)]);
    }
    match object.remove("items") {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(NoRules("items: expected a list of rules".to_owned())),
    }
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

/// A document of a text.
#[derive(Debug, PartialEq, Eq)]
struct Document<'a> {
    /// How many lines of the text are before it.
    n_before: usize,
    text: &'a str,
}

impl Document<'_> {
    fn decode(&self) -> Result<Decoded, NoRules> {
        decode_yaml(self.text.as_bytes()).map_err(|error| {
            // Errors name a line, which has to be that of the whole text. Only what is broken is worth that many empty ones.
            let in_place = "\n".repeat(self.n_before) + self.text;
            NoRules(decode_yaml(in_place.as_bytes()).err().unwrap_or(error).to_string())
        })
    }

    fn says_anything(&self) -> bool {
        self.text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    }
}

/// The documents of a text that say anything.
fn documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = vec![];
    let (mut n_before, mut begin, mut end) = (0, 0, 0);
    for (idx, line) in text.split_inclusive('\n').enumerate() {
        let after = line.strip_prefix(SEPARATOR);
        if after.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])) {
            documents.push(Document { n_before, text: &text[begin..end] });
            (n_before, begin) = (idx, end + SEPARATOR.len());
        }
        end += line.len();
    }
    documents.push(Document { n_before, text: &text[begin..] });
    documents.retain(Document::says_anything);
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
            ("a: 1", vec![(0, "a: 1")]),
            ("a: 1\n---\nb: 2\n", vec![(0, "a: 1\n"), (1, "\nb: 2\n")]),
            ("a: 1\r\n---\r\nb: 2\r\n", vec![(0, "a: 1\r\n"), (1, "\r\nb: 2\r\n")]),
            ("---\na: |\n  ---\n---  {b: 2}\n", vec![(0, "\na: |\n  ---\n"), (3, "  {b: 2}\n")]),
            ("a: 1\n---", vec![(0, "a: 1\n")]),
            ("---a: 1\n", vec![(0, "---a: 1\n")]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(n_before, text)| Document { n_before, text }).collect();
            assert_eq!(documents(text), expected, "{text:?}");
        }
    }

    /// This many rules, each in three lines.
    fn many(n_rules: usize) -> String {
        let rule = |idx| {
            format!(
                "---\n{{apiVersion: fault-tolerance.opensergo.io/v1alpha1, kind: RateLimitStrategy,\n\
                 metadata: {{name: limit-{idx}}}}}\n"
            )
        };
        (0..n_rules).map(rule).collect()
    }

    #[test]
    fn a_text_may_have_very_many_documents() {
        assert_eq!(rules_in(&many(10_000)).expect("rules").len(), 10_000);
    }

    #[test]
    fn what_is_broken_late_in_a_text_is_named_with_its_line() {
        for (broken, line) in [("---\n\n}\n", 303), ("--- }\n", 301), ("---\na: 1\n b: 2\n", 303)] {
            let error = rules_in(&(many(100) + broken)).expect_err("broken").to_string();
            assert!(error.contains(&format!("line {line}")), "{broken:?}: {error}");
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
    fn only_lists_are_lists() {
        let of = |kind: &str| {
            format!(
                "{{apiVersion: fault-tolerance.opensergo.io/v1alpha1, kind: {kind}, metadata: {{name: a}}, items: []}}"
            )
        };
        assert_eq!(
            rules_in(&of("RateLimitStrategy")).expect("a rule").len(),
            1,
            "a field more does not hide a rule"
        );
        assert_eq!(rules_in(&of("RateLimitStrategyList")).expect("a list").len(), 0);
        let error = rules_in("kind: List\nitems: {}\n").expect_err("no list").to_string();
        assert_eq!(error, "items: expected a list of rules");
    }

    #[test]
    fn other_kinds_are_refused_with_those_there_are() {
        let text = rules_in("apiVersion: v1\nkind: Pod\n").expect_err("no rule").to_string();
        assert!(text.starts_with("v1/Pod: expected one of"), "{text}");
        assert!(text.contains("fault-tolerance.opensergo.io/v1alpha1/FaultToleranceRule"), "{text}");
    }
}
