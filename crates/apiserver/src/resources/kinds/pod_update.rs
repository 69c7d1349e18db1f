//! What may change in a pod once it is there: very little, and some of it only through a path of its own.

use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    object::{Object, at, child_mut, int_at, list_at, metadata_mut, set_at},
};

use super::{
    fields::{int, is_set, list, map, maps, maps_mut, same, same_map, text},
    pod_spec::{self, resources},
};

const MAY_CHANGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                          `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                          `spec.tolerations` (only additions to existing tolerations),\
                          `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Carries over what an update through `part` may not change.
pub(super) fn prepare(new: &mut Object, old: &Object, part: Option<&str>) {
    match part {
        Some("status") => super::pod::keep_qos_class(new, old),
        Some("resize") => keep_all_but_resources(new, old),
        Some("ephemeralcontainers") => {
            let field = ["spec", "ephemeralContainers"];
            if list_at(new, &field) != list_at(old, &field) {
                let generation =
                    int_at(old, &["metadata", "generation"]).unwrap_or_default().saturating_add(1);
                metadata_mut(new).insert("generation".to_owned(), generation.into());
            }
        }
        _ => {}
    }
}

/// Finds faults in the change of a pod.
pub(super) fn validate(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    let empty = Object::new();
    let (Some(new_spec), old_spec) = (map(new, "spec"), map(old, "spec").unwrap_or(&empty)) else { return };
    errors.at("spec", |errors| match part {
        None => validate_spec(new_spec, old_spec, errors),
        Some("ephemeralcontainers") => validate_ephemeral(new_spec, old_spec, errors),
        Some("resize") => validate_resize(new_spec, old_spec, errors),
        Some(_) => {}
    });
}

fn keep_all_but_resources(new: &mut Object, old: &Object) {
    let wanted = new.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let spec = child_mut(new, "spec");
    for field in ["containers", "initContainers"] {
        let Some(kept) = at(old, &["spec", field]).cloned() else {
            spec.remove(field);
            continue;
        };
        spec.insert(field.to_owned(), kept);
        for container in maps_mut(spec, field) {
            let Some((_, asked)) =
                maps(&wanted, field).find(|(_, other)| text(other, "name") == text(container, "name"))
            else {
                continue;
            };
            for field in ["resources", "resizePolicy"] {
                set_at(container, &[field], asked.get(field).cloned());
            }
        }
    }
}

fn validate_spec(new: &Object, old: &Object, errors: &mut Errors) {
    let mut counted = true;
    for field in ["containers", "initContainers"] {
        if list(new, field).len() != list(old, field).len() {
            errors.forbidden(field, "pod updates may not add or remove containers");
            counted = false;
        }
    }
    if !counted {
        return;
    }
    deadline(new, old, errors);
    tolerations(new, old, errors);
    for (index, gate) in maps(new, "schedulingGates") {
        let name = text(gate, "name");
        if !maps(old, "schedulingGates").any(|(_, known)| text(known, "name") == name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&format!("schedulingGates[{index}]"), detail);
        }
    }
    if !same_map(&restored(new, old), old) {
        errors.forbidden("", MAY_CHANGE);
    }
}

/// The new spec with everything that may change put back as it was.
fn restored(new: &Object, old: &Object) -> Object {
    let mut spec = new.clone();
    let mut put_back = |field: &str| set_at(&mut spec, &[field], old.get(field).cloned());
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"] {
        put_back(field);
    }
    let grace = |spec| int(spec, "terminationGracePeriodSeconds");
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(new) == Some(1) {
        put_back("terminationGracePeriodSeconds");
    }
    // A pod that waits for its gates is not scheduled yet, so where it may go can still be narrowed.
    if !list(old, "schedulingGates").is_empty() && narrows(new, old) {
        put_back("nodeSelector");
        put_back("affinity");
    }
    for field in ["containers", "initContainers"] {
        for (container, (_, before)) in maps_mut(&mut spec, field).zip(maps(old, field)) {
            set_at(container, &["image"], before.get("image").cloned());
        }
    }
    spec
}

/// Whether the new node selector asks for at least what the old one did, and nothing but the affinity to nodes
/// is different besides.
fn narrows(new: &Object, old: &Object) -> bool {
    let kept = map(old, "nodeSelector")
        .into_iter()
        .flatten()
        .all(|(key, value)| map(new, "nodeSelector").is_some_and(|labels| labels.get(key) == Some(value)));
    let rest = |spec: &Object| {
        let mut affinity = map(spec, "affinity").cloned().unwrap_or_default();
        affinity.remove("nodeAffinity");
        affinity
    };
    kept && same_map(&rest(new), &rest(old))
}

fn deadline(new: &Object, old: &Object, errors: &mut Errors) {
    const FIELD: &str = "activeDeadlineSeconds";
    match (int(new, FIELD), int(old, FIELD)) {
        (Some(now), Some(before)) if now > before => {
            errors.invalid(FIELD, &now.into(), "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            errors.invalid(FIELD, &Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
}

fn tolerations(new: &Object, old: &Object, errors: &mut Errors) {
    let bare = |toleration: &Object| {
        let mut bare = toleration.clone();
        bare.remove("tolerationSeconds");
        bare
    };
    let kept = maps(old, "tolerations")
        .all(|(_, before)| maps(new, "tolerations").any(|(_, now)| same_map(&bare(now), &bare(before))));
    if !kept {
        errors
            .forbidden("tolerations", "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn validate_ephemeral(new: &Object, old: &Object, errors: &mut Errors) {
    const FIELD: &str = "ephemeralContainers";
    pod_spec::validate_ephemeral(new, errors);
    for (_, before) in maps(old, FIELD) {
        let name = text(before, "name");
        match maps(new, FIELD).find(|(_, now)| text(now, "name") == name) {
            None => errors
                .forbidden(FIELD, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some((_, now)) if !same_map(now, before) => {
                errors
                    .forbidden(FIELD, format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}

fn validate_resize(new: &Object, old: &Object, errors: &mut Errors) {
    let class = resources::qos_class(new);
    if class != resources::qos_class(old) {
        errors.invalid_str("", class, "Pod QOS Class may not change as a result of resizing");
    }
    for field in ["containers", "initContainers"] {
        for (index, now) in maps(new, field) {
            let Some((_, before)) =
                maps(old, field).find(|(_, other)| text(other, "name") == text(now, "name"))
            else {
                continue;
            };
            errors.at_index(field, index, |errors| resized(field, now, before, errors));
        }
    }
    if is_set(new, "resources") != is_set(old, "resources") {
        errors.forbidden("resources", "pod-level resources may not be added or removed");
    }
}

fn resized(list: &str, now: &Object, before: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let (new, old) = (map(now, "resources").unwrap_or(&empty), map(before, "resources").unwrap_or(&empty));
    if same_map(new, old) {
        return;
    }
    if list == "initContainers" && text(now, "restartPolicy") != "Always" {
        errors.forbidden("resources", "resources for non-sidecar init containers are immutable");
        return;
    }
    errors.at("resources", |errors| {
        let mut amounts = new.clone();
        amounts.remove("claims");
        resources::validate(&amounts, &[], errors);
        if !same(new.get("claims").unwrap_or(&Value::Null), old.get("claims").unwrap_or(&Value::Null)) {
            errors.forbidden("", "only cpu and memory resources are mutable");
        }
        for (field, what) in [("limits", "resource limits"), ("requests", "resource requests")] {
            let (new, old) = (map(new, field).unwrap_or(&empty), map(old, field).unwrap_or(&empty));
            let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
            for name in names {
                let compute = name == "cpu" || name == "memory";
                if !compute && new.get(name) != old.get(name) {
                    errors.forbidden("", "only cpu and memory resources are mutable");
                } else if compute && !new.contains_key(name) {
                    errors.forbidden(field, format!("{what} cannot be removed"));
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::kinds::variants::{check_update, object};

    fn running() -> Value {
        json!({"spec": {
            "containers": [{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "1"}}}],
            "ephemeralContainers": [{"name": "debug", "image": "busybox:1", "imagePullPolicy": "Always"}],
            "activeDeadlineSeconds": 60,
            "hostNetwork": false,
            "tolerations": [{"key": "a", "operator": "Exists"}],
        }})
    }

    #[test]
    fn only_a_few_fields_of_a_pod_may_change() {
        check_update(
            &super::super::pod::STRATEGY,
            running(),
            None,
            &[
                ("/spec/containers/0/image", json!("nginx:2"), ""),
                ("/spec/activeDeadlineSeconds", json!(30), ""),
                ("/spec/hostNetwork", json!(null), ""),
                ("/spec/containers/0/resources/requests/cpu", json!("1000m"), ""),
                (
                    "/spec/tolerations",
                    json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]),
                    "",
                ),
                (
                    "/spec/containers/0/command",
                    json!(["x"]),
                    "spec: Forbidden: pod updates may not change fields other than",
                ),
                (
                    "/spec/nodeName",
                    json!("n"),
                    "spec: Forbidden: pod updates may not change fields other than",
                ),
                (
                    "/spec/activeDeadlineSeconds",
                    json!(90),
                    "spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal to previous value",
                ),
                (
                    "/spec/tolerations",
                    json!([]),
                    "spec.tolerations: Forbidden: existing toleration can not be modified",
                ),
                (
                    "/spec/containers",
                    json!([]),
                    "spec.containers: Forbidden: pod updates may not add or remove containers",
                ),
                (
                    "/spec/schedulingGates",
                    json!([{"name": "g"}]),
                    "spec.schedulingGates[0]: Forbidden: only deletion",
                ),
            ],
        );
    }

    #[test]
    fn ephemeral_containers_can_only_be_added() {
        let first = json!({"name": "debug", "image": "busybox:1", "imagePullPolicy": "Always"});
        let second = json!({"name": "more", "image": "busybox:1", "imagePullPolicy": "Always"});
        check_update(
            &super::super::pod::STRATEGY,
            running(),
            Some("ephemeralcontainers"),
            &[
                ("/spec/ephemeralContainers", json!([first, second]), ""),
                (
                    "/spec/ephemeralContainers",
                    json!([]),
                    "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed",
                ),
                (
                    "/spec/ephemeralContainers/0/image",
                    json!("busybox:2"),
                    "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be changed",
                ),
                (
                    "/spec/ephemeralContainers/0/name",
                    json!("main"),
                    "spec.ephemeralContainers[0].name: Duplicate value: \"main\"",
                ),
            ],
        );
    }

    #[test]
    fn a_resize_changes_amounts_only() {
        let old = object(running());
        let mut new = object(running());
        new["spec"]["containers"][0]["image"] = json!("other");
        new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        prepare(&mut new, &old, Some("resize"));
        assert_eq!(new["spec"]["containers"][0]["image"], "nginx:1");
        assert_eq!(new["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
        check_update(
            &super::super::pod::STRATEGY,
            running(),
            Some("resize"),
            &[
                ("/spec/containers/0/resources/requests/cpu", json!("3"), ""),
                (
                    "/spec/containers/0/resources",
                    json!({}),
                    "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
                ),
                (
                    "/spec/containers/0/resources",
                    json!({}),
                    "spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of resizing",
                ),
            ],
        );
    }
}
