//! What the writer forgets, and when.

use super::*;

const KIB: u64 = 1 << 10;

fn keep(min_age_secs: u64, min_changes: usize, max_bytes: u64) -> Retention {
    Retention { min_age: Duration::from_secs(min_age_secs), min_changes, max_bytes }
}

fn rev(number: u64) -> Revision {
    Revision::new(number)
}

#[test]
fn a_batch_is_as_young_as_its_youngest_change() {
    let mut ages = Ages::default();
    ages.push(rev(2), 0, 1, 1);
    ages.push(rev(3), 900, 1, 1);
    ages.push(rev(4), 5000, 1, 1);
    let keep = keep(10, 0, u64::MAX);
    assert_eq!(ages.trim(&keep, 0, 10_500), None);
    assert_eq!(ages.trim(&keep, 0, 10_901), Some(rev(3)));
}

#[test]
fn what_is_old_stays_while_it_is_among_the_newest() {
    let mut ages = Ages::default();
    for idx in 0..5 {
        ages.push(rev(2 + idx), idx * MERGE_MILLIS, 10, 1);
    }
    let much_later = 1_000_000;
    assert_eq!(ages.trim(&keep(1, 41, u64::MAX), 0, much_later), None);
    assert_eq!(ages.trim(&keep(1, 25, u64::MAX), 0, much_later), Some(rev(3)));
    assert_eq!(ages.trim(&keep(1, 0, u64::MAX), 0, much_later), Some(rev(5)), "the newest batch stays");
}

#[test]
fn bytes_overrule_age_and_number_but_grow_with_what_is_live() {
    let mut ages = Ages::default();
    for idx in 0..4 {
        ages.push(rev(2 + idx), 0, 1, MERGE_BYTES);
    }
    let keep = keep(1000, 1000, 2 * MERGE_BYTES);
    assert_eq!(ages.trim(&keep, 4 * MERGE_BYTES, 0), None);
    assert_eq!(ages.trim(&keep, 3 * MERGE_BYTES, 0), Some(rev(2)));
    assert_eq!(ages.trim(&keep, 0, 0), Some(rev(3)));
    assert_eq!(ages.bytes, 2 * MERGE_BYTES);
}

#[test]
fn a_clock_that_goes_back_forgets_nothing_early() {
    let mut ages = Ages::default();
    ages.push(rev(2), 100_000, 1, 1);
    ages.push(rev(3), 0, 1, 1);
    ages.push(rev(4), 0, 1, 1);
    assert_eq!(ages.trim(&keep(10, 0, u64::MAX), 0, 50_000), None);
    assert_eq!(ages.trim(&keep(10, 0, u64::MAX), 0, 110_001), Some(rev(2)));
}

#[test]
fn compaction_drops_whole_batches_from_the_account() {
    let mut ages = Ages::default();
    ages.push(rev(2), 0, 1, 60 * KIB);
    ages.push(rev(5), 0, 3, 60 * KIB);
    ages.push(rev(6), 0, 1, 60 * KIB);
    ages.drop_through(rev(4));
    assert_eq!((ages.bytes, ages.changes), (120 * KIB, 4));
    ages.drop_through(rev(6));
    assert_eq!((ages.bytes, ages.changes), (0, 0));
}

/// A history of these revisions, one change each.
fn history(revisions: &[u64]) -> History {
    let mut history = History::default();
    for &revision in revisions {
        let change =
            Change { key: "key".into(), revision: Revision::new(revision), current: None, previous: None };
        history.push(Arc::new(change), None);
    }
    history
}

#[test]
fn the_first_change_after_a_revision_is_found_with_gaps_and_repeats() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..500 {
        let mut revisions: Vec<u64> = (0..random.usize(..60)).map(|_| random.u64(5..90)).collect();
        revisions.sort_unstable();
        let history = history(&revisions);
        for revision in 0..100 {
            let expected = revisions.partition_point(|&other| other <= revision);
            assert_eq!(history.first_after(Revision::new(revision)), expected, "{revision} in {revisions:?}");
        }
    }
}
