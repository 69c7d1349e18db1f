//! The sample reconcilers as people meet them: objects in, and what comes of them.

use tokio::{net::TcpListener, runtime::Runtime};
use windlass_e2e::{Server, eventually};
use windlass_samples::neutron::Neutron;

use crate::{
    objects::{becomes, contains, create, field, is_gone},
    redis::Redis,
};

const SAMPLES: &[&str] = &["--with", "samples"];

pub(crate) fn foo(name: &str, deployment: &str, replicas: u32) -> String {
    format!(
        "{{apiVersion: samplecontroller.k8s.io/v1alpha1, kind: Foo, metadata: {{name: {name}}},
          spec: {{deploymentName: {deployment}, replicas: {replicas}}}}}"
    )
}

/// Waits until something has happened to an object, in these words.
#[track_caller]
fn is_told(server: &Server, name: &str, reason: &str, message: &str) {
    let query = format!(
        "get events --field-selector involvedObject.name={name},reason={reason} -o jsonpath='{{.items[*].message}}'"
    );
    eventually(|| {
        let said = server.kubectl(&query).ok();
        if said.contains(message) { Ok(()) } else { Err(format!("events of {name}: {said:?}")) }
    });
}

#[test]
fn a_fresh_server_shows_only_the_kinds_of_what_runs() {
    let rules = |name: &str| name.ends_with("opensergo.io");
    for (flags, all, some) in [
        (&[] as &[&str], true, true),
        (&["--without", "opensergo"], true, false),
        (SAMPLES, false, true),
        (&["--with=samples", "--without=opensergo"], false, true),
        (&["--with=samples", "--without=opensergo,hub"], true, false),
    ] {
        let server = Server::start_with(flags);
        let found = server.kubectl("get crd -o name").ok();
        assert_eq!(found.lines().all(rules), all, "{flags:?}: {found}");
        assert_eq!(found.lines().next().is_some(), some, "{flags:?}: {found}");
    }
}

#[test]
fn a_foo_has_a_deployment_that_is_as_it_says() {
    let mut server = Server::start_with(SAMPLES);
    create(&server, &foo("example", "example-foo", 1));
    becomes(&server, "deploy example-foo", ".spec.replicas", "1");
    is_told(&server, "example", "Synced", "Foo synced successfully");
    assert_eq!(field(&server, "deploy example-foo", ".metadata.ownerReferences[0].name"), "example");
    server.kubectl(r#"patch foo example --type=merge -p '{"spec":{"replicas":3}}'"#).ok();
    becomes(&server, "deploy example-foo", ".spec.replicas", "3");
    server.kubectl("scale deploy example-foo --replicas=7").ok();
    becomes(&server, "deploy example-foo", ".spec.replicas", "3");
    let first = field(&server, "deploy example-foo", ".metadata.uid");
    server.kubectl("delete deploy example-foo").ok();
    eventually(|| {
        let ran = server.kubectl("get deploy example-foo -o jsonpath='{.metadata.uid}'").run();
        if ran.code == 0 && ran.stdout != first { Ok(()) } else { Err(format!("{ran:?}")) }
    });
    server.kubectl(r#"patch deploy example-foo --subresource=status --type=merge -p '{"status":{"replicas":2,"readyReplicas":2,"availableReplicas":2}}'"#).ok();
    becomes(&server, "foo example", ".status.availableReplicas", "2");
    // Whatever is changed just before the end is made good after the next start.
    server.kubectl(r#"patch foo example --type=merge -p '{"spec":{"replicas":5}}'"#).ok();
    server.crash();
    becomes(&server, "deploy example-foo", ".spec.replicas", "5");
    server.kubectl(r#"patch foo example --type=merge -p '{"spec":{"replicas":6}}'"#).ok();
    server.restart();
    becomes(&server, "deploy example-foo", ".spec.replicas", "6");
    server.kubectl("delete foo example").ok();
    is_gone(&server, "deploy example-foo");
}

#[test]
fn a_foo_does_not_take_what_is_not_its_own() {
    let server = Server::start_with(SAMPLES);
    server.kubectl("create deployment taken --image=nginx").ok();
    create(&server, &foo("late", "taken", 4));
    is_told(
        &server,
        "late",
        "ErrResourceExists",
        r#"Resource "taken" already exists and is not managed by Foo"#,
    );
    assert_eq!(field(&server, "deploy taken", ".spec.replicas"), "1");
    server.kubectl("delete deploy taken").ok();
    becomes(&server, "deploy taken", ".spec.replicas", "4");
}

#[test]
fn a_network_is_in_neutron_as_long_as_it_is_wanted() {
    let runtime = Runtime::new().expect("threads");
    let (neutron, listener) = (Neutron::default(), runtime.block_on(TcpListener::bind("127.0.0.1:0")));
    let listener = listener.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = neutron.clone();
    runtime.spawn(async move { serving.serve(listener).await });
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), format!("reconcilers: {{network: {{settings: {{neutronUrl: '{url}'}}}}}}"))
        .expect("the file is ours");
    let config_path = config.path().to_string_lossy();
    let flags = [SAMPLES, &["--hub-config", &config_path]].concat();
    let mut server = Server::start_with(&flags);
    // It is tried again while the service fails.
    neutron.fail(3);
    create(
        &server,
        "{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: lan}, spec: {cidr: 192.168.0.0/16, gateway: 192.168.0.1}}",
    );
    let is = |expected: &[&str]| {
        eventually(|| {
            let found: Vec<String> = neutron.networks().into_iter().map(|network| network.cidr).collect();
            if found == expected { Ok(()) } else { Err(format!("Neutron has {found:?}")) }
        });
    };
    is(&["192.168.0.0/16"]);
    is_told(&server, "lan", "Synced", "Network synced successfully");
    server.kubectl(r#"patch network lan --type=merge -p '{"spec":{"cidr":"10.0.0.0/8"}}'"#).ok();
    is(&["10.0.0.0/8"]);
    // What is deleted while nobody looks goes, too.
    server.set_flags(&["--without", "hub"]);
    server.restart();
    server.kubectl("delete network lan").ok();
    assert_eq!(neutron.networks().len(), 1);
    server.set_flags(&flags);
    server.restart();
    is(&[]);
}

#[test]
fn an_at_runs_its_command_when_its_time_has_come() {
    let server = Server::start_with(SAMPLES);
    let at = |name: &str, schedule: &str| {
        format!(
            "{{apiVersion: demo.wukong.com/v1, kind: At, metadata: {{name: {name}}},
              spec: {{schedule: '{schedule}', command: 'echo Hello'}}}}"
        )
    };
    create(&server, &at("past", "2020-01-02T15:04:05Z"));
    create(&server, &at("future", "2999-01-02T15:04:05Z"));
    create(&server, &at("never", "tomorrow"));
    becomes(&server, "at past", ".status.phase", "DONE");
    assert_eq!(field(&server, "pod past-pod", ".spec.containers[0].command"), r#"["echo","Hello"]"#);
    becomes(&server, "at future", ".status.phase", "PENDING");
    contains(&server.kubectl("get pod future-pod").fails(), &["NotFound"]);
    eventually(|| {
        let said = field(&server, "at never", ".status.message");
        if said.contains("expected a time") { Ok(()) } else { Err(said) }
    });
    server.kubectl(r#"patch at never --type=merge -p '{"spec":{"schedule":"2999-01-02T15:04:05Z"}}'"#).ok();
    becomes(&server, "at never", ".status.message", "");
    server.kubectl("delete at past").ok();
    is_gone(&server, "pod past-pod");
}

#[test]
fn a_migration_that_is_killed_again_and_again_moves_every_key_once() {
    const KEYS: i64 = 2_000;
    let (source, dest) = (Redis::start(), Redis::start());
    let mut client = source.connect();
    for number in 0..KEYS {
        client.ask(&["SET", &format!("key-{number}"), &format!("value-{number}")]);
    }
    let before = source.everything();
    let mut server = Server::start_with(SAMPLES);
    create(
        &server,
        &format!(
            "{{apiVersion: database.cloud.tencent.com/v1, kind: RedisMigration, metadata: {{name: move}},
              spec: {{source: '{}', dest: '{}', batchSize: 50}}}}",
            source.address(),
            dest.address()
        ),
    );
    for part in [1, 100, 500, 1_000, 1_500] {
        eventually(|| if dest.n_keys() >= part { Ok(()) } else { Err(format!("{} keys", dest.n_keys())) });
        server.crash();
    }
    becomes(&server, "redismigration move", ".status.phase", "Succeeded");
    assert_eq!(source.n_keys(), 0);
    assert_eq!(dest.everything(), before);
    assert_eq!(field(&server, "redismigration move", ".status.moved"), KEYS.to_string());
}

#[test]
fn a_migration_that_has_failed_is_resumed_when_it_is_told_to() {
    let (source, dest) = (Redis::start(), Redis::start());
    source.ask(&["SET", "key", "value"]);
    let mut keeper = dest.connect();
    keeper.ask(&["CONFIG", "SET", "requirepass", "secret"]);
    let server = Server::start_with(SAMPLES);
    create(
        &server,
        &format!(
            "{{apiVersion: database.cloud.tencent.com/v1, kind: RedisMigration, metadata: {{name: move}},
              spec: {{source: '{}', dest: '{}'}}}}",
            source.address(),
            dest.address()
        ),
    );
    becomes(&server, "redismigration move", ".status.phase", "PreFailed");
    assert_eq!(source.n_keys(), 1);
    keeper.ask(&["AUTH", "secret"]);
    keeper.ask(&["CONFIG", "SET", "requirepass", ""]);
    server.kubectl("annotate redismigration move windlass.dev/reset=1").ok();
    becomes(&server, "redismigration move", ".status.phase", "Succeeded");
    assert_eq!((source.n_keys(), dest.n_keys()), (0, 1));
}
