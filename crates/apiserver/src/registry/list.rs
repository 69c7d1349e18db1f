//! Lists: pages of one revision, taken from immutable snapshots.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_store::{Entry, Read, ReadError, Revision, Snapshot};

use super::{Registry, Rendering, Selection, read_failed, versions};
use crate::{
    bulk::{bulk, give_way},
    crd::Kind,
    resources::Resource,
    status::{Outcome, Status},
    webhook::Webhooks,
};

/// Bytes of a list that are made in one go.
const CHUNK: usize = 128 * 1024;

/// Entries that are fetched in one go. Lists that look at more are long.
const FETCH: usize = 256;

/// Entries that are looked at before other threads have a turn.
const TURN: usize = 64;

/// What to list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) namespace: String,
    pub(crate) selection: Selection,
    /// Most objects to give; 0 is no limit.
    pub(crate) limit: usize,
    pub(crate) token: String,
    pub(crate) revision: Option<u64>,
    /// Exactly the revision, not a later one.
    pub(crate) exact: bool,
}

/// What tokens are called that are made here, which is what Kubernetes calls its own.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// The revision in a token whose own has been lost: the rest comes from a later one.
const LATEST: i64 = -1;

/// Where a list goes on.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    /// The revision of all pages, or [`LATEST`].
    rv: i64,
    /// The first key that is left, without the resource's prefix: the last one given, and a zero byte.
    start: String,
    /// When the first page was given, in milliseconds since 1970. A token that does not say is of long ago.
    #[serde(default)]
    at: i64,
    /// Objects that were left, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

impl Token {
    fn new(rv: i64, after: &str, at: i64, left: Option<usize>) -> Self {
        Token { v: TOKEN_VERSION.to_owned(), rv, start: format!("{after}\0"), at, left }
    }

    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Outcome<Self> {
        let token = URL_SAFE_NO_PAD.decode(text).ok();
        let token = token.and_then(|bytes| serde_json::from_slice::<Token>(&bytes).ok());
        let is_fit = |token: &Token| token.v == TOKEN_VERSION && token.rv != 0 && token.after().is_some();
        token.filter(is_fit).ok_or_else(|| {
            let shown: String = text.chars().take(100).collect();
            Status::bad_request(format!("invalid continue token: continue key is not valid: {shown:?}"))
        })
    }

    /// The last key given, without the resource's prefix.
    fn after(&self) -> Option<&str> {
        self.start.strip_suffix('\0').filter(|after| !after.is_empty())
    }

    /// Whether the list it is of began so long ago that it is not gone on with.
    fn is_old(&self, now: i64, most: Duration) -> bool {
        now.saturating_sub(self.at) >= i64::try_from(most.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Objects to be sent, all of one revision. Copies share what they hold.
#[derive(Clone)]
pub(crate) struct Listing {
    resource: Arc<Resource>,
    snapshot: Snapshot,
    range: String,
    selection: Selection,
    source: Source,
    is_long: bool,
    n_seen: usize,
    /// The token to go on with, empty at the end.
    pub(crate) token: String,
    /// Objects behind this page, where that is known.
    pub(crate) left: Option<usize>,
}

/// What is known from the pages before.
struct Before {
    /// When the first one was given.
    begun: i64,
    /// How many objects were left behind the last one, if there was one and it is known.
    left: Option<Option<usize>>,
}

/// Where the objects of a list come from.
#[derive(Clone)]
enum Source {
    /// A page that was collected, because it had to be known where it ends.
    Page(std::vec::IntoIter<Arc<Entry>>),
    /// The rest of the range, fetched piece by piece, behind this key.
    Rest { after: Option<Vec<u8>>, fetched: std::vec::IntoIter<Arc<Entry>>, done: bool },
}

impl Registry {
    /// Begins a list.
    pub(crate) async fn list(&self, resource: &Arc<Resource>, options: ListOptions) -> Outcome<Listing> {
        let ListOptions { namespace, selection, limit, token, revision, exact } = options;
        let now = Timestamp::now().as_millisecond();
        let token = match token.as_str() {
            "" => None,
            text => Some(Token::decode(text)?),
        };
        let snapshot = match &token {
            Some(token) => self.snapshot_for(token, now).await?,
            None if exact => self.snapshot_at(revision.unwrap_or(0)).await?,
            None => self.fresh(revision).await?,
        };
        let range = selection.range(resource, &namespace);
        let after = token.as_ref().and_then(Token::after);
        let after = after.map(|after| format!("{}{after}", resource.prefix).into_bytes());
        if after.as_ref().is_some_and(|after| !after.starts_with(range.as_bytes())) {
            return Err(Status::bad_request("invalid continue token: it belongs to another list"));
        }
        let n_stored = snapshot.count(range.as_bytes());
        let n_looked_at = match limit > 0 && selection.is_everything() {
            true => limit.min(n_stored),
            false => n_stored,
        };
        let mut listing = Listing {
            resource: Arc::clone(resource),
            snapshot,
            range,
            selection,
            source: Source::Rest { after, fetched: vec![].into_iter(), done: false },
            is_long: n_looked_at > FETCH,
            n_seen: 0,
            token: String::new(),
            left: None,
        };
        if let Some(kind) = resource.custom().filter(|kind| kind.asks()) {
            listing.ask(kind, self.versions.webhooks(), limit).await?;
        }
        if limit > 0 {
            let before = Before {
                begun: token.as_ref().filter(|token| token.rv != LATEST).map_or(now, |token| token.at),
                left: token.as_ref().map(|token| token.left),
            };
            listing = bulk(listing.is_long, async move {
                listing.cut(limit, before).await;
                listing
            })
            .await;
        }
        Ok(listing)
    }

    async fn snapshot_for(&self, token: &Token, now: i64) -> Outcome<Snapshot> {
        let Ok(revision) = u64::try_from(token.rv) else { return self.fresh(None).await };
        let outcome = match token.is_old(now, self.continue_ttl) {
            true => Err(None),
            false => self.store.snapshot(Read::At(Revision::new(revision))).await.map_err(Some),
        };
        outcome.map_err(|error| match error {
            None | Some(ReadError::Compacted { .. }) => {
                let fresh = Token::new(LATEST, token.after().unwrap_or_default(), token.at, None);
                let message = "The provided continue parameter is too old to display a consistent list result. You can start \
                               a new list without the continue parameter, or use the continue token in this response to \
                               retrieve the remainder of the results. Continuing with the provided token results in an \
                               inconsistent list - objects that were created, modified, or deleted between the time the first \
                               chunk was returned and now may show up in the list.";
                Status::expired(message).go_on_with(fresh.encode())
            }
            Some(error) => read_failed(&error),
        })
    }

    async fn snapshot_at(&self, revision: u64) -> Outcome<Snapshot> {
        match self.store.snapshot(Read::At(Revision::new(revision))).await {
            // It may be a revision that this server has not seen yet.
            Err(ReadError::Future { .. }) => {
                self.fresh(Some(revision)).await?;
                let read = Read::At(Revision::new(revision));
                self.store.snapshot(read).await.map_err(|error| read_failed(&error))
            }
            outcome => outcome.map_err(|error| read_failed(&error)),
        }
    }
}

impl Listing {
    /// Whether it keeps a thread busy.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long
    }

    /// The revision of the list.
    pub(crate) fn revision(&self) -> u64 {
        self.snapshot.revision().get()
    }

    /// Has a webhook turn the objects into the version they are to be shown in: all of them, and one more than a
    /// page has, because an answer that has begun cannot fail.
    async fn ask(&mut self, kind: &Kind, webhooks: &Webhooks, limit: usize) -> Outcome<()> {
        let enough = if limit > 0 { limit + 1 } else { usize::MAX };
        let mut shown = vec![];
        while shown.len() < enough
            && let Some(entries) = self.fetch(FETCH.min(enough))
        {
            for entry in kind.show_all(entries.collect(), webhooks).await? {
                if self.selection.takes(&self.resource, &entry.key, &entry.value) {
                    shown.push(entry);
                }
            }
        }
        self.source = Source::Page(shown.into_iter());
        Ok(())
    }

    /// Collects a page and finds out where to go on.
    async fn cut(&mut self, limit: usize, before: Before) {
        let mut page = Vec::with_capacity(limit.min(1000));
        while page.len() < limit
            && let Some(entry) = self.next().await
        {
            page.push(entry);
        }
        let more = page.len() == limit && self.next().await.is_some();
        if let Some(last) = page.last().filter(|_| more) {
            if self.selection.is_everything() {
                let left = match before.left {
                    None => self.snapshot.count(self.range.as_bytes()).saturating_sub(page.len()),
                    Some(Some(left)) => left.saturating_sub(page.len()),
                    Some(None) => self.snapshot.iter(self.range.as_bytes(), Some(&last.key)).skip(1).count(),
                };
                self.left = Some(left).filter(|left| *left > 0);
            }
            let after = last.key.get(self.resource.prefix.len()..).unwrap_or_default();
            let revision = i64::try_from(self.revision()).unwrap_or(i64::MAX);
            let token = Token::new(revision, &String::from_utf8_lossy(after), before.begun, self.left);
            self.token = token.encode();
        }
        self.source = Source::Page(page.into_iter());
    }

    /// Appends objects until a chunk is full; false when there are no more.
    pub(crate) async fn fill(&mut self, rendering: &Rendering, first: &mut bool, out: &mut Vec<u8>) -> bool {
        while let Some(entry) = self.next().await {
            if !std::mem::take(first) {
                out.push(b',');
            }
            rendering.item(&entry.value, entry.revision.get(), out);
            if out.len() >= CHUNK {
                return true;
            }
        }
        false
    }

    /// The next entries of the range as they are stored, at most so many; `None` when there are no more.
    fn fetch(&mut self, most: usize) -> Option<std::vec::IntoIter<Arc<Entry>>> {
        let Source::Rest { after, done, .. } = &mut self.source else { return None };
        if *done {
            return None;
        }
        // The first key that can follow `after` is that with a zero byte behind it.
        let start = after.as_ref().map(|after| [after.as_slice(), &[0]].concat());
        let page = self.snapshot.range(self.range.as_bytes(), start.as_deref(), most);
        *done = !page.more;
        *after = page.entries.last().map(|entry| entry.key.to_vec());
        Some(page.entries.into_iter())
    }

    /// The next object. Others have a turn every few objects that were looked at, whether or not they were chosen.
    pub(crate) async fn next(&mut self) -> Option<Arc<Entry>> {
        loop {
            let entries = match &mut self.source {
                Source::Page(entries) => {
                    count_turn(&mut self.n_seen);
                    return entries.next();
                }
                Source::Rest { fetched, .. } => fetched,
            };
            for entry in entries.by_ref() {
                count_turn(&mut self.n_seen);
                let entry = versions::shown(&self.resource, entry);
                if self.selection.takes(&self.resource, &entry.key, &entry.value) {
                    return Some(entry);
                }
            }
            let next = self.fetch(FETCH)?;
            if let Source::Rest { fetched, done, .. } = &mut self.source {
                *fetched = next;
                if !*done {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// One more has been looked at.
fn count_turn(n_seen: &mut usize) {
    *n_seen += 1;
    if n_seen.is_multiple_of(TURN) {
        give_way();
    }
}

/// The JSON of a list's metadata.
pub(crate) fn list_metadata(listing: &Listing) -> String {
    let mut text = format!("{{\"resourceVersion\":\"{}\"", listing.revision());
    if !listing.token.is_empty() {
        text.push_str(&format!(",\"continue\":\"{}\"", listing.token));
    }
    if let Some(left) = listing.left {
        text.push_str(&format!(",\"remainingItemCount\":{left}"));
    }
    text.push('}');
    text
}

/// Room for one chunk.
pub(crate) fn chunk() -> Vec<u8> {
    Vec::with_capacity(CHUNK + 16 * 1024)
}
