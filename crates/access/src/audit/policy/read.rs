//! Reading a policy, and saying which fields of it are wrong.

use serde_json::Value;
use windlass_machinery::{
    decode::decode_yaml,
    field::{Errors, Fault},
    names::subdomain_faults,
    object::Object,
};

use super::{super::Stage, GroupResources, Level, Policy, PolicyError, Rule, Stages};

/// Most rules; each request may try all of them.
const MOST_RULES: usize = 1_000;

const FIELDS: &[&str] = &["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
const RULE_FIELDS: &[&str] = &[
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];
const RESOURCE_FIELDS: &[&str] = &["group", "resources", "resourceNames"];

pub(super) fn policy(text: &[u8]) -> Result<Policy, PolicyError> {
    let decoded = decode_yaml(text).map_err(|error| PolicyError::Unreadable(error.to_string()))?;
    let mut errors = Errors::new();
    for field in &decoded.duplicates {
        errors.push(Fault::Duplicate, field, String::new(), "the field is given twice");
    }
    let policy = read(&decoded.object, &mut errors);
    match errors.list() {
        [] => Ok(policy),
        found => {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            Err(PolicyError::Invalid(found.join("; ")))
        }
    }
}

fn read(object: &Object, errors: &mut Errors) -> Policy {
    only(object, FIELDS, errors);
    for (field, expected) in [("apiVersion", "audit.k8s.io/v1"), ("kind", "Policy")] {
        match object.get(field) {
            Some(Value::String(given)) if given == expected => {}
            None | Some(Value::Null) => errors.required(field, format!("must be {expected}")),
            Some(given) => errors.invalid(field, given, format!("must be {expected}")),
        }
    }
    let rules = match object.get("rules") {
        Some(Value::Array(rules)) if !rules.is_empty() => rules.as_slice(),
        None | Some(Value::Null | Value::Array(_)) => {
            errors.required("rules", "a policy without rules writes nothing down");
            &[]
        }
        Some(_) => {
            wrong_type("rules", "a list", errors);
            &[]
        }
    };
    if rules.len() > MOST_RULES {
        errors.too_many("rules", rules.len(), MOST_RULES);
    }
    let rules = rules.iter().take(MOST_RULES).enumerate();
    let rules = rules.map(|(index, value)| {
        errors.at_index("rules", index, |errors| match value {
            Value::Object(object) => rule(object, errors),
            _ => {
                wrong_type("", "an object", errors);
                Rule::default()
            }
        })
    });
    Policy {
        rules: rules.collect(),
        omit_stages: stages(object, errors),
        omit_managed_fields: boolean(object, "omitManagedFields", errors).unwrap_or_default(),
    }
}

fn rule(object: &Object, errors: &mut Errors) -> Rule {
    only(object, RULE_FIELDS, errors);
    let rule = Rule {
        level: level(object, errors),
        users: strings(object, "users", errors),
        user_groups: strings(object, "userGroups", errors),
        verbs: strings(object, "verbs", errors),
        resources: resources(object, errors),
        namespaces: strings(object, "namespaces", errors),
        paths: strings(object, "nonResourceURLs", errors),
        omit_stages: stages(object, errors),
        omit_managed_fields: boolean(object, "omitManagedFields", errors),
    };
    for (index, path) in rule.paths.iter().enumerate() {
        let field = format!("nonResourceURLs[{index}]");
        if path == "*" {
            continue;
        }
        if !path.starts_with('/') {
            errors.invalid_str(&field, path, "non-resource URL rules must begin with a '/' character");
        }
        if path.strip_suffix('*').unwrap_or(path).contains('*') {
            let why = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.invalid_str(&field, path, why);
        }
    }
    let is_about_objects = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if is_about_objects && !rule.paths.is_empty() {
        let given = Value::from(rule.paths.clone());
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.invalid("nonResourceURLs", &given, why);
    }
    rule
}

fn level(object: &Object, errors: &mut Errors) -> Level {
    let names = Level::ALL.map(|(name, _)| name);
    match object.get("level") {
        None | Some(Value::Null) => errors.required("level", ""),
        Some(Value::String(given)) if given.is_empty() => errors.required("level", ""),
        Some(Value::String(given)) => match Level::ALL.iter().find(|(name, _)| name == given) {
            Some((_, level)) => return *level,
            None => errors.not_supported("level", given, &names),
        },
        Some(_) => wrong_type("level", "a string", errors),
    }
    Level::None
}

fn resources(object: &Object, errors: &mut Errors) -> Vec<GroupResources> {
    let given = match object.get("resources") {
        None | Some(Value::Null) => return vec![],
        Some(Value::Array(given)) => given,
        Some(_) => {
            wrong_type("resources", "a list", errors);
            return vec![];
        }
    };
    let given = given.iter().enumerate();
    let read = given.map(|(index, value)| {
        errors.at_index("resources", index, |errors| match value {
            Value::Object(object) => group_resources(object, errors),
            _ => {
                wrong_type("", "an object", errors);
                GroupResources::default()
            }
        })
    });
    read.collect()
}

fn group_resources(object: &Object, errors: &mut Errors) -> GroupResources {
    only(object, RESOURCE_FIELDS, errors);
    let group = match object.get("group") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(group)) => group.clone(),
        Some(_) => {
            wrong_type("group", "a string", errors);
            String::new()
        }
    };
    let faults = if group.is_empty() { vec![] } else { subdomain_faults(&group) };
    for fault in faults {
        errors.invalid_str("group", &group, fault);
    }
    let read = GroupResources {
        group,
        resources: strings(object, "resources", errors),
        names: strings(object, "resourceNames", errors),
    };
    if !read.names.is_empty() && read.resources.is_empty() {
        let given = Value::from(read.names.clone());
        errors.invalid("resourceNames", &given, "using resourceNames requires at least one resource");
    }
    read
}

fn stages(object: &Object, errors: &mut Errors) -> Stages {
    let given = strings(object, "omitStages", errors);
    given.iter().enumerate().fold(Stages::NONE, |stages, (index, given)| {
        match Stage::ALL.iter().find(|(name, _)| name == given) {
            Some((_, stage)) => stages.with(*stage),
            None => {
                let names = Stage::ALL.map(|(name, _)| name).join(",");
                errors.invalid_str(
                    &format!("omitStages[{index}]"),
                    given,
                    format!("allowed stages are {names}"),
                );
                stages
            }
        }
    })
}

fn boolean(object: &Object, field: &str, errors: &mut Errors) -> Option<bool> {
    match object.get(field) {
        None | Some(Value::Null) => None,
        Some(Value::Bool(given)) => Some(*given),
        Some(_) => {
            wrong_type(field, "true or false", errors);
            None
        }
    }
}

fn strings(object: &Object, field: &str, errors: &mut Errors) -> Vec<String> {
    let given = match object.get(field) {
        None | Some(Value::Null) => return vec![],
        Some(Value::Array(given)) => given,
        Some(_) => {
            wrong_type(field, "a list of strings", errors);
            return vec![];
        }
    };
    let strings = given.iter().enumerate().filter_map(|(index, value)| match value {
        Value::String(text) => Some(text.clone()),
        _ => {
            wrong_type(&format!("{field}[{index}]"), "a string", errors);
            None
        }
    });
    strings.collect()
}

fn wrong_type(field: &str, expected: &str, errors: &mut Errors) {
    errors.push(Fault::TypeInvalid, field, String::new(), format!("must be {expected}"));
}

/// Finds fields that do not exist: a rule with a misspelt condition would match too much.
fn only(object: &Object, known: &[&str], errors: &mut Errors) {
    for field in object.keys().filter(|field| !known.contains(&field.as_str())) {
        errors.push(Fault::Forbidden, field, String::new(), "there is no such field");
    }
}
