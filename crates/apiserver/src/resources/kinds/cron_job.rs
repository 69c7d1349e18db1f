//! Cron jobs.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{Object, at, child_mut, default_to},
};

use super::{
    cron,
    fields::{fill, is_set, must_be, non_negative, text, truth, within},
    job, pod, template,
};
use crate::resources::{Generation, Strategy};

/// The rules of cron jobs.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |object| template::first_status(object, json!({})),
    validate,
    name: name_fault,
    warn,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

/// Longest name: its jobs are called after it, with eleven more characters.
const LONGEST: usize = 52;

fn name_fault(name: &str, generate: bool) -> Option<String> {
    names::subdomain(name, generate).or_else(|| {
        (!generate && name.len() > LONGEST).then(|| format!("must be no more than {LONGEST} characters"))
    })
}

fn default(object: &mut Object) {
    let spec = child_mut(object, "spec");
    fill(spec, "concurrencyPolicy", "Allow");
    default_to(spec, "suspend", false);
    default_to(spec, "successfulJobsHistoryLimit", 3);
    default_to(spec, "failedJobsHistoryLimit", 1);
    let jobs = child_mut(spec, "jobTemplate");
    default_to(jobs, "metadata", json!({}));
    job::default_template(child_mut(jobs, "spec"));
}

fn validate(object: &Object, errors: &mut Errors) {
    within(object, "spec", errors, |spec, errors| {
        let schedule = text(spec, "schedule");
        if schedule.is_empty() {
            errors.required("schedule", "");
        } else if cron::has_zone(schedule) {
            let detail = match is_set(spec, "timeZone") {
                true => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
                false => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            };
            errors.invalid_str("schedule", schedule, detail);
        } else if let Some(fault) = cron::fault(schedule) {
            errors.invalid_str("schedule", schedule, fault);
        }
        if is_set(spec, "timeZone")
            && let Some(fault) = cron::zone_fault(text(spec, "timeZone"))
        {
            errors.invalid_str("timeZone", text(spec, "timeZone"), fault);
        }
        non_negative(
            spec,
            &["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
            errors,
        );
        must_be(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], errors);
        within(spec, "jobTemplate", errors, |jobs, errors| within(jobs, "spec", errors, validate_jobs));
    });
}

fn validate_jobs(spec: &Object, errors: &mut Errors) {
    job::validate_spec(spec, errors);
    if let Some(selector) = spec.get("selector").filter(|selector| !selector.is_null()) {
        errors.invalid("selector", selector, "`selector` will be auto-generated");
    }
    if truth(spec, "manualSelector") {
        errors.not_supported("manualSelector", "true", &["nil", "false"]);
    }
}

fn warn(object: &Object, warnings: &mut Vec<String>) {
    let path = ["spec", "jobTemplate", "spec", "template", "spec"];
    if let Some(spec) = at(object, &path).and_then(Value::as_object) {
        pod::warn_spec(&path.join("."), spec, warnings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, created};

    fn minimal() -> Value {
        json!({"metadata": {"name": "nightly"}, "spec": {
            "schedule": "0 3 * * *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "containers": [{"name": "main", "image": "perl"}], "restartPolicy": "OnFailure",
            }}}},
        }})
    }

    #[test]
    fn a_minimal_cron_job_is_filled_in() {
        let mut cron = created(&STRATEGY, minimal());
        let spec = child_mut(&mut cron, "spec");
        let jobs = spec.remove("jobTemplate").unwrap();
        assert_eq!(jobs["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(jobs["spec"].get("backoffLimit"), None);
        assert_eq!(
            Value::Object(spec.clone()),
            json!({
                "schedule": "0 3 * * *",
                "concurrencyPolicy": "Allow",
                "suspend": false,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            })
        );
    }

    #[test]
    fn faults_are_named_by_field() {
        check_invalid(
            &STRATEGY,
            minimal(),
            &[
                ("/spec/schedule", json!(""), "spec.schedule: Required value"),
                (
                    "/spec/schedule",
                    json!("often"),
                    "spec.schedule: Invalid value: \"often\": expected exactly 5 fields",
                ),
                (
                    "/spec/schedule",
                    json!("TZ=UTC 0 3 * * *"),
                    "spec.schedule: Invalid value: \"TZ=UTC 0 3 * * *\": cannot use TZ",
                ),
                (
                    "/spec/timeZone",
                    json!("Mars/Base"),
                    "spec.timeZone: Invalid value: \"Mars/Base\": unknown time zone",
                ),
                ("/spec/concurrencyPolicy", json!("x"), "spec.concurrencyPolicy: Unsupported value: \"x\""),
                (
                    "/spec/jobTemplate/spec/selector",
                    json!({"matchLabels": {"a": "b"}}),
                    "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
                ),
                (
                    "/spec/jobTemplate/spec/template/spec/restartPolicy",
                    json!("Always"),
                    "spec.jobTemplate.spec.template.spec.restartPolicy: Required value",
                ),
                (
                    "/spec/jobTemplate/spec/manualSelector",
                    json!(true),
                    "spec.jobTemplate.spec.manualSelector: Unsupported",
                ),
            ],
        );
    }

    #[test]
    fn names_leave_room_for_those_of_the_jobs() {
        assert_eq!(name_fault(&"a".repeat(52), false), None);
        assert_eq!(name_fault(&"a".repeat(53), false).as_deref(), Some("must be no more than 52 characters"));
    }
}
