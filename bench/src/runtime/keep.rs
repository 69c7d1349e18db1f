//! Keeping the objects of a namespace: by kube's reflector, or by our informer.

use std::{
    collections::HashSet,
    hint::black_box,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use async_trait::async_trait;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, reflector, watcher},
};
use tokio_util::sync::CancellationToken;
use windlass_runtime::{
    Action, Controller, Informers, Key, ReconcileError, Reconciler, Scope, metrics::Metrics,
};

use crate::{
    args::{KeepArgs, Keeper},
    print,
    process::resident_bytes,
};

/// Longer than any list takes.
const LIMIT: Duration = Duration::from_secs(120);

/// Look-ups that are measured.
const LOOK_UPS: u32 = 200_000;

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Keeps the objects, and prints nanoseconds until all are there, bytes for them, and nanoseconds for a look-up.
pub(crate) async fn keep(args: &KeepArgs) -> anyhow::Result<()> {
    let KeepArgs { kubeconfig, namespace, by } = args;
    let client = client(kubeconfig).await?;
    // Whatever the first request sets up is not ours to count.
    client.apiserver_version().await?;
    let (before, begun) = (resident_bytes()?, Instant::now());
    let kept = match by {
        Keeper::Reflector => tokio::time::timeout(LIMIT, reflect(client, namespace)).await,
        Keeper::Informer | Keeper::Indexed => {
            let is_indexed = *by == Keeper::Indexed;
            tokio::time::timeout(LIMIT, inform(client, namespace, is_indexed)).await
        }
    };
    let (took, look_up, _kept) = kept.context("not everything was listed in time")??;
    let took = took.map_or_else(|| begun.elapsed(), |at| at - begun);
    let bytes = resident_bytes()?.saturating_sub(before);
    print(&format!("{} {bytes} {look_up}", took.as_nanos()))
}

/// How many names are looked up again and again.
const FEW_NAMES: usize = 1_000;

/// When all was there, how long a look-up takes, and what has to be kept for as long as it is measured.
type Found = (Option<Instant>, f64, Box<dyn Send>);

async fn reflect(client: Client, namespace: &str) -> anyhow::Result<Found> {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let (store, writer) = reflector::store();
    let stream = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    let task = tokio::spawn(stream.for_each(|_| async {}));
    store.wait_until_ready().await.map_err(|_| anyhow!("the reflector ended"))?;
    Ok((Some(Instant::now()), 0.0, Box::new((store, task))))
}

async fn inform(client: Client, namespace: &str, is_indexed: bool) -> anyhow::Result<Found> {
    let informers = Informers::new(client);
    let informer = informers.of::<ConfigMap>(&Scope::namespace(namespace));
    let cache = informer.cache().clone();
    if is_indexed {
        cache.add_index("name", |map: &ConfigMap| map.metadata.name.iter().cloned().collect());
    }
    informer.synced().await;
    let done = Instant::now();
    let mut look_up = 0.0;
    if is_indexed {
        let mut names = cache.index_values("name");
        // The same number among many as among few: it is about the index, and not about how much the processor remembers.
        names.truncate(FEW_NAMES);
        let mut random = fastrand::Rng::with_seed(7);
        let begun = Instant::now();
        for _ in 0..LOOK_UPS {
            let found = cache.by_index("name", &names[random.usize(..names.len())]);
            anyhow::ensure!(black_box(found).len() == 1, "every name is of one object");
        }
        look_up = begun.elapsed().as_nanos() as f64 / f64::from(LOOK_UPS);
    }
    Ok((Some(done), look_up, Box::new((informers, informer))))
}

struct Idle;

#[async_trait]
impl Reconciler for Idle {
    async fn reconcile(&self, _key: &Key) -> Result<Action, ReconcileError> {
        Ok(Action::Done)
    }
}

/// How many watches so many controllers of one kind open.
pub(super) async fn watches_of_controllers(kubeconfig: &Path, n_controllers: usize) -> anyhow::Result<usize> {
    let (informers, metrics, stop) =
        (Informers::new(client(kubeconfig).await?), Metrics::default(), CancellationToken::new());
    let controllers: Vec<Arc<Controller>> = (0..n_controllers)
        .map(|idx| {
            let maps = informers.of::<ConfigMap>(&Scope::namespace("few"));
            Arc::new(Controller::new(format!("idle-{idx}"), Idle, &metrics).reconciles(&maps))
        })
        .collect();
    let running: Vec<_> = controllers
        .iter()
        .map(|controller| {
            let (controller, stop) = (Arc::clone(controller), stop.clone());
            tokio::spawn(async move { controller.run(stop).await })
        })
        .collect();
    for controller in &controllers {
        tokio::time::timeout(LIMIT, controller.synced())
            .await
            .context("not everything was listed in time")?;
    }
    let names: HashSet<&str> = controllers.iter().map(|controller| controller.name()).collect();
    anyhow::ensure!(names.len() == n_controllers);
    let n_watches = informers.len();
    stop.cancel();
    for task in running {
        task.await?;
    }
    Ok(n_watches)
}
