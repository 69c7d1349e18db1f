//! What extends the API itself: definitions of further kinds, and servers that serve further groups.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_cel::rules as cel;
use windlass_machinery::{
    definition,
    field::Errors,
    names,
    object::{self, Object},
    time,
};

use super::{
    checks::{defaults_in, no_status},
    fields::{below, int, is_set, malformed, port, required, text, truth, within},
};
use crate::{
    crd,
    resources::{Generation, Rules, Strategy},
    status::Outcome,
    verbs::without_blocking,
};

pub(crate) const DEFINITION: Strategy = Strategy {
    generation: Generation::COUNTED,
    unconditional_update: false,
    deleting: begin_clean_up,
    ..Strategy::PLAIN
};

/// The rules of definitions, which tell a new one from one that has changed.
pub(crate) struct DefinitionRules;

impl Rules for DefinitionRules {
    fn default(&self, definition: &mut Object) -> Outcome<()> {
        definition::set_defaults(definition);
        Ok(())
    }

    fn validate(&self, new: &Object, old: Option<&Object>, part: Option<&str>, errors: &mut Errors) {
        if part.is_some() {
            return definition::validate_status(new, errors);
        }
        // Schemas of a megabyte take a while.
        without_blocking(usize::MAX, || {
            match old {
                None => definition::validate(new, errors),
                Some(old) => definition::validate_update(new, old, errors),
            };
            if errors.is_empty() {
                validate_rules(new, old, errors);
            }
        });
    }
}

/// Finds faults in the CEL rules of schemas that are new.
fn validate_rules(new: &Object, old: Option<&Object>, errors: &mut Errors) {
    let versions = |definition: &Object| object::list_at(definition, &["spec", "versions"]).to_vec();
    let before = old.map(versions).unwrap_or_default();
    for (index, version) in versions(new).iter().enumerate() {
        let is_known =
            before.iter().any(|old| old["name"] == version["name"] && old["schema"] == version["schema"]);
        let schema = &version["schema"]["openAPIV3Schema"];
        let Err(faults) = (if is_known { Ok(None) } else { cel::Rules::compile(schema) }) else { continue };
        errors.at_index("spec.versions", index, |errors| {
            errors.at("schema.openAPIV3Schema", |errors| {
                for fault in faults {
                    errors.push(fault.fault, &fault.field, fault.shown, fault.detail);
                }
            });
        });
    }
}

/// Turns a definition into the form of an `apiVersion`.
pub(crate) fn convert(definition: &mut Object, api_version: &str, errors: &mut Errors) {
    match api_version.ends_with("/v1beta1") {
        true => definition::to_v1beta1(definition),
        false => definition::from_v1beta1(definition, errors),
    }
}

/// Objects go before their definition.
fn begin_clean_up(definition: &mut Object) {
    let marked = object::str_at(definition, &["metadata", "deletionTimestamp"]).and_then(time::parse);
    let mut finalizers = object::list_at(definition, &["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == crd::FINALIZER) {
        finalizers.push(crd::FINALIZER.into());
        object::metadata_mut(definition).insert("finalizers".to_owned(), Value::Array(finalizers));
    }
    // It waits for its objects, not for a time.
    object::metadata_mut(definition).remove("deletionGracePeriodSeconds");
    crd::note_deletion(definition, marked.unwrap_or(Timestamp::UNIX_EPOCH));
}

pub(crate) const API_SERVICE: Strategy = Strategy {
    default: |service| defaults_in(service, &["spec", "service"], json!({"port": 443})),
    prepare_create: prepare_service,
    validate: validate_service,
    name: names::path_segment,
    unconditional_update: false,
    ..Strategy::PLAIN
};

/// What is served by this very server is available from the beginning.
fn prepare_service(service: &mut Object) {
    no_status(service);
    if object::at(service, &["spec", "service"]).is_none_or(Value::is_null) {
        let mut condition = json!({
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available"
        });
        if let Some(time) = object::str_at(service, &["metadata", "creationTimestamp"]) {
            condition["lastTransitionTime"] = json!(time);
        }
        service.insert("status".to_owned(), json!({"conditions": [condition]}));
    }
}

fn validate_service(service: &Object, errors: &mut Errors) {
    let name = object::name(service);
    let at = |field: &str| object::str_at(service, &["spec", field]).unwrap_or_default();
    let (group, version) = (at("group"), at("version"));
    if name != format!("{version}.{group}") {
        let detail = format!("must be `spec.version+\".\"+spec.group`: \"{version}.{group}\"");
        errors.invalid_str("metadata.name", name, detail);
    }
    within(service, "spec", errors, |spec, errors| {
        match (group, version) {
            ("", "v1") => {}
            ("", _) => {
                errors.required("group", "only v1 may have an empty group and it better be legacy kube")
            }
            (group, _) => malformed("group", group, names::subdomain(group, false), errors),
        }
        malformed("version", version, names::label_1035(version, false), errors);
        for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
            let number = int(spec, field).unwrap_or(0);
            if number <= 0 || number > most {
                let detail = format!("must be positive and less than {most}");
                errors.invalid(field, &number.into(), detail);
            }
        }
        let unchecked = truth(spec, "insecureSkipTLSVerify");
        let trusts = !text(spec, "caBundle").is_empty();
        if !is_set(spec, "service") {
            if trusts {
                errors.invalid_str("caBundle", "<omitted>", "local APIServices may not have a caBundle");
            }
            if unchecked {
                let detail = "local APIServices may not have insecureSkipTLSVerify";
                errors.invalid("insecureSkipTLSVerify", &json!(true), detail);
            }
        } else if unchecked && trusts {
            let detail = "may not be true if caBundle is present";
            errors.invalid("insecureSkipTLSVerify", &json!(true), detail);
        }
        below(spec, "service", errors, |service, errors| {
            required(service, &["namespace", "name"], errors);
            port(service, "port", errors);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn a_deleted_definition_waits_for_its_objects() {
        let mut definition = object(
            json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["b"]}}),
        );
        begin_clean_up(&mut definition);
        assert_eq!(definition["metadata"]["finalizers"], json!(["b", crd::FINALIZER]));
        let condition = &definition["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Terminating"), &json!("True")));
        assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:00:00Z");
    }

    #[test]
    fn a_local_service_is_available() {
        let local = json!({
            "metadata": {"name": "v1.a.io"},
            "spec": {"group": "a.io", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
        });
        let condition = &created(&API_SERVICE, local.clone())["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("Available"), &json!("Local")));
        let with = |field: &str, value: Value| {
            let mut service = local.clone();
            service["spec"][field] = value;
            service
        };
        check(
            &API_SERVICE,
            &[
                (local.clone(), &[]),
                (with("service", json!({"name": "a", "namespace": "b"})), &[]),
                (with("service", json!({"name": "a"})), &["Required spec.service.namespace"]),
                (with("version", json!("v2")), &["Invalid metadata.name"]),
                (with("versionPriority", json!(0)), &["Invalid spec.versionPriority"]),
                (with("caBundle", json!("AAAA")), &["Invalid spec.caBundle"]),
            ],
        );
    }
}
