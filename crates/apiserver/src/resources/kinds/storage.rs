//! Classes of storage, the drivers behind them, and what is attached where.

use serde_json::{Value, json};
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{
        amount, defaults, dotted, each_one_of, frozen, immutable, must_be_named, named, no_status, same,
        selector, unique_by,
    },
    fields::{
        IMMUTABLE, each, int, is_set, list, malformed, map, maps, must_be, non_negative, one_of, required,
        text, texts, within,
    },
    volume,
};
use crate::resources::{Generation, Strategy};

pub(crate) const CLASS: Strategy = Strategy {
    default: |class| defaults(class, json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})),
    validate: validate_class,
    validate_update: |new, old, _, errors| {
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            frozen(new, old, &[field], &format!("updates to {field} are forbidden."), errors);
        }
        immutable(new, old, &["volumeBindingMode"], errors);
    },
    returns_deleted: true,
    ..Strategy::PLAIN
};

pub(crate) const ATTRIBUTES_CLASS: Strategy = Strategy {
    validate: |class, errors| {
        must_be_named(class, "driverName", driver_name, errors);
        if map(class, "parameters").is_none_or(Object::is_empty) {
            errors.required("parameters", "must contain at least one key/value pair");
        }
        check_parameters(class, errors);
    },
    validate_update: |new, old, _, errors| {
        for field in ["driverName", "parameters"] {
            frozen(new, old, &[field], &format!("updates to {field} are forbidden."), errors);
        }
    },
    returns_deleted: true,
    ..Strategy::PLAIN
};

pub(crate) const DRIVER: Strategy = Strategy {
    default: default_driver,
    validate: validate_driver,
    validate_update: |new, old, _, errors| {
        immutable(new, old, &["spec.attachRequired", "spec.volumeLifecycleModes"], errors);
    },
    name: driver_name,
    generation: Generation::Counted { first: 0, metadata: &[] },
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::PLAIN
};

pub(crate) const NODE: Strategy = Strategy {
    validate: validate_node,
    validate_update: validate_node_update,
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::PLAIN
};

pub(crate) const CAPACITY: Strategy = Strategy {
    validate: |capacity, errors| {
        must_be_named(capacity, "storageClassName", names::subdomain, errors);
        selector(capacity, "nodeTopology", errors);
        for field in ["capacity", "maximumVolumeSize"] {
            capacity.get(field).filter(|value| !value.is_null()).map(|value| amount(value, field, errors));
        }
    },
    validate_update: |new, old, _, errors| immutable(new, old, &["nodeTopology", "storageClassName"], errors),
    unconditional_update: false,
    ..Strategy::PLAIN
};

pub(crate) const ATTACHMENT: Strategy = Strategy {
    prepare_create: no_status,
    validate: validate_attachment,
    validate_update: |new, old, part, errors| {
        if part.is_none() {
            immutable(new, old, &["spec"], errors);
        }
    },
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::PLAIN
};

const MOST_DRIVER_NAME: usize = 63;
const MOST_PARAMETERS: usize = 512;
const MOST_PARAMETER_BYTES: usize = 256 * 1024;
const MOST_NODE_ID: usize = 256;

/// The name of a CSI driver: a subdomain that fits into a label.
fn driver_name(name: &str, generate: bool) -> Option<String> {
    match name.len() > MOST_DRIVER_NAME {
        true => Some(format!("must be no more than {MOST_DRIVER_NAME} bytes")),
        false => names::subdomain(&name.to_lowercase(), generate),
    }
}

fn validate_class(class: &Object, errors: &mut Errors) {
    let provisioner = text(class, "provisioner");
    match provisioner.is_empty() {
        true => errors.required("provisioner", ""),
        false => malformed("provisioner", provisioner, names::qualified(&provisioner.to_lowercase()), errors),
    }
    check_parameters(class, errors);
    one_of(class, "reclaimPolicy", &["Delete", "Retain"], errors);
    must_be(class, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], errors);
    each(class, "allowedTopologies", errors, |term, errors| {
        each(term, "matchLabelExpressions", errors, |expression, errors| {
            let key = text(expression, "key");
            malformed("key", key, names::qualified(key), errors);
            if list(expression, "values").is_empty() {
                errors.required("values", "");
            }
        });
    });
}

fn check_parameters(class: &Object, errors: &mut Errors) {
    let Some(parameters) = map(class, "parameters") else { return };
    if parameters.len() > MOST_PARAMETERS {
        errors.too_many("parameters", parameters.len(), MOST_PARAMETERS);
    }
    if let Some(value) = parameters.get("") {
        errors.invalid("parameters", value, "field must not be empty.");
    }
    let len = |value: &Value| value.as_str().map_or(0, str::len);
    if parameters.iter().map(|(key, value)| key.len() + len(value)).sum::<usize>() > MOST_PARAMETER_BYTES {
        errors.too_long("parameters", MOST_PARAMETER_BYTES);
    }
}

fn default_driver(driver: &mut Object) {
    defaults(
        driver,
        json!({"spec": {
            "attachRequired": true,
            "podInfoOnMount": false,
            "preventPodSchedulingIfMissing": false,
            "storageCapacity": false,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "requiresRepublish": false,
            "seLinuxMount": false,
            "volumeLifecycleModes": []
        }}),
    );
    if dotted(driver, "spec.volumeLifecycleModes") == Some(&json!([])) {
        windlass_machinery::object::set_at(
            driver,
            &["spec", "volumeLifecycleModes"],
            Some(json!(["Persistent"])),
        );
    }
}

fn validate_driver(driver: &Object, errors: &mut Errors) {
    within(driver, "spec", errors, |spec, errors| {
        one_of(spec, "fsGroupPolicy", &["ReadWriteOnceWithFSType", "File", "None"], errors);
        each_one_of(spec, "volumeLifecycleModes", &["Persistent", "Ephemeral"], errors);
        unique_by(spec, "tokenRequests", "audience", errors);
        each(spec, "tokenRequests", errors, |request, errors| match int(request, "expirationSeconds") {
            Some(seconds) if seconds < 600 => {
                let detail = "may not specify a duration less than 10 minutes";
                errors.invalid("expirationSeconds", &seconds.into(), detail);
            }
            Some(seconds) if seconds > 1 << 32 => {
                let detail = "may not specify a duration larger than 2^32 seconds";
                errors.invalid("expirationSeconds", &seconds.into(), detail);
            }
            _ => {}
        });
        if let Some(seconds) = int(spec, "nodeAllocatableUpdatePeriodSeconds").filter(|seconds| *seconds < 10)
        {
            let detail = "must be greater than or equal to 10 seconds";
            errors.invalid("nodeAllocatableUpdatePeriodSeconds", &seconds.into(), detail);
        }
    });
}

fn validate_node(node: &Object, errors: &mut Errors) {
    within(node, "spec", errors, |spec, errors| {
        unique_by(spec, "drivers", "name", errors);
        each(spec, "drivers", errors, |driver, errors| {
            must_be_named(driver, "name", driver_name, errors);
            required(driver, &["nodeID"], errors);
            if text(driver, "nodeID").len() > MOST_NODE_ID {
                errors.too_long("nodeID", MOST_NODE_ID);
            }
            within(driver, "allocatable", errors, |allocatable, errors| {
                non_negative(allocatable, &["count"], errors);
            });
            for (index, key) in texts(driver, "topologyKeys") {
                malformed("topologyKeys", key, names::qualified(key), errors);
                if texts(driver, "topologyKeys").take(index).any(|earlier| earlier.1 == key) {
                    errors.duplicate("topologyKeys", &key.into());
                }
            }
        });
    });
}

/// A driver may come and go, but while it is there it stays what it is; only how much it holds may change.
fn validate_node_update(new: &Object, old: &Object, _part: Option<&str>, errors: &mut Errors) {
    let (Some(spec), Some(before)) = (map(new, "spec"), map(old, "spec")) else { return };
    for (index, driver) in maps(spec, "drivers") {
        let earlier = maps(before, "drivers").find(|earlier| text(earlier.1, "name") == text(driver, "name"));
        let Some((_, earlier)) = earlier else { continue };
        if ["nodeID", "topologyKeys"].iter().any(|field| !same(driver.get(*field), earlier.get(*field))) {
            errors.at("spec", |errors| {
                errors.at_index("drivers", index, |errors| {
                    errors.invalid("", &Value::Object(driver.clone()), IMMUTABLE);
                });
            });
        }
    }
}

fn validate_attachment(attachment: &Object, errors: &mut Errors) {
    within(attachment, "spec", errors, |spec, errors| {
        must_be_named(spec, "attacher", driver_name, errors);
        must_be_named(spec, "nodeName", names::subdomain, errors);
        within(spec, "source", errors, |source, errors| {
            let named_volume = !text(source, "persistentVolumeName").is_empty();
            if named_volume == is_set(source, "inlineVolumeSpec") {
                errors.required("", "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
            }
            named(source, "persistentVolumeName", names::subdomain, errors);
            if let Some(spec) = map(source, "inlineVolumeSpec") {
                errors.at("inlineVolumeSpec", |errors| volume::validate_spec(spec, errors));
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn classes_delete_at_once_and_bind_at_once() {
        assert_eq!(
            defaulted(&CLASS, json!({"provisioner": "a.io/b"})),
            json!({"provisioner": "a.io/b", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        );
        check(
            &CLASS,
            &[
                (json!({"provisioner": "a.io/b"}), &[]),
                (json!({}), &["Required provisioner"]),
                (json!({"provisioner": "a", "reclaimPolicy": "Recycle"}), &["NotSupported reclaimPolicy"]),
                (json!({"provisioner": "a", "parameters": {"": "x"}}), &["Invalid parameters"]),
                (
                    json!({"provisioner": "a", "parameters": {"a": "x".repeat(MOST_PARAMETER_BYTES)}}),
                    &["TooLong parameters"],
                ),
            ],
        );
        let old = json!({"provisioner": "a", "parameters": {"a": "b"}});
        let new = json!({
            "provisioner": "b", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": true
        });
        assert_eq!(
            change_faults(&CLASS, old, new, None),
            [
                "Forbidden parameters",
                "Forbidden provisioner",
                "Forbidden reclaimPolicy",
                "Invalid volumeBindingMode"
            ]
        );
    }

    #[test]
    fn drivers_attach_unless_they_say_otherwise() {
        assert_eq!(
            defaulted(&DRIVER, json!({})),
            json!({"spec": {
                "attachRequired": true, "podInfoOnMount": false, "preventPodSchedulingIfMissing": false,
                "storageCapacity": false,
                "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": false, "seLinuxMount": false,
                "volumeLifecycleModes": ["Persistent"]
            }})
        );
        let tokens = |tokens: Value| json!({"spec": {"tokenRequests": tokens}});
        check(
            &DRIVER,
            &[
                (json!({}), &[]),
                (json!({"spec": {"fsGroupPolicy": "Some"}}), &["NotSupported spec.fsGroupPolicy"]),
                (
                    json!({"spec": {"volumeLifecycleModes": ["Eternal"]}}),
                    &["NotSupported spec.volumeLifecycleModes[0]"],
                ),
                (
                    tokens(json!([{"audience": "a"}, {"audience": "a", "expirationSeconds": 1}])),
                    &[
                        "Duplicate spec.tokenRequests[1].audience",
                        "Invalid spec.tokenRequests[1].expirationSeconds",
                    ],
                ),
            ],
        );
        let new = json!({"spec": {"attachRequired": false, "podInfoOnMount": true}});
        assert_eq!(change_faults(&DRIVER, json!({}), new, None), ["Invalid spec.attachRequired"]);
    }

    #[test]
    fn drivers_of_a_node_stay_what_they_are() {
        let with = |id: &str| json!({"spec": {"drivers": [{"name": "a", "nodeID": id}]}});
        check(
            &NODE,
            &[
                (with("x"), &[]),
                (with(""), &["Required spec.drivers[0].nodeID"]),
                (
                    json!({"spec": {"drivers": [{"name": "a", "nodeID": "x"}, {"name": "a", "nodeID": "y"}]}}),
                    &["Duplicate spec.drivers[1].name"],
                ),
            ],
        );
        assert_eq!(change_faults(&NODE, with("x"), with("y"), None), ["Invalid spec.drivers[0]"]);
        assert_eq!(change_faults(&NODE, with("x"), json!({"spec": {"drivers": []}}), None), [""; 0]);
    }

    #[test]
    fn capacities_attachments_and_attribute_classes_are_checked() {
        check(
            &CAPACITY,
            &[
                (json!({"storageClassName": "a", "capacity": "1Gi"}), &[]),
                (json!({"capacity": "-1"}), &["Required storageClassName", "Invalid capacity"]),
            ],
        );
        let attach = |source: Value| json!({"spec": {"attacher": "a", "nodeName": "n", "source": source}});
        check(
            &ATTACHMENT,
            &[
                (attach(json!({"persistentVolumeName": "v"})), &[]),
                (attach(json!({})), &["Required spec.source"]),
                (json!({}), &["Required spec.attacher", "Required spec.nodeName", "Required spec.source"]),
            ],
        );
        assert_eq!(
            change_faults(
                &ATTACHMENT,
                attach(json!({"persistentVolumeName": "v"})),
                attach(json!({"persistentVolumeName": "w"})),
                None
            ),
            ["Invalid spec"]
        );
        check(
            &ATTRIBUTES_CLASS,
            &[
                (json!({"driverName": "a", "parameters": {"a": "b"}}), &[]),
                (json!({}), &["Required driverName", "Required parameters"]),
            ],
        );
    }
}
