//! The way of a change: from a stream through an informer and a queue to a reconcile that does nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{Action, Controller, Informer, Key, ReconcileError, Reconciler, metrics::Metrics};

use super::per_second;
use crate::{
    report::{Section, Table},
    say,
    stats::count,
};

struct Counting {
    n_left: AtomicU32,
    done: Arc<Notify>,
}

#[async_trait]
impl Reconciler for Counting {
    async fn reconcile(&self, _key: &Key) -> Result<Action, ReconcileError> {
        if self.n_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
        Ok(Action::Done)
    }
}

pub(super) async fn measure(n_objects: u32) -> anyhow::Result<Section> {
    let mut section = Section::new("From a change to a reconcile");
    let mut table = Table::new(&["workers", "changes a second"]);
    for n_workers in [1, 8] {
        say(&format!("reconciles: {} with {n_workers} workers…", count(u64::from(n_objects))));
        table.row([n_workers.to_string(), once(n_objects, n_workers).await?]);
    }
    section.tables.push(table);
    section.notes.push(format!(
        "{} objects that are new, each told of once; the stream is in memory, and reconciles do nothing.",
        count(u64::from(n_objects))
    ));
    Ok(section)
}

async fn once(n_objects: u32, n_workers: usize) -> anyhow::Result<String> {
    let begins = [Ok(Event::Init), Ok(Event::InitDone)];
    let changes = (0..n_objects).map(|number| {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("bench".to_owned());
        map.metadata.name = Some(format!("object-{number}"));
        map.metadata.resource_version = Some((number + 1).to_string());
        Ok(Event::Apply(map))
    });
    let stream = stream::iter(begins.into_iter().chain(changes)).chain(stream::pending());
    let done = Arc::new(Notify::new());
    let counting = Counting { n_left: AtomicU32::new(n_objects), done: Arc::clone(&done) };
    let begun = Instant::now();
    let informer = Informer::follow(stream, None);
    let controller =
        Controller::new("bench", counting, &Metrics::default()).reconciles(&informer).workers(n_workers);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    done.notified().await;
    let speed = per_second(n_objects, begun);
    stop.cancel();
    running.await?;
    Ok(speed)
}
