//! Over real sockets: what depends on how requests and answers travel.

mod http2;
mod websocket;

use std::{net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use windlass_access::tokens::TokenFile;
use windlass_apiserver::{Authentication, Config, serve_plain};

use crate::client::{Client, DEADLINE};

/// What the administrator shows.
const TOKEN: &str = "canary-of-admin";

/// A server that listens.
struct Wire {
    client: Client,
    address: SocketAddr,
    tokens: Arc<ArcSwap<TokenFile>>,
    stop_tx: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl Wire {
    async fn start() -> Self {
        Self::with(Config::default()).await
    }

    async fn with(config: Config) -> Self {
        let tokens = token_file(&format!("{TOKEN},admin,1,\"system:masters\"\n"));
        let token_file = Some(Arc::clone(&tokens));
        let authentication = Authentication { token_file, ..config.authentication };
        let client = Client::with(Config { authentication, ..config }).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop_tx, stop_rx) = oneshot::channel::<()>();
        let server = Arc::clone(&client.server);
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stop_rx.await) };
            serve_plain(server, listener, None, stopped).await.expect("it serves");
        });
        Wire { client, address, tokens, stop_tx: Some(stop_tx), serving: Some(serving) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// Stops the server, and waits until it has.
    async fn stop(&mut self) {
        drop(self.stop_tx.take());
        let serving = self.serving.take().expect("it is stopped once");
        tokio::time::timeout(DEADLINE, serving).await.expect("it ends").expect("no panic");
    }

    /// How many watches there are of config maps.
    async fn n_watches(&self) -> u64 {
        let metrics = self.client.get("/metrics").await.text();
        let mut lines = metrics.lines().filter(|line| line.starts_with("apiserver_longrunning_requests{"));
        let line = lines.find(|line| line.contains("resource=\"configmaps\""));
        line.map_or(0, |line| line.rsplit_once(' ').expect("a value").1.parse().expect("a number"))
    }
}

fn token_file(text: &str) -> Arc<ArcSwap<TokenFile>> {
    let (file, _) = TokenFile::parse("tokens", text.as_bytes()).expect("a token file");
    Arc::new(ArcSwap::from_pointee(file))
}
