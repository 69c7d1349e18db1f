//! Random choices: keys that crowd around each other's prefixes, transactions that often just hold.

use bytes::Bytes;
use fastrand::Rng;

use super::oracle::Oracle;
use crate::{Expect, Revision, conformance::plan::Plan};

const KEYS: [&[u8]; 24] = [
    b"a",
    b"a\0",
    b"a/",
    b"a/1",
    b"a/2",
    b"a/\xff",
    b"a0",
    b"a\xff",
    b"a\xff\xff",
    b"a\xff/1",
    b"b",
    b"b/x/1",
    b"b/x/2",
    b"b/y/1",
    b"b/y/2",
    b"b0",
    b"\0",
    b"\0\0",
    b"\xff",
    b"\xff\xff",
    b"\xff\xff\x01",
    b"pods/default/web",
    b"pods/default/db",
    b"pods/kube-system/dns",
];

const PREFIXES: [&[u8]; 14] = [
    b"",
    b"a",
    b"a/",
    b"a/1",
    b"a\xff",
    b"b/",
    b"b/x/",
    b"\0",
    b"\xff",
    b"\xff\xff",
    b"pods/",
    b"pods/d",
    b"none",
    b"b0",
];

pub(super) fn key(rng: &mut Rng) -> &'static [u8] {
    KEYS[rng.usize(..KEYS.len())]
}

pub(super) fn prefix(rng: &mut Rng) -> &'static [u8] {
    PREFIXES[rng.usize(..PREFIXES.len())]
}

/// A revision in or around the window.
pub(super) fn revision(rng: &mut Rng, floor: Revision, head: Revision) -> Revision {
    let (floor, head) = (floor.get(), head.get());
    Revision::new(match rng.u8(..20) {
        0 => rng.u64(floor.saturating_sub(50)..=floor),
        1 => head + rng.u64(1..5),
        2 | 3 => floor,
        4..7 => head,
        7..12 => rng.u64(head.saturating_sub(20).max(floor)..=head),
        _ => rng.u64(floor..=head),
    })
}

/// A well-formed transaction: mostly small, mostly without preconditions, and these mostly true.
pub(super) fn plan(rng: &mut Rng, oracle: &Oracle, max_value: usize) -> Plan {
    let mut keys = KEYS;
    rng.shuffle(&mut keys);
    let n_changes = match rng.u8(..40) {
        0 => 0,
        1 => rng.usize(1..=KEYS.len()),
        2..10 => rng.usize(2..5),
        _ => 1,
    };
    let mut plan = Plan::default();
    for key in &keys[..n_changes] {
        let value = (rng.u8(..4) > 0).then(|| value(rng, max_value));
        plan.changes.push((key.to_vec(), value));
    }
    let n_checks = if rng.bool() { 0 } else { rng.usize(0..3) };
    for key in &keys[n_changes.saturating_sub(n_checks)..][..n_checks] {
        plan.checks.insert(key.to_vec(), expect(rng, oracle, key));
    }
    plan
}

fn value(rng: &mut Rng, max: usize) -> Bytes {
    let len = match rng.u8(..8) {
        0 => 0,
        1 => rng.usize(..=max),
        _ => rng.usize(..=max.min(16)),
    };
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}

fn expect(rng: &mut Rng, oracle: &Oracle, key: &[u8]) -> Expect {
    match (rng.u8(..8), oracle.get(key, oracle.head())) {
        (0, _) => Expect::Absent,
        (1, _) => Expect::At(Revision::new(rng.u64(..=oracle.head().get() + 1))),
        (_, Some((revision, _))) => Expect::At(revision),
        (_, None) => Expect::Absent,
    }
}
