//! Lists in pages: all of one revision, however much is written meanwhile; and what happens when that is forgotten.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_e2e::{Answer, Raw, Server};

const PATH: &str = "/api/v1/namespaces/default/configmaps";

const N_OBJECTS: usize = 60;
const N_WRITERS: usize = 4;
const N_LISTS: usize = 15;

async fn get(raw: &Raw, path: &str) -> Answer {
    raw.get(path).await.expect("the server is there")
}

fn revision(list: &Value) -> &str {
    list["metadata"]["resourceVersion"].as_str().expect("lists have a revision")
}

fn token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap_or_default()
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().expect("lists have items")
}

async fn put(raw: &Raw, name: &str, n: usize) {
    let body = json!({"metadata": {"name": name, "labels": {"parity": (n % 2).to_string()}}, "data": {"n": n.to_string()}});
    let path = format!("{PATH}/{name}");
    let answer = raw.send(Method::PUT, &path, &body).await.expect("the server is there");
    if answer.code == StatusCode::NOT_FOUND {
        let answer = raw.send(Method::POST, PATH, &body).await.expect("the server is there");
        assert_eq!(answer.code, StatusCode::CREATED, "{answer:?}");
    }
}

/// Writes and deletes its own objects until told to stop; returns how many changes it made.
async fn write(raw: Raw, writer: usize, stop: &AtomicBool) -> usize {
    let mut rng = fastrand::Rng::with_seed(writer as u64);
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return n;
        }
        // Names of all writers lie between each other, so that every page is under change.
        let name = format!("object-{:03}-{writer}", rng.usize(0..N_OBJECTS / N_WRITERS));
        if rng.u8(0..5) == 0 {
            raw.send(Method::DELETE, &format!("{PATH}/{name}"), &Value::Null)
                .await
                .expect("the server is there");
        } else {
            put(&raw, &name, n).await;
        }
    }
    unreachable!("there is always a next number")
}

/// All pages of a list, which must be of one revision, and that revision.
async fn pages(raw: &Raw, selector: &str, limit: usize) -> (Vec<Value>, String) {
    let path = format!("{PATH}?limit={limit}&labelSelector={selector}");
    let mut page = get(raw, &path).await.body;
    let first = revision(&page).to_owned();
    let mut all = items(&page).to_vec();
    let mut left = page["metadata"]["remainingItemCount"].as_u64();
    while !token(&page).is_empty() {
        assert_eq!(items(&page).len(), limit, "only the last page may be short");
        let answer = get(raw, &format!("{path}&continue={}", token(&page))).await;
        assert_eq!(answer.code, StatusCode::OK, "{answer:?}");
        page = answer.body;
        assert_eq!(revision(&page), first, "all pages are of one revision");
        all.extend_from_slice(items(&page));
        if let Some(before) = left {
            assert_eq!(before as usize, items(&page).len() + rest(&page), "what was said to be left came");
        }
        left = page["metadata"]["remainingItemCount"].as_u64();
    }
    (all, first)
}

fn rest(page: &Value) -> usize {
    page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) as usize
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_taken_while_writers_write_are_of_one_revision() {
    let server = Server::start();
    let raw = server.raw().await;
    for n in 0..N_OBJECTS {
        put(&raw, &format!("object-{:03}-{}", n / N_WRITERS, n % N_WRITERS), n).await;
    }
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..N_WRITERS {
        let (raw, stop) = (server.raw().await, stop.clone());
        writers.spawn(async move { write(raw, writer, &stop).await });
    }
    let mut revisions = vec![];
    for round in 0..N_LISTS {
        let selector = ["", "parity%3D1", "parity+in+(0,1)"][round % 3];
        let (found, at) = pages(&raw, selector, 1 + round).await;
        let exact =
            format!("{PATH}?labelSelector={selector}&resourceVersion={at}&resourceVersionMatch=Exact");
        let exact = get(&raw, &exact).await;
        assert_eq!(exact.code, StatusCode::OK, "{exact:?}");
        assert_eq!(revision(&exact.body), at);
        assert_eq!(found, items(&exact.body), "the pages are the list at revision {at}");
        revisions.push(at.parse::<u64>().expect("a number"));
    }
    stop.store(true, Ordering::Relaxed);
    let n_changes: usize = writers.join_all().await.into_iter().sum();
    assert!(
        revisions.is_sorted() && revisions.first() < revisions.last(),
        "{revisions:?}, {n_changes} changes"
    );
}

/// Writes until the server has forgotten the revision `from`.
pub(crate) async fn write_until_gone(raw: &Raw, from: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    for n in 0.. {
        put(raw, &format!("filler-{}", n % 10), n).await;
        let exact = format!("{PATH}?limit=1&resourceVersion={from}&resourceVersionMatch=Exact");
        if n % 50 == 0 && get(raw, &exact).await.code == StatusCode::GONE {
            return;
        }
        assert!(Instant::now() < deadline, "revision {from} is still there after {n} changes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_expired_comes_back_with_one_that_works() {
    let server = Server::start_with(&["--history-window", "0s", "--history-changes", "0"]);
    let raw = server.raw().await;
    for n in 0..20 {
        put(&raw, &format!("object-{n:02}"), n).await;
    }
    let first = get(&raw, &format!("{PATH}?limit=5")).await.body;
    let expired = token(&first).to_owned();
    write_until_gone(&raw, revision(&first)).await;

    let refused = get(&raw, &format!("{PATH}?limit=5&continue={expired}")).await;
    assert_eq!(refused.code, StatusCode::GONE, "{refused:?}");
    assert_eq!(refused.body["kind"], "Status");
    assert_eq!(refused.body["reason"], "Expired", "{refused:?}");
    assert_eq!(refused.body["code"], 410);
    let fresh = token(&refused.body);
    assert!(!fresh.is_empty() && fresh != expired, "{refused:?}");

    // The rest is of a later revision, and from then on of one.
    let mut page = get(&raw, &format!("{PATH}?limit=5&continue={fresh}")).await;
    let later = revision(&page.body).to_owned();
    assert_ne!(later, revision(&first), "the first revision is gone");
    let mut names: Vec<Value> = items(&first).iter().map(|item| item["metadata"]["name"].clone()).collect();
    loop {
        assert_eq!((page.code, revision(&page.body)), (StatusCode::OK, later.as_str()), "{page:?}");
        names.extend(items(&page.body).iter().map(|item| item["metadata"]["name"].clone()));
        if token(&page.body).is_empty() {
            break;
        }
        page = get(&raw, &format!("{PATH}?limit=5&continue={}", token(&page.body))).await;
    }
    let expected: Vec<String> = (0..20).map(|n| format!("object-{n:02}")).collect();
    let objects: Vec<&str> =
        names.iter().filter_map(Value::as_str).filter(|name| name.starts_with("object-")).collect();
    assert_eq!(objects, expected, "each object once");
}
