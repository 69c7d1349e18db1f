//! Events: what happened to an object. One store, two forms: `v1`, which is kept, and `events.k8s.io/v1`.

use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
};

use super::{
    checks::immutable,
    fields::{malformed, map, one_of, text},
};
use crate::resources::Strategy;

pub(crate) const CORE: Strategy =
    Strategy { validate: validate_core, create_on_update: true, ..Strategy::PLAIN };

/// The rules of the newer form, which asks for more; on the form that is stored.
pub(crate) const EVENTS: Strategy = Strategy {
    validate: validate_strict,
    validate_update: validate_strict_update,
    create_on_update: true,
    ..Strategy::PLAIN
};

/// What a field is called in `v1` and in `events.k8s.io/v1`. All others are called the same.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
    ("reportingComponent", "reportingController"),
];

const MOST_TEXT: usize = 128;
const MOST_NOTE: usize = 1024;
const TYPES: &[&str] = &["Normal", "Warning"];

/// Turns an event into the form of this `apiVersion`.
pub(crate) fn convert(event: &mut Object, api_version: &str) {
    let to_core = api_version == "v1";
    for (core, events) in RENAMED {
        let (from, to) = if to_core { (events, core) } else { (core, events) };
        if let Some(value) = event.remove(*from) {
            event.insert((*to).to_owned(), value);
        }
    }
    event.insert("apiVersion".to_owned(), api_version.into());
}

fn is_timed(event: &Object) -> bool {
    event.get("eventTime").is_some_and(|time| !time.is_null())
}

fn validate_core(event: &Object, errors: &mut Errors) {
    validate_as(event, "reportingComponent", errors);
}

/// An event without a time is of the old sort, of which only the namespace is checked.
fn validate_as(event: &Object, reporter: &str, errors: &mut Errors) {
    let namespace = object::namespace(event);
    let involved =
        map(event, "involvedObject").map(|involved| text(involved, "namespace")).unwrap_or_default();
    let agree = match (involved, is_timed(event)) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "" | "default"),
        (involved, _) => involved == namespace,
    };
    if !agree {
        errors.invalid_str("involvedObject.namespace", involved, "does not match event.namespace");
    }
    if !is_timed(event) {
        return;
    }
    let reporting = text(event, "reportingComponent");
    match reporting.is_empty() {
        true => errors.required(reporter, ""),
        false => malformed(reporter, reporting, names::qualified(reporting), errors),
    }
    for field in ["reportingInstance", "action", "reason"] {
        match text(event, field).len() {
            0 => errors.required(field, ""),
            len if len > MOST_TEXT => {
                errors.invalid_str(field, "", format!("can have at most {MOST_TEXT} characters"));
            }
            _ => {}
        }
    }
    if text(event, "message").len() > MOST_NOTE {
        errors.invalid_str("message", "", format!("can have at most {MOST_NOTE} characters"));
    }
}

fn validate_strict(event: &Object, errors: &mut Errors) {
    validate_as(event, "reportingController", errors);
    if !is_timed(event) {
        errors.required("eventTime", "");
    }
    match text(event, "type") {
        "" => errors.required("type", ""),
        _ => one_of(event, "type", TYPES, errors),
    }
    if let Some(series) = map(event, "series") {
        errors.at("series", |errors| {
            if object::int_at(series, &["count"]).unwrap_or(0) < 2 {
                errors.invalid("count", series.get("count").unwrap_or(&Value::Null), "should be at least 2");
            }
            if series.get("lastObservedTime").is_none_or(Value::is_null) {
                errors.required("lastObservedTime", "");
            }
        });
    }
}

/// What happened stays; only that it happens again is added.
fn validate_strict_update(new: &Object, old: &Object, _part: Option<&str>, errors: &mut Errors) {
    const STAYS: &[&str] = &[
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    immutable(new, old, STAYS, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::*, *};

    #[test]
    fn both_forms_say_the_same() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"name": "p"},
            "message": "m", "count": 2, "firstTimestamp": "t1", "lastTimestamp": "t2", "source": {"component": "c"},
            "reportingComponent": "r", "reportingInstance": "i", "reason": "R", "type": "Normal", "action": "A",
            "series": {"count": 2}, "eventTime": null
        });
        let events = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
            "regarding": {"name": "p"}, "note": "m", "deprecatedCount": 2, "deprecatedFirstTimestamp": "t1",
            "deprecatedLastTimestamp": "t2", "deprecatedSource": {"component": "c"}, "reportingController": "r",
            "reportingInstance": "i", "reason": "R", "type": "Normal", "action": "A", "series": {"count": 2},
            "eventTime": null
        });
        let mut event = object(core.clone());
        convert(&mut event, "events.k8s.io/v1");
        assert_eq!(Value::Object(event.clone()), events);
        convert(&mut event, "events.k8s.io/v1");
        assert_eq!(Value::Object(event.clone()), events);
        convert(&mut event, "v1");
        assert_eq!(Value::Object(event), core);
    }

    #[test]
    fn namespaces_must_agree() {
        let with = |own: &str, involved: &str| json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": involved}});
        check(
            &CORE,
            &[
                (with("a", "a"), &[]),
                (with("default", ""), &[]),
                (with("a", "b"), &["Invalid involvedObject.namespace"]),
                (with("a", ""), &["Invalid involvedObject.namespace"]),
            ],
        );
    }

    #[test]
    fn the_newer_form_asks_for_more() {
        let full = json!({
            "metadata": {"namespace": "a"}, "involvedObject": {"namespace": "a"}, "eventTime": "t", "type": "Normal",
            "reportingComponent": "c", "reportingInstance": "i", "action": "A", "reason": "R"
        });
        let bare =
            json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "a"}, "eventTime": "t"});
        check(
            &EVENTS,
            &[
                (full.clone(), &[]),
                (
                    bare.clone(),
                    &[
                        "Required reportingController",
                        "Required reportingInstance",
                        "Required action",
                        "Required reason",
                        "Required type",
                    ],
                ),
            ],
        );
        let mut again = full.clone();
        again["series"] = json!({"count": 2});
        assert_eq!(change_faults(&EVENTS, full.clone(), again, None), [""; 0]);
        let mut other = full.clone();
        other["reason"] = json!("S");
        assert_eq!(change_faults(&EVENTS, full, other, None), ["Invalid reason"]);
    }
}
