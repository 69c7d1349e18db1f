//! Roles and who has them.

use serde_json::{Value, json};
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{defaults, dotted, named, same, visit},
    fields::{below, each, list, must_be, required, text, within},
};
use crate::resources::Strategy;

pub(crate) const ROLE: Strategy =
    Strategy { validate: |role, errors| check_rules(role, true, errors), ..PLAIN };

pub(crate) const CLUSTER_ROLE: Strategy = Strategy { validate: validate_cluster_role, ..PLAIN };

pub(crate) const BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |binding, errors| check_binding(binding, true, errors),
    validate_update: role_stays,
    ..PLAIN
};

pub(crate) const CLUSTER_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |binding, errors| check_binding(binding, false, errors),
    validate_update: role_stays,
    ..PLAIN
};

/// Names of roles may hold colons and upper case.
const PLAIN: Strategy = Strategy { name: names::path_segment, create_on_update: true, ..Strategy::PLAIN };

const GROUP: &str = "rbac.authorization.k8s.io";

fn validate_cluster_role(role: &Object, errors: &mut Errors) {
    check_rules(role, false, errors);
    below(role, "aggregationRule", errors, |rule, errors| {
        if list(rule, "clusterRoleSelectors").is_empty() {
            errors.required(
                "clusterRoleSelectors",
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
        }
        each(rule, "clusterRoleSelectors", errors, super::selector::validate);
    });
}

fn check_rules(role: &Object, namespaced: bool, errors: &mut Errors) {
    each(role, "rules", errors, |rule, errors| {
        if list(rule, "verbs").is_empty() {
            errors.required("verbs", "verbs must contain at least one value");
        }
        let urls = json!(list(rule, "nonResourceURLs"));
        let has = |field: &str| !list(rule, field).is_empty();
        if has("nonResourceURLs") {
            if namespaced {
                errors.invalid(
                    "nonResourceURLs",
                    &urls,
                    "namespaced rules cannot apply to non-resource URLs",
                );
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid("nonResourceURLs", &urls, detail);
            }
            return;
        }
        if !has("apiGroups") {
            errors.required("apiGroups", "resource rules must supply at least one api group");
        }
        if !has("resources") {
            errors.required("resources", "resource rules must supply at least one resource");
        }
    });
}

fn default_binding(binding: &mut Object) {
    defaults(binding, json!({"roleRef": {"apiGroup": GROUP}}));
    visit(binding, &["subjects"], &mut |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") {
            defaults(subject, json!({"apiGroup": GROUP}));
        }
    });
}

fn check_binding(binding: &Object, namespaced: bool, errors: &mut Errors) {
    within(binding, "roleRef", errors, |role, errors| {
        let group = text(role, "apiGroup");
        if group != GROUP {
            errors.not_supported("apiGroup", group, &[GROUP]);
        }
        let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = text(role, "kind");
        if !kinds.contains(&kind) {
            errors.not_supported("kind", kind, kinds);
        }
        if required(role, &["name"], errors) {
            named(role, "name", names::path_segment, errors);
        }
    });
    each(binding, "subjects", errors, |subject, errors| check_subject(subject, namespaced, errors));
}

fn check_subject(subject: &Object, namespaced: bool, errors: &mut Errors) {
    required(subject, &["name"], errors);
    let group = text(subject, "apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            named(subject, "name", names::subdomain, errors);
            if !group.is_empty() {
                errors.not_supported("apiGroup", group, &[""]);
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.required("namespace", "");
            }
        }
        "User" | "Group" => must_be(subject, "apiGroup", &[GROUP], errors),
        kind => errors.not_supported("kind", kind, &["ServiceAccount", "User", "Group"]),
    }
}

fn role_stays(new: &Object, old: &Object, _part: Option<&str>, errors: &mut Errors) {
    let (role, before) = (dotted(new, "roleRef"), dotted(old, "roleRef"));
    if !same(role, before) {
        errors.invalid("roleRef", role.unwrap_or(&Value::Null), "cannot change roleRef");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn rules_say_what_and_how() {
        let with = |rule: Value| json!({"rules": [rule]});
        let urls = with(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}));
        check(
            &ROLE,
            &[
                (with(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})), &[]),
                (with(json!({"apiGroups": [""], "resources": ["pods"]})), &["Required rules[0].verbs"]),
                (
                    with(json!({"verbs": ["get"]})),
                    &["Required rules[0].apiGroups", "Required rules[0].resources"],
                ),
                (urls.clone(), &["Invalid rules[0].nonResourceURLs"]),
            ],
        );
        check(
            &CLUSTER_ROLE,
            &[
                (urls, &[]),
                (
                    with(json!({"verbs": ["get"], "nonResourceURLs": ["/"], "resources": ["pods"]})),
                    &["Invalid rules[0].nonResourceURLs"],
                ),
                (json!({"aggregationRule": {}}), &["Required aggregationRule.clusterRoleSelectors"]),
            ],
        );
        assert_eq!((ROLE.name)("system:controller:X", false), None);
        assert!((ROLE.name)("a/b", false).is_some());
    }

    #[test]
    fn bindings_know_the_group_of_roles_and_people() {
        let binding = json!({
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]
        });
        assert_eq!(
            defaulted(&BINDING, binding.clone()),
            json!({
                "roleRef": {"kind": "Role", "name": "r", "apiGroup": GROUP},
                "subjects": [
                    {"kind": "User", "name": "u", "apiGroup": GROUP},
                    {"kind": "ServiceAccount", "name": "s", "namespace": "n"}
                ]
            })
        );
        let to =
            |subject: Value| json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [subject]});
        check(&BINDING, &[(binding.clone(), &[]), (to(json!({"kind": "ServiceAccount", "name": "s"})), &[])]);
        check(
            &CLUSTER_BINDING,
            &[
                (binding.clone(), &["NotSupported roleRef.kind"]),
                (to(json!({"kind": "ServiceAccount", "name": "s"})), &["Required subjects[0].namespace"]),
                (to(json!({"kind": "Robot", "name": "s"})), &["NotSupported subjects[0].kind"]),
                (to(json!({"kind": "User"})), &["Required subjects[0].name"]),
            ],
        );
        let mut other = binding.clone();
        other["roleRef"]["name"] = json!("s");
        assert_eq!(change_faults(&BINDING, binding, other, None), ["Invalid roleRef"]);
    }
}
