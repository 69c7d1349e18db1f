//! The shape of an `AuthenticationConfiguration`: which fields there are, and of which kind.
//!
//! One table, held against the file before anything else looks at it, so that a field that is misspelt is told and
//! never ignored.

use serde_json::Value;
use windlass_machinery::field::{Errors, Fault};

/// What a field may hold. A null is a field that is not there.
pub(super) enum Shape {
    Text,
    Flag,
    List(&'static Shape),
    Fields(&'static [(&'static str, Shape)]),
}

use self::Shape::{Fields, Flag, List, Text};

/// Everything that can be written.
pub(super) const CONFIGURATION: Shape = Fields(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("jwt", List(&JWT)),
    ("anonymous", Fields(&[("enabled", Flag), ("conditions", List(&Fields(&[("path", Text)])))])),
]);

const JWT: Shape = Fields(&[
    (
        "issuer",
        Fields(&[
            ("url", Text),
            ("discoveryURL", Text),
            ("certificateAuthority", Text),
            ("audiences", List(&Text)),
            ("audienceMatchPolicy", Text),
            ("egressSelectorType", Text),
        ]),
    ),
    (
        "claimValidationRules",
        List(&Fields(&[("claim", Text), ("requiredValue", Text), ("expression", Text), ("message", Text)])),
    ),
    (
        "claimMappings",
        Fields(&[
            ("username", PREFIXED),
            ("groups", PREFIXED),
            ("uid", Fields(&[("claim", Text), ("expression", Text)])),
            ("extra", List(&Fields(&[("key", Text), ("valueExpression", Text)]))),
        ]),
    ),
    ("userValidationRules", List(&Fields(&[("expression", Text), ("message", Text)]))),
]);

const PREFIXED: Shape = Fields(&[("claim", Text), ("prefix", Text), ("expression", Text)]);

impl Shape {
    /// Finds what does not fit, and takes out what is null.
    pub(super) fn hold(&self, value: &mut Value, found: &mut Found) {
        let expected = match (self, value) {
            (Text, Value::String(_)) | (Flag, Value::Bool(_)) => return,
            (List(item), Value::Array(list)) => {
                for (index, value) in list.iter_mut().enumerate() {
                    found.below(format!("[{index}]"), |found| item.hold(value, found));
                }
                return;
            }
            (Fields(known), Value::Object(object)) => {
                object.retain(|_, value| !value.is_null());
                for (name, value) in object.iter_mut() {
                    let shape = known.iter().find(|(own, _)| own == name);
                    found.below(format!(".{name}"), |found| match shape {
                        Some((_, shape)) => shape.hold(value, found),
                        None => found.unknown.push(format!("unknown field {:?}", found.place())),
                    });
                }
                return;
            }
            (Text, _) => "must be a string",
            (Flag, _) => "must be true or false",
            (List(_), _) => "must be a list",
            (Fields(_), _) => "must be an object",
        };
        let place = found.place().to_owned();
        found.errors.push(Fault::TypeInvalid, &place, String::new(), expected);
    }
}

/// What does not fit.
#[derive(Default)]
pub(super) struct Found {
    path: String,
    pub(super) unknown: Vec<String>,
    pub(super) errors: Errors,
}

impl Found {
    fn below(&mut self, step: String, look: impl FnOnce(&mut Self)) {
        let len = self.path.len();
        self.path.push_str(&step);
        look(self);
        self.path.truncate(len);
    }

    fn place(&self) -> &str {
        self.path.trim_start_matches('.')
    }
}
