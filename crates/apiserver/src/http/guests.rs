//! Everyone who is connected: who is known, who is idle, who does not read, who wastes our time.
//!
//! A connection is a [`Guest`]. Requests only count on it: nobody is woken and no timer is set for one. Once a second
//! [`Guests::look`] goes through all of them and tells those that have to end. Nobody is cut for being slow, only for
//! not moving at all. Strangers, who have not yet shown who they are, have less time, and those of one address cannot
//! take all the room: the one that has been there longest goes when one more comes.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, Ipv6Addr},
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::Instant,
};

#[cfg(test)]
mod tests;

/// How long a connection without requests is kept.
const IDLE: Duration = Duration::from_secs(90);

/// The same for strangers. Enough for a handshake and a first request over a bad line.
const IDLE_STRANGER: Duration = Duration::from_secs(6);

/// How long a client may take from the first byte of a request over HTTP/1.1 to the end of its head.
const HEAD: Duration = Duration::from_secs(8);

/// How long a client may leave what it was given unread before it is cut off. With the time between looks it is below
/// ten seconds, and above what a line takes that lost a few packets in a row.
const STALLED: Duration = Duration::from_secs(8);

/// The same, once the server stops.
const STALLED_AT_STOP: Duration = Duration::from_secs(2);

/// How long a client may take to hang up after it has been told to, when it has nothing left to wait for.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often everyone is looked at, and the same once the server stops.
pub(super) const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(250));

/// Requests that a client may take back at once, and how many more every second. Controllers that end their watches
/// stay below it; resetting streams as fast as they can be opened does not.
const TAKEN_BACK: (u32, u32) = (400, 100);

/// Bodies of a connection that are remembered before those that are gone are forgotten.
const BODIES: usize = 16;

/// All connections of a listener.
pub(super) struct Guests {
    /// Strangers that one address may have.
    most_strangers: usize,
    present: Mutex<Present>,
}

#[derive(Default)]
struct Present {
    n_came: u64,
    everyone: HashMap<u64, Arc<Guest>>,
    /// The strangers of each address, the oldest first.
    strangers: HashMap<IpAddr, BTreeMap<u64, Arc<Guest>>>,
}

impl Guests {
    pub(super) fn new(most_strangers: usize) -> Arc<Self> {
        Arc::new(Guests { most_strangers: most_strangers.max(1), present: Mutex::default() })
    }

    /// Takes in a stranger. If there are too many of that address, the first of them goes.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Seat {
        let place = place(address);
        let guest = Arc::new(Guest::new());
        let mut present = self.present.lock();
        let Present { n_came, everyone, strangers } = &mut *present;
        *n_came += 1;
        let id = *n_came;
        everyone.insert(id, Arc::clone(&guest));
        let strangers = strangers.entry(place).or_default();
        strangers.insert(id, Arc::clone(&guest));
        if strangers.len() > self.most_strangers
            && let Some((_, oldest)) = strangers.pop_first()
        {
            oldest.order(Order::Cut);
        }
        drop(present);
        Seat { guests: Arc::clone(self), id, place, guest }
    }

    /// Looks at everyone, and tells those who have to end.
    pub(super) fn look(&self, is_stopping: bool) {
        let now = Instant::now();
        let present = self.present.lock();
        for guest in present.everyone.values() {
            guest.look(now, is_stopping);
        }
    }

    fn know(&self, id: u64, place: IpAddr) {
        let mut present = self.present.lock();
        if let Some(strangers) = present.strangers.get_mut(&place) {
            strangers.remove(&id);
            if strangers.is_empty() {
                present.strangers.remove(&place);
            }
        }
    }
}

/// Addresses that are one as far as room is concerned: who has one address of IPv6 has its whole network.
fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
        four => four,
    }
}

/// The place of a guest, given back when dropped.
pub(super) struct Seat {
    guests: Arc<Guests>,
    id: u64,
    place: IpAddr,
    pub(super) guest: Arc<Guest>,
}

impl Seat {
    /// The guest has shown who it is.
    pub(super) fn know(&self) {
        if !self.guest.is_known.swap(true, Ordering::Relaxed) {
            self.guests.know(self.id, self.place);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.guests.know(self.id, self.place);
        self.guests.present.lock().everyone.remove(&self.id);
    }
}

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Go on.
    Stay,
    /// Take no more requests, and end once those under way have ended.
    Leave,
    /// End at once.
    Cut,
}

/// A connection.
pub(super) struct Guest {
    is_known: AtomicBool,
    /// Whether it speaks HTTP/1.1, where bytes without a request are the beginning of one.
    is_http1: AtomicBool,
    /// Whether bytes have come since the last request.
    was_heard: AtomicBool,
    n_busy: AtomicUsize,
    n_begun: AtomicUsize,
    bodies: Mutex<Vec<Weak<Handed>>>,
    order: AtomicU8,
    told: Notify,
    seen: Mutex<Seen>,
}

/// What the last look has found.
struct Seen {
    n_begun: usize,
    /// Since when nothing goes on.
    idle_since: Instant,
    /// Since when a request has begun that has not come.
    head_since: Option<Instant>,
    leaving_since: Option<Instant>,
    /// How many requests may still be taken back, and as of when.
    may_take_back: (u32, Instant),
}

impl Guest {
    fn new() -> Self {
        let now = Instant::now();
        Guest {
            is_known: AtomicBool::new(false),
            is_http1: AtomicBool::new(false),
            was_heard: AtomicBool::new(false),
            n_busy: AtomicUsize::new(0),
            n_begun: AtomicUsize::new(0),
            bodies: Mutex::default(),
            order: AtomicU8::new(Order::Stay as u8),
            told: Notify::new(),
            seen: Mutex::new(Seen {
                n_begun: 0,
                idle_since: now,
                head_since: None,
                leaving_since: None,
                may_take_back: (TAKEN_BACK.0, now),
            }),
        }
    }

    /// Bytes have come.
    fn hear(&self) {
        if !self.was_heard.load(Ordering::Relaxed) {
            self.was_heard.store(true, Ordering::Relaxed);
        }
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>, is_http1: bool) -> Busy {
        self.is_http1.store(is_http1, Ordering::Relaxed);
        self.was_heard.store(false, Ordering::Relaxed);
        self.n_busy.fetch_add(1, Ordering::Relaxed);
        self.n_begun.fetch_add(1, Ordering::Relaxed);
        Busy { guest: Arc::clone(self), is_done: false }
    }

    /// Tells the connection what to do. What is worse holds.
    pub(super) fn order(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::Relaxed) < order as u8 {
            self.told.notify_one();
        }
    }

    /// Waits for an order that is new.
    pub(super) async fn told(&self) -> Order {
        self.told.notified().await;
        match self.order.load(Ordering::Relaxed) {
            0 => Order::Stay,
            1 => Order::Leave,
            _ => Order::Cut,
        }
    }

    fn is_busy(&self) -> bool {
        self.n_busy.load(Ordering::Relaxed) > 0
    }

    fn look(&self, now: Instant, is_stopping: bool) {
        let patience = if is_stopping { STALLED_AT_STOP } else { STALLED };
        if self.is_stalled(now, patience) {
            return self.order(Order::Cut);
        }
        let n_begun = self.n_begun.load(Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if self.is_busy() || n_begun != seen.n_begun {
            (seen.n_begun, seen.idle_since, seen.head_since) = (n_begun, now, None);
        } else if self.is_http1.load(Ordering::Relaxed) && self.was_heard.load(Ordering::Relaxed) {
            let since = *seen.head_since.get_or_insert(now);
            if now.duration_since(since) >= HEAD {
                return self.order(Order::Cut);
            }
        }
        let is_leaving = is_stopping || self.order.load(Ordering::Relaxed) >= Order::Leave as u8;
        if is_leaving {
            let since = *seen.leaving_since.get_or_insert(now);
            let idle_for = now.duration_since(seen.idle_since.max(since));
            if idle_for >= FAREWELL {
                self.order(Order::Cut);
            }
            return;
        }
        let long = if self.is_known.load(Ordering::Relaxed) { IDLE } else { IDLE_STRANGER };
        if now.duration_since(seen.idle_since) >= long {
            self.order(Order::Leave);
        }
    }

    /// Keeps the connection busy until the body has been sent.
    pub(super) fn track(&self, body: super::Body, busy: Busy) -> Tracked {
        // Until it is asked for the first piece, it is the client that does not let us send.
        let handed = Arc::new(Handed(Mutex::new(Some(Instant::now()))));
        let mut bodies = self.bodies.lock();
        // On a busy connection thousands come and go before anyone looks for those that stall.
        if bodies.len() >= BODIES && bodies.len() == bodies.capacity() {
            bodies.retain(|body| body.strong_count() > 0);
        }
        bodies.push(Arc::downgrade(&handed));
        Tracked { body, handed, busy }
    }

    /// Whether a body has had a piece lying unread for this long.
    fn is_stalled(&self, now: Instant, patience: Duration) -> bool {
        let mut stalled = false;
        self.bodies.lock().retain(|body| {
            let Some(body) = body.upgrade() else { return false };
            stalled |= body.0.lock().is_some_and(|at| now.saturating_duration_since(at) >= patience);
            true
        });
        stalled
    }

    /// A request was taken back before it was answered.
    fn take_back(&self) {
        let now = Instant::now();
        let mut seen = self.seen.lock();
        let (left, at) = seen.may_take_back;
        let seconds = now.duration_since(at).as_secs();
        let earned = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(TAKEN_BACK.1);
        let left = left.saturating_add(earned).min(TAKEN_BACK.0);
        seen.may_take_back = (left.saturating_sub(1), at + Duration::from_secs(seconds));
        drop(seen);
        if left == 0 {
            self.order(Order::Cut);
        }
    }
}

/// When the last piece of a body was handed over, as long as no other one is asked for.
struct Handed(Mutex<Option<Instant>>);

/// A request that is being answered.
pub(super) struct Busy {
    guest: Arc<Guest>,
    is_done: bool,
}

impl Busy {
    /// The answer is out, or nobody wants its body.
    pub(super) fn done(&mut self) {
        self.is_done = true;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.guest.was_heard.store(false, Ordering::Relaxed);
        self.guest.n_busy.fetch_sub(1, Ordering::Relaxed);
        if !self.is_done {
            self.guest.take_back();
        }
    }
}

/// A stream that tells when something is heard over it.
pub(super) struct Heard<S> {
    stream: S,
    guest: Arc<Guest>,
}

impl<S> Heard<S> {
    /// `is_http1` if that is known before the first request.
    pub(super) fn new(stream: S, guest: &Arc<Guest>, is_http1: bool) -> Self {
        guest.is_http1.store(is_http1, Ordering::Relaxed);
        Heard { stream, guest: Arc::clone(guest) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.guest.hear();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A body that keeps its connection busy.
pub(super) struct Tracked {
    body: super::Body,
    handed: Arc<Handed>,
    busy: Busy,
}

impl http_body::Body for Tracked {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let was_given = matches!(polled, Poll::Ready(Some(_)));
        *self.handed.0.lock() = was_given.then(Instant::now);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.busy.done();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
