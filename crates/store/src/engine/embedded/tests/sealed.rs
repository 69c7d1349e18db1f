//! What is on the disk of a sealed store, and what happens when its keys change.

use std::sync::Arc;

use super::world::{ManualClock, RETENTION, SIZES};
use crate::{
    Disk, Expect, Txn,
    conformance::ToySeal,
    engine::embedded::{OpenError, Parts},
    seal::Sealer,
    sim::SimDisk,
};

const PLANTED: &[u8] = b"a-value-to-be-found";

fn open(disk: &SimDisk, keys: &[u8]) -> Result<Parts, OpenError> {
    let sealer = match keys {
        [] => Sealer(None),
        keys => Sealer(Some(Arc::new(ToySeal::new(keys.iter().copied())))),
    };
    let disk = Arc::new(disk.clone()) as Arc<dyn Disk>;
    Parts::open(disk, Arc::new(ManualClock::default()), RETENTION, SIZES, sealer)
}

fn put(parts: &mut Parts, name: usize) {
    let value = [PLANTED, &name.to_string().into_bytes()].concat();
    let txn = Txn::new().put(format!("secrets/default/s-{name:02}"), value, Expect::Any);
    parts.writer.commit([txn].into_iter(), |reply| assert!(reply.is_ok()));
}

fn check(parts: &Parts, n_values: usize) {
    let state = parts.writer.tables.state();
    assert_eq!(state.live.len(), n_values);
    assert!(state.live.values().all(|entry| entry.value.starts_with(PLANTED)));
}

/// Whether any file holds the value as it is.
fn shows(disk: &SimDisk) -> bool {
    disk.list().expect("a healthy disk").iter().any(|name| {
        let file = disk.open(name).expect("a file");
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_at(&mut bytes, 0).expect("its bytes");
        bytes.windows(PLANTED.len()).any(|window| window == PLANTED)
    })
}

fn finish_resealing(parts: &mut Parts) {
    let mut n_steps = 0;
    while parts.checkpointer.reseal.until.is_some() {
        parts.checkpointer.step_if_due().expect("a healthy disk");
        n_steps += 1;
        assert!(n_steps < 1000, "it does not come to an end");
    }
}

#[test]
fn sealed_values_are_nowhere_on_the_disk() {
    let disk = SimDisk::default();
    let mut parts = open(&disk, &[1]).expect("it opens");
    for name in 0..40 {
        put(&mut parts, name);
        if name % 10 == 9 {
            parts.checkpointer.step().expect("a healthy disk");
        }
    }
    assert!(!shows(&disk));
    drop(parts);
    let parts = open(&disk, &[1]).expect("it opens again");
    assert!(parts.checkpointer.reseal.until.is_none(), "nothing is to be done");
    check(&parts, 40);
}

#[test]
fn a_plain_store_is_sealed_at_the_next_start_and_nothing_plain_is_left() {
    let disk = SimDisk::default();
    let mut parts = open(&disk, &[]).expect("it opens");
    for name in 0..40 {
        put(&mut parts, name);
        if name == 20 {
            parts.checkpointer.step().expect("a healthy disk");
        }
    }
    assert!(shows(&disk));
    drop(parts);
    // It is cut off in the middle, and taken up by the next start.
    let mut parts = open(&disk, &[1]).expect("it opens");
    check(&parts, 40);
    parts.checkpointer.step_if_due().expect("a healthy disk");
    drop(parts);
    let mut parts = open(&disk, &[1]).expect("it opens");
    finish_resealing(&mut parts);
    assert!(!shows(&disk), "plain values are left");
    check(&parts, 40);
}

#[test]
fn an_old_key_can_be_taken_away_once_the_store_is_sealed_with_the_new_one() {
    let disk = SimDisk::default();
    let mut parts = open(&disk, &[1]).expect("it opens");
    (0..30).for_each(|name| put(&mut parts, name));
    drop(parts);
    let mut parts = open(&disk, &[2, 1]).expect("it opens with both");
    (30..40).for_each(|name| put(&mut parts, name));
    assert!(parts.checkpointer.reseal.until.is_some());
    finish_resealing(&mut parts);
    drop(parts);
    let parts = open(&disk, &[2]).expect("the old key is not needed");
    check(&parts, 40);
    drop(parts);
    // Once more, with nothing written meanwhile.
    finish_resealing(&mut open(&disk, &[3, 2]).expect("it opens with both"));
    check(&open(&disk, &[3]).expect("the old key is not needed"), 40);
}

#[test]
fn without_its_key_a_store_does_not_open_and_says_what_it_could_not_read() {
    let disk = SimDisk::default();
    let mut parts = open(&disk, &[1]).expect("it opens");
    put(&mut parts, 7);
    // In the log first, in a part then.
    for _ in 0..2 {
        match open(&SimDisk::from_image(disk.image()), &[2]).err() {
            Some(OpenError::Sealed(error)) => {
                assert_eq!(error.key.to_string(), "secrets/default/s-07");
                assert_eq!(error.source.to_string(), "there is no key 1");
            }
            other => panic!("{other:?}"),
        }
        let head = parts.writer.tables.window().head;
        parts.writer.compact(head).expect("a healthy disk");
        parts.checkpointer.step().expect("a healthy disk");
    }
}
