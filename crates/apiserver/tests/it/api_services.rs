//! Local APIServices: one for each group and version, which come and go with what is served.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    client::{Client, DEADLINE, names},
    custom::{DEFINITIONS, widgets},
};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Waits until the APIService of this name is there, or gone.
async fn wait(client: &Client, name: &str, there: bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while (client.get(&format!("{SERVICES}/{name}")).await.code == 200) != there {
        assert!(tokio::time::Instant::now() < deadline, "{name} does not come or go");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn every_group_and_version_has_one() {
    let client = Client::new().await;
    let groups = client.get("/apis").await.ok();
    let served = groups["groups"].as_array().into_iter().flatten().flat_map(|group| {
        let name = group["name"].as_str().unwrap_or_default().to_owned();
        let versions = group["versions"].as_array().cloned().unwrap_or_default();
        versions
            .into_iter()
            .map(move |version| format!("{}.{name}", version["version"].as_str().unwrap_or_default()))
    });
    let served: BTreeSet<String> =
        served.filter(|name| !name.ends_with("apiregistration.k8s.io")).chain(["v1.".to_owned()]).collect();
    let list = client.get(SERVICES).await.ok();
    assert_eq!(names(&list).into_iter().collect::<BTreeSet<_>>(), served);
    for service in list["items"].as_array().into_iter().flatten() {
        assert_eq!(service["metadata"]["labels"][LABEL], "onstart", "{service}");
        assert_eq!(service["status"]["conditions"][0]["reason"], "Local", "{service}");
    }
    for (name, spec_of) in [
        ("v1.", json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1})),
        (
            "v1.apps",
            json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15}),
        ),
        (
            "v2.autoscaling",
            json!({"group": "autoscaling", "version": "v2", "groupPriorityMinimum": 17500, "versionPriority": 30}),
        ),
    ] {
        assert_eq!(client.get(&format!("{SERVICES}/{name}")).await.ok()["spec"], spec_of);
    }
}

#[tokio::test]
async fn those_of_custom_resources_come_and_go_with_them() {
    let client = Client::new().await;
    client.post(DEFINITIONS, widgets()).await.created();
    wait(&client, "v1.example.com", true).await;
    let service = client.get(&format!("{SERVICES}/v1.example.com")).await.ok();
    assert_eq!(service["metadata"]["labels"][LABEL], "true");
    assert_eq!(
        service["spec"],
        json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    // Whoever deletes it finds it again.
    client.delete(&format!("{SERVICES}/v1.example.com"), Value::Null).await.ok();
    wait(&client, "v1.example.com", true).await;
    // A version that is no longer served has none.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut definition = client.get(&path).await.ok();
    let mut second = definition["spec"]["versions"][0].clone();
    (second["name"], second["storage"]) = ("v2".into(), false.into());
    definition["spec"]["versions"].as_array_mut().expect("versions").push(second);
    let mut definition = client.put(&path, definition).await.ok();
    wait(&client, "v2.example.com", true).await;
    definition["spec"]["versions"][1]["served"] = false.into();
    client.put(&path, definition).await.ok();
    wait(&client, "v2.example.com", false).await;
    client.delete(&path, Value::Null).await.ok();
    wait(&client, "v1.example.com", false).await;
}

#[tokio::test]
async fn what_others_have_created_is_left_alone() {
    let client = Client::new().await;
    let own = json!({
        "metadata": {"name": "v1.example.com"},
        "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 7, "versionPriority": 7},
    });
    client.post(SERVICES, own).await.created();
    client.post(DEFINITIONS, widgets()).await.created();
    client.post(DEFINITIONS, renamed()).await.created();
    // The second one is taken up after the first.
    wait(&client, "v1.other.example.com", true).await;
    let service = client.get(&format!("{SERVICES}/v1.example.com")).await.ok();
    assert_eq!(
        (&service["spec"]["versionPriority"], &service["metadata"]["labels"]),
        (&json!(7), &Value::Null)
    );
}

fn renamed() -> Value {
    let mut definition = widgets();
    definition["metadata"]["name"] = "widgets.other.example.com".into();
    definition["spec"]["group"] = "other.example.com".into();
    definition
}

#[tokio::test]
async fn a_server_that_begins_brings_them_into_order() {
    let client = Client::new().await;
    client.post(DEFINITIONS, widgets()).await.created();
    wait(&client, "v1.example.com", true).await;
    let before = client.get(SERVICES).await.ok();
    client.delete(&format!("{SERVICES}/v1.apps"), Value::Null).await.ok();
    client.get(&format!("{SERVICES}/v1.apps")).await.refused(404, "NotFound");
    let again = client.restarted().await;
    let after = again.get(SERVICES).await.ok();
    assert_eq!(names(&after), names(&before));
}

#[tokio::test]
async fn the_core_group_says_where_the_server_is() {
    let client = Client::new().await;
    let versions = client.get("/api").await.ok();
    let addresses = versions["serverAddressByClientCIDRs"].as_array().cloned().unwrap_or_default();
    assert_eq!(addresses.len(), 1, "{versions}");
    assert_eq!(addresses[0]["clientCIDR"], "0.0.0.0/0");
    let address = addresses[0]["serverAddress"].as_str().unwrap_or_default();
    assert!(address.parse::<std::net::SocketAddr>().is_ok(), "{address}");
}
