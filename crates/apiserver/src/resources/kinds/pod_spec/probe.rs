//! Faults of probes and of what runs when a container starts or stops.

use windlass_machinery::{field::Errors, names, object::Object};

use crate::resources::kinds::fields::{
    each, is_set, list, malformed, map, must_be, non_negative, port, port_or_name, required, text,
};

/// What a lifecycle hook can do.
pub(super) const HOOKS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];
/// What a probe can do.
const PROBES: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Finds faults in the probe `name` of a container in a pod that has `grace` seconds to stop.
pub(super) fn validate(name: &str, probe: &Object, grace: i64, errors: &mut Errors) {
    handler(probe, &PROBES, grace, errors);
    non_negative(
        probe,
        &["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"],
        errors,
    );
    if let Some(seconds) = probe.get("terminationGracePeriodSeconds").filter(|value| !value.is_null()) {
        if name == "readinessProbe" {
            errors.invalid("terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes");
        } else if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
            errors.invalid("terminationGracePeriodSeconds", seconds, "must be greater than 0");
        }
    }
    let threshold = probe.get("successThreshold");
    if name != "readinessProbe"
        && let Some(threshold) = threshold.filter(|value| value.as_i64().is_some_and(|number| number != 1))
    {
        errors.invalid("successThreshold", threshold, "must be 1");
    }
}

/// Exactly one of `kinds` must be there, and in order.
pub(super) fn handler(handler: &Object, kinds: &[&str], grace: i64, errors: &mut Errors) {
    let mut found = 0;
    for kind in kinds.iter().filter(|kind| is_set(handler, kind)) {
        found += 1;
        if found > 1 {
            errors.forbidden(kind, "may not specify more than 1 handler type");
        } else if let Some(action) = map(handler, kind) {
            errors.at(kind, |errors| validate_action(kind, action, grace, errors));
        }
    }
    if found == 0 {
        errors.required("", "must specify a handler type");
    }
}

fn validate_action(kind: &str, action: &Object, grace: i64, errors: &mut Errors) {
    match kind {
        "exec" if list(action, "command").is_empty() => errors.required("command", ""),
        "httpGet" => {
            required(action, &["path"], errors);
            port_or_name(action, "port", errors);
            must_be(action, "scheme", &["HTTP", "HTTPS"], errors);
            each(action, "httpHeaders", errors, |header, errors| {
                let name = text(header, "name");
                malformed("name", name, names::header_name(name), errors);
            });
        }
        "tcpSocket" => port_or_name(action, "port", errors),
        "grpc" => port(action, "port", errors),
        "sleep" => {
            let seconds = action.get("seconds").and_then(serde_json::Value::as_i64).unwrap_or_default();
            if seconds < 0 || seconds > grace {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.invalid("seconds", &seconds.into(), detail);
            }
        }
        _ => {}
    }
}
