//! Traffic that someone would have go elsewhere.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use windlass_apiserver::Config;

use crate::{
    admission::{MUTATING, VALIDATING, path, webhook},
    client::{CONFIG_MAPS, Client},
    hooks::{Hooks, Reply},
};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, external: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "externalIPs": external}})
}

#[tokio::test]
async fn cve_2020_8554_a_service_takes_no_address_of_the_outside_unless_that_is_allowed() {
    let client = Client::new().await;
    for address in ["192.0.2.1", "8.8.8.8", "2001:db8::1", "10.96.0.1"] {
        let status = client.post(SERVICES, service("s", &[address])).await.refused(403, "Forbidden");
        assert!(
            status["message"].as_str().is_some_and(|text| text.contains("external IPs is denied")),
            "{status}"
        );
    }
    client.post(SERVICES, service("s", &[])).await.created();
    let one = format!("{SERVICES}/s");
    let patch = json!({"spec": {"externalIPs": ["192.0.2.1"]}});
    for kind in ["merge", "strategic"] {
        client.patch(kind, &one, patch.clone()).await.refused(403, "Forbidden");
    }
    let mut whole = client.get(&one).await.ok();
    whole["spec"]["externalIPs"] = json!(["192.0.2.1"]);
    client.put(&one, whole).await.refused(403, "Forbidden");
    let mut applied = patch;
    applied["apiVersion"] = "v1".into();
    applied["kind"] = "Service".into();
    client
        .patch("apply", &format!("{one}?fieldManager=m&force=true"), applied)
        .await
        .refused(403, "Forbidden");

    let allowed =
        vec!["192.0.2.0/24".parse().expect("a network"), "2001:db8::/32".parse().expect("a network")];
    let client = Client::with(Config { allowed_external_ips: allowed, ..Config::default() }).await;
    client.post(SERVICES, service("s", &["192.0.2.1", "2001:db8::1"])).await.created();
    client.post(SERVICES, service("t", &["192.0.2.1", "192.0.3.1"])).await.refused(403, "Forbidden");
    // A server that no longer allows it leaves those alone that have it, and lets them give it up.
    let stricter = client.beside().await;
    stricter.patch("merge", &one, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    stricter.patch("merge", &one, json!({"spec": {"externalIPs": ["192.0.2.1"]}})).await.ok();
    stricter
        .patch("merge", &one, json!({"spec": {"externalIPs": ["192.0.2.2"]}}))
        .await
        .refused(403, "Forbidden");
    stricter.patch("merge", &one, json!({"spec": {"externalIPs": null}})).await.ok();
}

#[tokio::test]
async fn cve_2021_25737_endpoints_are_not_on_the_host_itself() {
    let client = Client::new().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let endpoints = "/api/v1/namespaces/default/endpoints";
    for (kind, address) in [
        ("IPv4", "127.0.0.1"),
        ("IPv4", "127.255.255.254"),
        ("IPv4", "169.254.169.254"),
        ("IPv4", "0.0.0.0"),
        ("IPv4", "224.0.0.1"),
        ("IPv6", "::1"),
        ("IPv6", "::"),
        ("IPv6", "fe80::1"),
        ("IPv6", "ff02::1"),
        ("IPv6", "::ffff:127.0.0.1"),
        ("IPv6", "::ffff:169.254.169.254"),
    ] {
        let slice = json!({"metadata": {"name": "s"}, "addressType": kind, "endpoints": [{"addresses": [address]}], "ports": []});
        client.post(slices, slice).await.refused(422, "Invalid");
        for field in ["addresses", "notReadyAddresses"] {
            let object = json!({"metadata": {"name": "e"}, "subsets": [{field: [{"ip": address}]}]});
            client.post(endpoints, object).await.refused(422, "Invalid");
        }
    }
    let good = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": []});
    client.post(slices, good).await.created();
    let patch = json!([{"op": "replace", "path": "/endpoints/0/addresses/0", "value": "127.0.0.1"}]);
    client.patch("json", &format!("{slices}/s"), patch).await.refused(422, "Invalid");
}

#[tokio::test]
async fn cve_2020_8561_a_webhook_cannot_send_the_server_elsewhere() {
    let n_elsewhere = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&n_elsewhere);
    let elsewhere = Hooks::start(
        &["127.0.0.1"],
        Arc::new(move |_, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            Reply::ok("canary-of-a-private-network")
        }),
    )
    .await;
    let target = format!("https://{}/latest/meta-data", elsewhere.address);
    for code in [301, 302, 303, 307, 308] {
        for plural in [VALIDATING, MUTATING] {
            let client = Client::new().await;
            let location = Some(target.clone());
            let hooks = Hooks::start(
                &["127.0.0.1"],
                Arc::new(move |_, _| Reply { code, location: location.clone(), ..Reply::ok("") }),
            )
            .await;
            // It trusts both, so that only the refusal to follow keeps it away.
            let both = format!("{}{}", hooks.authority, elsewhere.authority);
            let bundle = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, both);
            let mut hook = webhook(&hooks, "away.example.com", json!({}));
            hook["clientConfig"]["caBundle"] = bundle.into();
            client.configure(plural, "away", vec![hook]).await;
            let answer = client.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
            assert_eq!(answer.code, 500, "{code}: {}", answer.text());
            assert!(!answer.text().contains("canary"), "{}", answer.text());
        }
    }
    assert_eq!(n_elsewhere.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn cve_2020_8562_what_is_looked_up_is_checked_and_nothing_else_is_connected_to() {
    let client = Client::new().await;
    for host in ["169.254.169.254", "[fe80::1]", "0.0.0.0", "[::]", "[::ffff:169.254.169.254]", "224.0.0.1"] {
        let hook = json!({
            "name": "local.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
            "clientConfig": {"url": format!("https://{host}:443/latest")},
            "rules": [crate::admission::rule("", &["configmaps"], &["CREATE"])],
        });
        client.configure(VALIDATING, "local", vec![hook]).await;
        let answer = client.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
        assert_eq!(answer.code, 500, "{host}: {}", answer.text());
        assert!(answer.text().contains("no webhook may be there"), "{host}: {}", answer.text());
        client.delete(&format!("{}/local", path(VALIDATING)), Value::Null).await.ok();
    }
}
