//! Foo, Network and At against a real API server.

use std::time::Duration;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Event, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use windlass_runtime::{Manager, ReconcilerConfig, Registration};
use windlass_samples::{
    at::{self, At, Phase},
    foo::{self, Foo},
    network::{self, Network},
    neutron::{self, Neutron, NeutronClient, NeutronError},
};
use windlass_testkit::TestServer;

const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until something is so.
async fn eventually<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within {DEADLINE:?}"))
}

/// A reconciler at work.
struct Working {
    manager: Manager,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Working {
    /// Defines its kind, and starts it.
    async fn start(client: &Client, registration: Registration, settings: serde_json::Value) -> Self {
        Self::start_with(client, registration, ReconcilerConfig { settings, ..ReconcilerConfig::default() })
            .await
    }

    /// The same, with all there is to say.
    async fn start_with(client: &Client, registration: Registration, config: ReconcilerConfig) -> Self {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = registration.crd.expect("it brings a kind")();
        let created = definitions.create(&PostParams::default(), &definition).await;
        assert!(created.is_ok() || matches!(created, Err(kube::Error::Api(status)) if status.code == 409));
        let manager = Manager::new(client.clone());
        manager.add(registration.name, registration.build).expect("a new name");
        manager.configure(registration.name, config).expect("a known name");
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (manager, stop) = (manager.clone(), stop.clone());
            async move { manager.run(stop).await }
        });
        Working { manager, stop, running }
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.expect("no panic");
    }
}

async fn create<K>(api: &Api<K>, object: serde_json::Value) -> K
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object).expect("an object");
    // The kind may have been defined a moment ago.
    eventually("it is created", async || api.create(&PostParams::default(), &object).await.ok()).await
}

async fn message(client: &Client, reason: &str) -> String {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    eventually(reason, async || {
        let all = events.list(&Default::default()).await.ok()?;
        all.items.into_iter().find(|event| event.reason.as_deref() == Some(reason))?.message
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foo_has_a_deployment_and_says_how_much_of_it_is_there() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let working = Working::start(&client, foo::REGISTRATION, json!({})).await;
    let (foos, deployments): (Api<Foo>, Api<Deployment>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let spec = json!({"deploymentName": "example-foo", "replicas": 1});
    let kind = json!({"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo"});
    let object = |name: &str, spec: &serde_json::Value| json!({"apiVersion": kind["apiVersion"], "kind": kind["kind"], "metadata": {"name": name}, "spec": spec});
    create(&foos, object("example-foo", &spec)).await;
    let deployment =
        eventually("a deployment", async || deployments.get_opt("example-foo").await.ok().flatten()).await;
    let owner = &deployment.metadata.owner_references.expect("an owner")[0];
    assert_eq!(
        (owner.kind.as_str(), owner.controller, owner.block_owner_deletion),
        ("Foo", Some(true), Some(true))
    );
    assert_eq!(message(&client, "Synced").await, "Foo synced successfully");

    let status = json!({"status": {"availableReplicas": 1, "replicas": 1, "readyReplicas": 1}});
    let by = PatchParams::default();
    deployments.patch_status("example-foo", &by, &Patch::Merge(status)).await.expect("told");
    eventually("it is told", async || {
        let foo = foos.get("example-foo").await.ok()?;
        foo.status.filter(|status| status.available_replicas == 1)
    })
    .await;

    foos.patch("example-foo", &by, &Patch::Merge(json!({"spec": {"replicas": 3}}))).await.expect("changed");
    let replicas = async || deployments.get("example-foo").await.ok()?.spec.replicas.filter(|n| *n == 3);
    eventually("three replicas", replicas).await;

    deployments.delete("example-foo", &DeleteParams::default()).await.expect("deleted");
    eventually("it comes back", async || deployments.get_opt("example-foo").await.ok().flatten()).await;
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_made_is_left_alone_and_told_of() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let (foos, deployments): (Api<Foo>, Api<Deployment>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let template = json!({
        "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    let other = json!({"metadata": {"name": "taken"}, "spec": {
        "replicas": 7, "selector": {"matchLabels": {"app": "a"}}, "template": template,
    }});
    create(&deployments, other).await;
    let working = Working::start(&client, foo::REGISTRATION, json!({})).await;
    let object = json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": "a"},
        "spec": {"deploymentName": "taken", "replicas": 1},
    });
    create(&foos, object).await;
    let told = message(&client, "ErrResourceExists").await;
    assert_eq!(told, "Resource \"taken\" already exists and is not managed by Foo");
    let deployment = deployments.get("taken").await.expect("it is there");
    assert_eq!(deployment.spec.replicas, Some(7));
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_made_changed_and_removed_outside_whatever_fails() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let neutron = Neutron::default();
    let settings = json!({"neutronUrl": served(&neutron).await});
    neutron.fail(3);
    let working = Working::start(&client, network::REGISTRATION, settings.clone()).await;
    let networks: Api<Network> = Api::default_namespaced(client.clone());
    create(&networks, network_object("one")).await;
    create(&networks, network_object("two")).await;
    let names = || names(&neutron);
    eventually("both are made", async || (names() == ["default/one", "default/two"]).then_some(())).await;

    let change = Patch::Merge(json!({"spec": {"gateway": "192.168.0.9"}}));
    networks.patch("one", &PatchParams::default(), &change).await.expect("changed");
    let changed = async || (neutron.networks().first()?.gateway == "192.168.0.9").then_some(());
    eventually("it is changed", changed).await;
    working.end().await;

    // What is deleted while nobody is looking is removed later.
    networks.delete("one", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(names().len(), 2);
    let working = Working::start(&client, network::REGISTRATION, settings).await;
    eventually("one is removed", async || (names() == ["default/two"]).then_some(())).await;
    networks.delete("two", &DeleteParams::default()).await.expect("deleted");
    eventually("two is removed", async || names().is_empty().then_some(())).await;
    working.end().await;
}

/// Serves networks for as long as the test runs. Where.
async fn served(neutron: &Neutron) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let neutron = neutron.clone();
    tokio::spawn(async move { neutron.serve(listener).await });
    url
}

fn network_object(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": name},
        "spec": {"cidr": "192.168.0.0/16", "gateway": "192.168.0.1"},
    })
}

fn names(neutron: &Neutron) -> Vec<String> {
    neutron.networks().into_iter().map(|network| network.name).collect()
}

fn outside(name: &str) -> neutron::Network {
    neutron::Network { name: name.to_owned(), cidr: "10.0.0.0/8".to_owned(), ..neutron::Network::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_of_others_are_left_alone() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let neutron = Neutron::default();
    let url = served(&neutron).await;
    let others = NeutronClient::new(&url);
    let elsewhere = neutron::Network {
        description: "windlass.dev/network/another-cluster/some-object".to_owned(),
        ..outside("default/elsewhere")
    };
    for network in [outside("default/theirs"), outside("taken"), outside("default/taken"), elsewhere] {
        others.create(network).await.expect("it is made");
    }
    let settings = json!({"neutronUrl": url});
    let working = Working::start(&client, network::REGISTRATION, settings.clone()).await;
    let networks: Api<Network> = Api::default_namespaced(client.clone());
    create(&networks, network_object("taken")).await;
    let told = message(&client, "ErrResourceExists").await;
    assert_eq!(told, "Network \"default/taken\" already exists in Neutron and is not managed by Network");
    networks.delete("taken", &DeleteParams::default()).await.expect("deleted");
    create(&networks, network_object("one")).await;
    create(&networks, network_object("two")).await;
    eventually("ours are made", async || (neutron.networks().len() == 6).then_some(())).await;
    working.end().await;

    // Those that this manager does not see are as good as another's.
    networks.delete("one", &DeleteParams::default()).await.expect("deleted");
    let only = ReconcilerConfig {
        settings: settings.clone(),
        keys: vec!["default/two".parse().expect("a key")],
        ..ReconcilerConfig::default()
    };
    let working = Working::start_with(&client, network::REGISTRATION, only).await;
    let change = Patch::Merge(json!({"spec": {"gateway": "192.168.0.9"}}));
    networks.patch("two", &PatchParams::default(), &change).await.expect("changed");
    let is_changed = || neutron.networks().iter().any(|network| network.gateway == "192.168.0.9");
    eventually("two is changed", async || is_changed().then_some(())).await;
    working.end().await;
    let all = ["default/elsewhere", "default/one", "default/taken", "default/theirs", "default/two", "taken"];
    assert_eq!(names(&neutron), all);

    let working = Working::start(&client, network::REGISTRATION, settings).await;
    eventually("one is removed", async || (!names(&neutron).contains(&all[1].to_owned())).then_some(()))
        .await;
    networks.delete("two", &DeleteParams::default()).await.expect("deleted");
    let left = ["default/elsewhere", "default/taken", "default/theirs", "taken"];
    eventually("two is removed", async || (names(&neutron) == left).then_some(())).await;
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_stay_while_their_kind_is_not_served() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let neutron = Neutron::default();
    let settings = json!({"neutronUrl": served(&neutron).await});
    let working = Working::start(&client, network::REGISTRATION, settings).await;
    let networks: Api<Network> = Api::default_namespaced(client.clone());
    create(&networks, network_object("one")).await;
    let made = eventually("it is made", async || neutron.networks().pop()).await;

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let serve = async |served: bool| {
        let mut definition = definitions.get(Network::crd_name()).await.expect("it is there");
        definition.spec.versions[0].served = served;
        definitions.replace(Network::crd_name(), &PostParams::default(), &definition).await.expect("changed");
    };
    serve(false).await;
    let is_synced = || working.manager.status()[0].synced;
    eventually("it is noticed", async || (!is_synced()).then_some(())).await;
    serve(true).await;
    let change = Patch::Merge(json!({"spec": {"gateway": "192.168.0.9"}}));
    let patched = async || networks.patch("one", &PatchParams::default(), &change).await.ok();
    eventually("it is changed", patched).await;
    let changed = async || neutron.networks().pop().filter(|network| network.gateway == "192.168.0.9");
    // It would have another id if it had been removed and made again.
    assert_eq!(eventually("it is changed outside", changed).await.id, made.id);
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_has_pages_any_name_and_each_name_once() {
    const N_NETWORKS: usize = 1001;
    let neutron = Neutron::default();
    let client = NeutronClient::new(served(&neutron).await);
    for idx in 0..N_NETWORKS {
        client.create(outside(&idx.to_string())).await.expect("it is made");
    }
    let (n_before, listed) = (neutron.requests(), client.list().await.expect("a list"));
    assert_eq!((listed.len(), neutron.requests() - n_before), (N_NETWORKS, 4));
    let odd = "a b/c%2F&name=d+\u{e9}";
    client.create(outside(odd)).await.expect("it is made");
    let found = client.find(odd).await.expect("an answer").expect("it is there");
    let twice = client.update(&found.id, outside("7")).await.expect_err("there is a seven");
    assert!(matches!(twice, NeutronError::Refused { code, .. } if code == 409), "{twice}");
    client.update(&found.id, outside(odd)).await.expect("its own name is its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_that_makes_no_sense_harms_nobody_else() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let mut definition = Foo::crd();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = serde_json::from_value(json!({"openAPIV3Schema": schema})).expect("a schema");
    definition.spec.versions[0].schema = Some(schema);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition).await.expect("defined");
    let anything: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &ApiResource::erase::<Foo>(&()));
    let object = |name: &str, spec: serde_json::Value| {
        json!({
            "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": name},
            "spec": spec,
        })
    };
    create(&anything, object("bad", json!("nonsense"))).await;
    create(&anything, object("good", json!({"deploymentName": "good", "replicas": 1}))).await;
    let working = Working::start(&client, foo::REGISTRATION, json!({})).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    eventually("a deployment", async || deployments.get_opt("good").await.ok().flatten()).await;
    let told = message(&client, "Unreadable").await;
    assert!(told.starts_with("The object cannot be read: invalid type: string"), "{told}");
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_another_is_not_taken_for_ours() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let (ats, pods): (Api<At>, Api<Pod>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let spec = json!({"containers": [{"name": "a", "image": "a"}]});
    create(&pods, json!({"metadata": {"name": "soon-pod"}, "spec": spec})).await;
    let working = Working::start(&client, at::REGISTRATION, json!({})).await;
    let at = json!({
        "apiVersion": "demo.wukong.com/v1", "kind": "At", "metadata": {"name": "soon"},
        "spec": {"schedule": "2006-01-02T15:04:05Z", "command": "echo hello"},
    });
    create(&ats, at).await;
    let told = message(&client, "ErrResourceExists").await;
    assert_eq!(told, "Pod \"soon-pod\" already exists and is not managed by At");
    let phase = async || ats.get("soon").await.ok()?.status?.phase;
    assert_eq!(phase().await, Some(Phase::Running));
    pods.delete("soon-pod", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    eventually("it is done", async || phase().await.filter(|phase| *phase == Phase::Done)).await;
    let pod = pods.get("soon-pod").await.expect("a pod");
    assert!(pod.metadata.owner_references.is_some());
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_at_its_time_once() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let working = Working::start(&client, at::REGISTRATION, json!({})).await;
    let (ats, pods): (Api<At>, Api<Pod>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let at = |name: &str, schedule: String| {
        json!({
            "apiVersion": "demo.wukong.com/v1", "kind": "At", "metadata": {"name": name},
            "spec": {"schedule": schedule, "command": "echo hello"},
        })
    };
    let now = jiff::Timestamp::now();
    create(&ats, at("soon", (now + jiff::SignedDuration::from_secs(1)).to_string())).await;
    create(&ats, at("late", (now + jiff::SignedDuration::from_hours(1)).to_string())).await;
    create(&ats, at("wrong", "tomorrow".to_owned())).await;
    let phase = async |name: &str| ats.get(name).await.ok()?.status?.phase;
    eventually("it is done", async || phase("soon").await.filter(|phase| *phase == Phase::Done)).await;
    let pod = pods.get("soon-pod").await.expect("a pod");
    let spec = pod.spec.expect("a spec");
    assert_eq!(spec.restart_policy.as_deref(), Some("OnFailure"));
    assert_eq!(spec.containers[0].command.as_deref(), Some(&["echo".to_owned(), "hello".to_owned()][..]));
    assert_eq!(phase("late").await, Some(Phase::Pending));
    let why = eventually("it is told", async || ats.get("wrong").await.ok()?.status?.message).await;
    assert!(why.contains("schedule") && why.contains("tomorrow"), "{why}");
    let all = pods.list(&Default::default()).await.expect("pods");
    assert_eq!(all.items.len(), 1);
    working.end().await;
}
