//! Requests for certificates, and what is trusted.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
};
use x509_parser::{
    certification_request::X509CertificationRequest,
    pem::Pem,
    prelude::{FromDer, X509Certificate},
};

use super::{
    checks::{between, defaults, each_one_of, immutable, keep, must_be_named, no_status, same},
    fields::{each, int, list, map, maps, text, within},
};
use crate::resources::Strategy;

pub(crate) const SIGNING_REQUEST: Strategy = Strategy {
    prepare_create: no_status,
    // What was asked for stays, whatever an update says.
    prepare_update: |new, old, _| keep(new, old, &["spec"]),
    validate: |request, errors| within(request, "spec", errors, validate_request),
    validate_update: validate_request_update,
    name: names::path_segment,
    ..Strategy::PLAIN
};

pub(crate) const TRUST_BUNDLE: Strategy = Strategy {
    validate: validate_bundle,
    validate_update: |new, old, _, errors| immutable(new, old, &["spec.signerName"], errors),
    name: names::path_segment,
    unconditional_update: false,
    ..Strategy::PLAIN
};

pub(crate) const POD_REQUEST: Strategy = Strategy {
    default: |request| defaults(request, json!({"spec": {"maxExpirationSeconds": 86400}})),
    prepare_create: no_status,
    validate: |request, errors| within(request, "spec", errors, validate_pod_request),
    validate_update: |new, old, part, errors| match part {
        None => immutable(new, old, &["spec"], errors),
        Some(_) => validate_pod_status(new, old, errors),
    },
    unconditional_update: false,
    ..Strategy::PLAIN
};

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The decisions on a request, of which at most one of the first two can be made.
const DECISIONS: &[&str] = &["Approved", "Denied"];
const OUTCOMES: &[&str] = &["Denied", "Failed", "Issued"];

fn validate_request(spec: &Object, errors: &mut Errors) {
    let request = text(spec, "request");
    if let Err(why) = parse_request(request) {
        errors.invalid_str("request", request, why);
    }
    if list(spec, "usages").is_empty() {
        errors.required("usages", "");
    }
    each_one_of(spec, "usages", USAGES, errors);
    check_signer(spec, true, errors);
    if text(spec, "signerName") == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.invalid_str("signerName", text(spec, "signerName"), detail);
    }
    if let Some(seconds) = int(spec, "expirationSeconds").filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid("expirationSeconds", &seconds.into(), detail);
    }
}

fn parse_request(request: &str) -> Result<(), String> {
    const WRONG: &str = "PEM block type must be CERTIFICATE REQUEST";
    let text = STANDARD.decode(request).map_err(|error| error.to_string())?;
    let block = Pem::iter_from_buffer(&text).next().and_then(Result::ok).ok_or(WRONG)?;
    if block.label != "CERTIFICATE REQUEST" {
        return Err(WRONG.to_owned());
    }
    X509CertificationRequest::from_der(&block.contents).map_err(|error| error.to_string())?;
    Ok(())
}

/// A signer is named by a domain, a slash and a path.
fn check_signer(spec: &Object, required: bool, errors: &mut Errors) {
    let signer = text(spec, "signerName");
    if signer.is_empty() {
        if required {
            errors.required("signerName", "");
        }
        return;
    }
    let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    match signer.split_once('/') {
        Some((domain, path)) if !path.is_empty() && domain.contains('.') && !path.contains('/') => {
            let faults = names::subdomain(domain, false).into_iter();
            let faults = faults.chain(path.split('.').find_map(|part| names::label(part, false)));
            super::fields::malformed("signerName", signer, faults, errors);
        }
        _ => errors.invalid_str("signerName", signer, detail),
    }
}

fn conditions(object: &Object) -> &Object {
    static NONE: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);
    map(object, "status").unwrap_or(&NONE)
}

fn has(object: &Object, kind: &str) -> bool {
    maps(conditions(object), "conditions").any(|(_, condition)| text(condition, "type") == kind)
}

fn validate_request_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    let Some(part) = part else { return };
    errors.at("status", |errors| {
        each(conditions(new), "conditions", errors, |condition, errors| {
            let status = text(condition, "status");
            match text(condition, "type") {
                "" => errors.required("type", ""),
                "Approved" | "Denied" | "Failed" if status != "True" => {
                    errors.not_supported("status", status, &["True"])
                }
                _ => super::fields::must_be(condition, "status", &["True", "False", "Unknown"], errors),
            }
        });
        super::checks::unique_by(conditions(new), "conditions", "type", errors);
        if DECISIONS.iter().all(|kind| has(new, kind)) {
            let shown = json!("Denied");
            errors.invalid("conditions", &shown, "Approved and Denied conditions are mutually exclusive");
        }
        for kind in ["Approved", "Denied", "Failed"] {
            if has(old, kind) && !has(new, kind) {
                let detail = format!("updates may not remove a condition of type \"{kind}\"");
                errors.forbidden("conditions", detail);
            }
            if part == "status" && DECISIONS.contains(&kind) && has(new, kind) && !has(old, kind) {
                let detail = format!("updates may not add a condition of type \"{kind}\"");
                errors.forbidden("conditions", detail);
            }
        }
        check_issued(new, old, errors);
    });
}

/// A certificate is issued once, in PEM.
fn check_issued(new: &Object, old: &Object, errors: &mut Errors) {
    let (issued, before) = (text(conditions(new), "certificate"), text(conditions(old), "certificate"));
    if issued == before {
        return;
    }
    if !before.is_empty() {
        return errors.forbidden("certificate", "updates may not change certificate content");
    }
    let text = STANDARD.decode(issued).unwrap_or_default();
    if let Err(why) = parse_certificates(&text) {
        errors.invalid_str("certificate", "<certificate data>", why);
    }
}

fn parse_certificates(text: &[u8]) -> Result<(), String> {
    let mut found = false;
    for block in Pem::iter_from_buffer(text) {
        let block = block.map_err(|error| error.to_string())?;
        if block.label != "CERTIFICATE" {
            return Err("only CERTIFICATE PEM blocks are allowed".to_owned());
        }
        X509Certificate::from_der(&block.contents).map_err(|error| error.to_string())?;
        found = true;
    }
    match found {
        true => Ok(()),
        false => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
    }
}

fn validate_bundle(bundle: &Object, errors: &mut Errors) {
    let name = object::name(bundle);
    within(bundle, "spec", errors, |spec, errors| {
        check_signer(spec, false, errors);
        let trusted = text(spec, "trustBundle");
        if trusted.is_empty() {
            errors.required("trustBundle", "");
        } else if let Err(why) = parse_certificates(trusted.as_bytes()) {
            errors.invalid_str("trustBundle", "<value omitted>", why);
        }
    });
    let signer = object::str_at(bundle, &["spec", "signerName"]).unwrap_or_default();
    let beginning = format!("{}:", signer.replace('/', ":"));
    let rest = match signer.is_empty() {
        true => Some(name),
        false => name.strip_prefix(&beginning),
    };
    match rest {
        None => {
            let detail =
                format!("ClusterTrustBundle for signerName {signer} must be named with prefix {beginning}");
            errors.invalid_str("metadata.name", name, detail);
        }
        Some(rest) if signer.is_empty() && rest.contains(':') => {
            let detail = "ClusterTrustBundle without signer name must not have \":\" in its name";
            errors.invalid_str("metadata.name", name, detail);
        }
        Some(rest) => {
            super::fields::malformed("metadata.name", name, names::subdomain(rest, false), errors);
        }
    }
}

fn validate_pod_request(spec: &Object, errors: &mut Errors) {
    check_signer(spec, true, errors);
    for field in ["podName", "serviceAccountName", "nodeName"] {
        must_be_named(spec, field, names::subdomain, errors);
    }
    super::fields::required(spec, &["podUID", "serviceAccountUID", "nodeUID"], errors);
    between(spec, "maxExpirationSeconds", 3600, 7_862_400, errors);
    let der = STANDARD.decode(text(spec, "stubPKCS10Request")).unwrap_or_default();
    if der.is_empty() {
        errors.required("stubPKCS10Request", "must be specified");
    } else if let Err(error) = X509CertificationRequest::from_der(&der) {
        errors.invalid_str("stubPKCS10Request", "<value omitted>", error.to_string());
    }
}

/// A request ends once, in one way.
fn validate_pod_status(new: &Object, old: &Object, errors: &mut Errors) {
    let ended = |object: &Object| OUTCOMES.iter().filter(|kind| has(object, kind)).count();
    if ended(old) > 0 && !same(new.get("status"), old.get("status")) {
        errors.invalid(
            "status",
            new.get("status").unwrap_or(&Value::Null),
            "immutable after a final condition is set",
        );
    }
    if ended(new) > 1 {
        let detail = "only one of Issued, Denied and Failed may be set";
        errors.invalid("status.conditions", &json!(list(conditions(new), "conditions")), detail);
    }
    let chain = text(conditions(new), "certificateChain");
    if has(new, "Issued") {
        if let Err(why) = parse_certificates(chain.as_bytes()) {
            errors.invalid_str("status.certificateChain", chain, why);
        }
    } else if !chain.is_empty() {
        errors.forbidden("status.certificateChain", "may only be set when the request is issued");
    }
}

#[cfg(test)]
mod tests;
