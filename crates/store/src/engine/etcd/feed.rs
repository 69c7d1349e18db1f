//! The feed: one watch on the whole prefix that keeps the tables up with etcd.
//!
//! Nothing else writes to the tables, not even our own commits: their changes come back through the watch like
//! everyone's, in etcd's order. The feed applies whole revisions only, each once, and carries on from the head
//! when the watch breaks. It never guesses: when etcd no longer has what is missing, the tables are loaded
//! anew and watchers are told; when etcd's past is not the one this process has seen, the store stops.
//! Start at [`run`].

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Shared,
    client::WatchStream,
    failure::Failure,
    keyspace::{Found, number_of, revision_from},
    load::{self, LoadError, Loaded},
    wire::{Event, RangeRequest, WatchCreateRequest, WatchResponse},
};
use crate::{
    Change, Clock, Entry, Key, Revision, SystemClock, UnsealError,
    tables::{Retainer, State},
};

/// Pause before a broken watch is opened again; doubled each time it breaks without having brought anything.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause. Members that come back are found within this time, and those that do not are not flooded.
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How long to wait for word of progress before asking again: a member that has not caught up does not answer.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Why a watch came to its end.
enum End {
    /// It broke; open it again.
    Broken(Failure),
    /// What comes next has been compacted; load anew.
    Compacted,
    /// A version cannot be opened; load anew, and stop unless a later one can.
    Sealed(UnsealError),
    /// etcd is not the one we have followed; stop.
    Diverged(String),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        match failure {
            failure if failure.is_other_cluster() => End::Diverged(failure.to_string()),
            failure if failure.is_compacted() => End::Compacted,
            failure => End::Broken(failure),
        }
    }
}

impl From<UnsealError> for End {
    fn from(error: UnsealError) -> Self {
        End::Sealed(error)
    }
}

impl From<LoadError> for End {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Failed(failure) => failure.into(),
            LoadError::Sealed(error) => End::Diverged(described(&error)),
        }
    }
}

/// What cannot be opened, and why.
pub(super) fn described(error: &UnsealError) -> String {
    format!("{error}: {}", error.source)
}

/// Follows etcd until the store stops.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let head = shared.tables.window().head;
        let Err(mut end) = follow(&shared).await;
        if let End::Sealed(error) = &end {
            tracing::warn!(error = described(error), "etcd has a version that cannot be opened");
        }
        if matches!(end, End::Compacted | End::Sealed(_)) {
            end = match reload(&shared).await {
                Ok(()) => continue,
                Err(end) => end,
            };
        }
        match end {
            End::Diverged(reason) => return shared.hub.stop(&reason),
            End::Broken(failure) => tracing::warn!(%failure, head = head.get(), "the etcd watch broke"),
            End::Compacted | End::Sealed(_) => {
                tracing::warn!(head = head.get(), "etcd compacts faster than it can be loaded")
            }
        }
        if shared.tables.window().head > head {
            pause = FIRST_PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Opens a watch after the head and applies what it brings until it ends.
async fn follow(shared: &Shared) -> Result<Infallible, End> {
    shared.client.renew_token(shared.client.token()).await?;
    let create = WatchCreateRequest {
        key: shared.keys.start(),
        range_end: shared.keys.end(),
        start_revision: number_of(shared.tables.window().head.next()),
        progress_notify: true,
        fragment: true,
    };
    let mut stream = shared.client.watch(create).await?;
    let Err(end) = drain(shared, &mut stream).await;
    stream.give_up();
    Err(end)
}

async fn drain(shared: &Shared, stream: &mut WatchStream<'_>) -> Result<Infallible, End> {
    // After opening: then whatever the watch brings comes from the etcd that was looked at, or from none.
    verify(shared).await?;
    let trusted = match stream.version().await {
        Ok(version) => reports_progress_truly(&version),
        // Users may be barred from asking. Then the safe way has to do.
        Err(failure) if failure.is_denied() => false,
        Err(failure) => return Err(failure.into()),
    };
    shared.progress.send_replace(trusted);
    let mut wanted_rx = shared.wanted_tx.subscribe();
    let mut parts = Vec::new();
    let mut ask_at = Instant::now();
    loop {
        let behind = trusted && *wanted_rx.borrow_and_update() > shared.tables.window().head;
        if behind && Instant::now() >= ask_at {
            stream.request_progress();
            ask_at = Instant::now() + ASK_AGAIN;
        }
        tokio::select! {
            response = stream.next() => {
                let response = response?;
                if response.canceled {
                    return Err(ended(stream, &response));
                }
                if let Some(revision) = take(shared, &mut parts, response)?.filter(|_| trusted) {
                    shared.tables.advance(revision);
                    shared.hub.notify();
                    ask_at = Instant::now();
                }
            }
            // The sender is in `shared`.
            _ = wanted_rx.changed() => {}
            () = sleep_until(ask_at), if behind => {}
        }
    }
}

fn ended(stream: &WatchStream<'_>, response: &WatchResponse) -> End {
    match response.compact_revision {
        0 => stream.canceled(response).into(),
        _ => End::Compacted,
    }
}

/// Applies a response once all its parts are there. Returns the revision of one that reports progress.
fn take(
    shared: &Shared,
    parts: &mut Vec<Event>,
    response: WatchResponse,
) -> Result<Option<Revision>, UnsealError> {
    let reports = response.events.is_empty() && parts.is_empty() && !response.created && !response.fragment;
    parts.extend(response.events);
    if response.fragment {
        return Ok(None);
    }
    apply(shared, std::mem::take(parts))?;
    Ok(response.header.filter(|_| reports).map(|header| revision_from(header.revision)))
}

/// Applies whole revisions, leaving out those that have been applied before.
fn apply(shared: &Shared, events: Vec<Event>) -> Result<(), UnsealError> {
    let mut changes: Vec<Arc<Change>> = Vec::with_capacity(events.len());
    let mut last = Revision::ZERO;
    let mut n_bytes = 0;
    {
        let state = shared.tables.state();
        // What the events so far have made of each key: the state does not know of them yet.
        let mut ahead: HashMap<Key, Option<Arc<Entry>>> = HashMap::new();
        for event in events {
            let Some(kv) = &event.kv else { continue };
            let revision = revision_from(kv.mod_revision);
            last = last.max(revision);
            if revision <= state.head {
                continue;
            }
            let (key, value) = match event.is_delete() {
                true => match shared.keys.inner(&kv.key) {
                    Some(key) => (key, None),
                    None => continue,
                },
                false => {
                    let Some(Found { entry, is_current }) = shared.keys.find(kv)? else { continue };
                    shared.stale.note(&entry, is_current);
                    (entry.key, Some(entry.value))
                }
            };
            let previous = match ahead.get(&key) {
                Some(version) => version.clone(),
                None => state.get(&key).cloned(),
            };
            n_bytes += (key.len() + value.as_ref().map_or(0, bytes::Bytes::len)) as u64;
            let Some(change) = State::change(key, value, previous, revision) else { continue };
            ahead.insert(change.key.clone(), change.current.clone());
            changes.push(change);
        }
    }
    let mut retainer = shared.retainer.lock().expect("no one panics while applying");
    shared.tables.apply(&changes);
    // The last revision may have touched nothing that readers see.
    shared.tables.advance(last);
    let now_millis = SystemClock.now_millis();
    retainer.note(&changes, n_bytes, now_millis);
    let live_bytes = shared.tables.state().live_bytes;
    if let Some(floor) = retainer.due(live_bytes, now_millis) {
        shared.tables.trim(floor);
    }
    shared.hub.notify();
    Ok(())
}

/// Makes sure that etcd's past is the one this process has seen.
async fn verify(shared: &Shared) -> Result<(), End> {
    let state = shared.tables.state().clone();
    let head = state.head;
    let newest = state.live.values().max_by_key(|entry| entry.revision);
    let key = newest.map_or(shared.keys.marker(), |entry| shared.keys.outer(&entry.key));
    let request = RangeRequest { key, revision: number_of(head), ..Default::default() };
    let answer = match shared.client.call(request).await {
        Ok(answer) => answer,
        Err(failure) if failure.is_future() => return Err(End::Diverged(went_back(head, None))),
        Err(failure) => return Err(failure.into()),
    };
    let found = answer.kvs.first().map(|kv| shared.keys.find(kv)).transpose()?.flatten();
    match (newest, found.map(|found| found.entry)) {
        (Some(ours), Some(theirs)) if **ours == theirs => Ok(()),
        (Some(ours), _) => Err(End::Diverged(format!(
            "etcd has something else under key {} at revision {head} than this process has seen there: it was \
             restored from a backup or replaced",
            ours.key
        ))),
        (None, _) => Ok(()),
    }
}

/// Loads everything anew after a gap. Watchers that have not read up to the head are told.
async fn reload(shared: &Shared) -> Result<(), End> {
    let Loaded { state, stale } = load::newest(&shared.client, &shared.keys).await?;
    let seen = shared.tables.window().head;
    if state.head < seen {
        return Err(End::Diverged(went_back(seen, Some(state.head))));
    }
    tracing::warn!(from = seen.get(), to = state.head.get(), "there is a gap in what etcd told, loaded anew");
    shared.stale.replace(stale);
    let mut retainer = shared.retainer.lock().expect("no one panics while applying");
    *retainer = Retainer::new(retainer.keep);
    shared.tables.reset(state);
    shared.hub.notify();
    Ok(())
}

/// What to say when etcd has lost revisions.
pub(super) fn went_back(seen: Revision, found: Option<Revision>) -> String {
    let found = found.map_or_else(|| "does not know".to_owned(), |found| format!("is at {found}, before"));
    format!(
        "etcd {found} revision {seen}, which this process has seen: it was restored from a backup or replaced"
    )
}

/// Whether progress reported by this version of etcd never runs ahead of the changes it stands for, and comes
/// under load too.
///
/// The first was wrong before 3.4.25 and 3.5.8 (etcd issue 15220), the second before 3.4.31 and 3.5.13.
fn reports_progress_truly(version: &str) -> bool {
    let mut numbers = version.splitn(3, '.').map(|part| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse::<u32>().ok())
    });
    match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten()) {
        (Some(3), Some(4), Some(patch)) => patch >= 31,
        (Some(3), Some(5), Some(patch)) => patch >= 13,
        (Some(major), Some(minor), Some(_)) => (major, minor) > (3, 5),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_believed_from_the_versions_that_got_it_right() {
        for version in ["3.4.31", "3.5.13", "3.5.21-rc.1", "3.6.0-alpha.0", "3.7.3", "4.0.0"] {
            assert!(reports_progress_truly(version), "{version}");
        }
        for version in ["3.3.27", "3.4.23", "3.4.30", "3.5.0-alpha.0", "3.5.12", "3.6", "", "unknown"] {
            assert!(!reports_progress_truly(version), "{version}");
        }
    }
}
