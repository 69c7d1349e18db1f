//! JSON patches (RFC 6902), with bounds on what they can make of an object.

use std::io;

use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchErrorKind, PatchOperation, RemoveOperation,
    ReplaceOperation, TestOperation,
    jsonptr::{Pointer, PointerBuf},
};
use serde::Deserialize;
use serde_json::Value;

use super::{DEPTH, PatchError, short};
use crate::object::Object;

/// Most operations in one patch, as Kubernetes has it.
const OPERATIONS: usize = 10_000;

/// Most bytes that all `copy` operations of one patch may add. Each could double the object otherwise.
const COPIED: usize = 3 << 20;

/// Most values that all operations of one patch may shift or look through. An insertion moves all that comes
/// after it in its list, so that ten thousand of them into a long list would take minutes.
const WORK: usize = 30_000_000;

/// Applies a JSON patch to an object. Nothing of `target` changes; what comes out is another object.
pub fn json_patch(target: &Object, patch: &[u8]) -> Result<Object, PatchError> {
    let operations: Option<Vec<Option<Operation>>> = serde_json::from_slice(patch)
        .map_err(|error| PatchError::Malformed(format!("invalid JSON patch: {error}")))?;
    let operations = operations.unwrap_or_default();
    if operations.len() > OPERATIONS {
        return Err(PatchError::TooManyOperations { got: operations.len(), most: OPERATIONS });
    }
    let mut document = Value::Object(target.clone());
    let mut spent = Spent::default();
    for operation in operations {
        let operation = operation.unwrap_or_default().on(&document)?;
        if holds_for_absent(&document, &operation) {
            continue;
        }
        spent.account(&document, &operation)?;
        json_patch::patch_unsafe(&mut document, std::slice::from_ref(&operation))
            .map_err(|error| explain(&operation, &error.kind))?;
    }
    match document {
        Value::Object(object) => Ok(object),
        _ => Err(PatchError::Inapplicable("the patch leaves something that is not an object".to_owned())),
    }
}

/// An operation as it was sent. Kubernetes minds what is missing in it only when it is carried out.
#[derive(Default, Deserialize)]
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    #[serde(default)]
    value: Value,
}

impl Operation {
    /// What it means for this document: replacing what an object does not have adds it, and copying what an object
    /// does not have sets nothing there, as in Kubernetes.
    fn on(self, document: &Value) -> Result<PatchOperation, PatchError> {
        let path = pointer("path", self.path)?;
        let value = self.value;
        Ok(match self.op.as_deref().unwrap_or_default() {
            "add" => PatchOperation::Add(AddOperation { path, value }),
            "replace" if is_absent(document, &path) => PatchOperation::Add(AddOperation { path, value }),
            "replace" => PatchOperation::Replace(ReplaceOperation { path, value }),
            "remove" => PatchOperation::Remove(RemoveOperation { path }),
            "test" => PatchOperation::Test(TestOperation { path, value }),
            "move" => PatchOperation::Move(MoveOperation { from: pointer("from", self.from)?, path }),
            "copy" => match pointer("from", self.from)? {
                from if is_absent(document, &from) => {
                    PatchOperation::Add(AddOperation { path, value: Value::Null })
                }
                from => PatchOperation::Copy(CopyOperation { from, path }),
            },
            other => return Err(PatchError::Inapplicable(format!("Unexpected kind: {:?}", short(other)))),
        })
    }
}

fn pointer(field: &str, text: Option<String>) -> Result<PointerBuf, PatchError> {
    let text = text.ok_or_else(|| PatchError::Inapplicable(format!("operation without {field}")))?;
    if !text.is_empty() && !text.starts_with('/') {
        return Err(PatchError::Inapplicable(format!("{field} must be empty or start with a slash")));
    }
    PointerBuf::parse(text).map_err(|_| {
        PatchError::Inapplicable(format!("{field} is not a JSON pointer: '~' is not followed by 0 or 1"))
    })
}

/// Whether this is a field of an object that is there, and which does not have it.
fn is_absent(document: &Value, path: &Pointer) -> bool {
    path.split_back().is_some_and(|(parent, field)| {
        let parent = document.pointer(parent.as_str()).and_then(Value::as_object);
        parent.is_some_and(|parent| !parent.contains_key(field.decoded().as_ref()))
    })
}

/// What the operations so far have cost.
#[derive(Default)]
struct Spent {
    copied: usize,
    work: usize,
}

impl Spent {
    /// Counts what an operation is about to do, and refuses it when it is too much.
    fn account(&mut self, document: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
        let (from, value) = match operation {
            PatchOperation::Add(add) => (None, Some(&add.value)),
            PatchOperation::Replace(replace) => (None, Some(&replace.value)),
            PatchOperation::Move(from) => (Some(&from.from), document.pointer(from.from.as_str())),
            PatchOperation::Copy(from) => (None, document.pointer(from.from.as_str())),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
        };
        self.work += shifted(document, operation.path()) + from.map_or(0, |from| shifted(document, from));
        if let Some(value) = value {
            let below = levels(value, &mut self.work);
            if operation.path().count() + below > DEPTH {
                return Err(PatchError::TooLarge(format!("the patch nests more than {DEPTH} levels")));
            }
            if let PatchOperation::Copy(_) = operation {
                self.copied += length(value);
            }
        }
        if self.copied > COPIED {
            return Err(PatchError::TooLarge(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {COPIED}",
                self.copied
            )));
        }
        if self.work > WORK {
            return Err(PatchError::TooLarge("the patch changes long lists too often".to_owned()));
        }
        Ok(())
    }
}

/// How many entries of a list move when one is put in or taken out at `path`.
fn shifted(document: &Value, path: &Pointer) -> usize {
    let Some((parent, _)) = path.split_back() else { return 0 };
    document.pointer(parent.as_str()).and_then(Value::as_array).map_or(0, Vec::len)
}

/// How many levels a value has: none for a scalar.
fn levels(value: &Value, work: &mut usize) -> usize {
    *work += 1;
    match value {
        Value::Array(list) => 1 + list.iter().map(|value| levels(value, work)).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(|value| levels(value, work)).max().unwrap_or(0),
        _ => 0,
    }
}

/// How many bytes a value has as JSON.
fn length(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("a value can always be written");
    count.0
}

/// Whether this is a test for `null` of a field that is absent, which Kubernetes lets pass.
fn holds_for_absent(document: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    test.value.is_null() && is_absent(document, &test.path)
}

fn explain(operation: &PatchOperation, kind: &PatchErrorKind) -> PatchError {
    let path = short(operation.path().as_str());
    let verb = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => return PatchError::TestFailed(path.to_owned()),
    };
    let from = match operation {
        PatchOperation::Move(from) => short(from.from.as_str()),
        PatchOperation::Copy(from) => short(from.from.as_str()),
        _ => path,
    };
    PatchError::Inapplicable(match kind {
        PatchErrorKind::InvalidPointer => {
            format!("{verb} operation does not apply: doc is missing path: {path}: missing value")
        }
        PatchErrorKind::InvalidFromPointer => {
            format!("{verb} operation does not apply: doc is missing from path: {from}: missing value")
        }
        other => format!("{verb} operation does not apply: {path}: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(target: &Value, patch: &Value) -> Result<Value, PatchError> {
        json_patch(target.as_object().unwrap(), patch.to_string().as_bytes()).map(Value::Object)
    }

    #[test]
    fn every_operation_does_what_the_standard_says() {
        let target = json!({"a": 1, "l": [1, 2], "m": {"x/y": {"~": "z"}}});
        let cases = [
            (json!([]), target.clone()),
            (
                json!([{"op": "add", "path": "/l/-", "value": 3}, {"op": "add", "path": "/l/0", "value": 0}]),
                json!({"a": 1, "l": [0, 1, 2, 3], "m": {"x/y": {"~": "z"}}}),
            ),
            (json!([{"op": "remove", "path": "/m/x~1y/~0"}]), json!({"a": 1, "l": [1, 2], "m": {"x/y": {}}})),
            (
                json!([{"op": "replace", "path": "/a", "value": null}, {"op": "remove", "path": "/m"}]),
                json!({"a": null, "l": [1, 2]}),
            ),
            (
                json!([{"op": "move", "from": "/m/x~1y", "path": "/l/1"}]),
                json!({"a": 1, "l": [1, {"~": "z"}, 2], "m": {}}),
            ),
            (
                json!([{"op": "test", "path": "/l", "value": [1, 2]}, {"op": "copy", "from": "/l", "path": "/a"}]),
                json!({"a": [1, 2], "l": [1, 2], "m": {"x/y": {"~": "z"}}}),
            ),
            (json!([{"op": "add", "path": "", "value": {"b": 1}}]), json!({"b": 1})),
            (json!([{"op": "test", "path": "/absent", "value": null}]), target.clone()),
        ];
        for (patch, expected) in cases {
            assert_eq!(apply(&target, &patch).as_ref(), Ok(&expected), "{patch}");
        }
    }

    #[test]
    fn failures_tell_what_to_answer() {
        let target = json!({"a": 1, "l": [1]});
        let cases = [
            (json!({"op": "add"}), 400),
            (json!([5]), 400),
            (json!([{"op": 5, "path": "/a"}]), 400),
            (json!([{"op": "add", "path": 5}]), 400),
            (json!([null]), 422),
            (json!([{}]), 422),
            (json!([{"op": "put", "path": "/a", "value": 1}]), 422),
            (json!([{"op": "ADD", "path": "/a", "value": 1}]), 422),
            (json!([{"op": "move", "path": "/a"}]), 422),
            (json!([{"op": "add", "path": "a", "value": 1}]), 422),
            (json!([{"op": "add", "path": "/b/c", "value": 1}]), 422),
            (json!([{"op": "add", "path": "/l/7", "value": 1}]), 422),
            (json!([{"op": "add", "path": "/l/x", "value": 1}]), 422),
            (json!([{"op": "remove", "path": "/b"}]), 422),
            (json!([{"op": "remove", "path": ""}]), 422),
            (json!([{"op": "replace", "path": "/b/c", "value": 1}]), 422),
            (json!([{"op": "replace", "path": "/l/1", "value": 1}]), 422),
            (json!([{"op": "move", "from": "/b", "path": "/c"}]), 422),
            (json!([{"op": "move", "from": "/l", "path": "/l/0"}]), 422),
            (json!([{"op": "copy", "from": "/b/c", "path": "/c"}]), 422),
            (json!([{"op": "test", "path": "/a"}]), 422),
            (json!([{"op": "test", "path": "/a", "value": 2}]), 422),
            (json!([{"op": "test", "path": "/b/c", "value": null}]), 422),
            (json!([{"op": "replace", "path": "", "value": 1}]), 422),
        ];
        for (patch, code) in cases {
            assert_eq!(apply(&target, &patch).map_err(|error| error.code()), Err(code), "{patch}");
        }
        let failed = apply(&target, &json!([{"op": "test", "path": "/b", "value": 2}]));
        assert_eq!(failed, Err(PatchError::TestFailed("/b".to_owned())));
        let missing = apply(&target, &json!([{"op": "remove", "path": "/b"}])).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "remove operation does not apply: doc is missing path: /b: missing value"
        );
    }

    #[test]
    fn what_is_missing_is_taken_as_kubernetes_takes_it() {
        let target = json!({"a": 1, "m": {}});
        let cases = [
            (json!(null), target.clone()),
            (json!([{"op": "add", "path": "/b"}]), json!({"a": 1, "b": null, "m": {}})),
            (json!([{"op": "replace", "path": "/m/x", "value": 2}]), json!({"a": 1, "m": {"x": 2}})),
            (json!([{"op": "copy", "from": "/m/x", "path": "/a"}]), json!({"a": null, "m": {}})),
        ];
        for (patch, expected) in cases {
            assert_eq!(apply(&target, &patch).as_ref(), Ok(&expected), "{patch}");
        }
    }

    #[test]
    fn ten_thousand_operations_are_enough() {
        let one = json!({"op": "replace", "path": "/a", "value": 2});
        let target = json!({"a": 1});
        assert_eq!(apply(&target, &json!(vec![&one; 10_000])), Ok(json!({"a": 2})));
        let error = apply(&target, &json!(vec![&one; 10_001])).unwrap_err();
        assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
    }

    #[test]
    fn copies_cannot_blow_up_an_object() {
        let doubled: Vec<Value> =
            (0..40).map(|_| json!({"op": "copy", "from": "/l", "path": "/l/-"})).collect();
        let error = apply(&json!({"l": ["0123456789"]}), &json!(doubled)).unwrap_err();
        assert_eq!(error.code(), 413, "{error}");
    }

    #[test]
    fn moves_cannot_nest_an_object_deeper_than_it_can_be_read() {
        let mut target = Object::new();
        for index in 0..200 {
            target.insert(format!("k{index}"), json!({"a": {}}));
        }
        let moves: Vec<Value> = (0..199)
            .map(|index| json!({"op": "move", "from": format!("/k{index}"), "path": format!("/k{}/a/b", index + 1)}))
            .collect();
        let error = apply(&Value::Object(target), &json!(moves)).unwrap_err();
        assert_eq!(error.code(), 413, "{error}");
    }

    #[test]
    fn long_lists_cannot_be_shifted_for_ever() {
        let target = json!({"l": vec![0; 10_000]});
        let inserts = vec![json!({"op": "add", "path": "/l/0", "value": 1}); 5_000];
        let error = apply(&target, &json!(inserts)).unwrap_err();
        assert_eq!(error.code(), 413, "{error}");
    }
}
