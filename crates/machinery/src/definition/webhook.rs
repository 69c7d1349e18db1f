//! How versions are converted into each other.

use serde_json::Value;

use super::text;
use crate::{
    field::Errors,
    names,
    object::{self, Object},
    structural::Uri,
};

/// The versions of reviews that can be sent.
const REVIEWS: &[&str] = &["v1", "v1beta1"];

pub(super) fn validate_conversion(conversion: &Value, errors: &mut Errors) {
    let empty = Object::new();
    let conversion = conversion.as_object().unwrap_or(&empty);
    match text(conversion, &["strategy"]) {
        "" => errors.required("strategy", ""),
        "None" => {
            if conversion.get("webhook").is_some_and(|webhook| !webhook.is_null()) {
                errors.forbidden("webhook", "should not be set when strategy is not set to Webhook");
            }
        }
        "Webhook" => {
            let webhook = conversion.get("webhook").and_then(Value::as_object).unwrap_or(&empty);
            errors.at("webhook", |errors| {
                match webhook.get("clientConfig").and_then(Value::as_object) {
                    None => errors.required("clientConfig", "required when strategy is set to Webhook"),
                    Some(client) => validate_client(client, errors),
                }
                validate_reviews(object::list_at(webhook, &["conversionReviewVersions"]), errors);
            });
        }
        other => errors.not_supported("strategy", other, &["None", "Webhook"]),
    }
}

fn validate_client(client: &Object, errors: &mut Errors) {
    let set = |field: &str| client.get(field).filter(|value| !value.is_null());
    match (set("url").and_then(Value::as_str), set("service").and_then(Value::as_object)) {
        (Some(url), None) => errors.at("clientConfig", |errors| validate_url("url", url, errors)),
        (None, Some(service)) => {
            errors.at("clientConfig.service", |errors| validate_service(service, errors));
        }
        _ => errors.required("clientConfig", "exactly one of url or service is required"),
    }
}

fn validate_url(field: &str, url: &str, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    match Uri::parse(url) {
        Err(fault) => errors.required(field, format!("url must be a valid URL: {fault}{FORM}")),
        Ok(uri) => {
            if uri.scheme != "https" {
                errors.invalid_str(
                    field,
                    uri.scheme,
                    format!("'https' is the only allowed URL scheme{FORM}"),
                );
            }
            if uri.host.is_empty() {
                errors.invalid_str(field, "", format!("host must be provided{FORM}"));
            }
            if let Some(user) = uri.user {
                errors.invalid_str(field, user, "user information is not permitted in the URL");
            }
            if !uri.fragment.is_empty() {
                errors.invalid_str(field, uri.fragment, "fragments are not permitted in the URL");
            }
            if !uri.query.is_empty() {
                errors.invalid_str(field, uri.query, "query parameters are not permitted in the URL");
            }
        }
    }
}

fn validate_service(service: &Object, errors: &mut Errors) {
    for (field, detail) in
        [("name", "service name is required"), ("namespace", "service namespace is required")]
    {
        if text(service, &[field]).is_empty() {
            errors.required(field, detail);
        }
    }
    let port = object::int_at(service, &["port"]).unwrap_or(443);
    for fault in names::port_number(port) {
        errors.invalid("port", &port.into(), format!("port is not valid: {fault}"));
    }
    let path = text(service, &["path"]);
    if path.is_empty() || path == "/" {
        return;
    }
    let Some(steps) = path.strip_prefix('/') else {
        errors.invalid_str("path", path, "must start with a '/'");
        return;
    };
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid_str("path", path, format!("segment[{index}] may not be empty"));
            continue;
        }
        for fault in names::subdomain_faults(step) {
            errors.invalid_str("path", path, format!("segment[{index}]: {fault}"));
        }
    }
}

fn validate_reviews(versions: &[Value], errors: &mut Errors) {
    const FIELD: &str = "conversionReviewVersions";
    if versions.is_empty() {
        errors.required(FIELD, "");
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        errors.at_index(FIELD, index, |errors| {
            let name = version.as_str().unwrap_or_default();
            if versions[..index].contains(version) {
                errors.invalid("", version, "duplicate version");
            } else if let Some(fault) = names::label_1035(name, false) {
                errors.invalid_str("", name, fault);
            }
        });
    }
    if !versions.iter().any(|version| REVIEWS.iter().any(|review| version == review)) {
        let shown = Value::from(versions);
        errors.invalid(FIELD, &shown, format!("must include at least one of {}", REVIEWS.join(", ")));
    }
}
