//! Rules from an API server: one watch a kind, which all parts of a process share.

use std::sync::Arc;

use async_trait::async_trait;
use kube::{
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use tokio::task::JoinSet;
use windlass_runtime::{Change, Informer, Informers, Key, Scope, informer::Reach};

use crate::{
    plane::{Heard, Plane},
    source::Source,
    topic::KindId,
};

/// How many changes are taken up at once.
const BATCH: usize = 512;

/// The objects of an API server.
#[derive(Debug)]
pub struct Cluster {
    informers: Vec<Informer<DynamicObject>>,
}

impl Cluster {
    /// Begins to watch every kind.
    pub fn start(informers: &Informers) -> Arc<Self> {
        let informers =
            KindId::all().map(|kind| informers.of_resource(&resource(kind), &Scope::all())).collect();
        Arc::new(Cluster { informers })
    }

    /// Tells a plane what happens, until it is dropped.
    pub async fn follow(self: Arc<Self>, plane: Arc<Plane>) {
        let mut tasks = JoinSet::new();
        for kind in KindId::all() {
            tasks.spawn(follow(self.informers[kind.idx()].clone(), kind, Arc::clone(&plane)));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "rules are no longer followed");
            }
        }
    }
}

/// The resource of a kind.
pub fn resource(kind: KindId) -> ApiResource {
    let row = kind.kind();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(row.group, row.version, row.kind), row.plural)
}

async fn follow(informer: Informer<DynamicObject>, kind: KindId, plane: Arc<Plane>) {
    let mut changes = informer.subscribe();
    let mut revisions = informer.cache().watch_revision();
    let mut reach = informer.watch_reach();
    let mut is_synced = false;
    loop {
        is_synced |= *reach.borrow_and_update() == Reach::Synced;
        // Whatever is before this has been put among the changes already.
        let revision = *revisions.borrow_and_update() as i64;
        let mut heard = vec![];
        let mut is_all = false;
        while heard.len() < BATCH && !is_all {
            match changes.try_next() {
                Some(change) => heard.push(told(change)),
                None => is_all = true,
            }
        }
        plane.heard(kind, heard, (is_synced && is_all).then_some(revision));
        if !is_all {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => plane.heard(kind, vec![told(change)], None),
                None => return,
            },
            changed = revisions.changed() => if changed.is_err() { return },
            changed = reach.changed() => if changed.is_err() { return },
        }
    }
}

fn told(change: Change<DynamicObject>) -> Heard {
    match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => Heard::Is(object),
        Change::Deleted(object) => Heard::Gone(Key::of(&*object)),
    }
}

#[async_trait]
impl Source for Cluster {
    async fn catch_up(&self, kind: KindId) -> i64 {
        let informer = &self.informers[kind.idx()];
        informer.catch_up().await;
        informer.cache().revision() as i64
    }

    fn is_missing(&self, kind: KindId) -> bool {
        self.informers[kind.idx()].reach() == Reach::Missing
    }

    fn trouble(&self, kind: KindId) -> Option<String> {
        match self.informers[kind.idx()].reach() {
            Reach::Synced => None,
            Reach::Starting => Some("not everything has been seen yet".to_owned()),
            Reach::Missing => {
                Some("there is no such kind; \"windlass crds\" prints its definition".to_owned())
            }
            Reach::Failing(why) => Some(why),
        }
    }
}
