//! Watches: the changes of a resource as a stream of JSON lines.
//!
//! Nothing is buffered per watcher but one chunk: what a client has not read stays in the store's history, and
//! a client that is too slow for it is told so and cut off. An object enters and leaves a selection as an
//! ADDED and a DELETED. The line of a change is made once for all who want it in the same form ([`Lines`]), and
//! what a watcher waits for besides changes is set up once, not for every change.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::watch as signal,
    time::{Instant, Sleep},
};
use windlass_store::{Change, Delivery, Entry, Revision, Watch};

use super::{Listing, Registry, Rendering, Selection, Versions, read_failed, render::Include};
use crate::{
    access::Permit,
    http::Form,
    resources::Resource,
    status::{Outcome, Status},
};

/// How often a watch tells the client how far it has got.
const BOOKMARK: Duration = Duration::from_secs(60);

/// Bytes sent in one go.
const CHUNK: usize = 64 * 1024;

/// Lines kept for other watchers. Those of one prefix are hardly ever more than a few changes apart.
const LINES: usize = 64;

/// Bytes of lines kept for other watchers.
const LINES_BYTES: usize = 4 * 1024 * 1024;

/// What to watch.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    pub(crate) namespace: String,
    pub(crate) selection: Selection,
    /// Begin behind this revision; `None`: with everything there is.
    pub(crate) after: Option<u64>,
    /// The state to begin with must not be older than this.
    pub(crate) not_older_than: Option<u64>,
    pub(crate) bookmarks: bool,
    /// Mark the end of the initial state with a bookmark.
    pub(crate) mark_initial: bool,
    pub(crate) timeout: Duration,
}

/// A watch on its way to a client.
pub(crate) struct Watching {
    resource: Arc<Resource>,
    selection: Selection,
    rendering: Rendering,
    /// What was there when the watch began, to be sent first.
    initial: Option<Box<Listing>>,
    mark_initial: bool,
    bookmarks: bool,
    watch: Option<Watch>,
    pending: VecDeque<Arc<Change>>,
    /// Everything up to here has been sent.
    sent: u64,
    /// When it has lasted long enough.
    deadline: Instant,
    /// When the client is next told how far it has got.
    bookmark_due: Instant,
    /// Whoever watches must go on being allowed to.
    permit: Permit,
    /// Wakes for whichever of these comes first.
    timer: Pin<Box<Sleep>>,
    draining: signal::Receiver<bool>,
    /// Ends when the server stops, or when the resource is no longer served as it is here.
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    lines: Arc<Lines>,
    versions: Arc<Versions>,
    /// The columns of a table are sent with the first row only.
    columns_sent: bool,
    /// Sent last, before the stream ends.
    error: Option<Box<Status>>,
}

impl Registry {
    /// Begins a watch.
    pub(crate) async fn watch(
        &self,
        resource: &Arc<Resource>,
        options: WatchOptions,
        rendering: Rendering,
        permit: Permit,
        draining: signal::Receiver<bool>,
    ) -> Outcome<Watching> {
        let WatchOptions { namespace, selection, after, not_older_than, bookmarks, mark_initial, timeout } =
            options;
        let now = Instant::now();
        let (deadline, bookmark_due) = (now + timeout, now + BOOKMARK);
        let mut watching = Watching {
            resource: Arc::clone(resource),
            selection: selection.clone(),
            rendering,
            initial: None,
            mark_initial,
            bookmarks,
            watch: None,
            pending: VecDeque::new(),
            sent: after.unwrap_or(0),
            deadline,
            bookmark_due,
            timer: Box::pin(tokio::time::sleep_until(deadline.min(bookmark_due).min(permit.due()))),
            permit,
            over: Box::pin(over(Arc::clone(resource), draining.clone())),
            draining,
            lines: Arc::clone(&self.lines),
            versions: Arc::clone(&self.versions),
            columns_sent: false,
            error: None,
        };
        if after.is_none() {
            let options = super::ListOptions {
                namespace: namespace.clone(),
                selection: selection.clone(),
                revision: not_older_than,
                ..super::ListOptions::default()
            };
            let listing = self.list(resource, options).await?;
            watching.sent = listing.revision();
            watching.initial = Some(Box::new(listing));
        }
        let prefix = selection.range(resource, &namespace);
        match self.store.watch(prefix.as_bytes(), Revision::new(watching.sent)).await {
            Ok(watch) => watching.watch = Some(watch),
            // As Kubernetes has it: once the request is understood, errors are events.
            Err(error) => watching.error = Some(read_failed(&error)),
        }
        Ok(watching)
    }
}

/// Waits until the server stops or the resource is no longer served as it is here.
async fn over(resource: Arc<Resource>, mut draining: signal::Receiver<bool>) {
    let retired = async {
        match resource.custom() {
            Some(kind) => kind.definition().retired().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // A sender that is gone means the same.
        _ = draining.wait_for(|draining| *draining) => {}
        () = retired => {}
    }
}

/// The lines of a watch, in chunks.
pub(crate) fn watch_stream(watching: Watching) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(watching, |mut watching| async move {
        let chunk = watching.next().await?;
        Some((chunk, watching))
    })
}

impl Watching {
    /// The next lines, or `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        if Instant::now() >= self.deadline || *self.draining.borrow() {
            return self.end(out);
        }
        loop {
            if let Err(status) = self.permit.renew().await {
                return Some(self.cut(&status));
            }
            if let Some(mut listing) = self.initial.take() {
                self.send_initial(&mut listing, &mut out).await;
                if out.len() >= CHUNK {
                    self.initial = Some(listing);
                    return Some(out.into());
                }
                if self.mark_initial {
                    self.bookmark(self.sent, true, &mut out);
                }
                if !out.is_empty() {
                    return Some(out.into());
                }
            }
            while let Some(change) = self.pending.pop_front() {
                let Some(line) = self.line(&change) else { continue };
                if out.is_empty() && self.pending.is_empty() {
                    return Some(line);
                }
                out.extend_from_slice(&line);
                // Who goes on from a revision must have seen all of it.
                let is_whole = self.pending.front().is_none_or(|next| next.revision != change.revision);
                if out.len() >= CHUNK && is_whole {
                    return Some(out.into());
                }
            }
            if !out.is_empty() {
                return Some(out.into());
            }
            if let Some(status) = self.error.take() {
                return Some(self.cut(&status));
            }
            let watch = self.watch.as_mut()?;
            self.timer.as_mut().reset(self.deadline.min(self.bookmark_due).min(self.permit.due()));
            let waited = tokio::select! {
                biased;
                delivery = watch.next() => Waited::Delivery(delivery),
                () = self.timer.as_mut() => Waited::Timer,
                () = self.over.as_mut() => Waited::Over,
            };
            match waited {
                Waited::Delivery(Ok(Delivery::Changes(changes))) => self.take(changes).await,
                // Nobody asked for it.
                Waited::Delivery(Ok(Delivery::Progress(_))) => {}
                Waited::Delivery(Err(error)) => self.error = Some(read_failed(&error)),
                Waited::Over => return self.end(out),
                Waited::Timer if Instant::now() >= self.deadline => return self.end(out),
                Waited::Timer if Instant::now() < self.bookmark_due => {}
                Waited::Timer => {
                    self.bookmark_due = Instant::now() + BOOKMARK;
                    match watch.poll() {
                        Ok(changes) if changes.is_empty() => {
                            self.sent = watch.delivered().get().max(self.sent)
                        }
                        Ok(changes) => {
                            self.take(changes).await;
                            continue;
                        }
                        Err(error) => {
                            self.error = Some(read_failed(&error));
                            continue;
                        }
                    }
                    if self.bookmarks {
                        self.bookmark(self.sent, false, &mut out);
                        return Some(out.into());
                    }
                }
            }
        }
    }

    /// Ends the watch at once, with why.
    fn cut(&mut self, why: &Status) -> Bytes {
        (self.watch, self.initial) = (None, None);
        self.pending.clear();
        let mut out = Vec::new();
        line("ERROR", |out| out.extend_from_slice(Status::line(&why.to_json()).trim_ascii_end()), &mut out);
        out.into()
    }

    /// Takes changes to be sent, in the version in which they are shown.
    async fn take(&mut self, changes: Vec<Arc<Change>>) {
        if self.resource.custom().is_none() {
            return self.pending.extend(changes);
        }
        for change in changes {
            match self.versions.show_change(&self.resource, change).await {
                Ok(change) => self.pending.push_back(change),
                Err(status) => {
                    self.error = Some(status);
                    return;
                }
            }
        }
    }

    /// Ends the watch, with a last word on how far it got.
    fn end(&mut self, mut out: Vec<u8>) -> Option<Bytes> {
        let watch = self.watch.take()?;
        if !self.bookmarks || self.initial.take().is_some() {
            return None;
        }
        // What has been taken but not sent is still to come for whoever goes on from what has been.
        let revision = match std::mem::take(&mut self.pending).is_empty() {
            true => watch.delivered().get().max(self.sent),
            false => self.sent,
        };
        self.bookmark(revision, false, &mut out);
        Some(out.into())
    }

    async fn send_initial(&mut self, listing: &mut Listing, out: &mut Vec<u8>) {
        while let Some(entry) = listing.next().await {
            self.event("ADDED", &entry.value, entry.revision.get(), out);
            if out.len() >= CHUNK {
                return;
            }
        }
    }

    /// What is sent of a change, if anything is.
    fn line(&mut self, change: &Arc<Change>) -> Option<Bytes> {
        let revision = change.revision.get();
        self.sent = revision;
        let takes = |entry: &Option<Arc<Entry>>| {
            let entry = entry.as_ref();
            entry.is_some_and(|entry| self.selection.takes(&self.resource, &entry.key, &entry.value))
        };
        let (kind, entry) = match (takes(&change.previous), takes(&change.current)) {
            (false, true) => ("ADDED", change.current.as_ref()?),
            (true, true) => ("MODIFIED", change.current.as_ref()?),
            (true, false) => ("DELETED", change.previous.as_ref()?),
            (false, false) => return None,
        };
        let with_columns = !std::mem::replace(&mut self.columns_sent, true);
        let rendering = &mut self.rendering;
        Some(self.lines.get(change, kind, rendering, with_columns, |rendering| {
            rendering.now = Timestamp::now();
            let mut out = Vec::with_capacity(entry.value.len() + 128);
            line(kind, |out| rendering.single(&entry.value, revision, with_columns, out), &mut out);
            out.into()
        }))
    }

    fn event(&mut self, kind: &str, value: &Bytes, revision: u64, out: &mut Vec<u8>) {
        let with_columns = !std::mem::replace(&mut self.columns_sent, true);
        let rendering = &self.rendering;
        line(kind, |out| rendering.single(value, revision, with_columns, out), out);
    }

    fn bookmark(&self, revision: u64, ends_initial: bool, out: &mut Vec<u8>) {
        let annotations = match ends_initial {
            true => ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}",
            false => "",
        };
        let (kind, api_version) = match self.rendering.form {
            Form::Plain => (self.resource.kind.as_str(), self.rendering.api_version.as_str()),
            _ => ("PartialObjectMetadata", "meta.k8s.io/v1"),
        };
        let object = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":\"{revision}\",\
             \"creationTimestamp\":null{annotations}}}}}"
        );
        line("BOOKMARK", |out| out.extend_from_slice(object.as_bytes()), out);
    }
}

/// Why a watcher is awake.
enum Waited {
    Delivery(Result<Delivery, windlass_store::ReadError>),
    Timer,
    Over,
}

/// The latest lines, for whoever else wants the same.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The newest last.
    lines: VecDeque<Line>,
    bytes: usize,
}

/// A change in the form in which somebody has wanted it.
struct Line {
    /// Held on to, so that no other change can be at its place in memory.
    change: Arc<Change>,
    kind: &'static str,
    form: Form,
    include: Include,
    api_version: String,
    with_columns: bool,
    bytes: Bytes,
}

impl Lines {
    /// The line of a change, made by `make` unless it is there.
    fn get(
        &self,
        change: &Arc<Change>,
        kind: &'static str,
        rendering: &mut Rendering,
        with_columns: bool,
        make: impl FnOnce(&mut Rendering) -> Bytes,
    ) -> Bytes {
        // Of other forms than tables, the columns are no part.
        let with_columns = with_columns && rendering.form == Form::Table;
        let same = |line: &&Line| {
            Arc::ptr_eq(&line.change, change)
                && line.kind == kind
                && line.form == rendering.form
                && line.include == rendering.include
                && line.with_columns == with_columns
                && line.api_version == rendering.api_version
        };
        // Whoever comes while it is being made waits for it: making it twice would take as long.
        let mut kept = self.0.lock();
        if let Some(line) = kept.lines.iter().rev().find(same) {
            return line.bytes.clone();
        }
        let bytes = make(rendering);
        kept.bytes += bytes.len();
        kept.lines.push_back(Line {
            change: Arc::clone(change),
            kind,
            form: rendering.form,
            include: rendering.include,
            api_version: rendering.api_version.clone(),
            with_columns,
            bytes: bytes.clone(),
        });
        while kept.lines.len() > LINES || kept.bytes > LINES_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.bytes.len();
        }
        bytes
    }
}

/// One line of a watch.
fn line(kind: &str, object: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    object(out);
    out.extend_from_slice(b"}\n");
}
