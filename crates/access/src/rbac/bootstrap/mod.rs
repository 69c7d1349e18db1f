//! The roles and bindings that every server has, as the objects they are, and how they are kept.
//!
//! They carry a label by which they are known and an annotation by which they are kept: what is missing of them is added
//! when a server starts, unless the annotation says `false`. What people have added stays.

mod table;

use serde_json::{Map, Value, json};
use windlass_machinery::object::{self, Object, child_mut, list_at, metadata_mut, str_at};

use self::table::{BINDINGS, Given, ROLES, Row};
use super::{GROUP, Missing, Rule, missing};

const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// Whether what is missing of an object may be added.
const KEPT: (&str, &str) = ("rbac.authorization.kubernetes.io/autoupdate", "true");

/// An object that every server has.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    /// The plural of its resource.
    pub plural: &'static str,
    /// The namespace; empty for the cluster.
    pub namespace: &'static str,
    /// The object.
    pub object: Object,
}

/// All roles and bindings that every server has; roles come before what refers to them.
pub fn all() -> Vec<BuiltIn> {
    let roles = ROLES.iter().map(|role| {
        let mut labels = Map::from_iter([(LABEL.0.to_owned(), LABEL.1.into())]);
        labels.extend(role.part_of.iter().map(|whole| (aggregation_label(whole), "true".into())));
        let rules: Vec<Value> = role.rules.iter().map(|row| row.rule().to_json()).collect();
        let mut object = begin(role.namespace, role.name, labels);
        if !role.made_of.is_empty() {
            let selectors: Vec<Value> = (role.made_of.iter())
                .map(|whole| json!({"matchLabels": {aggregation_label(whole): "true"}}))
                .collect();
            object.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": selectors}));
        }
        object.insert("rules".to_owned(), rules.into());
        let plural = if role.namespace.is_empty() { "clusterroles" } else { "roles" };
        BuiltIn { plural, namespace: role.namespace, object }
    });
    let bindings = BINDINGS.iter().map(|binding| {
        let labels = Map::from_iter([(LABEL.0.to_owned(), LABEL.1.into())]);
        let mut object = begin(binding.namespace, binding.name, labels);
        let is_cluster = binding.namespace.is_empty();
        let kind = if is_cluster { "ClusterRole" } else { "Role" };
        object.insert("roleRef".to_owned(), json!({"apiGroup": GROUP, "kind": kind, "name": binding.role}));
        let subjects: Vec<Value> = binding.to.iter().map(Given::to_json).collect();
        if !subjects.is_empty() {
            object.insert("subjects".to_owned(), subjects.into());
        }
        let plural = if is_cluster { "clusterrolebindings" } else { "rolebindings" };
        BuiltIn { plural, namespace: binding.namespace, object }
    });
    roles.chain(bindings).collect()
}

fn aggregation_label(whole: &str) -> String {
    format!("{GROUP}/aggregate-to-{whole}")
}

fn begin(namespace: &str, name: &str, labels: Map<String, Value>) -> Object {
    let mut metadata = json!({"name": name, "labels": labels, "annotations": {KEPT.0: KEPT.1}});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    Object::from_iter([("metadata".to_owned(), metadata)])
}

/// What is to be done about an object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It is as it should be, or its owner wants it as it is.
    Nothing,
    /// It should be this.
    Update(Object),
    /// It gives another role, which cannot be changed: it is to be made anew.
    Replace,
}

/// Holds an object that is there against the one that every server has.
pub fn repair(present: &Object, wanted: &Object) -> Repair {
    if str_at(present, &["metadata", "annotations", KEPT.0]) == Some("false") {
        return Repair::Nothing;
    }
    if wanted.contains_key("roleRef") && !has_same_role(present, wanted) {
        return Repair::Replace;
    }
    let mut new = present.clone();
    for field in ["labels", "annotations"] {
        let ours = object::metadata(wanted).get(field).and_then(Value::as_object);
        for (key, value) in ours.into_iter().flatten() {
            let theirs = child_mut(metadata_mut(&mut new), field);
            theirs.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    add_rules(&mut new, wanted);
    add_all(&mut new, wanted, &["subjects"]);
    add_all(&mut new, wanted, &["aggregationRule", "clusterRoleSelectors"]);
    if new == *present { Repair::Nothing } else { Repair::Update(new) }
}

fn has_same_role(present: &Object, wanted: &Object) -> bool {
    ["kind", "name"]
        .iter()
        .all(|field| str_at(present, &["roleRef", field]) == str_at(wanted, &["roleRef", field]))
}

/// Adds the rules that the others do not take in. The rules of a role that is made of others come from there.
fn add_rules(new: &mut Object, wanted: &Object) {
    let rules =
        |object: &Object| -> Vec<Rule> { list_at(object, &["rules"]).iter().map(Rule::from_json).collect() };
    if let Some(Missing::Rules(lacking)) = missing(&rules(new), &rules(wanted)) {
        let mut all = list_at(new, &["rules"]).to_vec();
        all.extend(lacking.iter().map(Rule::to_json));
        new.insert("rules".to_owned(), all.into());
    }
}

/// Adds the items of a list that are not in it.
fn add_all(new: &mut Object, wanted: &Object, path: &[&str]) {
    let mut all = list_at(new, path).to_vec();
    let n_before = all.len();
    for item in list_at(wanted, path) {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    if all.len() > n_before {
        object::set_at(new, path, Some(all.into()));
    }
}

impl Row {
    fn rule(&self) -> Rule {
        let words = |text: &str| -> Vec<String> {
            let word = |word: &str| if word == "core" { String::new() } else { word.to_owned() };
            text.split_whitespace().map(word).collect()
        };
        match *self {
            Row::On(verbs, groups, resources) => Rule {
                verbs: words(verbs),
                groups: words(groups),
                resources: words(resources),
                ..Rule::default()
            },
            Row::Named(verbs, groups, resources, names) => {
                Rule { names: words(names), ..Row::On(verbs, groups, resources).rule() }
            }
            Row::Paths(verbs, paths) => Rule { verbs: words(verbs), paths: words(paths), ..Rule::default() },
        }
    }
}

impl Given {
    fn to_json(&self) -> Value {
        match *self {
            Given::User(name) => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
            Given::Group(name) => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
            Given::Account(namespace, name) => {
                json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
            }
        }
    }
}
