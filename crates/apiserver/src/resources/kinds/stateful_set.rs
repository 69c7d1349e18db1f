//! Stateful sets.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{Object, child_mut, default_to, set_at},
};

use super::{
    fields::{
        each, fill, is_set, malformed, map, maps, maps_mut, non_negative, one_of, same_map, share_of_all,
        text, within,
    },
    pod_spec::{defaults, volume},
    template,
};
use crate::resources::{Generation, Strategy};

/// The rules of stateful sets.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |object| template::first_status(object, json!({"replicas": 0, "availableReplicas": 0})),
    validate,
    validate_update,
    warn: template::warn,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

/// What may change once the set is there.
const MAY_CHANGE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn default(object: &mut Object) {
    let spec = child_mut(object, "spec");
    fill(spec, "podManagementPolicy", "OrderedReady");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    let strategy = child_mut(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child_mut(strategy, "rollingUpdate");
        default_to(rolling, "partition", 0);
        default_to(rolling, "maxUnavailable", 1);
    }
    let retention = child_mut(spec, "persistentVolumeClaimRetentionPolicy");
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    for claim in maps_mut(spec, "volumeClaimTemplates") {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        fill(child_mut(claim, "status"), "phase", "Pending");
        default_to(child_mut(claim, "spec"), "volumeMode", "Filesystem");
    }
    defaults::template(spec, "template");
}

fn validate(object: &Object, errors: &mut Errors) {
    within(object, "spec", errors, |spec, errors| {
        let policy = text(spec, "podManagementPolicy");
        if !["OrderedReady", "Parallel"].contains(&policy) {
            errors.invalid_str("podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
        }
        within(spec, "updateStrategy", errors, validate_strategy);
        within(spec, "persistentVolumeClaimRetentionPolicy", errors, |retention, errors| {
            for field in ["whenDeleted", "whenScaled"] {
                one_of(retention, field, &["Retain", "Delete"], errors);
            }
        });
        within(spec, "ordinals", errors, |ordinals, errors| non_negative(ordinals, &["start"], errors));
        non_negative(spec, &["replicas", "minReadySeconds", "revisionHistoryLimit"], errors);
        let service = text(spec, "serviceName");
        if !service.is_empty() {
            malformed("serviceName", service, windlass_machinery::names::label(service, false), errors);
        }
        template::validate_selector(spec, "statefulset", errors);
        let claims: Vec<&str> = maps(spec, "volumeClaimTemplates")
            .map(|(_, claim)| windlass_machinery::object::name(claim))
            .collect();
        template::validate_lasting(spec, "StatefulSet", &claims, errors);
        each(spec, "volumeClaimTemplates", errors, |claim, errors| {
            within(claim, "spec", errors, volume::claim_spec);
        });
    });
}

fn validate_strategy(strategy: &Object, errors: &mut Errors) {
    let kind = text(strategy, "type");
    if !["RollingUpdate", "OnDelete"].contains(&kind) {
        let shown = Value::Object(strategy.clone());
        errors.invalid("", &shown, "must be 'RollingUpdate' or 'OnDelete'");
    } else if kind == "OnDelete" && is_set(strategy, "rollingUpdate") {
        let shown = strategy.get("rollingUpdate").unwrap_or(&Value::Null);
        errors.invalid("rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'");
    }
    if let Some(rolling) = map(strategy, "rollingUpdate") {
        errors.at("rollingUpdate", |errors| {
            non_negative(rolling, &["partition"], errors);
            let share = share_of_all(rolling, "maxUnavailable", errors);
            if let Some(value) = rolling.get("maxUnavailable")
                && share.is_some_and(|share| share.is_zero())
            {
                errors.invalid("maxUnavailable", value, "cannot be 0");
            }
        });
    }
}

fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    const SHARES: [&str; 4] = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    if part == Some("status") {
        return template::validate_counts(new, old, &[], &SHARES, errors);
    }
    let (Some(new), Some(old)) = (map(new, "spec"), map(old, "spec")) else { return };
    let mut restored = new.clone();
    for field in MAY_CHANGE {
        set_at(&mut restored, &[field], old.get(field).cloned());
    }
    // The status of a claim template means nothing, and clients often leave it out.
    let bare = |spec: &Object| {
        let mut spec = spec.clone();
        maps_mut(&mut spec, "volumeClaimTemplates").for_each(|claim| {
            claim.remove("status");
        });
        spec
    };
    if !same_map(&bare(&restored), &bare(old)) {
        errors.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, check_update, created};

    fn minimal() -> Value {
        json!({"metadata": {"name": "db"}, "spec": {
            "selector": {"matchLabels": {"app": "db"}},
            "serviceName": "db",
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{
                    "name": "main", "image": "postgres",
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        }})
    }

    #[test]
    fn a_minimal_stateful_set_is_filled_in() {
        let set = created(&STRATEGY, minimal());
        let spec = &set["spec"];
        assert_eq!(spec["podManagementPolicy"], "OrderedReady");
        assert_eq!(
            spec["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}})
        );
        assert_eq!(
            spec["persistentVolumeClaimRetentionPolicy"],
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
        );
        assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&json!(1), &json!(10)));
        let claim = &spec["volumeClaimTemplates"][0];
        assert_eq!(
            (&claim["kind"], &claim["spec"]["volumeMode"]),
            (&json!("PersistentVolumeClaim"), &json!("Filesystem"))
        );
        assert_eq!(set["status"], json!({"replicas": 0, "availableReplicas": 0}));
    }

    #[test]
    fn faults_are_named_by_field() {
        check_invalid(
            &STRATEGY,
            minimal(),
            &[
                (
                    "/spec/podManagementPolicy",
                    json!("Random"),
                    "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
                ),
                ("/spec/updateStrategy/type", json!("x"), "spec.updateStrategy: Invalid value"),
                ("/spec/selector", json!(null), "spec.selector: Required value"),
                ("/spec/ordinals", json!({"start": -1}), "spec.ordinals.start: Invalid value: -1"),
                (
                    "/spec/volumeClaimTemplates",
                    json!([]),
                    "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\"",
                ),
                (
                    "/spec/volumeClaimTemplates/0/spec/accessModes",
                    json!([]),
                    "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                ),
            ],
        );
    }

    #[test]
    fn only_some_fields_may_change() {
        let old = Value::Object(created(&STRATEGY, minimal()));
        let claims = minimal()["spec"]["volumeClaimTemplates"].clone();
        let mut defaulted = created(&STRATEGY, minimal())["spec"]["volumeClaimTemplates"].clone();
        defaulted[0].as_object_mut().unwrap().remove("status");
        check_update(
            &STRATEGY,
            old,
            None,
            &[
                ("/spec/replicas", json!(5), ""),
                ("/spec/template/spec/containers/0/image", json!("x"), ""),
                ("/spec/volumeClaimTemplates", defaulted, ""),
                (
                    "/spec/serviceName",
                    json!("x"),
                    "spec: Forbidden: updates to statefulset spec for fields other than",
                ),
                ("/spec/volumeClaimTemplates", json!([]), "spec: Forbidden: updates to statefulset spec"),
                ("/spec/volumeClaimTemplates", claims, "spec: Forbidden: updates to statefulset spec"),
            ],
        );
    }
}
