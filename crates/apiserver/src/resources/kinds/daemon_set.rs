//! Daemon sets.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{Object, at, child_mut, default_to, metadata_mut, set_at, str_at},
};

use super::{
    fields::{fill, map, must_be, non_negative, same, share_of_all, text, within},
    pod_spec::defaults,
    template,
};
use crate::resources::{Generation, Strategy};

/// The rules of daemon sets.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    validate,
    validate_update,
    warn: template::warn,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

/// Counts the changes of the template; an older field of this kind lives on as an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn default(object: &mut Object) {
    let spec = child_mut(object, "spec");
    default_to(spec, "revisionHistoryLimit", 10);
    let strategy = child_mut(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child_mut(strategy, "rollingUpdate");
        default_to(rolling, "maxUnavailable", 1);
        default_to(rolling, "maxSurge", 0);
    }
    defaults::template(spec, "template");
    fill(child_mut(metadata_mut(object), "annotations"), TEMPLATE_GENERATION, "1");
}

fn prepare_create(object: &mut Object) {
    let status = json!({
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    });
    template::first_status(object, status);
}

fn prepare_update(new: &mut Object, old: &Object, part: Option<&str>) {
    if part.is_some() {
        return;
    }
    let path = ["metadata", "annotations", TEMPLATE_GENERATION];
    let Some(count) = str_at(old, &path).and_then(|count| count.parse::<i64>().ok()) else { return };
    let template = |object| at(object, &["spec", "template"]).cloned().unwrap_or_default();
    let changed = !same(&template(new), &template(old));
    set_at(new, &path, Some(Value::from(count.saturating_add(i64::from(changed)).to_string())));
}

fn validate(object: &Object, errors: &mut Errors) {
    within(object, "spec", errors, |spec, errors| {
        template::validate_selector(spec, "daemonset", errors);
        template::validate_lasting(spec, "DaemonSet", &[], errors);
        non_negative(spec, &["minReadySeconds", "revisionHistoryLimit"], errors);
        within(spec, "updateStrategy", errors, |strategy, errors| {
            must_be(strategy, "type", &["OnDelete", "RollingUpdate"], errors);
            if let Some(rolling) = map(strategy, "rollingUpdate") {
                errors.at("rollingUpdate", |errors| validate_rolling(rolling, errors));
            }
        });
    });
}

fn validate_rolling(rolling: &Object, errors: &mut Errors) {
    let unavailable = share_of_all(rolling, "maxUnavailable", errors);
    let surge = share_of_all(rolling, "maxSurge", errors);
    let nothing = |share: Option<super::fields::Share>| share.is_none_or(|share| share.is_zero());
    match (nothing(unavailable), nothing(surge)) {
        (true, true) => errors.required("maxUnavailable", "cannot be 0 when maxSurge is 0"),
        (false, false) => {
            let shown = rolling.get("maxSurge").unwrap_or(&Value::Null);
            errors.invalid("maxSurge", shown, "may not be set when maxUnavailable is non-zero");
        }
        _ => {}
    }
}

fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    const COUNTS: [&str; 7] = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    ];
    match part {
        Some("status") => template::validate_counts(new, old, &COUNTS, &[], errors),
        _ => template::keep_selector(new, old, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, created};

    fn minimal() -> Value {
        json!({"metadata": {"name": "agent"}, "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        }})
    }

    #[test]
    fn a_minimal_daemon_set_is_filled_in() {
        let set = created(&STRATEGY, minimal());
        assert_eq!(
            set["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
        );
        assert_eq!(set["spec"]["revisionHistoryLimit"], 10);
        assert_eq!(set["status"]["numberReady"], 0);
        assert_eq!(set["metadata"]["annotations"][TEMPLATE_GENERATION], "1");
    }

    #[test]
    fn changes_of_the_template_are_counted() {
        let old = created(&STRATEGY, minimal());
        let mut new = old.clone();
        prepare_update(&mut new, &old, None);
        assert_eq!(new["metadata"]["annotations"][TEMPLATE_GENERATION], "1");
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
        prepare_update(&mut new, &old, None);
        assert_eq!(new["metadata"]["annotations"][TEMPLATE_GENERATION], "2");
    }

    #[test]
    fn faults_are_named_by_field() {
        let rolling = "/spec/updateStrategy/rollingUpdate";
        let at = "spec.updateStrategy.rollingUpdate";
        check_invalid(
            &STRATEGY,
            minimal(),
            &[
                (
                    rolling,
                    json!({"maxUnavailable": 0}),
                    &format!("{at}.maxUnavailable: Required value: cannot be 0"),
                ),
                (
                    rolling,
                    json!({"maxUnavailable": 1, "maxSurge": 1}),
                    &format!("{at}.maxSurge: Invalid value: 1"),
                ),
                (
                    rolling,
                    json!({"maxUnavailable": "101%"}),
                    &format!("{at}.maxUnavailable: Invalid value: \"101%\""),
                ),
                (
                    "/spec/updateStrategy/type",
                    json!("x"),
                    "spec.updateStrategy.type: Unsupported value: \"x\"",
                ),
                (
                    "/spec/selector",
                    json!({}),
                    "spec.selector: Invalid value: {}: empty selector is invalid for daemonset",
                ),
                ("/spec/template/metadata/labels", json!({}), "spec.template.metadata.labels: Invalid value"),
            ],
        );
    }
}
