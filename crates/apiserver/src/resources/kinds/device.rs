//! Devices: what there is, and who has asked for it. Also the migration of stored objects.

use serde_json::{Value, json};
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{defaults_in, immutable, must_be_named, named, no_status, unique_by, visit},
    fields::{
        below, each, int, is_set, list, malformed, map, must_be, one_of, positive, required, text, truth,
        within,
    },
};
use crate::resources::{Generation, Strategy};

pub(crate) const CLASS: Strategy = Strategy {
    validate: |class, errors| {
        within(class, "spec", errors, |spec, errors| {
            each(spec, "selectors", errors, check_selector);
            each(spec, "config", errors, check_config);
        });
    },
    generation: Generation::COUNTED,
    ..PLAIN
};

pub(crate) const CLAIM: Strategy = Strategy {
    default: |claim| default_requests(claim, &["spec"]),
    prepare_create: no_status,
    validate: |claim, errors| within(claim, "spec", errors, check_claim),
    validate_update: |new, old, part, errors| match part {
        None => immutable(new, old, &["spec"], errors),
        Some(_) => check_status(new, old, errors),
    },
    ..PLAIN
};

pub(crate) const TEMPLATE: Strategy = Strategy {
    default: |template| default_requests(template, &["spec", "spec"]),
    validate: |template, errors| {
        within(template, "spec", errors, |spec, errors| within(spec, "spec", errors, check_claim));
    },
    validate_update: |new, old, _, errors| immutable(new, old, &["spec"], errors),
    ..PLAIN
};

pub(crate) const SLICE: Strategy = Strategy {
    validate: |slice, errors| within(slice, "spec", errors, check_slice),
    validate_update: |new, old, _, errors| {
        let stays = ["spec.driver", "spec.pool.name", "spec.nodeName", "spec.nodeSelector", "spec.allNodes"];
        immutable(new, old, &stays, errors);
    },
    generation: Generation::COUNTED,
    ..PLAIN
};

pub(crate) const TAINT_RULE: Strategy = Strategy {
    prepare_create: no_status,
    validate: |rule, errors| {
        within(rule, "spec", errors, |spec, errors| {
            within(spec, "taint", errors, check_taint);
            below(spec, "deviceSelector", errors, |selector, errors| {
                named(selector, "driver", names::subdomain, errors);
                named(selector, "device", names::label, errors);
            });
        });
    },
    generation: Generation::COUNTED,
    ..PLAIN
};

pub(crate) const MIGRATION: Strategy = Strategy {
    prepare_create: no_status,
    validate: |migration, errors| {
        within(migration, "spec", errors, |spec, errors| {
            within(spec, "resource", errors, |resource, errors| {
                required(resource, &["resource"], errors);
                named(resource, "group", names::subdomain, errors);
            });
        });
    },
    validate_update: |new, old, part, errors| {
        if part.is_none() {
            immutable(new, old, &["spec"], errors);
        }
    },
    ..Strategy::PLAIN
};

const PLAIN: Strategy = Strategy { returns_deleted: true, ..Strategy::PLAIN };

const MODES: &[&str] = &["All", "ExactCount"];
const EFFECTS: &[&str] = &["None", "NoExecute", "NoSchedule"];
const MOST_REQUESTS: usize = 32;
const MOST_CONFIGS: usize = 32;
const MOST_DEVICES: usize = 128;
const MOST_CONSUMERS: usize = 256;

/// A request is for exactly one device unless it says otherwise.
fn default_requests(object: &mut Object, spec: &[&str]) {
    for request in ["exactly", "firstAvailable"] {
        let path: Vec<&str> = spec.iter().copied().chain(["devices", "requests", request]).collect();
        visit(object, &path, &mut |request| {
            super::fields::fill(request, "allocationMode", "ExactCount");
            if text(request, "allocationMode") == "ExactCount" {
                super::fields::fill(request, "count", 1);
            }
        });
        let tolerations: Vec<&str> = path.iter().copied().chain(["tolerations"]).collect();
        defaults_in(object, &tolerations, json!({"operator": "Equal"}));
    }
}

fn check_selector(selector: &Object, errors: &mut Errors) {
    match map(selector, "cel") {
        None => errors.required("cel", ""),
        Some(cel) => errors.at("cel", |errors| {
            required(cel, &["expression"], errors);
        }),
    }
}

fn check_config(config: &Object, errors: &mut Errors) {
    match map(config, "opaque") {
        None => errors.required("opaque", ""),
        Some(opaque) => errors.at("opaque", |errors| {
            must_be_named(opaque, "driver", names::subdomain, errors);
            if !opaque.get("parameters").is_some_and(Value::is_object) {
                errors.required("parameters", "");
            }
        }),
    }
}

fn check_claim(spec: &Object, errors: &mut Errors) {
    within(spec, "devices", errors, |devices, errors| {
        for (field, most) in
            [("requests", MOST_REQUESTS), ("constraints", MOST_REQUESTS), ("config", MOST_CONFIGS)]
        {
            let count = list(devices, field).len();
            if count > most {
                errors.too_many(field, count, most);
            }
        }
        unique_by(devices, "requests", "name", errors);
        each(devices, "requests", errors, |request, errors| {
            must_be_named(request, "name", names::label, errors);
            match (map(request, "exactly"), list(request, "firstAvailable").is_empty()) {
                (None, true) => {
                    errors.required("", "exactly one of `exactly` or `firstAvailable` is required")
                }
                (Some(_), false) => {
                    let shown = Value::Object(request.clone());
                    errors.invalid("", &shown, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set");
                }
                (Some(exactly), true) => errors.at("exactly", |errors| check_request(exactly, errors)),
                (None, false) => {
                    unique_by(request, "firstAvailable", "name", errors);
                    each(request, "firstAvailable", errors, |choice, errors| {
                        must_be_named(choice, "name", names::label, errors);
                        check_request(choice, errors);
                    });
                }
            }
        });
        each(devices, "constraints", errors, |constraint, errors| {
            if !is_set(constraint, "matchAttribute") && !is_set(constraint, "distinctAttribute") {
                errors.required("matchAttribute", "");
            }
        });
        each(devices, "config", errors, check_config);
    });
}

fn check_request(request: &Object, errors: &mut Errors) {
    must_be_named(request, "deviceClassName", names::subdomain, errors);
    each(request, "selectors", errors, check_selector);
    one_of(request, "allocationMode", MODES, errors);
    match text(request, "allocationMode") {
        "ExactCount" => positive(request, &["count"], errors),
        "All" if int(request, "count").unwrap_or(0) != 0 => {
            let count = request.get("count").unwrap_or(&Value::Null);
            errors.invalid("count", count, "must not be specified when allocationMode is 'All'");
        }
        _ => {}
    }
    each(request, "tolerations", errors, |toleration, errors| {
        must_be(toleration, "operator", &["Equal", "Exists"], errors);
        one_of(toleration, "effect", EFFECTS, errors);
        if text(toleration, "key").is_empty() && text(toleration, "operator") == "Equal" {
            errors.required("key", "must be set when operator is Equal");
        }
    });
}

/// What was allocated stays, until it is given back.
fn check_status(new: &Object, old: &Object, errors: &mut Errors) {
    let allocation =
        |object: &Object| map(object, "status").is_some_and(|status| is_set(status, "allocation"));
    if allocation(new) && allocation(old) {
        immutable(new, old, &["status.allocation"], errors);
    }
    within(new, "status", errors, |status, errors| {
        let n_consumers = list(status, "reservedFor").len();
        if n_consumers > MOST_CONSUMERS {
            errors.too_many("reservedFor", n_consumers, MOST_CONSUMERS);
        }
        if n_consumers > 0 && !is_set(status, "allocation") {
            errors.forbidden("reservedFor", "may not be specified when `allocated` is not set");
        }
        unique_by(status, "reservedFor", "uid", errors);
        each(status, "reservedFor", errors, |consumer, errors| {
            required(consumer, &["resource", "name", "uid"], errors);
        });
    });
}

fn check_slice(spec: &Object, errors: &mut Errors) {
    must_be_named(spec, "driver", names::subdomain, errors);
    within(spec, "pool", errors, |pool, errors| {
        required(pool, &["name"], errors);
        super::fields::non_negative(pool, &["generation"], errors);
        positive(pool, &["resourceSliceCount"], errors);
    });
    let places = [
        !text(spec, "nodeName").is_empty(),
        is_set(spec, "nodeSelector"),
        truth(spec, "allNodes"),
        truth(spec, "perDeviceNodeSelection"),
    ];
    let detail =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match places.into_iter().filter(|place| *place).count() {
        0 if list(spec, "sharedCounters").is_empty() => errors.required("", detail),
        0 | 1 => {}
        _ => errors.invalid("", &json!({}), format!("{detail}, but multiple fields are set")),
    }
    let n_devices = list(spec, "devices").len();
    if n_devices > MOST_DEVICES {
        return errors.too_many("devices", n_devices, MOST_DEVICES);
    }
    unique_by(spec, "devices", "name", errors);
    each(spec, "devices", errors, |device, errors| {
        must_be_named(device, "name", names::label, errors);
        each(device, "taints", errors, check_taint);
    });
}

fn check_taint(taint: &Object, errors: &mut Errors) {
    let (key, value) = (text(taint, "key"), text(taint, "value"));
    match key.is_empty() {
        true => errors.required("key", ""),
        false => malformed("key", key, names::qualified(key), errors),
    }
    malformed("value", value, names::label_value(value), errors);
    must_be(taint, "effect", EFFECTS, errors);
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn a_request_is_for_one_device_and_stays() {
        let claim = |request: Value| json!({"spec": {"devices": {"requests": [request]}}});
        let good = claim(json!({"name": "a", "exactly": {"deviceClassName": "c"}}));
        assert_eq!(
            defaulted(&CLAIM, good.clone())["spec"]["devices"]["requests"][0]["exactly"],
            json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1})
        );
        check(
            &CLAIM,
            &[
                (good.clone(), &[]),
                (claim(json!({"name": "a"})), &["Required spec.devices.requests[0]"]),
                (
                    claim(json!({"name": "a", "exactly": {}})),
                    &["Required spec.devices.requests[0].exactly.deviceClassName"],
                ),
                (
                    claim(json!({"name": "a", "exactly": {"deviceClassName": "c", "count": -1}})),
                    &["Invalid spec.devices.requests[0].exactly.count"],
                ),
            ],
        );
        let other = claim(json!({"name": "b", "exactly": {"deviceClassName": "c"}}));
        assert_eq!(change_faults(&CLAIM, good, other, None), ["Invalid spec"]);
        let template = |name: &str| json!({"spec": {"spec": {"devices": {"requests": [{"name": name}]}}}});
        assert_eq!(change_faults(&TEMPLATE, template("a"), template("b"), None), ["Invalid spec"]);
    }

    #[test]
    fn slices_say_where_their_devices_are() {
        let slice = |place: Value| {
            let mut spec =
                json!({"driver": "d", "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}});
            for (field, value) in object(place) {
                spec[field] = value;
            }
            json!({"spec": spec})
        };
        check(
            &SLICE,
            &[
                (slice(json!({"nodeName": "n"})), &[]),
                (slice(json!({})), &["Required spec"]),
                (slice(json!({"nodeName": "n", "allNodes": true})), &["Invalid spec"]),
                (
                    slice(json!({"allNodes": true, "devices": [{"name": "a"}, {"name": "a"}]})),
                    &["Duplicate spec.devices[1].name"],
                ),
            ],
        );
    }

    #[test]
    fn classes_rules_and_migrations_are_checked() {
        check(
            &CLASS,
            &[(json!({}), &[]), (json!({"spec": {"selectors": [{}]}}), &["Required spec.selectors[0].cel"])],
        );
        check(
            &TAINT_RULE,
            &[
                (json!({"spec": {"taint": {"key": "a", "effect": "NoExecute"}}}), &[]),
                (
                    json!({"spec": {"taint": {"effect": "PreferNoSchedule"}}}),
                    &["Required spec.taint.key", "NotSupported spec.taint.effect"],
                ),
            ],
        );
        check(
            &MIGRATION,
            &[
                (json!({"spec": {"resource": {"group": "", "resource": "pods"}}}), &[]),
                (json!({}), &["Required spec.resource.resource"]),
            ],
        );
    }
}
