//! The etcd engine survives its server being killed, paused and restarted under load: no acknowledged write is
//! lost, and watchers see every change once and in order.
//!
//! Two servers share an etcd. Writers keep a ledger of what they were told; watchers write down what they are
//! given; readers compare what they read with what had been acknowledged. At the end everything is held
//! against etcd's own history, read another way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;
use windlass_store::{
    Change, CommitError, Delivery, Entry, Etcd, Expect, Read, ReadError, Revision, Store, Txn, Watch,
};

use crate::{
    etcd_probe::Told,
    etcd_server::{EtcdServer, PATIENCE, eventually},
};

const PREFIX: &str = "/registry/";
const N_WRITERS: usize = 4;
const KEYS_PER_WRITER: usize = 5;

/// Writes that have to get through between two faults, so that each hits a busy server.
const WRITES_BETWEEN_FAULTS: u64 = 200;

/// What became of one write. Values are unique, so a value stands for the write.
#[derive(Debug)]
enum Outcome {
    Acknowledged(Revision),
    Unknown,
    NotWritten,
}

/// What all tasks of the test share.
struct Run {
    stores: [Etcd; 2],
    ledger: Mutex<BTreeMap<String, Outcome>>,
    n_acknowledged: AtomicU64,
    n_unknown: AtomicU64,
    /// Reads of the latest that had to be given up.
    n_unavailable: AtomicU64,
    n_latest: AtomicU64,
    newest_acknowledged: AtomicU64,
    done: AtomicBool,
}

impl Run {
    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    fn record(&self, values: &[String], outcome: impl Fn() -> Outcome) {
        match outcome() {
            Outcome::Acknowledged(revision) => {
                self.newest_acknowledged.fetch_max(revision.get(), Ordering::SeqCst);
                self.n_acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Outcome::Unknown => {
                self.n_unknown.fetch_add(1, Ordering::SeqCst);
            }
            Outcome::NotWritten => {}
        }
        let mut ledger = self.ledger.lock().unwrap();
        ledger.extend(values.iter().map(|value| (value.clone(), outcome())));
    }

    /// Waits until this many more writes have been acknowledged.
    async fn more_writes(&self, n_writes: u64) {
        let goal = self.n_acknowledged.load(Ordering::SeqCst) + n_writes;
        eventually("writes to go on", async || self.n_acknowledged.load(Ordering::SeqCst) >= goal).await;
    }

    /// Waits until someone has written without learning the outcome, and reads were given up so often.
    async fn more_silence(&self, n_reads: u64) {
        let goals = [(&self.n_unknown, 1), (&self.n_unavailable, n_reads)]
            .map(|(counter, more)| (counter, counter.load(Ordering::SeqCst) + more));
        eventually("requests to be given up", async || {
            goals.iter().all(|(counter, goal)| counter.load(Ordering::SeqCst) >= *goal)
        })
        .await;
    }
}

/// Writes to keys that are this writer's alone, one or two at a time, always knowing what it expects.
async fn write(run: Arc<Run>, writer: usize) {
    let store = &run.stores[writer % 2];
    // What the writer believes to be there.
    let mut there: [Option<Revision>; KEYS_PER_WRITER] = [None; KEYS_PER_WRITER];
    for n in 0.. {
        if run.is_done() {
            return;
        }
        let idx = n % KEYS_PER_WRITER;
        let also = (n % 3 == 0).then_some((idx + 1) % KEYS_PER_WRITER);
        let deletes = n % 7 == 0 && there[idx].is_some();
        let touched: Vec<usize> = [idx].into_iter().chain(also).collect();
        let mut txn = Txn::new();
        let mut values = Vec::new();
        for &idx in &touched {
            let expect = there[idx].map_or(Expect::Absent, Expect::At);
            if deletes {
                txn = txn.delete(key(writer, idx), expect);
            } else {
                values.push(format!("{writer}:{n}:{idx}"));
                txn = txn.put(key(writer, idx), values[values.len() - 1].clone(), expect);
            }
        }
        match store.commit(txn).await {
            Ok(revision) => {
                run.record(&values, || Outcome::Acknowledged(revision));
                touched.iter().for_each(|&idx| there[idx] = (!deletes).then_some(revision));
                continue;
            }
            Err(CommitError::Unknown(_)) => run.record(&values, || Outcome::Unknown),
            Err(CommitError::Unavailable(_)) => run.record(&values, || Outcome::NotWritten),
            Err(CommitError::Refused(mismatches)) => {
                run.record(&values, || Outcome::NotWritten);
                // Nobody else writes here: only a write of unknown outcome can have come in between.
                for mismatch in mismatches {
                    assert_left_behind(&run, mismatch.actual.as_deref());
                }
            }
            Err(error) => panic!("{error}"),
        }
        match read_back(&run, store, writer).await {
            Some(found) => there = found,
            None => return,
        }
    }
}

/// Checks that an entry a writer did not expect comes from a write whose outcome nobody knew.
fn assert_left_behind(run: &Run, found: Option<&Entry>) {
    // A deletion of unknown outcome leaves nothing to look up.
    let Some(found) = found else { return assert!(run.n_unknown.load(Ordering::SeqCst) > 0) };
    let value = String::from_utf8(found.value.to_vec()).unwrap();
    let ledger = run.ledger.lock().unwrap();
    assert!(matches!(ledger.get(&value), Some(Outcome::Unknown)), "{value}: {:?}", ledger.get(&value));
}

/// What is there of a writer's keys; `None` when the test ended first.
async fn read_back(run: &Run, store: &Etcd, writer: usize) -> Option<[Option<Revision>; KEYS_PER_WRITER]> {
    while !run.is_done() {
        match store.snapshot(Read::Latest).await {
            Ok(snapshot) => {
                let at = |idx| snapshot.get(key(writer, idx).as_bytes()).map(|entry| entry.revision);
                return Some(std::array::from_fn(at));
            }
            Err(ReadError::Unavailable(_)) => {
                run.n_unavailable.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
    None
}

fn key(writer: usize, idx: usize) -> String {
    format!("writers/{writer}/{idx}")
}

/// Reads the latest through one server and checks that it holds what was acknowledged through either.
async fn read(run: Arc<Run>, store: usize) {
    while !run.is_done() {
        let acknowledged = run.newest_acknowledged.load(Ordering::SeqCst);
        match run.stores[store].snapshot(Read::Latest).await {
            Ok(snapshot) => {
                assert!(snapshot.revision().get() >= acknowledged);
                run.n_latest.fetch_add(1, Ordering::SeqCst);
            }
            Err(ReadError::Unavailable(_)) => {
                run.n_unavailable.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writes down every delivery until `end` has been delivered.
async fn follow(mut watch: Watch, end: Arc<AtomicU64>) -> Vec<Vec<Arc<Change>>> {
    let mut deliveries = Vec::new();
    loop {
        match watch.next().await.unwrap() {
            Delivery::Changes(changes) => deliveries.push(changes),
            Delivery::Progress(revision) => {
                let end = end.load(Ordering::SeqCst);
                if end > 0 && revision.get() >= end {
                    return deliveries;
                }
            }
        }
    }
}

/// Checks what a watcher was given against etcd's own history.
fn assert_saw_everything(prefix: &str, deliveries: &[Vec<Arc<Change>>], history: &[Told]) {
    for pair in deliveries.windows(2) {
        let (last, first) = (pair[0].last().unwrap(), pair[1].first().unwrap());
        assert!(last.revision < first.revision, "revision {} was split or repeated", first.revision);
    }
    let outer = format!("{PREFIX}{prefix}");
    let mut versions: BTreeMap<&str, Option<Revision>> = BTreeMap::new();
    let mut changes = deliveries.iter().flatten();
    for told in history.iter().filter(|told| told.key.starts_with(&outer)) {
        let change = changes.next().expect("every change is delivered");
        assert_eq!(
            (change.revision.get(), &*change.key.to_string()),
            (told.revision, &told.key[PREFIX.len()..])
        );
        let value = change.current.as_ref().map(|entry| entry.value.to_vec());
        assert_eq!(value.as_deref(), told.value.as_ref().map(String::as_bytes));
        let previous = versions.insert(&told.key, told.value.as_ref().map(|_| change.revision)).flatten();
        assert_eq!(change.previous.as_ref().map(|entry| entry.revision), previous);
    }
    assert_eq!(changes.next(), None, "nothing else is delivered");
}

/// Checks the ledger against etcd's own history.
fn assert_nothing_lost(run: &Run, history: &[Told]) {
    let written: BTreeMap<&str, u64> = history
        .iter()
        .filter(|told| told.key.starts_with("/registry/writers/"))
        .filter_map(|told| Some((told.value.as_deref()?, told.revision)))
        .collect();
    let ledger = run.ledger.lock().unwrap();
    for (value, outcome) in &*ledger {
        let found = written.get(value.as_str());
        match outcome {
            Outcome::Acknowledged(revision) => assert_eq!(found, Some(&revision.get()), "{value}"),
            Outcome::NotWritten => assert_eq!(found, None, "{value}"),
            Outcome::Unknown => {}
        }
    }
    let known: BTreeSet<&str> = ledger.keys().map(String::as_str).collect();
    assert!(written.keys().all(|value| known.contains(value)), "nothing comes from nowhere");
}

/// Mistreats the server in every way, with load before, during and after.
async fn torment(server: &mut EtcdServer, run: &Run) {
    for round in 0..2 {
        run.more_writes(WRITES_BETWEEN_FAULTS).await;
        server.kill();
        server.start().await;
        run.more_writes(WRITES_BETWEEN_FAULTS).await;
        server.pause();
        // Six readers give up once a second, so the second pause is long enough for a connection to be given up.
        run.more_silence([6, 72][round]).await;
        server.resume();
        run.more_writes(WRITES_BETWEEN_FAULTS).await;
        server.terminate();
        server.start().await;
        run.more_writes(WRITES_BETWEEN_FAULTS).await;
        // Killed while paused: what was under way is never answered.
        server.pause();
        run.more_silence(1).await;
        server.kill();
        server.start().await;
    }
    run.more_writes(WRITES_BETWEEN_FAULTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_acknowledged_write_is_lost_and_watchers_see_every_change_once_and_in_order() {
    let Some(mut server) = EtcdServer::spawn().await else { return };
    let mut config = server.config();
    config.request_timeout = Duration::from_secs(1);
    let stores = [Etcd::connect(config.clone()).await.unwrap(), Etcd::connect(config).await.unwrap()];
    let run = Arc::new(Run {
        stores,
        ledger: Mutex::default(),
        n_acknowledged: AtomicU64::new(0),
        n_unknown: AtomicU64::new(0),
        n_unavailable: AtomicU64::new(0),
        n_latest: AtomicU64::new(0),
        newest_acknowledged: AtomicU64::new(0),
        done: AtomicBool::new(false),
    });
    let end = Arc::new(AtomicU64::new(0));
    let mut watchers = Vec::new();
    for (store, prefix) in [(0, ""), (1, ""), (0, "writers/1/"), (1, "writers/2/3")] {
        let store = &run.stores[store];
        let watch = store.watch(prefix.as_bytes(), store.window().floor).await.unwrap();
        let following = follow(watch.with_progress(Duration::from_millis(50)), end.clone());
        watchers.push((prefix, tokio::spawn(following)));
    }
    let mut load = JoinSet::new();
    for writer in 0..N_WRITERS {
        load.spawn(write(run.clone(), writer));
    }
    for store in 0..2 {
        load.spawn(read(run.clone(), store));
    }

    torment(&mut server, &run).await;
    run.done.store(true, Ordering::SeqCst);
    while let Some(ended) = load.join_next().await {
        ended.unwrap();
    }

    let history = server.probe().history(PREFIX).await;
    let history: Vec<Told> =
        history.into_iter().filter(|told| !told.key.starts_with("/registry/\0")).collect();
    assert_nothing_lost(&run, &history);
    let last = history.last().unwrap().revision;
    let listed = server.probe().list("/registry/writers/").await;
    for store in &run.stores {
        let snapshot = store.snapshot(Read::Latest).await.unwrap();
        let found = snapshot.iter(b"writers/", None).map(|entry| Told {
            key: format!("{PREFIX}{}", entry.key),
            value: Some(String::from_utf8(entry.value.to_vec()).unwrap()),
            revision: entry.revision.get(),
        });
        assert_eq!(found.collect::<Vec<_>>(), listed);
    }
    for store in &run.stores {
        let past = store.snapshot(Read::At(store.window().floor)).await.unwrap();
        assert_saw_everything("", &[past.changes().cloned().collect()], &history);
    }
    end.store(last, Ordering::SeqCst);
    for (prefix, watcher) in watchers {
        let deliveries = tokio::time::timeout(PATIENCE, watcher).await.unwrap().unwrap();
        assert_saw_everything(prefix, &deliveries, &history);
    }
    println!(
        "{} writes acknowledged, {} unknown, {} latest reads, {} changes in etcd's history",
        run.n_acknowledged.load(Ordering::SeqCst),
        run.n_unknown.load(Ordering::SeqCst),
        run.n_latest.load(Ordering::SeqCst),
        history.len(),
    );
}
