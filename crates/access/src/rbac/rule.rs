//! One rule of a role.

use serde_json::{Value, json};

use crate::{Attributes, Wanted};

/// One rule of a role: every verb in it is allowed on everything else in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// What may be done; `*` is everything.
    pub verbs: Vec<String>,
    /// In which API groups; `*` is all of them.
    pub groups: Vec<String>,
    /// To which resources: `pods`, `pods/log`, `*/scale`, or `*`.
    pub resources: Vec<String>,
    /// To which objects; none are all of them.
    pub names: Vec<String>,
    /// On which paths; a `*` at the end stands for whatever follows.
    pub paths: Vec<String>,
}

impl Rule {
    /// Everything that can be done to objects.
    pub fn all_resources() -> Self {
        let all = || vec!["*".to_owned()];
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() }
    }

    /// Everything that can be done to paths.
    pub fn all_paths() -> Self {
        let all = || vec!["*".to_owned()];
        Rule { verbs: all(), paths: all(), ..Rule::default() }
    }

    /// As it stands in a role. What is not text is not there.
    pub fn from_json(value: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let list = value.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// As it stands in a role.
    pub fn to_json(&self) -> Value {
        let mut rule = json!({"verbs": self.verbs});
        let fields = [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ];
        for (field, values) in fields.into_iter().filter(|(_, values)| !values.is_empty()) {
            rule[field] = json!(values);
        }
        rule
    }

    /// Whether it is about paths.
    pub fn is_about_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether it allows this.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has_or_all(&self.verbs, attributes.verb)
            && match attributes.wanted {
                Wanted::Path(path) => self.paths.iter().any(|own| path_covers(own, path)),
                Wanted::Resource { group, resource, subresource, name, .. } => {
                    has_or_all(&self.groups, group)
                        && self.resources.iter().any(|own| is_resource(own, resource, subresource))
                        && (self.names.is_empty() || self.names.iter().any(|own| own == name))
                }
            }
    }
}

/// Whether a list names this, or everything.
pub(super) fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == "*" || own == wanted)
}

/// Whether a path, perhaps with a `*` at its end, takes in another.
pub(super) fn path_covers(own: &str, wanted: &str) -> bool {
    own == wanted
        || own.strip_suffix('*').is_some_and(|start| wanted.starts_with(start.trim_end_matches('*')))
}

/// Whether a resource of a rule is this one.
fn is_resource(own: &str, resource: &str, subresource: &str) -> bool {
    if own == "*" {
        return true;
    }
    match own.split_once('/') {
        None => subresource.is_empty() && own == resource,
        Some((main, sub)) => {
            !subresource.is_empty() && sub == subresource && (main == "*" || main == resource)
        }
    }
}
