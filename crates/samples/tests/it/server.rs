//! A real API server without a network, that can be cut off at a write.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use windlass_access::authn::Peer;
use windlass_apiserver::{ApiServer, Config, admission::User};
use windlass_runtime::{
    Action, Key, Reconciler,
    phase::{Machine, PhaseReconciler},
};
use windlass_samples::redis_migration::{self, RedisMigration, RedisMigrationSpec};
use windlass_store::Memory;

use crate::redis::DEADLINE;

/// Where something is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Nothing of it happens.
    Before,
    /// It happens, and nobody hears of it.
    After,
}

/// Where a client is cut off.
#[derive(Default)]
pub(crate) struct Cut {
    at: Mutex<Option<(usize, When)>>,
    n_writes: AtomicUsize,
    /// It has happened.
    pub(crate) happened: Notify,
}

impl Cut {
    pub(crate) fn set(&self, at: Option<(usize, When)>) {
        self.n_writes.store(0, Ordering::SeqCst);
        *self.at.lock() = at;
    }

    fn next(&self) -> Option<When> {
        let idx = self.n_writes.fetch_add(1, Ordering::SeqCst);
        self.at.lock().and_then(|(at, when)| (at == idx).then_some(when))
    }
}

#[derive(Clone)]
struct Direct {
    server: Arc<ApiServer>,
    user: Arc<User>,
    cut: Arc<Cut>,
}

impl tower::Service<Request<Body>> for Direct {
    type Response = Response<windlass_apiserver::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Direct { server, user, cut } = self.clone();
        request.extensions_mut().insert(Peer { certificate: Some(user), ..Peer::default() });
        Box::pin(async move {
            let is_write = request.method() == Method::PUT;
            let when = if is_write { cut.next() } else { None };
            if when != Some(When::Before) {
                let response = server.handle(request).await;
                if when.is_none() {
                    return Ok(response);
                }
            }
            cut.happened.notify_one();
            std::future::pending().await
        })
    }
}

/// A server that knows the kind.
pub(crate) struct Server {
    pub(crate) client: kube::Client,
    pub(crate) cut: Arc<Cut>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let store = Arc::new(Memory::new().expect("a store in memory"));
        let server = ApiServer::start(Config::default(), store).await.expect("the server starts");
        let user = Arc::new(User::new("admin", vec!["system:masters".to_owned()]).authenticated());
        let cut = Arc::new(Cut::default());
        let client = kube::Client::new(Direct { server, user, cut: Arc::clone(&cut) }, "default");
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        crds.create(&PostParams::default(), &redis_migration::definition())
            .await
            .expect("the kind is created");
        let server = Server { client, cut };
        let api = server.migrations();
        let served = async {
            while api.list(&Default::default()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, served).await.expect("the kind is served");
        server
    }

    pub(crate) fn migrations(&self) -> Api<RedisMigration> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a migration.
    pub(crate) async fn create(&self, name: &str, source: &str, dest: &str, batch_size: u32) {
        let (source, dest) = (source.to_owned(), dest.to_owned());
        let batch_size = Some(batch_size);
        self.create_with(
            name,
            RedisMigrationSpec { source, dest, batch_size, ..RedisMigrationSpec::default() },
        )
        .await;
    }

    /// The same, with whatever there is to say.
    pub(crate) async fn create_with(&self, name: &str, spec: RedisMigrationSpec) {
        let object = RedisMigration::new(name, spec);
        self.migrations().create(&PostParams::default(), &object).await.expect("it is created");
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.migrations().patch(name, &params, &Patch::Merge(patch)).await.expect("it is patched");
    }

    pub(crate) async fn get(&self, name: &str) -> RedisMigration {
        self.migrations().get(name).await.expect("it is there")
    }

    pub(crate) fn machine() -> Machine<RedisMigration> {
        redis_migration::machine().expect("the machine makes sense")
    }

    /// A new process that looks after a migration until there is nothing to do. Waits pass in no time.
    pub(crate) async fn run(&self, name: &str) {
        run(self.client.clone(), name.to_owned()).await;
    }
}

/// The same, to be spawned.
pub(crate) async fn run(client: kube::Client, name: String) {
    let passed = Arc::new(Mutex::new(Duration::ZERO));
    let ahead = Arc::clone(&passed);
    let clock = move || jiff::Timestamp::now() + *ahead.lock();
    let reconciler = PhaseReconciler::new(Server::machine(), client).clock(clock);
    let key = Key::new("default", &name);
    let looks = async {
        while let Action::After(wait) = reconciler.reconcile(&key).await.expect("it goes well") {
            *passed.lock() += wait;
        }
    };
    tokio::time::timeout(DEADLINE, looks).await.expect("it comes to rest");
}
