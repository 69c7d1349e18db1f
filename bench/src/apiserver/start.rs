//! From nothing to ready, and what a server occupies: with nothing in it, and with many objects.

use std::time::Duration;

use super::{
    Bench,
    drive::{Limit, drive},
    objects::{self, collection},
    target::Server,
    turn::Turn,
};
use crate::{
    report::{Goal, Outcome, Section, Table},
    say,
    stats::{count, mebibytes, median, rate, time},
};

/// How long a server gets to give back what it no longer needs.
const SETTLE: Duration = Duration::from_millis(500);

/// Clients that read beside many objects, to see whether they are in the way.
const READERS: usize = 64;

/// What was found.
#[derive(Debug, Default)]
struct Found {
    /// Nanoseconds until an empty server was ready, and one with all objects, turn by turn.
    ready: [Vec<f64>; 2],
    /// Bytes that an empty server occupied, turn by turn.
    idle: Vec<f64>,
    /// Bytes after someone has asked for every description.
    described: f64,
    /// Bytes after the objects were created, and after a new start.
    filled: f64,
    restarted: Vec<f64>,
    /// Gets a second beside few objects and beside all.
    gets: [f64; 2],
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let mut found = Found::default();
    for turn in 1..=bench.scale.turns {
        say(&format!("start: an empty server, turn {turn} of {}…", bench.scale.turns));
        let data = bench.folder(&format!("empty-{turn}"))?;
        let (server, took) = Server::start(&bench.server, &data).await?;
        tokio::time::sleep(SETTLE).await;
        found.ready[0].push(took.as_nanos() as f64);
        found.idle.push(server.resident_bytes()? as f64);
        if turn == bench.scale.turns {
            found.described = describe(&server).await?;
        }
        server.end()?;
    }
    let data = bench.folder("filled")?;
    let (server, _) = Server::start(&bench.server, &data).await?;
    objects::create_namespace(&server.endpoint, "bench").await?;
    objects::create_namespace(&server.endpoint, "other").await?;
    objects::fill(&server.endpoint, "other", READERS).await?;
    found.gets[0] = gets(bench, &server).await?;
    say(&format!("start: creating {} objects…", count(bench.scale.objects as u64)));
    objects::fill(&server.endpoint, "bench", bench.scale.objects).await?;
    tokio::time::sleep(SETTLE).await;
    found.filled = server.resident_bytes()? as f64;
    found.gets[1] = gets(bench, &server).await?;
    server.end()?;
    for turn in 1..=bench.scale.turns {
        say(&format!("start: a full server, turn {turn} of {}…", bench.scale.turns));
        let (server, took) = Server::start(&bench.server, &data).await?;
        tokio::time::sleep(SETTLE).await;
        found.ready[1].push(took.as_nanos() as f64);
        found.restarted.push(server.resident_bytes()? as f64);
        server.end()?;
    }
    Ok(report(bench, &found))
}

/// Asks for what clients ask for when they meet a server; returns the bytes it occupies then.
async fn describe(server: &Server) -> anyhow::Result<f64> {
    let mut connection = server.endpoint.connect().await?;
    for path in
        ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"]
    {
        connection.fetch(server.endpoint.get(path)).await?;
    }
    tokio::time::sleep(SETTLE).await;
    Ok(server.resident_bytes()? as f64)
}

/// Gets a second of the few objects beside the others.
async fn gets(bench: &Bench, server: &Server) -> anyhow::Result<f64> {
    let (maker, path) = (server.endpoint.clone(), collection("other"));
    let ran = drive(&server.endpoint, READERS, Limit::time(bench.scale.turn), move |client, _, _| {
        maker.get(&format!("{path}/{}", objects::name(client)))
    })
    .await?;
    Ok(Turn::of(ran).rate)
}

fn report(bench: &Bench, found: &Found) -> Section {
    let mut section = Section::new("Start and memory of the server");
    let objects = count(bench.scale.objects as u64);
    let full = format!("{objects} objects");
    let [empty_ready, full_ready] = [0, 1].map(|idx| median(found.ready[idx].iter().copied()));
    let [idle, restarted] = [&found.idle, &found.restarted].map(|bytes| median(bytes.iter().copied()));
    let mut table = Table::new(&["holding", "ready after", "resident"]);
    table.row(["nothing".into(), time(empty_ready), mebibytes(idle)]);
    table.row(["nothing, once described to a client".into(), String::new(), mebibytes(found.described)]);
    table.row([format!("{full}, just created"), String::new(), mebibytes(found.filled)]);
    table.row([format!("{full}, started anew"), time(full_ready), mebibytes(restarted)]);
    section.tables.push(table);
    let mut table = Table::new(&["gets by 64", "beside nothing", "beside the others", "quotient"]);
    table.row([
        "of few objects".into(),
        rate(found.gets[0]),
        rate(found.gets[1]),
        format!("{:.2}", found.gets[1] / found.gets[0]),
    ]);
    section.tables.push(table);
    let mut judge = |what: String, ours: String, measured: f64, unit, bound| {
        let goal = Goal::AtMost(bound);
        section.outcomes.push(Outcome { what, ours, yardstick: String::new(), measured, unit, goal });
    };
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    judge("ready, holding nothing".into(), time(empty_ready), empty_ready / 1e9, " s", 0.3);
    judge(format!("ready, holding {full}"), time(full_ready), full_ready / 1e9, " s", 2.0);
    judge("memory, idle".into(), mebibytes(idle), mib(idle), " MiB", 40.0);
    judge(format!("memory, {full}"), mebibytes(found.filled), mib(found.filled), " MiB", 400.0);
    judge(format!("memory, {full}, started anew"), mebibytes(restarted), mib(restarted), " MiB", 400.0);
    section.reported.push(["ready, holding nothing".into(), time(empty_ready), "4.0 s".into()]);
    section.reported.push(["memory, idle".into(), mebibytes(idle), "337 MB".into()]);
    section.notes.push(
        "From starting the program until it has answered /readyz over TLS; keys and certificates are made at the \
         first start. The files are in the page cache. Objects are ConfigMaps of one KiB as sent, created over the \
         API."
            .into(),
    );
    section
}
