//! Something between a client and a Redis server that can cut, or hold back, what the client says.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
};

use crate::server::When;

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is cut off.
    Cut(When),
    /// It arrives when everything is over.
    Late,
    /// It arrives when it may, and everything goes on.
    Pause,
}

/// What several proxies count together.
pub(crate) struct Line {
    at: Mutex<Option<(usize, Fate)>>,
    n_requests: AtomicUsize,
    /// It has happened.
    pub(crate) happened: Notify,
    /// What is late may go on.
    release: watch::Sender<bool>,
    /// It has gone, or cannot any more.
    pub(crate) arrived: Notify,
}

impl Line {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Line {
            at: Mutex::new(None),
            n_requests: AtomicUsize::new(0),
            happened: Notify::new(),
            release: watch::channel(false).0,
            arrived: Notify::new(),
        })
    }

    pub(crate) fn set(&self, at: Option<(usize, Fate)>) {
        self.release.send_replace(false);
        self.n_requests.store(0, Ordering::SeqCst);
        *self.at.lock() = at;
    }

    pub(crate) fn release(&self) {
        self.release.send_replace(true);
    }

    fn next(&self) -> Option<Fate> {
        let idx = self.n_requests.fetch_add(1, Ordering::SeqCst);
        self.at.lock().and_then(|(at, fate)| (at == idx).then_some(fate))
    }

    /// Listens for clients of a server. The address to go to instead.
    pub(crate) async fn before(self: &Arc<Self>, address: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own = listener.local_addr().expect("an address").to_string();
        let line = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect(&address).await.expect("the server is there");
                tokio::spawn(pass(Arc::clone(&line), client, upstream));
            }
        });
        own
    }
}

/// Passes requests and replies on. They alternate: a client waits for the replies to what it said.
async fn pass(line: Arc<Line>, client: TcpStream, upstream: TcpStream) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    let answers = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut request = vec![0; 1 << 20];
    while let Ok(length @ 1..) = from_client.read(&mut request).await {
        match line.next() {
            None => {
                if to_server.write_all(&request[..length]).await.is_err() {
                    break;
                }
            }
            Some(Fate::Pause) => {
                line.happened.notify_one();
                let _ = line.release.subscribe().wait_for(|may_go| *may_go).await;
                if to_server.write_all(&request[..length]).await.is_err() {
                    break;
                }
            }
            Some(Fate::Cut(when)) => {
                // Nobody hears the answer.
                answers.abort();
                if when == When::After {
                    let _ = to_server.write_all(&request[..length]).await;
                    let _ = to_server.shutdown().await;
                }
                line.happened.notify_one();
                return;
            }
            Some(Fate::Late) => {
                line.happened.notify_one();
                let _ = line.release.subscribe().wait_for(|may_go| *may_go).await;
                let _ = to_server.write_all(&request[..length]).await;
                let _ = to_server.shutdown().await;
                // The server ends the connection when it has done what it was told, or before.
                let _ = answers.await;
                line.arrived.notify_one();
                return;
            }
        }
    }
    answers.abort();
}
