//! What a migration does, and what it refuses.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{GraphFormat, Manager};
use windlass_samples::{
    REGISTRATIONS,
    redis_migration::{self, REGISTRATION, RedisMigrationSpec},
};

use crate::{
    redis::{DEADLINE, Redis, Said},
    server::Server,
};

#[test]
fn the_kind_shows_its_phase_and_progress() {
    let definition = serde_json::to_value(redis_migration::definition()).expect("JSON");
    assert_eq!(definition["metadata"]["name"], "redismigrations.database.cloud.tencent.com");
    let version = &definition["spec"]["versions"][0];
    let columns = version["additionalPrinterColumns"].as_array().expect("columns");
    let shown: Vec<(&str, &str)> = columns
        .iter()
        .map(|own| (own["name"].as_str().unwrap_or_default(), own["jsonPath"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(shown[..2], [("Phase", ".status.phase"), ("Progress", ".status.progress")]);
    assert_eq!(version["subresources"], json!({"status": {}}));
    let text = version["schema"].to_string();
    assert!(!text.contains("$ref"), "a schema of a kind refers to nothing: {text}");
    let required = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"];
    assert_eq!(*required, json!(["dest", "source"]));
}

#[test]
fn every_sample_is_registered_and_brings_its_kind() {
    let names: Vec<&str> = REGISTRATIONS.iter().map(|own| own.name).collect();
    assert_eq!(names, ["foo", "network", "at", "redis-migration"]);
    assert!(REGISTRATIONS.iter().all(|own| own.crd.is_some()));
}

#[test]
fn the_machine_can_be_drawn() {
    let draw = REGISTRATION.graph.expect("it is a machine");
    assert!(draw(GraphFormat::Dot).starts_with("digraph \"redis-migration\""));
    let drawn = draw(GraphFormat::Mermaid);
    for way in ["[*] --> Pending", "Pending --> Precheck", "Precheck --> Migrate", "Migrate --> Succeeded"] {
        assert!(drawn.contains(way), "{drawn}");
    }
    for way in ["Precheck --> PreFailed: error", "Migrate --> Failed: error"] {
        assert!(drawn.contains(way), "{drawn}");
    }
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    let server = Server::start().await;
    for wrong in ["", "localhost", "a:b", "a:1:2", ":6379"] {
        let spec = json!({"source": wrong, "dest": "a:1"});
        let object = json!({"metadata": {"name": "m"}, "spec": spec});
        let object: kube::api::DynamicObject = serde_json::from_value(object).expect("an object");
        let resource = kube::core::ApiResource::erase::<redis_migration::RedisMigration>(&());
        let api = kube::Api::namespaced_with(server.client.clone(), "default", &resource);
        let refused = api.create(&Default::default(), &object).await.expect_err(wrong);
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 422), "{wrong}");
    }
    server.create("m", "[::1]:6379", "redis.example.org:6379", 1).await;
}

#[tokio::test]
async fn servers_cannot_be_exchanged_on_the_way() {
    let server = Server::start().await;
    server.create("m", "a:1", "b:2", 1).await;
    for change in [json!({"source": "c:3"}), json!({"dest": "c:3"}), json!({"db": 1})] {
        let patch = Patch::Merge(json!({"spec": change}));
        let refused = server.migrations().patch("m", &PatchParams::default(), &patch).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 422), "{change}");
    }
    server.patch("m", json!({"spec": {"batchSize": 2, "paused": true}})).await;
}

#[tokio::test]
async fn a_paused_migration_waits() {
    let (server, source, dest) = (Server::start().await, Redis::start(), Redis::start());
    source.ask(&["SET", "key", "value"]);
    server.create("m", &source.address(), &dest.address(), 1).await;
    server.patch("m", json!({"spec": {"paused": true}})).await;
    server.run("m").await;
    assert_eq!((source.n_keys(), dest.n_keys()), (1, 0));
    server.patch("m", json!({"spec": {"paused": false}})).await;
    server.run("m").await;
    assert_eq!((source.n_keys(), dest.n_keys()), (0, 1));
}

#[tokio::test]
async fn a_server_is_not_moved_to_itself() {
    let (server, redis) = (Server::start().await, Redis::start());
    redis.ask(&["SET", "key", "value"]);
    let port = redis.address().split(':').next_back().map(str::to_owned).expect("a port");
    server.create("m", &redis.address(), &format!("localhost:{port}"), 1).await;
    server.run("m").await;
    let status = server.get("m").await.status.expect("a status");
    assert_eq!(
        (status.machine.phase.as_str(), status.machine.failed_in.as_deref()),
        ("PreFailed", Some("Precheck"))
    );
    let stalled = status.machine.conditions.iter().find(|own| own.type_ == "Stalled").expect("a condition");
    assert!(stalled.status == "True" && stalled.message.contains("same server"), "{stalled:?}");
    assert_eq!(redis.ask(&["GET", "key"]), Said::Bytes(b"value".to_vec()));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_asked_again_and_then_no_more() {
    let (server, redis) = (Server::start().await, Redis::start());
    let gone =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|own| own.local_addr()).expect("an address");
    server.create("m", &redis.address(), &gone.to_string(), 1).await;
    server.run("m").await;
    let status = server.get("m").await.status.expect("a status");
    let state = &status.machine.state["Precheck"];
    assert_eq!((status.machine.phase.as_str(), state.attempts), ("PreFailed", 6));
    assert!(state.error.as_deref().is_some_and(|text| text.contains(&gone.to_string())), "{state:?}");
}

#[tokio::test]
async fn keys_that_both_servers_have_are_those_of_the_source() {
    let (server, source, dest) = (Server::start().await, Redis::start(), Redis::start());
    for (key, old, new) in [("same", "value", "value"), ("other", "old", "new"), ("mortal", "value", "value")]
    {
        dest.ask(&["SET", key, old]);
        source.ask(&["SET", key, new]);
    }
    source.ask(&["PEXPIRE", "mortal", "3600000"]);
    dest.ask(&["SET", "own", "stays"]);
    server.create("m", &source.address(), &dest.address(), 10).await;
    server.run("m").await;
    assert_eq!(server.get("m").await.status.expect("a status").progress.as_deref(), Some("3/3"));
    for (key, value) in [("same", "value"), ("other", "new"), ("mortal", "value"), ("own", "stays")] {
        assert_eq!(dest.ask(&["GET", key]), Said::Bytes(value.as_bytes().to_vec()));
    }
    assert!(matches!(dest.ask(&["PTTL", "mortal"]), Said::Number(1..)));
}

#[tokio::test]
async fn values_that_are_large_together_are_moved_one_by_one() {
    let (server, source, dest) = (Server::start().await, Redis::start(), Redis::start());
    let mut client = source.connect();
    for idx in 0..9_u8 {
        let mut rng = fastrand::Rng::with_seed(idx.into());
        let value: Vec<u8> = (0..8 << 20).map(|_| rng.u8(..)).collect();
        client.ask(&[&b"SET"[..], &[idx], &value]);
    }
    let before: BTreeMap<_, _> = source.everything();
    server.create("m", &source.address(), &dest.address(), 100).await;
    server.run("m").await;
    assert_eq!(server.get("m").await.status.expect("a status").progress.as_deref(), Some("9/9"));
    assert!(dest.everything() == before && source.n_keys() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_meanwhile_is_not_lost() {
    const N_KEYS: usize = 500;
    let (server, source, dest) = (Server::start().await, Redis::start(), Redis::start());
    let mut client = source.connect();
    for idx in 0..N_KEYS {
        client.ask(&["SET", &idx.to_string(), "0"]);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&stop);
    let writer = tokio::task::spawn_blocking(move || {
        let mut last = vec![0; N_KEYS];
        let mut rng = fastrand::Rng::with_seed(7);
        let mut n_writes = 0;
        while !until.load(Ordering::SeqCst) {
            let idx = rng.usize(0..N_KEYS);
            n_writes += 1;
            // Only what is still there is written.
            let said = client.ask(&["SET", &idx.to_string(), &n_writes.to_string(), "XX"]);
            if said == Said::Text("OK".to_owned()) {
                last[idx] = n_writes;
            }
        }
        last
    });
    server.create("m", &source.address(), &dest.address(), 20).await;
    server.run("m").await;
    stop.store(true, Ordering::SeqCst);
    let last = writer.await.expect("the writer ends");
    assert_eq!(server.get("m").await.status.expect("a status").progress.as_deref(), Some("500/500"));
    assert!(last.iter().any(|own| *own != 0), "something was written meanwhile");
    for (idx, value) in last.iter().enumerate() {
        let said = dest.ask(&["GET", &idx.to_string()]);
        assert_eq!(said, Said::Bytes(value.to_string().into_bytes()), "key {idx}");
    }
}

#[tokio::test]
async fn another_database_is_moved_alone() {
    let (server, source, dest) = (Server::start().await, Redis::start(), Redis::start());
    let mut client = source.connect();
    client.ask(&["SET", "stays", "1"]);
    client.ask(&["SELECT", "3"]);
    client.ask(&["SET", "goes", "1"]);
    let (from, to) = (source.address(), dest.address());
    let spec = RedisMigrationSpec { source: from, dest: to, db: Some(3), ..RedisMigrationSpec::default() };
    server.create_with("m", spec).await;
    server.run("m").await;
    assert_eq!((source.n_keys(), dest.n_keys()), (1, 0));
    let mut client = dest.connect();
    client.ask(&["SELECT", "3"]);
    assert_eq!(client.ask(&["GET", "goes"]), Said::Bytes(b"1".to_vec()));
}

#[tokio::test]
async fn a_controller_looks_after_migrations() {
    let (server, source, dest) = (Server::start().await, Redis::start(), Redis::start());
    source.ask(&["SET", "key", "value"]);
    let manager = Manager::of(server.client.clone(), &[REGISTRATION], &Default::default());
    let manager = manager.expect("nothing is wrong with nothing");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(stop).await }
    });
    server.create("m", &source.address(), &dest.address(), 10).await;
    let ends = async {
        while server.get("m").await.status.unwrap_or_default().machine.phase != "Succeeded" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, ends).await.expect("it succeeds");
    assert_eq!(dest.ask(&["GET", "key"]), Said::Bytes(b"value".to_vec()));
    stop.cancel();
    running.await.expect("it ends");
}

#[tokio::test]
async fn keys_are_not_taken_outside_of_a_transaction() {
    let server = Server::start().await;
    for (rule, why) in [("-multi", "NOPERM"), ("-del", "NOPERM")] {
        let (source, dest) = (Redis::start(), Redis::start());
        source.ask(&["SET", "key", "value"]);
        source.ask(&["ACL", "SETUSER", "default", rule]);
        let name = format!("m{rule}");
        server.create(&name, &source.address(), &dest.address(), 10).await;
        server.run(&name).await;
        let status = server.get(&name).await.status.expect("a status");
        let state = &status.machine.state["Migrate"];
        assert_eq!((status.machine.phase.as_str(), state.attempts), ("Failed", 1), "{rule}");
        assert!(state.error.as_deref().is_some_and(|text| text.contains(why)), "{rule}: {state:?}");
        assert_eq!(source.ask(&["GET", "key"]), Said::Bytes(b"value".to_vec()), "{rule}");
    }
}
