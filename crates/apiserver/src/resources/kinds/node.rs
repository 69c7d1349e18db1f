//! Nodes: what they are and what they have; most of it is set once.

use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
};

use super::{
    checks::{amounts, cidrs, frozen, same, taints},
    fields::{list, text, within},
};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy =
    Strategy { default, validate, validate_update, status_on_create: true, ..Strategy::PLAIN };

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `podCIDR` is the first of `podCIDRs`; what can be allocated is everything unless the node says otherwise.
fn default(node: &mut Object) {
    let first = object::list_at(node, &["spec", "podCIDRs"]).first().cloned();
    let single = object::str_at(node, &["spec", "podCIDR"]).filter(|cidr| !cidr.is_empty());
    match (single.map(str::to_owned), first) {
        (Some(single), None) => {
            object::set_at(node, &["spec", "podCIDRs"], Some(Value::Array(vec![single.into()])));
        }
        (None, Some(first)) => object::set_at(node, &["spec", "podCIDR"], Some(first)),
        _ => {}
    }
    if object::at(node, &["status", "allocatable"]).is_none()
        && let Some(capacity) = object::at(node, &["status", "capacity"]).cloned()
    {
        object::set_at(node, &["status", "allocatable"], Some(capacity));
    }
}

fn validate(node: &Object, errors: &mut Errors) {
    within(node, "spec", errors, |spec, errors| {
        taints(spec, "taints", EFFECTS, errors);
        cidrs(spec, "podCIDRs", errors);
        if let Some(first) = list(spec, "podCIDRs").first().and_then(Value::as_str)
            && first != text(spec, "podCIDR")
        {
            errors.invalid_str("podCIDR", text(spec, "podCIDR"), "must be the first of `podCIDRs`");
        }
    });
}

fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    if part == Some("status") {
        within(new, "status", errors, |status, errors| {
            amounts(status, "capacity", errors);
            amounts(status, "allocatable", errors);
        });
        return;
    }
    for (field, said) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let before = object::at(old, &["spec", field]);
        if !same(before, None) {
            let detail = format!("node updates may not change {said} except from \"\" to valid");
            frozen(new, old, &[&format!("spec.{field}")], &detail, errors);
        }
    }
    if !same(object::at(new, &["spec", "externalID"]), object::at(old, &["spec", "externalID"])) {
        let detail = "node updates may only change labels, taints, or capacity (or configSource, if the DynamicKubeletConfig feature gate is enabled)";
        errors.forbidden("spec", detail);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::*, *};

    #[test]
    fn defaults_mirror_the_first_range_and_the_capacity() {
        assert_eq!(
            defaulted(
                &STRATEGY,
                json!({"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "2"}}})
            ),
            json!({
                "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
                "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}}
            })
        );
    }

    #[test]
    fn faults_are_found() {
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        check(
            &STRATEGY,
            &[
                (json!({}), &[]),
                (json!({"spec": {"taints": [taint("a", "NoSchedule"), taint("a", "NoExecute")]}}), &[]),
                (json!({"spec": {"taints": [taint("a", "Never")]}}), &["NotSupported spec.taints[0].effect"]),
                (json!({"spec": {"taints": [taint("a", "")]}}), &["Required spec.taints[0].effect"]),
                (
                    json!({"spec": {"taints": [taint("a", "NoExecute"), taint("a", "NoExecute")]}}),
                    &["Duplicate spec.taints[1]"],
                ),
                (json!({"spec": {"podCIDR": "10.0.0.0"}}), &["Invalid spec.podCIDRs[0]"]),
                (json!({"spec": {"podCIDRs": ["10.0.0.0/8", "11.0.0.0/8"]}}), &["Invalid spec.podCIDRs"]),
            ],
        );
    }

    #[test]
    fn a_provider_id_is_set_once() {
        let with = |id: &str| json!({"spec": {"providerID": id}});
        assert_eq!(change_faults(&STRATEGY, with(""), with("a"), None), [""; 0]);
        assert_eq!(change_faults(&STRATEGY, with("a"), with("b"), None), ["Forbidden spec.providerID"]);
        let range = |range: &str| json!({"spec": {"podCIDR": range}});
        assert_eq!(
            change_faults(&STRATEGY, range("10.0.0.0/24"), range("10.0.1.0/24"), None),
            ["Forbidden spec.podCIDRs"]
        );
    }
}
