//! kube-rs: its watch, its watcher, its reflector and its Controller, over a restart.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
    runtime::{
        Controller, WatchStreamExt,
        controller::Action,
        reflector, watcher,
        watcher::{Config, Event},
    },
};
use tokio::sync::Notify;
use windlass_e2e::Server;

use crate::changes::{END, Script, Told, check_exactly_once, listed};

/// How long a client may need to see the last change.
const PATIENCE: Duration = Duration::from_secs(60);

fn told(kind: &str, object: &ConfigMap) -> Told {
    Told::new(kind, &object.name_any(), &object.resource_version().expect("stored objects have one"))
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the last change is seen in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_kube_rs_goes_on_over_a_restart() {
    let mut server = Server::start();
    let script = Script::begin(&server).await;
    let api: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    let list = api.list(&ListParams::default()).await.expect("a list");
    let mut revision = list.metadata.resource_version.expect("of one revision");
    let watching = tokio::spawn(async move {
        let (mut seen, mut n_watches) = (vec![], 0);
        loop {
            // The server is away in the middle; what it refuses then is asked again.
            let Ok(stream) = api.watch(&WatchParams::default(), &revision).await else { continue };
            n_watches += 1;
            let mut stream = pin!(stream);
            while let Some(Ok(event)) = stream.next().await {
                let (kind, object) = match event {
                    WatchEvent::Added(object) => ("ADDED", object),
                    WatchEvent::Modified(object) => ("MODIFIED", object),
                    WatchEvent::Deleted(object) => ("DELETED", object),
                    WatchEvent::Bookmark(bookmark) => {
                        revision = bookmark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(status) => panic!("the watch was refused: {status:?}"),
                };
                revision = object.resource_version().expect("stored objects have one");
                seen.push(told(kind, &object));
                if object.name_any() == END {
                    return (seen, n_watches);
                }
            }
        }
    });
    let made = script.play(&mut server).await;
    let (seen, n_watches) = in_time(watching).await.expect("it did not fail");
    check_exactly_once(&made, &seen);
    assert!(n_watches >= 2, "the restart ended a watch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_lists_goes_on_over_a_restart() {
    check_watcher(Config::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_streams_its_list_goes_on_over_a_restart() {
    check_watcher(Config::default().streaming_lists()).await;
}

async fn check_watcher(config: Config) {
    let mut server = Server::start();
    let script = Script::begin(&server).await;
    let n_early = listed(&server).await.len();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    let (store, writer) = reflector::store();
    let synced = Arc::new(Notify::new());
    let events = watcher(api, config).default_backoff().reflect(writer);
    let watching = tokio::spawn(collect(events, Arc::clone(&synced)));
    in_time(synced.notified()).await;
    assert_eq!(store.len(), n_early, "the reflector has the first state");

    let made = script.play(&mut server).await;
    let (n_inits, seen) = in_time(watching).await.expect("it did not fail");
    assert_eq!(n_inits, 1, "it never lists again");
    // A watcher does not tell additions from modifications.
    let made: Vec<Told> = made
        .into_iter()
        .map(|told| match told.kind.as_str() {
            "ADDED" => Told { kind: "MODIFIED".to_owned(), ..told },
            _ => told,
        })
        .collect();
    check_exactly_once(&made, &seen);
    let mut held: Vec<String> = store
        .state()
        .iter()
        .map(|object| format!("{} {}", object.name_any(), object.resource_version().unwrap_or_default()))
        .collect();
    held.sort();
    assert_eq!(held, listed(&server).await, "the reflector holds what there is");
}

/// What a watcher tells up to the last change, and how often it began anew.
async fn collect(
    events: impl Stream<Item = watcher::Result<Event<ConfigMap>>>,
    synced: Arc<Notify>,
) -> (usize, Vec<Told>) {
    let mut events = pin!(events);
    let (mut n_inits, mut seen) = (0, vec![]);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => n_inits += 1,
            Ok(Event::InitApply(_)) => {}
            Ok(Event::InitDone) => synced.notify_one(),
            Ok(Event::Apply(object)) => {
                seen.push(told("MODIFIED", &object));
                if object.name_any() == END {
                    break;
                }
            }
            Ok(Event::Delete(object)) => seen.push(told("DELETED", &object)),
            // The server is away. The watcher goes on by itself.
            Err(watcher::Error::WatchError(status)) => panic!("the watch was refused: {status:?}"),
            Err(_) => {}
        }
    }
    (n_inits, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_reconciles_the_last_state_of_everything_over_a_restart() {
    let mut server = Server::start();
    let script = Script::begin(&server).await;
    let api: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    let reconciled = Arc::new(Mutex::new(BTreeMap::new()));
    let changed = Arc::new(Notify::new());
    let reconcile = {
        let (reconciled, changed) = (Arc::clone(&reconciled), Arc::clone(&changed));
        move |object: Arc<ConfigMap>, _: Arc<()>| {
            let revision = object.resource_version().unwrap_or_default();
            reconciled.lock().expect("no one panicked").insert(object.name_any(), revision);
            changed.notify_one();
            async { Ok::<_, std::convert::Infallible>(Action::await_change()) }
        }
    };
    let controller = Controller::new(api, Config::default());
    let running = controller
        .run(reconcile, |_, error, _| match *error {}, Arc::new(()))
        .for_each(|_| std::future::ready(()));
    let running = tokio::spawn(running);
    script.play(&mut server).await;

    let there = listed(&server).await;
    in_time(async {
        loop {
            let held: BTreeMap<String, String> = reconciled.lock().expect("no one panicked").clone();
            // What has been deleted since stays among what was reconciled.
            if there.iter().all(|line| {
                let (name, revision) = line.split_once(' ').expect("two words");
                held.get(name).is_some_and(|held| held == revision)
            }) {
                return;
            }
            changed.notified().await;
        }
    })
    .await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_a_revision_that_is_gone_begins_anew() {
    let server = Server::start_with(&["--history-window", "0s", "--history-changes", "0"]);
    let raw = server.raw().await;
    let from = raw.get("/api/v1/namespaces/default/configmaps?limit=1").await.expect("a list").body;
    let from = from["metadata"]["resourceVersion"].as_str().expect("of one revision").to_owned();
    crate::pages::write_until_gone(&raw, &from).await;
    let api: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    let stream = api.watch(&WatchParams::default(), &from).await.expect("a watch that says why it ends");
    let events: Vec<_> = stream.try_collect().await.expect("events");
    let [WatchEvent::Error(status)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}
