//! Values that are sealed: on disk, in etcd, in snapshots, and while keys change.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use tempfile::TempDir;
use windlass_store::{
    Embedded, Etcd, EtcdConfig, Expect, OpenError, Read, Retention, Seal, Store, Txn, conformance::ToySeal,
    tools,
};

use crate::etcd_server::{EtcdServer, eventually};

const PLANTED: &str = "a-value-to-be-found";

fn seal(keys: &[u8]) -> Option<Arc<dyn Seal>> {
    (!keys.is_empty()).then(|| Arc::new(ToySeal::new(keys.iter().copied())) as Arc<dyn Seal>)
}

fn open(directory: &Path, keys: &[u8]) -> Result<Embedded, OpenError> {
    Embedded::open_sealed(directory, Retention::default(), seal(keys))
}

async fn fill(store: &dyn Store) {
    for number in 0..25 {
        let txn =
            Txn::new().put(format!("secrets/default/s-{number}"), format!("{PLANTED}-{number}"), Expect::Any);
        store.commit(txn).await.unwrap();
    }
}

async fn contents(store: &dyn Store) -> BTreeMap<String, String> {
    let snapshot = store.snapshot(Read::Latest).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    snapshot.iter(b"", None).map(|entry| (text(&entry.key), text(&entry.value))).collect()
}

async fn resealed(store: &dyn Store) {
    eventually("everything to be sealed anew", async || store.to_reseal() == 0).await;
}

fn shows(path: &Path) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| shows(&entry.unwrap().path()));
    }
    fs::read(path).unwrap().windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_change_over_restarts_and_nothing_is_lost_or_shown() {
    let home = TempDir::new().unwrap();
    let store = open(home.path(), &[]).unwrap();
    fill(&store).await;
    let before = contents(&store).await;
    store.close().await;
    drop(store);
    assert!(shows(home.path()));
    for keys in [&[1][..], &[2, 1], &[2], &[3, 2], &[3]] {
        let store = open(home.path(), keys).unwrap();
        resealed(&store).await;
        assert_eq!(contents(&store).await, before, "{keys:?}");
        store.close().await;
        drop(store);
        assert!(!shows(home.path()), "{keys:?}");
    }
    let refused = open(home.path(), &[1]).err().expect("the key is gone");
    assert!(refused.to_string().contains("secrets/default/s-"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_need_no_keys_and_show_nothing() {
    let home = TempDir::new().unwrap();
    let (directory, copy) = (home.path().join("store"), home.path().join("copy"));
    let store = open(&directory, &[1]).unwrap();
    fill(&store).await;
    let before = contents(&store).await;
    assert_eq!(tools::stats(&directory).unwrap().keys, 25);
    tools::snapshot(&directory, &home.path().join("snap")).unwrap();
    store.close().await;
    drop(store);
    assert!(tools::check(&directory).unwrap().whole.is_ok());
    assert_eq!(tools::verify_snapshot(&home.path().join("snap")).unwrap().keys, 25);
    tools::restore(&home.path().join("snap"), &copy).unwrap();
    assert!(!shows(home.path()));
    assert_eq!(contents(&open(&copy, &[1]).unwrap()).await, before);
    assert!(matches!(open(&directory, &[2]), Err(OpenError::Sealed(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_etcd_values_are_sealed_and_keys_can_change() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let connect = async |keys: &[u8]| Etcd::connect(EtcdConfig { seal: seal(keys), ..server.config() }).await;
    let store = connect(&[]).await.unwrap();
    fill(&store).await;
    let before = contents(&store).await;
    store.close().await;
    for keys in [&[1][..], &[2, 1], &[2]] {
        let store = connect(keys).await.unwrap();
        resealed(&store).await;
        assert_eq!(contents(&store).await, before, "{keys:?}");
        store.close().await;
        let there = server.probe().list("/registry/secrets/").await;
        assert_eq!(there.len(), 25);
        assert!(there.iter().all(|kv| !kv.value.as_deref().unwrap().contains(PLANTED)), "{keys:?}");
    }
    // It is found when the newest state is loaded, or when the history up to it comes in.
    let error = connect(&[1]).await.err().expect("the key is gone");
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error}: {source}").contains("secrets/default/"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_with_different_current_keys_do_not_undo_each_other() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let connect =
        async |keys: &[u8]| Etcd::connect(EtcdConfig { seal: seal(keys), ..server.config() }).await.unwrap();
    let old = connect(&[1, 2]).await;
    fill(&old).await;
    let new = connect(&[2, 1]).await;
    resealed(&new).await;
    let settled = new.snapshot(Read::Latest).await.unwrap().revision();
    old.commit(Txn::new().put("secrets/default/last", PLANTED, Expect::Any)).await.unwrap();
    assert_eq!(contents(&new).await, contents(&old).await);
    let head = new.snapshot(Read::Latest).await.unwrap().revision();
    assert_eq!(head.get(), settled.get() + 1, "someone has written it anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_comes_in_and_cannot_be_opened_stops_the_store() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let connect =
        async |keys: &[u8]| Etcd::connect(EtcdConfig { seal: seal(keys), ..server.config() }).await.unwrap();
    let (ours, theirs) = (connect(&[1]).await, connect(&[2]).await);
    let _ = theirs.commit(Txn::new().put("secrets/default/foreign", PLANTED, Expect::Any)).await;
    let reason = ours.stopped().await;
    assert!(reason.contains("secrets/default/foreign") && reason.contains("no key 2"), "{reason}");
}
