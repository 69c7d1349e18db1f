//! What extends the API itself: definitions of further kinds, and servers that serve further groups.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
};

use super::{
    checks::{defaults, defaults_in, immutable, no_status, unique_by},
    fields::{
        below, each, int, is_set, list, malformed, map, maps, must_be, port, required, text, truth, within,
    },
    webhook,
};
use crate::resources::Strategy;

pub(crate) const DEFINITION: Strategy = Strategy {
    default: default_definition,
    prepare_create: |definition| {
        no_status(definition);
        note_storage(definition);
    },
    prepare_update: |new, _, part| {
        if part.is_none() {
            note_storage(new);
        }
    },
    validate: validate_definition,
    validate_update: validate_definition_update,
    generation: true,
    unconditional_update: false,
    ..Strategy::PLAIN
};

pub(crate) const API_SERVICE: Strategy = Strategy {
    default: |service| defaults_in(service, &["spec", "service"], json!({"port": 443})),
    prepare_create: prepare_service,
    validate: validate_service,
    name: names::path_segment,
    unconditional_update: false,
    ..Strategy::PLAIN
};

fn default_definition(definition: &mut Object) {
    let spec = object::child_mut(definition, "spec");
    let kind = object::str_at(spec, &["names", "kind"]).unwrap_or_default().to_owned();
    if !kind.is_empty() {
        let names = json!({"names": {"singular": kind.to_lowercase(), "listKind": format!("{kind}List")}});
        defaults(spec, names);
    }
    defaults(spec, json!({"conversion": {"strategy": "None"}}));
    defaults_in(spec, &["conversion", "webhook", "clientConfig", "service"], json!({"port": 443}));
}

fn storage_version(definition: &Object) -> Option<&str> {
    let mut versions = maps(map(definition, "spec")?, "versions");
    versions.find(|(_, version)| truth(version, "storage")).map(|(_, version)| text(version, "name"))
}

/// Whatever was ever stored in some version is remembered.
fn note_storage(definition: &mut Object) {
    let Some(version) = storage_version(definition).map(str::to_owned) else { return };
    let mut stored = object::list_at(definition, &["status", "storedVersions"]).to_vec();
    if !stored.iter().any(|earlier| *earlier == *version) {
        stored.push(version.into());
        object::set_at(definition, &["status", "storedVersions"], Some(Value::Array(stored)));
    }
}

fn validate_definition(definition: &Object, errors: &mut Errors) {
    let name = object::name(definition);
    within(definition, "spec", errors, |spec, errors| {
        check_group(text(spec, "group"), errors);
        must_be(spec, "scope", &["Cluster", "Namespaced"], errors);
        within(spec, "names", errors, check_names);
        check_versions(spec, errors);
        within(spec, "conversion", errors, |conversion, errors| {
            must_be(conversion, "strategy", &["None", "Webhook"], errors);
            check_conversion(conversion, errors);
        });
        if truth(spec, "preserveUnknownFields") {
            let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
            errors.invalid("preserveUnknownFields", &json!(true), detail);
        }
    });
    let plural = object::str_at(definition, &["spec", "names", "plural"]).unwrap_or_default();
    let group = object::str_at(definition, &["spec", "group"]).unwrap_or_default();
    if name != format!("{plural}.{group}") {
        errors.invalid_str("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
    }
}

fn check_group(group: &str, errors: &mut Errors) {
    if group.is_empty() {
        return errors.required("group", "");
    }
    let fault = names::subdomain(group, false);
    let dotless = fault.is_none() && !group.contains('.');
    malformed("group", group, fault, errors);
    if dotless {
        errors.invalid_str("group", group, "should be a domain with at least one dot");
    }
}

fn check_names(spec: &Object, errors: &mut Errors) {
    required(spec, &["plural", "singular", "kind", "listKind"], errors);
    for field in ["plural", "singular"] {
        check_word(field, text(spec, field), errors);
    }
    for field in ["kind", "listKind"] {
        let kind = text(spec, field);
        if let Some(fault) = names::label_1035(&kind.to_lowercase(), false).filter(|_| !kind.is_empty()) {
            errors.invalid_str(
                field,
                kind,
                format!("may have mixed case, but should otherwise match: {fault}"),
            );
        }
    }
    if !text(spec, "kind").is_empty() && text(spec, "kind") == text(spec, "listKind") {
        errors.invalid_str("listKind", text(spec, "listKind"), "kind and listKind may not be the same");
    }
    for field in ["shortNames", "categories"] {
        for (index, word) in super::fields::texts(spec, field) {
            errors.at_index(field, index, |errors| check_word("", word, errors));
        }
    }
}

fn check_word(field: &str, word: &str, errors: &mut Errors) {
    if !word.is_empty() {
        malformed(field, word, names::label_1035(word, false), errors);
    }
}

fn check_versions(spec: &Object, errors: &mut Errors) {
    unique_by(spec, "versions", "name", errors);
    each(spec, "versions", errors, |version, errors| {
        required(version, &["name"], errors);
        check_word("name", text(version, "name"), errors);
        if object::at(version, &["schema", "openAPIV3Schema"]).is_none_or(Value::is_null) {
            errors.required("schema.openAPIV3Schema", "schemas are required");
        }
        if is_set(version, "deprecationWarning") && !truth(version, "deprecated") {
            errors.invalid_str(
                "deprecationWarning",
                text(version, "deprecationWarning"),
                "can only be set for deprecated versions",
            );
        }
    });
    if maps(spec, "versions").filter(|(_, version)| truth(version, "storage")).count() != 1 {
        let shown = json!(
            list(spec, "versions").iter().filter_map(|version| version.get("name")).collect::<Vec<_>>()
        );
        errors.invalid("versions", &shown, "must have exactly one version marked as storage version");
    }
}

fn check_conversion(conversion: &Object, errors: &mut Errors) {
    let webhook = map(conversion, "webhook");
    if text(conversion, "strategy") != "Webhook" {
        if webhook.is_some() {
            errors.forbidden("webhook", "should not be set when strategy is not set to Webhook");
        }
        return;
    }
    let Some(webhook) = webhook.filter(|webhook| is_set(webhook, "clientConfig")) else {
        return errors.required("webhook.clientConfig", "required when strategy is set to Webhook");
    };
    errors.at("webhook", |errors| {
        if list(webhook, "conversionReviewVersions").is_empty() {
            errors.required("conversionReviewVersions", "");
        }
        within(webhook, "clientConfig", errors, webhook::check_client);
    });
}

fn validate_definition_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    if part.is_some() {
        return check_stored(new, errors);
    }
    immutable(new, old, &["spec.group", "spec.names.plural"], errors);
    let conditions = object::list_at(old, &["status", "conditions"]);
    let established = conditions
        .iter()
        .filter_map(Value::as_object)
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
    if established {
        immutable(new, old, &["spec.scope", "spec.names.kind"], errors);
    }
    check_stored(new, errors);
}

/// A version that objects may still be stored in must be served, and the storage version must be among them.
fn check_stored(definition: &Object, errors: &mut Errors) {
    let stored = object::list_at(definition, &["status", "storedVersions"]);
    if stored.is_empty() {
        return;
    }
    let versions: Vec<&str> = map(definition, "spec")
        .into_iter()
        .flat_map(|spec| maps(spec, "versions"))
        .map(|(_, version)| text(version, "name"))
        .collect();
    for (index, version) in stored.iter().filter_map(Value::as_str).enumerate() {
        if !versions.contains(&version) {
            let detail = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
            );
            errors.at_index("status.storedVersions", index, |errors| errors.invalid_str("", version, detail));
        }
    }
    if let Some(version) = storage_version(definition)
        && !stored.iter().any(|earlier| *earlier == *version)
    {
        let detail = format!("must have the storage version {version}");
        errors.invalid("status.storedVersions", &json!(stored), detail);
    }
}

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

    fn definition(change: Value) -> Value {
        let mut spec = json!({
            "group": "a.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {}}}]
        });
        for (field, value) in object(change) {
            spec[field] = value;
        }
        json!({"metadata": {"name": "foos.a.io"}, "spec": spec})
    }

    #[test]
    fn names_follow_from_the_kind() {
        let made = created(&DEFINITION, definition(json!({})));
        assert_eq!(
            made["spec"]["names"],
            json!({"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"})
        );
        assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(made["status"], json!({"storedVersions": ["v1"]}));
    }

    #[test]
    fn faults_of_definitions_are_found() {
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {}}});
        let versions = |versions: &[Value]| definition(json!({"versions": versions}));
        check(
            &DEFINITION,
            &[
                (definition(json!({})), &[]),
                (definition(json!({"group": "b.io"})), &["Invalid metadata.name"]),
                (definition(json!({"scope": "Both"})), &["NotSupported spec.scope"]),
                (versions(&[version("v1", true), version("v2", true)]), &["Invalid spec.versions"]),
                (
                    versions(&[version("v1", true), version("v1", false)]),
                    &["Duplicate spec.versions[1].name"],
                ),
                (
                    versions(&[json!({"name": "v1", "storage": true})]),
                    &["Required spec.versions[0].schema.openAPIV3Schema"],
                ),
                (
                    definition(json!({"conversion": {"strategy": "Webhook"}})),
                    &["Required spec.conversion.webhook.clientConfig"],
                ),
                (
                    definition(json!({"names": {"plural": "foos", "kind": "Foo", "listKind": "Foo"}})),
                    &["Invalid spec.names.listKind"],
                ),
            ],
        );
    }

    #[test]
    fn an_established_definition_keeps_its_kind_and_stored_versions() {
        let mut old = definition(json!({}));
        old["status"] = json!({
            "conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]
        });
        let mut new = old.clone();
        new["spec"]["scope"] = json!("Cluster");
        new["spec"]["names"]["kind"] = json!("Bar");
        new["spec"]["versions"][0]["name"] = json!("v2");
        assert_eq!(
            change_faults(&DEFINITION, old, new, None),
            ["Invalid spec.scope", "Invalid spec.names.kind", "Invalid status.storedVersions[0]"]
        );
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
