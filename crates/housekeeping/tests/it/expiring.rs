//! What has expired.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Secret};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_housekeeping::Options;

use crate::house::{House, create, until};

/// Someone who thinks that it is later.
fn later(time: SignedDuration) -> Options {
    Options { clock: Arc::new(move || Timestamp::now() + time), ..Options::default() }
}

async fn token(house: &House, name: &str, kind: &str, expiration: &str) {
    let secret = json!({
        "metadata": {"name": format!("bootstrap-token-{name}")},
        "type": kind,
        "stringData": {
            "token-id": name, "token-secret": "0123456789abcdef", "expiration": expiration,
            "usage-bootstrap-authentication": "true",
        },
    });
    create(&house.all::<Secret>("kube-system"), secret).await;
}

/// Waits until exactly these are left.
async fn left(house: &House, expected: &[&str]) {
    let secrets = house.all::<Secret>("kube-system");
    until(&format!("only {expected:?} are left"), || async {
        let all = secrets.list(&ListParams::default()).await.expect("a list");
        let mut names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
        names.retain(|name| name.starts_with("bootstrap-token-"));
        names.sort();
        let expected = expected.iter().map(|name| format!("bootstrap-token-{name}"));
        (names == expected.collect::<Vec<_>>()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_go_when_they_expire() {
    let house = House::new().await;
    const KIND: &str = "bootstrap.kubernetes.io/token";
    let now = Timestamp::now();
    token(&house, "aaaaaa", KIND, &(now - SignedDuration::from_secs(60)).to_string()).await;
    token(&house, "bbbbbb", KIND, &(now + SignedDuration::from_secs(3600)).to_string()).await;
    token(&house, "cccccc", KIND, "").await;
    token(&house, "dddddd", KIND, "someday").await;
    token(&house, "eeeeee", KIND, &(now + SignedDuration::from_secs(2)).to_string()).await;
    token(&house, "ffffff", "Opaque", "2001-01-01T00:00:00Z").await;
    for (name, never) in [
        ("gggggg", "9999-12-31T23:59:59Z"),
        ("hhhhhh", "9999-12-31T23:59:59-07:00"),
        ("iiiiii", "9999-12-31T23:59:59.999+14:00"),
    ] {
        token(&house, name, KIND, never).await;
    }
    for (name, nonsense) in [("jjjjjj", "9999-12-32T23:59:59Z"), ("kkkkkk", "9999-12-31")] {
        token(&house, name, KIND, nonsense).await;
    }
    left(&house, &["bbbbbb", "cccccc", "ffffff", "gggggg", "hhhhhh", "iiiiii"]).await;
    assert!(Timestamp::now() >= now + SignedDuration::from_secs(2), "one had two seconds left");
}

/// A certificate that ends in this many hours.
fn certificate(hours: i64) -> String {
    let mut parameters = rcgen::CertificateParams::new(vec![]).expect("parameters");
    let end = Timestamp::now() + SignedDuration::from_hours(hours);
    let day = end.to_zoned(jiff::tz::TimeZone::UTC).date();
    parameters.not_after =
        rcgen::date_time_ymd(day.year().into(), day.month().unsigned_abs(), day.day().unsigned_abs());
    let key = rcgen::KeyPair::generate().expect("a key");
    parameters.self_signed(&key).expect("a certificate").pem()
}

async fn request(house: &House, name: &str, approval: &str, issued: Option<i64>) {
    let requests: Api<CertificateSigningRequest> = Api::all(house.client.clone());
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(vec![]).expect("parameters");
    let pem = parameters.serialize_request(&key).and_then(|request| request.pem()).expect("a request");
    let object = json!({
        "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": "example.com/signer", "usages": ["client auth"]},
    });
    create(&requests, object).await;
    let conditions = match approval {
        "" => json!([]),
        approval => json!([{"type": approval, "status": "True", "reason": "r", "message": "m"}]),
    };
    let patch = |part: &'static str, status: Value| {
        let requests = requests.clone();
        async move {
            let patch = Patch::Merge(json!({"status": status}));
            let done = requests.patch_subresource(part, name, &PatchParams::default(), &patch).await;
            assert!(done.is_ok(), "{name}: {done:?}");
        }
    };
    if !approval.is_empty() {
        let part = if approval == "Failed" { "status" } else { "approval" };
        patch(part, json!({"conditions": conditions})).await;
    }
    if let Some(hours) = issued {
        patch("status", json!({"certificate": STANDARD.encode(certificate(hours))})).await;
    }
}

async fn requests(house: &House) -> Vec<String> {
    let requests: Api<CertificateSigningRequest> = Api::all(house.client.clone());
    let all = requests.list(&ListParams::default()).await.expect("a list");
    let mut names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

async fn requests_are(house: &House, expected: &[&str]) {
    until(&format!("{expected:?} are left"), || async { (requests(house).await == expected).then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_when_nobody_needs_them_any_more() {
    let mut house = House::untidy().await;
    request(&house, "pending", "", None).await;
    request(&house, "approved", "Approved", None).await;
    request(&house, "denied", "Denied", None).await;
    request(&house, "failed", "Failed", None).await;
    request(&house, "issued", "Approved", Some(9000)).await;
    request(&house, "ended", "Approved", Some(-48)).await;
    house.tidy(Options::default());
    requests_are(&house, &["approved", "denied", "failed", "issued", "pending"]).await;
    house.neglect().await;
    house.tidy(later(SignedDuration::from_mins(61)));
    requests_are(&house, &["approved", "pending"]).await;
    house.neglect().await;
    house.tidy(later(SignedDuration::from_hours(25)));
    requests_are(&house, &["approved"]).await;
}
