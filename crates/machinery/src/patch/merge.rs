//! Merge patches (RFC 7386).

use serde_json::Value;

use super::DEPTH;
use crate::object::{Object, child_mut};

/// Merges a merge patch into an object: maps field by field, `null` removes, everything else replaces.
pub fn merge_patch(target: &mut Object, patch: &Object) {
    merge(target, patch, 1);
}

fn merge(target: &mut Object, patch: &Object, depth: usize) {
    for (field, value) in patch {
        match value {
            Value::Null => drop(target.remove(field)),
            // No parser gives more levels than this. If one did, what is below is taken as it is.
            Value::Object(patch) if depth < DEPTH => merge(child_mut(target, field), patch, depth + 1),
            other => drop(target.insert(field.clone(), other.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_merge_as_the_examples_of_the_standard() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({"a": "foo"}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (target, patch, expected) in cases {
            let mut merged = target.as_object().unwrap().clone();
            merge_patch(&mut merged, patch.as_object().unwrap());
            assert_eq!(Value::Object(merged), expected, "{target} + {patch}");
        }
    }

    #[test]
    fn a_patch_of_any_depth_is_merged_without_overflow() {
        let mut patch = json!({"end": true});
        for _ in 0..1000 {
            patch = json!({ "a": patch });
        }
        let mut target = Object::new();
        merge_patch(&mut target, patch.as_object().unwrap());
        assert_eq!(Value::Object(target), patch);
    }
}
