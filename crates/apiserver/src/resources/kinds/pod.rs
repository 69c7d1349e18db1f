//! Pods: their first status, and how long they take to go.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{Object, at, child_mut, int_at, set_at, str_at},
};

use super::{
    fields::{list, maps, text, within},
    pod_spec::{self, defaults, resources},
    pod_update,
};
use crate::resources::{Generation, Strategy};

/// The rules of pods.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update: pod_update::prepare,
    validate,
    validate_update: pod_update::validate,
    warn,
    generation: Generation::COUNTED,
    grace: Some(grace),
    returns_deleted: true,
    ..Strategy::PLAIN
};

fn default(pod: &mut Object) {
    let spec = child_mut(pod, "spec");
    defaults::spec(spec);
    defaults::pod(spec);
}

fn prepare_create(pod: &mut Object) {
    child_mut(pod, "spec").remove("ephemeralContainers");
    let empty = Object::new();
    let spec = pod.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let mut status = json!({"phase": "Pending", "qosClass": resources::qos_class(spec)});
    if !list(spec, "schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": at(pod, &["metadata", "creationTimestamp"]),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.insert("status".to_owned(), status);
}

fn validate(pod: &Object, errors: &mut Errors) {
    within(pod, "spec", errors, |spec, errors| {
        pod_spec::validate(spec, &[], errors);
        for field in ["containers", "initContainers"] {
            for (index, container) in maps(spec, field) {
                let image = text(container, "image");
                if image.trim() != image {
                    errors.at_index(field, index, |errors| {
                        errors.invalid_str("image", image, "must not have leading or trailing whitespace");
                    });
                }
            }
        }
    });
}

/// How long a pod has to stop: as long as the client or the pod says, and not at all where nothing runs.
fn grace(pod: &Object, requested: Option<i64>) -> i64 {
    let wanted = requested.or_else(|| int_at(pod, &["spec", "terminationGracePeriodSeconds"])).unwrap_or(30);
    let assigned = str_at(pod, &["spec", "nodeName"]).is_some_and(|node| !node.is_empty());
    let over = matches!(str_at(pod, &["status", "phase"]), Some("Succeeded" | "Failed"));
    if !assigned || over {
        0
    } else if wanted < 0 {
        1
    } else {
        wanted
    }
}

fn warn(pod: &Object, warnings: &mut Vec<String>) {
    if let Some(spec) = pod.get("spec").and_then(Value::as_object) {
        warn_spec("spec", spec, warnings);
    }
}

/// Advice about the pod template under `spec.template`.
pub(super) fn warn_template(object: &Object, warnings: &mut Vec<String>) {
    if let Some(spec) = at(object, &["spec", "template", "spec"]).and_then(Value::as_object) {
        warn_spec("spec.template.spec", spec, warnings);
    }
}

/// Advice about the pod spec at `path`.
pub(super) fn warn_spec(path: &str, spec: &Object, warnings: &mut Vec<String>) {
    if super::fields::int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for field in defaults::CONTAINERS {
        for (index, container) in maps(spec, field) {
            let mut seen = BTreeSet::new();
            for (at, variable) in maps(container, "env") {
                let name = text(variable, "name");
                if !name.is_empty() && !seen.insert(name) {
                    warnings.push(format!(
                        "{path}.{field}[{index}].env[{at}]: hides previous definition of {name:?}, which may be dropped when using apply"
                    ));
                }
            }
        }
    }
    for (index, volume) in maps(spec, "volumes") {
        if volume.contains_key("gitRepo") {
            warnings.push(format!(
                "{path}.volumes[{index}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
            ));
        }
    }
}

/// Sets the class of service where a status write left it out.
pub(super) fn keep_qos_class(new: &mut Object, old: &Object) {
    set_at(new, &["status", "qosClass"], at(old, &["status", "qosClass"]).cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, object};

    fn minimal() -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}})
    }

    #[test]
    fn a_minimal_pod_is_filled_in() {
        let mut pod = object(minimal());
        default(&mut pod);
        prepare_create(&mut pod);
        assert_eq!(
            Value::Object(pod),
            json!({
                "metadata": {"name": "a"},
                "spec": {
                    "containers": [{
                        "name": "main",
                        "image": "nginx:1",
                        "imagePullPolicy": "IfNotPresent",
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }],
                    "dnsPolicy": "ClusterFirst",
                    "enableServiceLinks": true,
                    "restartPolicy": "Always",
                    "schedulerName": "default-scheduler",
                    "securityContext": {},
                    "terminationGracePeriodSeconds": 30,
                },
                "status": {"phase": "Pending", "qosClass": "BestEffort"},
            })
        );
    }

    #[test]
    fn limits_become_requests_and_host_networking_takes_host_ports() {
        let mut pod = object(json!({"spec": {"hostNetwork": true, "containers": [{
            "name": "main", "image": "nginx", "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"memory": "1Gi"}},
        }]}}));
        default(&mut pod);
        prepare_create(&mut pod);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
        assert_eq!(container["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
        assert_eq!(pod["status"]["qosClass"], "Guaranteed");
    }

    #[test]
    fn faults_are_named_by_field() {
        let container = "/spec/containers/0";
        let at = |path: &str| format!("{container}{path}");
        check_invalid(
            &STRATEGY,
            minimal(),
            &[
                ("/spec/containers", json!([]), "spec.containers: Required value"),
                (&at("/image"), json!(""), "spec.containers[0].image: Required value"),
                (
                    &at("/image"),
                    json!(" nginx"),
                    "spec.containers[0].image: Invalid value: \" nginx\": must not have leading or trailing whitespace",
                ),
                (&at("/name"), json!("A_B"), "spec.containers[0].name: Invalid value: \"A_B\""),
                (
                    "/spec/restartPolicy",
                    json!("Sometimes"),
                    "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                ),
                (
                    &at("/volumeMounts"),
                    json!([{"name": "data", "mountPath": "/data"}]),
                    "spec.containers[0].volumeMounts[0].name: Not found: \"data\"",
                ),
                (
                    &at("/resources"),
                    json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                ),
            ],
        );
    }

    #[test]
    fn a_pod_goes_at_once_where_nothing_runs() {
        let cases = [
            (json!({"spec": {"terminationGracePeriodSeconds": 30}}), None, 0),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 45}}), None, 45),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 45}}), Some(5), 5),
            (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}), Some(5), 0),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": -3}}), None, 1),
        ];
        for (pod, requested, expected) in cases {
            assert_eq!(grace(&object(pod.clone()), requested), expected, "{pod}");
        }
    }

    #[test]
    fn hidden_variables_are_warned_about() {
        let pod = object(json!({"spec": {"containers": [{"env": [{"name": "A"}, {"name": "A"}]}]}}));
        let mut warnings = vec![];
        warn(&pod, &mut warnings);
        assert_eq!(
            warnings,
            [
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"
            ]
        );
    }
}
