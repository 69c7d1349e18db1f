//! Listeners: who is taken in, and how many.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    time::Instant,
};
use windlass_access::localhost::Guard;

use super::{
    connection::{Entrance, Tls, connection},
    guests::{Guests, LOOK},
};
use crate::server::ApiServer;

/// How long requests may take to finish once the server stops.
const DRAIN: Duration = Duration::from_secs(30);

/// How long to leave the system alone that has no more descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// How often it is said that connections cannot be accepted.
const COMPLAINTS: Duration = Duration::from_secs(10);

/// Serves with TLS until `shutdown`, then lets requests finish. Each new connection gets the newest configuration.
pub async fn serve(
    server: Arc<ApiServer>,
    listener: TcpListener,
    tls: watch::Receiver<Tls>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let n_slots = server.config.max_connections;
    run(server, listener, Entrance::Tls(tls), n_slots, shutdown).await
}

/// Serves without TLS until `shutdown`, then lets requests finish. With a guard, every request has to pass it, and
/// whoever does and shows nothing is the local user.
pub async fn serve_plain(
    server: Arc<ApiServer>,
    listener: TcpListener,
    guard: Option<Guard>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let n_slots = server.config.max_connections / 7;
    run(server, listener, Entrance::Plain(guard), n_slots, shutdown).await
}

async fn run(
    server: Arc<ApiServer>,
    listener: TcpListener,
    entrance: Entrance,
    n_slots: usize,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let n_slots = u32::try_from(n_slots).unwrap_or(u32::MAX).max(1);
    let slots = Arc::new(Semaphore::new(n_slots as usize));
    // Half of the room is left to others, whatever one address does.
    let guests = Guests::new(n_slots as usize / 2);
    let (stop_tx, stop_rx) = watch::channel(false);
    let looking = Looking(tokio::spawn(look(Arc::clone(&guests), stop_rx.clone())));
    let mut complained: Option<Instant> = None;
    tokio::pin!(shutdown);
    loop {
        let slot = tokio::select! {
            () = &mut shutdown => break,
            slot = Arc::clone(&slots).acquire_owned() => slot,
        };
        let (stream, address) = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, or a connection that is gone already: neither ends the server.
                    if complained.is_none_or(|at| at.elapsed() >= COMPLAINTS) {
                        complained = Some(Instant::now());
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let (server, entrance, stop_rx) = (Arc::clone(&server), entrance.clone(), stop_rx.clone());
        let seat = guests.enter(address.ip());
        tokio::spawn(async move {
            connection(server, entrance, stream, address, Arc::new(seat), stop_rx).await;
            drop(slot);
        });
    }
    drop(listener);
    server.begin_drain();
    let _ = stop_tx.send(true);
    let drained = slots.acquire_many(n_slots);
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("some requests did not finish within {} s of the stop", DRAIN.as_secs());
    }
    drop(looking);
    Ok(())
}

/// Looks at everyone now and then.
async fn look(guests: Arc<Guests>, stop_rx: watch::Receiver<bool>) {
    loop {
        let is_stopping = *stop_rx.borrow();
        tokio::time::sleep(if is_stopping { LOOK.1 } else { LOOK.0 }).await;
        guests.look(is_stopping);
    }
}

/// Ends the look when nobody serves any more.
struct Looking(tokio::task::JoinHandle<()>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.abort();
    }
}
