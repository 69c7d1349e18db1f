//! The tables from inside: how changes are cut, forgotten and counted.

use super::*;

fn rev(number: u64) -> Revision {
    Revision::new(number)
}

fn key(idx: usize) -> Key {
    format!("key-{idx}").into()
}

/// Puts (`Some`) or deletes (`None`) a key over whatever the tables hold.
fn commit(tables: &Tables, revision: u64, idx: usize, value: Option<&'static str>) {
    let (key, value) = (key(idx), value.map(Bytes::from));
    let previous = tables.state().get(&key).cloned();
    let change = State::change(key, value, previous, rev(revision)).expect("it changes something");
    tables.apply(&[change]);
}

fn empty() -> Tables {
    Tables::new(State::empty(Revision::FIRST))
}

#[test]
fn chunks_hold_whole_revisions() {
    let change = |revision| State::change(key(0), Some("x".into()), None, rev(revision)).unwrap();
    let changes: Vec<_> = [2, 2, 2, 3, 4, 4, 5, 6].map(change).into();
    let cut = |size| -> Vec<Vec<u64>> {
        let chunks = chunks_at_revisions(&changes, size);
        chunks.map(|chunk| chunk.iter().map(|change| change.revision.get()).collect()).collect()
    };
    assert_eq!(cut(1), [vec![2, 2, 2], vec![3], vec![4, 4], vec![5], vec![6]]);
    assert_eq!(cut(4), [vec![2, 2, 2, 3], vec![4, 4, 5, 6]]);
    assert_eq!(cut(5), [vec![2, 2, 2, 3, 4, 4], vec![5, 6]]);
    assert_eq!(cut(100).len(), 1);
    assert_eq!(chunks_at_revisions(&[], 1).count(), 0);
}

#[test]
fn forgetting_in_steps_ends_where_forgetting_at_once_does() {
    let tables = empty();
    for number in 2..5 * APPLY_CHUNK as u64 {
        let idx = number as usize % 7;
        let live = tables.state().get(&key(idx)).is_some();
        commit(&tables, number, idx, (number % 3 != 0 || !live).then_some("x"));
    }
    let mut at_once = tables.state().clone();
    for floor in [2, 3, APPLY_CHUNK as u64 + 1, 3 * APPLY_CHUNK as u64, tables.window().head.get()] {
        tables.trim(rev(floor));
        at_once.trim(rev(floor));
        let state = tables.state().clone();
        assert_eq!((state.window(), state.history.len()), (at_once.window(), at_once.history.len()));
        assert_eq!((&state.live, &state.graves), (&at_once.live, &at_once.graves));
    }
    assert_eq!(tables.state().history.len(), 0);
    assert!(tables.state().graves.is_empty(), "what was deleted below the floor leaves no trace");
}

#[test]
fn a_grave_is_kept_for_the_newest_deletion_only() {
    let tables = empty();
    let graves = || tables.state().graves.iter().map(|(_, at)| at.get()).collect::<Vec<_>>();
    commit(&tables, 2, 0, Some("x"));
    commit(&tables, 3, 0, None);
    assert_eq!(graves(), [3]);
    commit(&tables, 4, 0, Some("x"));
    assert_eq!(graves(), []);
    commit(&tables, 5, 0, None);
    tables.trim(rev(3));
    assert_eq!(graves(), [5], "forgetting an older deletion does not open the newer grave");
    tables.trim(rev(5));
    assert_eq!(graves(), []);
}

#[test]
fn live_bytes_are_those_of_the_live_entries() {
    let tables = empty();
    let check = || {
        let counted: u64 = tables.state().live.values().map(|entry| entry.bytes()).sum();
        assert_eq!(tables.state().live_bytes, counted);
        counted
    };
    commit(&tables, 2, 0, Some("value"));
    assert_eq!(check(), 10);
    commit(&tables, 3, 0, Some("longer value"));
    commit(&tables, 4, 1, Some(""));
    assert_eq!(check(), 22);
    commit(&tables, 5, 0, None);
    assert_eq!(check(), 5);
    tables.trim(rev(5));
    assert_eq!(check(), 5);
    let mut loaded = State::empty(rev(9));
    for value in ["first", "second"] {
        loaded.load(Arc::new(Entry { key: key(0), value: value.into(), revision: rev(9) }));
    }
    assert_eq!(loaded.live_bytes, 11);
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_the_head_reaches_it() {
    let tables = Arc::new(empty());
    tables.reached(Revision::FIRST).await;
    let waiting = tokio::spawn({
        let tables = tables.clone();
        async move {
            tables.reached(rev(3)).await;
            tables.window().head
        }
    });
    tokio::task::yield_now().await;
    commit(&tables, 2, 0, Some("x"));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    tables.advance(rev(5));
    assert_eq!(waiting.await.unwrap(), rev(5));
    tables.advance(rev(4));
    assert_eq!(tables.window().head, rev(5), "the head does not go back");
}
