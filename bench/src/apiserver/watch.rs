//! Watching: how long a change takes from the moment it is asked for until each of many watchers has it.
//!
//! Watchers with a connection of their own read it without an HTTP library: theirs is most of the work that the
//! machine has to do, and it should be the server's. Watchers that share connections are streams of HTTP/2.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::{Arc, mpsc},
    task::ready,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use memchr::memmem::Finder;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    task::LocalSet,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::client::TlsStream;

use super::{
    Bench,
    bare::Bare,
    client::{Answer, Endpoint},
    objects::{self, JSON, MARK, MARK_DIGITS, collection, config_map},
    target::Target,
};
use crate::{
    args::ApiPart,
    report::{Goal, Outcome, Section, Table},
    say,
    stats::{Latencies, count, median, time},
};

/// Time between two changes: a hundred a second.
const PACE: Duration = Duration::from_millis(10);

/// Objects that are changed, one after the other.
const OBJECTS: usize = 10;

/// Watches that share a connection. Servers allow one or two hundred.
const STREAMS: usize = 100;

/// How long the last change may take to arrive.
const LATE: Duration = Duration::from_secs(20);

/// Bytes read at a time: as much as one record of TLS holds.
const READ: usize = 16 << 10;

/// How watchers are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One connection each.
    Alone,
    /// Streams of few connections.
    Shared,
}

/// What one turn showed.
#[derive(Clone, Copy, Debug)]
struct Fan {
    p50: f64,
    p99: f64,
    slowest: f64,
    /// Nanoseconds of the server's processor for each change and watcher.
    processor: f64,
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let target = bench.target(ApiPart::Watch).await?;
    let path = collection(&target.namespace);
    let mut connection = target.endpoint.connect().await?;
    for idx in 0..OBJECTS {
        connection.fetch(objects::create(&target.endpoint, &path, &objects::name(idx), idx)).await?;
    }
    drop(connection);
    let many = bench.scale.watchers;
    let cases = [(Shape::Alone, 1), (Shape::Alone, many), (Shape::Shared, many)];
    let (mut fans, mut bare_fans) = (vec![vec![]; cases.len()], vec![vec![]; cases.len()]);
    // It answers changes with nothing.
    let bare = Bare::start(&bench.folder("bare-watch")?)?;
    let mut base = 0;
    // One turn is two seconds of a hundred thousand deliveries each: three are enough.
    let turns = bench.scale.turns.min(3);
    for turn in 1..=turns {
        for ((shape, watchers), (fans, bare_fans)) in cases.iter().zip(fans.iter_mut().zip(&mut bare_fans)) {
            say(&format!("watch: measuring {watchers} watchers ({}), turn {turn} of {turns}…", shape.text()));
            base += 1_000_000;
            let watch = watch_path(&target).await?;
            let ours = Source { endpoint: &target.endpoint, collection: &path, watch };
            fans.push(fan_out(bench, &ours, *shape, *watchers, base).await?);
            base += 1_000_000;
            let bare = Source { endpoint: &bare.endpoint, collection: &path, watch: "/?watch=1".to_owned() };
            bare_fans.push(fan_out(bench, &bare, *shape, *watchers, base).await?);
        }
    }
    target.end().await?;
    Ok(report(bench, &cases, &fans, &bare_fans))
}

impl Shape {
    fn text(self) -> &'static str {
        match self {
            Shape::Alone => "a connection each",
            Shape::Shared => "100 to a connection",
        }
    }
}

/// Where changes are made, and where they are watched.
struct Source<'a> {
    endpoint: &'a Arc<Endpoint>,
    collection: &'a str,
    watch: String,
}

/// Lets watchers watch while changes are made, numbered from `base`.
async fn fan_out(
    bench: &Bench,
    source: &Source<'_>,
    shape: Shape,
    watchers: usize,
    base: u64,
) -> anyhow::Result<Fan> {
    let changes = bench.scale.changes;
    let n_threads = thread::available_parallelism().map_or(1, usize::from).min(watchers);
    let (ready_tx, ready_rx) = mpsc::channel();
    let threads: Vec<_> = (0..n_threads)
        .map(|idx| {
            let crowd = Crowd {
                endpoint: source.endpoint.clone(),
                path: source.watch.clone(),
                watchers: (idx..watchers).step_by(n_threads).count(),
                changes,
                shape,
            };
            let ready_tx = ready_tx.clone();
            thread::spawn(move || crowd.watch(ready_tx))
        })
        .collect();
    drop(ready_tx);
    let n_ready = tokio::task::spawn_blocking(move || ready_rx.iter().take(n_threads).count()).await?;
    let before = source.endpoint.processor_nanos();
    let sent = match n_ready == n_threads {
        true => change(source, changes, base).await?,
        // The thread that gave up says why below.
        false => vec![],
    };
    let arrivals = tokio::task::spawn_blocking(move || {
        let mut arrivals = vec![];
        for thread in threads {
            arrivals.extend(thread.join().map_err(|_| anyhow!("a watcher panicked"))??);
        }
        anyhow::Ok(arrivals)
    })
    .await??;
    let after = source.endpoint.processor_nanos();
    let expected = watchers * changes;
    ensure!(arrivals.len() == expected, "{} of {expected} changes arrived", arrivals.len());
    let mut latencies = Latencies::default();
    for (seq, arrived) in arrivals {
        let sent = sent.get((seq - base) as usize).context("a change arrived that nobody made")?;
        latencies.push(arrived.saturating_duration_since(*sent));
    }
    let processor = before.zip(after).map_or(0, |(before, after)| after.saturating_sub(before));
    Ok(Fan {
        p50: latencies.quantile(0.5),
        p99: latencies.quantile(0.99),
        slowest: latencies.quantile(1.0),
        processor: processor as f64 / expected as f64,
    })
}

/// A watch that begins with the next change.
async fn watch_path(target: &Target) -> anyhow::Result<String> {
    let path = collection(&target.namespace);
    let list =
        target.endpoint.connect().await?.fetch(target.endpoint.get(&format!("{path}?limit=1"))).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list has a resourceVersion")?;
    Ok(format!("{path}?watch=1&resourceVersion={revision}&timeoutSeconds=600"))
}

/// Makes changes at their pace; returns when each was asked for.
async fn change(source: &Source<'_>, changes: usize, base: u64) -> anyhow::Result<Vec<Instant>> {
    let Source { endpoint, collection, .. } = source;
    let mut connection = endpoint.connect().await?;
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = vec![];
    for idx in 0..changes {
        let name = objects::name(idx % OBJECTS);
        let body = config_map(&name, idx, base + idx as u64);
        let request = endpoint.ask(Method::PUT, &format!("{collection}/{name}"), JSON, body);
        ticks.tick().await;
        sent.push(Instant::now());
        if let Answer::Refused = connection.send(request).await? {
            bail!("the server refused a change");
        }
    }
    Ok(sent)
}

/// The watchers of one thread.
struct Crowd {
    endpoint: Arc<Endpoint>,
    path: String,
    watchers: usize,
    changes: usize,
    shape: Shape,
}

/// When which change arrived.
type Arrivals = Vec<(u64, Instant)>;

impl Crowd {
    /// Connects all, says so, and watches until every one has seen every change.
    fn watch(self, ready_tx: mpsc::Sender<()>) -> anyhow::Result<Arrivals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, async {
            match self.shape {
                Shape::Alone => self.watch_alone(ready_tx).await,
                Shape::Shared => self.watch_shared(ready_tx).await,
            }
        })
    }

    async fn watch_alone(&self, ready_tx: mpsc::Sender<()>) -> anyhow::Result<Arrivals> {
        // Nobody reads while another one does.
        let buffer = Rc::new(RefCell::new(vec![0; READ]));
        let head = self.endpoint.head(&self.path);
        let mut begun = vec![];
        for _ in 0..self.watchers {
            let mut stream = self.endpoint.session().await?;
            stream.write_all(head.as_bytes()).await?;
            stream.flush().await?;
            begun.push(stream);
        }
        let mut watching = vec![];
        for mut stream in begun {
            let mut scanner = Scanner::new(self.changes);
            read_head(&mut stream, &mut scanner).await?;
            let buffer = buffer.clone();
            watching.push(tokio::task::spawn_local(async move {
                while !scanner.is_done() {
                    read_on(&mut stream, &buffer, &mut scanner).await?;
                }
                anyhow::Ok(scanner.arrivals)
            }));
        }
        let _ = ready_tx.send(());
        gather(watching, self.changes).await
    }

    async fn watch_shared(&self, ready_tx: mpsc::Sender<()>) -> anyhow::Result<Arrivals> {
        let mut watching = vec![];
        let mut left = self.watchers;
        while left > 0 {
            let mut sender = self.endpoint.connect_shared().await?;
            for _ in 0..left.min(STREAMS) {
                let request = self.endpoint.absolute(self.endpoint.get(&self.path))?;
                sender.ready().await?;
                let response = sender.send_request(request).await?;
                ensure!(response.status().is_success(), "a watch was answered with {}", response.status());
                watching.push((sender.clone(), response.into_body()));
            }
            left = left.saturating_sub(STREAMS);
        }
        let changes = self.changes;
        let watching = watching
            .into_iter()
            .map(|(sender, body)| {
                tokio::task::spawn_local(async move {
                    let arrivals = read_stream(body, changes).await;
                    drop(sender);
                    arrivals
                })
            })
            .collect();
        let _ = ready_tx.send(());
        gather(watching, changes).await
    }
}

/// Waits for all of them, but not for ever.
async fn gather(
    watching: Vec<tokio::task::JoinHandle<anyhow::Result<Arrivals>>>,
    changes: usize,
) -> anyhow::Result<Arrivals> {
    let limit = PACE * changes as u32 + LATE;
    let all = async {
        let mut arrivals = vec![];
        for one in watching {
            arrivals.extend(one.await??);
        }
        anyhow::Ok(arrivals)
    };
    tokio::time::timeout(limit, all).await.context("changes are missing")?
}

async fn read_stream(mut body: Incoming, changes: usize) -> anyhow::Result<Arrivals> {
    let mut scanner = Scanner::new(changes);
    while !scanner.is_done() {
        let frame = body.frame().await.context("the server ended a watch")??;
        if let Some(data) = frame.data_ref() {
            scanner.scan(data);
        }
    }
    Ok(scanner.arrivals)
}

/// Reads the head of an answer; what follows it belongs to the watch.
async fn read_head(stream: &mut TlsStream<TcpStream>, scanner: &mut Scanner) -> anyhow::Result<()> {
    let mut head = vec![];
    loop {
        if stream.read_buf(&mut head).await? == 0 {
            bail!("the server ended a watch before it began");
        }
        if let Some(end) = memchr::memmem::find(&head, b"\r\n\r\n") {
            ensure!(
                head.starts_with(b"HTTP/1.1 200"),
                "a watch was answered with {}",
                String::from_utf8_lossy(&head)
            );
            scanner.scan(&head[end..]);
            return Ok(());
        }
    }
}

/// Reads what has come.
async fn read_on(
    stream: &mut TlsStream<TcpStream>,
    buffer: &RefCell<Vec<u8>>,
    scanner: &mut Scanner,
) -> anyhow::Result<()> {
    std::future::poll_fn(|cx| {
        let mut buffer = buffer.borrow_mut();
        let mut read = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
        if read.filled().is_empty() {
            return std::task::Poll::Ready(Err(anyhow!("the server ended a watch")));
        }
        scanner.scan(read.filled());
        std::task::Poll::Ready(Ok(()))
    })
    .await
}

/// Finds the numbers of changes in a stream of bytes, wherever it is cut.
struct Scanner {
    finder: Finder<'static>,
    /// The end of what came last, too short to hold a whole mark.
    carry: Vec<u8>,
    changes: usize,
    arrivals: Arrivals,
}

/// Bytes of a mark with its number.
const MARKED: usize = MARK.len() + MARK_DIGITS;

impl Scanner {
    fn new(changes: usize) -> Self {
        Scanner { finder: Finder::new(MARK), carry: vec![], changes, arrivals: Vec::with_capacity(changes) }
    }

    fn is_done(&self) -> bool {
        self.arrivals.len() >= self.changes
    }

    fn scan(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        let carried = self.carry.len();
        self.carry.extend_from_slice(&bytes[..bytes.len().min(MARKED)]);
        if carried > 0
            && let Some(at) = self.finder.find(&self.carry)
            && at < carried
        {
            self.note(at, &self.carry.clone(), now);
        }
        let mut from = 0;
        while let Some(at) = self.finder.find(&bytes[from..]) {
            self.note(from + at, bytes, now);
            from += at + MARK.len();
        }
        if bytes.len() < MARKED {
            let excess = self.carry.len().saturating_sub(MARKED - 1);
            self.carry.drain(..excess);
        } else {
            self.carry.clear();
            self.carry.extend_from_slice(&bytes[bytes.len() - (MARKED - 1)..]);
        }
    }

    /// Notes the number behind the mark at `at`, if it is all there.
    fn note(&mut self, at: usize, bytes: &[u8], now: Instant) {
        let digits =
            bytes.get(at + MARK.len()..at + MARKED).and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(seq) = digits.and_then(|digits| digits.parse().ok()) {
            self.arrivals.push((seq, now));
        }
    }
}

fn report(bench: &Bench, cases: &[(Shape, usize)], fans: &[Vec<Fan>], bare: &[Vec<Fan>]) -> Section {
    let mut section = Section::new("Watching");
    let mut table = Table::new(&[
        "watchers",
        "connections",
        "deliveries/s",
        "p50",
        "p99",
        "slowest",
        "CPU each",
        "bare p50",
        "bare p99",
        "bare CPU each",
    ]);
    for ((shape, watchers), (fans, bare)) in cases.iter().zip(fans.iter().zip(bare)) {
        let of_bare = |field: fn(&Fan) -> f64| median(bare.iter().map(field));
        let of = |field: fn(&Fan) -> f64| median(fans.iter().map(field));
        let processor = of(|fan| fan.processor);
        table.row([
            count(*watchers as u64),
            shape.text().into(),
            count((*watchers as f64 / PACE.as_secs_f64()) as u64),
            time(of(|fan| fan.p50)),
            time(of(|fan| fan.p99)),
            time(of(|fan| fan.slowest)),
            super::turn::known_time(processor),
            time(of_bare(|fan| fan.p50)),
            time(of_bare(|fan| fan.p99)),
            super::turn::known_time(of_bare(|fan| fan.processor)),
        ]);
        if *watchers == bench.scale.watchers {
            let what = format!("{} watchers, {}: p99", count(*watchers as u64), shape.text());
            section.outcomes.push(Outcome {
                what: what.clone(),
                ours: time(of(|fan| fan.p99)),
                yardstick: "100 changes/s".into(),
                measured: of(|fan| fan.p99) / 1e6,
                unit: " ms",
                goal: Goal::AtMost(10.0),
            });
            section.reported.push([what, time(of(|fan| fan.p99)), "80 ms".into()]);
        }
    }
    section.tables.push(table);
    section.notes.push(format!(
        "{} changes of ConfigMaps of one KiB, 100 a second, seen by everyone. Times are from the moment a change is \
         asked for until a watcher has read it, the commit included; the watchers share the cores with the server. \
         CPU is the server's, for one change and one watcher. The bare handler hands what it is sent to everyone who \
         watches, over hyper and rustls, and neither checks nor stores it.",
        bench.scale.changes
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_wherever_the_stream_is_cut() {
        let mut text = vec![];
        for seq in 0..20 {
            text.extend_from_slice(&config_map("one", 0, seq));
            text.extend_from_slice(b"\n");
        }
        for step in [1, 2, 7, MARKED - 1, MARKED, 100, 1025, 1 << 20] {
            let mut scanner = Scanner::new(20);
            text.chunks(step).for_each(|piece| scanner.scan(piece));
            let found: Vec<u64> = scanner.arrivals.iter().map(|(seq, _)| *seq).collect();
            assert_eq!(found, (0..20).collect::<Vec<_>>(), "in pieces of {step}");
            assert!(scanner.is_done());
        }
    }
}
