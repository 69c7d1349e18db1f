//! Jobs: their generated labels and selector, and what of them may change.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{Object, at, child_mut, default_to, metadata, metadata_mut, name, set_at, uid},
};

use super::{
    fields::{
        each, fill, immutable, int, is_set, list, malformed, map, map_mut, maps_mut, must_be, non_negative,
        one_of, same_map, text, truth, within,
    },
    pod_spec::{self, defaults},
    selector, template,
};
use crate::resources::{Generation, Strategy};

/// The rules of jobs.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    validate,
    validate_update,
    warn: template::warn,
    generation: Generation::COUNTED,
    orphans: true,
    ..Strategy::PLAIN
};

const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";

/// The labels that tie pods to their job, by what they say; the short ones are older.
fn generated(job: &Object) -> [(&'static str, &str); 4] {
    [(UID, uid(job)), (NAME, name(job)), ("controller-uid", uid(job)), ("job-name", name(job))]
}

fn default(object: &mut Object) {
    let spec = child_mut(object, "spec");
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        default_to(spec, "completions", 1);
    }
    default_to(spec, "parallelism", 1);
    let per_index = is_set(spec, "backoffLimitPerIndex");
    default_to(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let replacement = if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default_to(spec, "podReplacementPolicy", replacement);
    default_template(spec);
    labels_of_pods(object);
}

/// A job without labels has those of its pods.
fn labels_of_pods(object: &mut Object) {
    let spec = child_mut(object, "spec");
    let labels = map(spec, "template").map(template::labels).filter(|labels| !labels.is_empty()).cloned();
    let metadata = metadata_mut(object);
    if let Some(labels) = labels.filter(|_| map(metadata, "labels").is_none_or(Object::is_empty)) {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
}

/// Fills in what jobs and the templates of jobs have in common.
pub(super) fn default_template(spec: &mut Object) {
    if let Some(policy) = map_mut(spec, "podFailurePolicy") {
        for rule in maps_mut(policy, "rules") {
            maps_mut(rule, "onPodConditions").for_each(|pattern| fill(pattern, "status", "True"));
        }
    }
    defaults::template(spec, "template");
}

fn prepare_create(job: &mut Object) {
    template::first_status(job, json!({}));
    if at(job, &["spec", "manualSelector"]).is_some_and(|manual| manual == true) {
        return;
    }
    let labels = generated(job).map(|(label, value)| (label, value.to_owned()));
    let spec = child_mut(job, "spec");
    let of_pods = child_mut(metadata_mut(child_mut(spec, "template")), "labels");
    for (label, value) in &labels {
        of_pods.entry(*label).or_insert_with(|| value.as_str().into());
    }
    let wanted = child_mut(child_mut(spec, "selector"), "matchLabels");
    let [(label, value), ..] = labels;
    // A selector that is there already is kept, so that the fault can be named.
    wanted.entry(label).or_insert(Value::String(value));
    labels_of_pods(job);
}

fn validate(job: &Object, errors: &mut Errors) {
    within(job, "spec", errors, |spec, errors| {
        if !truth(spec, "manualSelector") {
            validate_generated(job, spec, errors);
        }
        validate_spec(spec, errors);
        match map(spec, "selector") {
            None => errors.required("selector", ""),
            Some(found) => {
                errors.at("selector", |errors| selector::validate(found, errors));
                within(spec, "template", errors, |template, errors| {
                    template::fits(template, selector::matches(found, template::labels(template)), errors);
                });
            }
        }
    });
    indexed_name(job, errors);
}

fn validate_generated(job: &Object, spec: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let labels = map(spec, "template").map_or(&empty, template::labels);
    let expected = generated(job);
    for (label, value) in expected {
        errors.at("template.metadata", |errors| {
            errors.at_key("labels", label, |errors| match labels.get(label) {
                None => errors.required("", format!("must be '{value}'")),
                Some(found) if found != value => {
                    errors.invalid("", &Value::Object(labels.clone()), format!("must be '{value}'"));
                }
                Some(_) => {}
            });
        });
    }
    let own: Object = expected.into_iter().map(|(label, value)| (label.to_owned(), value.into())).collect();
    if let Some(found) = map(spec, "selector").filter(|found| !selector::matches(found, &own)) {
        errors.invalid("selector", &Value::Object(found.clone()), "`selector` not auto-generated");
    }
}

/// The pods of an indexed job carry its name and their index in their host names.
fn indexed_name(job: &Object, errors: &mut Errors) {
    let Some(spec) = map(job, "spec").filter(|spec| text(spec, "completionMode") == "Indexed") else {
        return;
    };
    let last = int(spec, "completions").unwrap_or(1).max(1) - 1;
    if let Some(fault) =
        names::label(&format!("{}-{last}", name(job)), false).filter(|_| !name(job).is_empty())
    {
        let detail =
            format!("will not able to create pod with invalid DNS label: {}-{last}: {fault}", name(job));
        errors.invalid_str("metadata.name", name(job), detail);
    }
}

/// Finds faults in the spec of a job or of the template of one.
pub(super) fn validate_spec(spec: &Object, errors: &mut Errors) {
    non_negative(
        spec,
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ],
        errors,
    );
    validate_indexes(spec, errors);
    one_of(spec, "podReplacementPolicy", &["Failed", "TerminatingOrFailed"], errors);
    let manager = text(spec, "managedBy");
    if !manager.is_empty() {
        if !manager.contains('/') {
            errors.invalid_str(
                "managedBy",
                manager,
                "must be a domain-prefixed path (such as \"acme.io/foo\")",
            );
        }
        malformed("managedBy", manager, names::qualified(manager), errors);
    }
    if let Some(policy) = map(spec, "podFailurePolicy") {
        errors.at("podFailurePolicy", |errors| validate_failure_policy(policy, errors));
        if text(spec, "podReplacementPolicy") == "TerminatingOrFailed" {
            errors.not_supported("podReplacementPolicy", "TerminatingOrFailed", &["Failed"]);
        }
    }
    within(spec, "template", errors, |found, errors| {
        pod_spec::validate_template(found, &[], errors);
        let policy = at(found, &["spec", "restartPolicy"]).and_then(Value::as_str).unwrap_or_default();
        if ["", "Always"].contains(&policy) {
            errors.required("spec.restartPolicy", "valid values: \"OnFailure\", \"Never\"");
        } else if policy != "Never" && is_set(spec, "podFailurePolicy") {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid_str("spec.restartPolicy", policy, detail);
        }
    });
}

fn validate_indexes(spec: &Object, errors: &mut Errors) {
    one_of(spec, "completionMode", &["Indexed", "NonIndexed"], errors);
    let indexed = text(spec, "completionMode") == "Indexed";
    if indexed && !is_set(spec, "completions") {
        errors.required("completions", "when completion mode is Indexed");
    }
    if let Some(parallelism) = int(spec, "parallelism").filter(|number| indexed && *number > 100_000) {
        let detail = "must be less than or equal to 100000 when completion mode is Indexed";
        errors.invalid("parallelism", &parallelism.into(), detail);
    }
    for field in ["backoffLimitPerIndex", "successPolicy"] {
        if let Some(value) = spec.get(field).filter(|value| !value.is_null() && !indexed) {
            errors.invalid(field, value, "requires indexed completion mode");
        }
    }
    if is_set(spec, "maxFailedIndexes") && !is_set(spec, "backoffLimitPerIndex") {
        errors.required("backoffLimitPerIndex", "when maxFailedIndexes is specified");
    }
    if let Some(policy) = map(spec, "successPolicy") {
        errors.at("successPolicy", |errors| match list(policy, "rules").len() {
            0 => errors.required(
                "rules",
                "at least one rules must be specified when the successPolicy is specified",
            ),
            count if count > 20 => errors.too_many("rules", count, 20),
            _ => each(policy, "rules", errors, |rule, errors| {
                if !is_set(rule, "succeededCount") && !is_set(rule, "succeededIndexes") {
                    errors
                        .required("", "at least one of succeededCount or succeededIndexes must be specified");
                }
                non_negative(rule, &["succeededCount"], errors);
            }),
        });
    }
}

fn validate_failure_policy(policy: &Object, errors: &mut Errors) {
    let count = list(policy, "rules").len();
    if count > 20 {
        errors.too_many("rules", count, 20);
    }
    each(policy, "rules", errors, |rule, errors| {
        must_be(rule, "action", &["Count", "FailIndex", "FailJob", "Ignore"], errors);
        let conditions = !list(rule, "onPodConditions").is_empty();
        let shown = Value::Object(rule.clone());
        match (map(rule, "onExitCodes"), conditions) {
            (Some(_), true) => {
                errors.invalid(
                    "",
                    &shown,
                    "specifying both OnExitCodes and OnPodConditions is not supported",
                );
            }
            (None, false) => {
                errors.invalid("", &shown, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            (Some(codes), false) => errors.at("onExitCodes", |errors| validate_codes(codes, errors)),
            (None, true) => each(rule, "onPodConditions", errors, |pattern, errors| {
                malformed("type", text(pattern, "type"), names::qualified(text(pattern, "type")), errors);
                must_be(pattern, "status", &["False", "True", "Unknown"], errors);
            }),
        }
    });
}

fn validate_codes(codes: &Object, errors: &mut Errors) {
    must_be(codes, "operator", &["In", "NotIn"], errors);
    let values = list(codes, "values");
    if values.is_empty() {
        errors.invalid("values", &json!([]), "at least one value is required");
    } else if values.len() > 255 {
        errors.too_many("values", values.len(), 255);
    }
    for (index, value) in values.iter().enumerate() {
        let field = format!("values[{index}]");
        if value == 0 && text(codes, "operator") == "In" {
            errors.invalid(&field, value, "must not be 0 for the In operator");
        }
        if values.iter().take(index).any(|before| before == value) {
            errors.duplicate(&field, value);
        }
    }
}

fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    if part == Some("status") {
        return within(new, "status", errors, |status, errors| {
            non_negative(status, &["active", "succeeded", "failed", "ready", "terminating"], errors);
        });
    }
    let (Some(new), Some(before)) = (map(new, "spec"), map(old, "spec")) else { return };
    errors.at("spec", |errors| {
        let elastic = text(before, "completionMode") == "Indexed"
            && is_set(before, "completions")
            && is_set(new, "completions");
        if !elastic {
            immutable(new, before, &["completions"], errors);
        } else if int(new, "completions") != int(before, "completions")
            && int(new, "completions") != int(new, "parallelism")
            && let Some(value) = new.get("completions")
        {
            errors.invalid("completions", value, "can only be modified in tandem with spec.parallelism");
        }
        const FIXED: [&str; 6] = [
            "selector",
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ];
        immutable(new, before, &FIXED, errors);
        let not_started = truth(before, "suspend") && at(old, &["status", "startTime"]).is_none();
        validate_template_update(new, before, not_started, errors);
    });
}

/// The template stays as it is; while the job is still waiting to start, where its pods run may change.
fn validate_template_update(new: &Object, old: &Object, not_started: bool, errors: &mut Errors) {
    const PLACEMENT: [&[&str]; 6] = [
        &["metadata", "labels"],
        &["metadata", "annotations"],
        &["spec", "nodeSelector"],
        &["spec", "affinity"],
        &["spec", "tolerations"],
        &["spec", "schedulingGates"],
    ];
    let empty = Object::new();
    let (now, before) = (map(new, "template").unwrap_or(&empty), map(old, "template").unwrap_or(&empty));
    let mut restored = now.clone();
    if not_started {
        for path in PLACEMENT {
            set_at(&mut restored, path, at(before, path).cloned());
        }
    }
    if !same_map(&restored, before) {
        errors.invalid("template", &Value::Object(now.clone()), super::fields::IMMUTABLE);
    }
    // Labels are free to change then, but not those that tie the pods to the job.
    let tie = |template| template::labels(template).get(UID).cloned();
    if not_started && !metadata(now).is_empty() && tie(now) != tie(before) {
        errors.invalid(
            "template.metadata.labels",
            &Value::Object(template::labels(now).clone()),
            super::fields::IMMUTABLE,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, check_update, created};

    fn minimal() -> Value {
        json!({"metadata": {"name": "pi", "uid": "u-1"}, "spec": {"template": {"spec": {
            "containers": [{"name": "main", "image": "perl"}], "restartPolicy": "Never",
        }}}})
    }

    #[test]
    fn a_minimal_job_is_filled_in() {
        let mut job = created(&STRATEGY, minimal());
        let spec = child_mut(&mut job, "spec");
        let template = spec.remove("template").unwrap();
        assert_eq!(
            template["metadata"]["labels"],
            json!({UID: "u-1", NAME: "pi", "controller-uid": "u-1", "job-name": "pi"})
        );
        assert_eq!(
            Value::Object(spec.clone()),
            json!({
                "completions": 1,
                "parallelism": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "manualSelector": false,
                "podReplacementPolicy": "TerminatingOrFailed",
                "suspend": false,
                "selector": {"matchLabels": {UID: "u-1"}},
            })
        );
        assert_eq!(job["status"], json!({}));
        assert_eq!(job["metadata"]["labels"], template["metadata"]["labels"]);
    }

    #[test]
    fn a_selector_is_not_generated_where_there_is_one() {
        let mut job = minimal();
        job["spec"]["manualSelector"] = json!(true);
        job["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
        job["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
        let made = created(&STRATEGY, job.clone());
        assert_eq!(made["spec"]["selector"], json!({"matchLabels": {"a": "b"}}));
        assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
        check_invalid(&STRATEGY, job, &[]);
    }

    #[test]
    fn faults_are_named_by_field() {
        check_invalid(
            &STRATEGY,
            minimal(),
            &[
                (
                    "/spec/template/spec/restartPolicy",
                    json!("Always"),
                    "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
                ),
                ("/spec/parallelism", json!(-1), "spec.parallelism: Invalid value: -1"),
                (
                    "/spec/selector",
                    json!({"matchLabels": {"a": "b"}}),
                    "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"",
                ),
                (
                    "/spec/template/metadata/labels",
                    json!({"job-name": "x"}),
                    "spec.template.metadata.labels[job-name]: Invalid",
                ),
                (
                    "/spec/completionMode",
                    json!("Sorted"),
                    "spec.completionMode: Unsupported value: \"Sorted\"",
                ),
                (
                    "/spec/backoffLimitPerIndex",
                    json!(1),
                    "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed",
                ),
                (
                    "/spec/podFailurePolicy",
                    json!({"rules": [{"action": "Count"}]}),
                    "spec.podFailurePolicy.rules[0]: Invalid",
                ),
            ],
        );
    }

    #[test]
    fn a_job_that_runs_keeps_its_template() {
        let old = Value::Object(created(&STRATEGY, minimal()));
        let mut waiting = old.clone();
        waiting["spec"]["suspend"] = json!(true);
        let moved = ("/spec/template/spec/nodeSelector", json!({"a": "b"}), "");
        check_update(&STRATEGY, waiting, None, std::slice::from_ref(&moved));
        check_update(
            &STRATEGY,
            old,
            None,
            &[
                ("/spec/parallelism", json!(3), ""),
                ("/spec/suspend", json!(true), ""),
                (moved.0, moved.1, "spec.template: Invalid value"),
                ("/spec/completions", json!(2), "spec.completions: Invalid value: 2: field is immutable"),
                (
                    "/spec/completionMode",
                    json!("Indexed"),
                    "spec.completionMode: Invalid value: \"Indexed\": field is immutable",
                ),
                ("/spec/selector/matchLabels/a", json!("b"), "spec.selector: Invalid value"),
            ],
        );
    }

    #[test]
    fn indexed_jobs_grow_and_shrink_as_a_whole() {
        let old = json!({"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2}});
        let spec = |completions, parallelism| json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism});
        check_update(
            &STRATEGY,
            old,
            None,
            &[
                ("/spec", spec(4, 4), ""),
                ("/spec", spec(4, 2), "spec.completions: Invalid value: 4: can only be modified in tandem"),
            ],
        );
    }
}
