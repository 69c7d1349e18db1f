//! The bodies of requests. They are read before a request takes a seat, so that whoever sends slowly keeps nobody else from
//! one; and kept in memory until it is answered. So what everyone has under way is bounded, and what all have together:
//! whoever wants more waits, and what they send stays where it is.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    server::ApiServer,
    status::{Outcome, Status},
};

/// Most bytes of a body.
pub(super) const MOST_BODY: usize = 3 * 1024 * 1024;

/// What is counted, in bytes; how much of it one user may have under way, which is ten of the largest bodies or thousands
/// of usual ones; and how much all may have.
const UNIT: usize = 4 * 1024;
const MOST_OF_ONE: usize = 32 * 1024 * 1024 / UNIT;
const MOST_OF_ALL: usize = 512 * 1024 * 1024 / UNIT;

/// How many bytes of a body have to come in how long, unless it ends. A slow line is no reason to give up; one on which
/// nothing moves is, and one on which a body will not have come when its time is over.
const PROGRESS: (usize, Duration) = (4096, Duration::from_secs(8));

/// How long it may take once the server stops.
const WITHIN_AT_STOP: Duration = Duration::from_secs(2);

/// What of a body is read that nobody wants: as long as so many bytes come in so long, and up to so many in all. A client
/// that is still sending when its stream is reset or its connection closed does not see the answer.
const DRAINED: (usize, Duration) = (64 * 1024, Duration::from_secs(1));
const MAX_DRAINED: usize = 16 * 1024 * 1024;

/// What a client sends. What has not been read of it when it is dropped is read and thrown away while the answer is on its
/// way, so that early answers arrive whatever the client does.
pub(crate) struct Sent<B: http_body::Body<Data = Bytes> + Send + 'static> {
    /// Nothing when there is none, or all of it has been read.
    body: Option<Pin<Box<B>>>,
    /// Whether the client waits to be asked for it, and has not been. It has its answer then, and sends nothing.
    waits: bool,
}

impl<B: http_body::Body<Data = Bytes> + Send + 'static> Sent<B> {
    pub(crate) fn new(body: B, waits: bool) -> Self {
        Sent { body: (!body.is_end_stream()).then(|| Box::pin(body)), waits }
    }
}

impl<B: http_body::Body<Data = Bytes> + Send + 'static> Drop for Sent<B> {
    fn drop(&mut self) {
        if let (Some(body), false) = (self.body.take(), self.waits)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(drain(body));
        }
    }
}

/// The bodies that are under way.
#[derive(Debug)]
pub(crate) struct Bodies {
    all: Arc<Semaphore>,
    users: Mutex<Users>,
}

/// What is left to each user who has something under way.
#[derive(Debug, Default)]
struct Users {
    by_name: HashMap<String, Weak<Semaphore>>,
    /// When there are so many, those who have nothing under way any more are forgotten.
    most: usize,
}

/// Room for a body, until this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Default for Bodies {
    fn default() -> Self {
        Bodies { all: Arc::new(Semaphore::new(MOST_OF_ALL)), users: Mutex::default() }
    }
}

impl Bodies {
    /// Waits until there is room for so many bytes of a user.
    async fn room(&self, user: &str, n_bytes: usize) -> Option<Room> {
        let units = u32::try_from(n_bytes.div_ceil(UNIT)).ok()?;
        let own = self.of(user).acquire_many_owned(units).await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(units).await.ok()?;
        Some(Room { _own: own, _all: all })
    }

    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock();
        if let Some(known) = users.by_name.get(user).and_then(Weak::upgrade) {
            return known;
        }
        if users.by_name.len() >= users.most {
            users.by_name.retain(|_, own| own.strong_count() > 0);
            users.most = (2 * users.by_name.len()).max(64);
        }
        let new = Arc::new(Semaphore::new(MOST_OF_ONE));
        users.by_name.insert(user.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// Reads the body that a user sends, in the time that there is for it; with the room that it takes.
pub(crate) async fn read<B>(
    server: &ApiServer,
    user: &str,
    mut sent: Sent<B>,
    within: Duration,
) -> Outcome<(Bytes, Option<Room>)>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let Some(body) = &mut sent.body else { return Ok((Bytes::new(), None)) };
    let size = body.size_hint();
    if size.lower() > MOST_BODY as u64 {
        return Err(too_large());
    }
    let until = Instant::now() + within;
    let most =
        size.upper().map_or(MOST_BODY, |most| usize::try_from(most).unwrap_or(MOST_BODY).min(MOST_BODY));
    let mut draining = server.draining();
    let stopped = async {
        let _ = draining.wait_for(|draining| *draining).await;
        tokio::time::sleep(WITHIN_AT_STOP).await;
    };
    let whole = async {
        let Ok(room) = timeout(PROGRESS.1.min(within), server.bodies.room(user, most)).await else {
            let text = "too much is being sent at once, please try again later";
            return Err(Status::too_many_requests(text, 1));
        };
        let declared = size.exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        sent.waits = false;
        let bytes = timeout_at(until, collect(body.as_mut(), progress(declared, within))).await;
        let late = |_| Status::timeout("request did not complete within the allotted timeout", 1);
        Ok((bytes.map_err(late)??, room))
    };
    let read = tokio::select! {
        biased;
        read = whole => read?,
        () = stopped => return Err(Status::unavailable("the server is shutting down")),
    };
    sent.body = None;
    Ok(read)
}

fn too_large() -> Box<Status> {
    Status::too_large(format!("limit is {MOST_BODY}"))
}

/// How many bytes have to come at a time: half of what would do, for a line may be slow in the beginning.
fn progress(declared: usize, within: Duration) -> usize {
    let share = PROGRESS.1.as_secs_f64() / within.as_secs_f64().max(1.0);
    PROGRESS.0.max((declared as f64 * share.min(1.0) / 2.0) as usize)
}

/// Reads what is not wanted, as long as it comes at a pace and is not too much.
async fn drain<B: http_body::Body<Data = Bytes>>(mut body: Pin<Box<B>>) {
    let mut n_bytes = 0;
    while n_bytes < MAX_DRAINED {
        let wanted = n_bytes + DRAINED.0;
        let some = async {
            while n_bytes < wanted {
                let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await?.ok()?;
                n_bytes += frame.data_ref().map_or(0, Bytes::len);
            }
            Some(())
        };
        if !matches!(timeout(DRAINED.1, some).await, Ok(Some(()))) {
            return;
        }
    }
}

/// Reads a body up to the limit, if it comes at a pace.
async fn collect<B>(mut body: Pin<&mut B>, progress: usize) -> Outcome<Bytes>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let (mut until, mut wanted) = (Instant::now() + PROGRESS.1, progress);
    loop {
        let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx));
        let frame = timeout_at(until, frame)
            .await
            .map_err(|_| Status::timeout("the body of the request did not arrive in time", 1))?;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|error| Status::bad_request(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > MOST_BODY {
            return Err(too_large());
        }
        match (first.is_empty(), all.is_empty()) {
            // Small bodies come in one piece, which need not be copied.
            (true, true) => first = data,
            (false, true) => {
                all.extend_from_slice(&first);
                first = Bytes::new();
                all.extend_from_slice(&data);
            }
            _ => all.extend_from_slice(&data),
        }
        if first.len() + all.len() >= wanted {
            until = Instant::now() + PROGRESS.1;
            wanted = first.len() + all.len() + progress;
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}
