//! The watch behind an informer: kube's `watcher`, helped where it would wait for ever.
//!
//! It has two blind spots. After a watch was refused it asks for the same again and again, even if its kind or its
//! revision is gone and no such watch will ever be taken: [`watching`] lists again instead. And it says nothing when a
//! watch is taken in which nothing happens: [`telling`] does.

#[cfg(test)]
mod tests;

use futures_util::{Stream, StreamExt, stream};
use http::Request;
use kube::{Api, Client, client::Body, runtime::watcher};

use super::Watched;

/// What a watcher says. It goes on after errors.
pub(super) fn watching<K: Watched>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static {
    stream::unfold(None, move |watch| {
        let mut watch = watch.unwrap_or_else(|| watcher(api.clone(), config.clone()).boxed());
        async move {
            let event = watch.next().await?;
            let goes_on = !event.as_ref().is_err_and(needs_list);
            Some((event, goes_on.then_some(watch)))
        }
    })
}

/// A client that tells of every watch that the API server takes.
pub(super) fn telling(client: &Client, tell: impl Fn() + Clone + Send + Sync + 'static) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, tell) = (client.clone(), tell.clone());
        async move {
            let is_watch = is_watch(&request);
            let response = client.send(request).await?;
            if is_watch && response.status().is_success() {
                tell();
            }
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, namespace)
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"))
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
