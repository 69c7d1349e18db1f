//! The etcd engine and the past: resuming, compaction by others, and an etcd whose past is another.

use std::sync::Arc;

use windlass_store::{CommitError, Delivery, Etcd, Expect, Read, ReadError, Revision, Store, Txn, Watch};

use crate::etcd_server::{EtcdServer, eventually};

async fn put(store: &Etcd, key: &str, value: &str) -> Revision {
    store.commit(Txn::new().put(key, value.to_owned(), Expect::Any)).await.unwrap()
}

/// Reads from a watch until it has delivered `n_changes`: each as key, value and revision.
async fn take(watch: &mut Watch, n_changes: usize) -> Vec<(String, String, Revision)> {
    let mut taken = Vec::new();
    while taken.len() < n_changes {
        let Delivery::Changes(changes) = watch.next().await.unwrap() else { continue };
        for change in changes {
            let value = change.current.as_ref().map(|entry| String::from_utf8_lossy(&entry.value).into());
            taken.push((change.key.to_string(), value.unwrap_or_default(), change.revision));
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_resumes_after_our_process_restarts() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let before = Etcd::connect(server.config()).await.unwrap();
    let mut written = Vec::new();
    for n in 0..10 {
        let value = format!("v{n}");
        let revision = put(&before, "pods/a", &value).await;
        written.push(("pods/a".to_owned(), value, revision));
    }
    let seen = written[3].2;
    before.close().await;

    let after = Etcd::connect(server.config()).await.unwrap();
    let mut watch = after.watch(b"pods/", seen).await.unwrap();
    assert_eq!(take(&mut watch, 6).await, written[4..]);
    let past = after.snapshot(Read::At(seen)).await.unwrap();
    assert_eq!(past.get(b"pods/a").unwrap().value, "v3");
    assert_eq!(after.snapshot(Read::Latest).await.unwrap().get(b"pods/a").unwrap().value, "v9");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_starts_goes_back_to_where_etcd_was_compacted() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let before = Etcd::connect(server.config()).await.unwrap();
    let mut revisions = Vec::new();
    for n in 0..10 {
        revisions.push(put(&before, "pods/a", &format!("v{n}")).await);
    }
    before.compact(revisions[5]).await.unwrap();
    before.compact(revisions[5]).await.unwrap();
    drop(before);

    let after = Etcd::connect(server.config()).await.unwrap();
    assert_eq!(after.window().floor, revisions[5]);
    let too_old = after.watch(b"pods/", revisions[4]).await.unwrap_err();
    assert_eq!(too_old, ReadError::Compacted { requested: revisions[4], floor: revisions[5] });
    let mut watch = after.watch(b"pods/", revisions[5]).await.unwrap();
    assert_eq!(take(&mut watch, 4).await.last().unwrap().2, revisions[9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_pages_are_loaded_as_of_one_revision() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let before = Etcd::connect(server.config()).await.unwrap();
    // More than the first page and than the largest one, in different sizes.
    for n in 0..25 {
        let mut txn = Txn::new();
        for m in 0..100 {
            txn = txn.put(format!("pods/{n}-{m}"), vec![b'x'; n * m], Expect::Absent);
        }
        before.commit(txn).await.unwrap();
    }
    let head = before.window().head;
    before.compact(head).await.unwrap();

    let after = Etcd::connect(server.config()).await.unwrap();
    let expected = before.snapshot(Read::At(head)).await.unwrap().range(b"", None, 0);
    assert_eq!(expected.entries.len(), 2500);
    assert_eq!(after.snapshot(Read::At(head)).await.unwrap().range(b"", None, 0), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_by_others_while_we_are_cut_off_ends_old_watches_only() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    let seen = put(&store, "pods/a", "ours").await;
    let mut watch = store.watch(b"pods/", seen).await.unwrap();
    server.kill();
    let port = server.move_to(None);
    server.start().await;
    server.probe().put("/registry/pods/a", "theirs").await;
    let last = server.probe().put("/registry/pods/b", "theirs").await;
    server.probe().compact(last).await;
    server.terminate();
    server.move_to(Some(port));
    server.start().await;

    let cut_off = watch.next().await.unwrap_err();
    assert_eq!(cut_off, ReadError::Compacted { requested: seen, floor: Revision::new(last) });
    let snapshot = store.snapshot(Read::Latest).await.unwrap();
    assert_eq!(snapshot.get(b"pods/a").unwrap().value, "theirs");
    let mut watch = store.watch(b"pods/", snapshot.revision()).await.unwrap();
    let revision = put(&store, "pods/c", "ours").await;
    assert_eq!(take(&mut watch, 1).await, [("pods/c".into(), "ours".into(), revision)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_take_turns_at_compacting() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let mut config = server.config();
    config.compaction_interval = Some(std::time::Duration::from_millis(100));
    let one = Etcd::connect(config.clone()).await.unwrap();
    let _two = Etcd::connect(config).await.unwrap();
    let old = put(&one, "pods/a", "old").await;
    put(&one, "pods/a", "new").await;
    eventually("the old revision to be compacted", async || {
        let read = serde_json::json!({ "key": "YQ==", "revision": old.to_string() });
        server.probe().refuses("kv/range", read, "compacted").await
    })
    .await;
    // What we hold in memory stays readable for as long as our own retention says.
    assert_eq!(one.snapshot(Read::At(old)).await.unwrap().get(b"pods/a").unwrap().value, "old");
}

/// Asserts that the store has stopped, serves nothing as the latest and takes nothing, for this reason.
async fn assert_stopped(store: Etcd, reason: &str) {
    let stopped = tokio::time::timeout(crate::etcd_server::PATIENCE, store.stopped()).await.unwrap();
    assert!(stopped.contains(reason), "{stopped}");
    assert_eq!(store.snapshot(Read::Latest).await.unwrap_err(), ReadError::Stopped(Arc::clone(&stopped)));
    let refused = store.commit(Txn::new().put("pods/z", "z", Expect::Any)).await.unwrap_err();
    assert!(matches!(refused, CommitError::Stopped(_)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_restored_from_a_backup_stops_the_store() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    put(&store, "pods/a", "kept").await;
    server.terminate();
    let backup = server.backup();
    server.start().await;
    for n in 0..5 {
        eventually_put(&store, "pods/a", &format!("lost{n}")).await;
    }
    server.kill();
    server.restore(&backup);
    server.start().await;
    assert_stopped(store, "restored from a backup").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_etcd_is_noticed_after_it_has_overtaken_us() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    put(&store, "pods/a", "kept").await;
    server.terminate();
    let backup = server.backup();
    server.start().await;
    eventually_put(&store, "pods/a", "lost").await;
    server.kill();
    server.restore(&backup);
    let port = server.move_to(None);
    server.start().await;
    for _ in 0..5 {
        server.probe().put("/registry/pods/a", "another past").await;
    }
    server.terminate();
    server.move_to(Some(port));
    server.start().await;
    assert_stopped(store, "restored from a backup").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_in_the_same_place_stops_the_store() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    server.kill();
    server.replace_cluster();
    server.start().await;
    for _ in 0..5 {
        server.probe().put("/registry/pods/a", "another past").await;
    }
    assert_stopped(store, "belongs to cluster").await;
}

/// Writes, however often it takes: the first write after a restart may find the old connection closing.
async fn eventually_put(store: &Etcd, key: &str, value: &str) {
    eventually("a write to get through", async || {
        store.commit(Txn::new().put(key, value.to_owned(), Expect::Any)).await.is_ok()
    })
    .await;
}
