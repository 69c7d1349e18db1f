//! Cluster roles that are made of others.

use std::collections::HashSet;

use serde_json::Value;
use windlass_machinery::{
    object::{self, Object, list_at},
    selector::LabelSelector,
};

/// The rules of a cluster role that is made of others: those of all that its selectors choose, each once; `None` when it
/// is an ordinary one. `all` are the cluster roles, by name.
pub fn aggregate(role: &Object, all: &[Object]) -> Option<Vec<Value>> {
    role.get("aggregationRule").filter(|rule| rule.is_object())?;
    let (mut rules, mut known) = (vec![], HashSet::new());
    for selector in list_at(role, &["aggregationRule", "clusterRoleSelectors"]) {
        // One that cannot be read chooses nothing: it must not choose everything.
        let Ok(selector) = LabelSelector::from_object(selector) else { continue };
        for other in all.iter().filter(|other| object::name(other) != object::name(role)) {
            let labels = object::metadata(other).get("labels").and_then(Value::as_object);
            let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
            if !selector.matches(label) {
                continue;
            }
            for rule in list_at(other, &["rules"]) {
                if known.insert(rule.to_string()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}
