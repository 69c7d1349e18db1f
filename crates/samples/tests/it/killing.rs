//! The process dies at every step of a migration, and each key is taken and counted exactly once.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use serde_json::json;

use crate::{
    proxy::{Fate, Line},
    redis::{DEADLINE, Redis, Said},
    server::{Server, When, run},
};

const N_KEYS: usize = 40;
const BATCH: u32 = 10;

/// Keys of several kinds, some of them with a time to live, and one whose name is no text.
fn fill(redis: &Redis) -> BTreeMap<Vec<u8>, (Vec<u8>, i64)> {
    let mut client = redis.connect();
    for idx in 0..N_KEYS - 4 {
        let (key, value) = (format!("key:{idx}"), format!("value {idx}"));
        let said = match idx % 3 {
            0 => client.ask(&["SET", &key, &value, "PX", "3600000"]),
            _ => client.ask(&["SET", &key, &value]),
        };
        assert_eq!(said, Said::Text("OK".to_owned()));
    }
    client.ask(&["RPUSH", "list", "a", "b", "c"]);
    client.ask(&["HSET", "hash", "f", "1", "g", "2"]);
    client.ask(&["ZADD", "sorted", "1", "one", "2", "two"]);
    client.ask(&[&b"SET"[..], b"\xff\x00\r\n", b"\x00binary"]);
    let all = redis.everything();
    assert_eq!(all.len(), N_KEYS);
    all
}

/// Everything is where it should be, and has been brought there once.
async fn check(
    server: &Server,
    name: &str,
    redis: &[Redis; 2],
    before: &BTreeMap<Vec<u8>, (Vec<u8>, i64)>,
    what: &str,
) {
    let status = server.get(name).await.status.expect("a status");
    assert_eq!(status.machine.phase, "Succeeded", "{what}: {:?}", status.machine);
    let n_keys = N_KEYS as u64;
    assert_eq!((status.moved, status.total), (Some(n_keys), Some(n_keys)), "{what}");
    assert_eq!(status.progress.as_deref(), Some("40/40"), "{what}");
    assert_eq!(redis[0].n_keys(), 0, "{what}: the source is empty");
    let after = redis[1].everything();
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{what}");
    for (key, (value, time)) in before {
        let (own_value, own_time) = &after[key];
        assert_eq!(own_value, value, "{what}: {}", key.escape_ascii());
        let is_near = (*time == -1 && *own_time == -1)
            || (*time > 0 && (time - own_time).abs() < 60_000 && *own_time > 0);
        assert!(is_near, "{what}: {} lives for {own_time} instead of {time}", key.escape_ascii());
    }
    // A batch that was under way, of about so many, may come again with what the source has then.
    let n_restored = redis[1].n_restored();
    assert!(
        (n_keys..=n_keys + 2 * u64::from(BATCH)).contains(&n_restored),
        "{what}: {n_restored} were brought"
    );
}

/// Runs a migration in a process that dies when something happens. Whether it did.
async fn die_at(server: &Server, name: &str, happened: &tokio::sync::Notify) -> bool {
    let mut process = tokio::spawn(run(server.client.clone(), name.to_owned()));
    let died = async {
        tokio::select! {
            () = happened.notified() => true,
            ended = &mut process => {
                ended.expect("it ends well");
                false
            }
        }
    };
    let died = tokio::time::timeout(DEADLINE, died).await.expect("it dies or ends");
    process.abort();
    died
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_survives_a_kill_at_every_write() {
    let (server, redis) = (Server::start().await, [Redis::start(), Redis::start()]);
    let mut n_kills = 0;
    'all: for at in 0.. {
        for when in [When::Before, When::After] {
            let (name, what) = (format!("m{at}-{when:?}").to_lowercase(), format!("{when:?} write {at}"));
            redis.iter().for_each(Redis::clear);
            let before = fill(&redis[0]);
            server.create(&name, &redis[0].address(), &redis[1].address(), BATCH).await;
            server.cut.set(Some((at, when)));
            let died = die_at(&server, &name, &server.cut.happened).await;
            server.cut.set(None);
            server.run(&name).await;
            check(&server, &name, &redis, &before, &what).await;
            if !died {
                break 'all;
            }
            n_kills += 1;
        }
    }
    assert!(n_kills > 10, "it died {n_kills} times");
}

/// Runs a migration again and again, with another fate for another request each time.
async fn at_every_request(fate: Fate) {
    let (server, redis) = (Server::start().await, [Redis::start(), Redis::start()]);
    let line = Line::new();
    let addresses = [line.before(redis[0].address()).await, line.before(redis[1].address()).await];
    let mut n_kills = 0;
    for at in 0.. {
        let (name, what) = (format!("m{at}"), format!("{fate:?} at request {at}"));
        redis.iter().for_each(Redis::clear);
        let before = fill(&redis[0]);
        server.create(&name, &addresses[0], &addresses[1], BATCH).await;
        line.set(Some((at, fate)));
        let died = die_at(&server, &name, &line.happened).await;
        server.run(&name).await;
        check(&server, &name, &redis, &before, &what).await;
        if !died {
            break;
        }
        n_kills += 1;
        if fate == Fate::Late {
            // What the dead process has said last must neither undo what is newer nor bring back what is gone.
            let mut client = redis[1].connect();
            for (idx, key) in before.keys().enumerate() {
                match idx % 2 {
                    0 => client.ask(&[b"SET", key.as_slice(), b"newer"]),
                    _ => client.ask(&[b"DEL", key.as_slice()]),
                };
            }
            line.release();
            tokio::time::timeout(DEADLINE, line.arrived.notified()).await.expect("it arrives, or cannot");
            for (idx, key) in before.keys().enumerate() {
                let expected = if idx % 2 == 0 { Said::Bytes(b"newer".to_vec()) } else { Said::Nothing };
                let said = client.ask(&[b"GET", key.as_slice()]);
                assert_eq!(said, expected, "{what}: {}", key.escape_ascii());
            }
        }
    }
    assert!(n_kills > 20, "it died {n_kills} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_survives_a_kill_before_every_request() {
    at_every_request(Fate::Cut(When::Before)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_survives_a_kill_after_every_request() {
    at_every_request(Fate::Cut(When::After)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_process_has_said_last_comes_too_late() {
    at_every_request(Fate::Late).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_migration_goes_on_after_a_reset() {
    let (server, redis) = (Server::start().await, [Redis::start(), Redis::start()]);
    let before = fill(&redis[0]);
    redis[1].ask(&["CONFIG", "SET", "maxmemory", "1"]);
    server.create("m", &redis[0].address(), &redis[1].address(), BATCH).await;
    server.run("m").await;
    let status = server.get("m").await.status.expect("a status");
    assert_eq!(
        (status.machine.phase.as_str(), status.machine.failed_in.as_deref()),
        ("Failed", Some("Migrate"))
    );
    let error = status.machine.state["Migrate"].error.clone().unwrap_or_default();
    assert!(error.contains("OOM"), "{error}");
    assert_eq!(redis[0].n_keys(), N_KEYS as i64 + 1, "nothing is lost, and what was on the way is on record");

    redis[1].ask(&["CONFIG", "SET", "maxmemory", "0"]);
    server.patch("m", json!({"metadata": {"annotations": {windlass_runtime::phase::RESET: "1"}}})).await;
    server.run("m").await;
    check(&server, "m", &redis, &before, "after the reset").await;
}

/// Somebody deletes a key at the source at every point of a migration. A process may die then, or not.
async fn deleted_at_every_request(fate: Fate) {
    const N_SMALL: i64 = 3;
    let (server, redis) = (Server::start().await, [Redis::start(), Redis::start()]);
    let line = Line::new();
    let addresses = [line.before(redis[0].address()).await, line.before(redis[1].address()).await];
    let (mut n_deleted, mut n_moved) = (0, 0);
    for at in 0.. {
        let (name, what) = (format!("m{at}"), format!("{fate:?} at request {at}"));
        redis.iter().for_each(Redis::clear);
        (0..N_SMALL).for_each(|idx| drop(redis[0].ask(&["SET", &idx.to_string(), "value"])));
        server.create(&name, &addresses[0], &addresses[1], BATCH).await;
        line.set(Some((at, fate)));
        let process = tokio::spawn(run(server.client.clone(), name.clone()));
        let happens = tokio::time::timeout(DEADLINE, line.happened.notified());
        let ended = async {
            while !process.is_finished() {
                tokio::task::yield_now().await
            }
        };
        let happened = tokio::select! {
            happened = happens => happened.is_ok(),
            // What ends it may be what has happened.
            () = ended => line.happened.notified().now_or_never().is_some(),
        };
        if fate != Fate::Pause {
            process.abort();
        }
        let was_there = redis[0].ask(&["DEL", "1"]) == Said::Number(1);
        line.release();
        let ends = process.await;
        assert!(fate != Fate::Pause || ends.is_ok(), "{what}: {ends:?}");
        server.run(&name).await;
        let status = server.get(&name).await.status.expect("a status");
        assert_eq!(status.machine.phase, "Succeeded", "{what}: {:?}", status.machine);
        let n_left = N_SMALL - i64::from(was_there);
        assert_eq!((redis[0].n_keys(), redis[1].n_keys()), (0, n_left), "{what}: deleted: {was_there}");
        assert_eq!(status.moved, Some(n_left as u64), "{what}");
        if !happened {
            break;
        }
        *(if was_there { &mut n_deleted } else { &mut n_moved }) += 1;
    }
    assert!(n_deleted > 10 && n_moved > 0, "{n_deleted} and {n_moved}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_deletes_at_the_source_does_not_live_on() {
    deleted_at_every_request(Fate::Pause).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_deletes_at_the_source_does_not_live_on_when_a_process_dies() {
    deleted_at_every_request(Fate::Cut(When::Before)).await;
    deleted_at_every_request(Fate::Cut(When::After)).await;
}
