//! The watch behind an informer: kube's `watcher`, helped where it would wait for ever.
//!
//! It has four blind spots. After a watch was refused it asks for the same again and again, even if its kind or its
//! revision is gone and no such watch will ever be taken: [`watching`] lists again instead. It says nothing when a watch
//! is taken in which nothing happens, nor of which revision its list was: [`telling`] does. It waits for ever for an API
//! server that takes a request and never answers: [`telling`] gives up. And nobody can ask it whether it has seen
//! everything: a [`Renewal`] has it list anew.

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream};
use http::Request;
use kube::{Api, Client, client::Body, runtime::watcher};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tower_http::timeout::TimeoutBody;

use super::Watched;

/// How long the API server may say nothing, in seconds: to a request, and within an answer that is no watch.
const PATIENCE: u64 = 30;
/// How long a watch lasts, in seconds: a little longer than from one bookmark to the next. One that does not end then is
/// given up by the watcher, so an API server that hangs is found out.
pub(super) const WATCH: u32 = 75;

/// Has a watch begin anew with a list, for those who need to know that everything there is has been seen.
#[derive(Debug)]
pub(super) struct Renewal {
    /// How often it was asked for, and how often when the last list began.
    asked: AtomicU64,
    begun: AtomicU64,
    /// Whether the list is over and the watch is taken: a list that is under way is not given up.
    is_watching: AtomicBool,
    changed: Notify,
    /// How often it was asked for before the list began that the watch goes on from.
    done: watch::Sender<u64>,
}

impl Default for Renewal {
    fn default() -> Self {
        Renewal {
            asked: AtomicU64::default(),
            begun: AtomicU64::default(),
            is_watching: AtomicBool::default(),
            changed: Notify::default(),
            done: watch::channel(0).0,
        }
    }
}

impl Renewal {
    /// One that is never waited for.
    pub(super) fn needless() -> Self {
        Renewal { done: watch::channel(u64::MAX).0, ..Renewal::default() }
    }

    /// Waits for a watch whose list began after this was called. All who ask while a list is under way share the next.
    pub(super) async fn renewed(&self) {
        let mut done = self.done.subscribe();
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.changed.notify_waiters();
        // The sender is in this very renewal.
        let _ = done.wait_for(|done| *done >= ticket).await;
    }

    /// A watch was taken.
    pub(super) fn is_taken(&self) {
        self.is_watching.store(true, Ordering::SeqCst);
        self.done.send_if_modified(|done| {
            let begun = self.begun.load(Ordering::SeqCst);
            let is_more = begun > *done;
            *done = begun.max(*done);
            is_more
        });
        self.changed.notify_waiters();
    }

    fn begins(&self) {
        self.is_watching.store(false, Ordering::SeqCst);
        self.begun.store(self.asked.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    async fn is_wanted(&self) {
        loop {
            let changed = self.changed.notified();
            let is_asked = self.asked.load(Ordering::SeqCst) > self.begun.load(Ordering::SeqCst);
            if is_asked && self.is_watching.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }
}

/// What a watcher says. It goes on after errors.
pub(super) fn watching<K: Watched>(
    api: Api<K>,
    config: watcher::Config,
    renewal: Arc<Renewal>,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static {
    let begin = {
        let renewal = Arc::clone(&renewal);
        move || {
            renewal.begins();
            watcher(api.clone(), config.clone()).boxed()
        }
    };
    stream::unfold(None, move |watch| {
        let (begin, renewal) = (begin.clone(), Arc::clone(&renewal));
        async move {
            let mut watch = watch.unwrap_or_else(&begin);
            let event = loop {
                tokio::select! {
                    biased;
                    () = renewal.is_wanted() => watch = begin(),
                    event = watch.next() => break event?,
                }
            };
            let goes_on = !event.as_ref().is_err_and(needs_list);
            Some((event, goes_on.then_some(watch)))
        }
    })
}

/// A client that tells of every watch that the API server takes, and of the revision from which it goes on, and that does
/// not wait for ever.
pub(super) fn telling(client: &Client, tell: impl Fn(u64) + Clone + Send + Sync + 'static) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, tell) = (client.clone(), tell.clone());
        async move {
            let from = watch_from(&request);
            let Ok(response) = timeout(Duration::from_secs(PATIENCE), client.send(request)).await else {
                let why = format!("the API server has not answered for {PATIENCE} s");
                return Err(kube::Error::Service(why.into()));
            };
            let response = response?;
            let silence = match from {
                Some(from) if response.status().is_success() => {
                    tell(from);
                    // The watcher has its own patience, which ends before this.
                    2 * u64::from(WATCH)
                }
                _ => PATIENCE,
            };
            Ok(response.map(|body| TimeoutBody::new(Duration::from_secs(silence), body)))
        }
    });
    Client::new(service, namespace)
}

/// The revision that a watch is to go on from, if a request is for a watch.
fn watch_from<B>(request: &Request<B>) -> Option<u64> {
    let parts = || request.uri().query().unwrap_or_default().split('&');
    let from = parts().find_map(|part| part.strip_prefix("resourceVersion="));
    let is_watch = parts().any(|part| matches!(part, "watch=true" | "watch=1"));
    is_watch.then(|| from.and_then(|from| from.parse().ok()).unwrap_or(0))
}
/// The code that the API server has answered with.
fn code(error: &watcher::Error) -> Option<u16> {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        WatchError(status) => Some(status.code),
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// There is no such kind.
pub(super) fn is_missing(error: &watcher::Error) -> bool {
    code(error) == Some(404)
}

/// The history that a watch would begin with is gone.
pub(super) fn is_expired(error: &watcher::Error) -> bool {
    code(error) == Some(410)
}

/// Asking for the same watch again is of no use: besides the above, the revision may be one that the API server does not
/// know, or does not know yet, as after a restore.
fn needs_list(error: &watcher::Error) -> bool {
    matches!(code(error), Some(400 | 404 | 410 | 504))
}
