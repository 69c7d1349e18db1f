//! The server that is measured: a process of ours that is started and ended, or any other one.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use http::Method;

use super::{
    client::Endpoint,
    kubeconfig,
    objects::{self, collection},
};
use crate::process::{Process, resident_bytes_of};

/// A server of ours.
pub(crate) struct Server {
    process: Process,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Server {
    /// Starts `program` over `data`; returns how long it took until it answered that it is ready.
    pub(crate) async fn start(program: &Path, data: &Path) -> anyhow::Result<(Self, Duration)> {
        // What is measured is how fast it is, not whom it turns away.
        Self::start_with(program, data, ["0", "0"]).await
    }

    /// The same with so many seats for requests that read, and that write.
    pub(crate) async fn start_with(
        program: &Path,
        data: &Path,
        [reads, writes]: [&str; 2],
    ) -> anyhow::Result<(Self, Duration)> {
        let mut command = Command::new(program);
        // Controllers are clients, and not what is measured here.
        command
            .args(["apiserver", "--without-housekeeping", "--secure-port", "0"])
            .arg("--data-dir")
            .arg(data);
        command.args(["--max-requests-inflight", reads, "--max-mutating-requests-inflight", writes]);
        let begun = Instant::now();
        let mut process = Process::spawn_to_read(&mut command)
            .with_context(|| format!("starting {}", program.display()))?;
        while !process.line().context("the server did not become ready")?.contains("is ready") {}
        let access = kubeconfig::read(&data.join("admin.kubeconfig"))?;
        let endpoint = Endpoint::new(&access, Some(process.id()))?;
        endpoint.connect().await?.fetch(endpoint.get("/readyz")).await?;
        let took = begun.elapsed();
        Ok((Server { process, endpoint: Arc::new(endpoint) }, took))
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        resident_bytes_of(&self.process.id().to_string())
    }

    /// Ends it in good order.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.process.end()
    }
}

/// Where the load goes.
pub(crate) struct Target {
    pub(crate) endpoint: Arc<Endpoint>,
    /// A namespace that nobody else uses.
    pub(crate) namespace: String,
    server: Option<Server>,
}

impl Target {
    /// A server of ours with nothing in it.
    pub(crate) async fn own(program: &Path, data: &Path) -> anyhow::Result<Self> {
        let (server, _) = Server::start(program, data).await?;
        let namespace = "bench".to_owned();
        objects::create_namespace(&server.endpoint, &namespace).await?;
        Ok(Target { endpoint: server.endpoint.clone(), namespace, server: Some(server) })
    }

    /// The server that `kubeconfig` leads to.
    pub(crate) async fn other(kubeconfig: &Path, part: &str) -> anyhow::Result<Self> {
        let endpoint = Arc::new(Endpoint::new(&kubeconfig::read(kubeconfig)?, None)?);
        let namespace = format!("windlass-bench-{part}-{}", std::process::id());
        objects::create_namespace(&endpoint, &namespace).await?;
        Ok(Target { endpoint, namespace, server: None })
    }

    /// Ends a server of ours; leaves nothing behind in another one.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        let Target { endpoint, namespace, server } = self;
        if let Some(server) = server {
            return server.end();
        }
        let mut connection = endpoint.connect().await?;
        for path in [collection(&namespace), format!("/api/v1/namespaces/{namespace}")] {
            connection.fetch(endpoint.ask(Method::DELETE, &path, "", "")).await?;
        }
        Ok(())
    }
}

/// The server beside this program, unless another one is asked for.
pub(crate) fn program(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let program = match asked {
        Some(path) => path.to_owned(),
        None => crate::process::program("windlass")?,
    };
    if !program.is_file() {
        let path = program.display();
        bail!(
            "there is no {path}: build it with `cargo build --release -p windlass`, or name one with --server"
        );
    }
    Ok(program)
}
