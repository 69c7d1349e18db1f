//! A server that is kept tidy.

use std::{fmt::Debug, future::Future, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy},
    core::ApiResource,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass_housekeeping::{Options, run};
use windlass_runtime::ConfigError;
use windlass_testkit::{Config, TestServer};

/// How long a test waits for something that should happen soon.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A server, and someone who tidies it.
pub(crate) struct House {
    _server: Option<TestServer>,
    pub(crate) client: Client,
    stop: CancellationToken,
    keepers: Vec<JoinHandle<Result<(), ConfigError>>>,
}

impl House {
    /// A server that is kept tidy.
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let mut house = Self::untidy().await;
        house.tidy(options);
        house
    }

    /// A server that nobody keeps tidy yet.
    pub(crate) async fn untidy() -> Self {
        let server = TestServer::bare(Config::default()).await.expect("a server");
        let mut house = Self::of(server.client());
        house._server = Some(server);
        house
    }

    /// A server of someone else's, which nobody keeps tidy yet.
    pub(crate) fn of(client: Client) -> Self {
        House { _server: None, client, stop: CancellationToken::new(), keepers: vec![] }
    }

    pub(crate) fn tidy(&mut self, options: Options) {
        self.stop = CancellationToken::new();
        self.tidy_as(self.client.clone(), options);
    }

    /// Has someone with this client keep it tidy, besides whoever does already.
    pub(crate) fn tidy_as(&mut self, client: Client, options: Options) {
        self.keepers.push(tokio::spawn(run(client, options, self.stop.clone())));
    }

    /// Nobody keeps it tidy any more.
    pub(crate) async fn neglect(&mut self) {
        self.stop.cancel();
        for keeper in self.keepers.drain(..) {
            let kept = tokio::time::timeout(DEADLINE, keeper).await.expect("it stops");
            kept.expect("it does not panic").expect("nothing is wrong with it");
        }
    }

    pub(crate) fn all<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        self.all("default")
    }

    pub(crate) async fn namespace(&self, name: &str) -> Namespace {
        create(&Api::all(self.client.clone()), json!({"metadata": {"name": name}})).await
    }

    /// A config map in `default` with these owners: its UID.
    pub(crate) async fn map(&self, name: &str, owners: Value) -> String {
        let map = json!({"metadata": {"name": name, "ownerReferences": owners}});
        create(&self.maps(), map).await.metadata.uid.expect("a UID")
    }

    /// Deletes a config map of `default`.
    pub(crate) async fn delete(&self, name: &str, policy: PropagationPolicy) {
        let options = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.maps().delete(name, &options).await.expect("deleted");
    }

    /// Waits until a config map of `default` is gone.
    pub(crate) async fn gone(&self, name: &str) {
        let maps = self.maps();
        until(&format!("{name} is gone"), || async {
            maps.get_opt(name).await.expect("an answer").is_none().then_some(())
        })
        .await;
    }

    pub(crate) async fn finalizers(&self, name: &str, finalizers: &[&str]) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        self.maps().patch(name, &PatchParams::default(), &patch).await.expect("patched");
    }

    /// Defines a custom kind `Widget` in `NAME.example.com`, and waits until it is served.
    pub(crate) async fn define(&self, group: &str, scope: &str) -> ApiResource {
        let group = format!("{group}.example.com");
        let definition = json!({
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group,
                "scope": scope,
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        create(&Api::<CustomResourceDefinition>::all(self.client.clone()), definition).await;
        let resource = ApiResource {
            api_version: format!("{group}/v1"),
            group,
            version: "v1".to_owned(),
            kind: "Widget".to_owned(),
            plural: "widgets".to_owned(),
        };
        let widgets: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        until("the kind is served", || async { widgets.list(&Default::default()).await.ok() }).await;
        resource
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let parsed = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{object}: {error}"));
    let created = api.create(&PostParams::default(), &parsed).await;
    created.unwrap_or_else(|error| panic!("{object}: {error}"))
}

/// An owner that is a config map.
pub(crate) fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

/// The same, that is kept from going.
pub(crate) fn blocked(name: &str, uid: &str) -> Value {
    let mut owner = owner(name, uid);
    owner["blockOwnerDeletion"] = true.into();
    owner
}

/// Waits until there is something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
