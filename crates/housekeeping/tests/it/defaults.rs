//! What every namespace has.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_housekeeping::Options;

use crate::house::{House, until};

const ROOT_CA: &str = "kube-root-ca.crt";

async fn house() -> House {
    House::with(Options { root_ca: Some("-----BEGIN CERTIFICATE-----\n".into()), ..Options::default() }).await
}

/// Waits until the map is what it should be; its UID.
async fn published(house: &House, namespace: &str) -> String {
    let maps = house.all::<ConfigMap>(namespace);
    let expected = BTreeMap::from([("ca.crt".to_owned(), "-----BEGIN CERTIFICATE-----\n".to_owned())]);
    until("the certificate is published", || async {
        let map = maps.get_opt(ROOT_CA).await.expect("an answer")?;
        let is_described = map.annotations().contains_key("kubernetes.io/description");
        (map.data.as_ref() == Some(&expected) && is_described).then(|| map.uid())?
    })
    .await
}

async fn account(house: &House, namespace: &str) -> String {
    let accounts = house.all::<ServiceAccount>(namespace);
    until("there is an account", || async { accounts.get_opt("default").await.expect("an answer")?.uid() })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_have_an_account_and_the_certificate_and_get_them_back() {
    let house = house().await;
    for namespace in ["default", "kube-system"] {
        published(&house, namespace).await;
        account(&house, namespace).await;
    }
    house.namespace("late").await;
    let (map, uid) = (published(&house, "late").await, account(&house, "late").await);
    let accounts = house.all::<ServiceAccount>("late");
    accounts.delete("default", &DeleteParams::default()).await.expect("deleted");
    let again = until("there is another account", || async {
        accounts.get_opt("default").await.expect("an answer")?.uid().filter(|again| *again != uid)
    });
    again.await;
    let maps = house.all::<ConfigMap>("late");
    for wrong in [json!({"data": {"ca.crt": "other"}}), json!({"data": {"more": "x"}}), json!({"data": null})]
    {
        maps.patch(ROOT_CA, &PatchParams::default(), &Patch::Merge(wrong)).await.expect("patched");
        assert_eq!(published(&house, "late").await, map);
    }
    maps.delete(ROOT_CA, &DeleteParams::default()).await.expect("deleted");
    until("there is another map", || async {
        maps.get_opt(ROOT_CA).await.expect("an answer")?.uid().filter(|again| *again != map)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_that_go_get_nothing_back() {
    let house = house().await;
    house.namespace("going").await;
    published(&house, "going").await;
    account(&house, "going").await;
    let namespaces: Api<Namespace> = Api::all(house.client.clone());
    namespaces.delete("going", &DeleteParams::default()).await.expect("deleted");
    until("it is gone", || async {
        namespaces.get_opt("going").await.expect("an answer").is_none().then_some(())
    })
    .await;
}
