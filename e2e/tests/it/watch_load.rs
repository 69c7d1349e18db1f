//! Many writers, many watchers that drop off and come back, and a server that goes away: nobody misses anything.
//!
//! Every writer owns its keys, so what must be told of a key is known, change by change. A watcher notes what it is
//! told from its first state on; in the end that must be exactly what was made of what it selects, in order, and what
//! it then holds must be what a list gives. `WINDLASS_WATCH_EVENTS` says how many changes are made.

mod model;
mod watcher;
mod writer;

use std::{
    env,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use http::Method;
use serde_json::json;
use tokio::task::JoinSet;
use windlass_e2e::Server;

use model::{N_NAMESPACES, Pace, Selection};

/// Changes in a run of the whole suite; a long run is for the release build.
const N_CHANGES: u64 = 12_000;
const N_WRITERS: usize = 16;
const N_WATCHERS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_drop_and_resume_see_every_change_once_and_in_order() {
    let n_changes =
        env::var("WINDLASS_WATCH_EVENTS").map_or(N_CHANGES, |text| text.parse().expect("a number"));
    let mut server = Server::start();
    let raw = server.raw().await;
    for idx in 0..N_NAMESPACES {
        let body = json!({"metadata": {"name": model::namespace(idx)}});
        let answer = raw.send(Method::POST, "/api/v1/namespaces", &body).await.expect("the server is there");
        assert!(answer.code.is_success(), "{answer:?}");
    }

    let begin = Instant::now();
    let pace = Arc::new(Pace::new(n_changes, N_WATCHERS));
    let mut watchers = JoinSet::new();
    for idx in 0..N_WATCHERS {
        watchers.spawn(watcher::watch(server.raw().await, idx, Arc::clone(&pace)));
    }
    let mut writers = JoinSet::new();
    for idx in 0..N_WRITERS {
        writers.spawn(writer::write(server.raw().await, idx, Arc::clone(&pace)));
    }
    // Twice it ends as it should, and once it is killed.
    for (quarter, restart) in
        [(1, Server::restart as fn(&mut Server)), (2, Server::crash), (3, Server::restart)]
    {
        pace.until_made(n_changes * quarter / 4).await;
        tokio::task::block_in_place(|| restart(&mut server));
    }
    let mut made = vec![];
    while let Some(written) = writers.join_next().await {
        made.extend(written.expect("a writer did not fail"));
    }
    let writing = begin.elapsed();
    let list = raw.get("/api/v1/configmaps?limit=1").await.expect("the server is there").body;
    let last = list["metadata"]["resourceVersion"].as_str().expect("a revision").parse().expect("a number");
    pace.last.store(last, Ordering::Release);

    let (mut n_told, mut n_watches) = (0, 0);
    while let Some(watched) = watchers.join_next().await {
        let watched = watched.expect("a watcher did not fail");
        n_told += watched.events.len();
        n_watches += watched.n_watches;
        model::check(&watched, &made).expect("every change once and in order");
        let listed = list_of(&server, &watched.selection, last).await;
        assert_eq!(watched.state(), listed, "{:?} ends with what a list gives", watched.selection);
    }
    println!(
        "{n_changes} changes by {N_WRITERS} writers in {writing:.1?}; {n_told} events to {N_WATCHERS} watchers over \
         {n_watches} watches, the last after {:.1?}",
        begin.elapsed()
    );
    assert!(n_watches > N_WATCHERS * 4, "watchers did drop and resume: {n_watches} watches");
}

/// What there is of a selection at a revision, by key.
async fn list_of(server: &Server, selection: &Selection, at: u64) -> model::State {
    let path = selection.path(&format!("resourceVersion={at}&resourceVersionMatch=Exact"));
    let answer = server.raw().await.get(&path).await.expect("the server is there");
    assert!(answer.code.is_success(), "{answer:?}");
    let items = answer.body["items"].as_array().expect("a list").clone();
    items
        .into_iter()
        .filter_map(|item| model::Object::of(serde_json::from_value(item).expect("an object")))
        .collect()
}
