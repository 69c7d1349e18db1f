//! `windlass hub` as a process of its own: configured while it runs, killed, and beside another.

use std::{
    fs,
    time::{Duration, Instant},
};

use windlass_e2e::{Running, Server, Signal, eventually, page};

use crate::{
    objects::{becomes, contains, create, field},
    samples::foo,
};

/// A hub, and where it says how it is.
struct Hub {
    running: Running,
    address: String,
}

/// How long a hub may take to do what it is told, and a busy machine to let it.
const SOON: Duration = Duration::from_secs(2 + 4);

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

impl Hub {
    /// Starts one with a configuration of this name, to which its address is added.
    fn start(server: &Server, name: &str, config: &str) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let hub = Hub::write(server, name, &address, config);
        let line = format!("hub --config {name} --kubeconfig data/admin.kubeconfig");
        let mut running = server.start_beside(&line, &format!("{name}.log"));
        running.line_with("Ctrl-C");
        Hub { running, address: hub }
    }

    fn write(server: &Server, name: &str, address: &str, config: &str) -> String {
        let text =
            format!("health-probe-bind-address: {address}\nmetrics-bind-address: {address}\n{config}\n");
        // In one step: whoever reads half of a file finds an error in it.
        let beside = server.directory().join(format!("{name}.new"));
        fs::write(&beside, text).expect("the directory is ours");
        fs::rename(beside, server.directory().join(name)).expect("the directory is ours");
        address.to_owned()
    }

    fn tell(&self, server: &Server, name: &str, config: &str) {
        Hub::write(server, name, &self.address, config);
    }

    fn page(&self, path: &str) -> String {
        page(&self.address, path)
    }

    fn state(&self, reconciler: &str) -> String {
        let status: serde_json::Value = serde_json::from_str(&self.page("/status")).expect("JSON");
        let found = status.as_array().into_iter().flatten().find(|one| one["name"] == reconciler);
        found.and_then(|one| one["state"].as_str()).unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn becomes(&self, reconciler: &str, state: &str) -> Duration {
        let begun = Instant::now();
        eventually(|| match self.state(reconciler) {
            now if now == state => Ok(()),
            now => Err(format!("{reconciler} is {now:?}, not {state:?}")),
        });
        begun.elapsed()
    }
}

/// A server without controllers, but with the kinds that they look after.
fn server() -> Server {
    let server = Server::start_with(&["--without", "housekeeping,hub"]);
    let definitions = server.windlass_alone("crds");
    server.kubectl("apply --server-side -f -").yaml(&definitions).ok();
    server
}

#[test]
fn reconcilers_are_disabled_and_enabled_while_the_hub_runs() {
    let server = server();
    let hub = Hub::start(&server, "hub.yaml", "reconcilers: {at: {enabled: false}}");
    hub.becomes("at", "disabled");
    hub.becomes("foo", "working");
    create(&server, &foo("one", "one", 1));
    becomes(&server, "deploy one", ".spec.replicas", "1");
    hub.tell(&server, "hub.yaml", "reconcilers: {foo: {enabled: false}}");
    let took = hub.becomes("foo", "disabled");
    assert!(took < SOON, "it took {took:?}");
    hub.becomes("at", "working");
    create(&server, &foo("two", "two", 1));
    server.kubectl(r#"patch foo one --type=merge -p '{"spec":{"replicas":2}}'"#).ok();
    // What is wrong changes nothing, and is told.
    hub.tell(&server, "hub.yaml", "reconcilers: {bar: {}}");
    eventually(|| {
        let log = fs::read_to_string(server.directory().join("hub.yaml.log")).unwrap_or_default();
        if log.contains("there is no reconciler") && log.contains("bar") { Ok(()) } else { Err(log) }
    });
    // So does a file that somebody is about to write.
    fs::write(server.directory().join("hub.yaml"), "\n").expect("the directory is ours");
    eventually(|| {
        let log = fs::read_to_string(server.directory().join("hub.yaml.log")).unwrap_or_default();
        if log.contains("it is empty") { Ok(()) } else { Err(log) }
    });
    assert_eq!(hub.state("foo"), "disabled");
    assert_eq!(field(&server, "deploy one", ".spec.replicas"), "1");
    hub.tell(&server, "hub.yaml", "");
    becomes(&server, "deploy two", ".spec.replicas", "1");
    becomes(&server, "deploy one", ".spec.replicas", "2");
    contains(&hub.page("/readyz"), &["[+]foo ok", "readyz check passed"]);
    contains(&hub.page("/metrics"), &["controller_runtime_reconcile_total", "workqueue_depth"]);
}

#[test]
fn a_kind_that_goes_and_comes_back_is_looked_after_again() {
    let server = server();
    let hub = Hub::start(&server, "hub.yaml", "");
    for round in ["first", "second", "third"] {
        hub.becomes("foo", "working");
        create(&server, &foo(round, round, 1));
        becomes(&server, &format!("deploy {round}"), ".spec.replicas", "1");
        server.kubectl("delete crd foos.samplecontroller.k8s.io").ok();
        hub.becomes("foo", "waiting for a kind that does not exist");
        contains(&hub.page("/readyz"), &["warn: foo: a kind that it watches does not exist"]);
        let definitions = server.windlass_alone("crds");
        server.kubectl("apply --server-side -f -").yaml(&definitions).ok();
    }
    hub.becomes("foo", "working");
}

#[test]
fn a_server_that_restarts_and_forgets_is_asked_for_everything_again() {
    let mut server = server();
    let hub = Hub::start(&server, "hub.yaml", "");
    hub.becomes("foo", "working");
    create(&server, &foo("one", "one", 1));
    becomes(&server, "deploy one", ".spec.replicas", "1");
    server.restart();
    create(&server, &foo("two", "two", 1));
    becomes(&server, "deploy two", ".spec.replicas", "1");
    // While it is frozen, more happens than the server remembers.
    hub.running.signal(Signal::STOP);
    server.set_flags(&["--without", "housekeeping,hub", "--history-window", "0s", "--history-changes", "1"]);
    server.restart();
    create(&server, &foo("three", "three", 1));
    server.kubectl("delete foo one").ok();
    for number in 0..20 {
        create(&server, &crate::objects::config(&format!("noise-{number}")));
    }
    hub.running.signal(Signal::CONT);
    becomes(&server, "deploy three", ".spec.replicas", "1");
    eventually(|| match hub.state("foo") {
        state if state == "working" => Ok(()),
        state => Err(state),
    });
}

#[test]
fn when_the_hub_that_leads_is_killed_the_other_goes_on() {
    let election =
        "leader-election: {enabled: true, lease-duration: 8s, renew-deadline: 5s, retry-period: 500ms}";
    let server = server();
    let first = Hub::start(&server, "first.yaml", election);
    first.becomes("foo", "working");
    let second = Hub::start(&server, "second.yaml", election);
    second.becomes("foo", "waiting to lead");
    create(&server, &foo("one", "one", 1));
    becomes(&server, "deploy one", ".spec.replicas", "1");
    let leader = field(&server, "lease windlass-hub -n kube-system", ".spec.holderIdentity");
    first.running.signal(Signal::KILL);
    let killed = Instant::now();
    create(&server, &foo("two", "two", 1));
    becomes(&server, "deploy two", ".spec.replicas", "1");
    let took = killed.elapsed();
    // The lease, a try, and a busy machine.
    assert!(took < Duration::from_secs(8 + 7), "it took {took:?}");
    assert_ne!(field(&server, "lease windlass-hub -n kube-system", ".spec.holderIdentity"), leader);
    // One that is told to end gives the lease back, and the next begins at once.
    let third = Hub::start(&server, "third.yaml", election);
    third.becomes("foo", "waiting to lead");
    second.running.signal(Signal::TERM);
    let told = Instant::now();
    third.becomes("foo", "working");
    assert!(told.elapsed() < Duration::from_secs(8), "it took {:?}", told.elapsed());
}

#[test]
fn one_reconciler_runs_alone() {
    let server = server();
    let mut running = server.start_beside("reconciler at --kubeconfig data/admin.kubeconfig", "at.log");
    running.line_with("Ctrl-C");
    assert!(!running.seen().contains("foo"), "{}", running.seen());
    create(
        &server,
        "{apiVersion: demo.wukong.com/v1, kind: At, metadata: {name: past},
          spec: {schedule: '2020-01-02T15:04:05Z', command: 'true'}}",
    );
    becomes(&server, "at past", ".status.phase", "DONE");
    running.signal(Signal::TERM);
    let (_, status) = running.finish();
    assert!(status.success(), "{status}");
}

#[test]
fn kinds_that_are_installed_can_be_applied_again() {
    let server = Server::start_with(&["--with", "samples"]);
    let kinds = server.windlass_alone("crds");
    let generation =
        |server: &Server| field(server, "crd foos.samplecontroller.k8s.io", ".metadata.generation");
    let before = generation(&server);
    server.kubectl("apply --server-side -f -").yaml(&kinds).ok();
    assert_eq!(generation(&server), before);
}
