//! A watcher: takes a first state, watches from there, drops off at random and resumes where it was.

use std::sync::Arc;

use futures_util::StreamExt;
use serde::Deserialize;
use windlass_e2e::Raw;

use super::{
    N_WRITERS,
    model::{Kind, Object, Pace, Selection, State, Told, Watched},
};

const PLAIN: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// A line of a watch.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

impl Line {
    fn of(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in the line {text}"))
    }

    fn revision(&self) -> u64 {
        self.object.metadata.resource_version.parse().expect("a number")
    }
}

/// One in eight watches everything; the others are of every narrower kind.
fn selection(idx: usize) -> Selection {
    match idx % 8 {
        0 => Selection::All,
        1 => Selection::Left,
        2..=4 => Selection::Namespace(idx / 8),
        5 | 6 => Selection::NamespaceLeft(idx / 8),
        _ => Selection::One((idx % N_WRITERS, 0)),
    }
}

/// Watches until nothing more will come.
pub(super) async fn watch(raw: Raw, idx: usize, pace: Arc<Pace>) -> Watched {
    let mut rng = fastrand::Rng::with_seed(1000 + idx as u64);
    let selection = selection(idx);
    let accept = [PLAIN, PLAIN, METADATA, TABLE][idx / 8 % 4];
    // Some begin with a list, some with a stream; and some begin late.
    pace.until_made_more(rng.u64(0..100)).await;
    let (first, from) = match idx % 3 {
        0 => stream(&raw, &selection, accept).await,
        _ => list(&raw, &selection).await,
    };
    let mut watched = Watched { selection, first, from, events: vec![], n_watches: 0 };
    let mut reached = from;
    pace.note_reached(idx, reached);
    while !pace.is_last(reached) {
        let timeout = rng.u8(1..4);
        let query =
            format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={timeout}&resourceVersion={reached}");
        // While the server is away there is nothing to do but to ask again.
        let Ok(mut lines) = raw.watch(&watched.selection.path(&query), accept).await else { continue };
        watched.n_watches += 1;
        let mut stay = rng.u32(1..2000);
        while stay > 0
            && let Some(Ok(text)) = lines.next().await
        {
            stay -= 1;
            let line = Line::of(&text);
            let kind = match line.kind.as_str() {
                "ADDED" => Kind::Added,
                "MODIFIED" => Kind::Modified,
                "DELETED" => Kind::Deleted,
                "BOOKMARK" => {
                    let revision = line.revision();
                    assert!(
                        revision >= reached,
                        "{:?}: a bookmark at {revision} after {reached}",
                        watched.selection
                    );
                    reached = revision;
                    pace.note_reached(idx, reached);
                    continue;
                }
                other => panic!("{:?}: {other}: {}", watched.selection, line.object.message),
            };
            let (key, (n, revision)) = Object::of(line.object).expect("only our objects are selected");
            watched.events.push(Told { kind, key, n, revision });
            reached = revision;
            pace.note_reached(idx, reached);
        }
        drop(lines);
        if rng.u8(0..4) == 0 {
            pace.until_made_more(rng.u64(0..300)).await;
        }
    }
    watched
}

/// The first state as a list gives it.
async fn list(raw: &Raw, selection: &Selection) -> (State, u64) {
    loop {
        let Ok(answer) = raw.get(&selection.path("")).await else { continue };
        let body: List = serde_json::from_value(answer.body).expect("a list");
        let from = body.metadata.resource_version.parse().expect("a number");
        return (body.items.into_iter().filter_map(Object::of).collect(), from);
    }
}

#[derive(Deserialize)]
struct List {
    metadata: super::model::Metadata,
    items: Vec<Object>,
}

/// The first state as a watch gives it that is asked to begin with everything.
async fn stream(raw: &Raw, selection: &Selection, accept: &str) -> (State, u64) {
    let query = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    'anew: loop {
        let mut state = State::new();
        let Ok(mut lines) = raw.watch(&selection.path(query), accept).await else { continue };
        loop {
            let Some(Ok(text)) = lines.next().await else { continue 'anew };
            let line = Line::of(&text);
            if line.kind == "BOOKMARK" {
                let mark = line.object.metadata.annotations.get("k8s.io/initial-events-end");
                assert_eq!(mark.map(String::as_str), Some("true"), "{text}");
                return (state, line.revision());
            }
            assert_eq!(line.kind, "ADDED", "{text}");
            state.extend(Object::of(line.object));
        }
    }
}
