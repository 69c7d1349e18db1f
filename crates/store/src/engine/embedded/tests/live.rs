//! Reading a store that goes on being written.

use std::sync::Arc;

use super::world::{ManualClock, RETENTION, SIZES};
use crate::{
    Directory, Disk, Expect, Revision, Txn,
    engine::embedded::{Parts, live::LiveDisk, recovery::Recovered},
    seal::Sealer,
};

/// Updates ten keys, forgets all history and rewrites the base: nothing that was there before is needed.
fn turn_over(parts: &mut Parts, round: u64) {
    for idx in 0..10 {
        let txn = Txn::new().put(format!("key-{idx}"), format!("{round:0>400}"), Expect::Any);
        parts.writer.commit([txn].into_iter(), |reply| assert!(reply.is_ok()));
    }
    let head = parts.writer.tables.window().head;
    parts.writer.compact(head).expect("a healthy disk");
    while parts.checkpointer.manifest.oldest_base() < head {
        parts.checkpointer.step().expect("a healthy disk");
    }
}

#[test]
fn what_is_opened_stays_readable_when_all_its_files_are_replaced() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let directory = || Directory::open(home.path()).expect("a temporary directory");
    let disk: Arc<dyn Disk> = Arc::new(directory());
    let mut parts =
        Parts::open(disk.clone(), Arc::new(ManualClock::default()), RETENTION, SIZES, Sealer(None))
            .expect("it opens");
    turn_over(&mut parts, 1);
    let acknowledged = parts.writer.tables.window().head;
    let (pinned, manifest) = LiveDisk::pin(&directory()).expect("nobody writes now");
    let before = disk.list().expect("a directory");
    for round in 2..6 {
        turn_over(&mut parts, round);
    }
    let after = disk.list().expect("a directory");
    assert!(before.iter().filter(|name| *name != "MANIFEST").all(|name| !after.contains(name)), "too gentle");

    let found =
        Recovered::read(&pinned, manifest, true, &Sealer(None)).expect("what was opened is readable").state;
    assert!(found.head >= acknowledged);
    // Every tenth revision ends a round; each key is of the round its revision says.
    for entry in found.live.values() {
        let round = (entry.revision.get() - Revision::FIRST.get()).div_ceil(10);
        assert_eq!(entry.value, format!("{round:0>400}"));
    }
    assert_eq!(found.live.len(), 10);
}
