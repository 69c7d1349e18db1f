//! An API server with all kinds of rules, and control planes on it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use windlass_opensergo::{
    access::Access,
    cluster::{Cluster, resource},
    debounce::Pace,
    directory::Directory,
    kinds::KINDS,
    metrics::Metrics,
    plane::{Plane, Settings},
    report::Reporter,
    serve::{Listening, serve},
    source::Source,
    topic::KindId,
    view::{View, Wanted, view},
};
use windlass_runtime::{Events, Informers};
use windlass_testkit::{Config, TestServer};

use crate::sdk::DEADLINE;

/// Settings with which little time passes.
pub(crate) fn quick() -> Settings {
    Settings {
        identity: "one".to_owned(),
        pace: Pace { quiet: Duration::from_millis(20), most: Duration::from_secs(1) },
        ..Settings::default()
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The kind of this name.
pub(crate) fn kind(name: &str) -> KindId {
    KindId::all().find(|id| id.kind().kind == name).unwrap_or_else(|| panic!("no kind {name}"))
}

/// What a rate limit says.
pub(crate) fn limit(threshold: i64) -> Value {
    json!({"metricType": "RequestAmount", "limitMode": "Local", "threshold": threshold, "statDurationSeconds": 1})
}

/// What a rule says that is in force for one thing and names these rate limits.
pub(crate) fn rule(names: &[&str]) -> Value {
    let named = names.iter().map(|name| json!({"name": name, "kind": "RateLimitStrategy"}));
    json!({"targets": [{"targetResourceName": "/a"}], "strategies": named.collect::<Value>()})
}

/// What a rule says that is larger than what clients of these tests read at once.
pub(crate) fn large() -> Value {
    let targets = (0..100).map(|idx| json!({"targetResourceName": format!("/{idx}/{}", "x".repeat(1_000))}));
    json!({"targets": targets.collect::<Value>(), "strategies": []})
}

/// An API server.
pub(crate) struct World {
    pub(crate) client: Client,
    server: TestServer,
}

impl World {
    /// With all kinds.
    pub(crate) async fn start() -> Self {
        let world = Self::without_kinds().await;
        for id in KindId::all() {
            world.define(id, false).await;
        }
        world
    }

    /// With kinds whose objects may say anything.
    pub(crate) async fn loose() -> Self {
        let world = Self::without_kinds().await;
        for id in KindId::all() {
            world.define(id, true).await;
        }
        world
    }

    async fn without_kinds() -> Self {
        let server = TestServer::bare(Config::default()).await.expect("a server");
        World { client: server.client(), server }
    }

    /// Without kinds, but kept tidy: what belongs to something that is deleted goes as well.
    pub(crate) async fn tidy() -> Self {
        let server = TestServer::start().await.expect("a server");
        World { client: server.client(), server }
    }

    /// Adds a kind.
    pub(crate) async fn define(&self, id: KindId, is_loose: bool) {
        let mut definition = (id.kind().definition)();
        if is_loose {
            let anything = json!({"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}});
            let anything = serde_json::from_value(anything).expect("a schema");
            definition.spec.versions[0].schema = Some(anything);
        }
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &definition).await.expect("created");
    }

    /// Somebody who may read rules, and nothing else.
    pub(crate) async fn reader(&self) -> Client {
        let groups: Vec<&str> = KINDS.iter().map(|kind| kind.group).collect();
        let role = json!({
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}],
        });
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let role = serde_json::from_value(role).expect("a role");
        roles.create(&PostParams::default(), &role).await.expect("created");
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "reader"}],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let binding = serde_json::from_value(binding).expect("a binding");
        bindings.create(&PostParams::default(), &binding).await.expect("created");
        self.server.client_as("reader", &[])
    }

    /// A namespace more.
    pub(crate) async fn namespace(&self, name: &str) {
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
        api.create(&PostParams::default(), &namespace).await.expect("created");
    }

    pub(crate) fn api(&self, kind_name: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &resource(kind(kind_name)))
    }

    /// Makes or changes an object: its kind, its name, its app, and what it says.
    pub(crate) async fn apply(&self, kind_name: &str, name: &str, app: &str, spec: Value) -> DynamicObject {
        let row = kind(kind_name).kind();
        let object = json!({
            "apiVersion": format!("{}/{}", row.group, row.version),
            "kind": row.kind,
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let applied = self.api(kind_name).patch(name, &params, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{kind_name} {name}: {error}"))
    }

    /// Makes or changes a rate limit.
    pub(crate) async fn limit(&self, name: &str, app: &str, threshold: i64) -> DynamicObject {
        self.apply("RateLimitStrategy", name, app, limit(threshold)).await
    }

    pub(crate) async fn delete(&self, kind_name: &str, name: &str) {
        self.api(kind_name).delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// A control plane.
    pub(crate) async fn plane(&self) -> Running {
        self.plane_with(quick()).await
    }

    pub(crate) async fn plane_with(&self, settings: Settings) -> Running {
        Running::start(self.client.clone(), settings, Access::open(), false).await
    }

    /// A control plane that writes into the status of rules.
    pub(crate) async fn reporting(&self, identity: &str) -> Running {
        let settings = Settings { identity: identity.to_owned(), ..quick() };
        Running::start(self.client.clone(), settings, Access::open(), true).await
    }
}

/// A control plane that serves. It ends with this.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) plane: Arc<Plane>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) stop: CancellationToken,
    serving: JoinHandle<()>,
    /// Dropped with it.
    _tasks: JoinSet<()>,
}

impl Running {
    /// On an API server.
    pub(crate) async fn start(client: Client, settings: Settings, access: Access, reports: bool) -> Self {
        let plane = Plane::new(settings, Metrics::default());
        let mut tasks = JoinSet::new();
        let informers = Informers::new(client.clone());
        let cluster = Cluster::start(&informers);
        tasks.spawn(Arc::clone(&cluster).follow(Arc::clone(&plane)));
        if reports {
            let events = Events::start(client, &windlass_runtime::metrics::Metrics::default());
            tasks.spawn(Reporter::new(Arc::clone(&plane), &informers, &events).run());
        }
        tasks.spawn(Arc::clone(&plane).run(Arc::clone(&cluster) as _));
        Self::serving(plane, cluster, access, tasks).await
    }

    /// On a directory.
    pub(crate) async fn on_directory(path: std::path::PathBuf) -> Self {
        let plane = Plane::new(quick(), Metrics::default());
        let mut tasks = JoinSet::new();
        let directory = Directory::new(path, Arc::clone(&plane));
        tasks.spawn(Arc::clone(&directory).follow());
        tasks.spawn(Arc::clone(&plane).run(Arc::clone(&directory) as _));
        Self::serving(plane, directory, Access::open(), tasks).await
    }

    async fn serving(plane: Arc<Plane>, source: Arc<dyn Source>, access: Access, tasks: JoinSet<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let listening = Listening { listener, tls: None, most_connections: 10_000 };
        let stop = CancellationToken::new();
        let serving = serve(listening, Arc::clone(&plane), Arc::clone(&source), access, stop.clone());
        let serving = tokio::spawn(async move { serving.await.expect("it serves") });
        Running { address, plane, source, stop, serving, _tasks: tasks }
    }

    /// What it shows of itself.
    pub(crate) fn view(&self) -> View {
        view(&self.plane, &*self.source, &Wanted::default())
    }

    /// Ends it, streams and all.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.serving).await.expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[test]
fn every_kind_is_found_by_its_name() {
    for row in KINDS {
        assert_eq!(kind(row.kind).kind().id(), row.id());
    }
}
