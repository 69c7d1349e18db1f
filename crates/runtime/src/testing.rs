//! What tests share: informers that a test feeds, an API server that is a map, and waiting for something to be so.

pub(crate) mod server;

use std::time::Duration;

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    core::Status,
    runtime::watcher::{self, Event},
};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::{Instant, sleep},
};

use crate::{Informer, Key};

/// An object of this name.
pub(crate) fn map(name: &str, revision: u64) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map.metadata.uid = Some(format!("uid-{name}"));
    map.metadata.resource_version = Some(revision.to_string());
    map
}

pub(crate) fn key(name: &str) -> Key {
    Key::new("default", name)
}

/// What an informer hears.
#[derive(Clone, Debug)]
pub(crate) struct Feed(UnboundedSender<watcher::Result<Event<ConfigMap>>>);

impl Feed {
    /// An informer, and what it hears.
    pub(crate) fn new() -> (Informer<ConfigMap>, Self) {
        let (tx, rx) = unbounded_channel();
        let stream = stream::unfold(rx, |mut rx| async move { Some((rx.recv().await?, rx)) });
        (Informer::follow(stream, None), Feed(tx))
    }

    fn send(&self, event: watcher::Result<Event<ConfigMap>>) {
        self.0.send(event).expect("it listens");
    }

    pub(crate) fn list(&self, objects: impl IntoIterator<Item = ConfigMap>) {
        self.send(Ok(Event::Init));
        objects.into_iter().for_each(|object| self.send(Ok(Event::InitApply(object))));
        self.send(Ok(Event::InitDone));
    }

    pub(crate) fn apply(&self, object: ConfigMap) {
        self.send(Ok(Event::Apply(object)));
    }

    pub(crate) fn delete(&self, object: ConfigMap) {
        self.send(Ok(Event::Delete(object)));
    }

    pub(crate) fn fail(&self, code: u16) {
        let status = Status { code, ..Status::failure("no", "Reason") };
        let error = kube::Error::Api(Box::new(status));
        self.send(Err(watcher::Error::InitialListFailed(error)));
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    within(Duration::from_secs(60), what, is_so).await;
}

/// Waits until something is so, for as long as it may take.
pub(crate) async fn within(most: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() <= most, "{what} within {most:?}");
        sleep(Duration::from_millis(1)).await;
    }
}
