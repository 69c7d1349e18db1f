//! Creating objects, by few and by many, against the store alone and against a handler that stores nothing.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use http::Method;
use tokio::task::JoinSet;
use windlass_store::{Embedded, Expect, Retention, Store, Txn};

use super::{
    Bench,
    bare::Bare,
    drive::{Limit, Ran, drive},
    objects::{self, JSON, OBJECT_BYTES, collection, config_map},
    target::Target,
    turn::{Turn, known_time, middle},
};
use crate::{
    args::ApiPart,
    report::{Goal, Outcome, Section, Table},
    say,
    stats::{Latencies, median, rate, time},
};

/// Clients whose speed is judged.
const JUDGED: usize = 64;

/// One turn of each, with so many clients.
#[derive(Clone, Copy, Debug)]
struct Three {
    clients: usize,
    ours: Turn,
    bare: Turn,
    store: Turn,
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let target = bench.target(ApiPart::Creates).await?;
    let mut connection = target.endpoint.connect().await?;
    let path = collection(&target.namespace);
    let answer = connection.fetch(objects::create(&target.endpoint, &path, "first", 0)).await?;
    drop(connection);
    let folder = bench.folder("bare-creates")?;
    fs::write(folder.join("create"), &answer)?;
    let bare = Bare::start(&folder)?;
    let store = StoreAlone::open(&bench.folder("store")?)?;
    let mut threes = vec![];
    let mut serial = 0;
    for turn in 1..=bench.scale.turns {
        for &clients in bench.scale.clients {
            say(&format!("creates: measuring {clients} clients, turn {turn} of {}…", bench.scale.turns));
            serial += 1;
            threes.push(Three {
                clients,
                ours: ours(bench, &target, clients, serial).await?,
                bare: theirs(bench, &bare, clients).await?,
                store: store.run(clients, bench.scale.turn).await?,
            });
        }
    }
    target.end().await?;
    Ok(report(bench, answer.len(), &threes))
}

async fn ours(bench: &Bench, target: &Target, clients: usize, serial: usize) -> anyhow::Result<Turn> {
    let (maker, path) = (target.endpoint.clone(), collection(&target.namespace));
    let ran = drive(&target.endpoint, clients, Limit::time(bench.scale.turn), move |client, nth, _| {
        objects::create(&maker, &path, &format!("created-{serial}-{client}-{nth}"), client)
    })
    .await?;
    Ok(Turn::of(ran))
}

async fn theirs(bench: &Bench, bare: &Bare, clients: usize) -> anyhow::Result<Turn> {
    let maker = bare.endpoint.clone();
    let ran = drive(&bare.endpoint, clients, Limit::time(bench.scale.turn), move |client, nth, _| {
        maker.ask(Method::POST, "/create", JSON, config_map("bare", client, nth))
    })
    .await?;
    Ok(Turn::of(ran))
}

/// The store by itself, called in this process.
struct StoreAlone {
    store: Arc<Embedded>,
    next: Arc<AtomicU64>,
}

impl StoreAlone {
    fn open(folder: &Path) -> anyhow::Result<Self> {
        let store = Arc::new(Embedded::open(&folder.join("store"), Retention::default())?);
        Ok(StoreAlone { store, next: Arc::default() })
    }

    /// Lets `writers` tasks put new keys with values as large as the objects.
    async fn run(&self, writers: usize, turn: std::time::Duration) -> anyhow::Result<Turn> {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..writers {
            let (store, next) = (self.store.clone(), self.next.clone());
            tasks.spawn(async move {
                let mut latencies = Latencies::default();
                while begun.elapsed() < turn {
                    let idx = next.fetch_add(1, Ordering::Relaxed);
                    let mut value = vec![b'x'; OBJECT_BYTES];
                    value[..8].copy_from_slice(&idx.to_le_bytes());
                    let key = format!("configmaps/bench/created-{idx}");
                    let asked = Instant::now();
                    store.commit(Txn::new().put(key, Bytes::from(value), Expect::Absent)).await?;
                    latencies.push(asked.elapsed());
                }
                anyhow::Ok(latencies)
            });
        }
        let mut ran = Ran::default();
        while let Some(latencies) = tasks.join_next().await {
            ran.latencies.merge(latencies??);
        }
        ran.elapsed = begun.elapsed();
        Ok(Turn::of(ran))
    }
}

fn report(bench: &Bench, stored: usize, threes: &[Three]) -> Section {
    let mut section = Section::new("Creating objects");
    let mut table = Table::new(&[
        "clients",
        "creates/s",
        "p50",
        "p99",
        "CPU each",
        "bare handler",
        "ours / bare",
        "store alone",
        "its p50",
        "ours / store",
    ]);
    for &clients in bench.scale.clients {
        let own: Vec<&Three> = threes.iter().filter(|three| three.clients == clients).collect();
        let ours = |field| middle(own.iter().map(|three| &three.ours), field);
        let store = |field| middle(own.iter().map(|three| &three.store), field);
        let of_bare = median(own.iter().map(|three| three.ours.rate / three.bare.rate));
        let of_store = median(own.iter().map(|three| three.ours.rate / three.store.rate));
        table.row([
            clients.to_string(),
            rate(ours(|turn| turn.rate)),
            time(ours(|turn| turn.p50)),
            time(ours(|turn| turn.p99)),
            known_time(ours(|turn| turn.processor)),
            rate(middle(own.iter().map(|three| &three.bare), |turn| turn.rate)),
            format!("{of_bare:.2}"),
            rate(store(|turn| turn.rate)),
            time(store(|turn| turn.p50)),
            format!("{of_store:.2}"),
        ]);
        if clients == JUDGED {
            section.outcomes.push(Outcome {
                what: format!("creates by {clients}, of the store alone"),
                ours: rate(ours(|turn| turn.rate)),
                yardstick: rate(store(|turn| turn.rate)),
                measured: of_store,
                unit: " ×",
                goal: Goal::AtLeast(0.5),
            });
            section.reported.push([
                format!("creates by {clients}"),
                rate(ours(|turn| turn.rate)),
                "896/s".into(),
            ]);
        }
    }
    section.tables.push(table);
    section.notes.push(format!(
        "ConfigMaps of {OBJECT_BYTES} bytes as sent, {stored} as answered. The store alone is called in the process, \
         by as many tasks, with values of {OBJECT_BYTES} bytes on the same disk. The bare handler reads what it is \
         sent and answers with as many bytes as the server does, without storing anything: no server behind hyper \
         and rustls is faster."
    ));
    let refused: u64 = threes.iter().map(|three| three.ours.refused).sum();
    if refused > 0 {
        section
            .notes
            .push(format!("The server refused {refused} requests, which were made again after a pause."));
    }
    section
}
