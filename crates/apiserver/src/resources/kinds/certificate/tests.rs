//! Claims about requests for certificates.

use super::{super::testing::*, *};

const REQUEST: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHGMG4CAQAwDDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
BOVoHgsxGJA0bmasYJXPLdY1BQd0bbBtn+82yahbBgTDfOi2Z9zN8nwRWl/QddWo
bQ6MlezW0PLeeG3hBetrrcGgADAKBggqhkjOPQQDAgNIADBFAiAkXE2oFW/WM57V
pc1B2aEwRz6aGQC0oHz3ZCwr3OHQfQIhAPUUYHLzFuqxBcm8R5m1bNxXdE2I7dcy
zFh2FEHnuQuk
-----END CERTIFICATE REQUEST-----
";

const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBbzCCARWgAwIBAgIUA9it0+pEQKLpRP35Fff5O/A2z9EwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBYTAgFw0yNjExMTYwMTMzMDlaGA8yMTI2MTAyMzAxMzMwOVow
DDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKU1VP+JYf4w
fld5tQwHXGWkQWFox4aE3GiMB5xyAnRr6xTeBYtFExiv2qlMzYu397Fdxq9m4UO5
d14271igw2ujUzBRMB0GA1UdDgQWBBSEFjR1dzziGy+ZlV0ljOXcF2UcOTAfBgNV
HSMEGDAWgBSEFjR1dzziGy+ZlV0ljOXcF2UcOTAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0gAMEUCIQDzjS3X867KPZWIMKLb7yBHjoXCbEpldvnoAtl5tkV4
wAIgULuU5HIjVgkYo3IuHmS9L94Iqt8GFNS+icPq/4LuxT4=
-----END CERTIFICATE-----
";

fn request(change: Value) -> Value {
    let mut spec = json!({
        "request": STANDARD.encode(REQUEST), "signerName": "example.com/signer", "usages": ["client auth"]
    });
    for (field, value) in object(change) {
        spec[field] = value;
    }
    json!({"spec": spec})
}

fn with_conditions(kinds: &[&str]) -> Value {
    let conditions: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
    let mut request = request(json!({}));
    request["status"] = json!({"conditions": conditions});
    request
}

#[test]
fn faults_of_requests_are_found() {
    check(
        &SIGNING_REQUEST,
        &[
            (request(json!({})), &[]),
            (request(json!({"request": STANDARD.encode(CERTIFICATE)})), &["Invalid spec.request"]),
            (request(json!({"request": "!"})), &["Invalid spec.request"]),
            (request(json!({"usages": []})), &["Required spec.usages"]),
            (request(json!({"usages": ["fun"]})), &["NotSupported spec.usages[0]"]),
            (request(json!({"signerName": ""})), &["Required spec.signerName"]),
            (request(json!({"signerName": "signer"})), &["Invalid spec.signerName"]),
            (request(json!({"signerName": "kubernetes.io/legacy-unknown"})), &["Invalid spec.signerName"]),
            (request(json!({"expirationSeconds": 599})), &["Invalid spec.expirationSeconds"]),
        ],
    );
}

#[test]
fn what_was_asked_for_stays() {
    let (old, new) = (request(json!({})), request(json!({"signerName": "other.com/signer"})));
    assert_eq!(updated(&SIGNING_REQUEST, old.clone(), new, None)["spec"], old["spec"]);
}

#[test]
fn only_approval_decides_and_only_once() {
    for (old, new, part, expected) in [
        (&[][..], &["Approved"][..], "approval", vec![]),
        (&[], &["Approved", "Denied"], "approval", vec!["Invalid status.conditions"]),
        (&["Approved"], &[], "approval", vec!["Forbidden status.conditions"]),
        (&[], &["Approved"], "status", vec!["Forbidden status.conditions"]),
        (&["Approved"], &["Approved", "Failed"], "status", vec![]),
        (&[], &["Other", "Other"], "status", vec!["Duplicate status.conditions[1].type"]),
    ] {
        let (old, new) = (with_conditions(old), with_conditions(new));
        assert_eq!(change_faults(&SIGNING_REQUEST, old, new.clone(), Some(part)), expected, "{new}");
    }
}

#[test]
fn a_certificate_is_issued_once() {
    let issued = |text: &str| {
        let mut request = request(json!({}));
        request["status"] = json!({"certificate": STANDARD.encode(text)});
        request
    };
    let faults = |old, new| change_faults(&SIGNING_REQUEST, old, new, Some("status"));
    assert_eq!(faults(request(json!({})), issued(CERTIFICATE)), [""; 0]);
    assert_eq!(faults(request(json!({})), issued("x")), ["Invalid status.certificate"]);
    assert_eq!(faults(issued("x"), issued(CERTIFICATE)), ["Forbidden status.certificate"]);
}

#[test]
fn bundles_are_named_after_their_signer() {
    let bundle = |name: &str, signer: &str| json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": CERTIFICATE}});
    check(
        &TRUST_BUNDLE,
        &[
            (bundle("a", ""), &[]),
            (bundle("example.com:s:a", "example.com/s"), &[]),
            (bundle("a", "example.com/s"), &["Invalid metadata.name"]),
            (bundle("b:a", ""), &["Invalid metadata.name"]),
            (json!({"metadata": {"name": "a"}}), &["Required spec.trustBundle"]),
            (
                json!({"metadata": {"name": "a"}, "spec": {"trustBundle": REQUEST}}),
                &["Invalid spec.trustBundle"],
            ),
        ],
    );
}

#[test]
fn requests_of_pods_last_a_day_unless_they_say_otherwise() {
    let der = Pem::iter_from_buffer(REQUEST.as_bytes()).next().unwrap().unwrap().contents;
    let with = |seconds: i64| {
        json!({"spec": {
            "signerName": "example.com/s", "podName": "p", "podUID": "1", "serviceAccountName": "s",
            "serviceAccountUID": "2", "nodeName": "n", "nodeUID": "3", "maxExpirationSeconds": seconds,
            "stubPKCS10Request": STANDARD.encode(&der)
        }})
    };
    assert_eq!(defaulted(&POD_REQUEST, json!({}))["spec"]["maxExpirationSeconds"], 86400);
    check(&POD_REQUEST, &[(with(3600), &[]), (with(60), &["Invalid spec.maxExpirationSeconds"])]);
    assert_eq!(change_faults(&POD_REQUEST, with(3600), with(7200), None), ["Invalid spec"]);
}
