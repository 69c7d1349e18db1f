//! Service accounts: every pod runs as one, and finds its credentials in a volume.

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_machinery::object::{self, Object};

use super::{Operation, Plugin, Request};
use crate::status::Outcome;

const MIRROR: &str = "kubernetes.io/config.mirror";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";
/// An hour and seven seconds: kubelets and clients know it as the lifetime of a token nobody asked for.
const TOKEN_SECONDS: i64 = 3607;
/// The letters of generated names: no vowels, so no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

pub(super) struct ServiceAccount;

#[async_trait]
impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation != Operation::Create || !request.is("", "pods") {
            return Ok(());
        }
        if is_mirror(&request.object) {
            return Ok(());
        }
        let name = account_name(&request.object).to_owned();
        let account = account(request, &name)?;
        let spec = object::child_mut(&mut request.object, "spec");
        spec.insert("serviceAccountName".to_owned(), name.as_str().into());
        spec.insert("serviceAccount".to_owned(), name.into());
        let Some(account) = account else { return Ok(()) };
        if wants_token(spec, &account) {
            mount_token(spec);
        }
        let secrets = object::list_at(&account, &["imagePullSecrets"]);
        if !secrets.is_empty() && object::list_at(spec, &["imagePullSecrets"]).is_empty() {
            spec.insert("imagePullSecrets".to_owned(), secrets.to_vec().into());
        }
        Ok(())
    }

    /// Once more, because others may have changed the pod since.
    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation != Operation::Create || !request.is("", "pods") {
            return Ok(());
        }
        if is_mirror(&request.object) {
            return check_mirror(request);
        }
        account(request, account_name(&request.object)).map(drop)
    }
}

fn is_mirror(pod: &Object) -> bool {
    object::at(pod, &["metadata", "annotations", MIRROR]).is_some()
}

/// A mirror pod is run by a node on its own account, so it gets nobody else's credentials.
fn check_mirror(request: &Request<'_>) -> Outcome<()> {
    let named = ["serviceAccountName", "serviceAccount"];
    let named = named.iter().filter_map(|field| object::str_at(&request.object, &["spec", field]));
    if named.into_iter().any(|name| !name.is_empty()) {
        return Err(request.refuse("a mirror pod may not reference service accounts"));
    }
    let volumes = object::list_at(&request.object, &["spec", "volumes"]).iter();
    let sources = volumes.filter_map(|volume| volume.pointer("/projected/sources")?.as_array()).flatten();
    match sources.into_iter().any(|source| source.get("serviceAccountToken").is_some()) {
        true => Err(request.refuse("a mirror pod may not use ServiceAccountToken volume projections")),
        false => Ok(()),
    }
}

fn account_name(pod: &Object) -> &str {
    let given = ["serviceAccountName", "serviceAccount"].into_iter();
    let mut given = given.filter_map(|field| object::str_at(pod, &["spec", field]));
    given.find(|name| !name.is_empty()).unwrap_or("default")
}

/// The account of this name. The one named `default` may be missing: whoever makes it may be late.
fn account(request: &Request<'_>, name: &str) -> Outcome<Option<Object>> {
    let namespace = request.namespace;
    match request.view.get("", "serviceaccounts", namespace, name) {
        Some((account, _)) => Ok(Some(account)),
        None if name == "default" => Ok(None),
        None => Err(request.refuse(format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        ))),
    }
}

fn wants_token(spec: &Object, account: &Object) -> bool {
    const FIELD: &[&str] = &["automountServiceAccountToken"];
    object::bool_at(spec, FIELD).or_else(|| object::bool_at(account, FIELD)).unwrap_or(true)
}

/// Mounts the token in every container that has nothing else in its place.
fn mount_token(spec: &mut Object) {
    let volumes = object::list_at(spec, &["volumes"]).iter();
    let mut names = volumes.filter_map(|volume| volume.get("name")?.as_str());
    let found = names.find(|name| name.starts_with(VOLUME)).map(ToOwned::to_owned);
    let has_volume = found.is_some();
    let name = found.unwrap_or_else(|| {
        let letter = || char::from(*fastrand::choice(LETTERS).expect("there are letters to choose from"));
        VOLUME.chars().chain(std::iter::repeat_with(letter).take(5)).collect()
    });
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let mut mounts = object::list_at(container, &["volumeMounts"]).to_vec();
            let taken = |mount: &Value| mount.get("mountPath").and_then(Value::as_str) == Some(MOUNT_PATH);
            if mounts.iter().any(taken) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
            container.insert("volumeMounts".to_owned(), mounts.into());
            mounted = true;
        }
    }
    if mounted && !has_volume {
        let mut volumes = object::list_at(spec, &["volumes"]).to_vec();
        volumes.push(token_volume(&name));
        spec.insert("volumes".to_owned(), volumes.into());
    }
}

fn token_volume(name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{World, admit};

    async fn world() -> World {
        World::new(&[
            ("", "serviceaccounts", json!({"metadata": {"name": "default", "namespace": "n"}})),
            (
                "",
                "serviceaccounts",
                json!({"metadata": {"name": "robot", "namespace": "n"}, "imagePullSecrets": [{"name": "s"}],
                       "automountServiceAccountToken": false}),
            ),
        ])
        .await
    }

    async fn create(world: &World, namespace: &str, spec: Value) -> Outcome<Object> {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let (pod, _) = admit(&ServiceAccount, world.request("", "pods", namespace, pod)).await?;
        Ok(pod)
    }

    #[tokio::test]
    async fn a_pod_runs_as_default_and_finds_its_token() {
        let spec = json!({"containers": [
            {"name": "a"},
            {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]},
        ], "initContainers": [{"name": "i"}]});
        let pod = create(&world().await, "n", spec).await.unwrap();
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["serviceAccountName"], &spec["serviceAccount"]),
            (&json!("default"), &json!("default"))
        );
        let volume = spec["volumes"][0]["name"].as_str().unwrap();
        assert!(volume.starts_with(VOLUME) && volume.len() == VOLUME.len() + 5, "{volume}");
        let mount = json!([{"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}]);
        assert_eq!(spec["containers"][0]["volumeMounts"], mount);
        assert_eq!(spec["initContainers"][0]["volumeMounts"], mount);
        assert_eq!(spec["containers"][1]["volumeMounts"][0]["name"], "own");
        let token = &spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"];
        assert_eq!(token["expirationSeconds"], 3607);
    }

    #[tokio::test]
    async fn the_token_is_mounted_only_where_it_is_wanted() {
        let world = world().await;
        let containers = json!([{"name": "a"}]);
        let cases = [
            ("n", json!({"containers": containers}), true),
            ("n", json!({"containers": containers, "automountServiceAccountToken": false}), false),
            ("n", json!({"containers": containers, "serviceAccountName": "robot"}), false),
            (
                "n",
                json!({"containers": containers, "serviceAccount": "robot", "automountServiceAccountToken": true}),
                true,
            ),
            ("without-accounts", json!({"containers": containers}), false),
        ];
        for (namespace, spec, mounted) in cases {
            let pod = create(&world, namespace, spec.clone()).await.unwrap();
            assert_eq!(pod["spec"].get("volumes").is_some(), mounted, "{spec}");
        }
    }

    #[tokio::test]
    async fn pull_secrets_come_from_the_account_unless_the_pod_has_its_own() {
        let world = world().await;
        let pod = create(&world, "n", json!({"serviceAccountName": "robot"})).await.unwrap();
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
        let own = json!({"serviceAccountName": "robot", "imagePullSecrets": [{"name": "mine"}]});
        let pod = create(&world, "n", own).await.unwrap();
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "mine"}]));
    }

    #[tokio::test]
    async fn an_unknown_account_is_refused() {
        let status = create(&world().await, "n", json!({"serviceAccountName": "x"})).await.unwrap_err();
        let message =
            "pods \"p\" is forbidden: error looking up service account n/x: serviceaccount \"x\" not found";
        assert_eq!((status.code, status.message.as_str()), (403, message));
    }
}
