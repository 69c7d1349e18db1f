//! kill -9 under load, again and again, with a ledger of what was acknowledged.
//!
//! The child is this test binary itself, started with [`DIRECTORY`] set: it opens the store, tells us of every
//! write before it sends it and after it was acknowledged, and is killed at a random moment. Nothing that was
//! acknowledged may be missing afterwards, nothing may be there that was not sent, no revision may repeat.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use windlass_store::{Embedded, Expect, Read, Retention, Snapshot, Store, Txn};

const DIRECTORY: &str = "WINDLASS_KILL_DIRECTORY";
const ROUND: &str = "WINDLASS_KILL_ROUND";

const WRITERS: u64 = 8;
const KEYS: u64 = 20;

/// How often the child is killed; `WINDLASS_KILLS` sets it.
fn rounds() -> u64 {
    std::env::var("WINDLASS_KILLS").map_or(100, |rounds| rounds.parse().expect("WINDLASS_KILLS is a number"))
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut random = fastrand::Rng::with_seed(7);
    let mut ledger = Ledger::default();
    for round in 0..rounds() {
        let mut child = spawn(directory.path(), round);
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        // One kill in five hits the start, where the child recovers from the kill before.
        let millis = if random.u8(..5) == 0 { random.u64(0..20) } else { random.u64(5..500) };
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(millis));
            child.kill().expect("the child is there to be killed");
            child.wait().expect("it ends");
        });
        for line in output.lines() {
            ledger.note(&line.expect("text"));
        }
        killer.join().expect("the killer does not fail");
        // Every other time the next child recovers by itself, without us having been there.
        if random.bool() || round + 1 == rounds() {
            ledger.verify(directory.path(), round);
        }
    }
    assert!(ledger.acknowledged.len() as u64 > rounds(), "the load was too small to mean anything");
    println!("{} kills, {} acknowledged writes, nothing lost", rounds(), ledger.acknowledged.len());
}

fn spawn(directory: &Path, round: u64) -> Child {
    Command::new(std::env::current_exe().expect("we are running"))
        .args(["--exact", "kill::child", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts")
}

#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let round: u64 = std::env::var(ROUND).expect("set with the directory").parse().expect("a number");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store =
            Arc::new(Embedded::open(Path::new(&directory), Retention::default()).expect("the store opens"));
        let next = Arc::new(AtomicU64::new(round << 32));
        let writers: Vec<_> =
            (0..WRITERS).map(|seed| tokio::spawn(write(store.clone(), next.clone(), seed))).collect();
        for writer in writers {
            writer.await.expect("writers go on until they are killed");
        }
    });
}

/// Writes for ever: each value is the number of its write, padded to about a kilobyte.
async fn write(store: Arc<Embedded>, next: Arc<AtomicU64>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let key = format!("key-{}", random.u64(..KEYS));
        let is_delete = random.u8(..10) == 0;
        tell(&format!("send {number} {key} {is_delete}\n"));
        let txn = match is_delete {
            true => Txn::new().delete(key.as_str(), Expect::Any),
            false => Txn::new().put(key.as_str(), format!("{number:0>1000}"), Expect::Any),
        };
        let revision = store.commit(txn).await.expect("a healthy disk");
        tell(&format!("done {number} {revision}\n"));
    }
}

/// In one write, so that a kill cannot tear a line that others complete.
fn tell(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
    std::io::stdout().lock().flush().expect("the parent listens");
}

#[derive(Default)]
struct Ledger {
    /// Number of the write → key, and whether it deletes.
    sent: HashMap<u64, (String, bool)>,
    /// Revision → number of the write.
    acknowledged: BTreeMap<u64, u64>,
    newest: u64,
}

impl Ledger {
    fn note(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["send", number, key, is_delete] => {
                let number = number.parse().expect("a number");
                self.sent.insert(number, (key.into(), is_delete == "true"));
            }
            ["done", number, revision] => {
                let (number, revision) =
                    (number.parse().expect("a number"), revision.parse().expect("a number"));
                // A delete of what is not there makes no revision of its own.
                if !self.sent[&number].1 {
                    let before = self.acknowledged.insert(revision, number);
                    assert_eq!(before, None, "revision {revision} was given out twice");
                }
                self.newest = self.newest.max(revision);
            }
            _ => {}
        }
    }

    fn verify(&self, directory: &Path, round: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let store = Embedded::open(directory, Retention::default())
                .unwrap_or_else(|error| panic!("after kill {round} the store does not open: {error}"));
            let window = store.window();
            assert!(
                window.head.get() >= self.newest,
                "acknowledged {}, recovered {}",
                self.newest,
                window.head
            );
            let base = store.snapshot(Read::At(window.floor)).await.expect("the floor is readable");
            self.verify_history(&base);
            let latest = store.snapshot(Read::Latest).await.expect("the head is readable");
            for entry in latest.iter(b"", None) {
                self.expect_sent(&entry.key, &entry.value);
            }
        });
    }

    /// Every acknowledged write since `base` is there, at its revision, with its value.
    fn verify_history(&self, base: &Snapshot) {
        let mut by_revision = HashMap::new();
        for change in base.changes() {
            let before = by_revision.insert(change.revision.get(), change);
            assert!(before.is_none(), "revision {} stands twice", change.revision);
            if let Some(entry) = &change.current {
                self.expect_sent(&entry.key, &entry.value);
            }
        }
        for (revision, number) in self.acknowledged.range(base.revision().get() + 1..) {
            let change = by_revision
                .get(revision)
                .unwrap_or_else(|| panic!("write {number}, acknowledged at revision {revision}, is lost"));
            assert_eq!(*change.key, *self.sent[number].0.as_bytes());
            let value = change.current.as_ref().map(|entry| number_of(&entry.value));
            assert_eq!(value, Some(*number), "revision {revision} has another value");
        }
    }

    fn expect_sent(&self, key: &[u8], value: &[u8]) {
        let number = number_of(value);
        let (sent_key, is_delete) =
            self.sent.get(&number).unwrap_or_else(|| panic!("nobody sent write {number}"));
        assert_eq!((sent_key.as_bytes(), *is_delete), (key, false));
    }
}

fn number_of(value: &[u8]) -> u64 {
    std::str::from_utf8(value).expect("digits").parse().expect("a number")
}
