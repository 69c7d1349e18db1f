//! The etcd engine and others: other servers on the same etcd, other users of it, and who is let in.

use std::{sync::Arc, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use serde_json::json;
use windlass_store::{
    CommitError, ConnectError, Delivery, Etcd, EtcdIdentity, EtcdTls, EtcdUser, Expect, Read, ReadError,
    Revision, Store, Txn,
};

use crate::etcd_server::{EtcdServer, ServerTls, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_acknowledges_the_other_reads() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let one = Arc::new(Etcd::connect(server.config()).await.unwrap());
    let two = Arc::new(Etcd::connect(server.config()).await.unwrap());
    // Writes outside the prefix, so that etcd is often ahead of everything the servers are told about.
    let mut elsewhere = server.config();
    elsewhere.prefix = "/elsewhere/".into();
    let elsewhere = Arc::new(Etcd::connect(elsewhere).await.unwrap());
    let mut pairs = tokio::task::JoinSet::new();
    for pair in 0..8 {
        let (mut writer, mut reader) = (one.clone(), two.clone());
        let elsewhere = elsewhere.clone();
        pairs.spawn(async move {
            for n in 0..100 {
                let key = format!("pods/{pair}");
                let revision =
                    writer.commit(Txn::new().put(&*key, n.to_string(), Expect::Any)).await.unwrap();
                if n % 3 == 0 {
                    elsewhere.commit(Txn::new().put(&*key, "noise", Expect::Any)).await.unwrap();
                }
                let snapshot = reader.snapshot(Read::Latest).await.unwrap();
                let found = snapshot.get(key.as_bytes()).expect("an acknowledged write is there");
                assert_eq!((&*found.value, found.revision), (n.to_string().as_bytes(), revision));
                (writer, reader) = (reader, writer);
            }
        });
    }
    while let Some(pair) = pairs.join_next().await {
        pair.unwrap();
    }
    let snapshot = elsewhere.snapshot(Read::Latest).await.unwrap();
    assert_eq!(snapshot.count(b""), 8, "nothing but what was written is seen");
    // Someone who writes to etcd directly is no exception.
    let revision = Revision::new(server.probe().put("/registry/pods/x", "direct").await);
    assert_eq!(two.snapshot(Read::Latest).await.unwrap().get(b"pods/x").unwrap().revision, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_the_latest_share_requests() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let store = Arc::new(Etcd::connect(server.config()).await.unwrap());
    let before = server.probe().n_requests("Range").await;
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..2000 {
        let store = store.clone();
        readers.spawn(async move { store.snapshot(Read::Latest).await.map(|snapshot| snapshot.revision()) });
    }
    while let Some(read) = readers.join_next().await {
        read.unwrap().unwrap();
    }
    let n_requests = server.probe().n_requests("Range").await - before;
    assert!((1..500).contains(&n_requests), "2000 reads took {n_requests} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_what_is_there() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let one = Etcd::connect(server.config()).await.unwrap();
    let two = Etcd::connect(server.config()).await.unwrap();
    let revision = one.commit(Txn::new().put("pods/a", "1", Expect::Absent)).await.unwrap();
    let txn = Txn::new().put("pods/a", "2", Expect::Absent).require("pods/b", Expect::At(revision)).put(
        "pods/c",
        "2",
        Expect::Absent,
    );
    let Err(CommitError::Refused(mismatches)) = two.commit(txn).await else { panic!("refused") };
    assert_eq!(mismatches.len(), 2);
    assert_eq!(mismatches[0].actual.as_ref().unwrap().value, "1");
    assert_eq!(mismatches[0].actual.as_ref().unwrap().revision, revision);
    assert_eq!(mismatches[1].actual, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_what_is_there_when_it_takes_another_request() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    let key = |n: usize| format!("{n:04000}");
    let revision = store.commit(Txn::new().put(key(7), "1", Expect::Absent)).await.unwrap();
    // So large that there is room for the preconditions, but not for reading their keys as well.
    let mut txn = Txn::new().put("pods/a", vec![b'x'; 1_505_000], Expect::Any);
    for n in 0..10 {
        txn = txn.require(key(n), Expect::Absent);
    }
    let Err(CommitError::Refused(mismatches)) = store.commit(txn).await else { panic!("refused") };
    assert_eq!(mismatches.len(), 1);
    assert_eq!(mismatches[0].actual.as_ref().unwrap().revision, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_do_not_answer_are_passed_over() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    let mut config = server.config();
    // Port 1 is nobody's.
    config.endpoints = vec!["http://127.0.0.1:1".into(), server.endpoint(), "http://127.0.0.1:1".into()];
    let store = Etcd::connect(config).await.unwrap();
    let mut watch = store.watch(b"", store.window().head).await.unwrap();
    for n in 0..3 {
        let revision = eventually_put(&store, &format!("pods/{n}")).await;
        let Delivery::Changes(changes) = watch.next().await.unwrap() else { panic!("a change") };
        assert_eq!(changes[0].revision, revision);
        store.snapshot(Read::Latest).await.unwrap();
        server.kill();
        server.start().await;
    }
}

/// Creates a key, however often it takes, and returns the revision at which that was done.
async fn eventually_put(store: &Etcd, key: &str) -> Revision {
    eventually("a write to get through", async || {
        match store.commit(Txn::new().put(key, "1", Expect::Absent)).await {
            // The one before, of which nobody knew, had come through.
            Ok(_) | Err(CommitError::Refused(_)) => true,
            Err(_) => false,
        }
    })
    .await;
    store.snapshot(Read::Latest).await.unwrap().get(key.as_bytes()).unwrap().revision
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_without_effect_get_the_current_revision() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    let written = store.commit(Txn::new().put("pods/a", "1", Expect::Any)).await.unwrap();
    let current = Revision::new(server.probe().put("/elsewhere/a", "1").await);
    for txn in [
        Txn::new(),
        Txn::new().require("pods/a", Expect::At(written)),
        Txn::new().delete("pods/b", Expect::Any),
    ] {
        // The write of the hidden key that an old etcd needs makes a revision of its own.
        assert!(store.commit(txn).await.unwrap() >= current);
        assert!(store.window().head >= current);
    }
    let future = Revision::new(current.get() + 1000);
    assert!(matches!(store.snapshot(Read::At(future)).await, Err(ReadError::Future { .. })));
    assert!(matches!(store.watch(b"", future).await, Err(ReadError::Future { .. })));
    assert!(matches!(store.compact(future).await, Err(ReadError::Future { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_etcd_finds_too_large_are_refused_for_good() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    // Within our own limit, but the keys, which stand in it three times, put it above etcd's.
    let mut txn = Txn::new();
    for n in 0..100 {
        let key = format!("{n:03}{}", "k".repeat(4000));
        txn = txn.put(key, vec![b'x'; 11_000], Expect::Absent);
    }
    let refused = store.commit(txn).await.unwrap_err();
    assert!(matches!(refused, CommitError::TooLarge { .. }), "{refused:?}");
    store.commit(Txn::new().put("pods/a", vec![b'x'; 1_500_000], Expect::Absent)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_while_nobody_listens() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    let mut config = server.config();
    config.request_timeout = Duration::from_millis(500);
    let store = Etcd::connect(config.clone()).await.unwrap();
    server.kill();
    // The first one may go out on the connection that is just breaking.
    eventually("a definite answer", async || {
        let refused = store.commit(Txn::new().put("pods/a", "1", Expect::Any)).await.unwrap_err();
        matches!(refused, CommitError::Unavailable(_))
    })
    .await;
    assert!(matches!(store.snapshot(Read::Latest).await, Err(ReadError::Unavailable(_))));
    assert!(store.snapshot(Read::Seen).await.is_ok());
    let Err(ConnectError::Load { endpoints, .. }) = Etcd::connect(config).await else { panic!("no etcd") };
    assert_eq!(endpoints, server.endpoint());
    server.start().await;
    assert!(store.commit(Txn::new().put("pods/a", "2", Expect::Any)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_watches_and_tasks() {
    let Some(server) = EtcdServer::spawn().await else { return };
    let store = Etcd::connect(server.config()).await.unwrap();
    let mut watch = store.watch(b"", store.window().head).await.unwrap();
    store.close().await;
    assert!(matches!(watch.next().await, Err(ReadError::Stopped(_))));
    assert_eq!(&*store.stopped().await, "closed");
    assert!(matches!(store.commit(Txn::new()).await, Err(CommitError::Stopped(_))));
}

/// Certificates for a server on loopback and one client of it.
fn certificates() -> (ServerTls, EtcdTls) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let sign = |names: &[&str], usages: &[ExtendedKeyUsagePurpose]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = usages.to_vec();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &ca).unwrap().pem(), key.serialize_pem())
    };
    // etcd's gateway is a client of its own server and shows the server's certificate.
    let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let (cert, key) = sign(&["127.0.0.1"], &both);
    let server = ServerTls { ca: ca.pem(), cert, key };
    let (cert, key) = sign(&["windlass"], &both[1..]);
    let identity = EtcdIdentity { cert: cert.into(), key: key.into() };
    (server, EtcdTls { ca: ca.pem().into(), identity: Some(identity) })
}

/// A role that may do everything under the prefix and nothing else, and a user that has it.
async fn enable_authentication(server: &EtcdServer) {
    let probe = server.probe();
    let range =
        json!({ "permType": "READWRITE", "key": "L3JlZ2lzdHJ5Lw==", "range_end": "L3JlZ2lzdHJ5MA==" });
    for (path, request) in [
        ("auth/user/add", json!({ "name": "root", "password": "root-password" })),
        ("auth/user/grant", json!({ "user": "root", "role": "root" })),
        ("auth/role/add", json!({ "name": "registry" })),
        ("auth/role/grant", json!({ "name": "registry", "perm": range })),
        ("auth/user/add", json!({ "name": "windlass", "password": "correct horse" })),
        ("auth/user/grant", json!({ "user": "windlass", "role": "registry" })),
        ("auth/enable", json!({})),
    ] {
        probe.call(path, request).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_passwords_are_asked_for_and_given() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    // The root role is made by hand, as etcd does not make it before authentication is enabled.
    server.probe().call("auth/role/add", json!({ "name": "root" })).await;
    enable_authentication(&server).await;
    server.terminate();
    let (server_tls, client_tls) = certificates();
    server.use_tls(server_tls);
    server.start().await;

    let mut config = server.config();
    config.request_timeout = Duration::from_secs(2);
    config.tls = Some(client_tls.clone());
    config.user = Some(EtcdUser { name: "windlass".into(), password: "correct horse".into() });
    let store = Etcd::connect(config.clone()).await.unwrap();
    let mut watch = store.watch(b"pods/", store.window().head).await.unwrap();
    let revision = store.commit(Txn::new().put("pods/a", "1", Expect::Absent)).await.unwrap();
    let Delivery::Changes(changes) = watch.next().await.unwrap() else { panic!("a change") };
    assert_eq!(changes[0].revision, revision);
    assert_eq!(store.snapshot(Read::Latest).await.unwrap().get(b"pods/a").unwrap().value, "1");

    // A restarted etcd has forgotten its tokens: a new one is fetched without anyone noticing.
    server.terminate();
    server.start().await;
    eventually("a write after the restart", async || {
        store.commit(Txn::new().put("pods/a", "2", Expect::Any)).await.is_ok()
    })
    .await;
    let Delivery::Changes(changes) = watch.next().await.unwrap() else { panic!("a change") };
    assert_eq!(changes[0].current.as_ref().unwrap().value, "2");

    // Without the password, with the wrong one, outside of what the role allows, without a certificate.
    let refused = |config| async move { chain(&Etcd::connect(config).await.err().expect("refused")) };
    let mut wrong = config.clone();
    wrong.user = None;
    // etcd then goes by the name in the certificate, and knows nobody of that name.
    assert!(refused(wrong.clone()).await.contains("permission denied"));
    wrong.user = Some(EtcdUser { name: "windlass".into(), password: "battery staple".into() });
    assert!(refused(wrong).await.contains("authentication failed"));
    let mut elsewhere = config.clone();
    elsewhere.prefix = "/elsewhere/".into();
    assert!(refused(elsewhere).await.contains("permission denied"));
    let mut nobody = config.clone();
    nobody.tls = Some(EtcdTls { identity: None, ..client_tls });
    let refused = refused(nobody).await;
    assert!(refused.contains("cannot load from etcd") && !refused.contains("correct horse"), "{refused}");
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}
