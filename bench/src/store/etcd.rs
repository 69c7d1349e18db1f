//! etcd beside us: one member on the same disk, the same loads, over gRPC on loopback.
//!
//! What is compared is what a caller sees: ours is called in the process, etcd over a connection, since that is
//! how either would be used. The few messages needed are written out here, so that building needs no protobuf
//! compiler.

use std::{
    fs::File,
    io::ErrorKind,
    net::TcpListener,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::uri::PathAndQuery;
use tonic::{client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use super::{
    Bench,
    load::{self, Limit, Target},
    say,
};
use crate::{
    process::Process,
    report::{Section, Table},
    stats::{median, rate, time},
};

/// Writers that share one connection. One connection is a bottleneck of the client above some dozens.
const WRITERS_PER_CHANNEL: usize = 32;

/// How long etcd may take to elect itself.
const START_LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Option<Section>> {
    let program = bench.etcd.as_deref().unwrap_or(Path::new("etcd"));
    if program == "none" {
        return Ok(None);
    }
    let folder = bench.folder("etcd")?;
    let Some(server) = Server::start(program, &folder)? else {
        if bench.etcd.is_some() {
            bail!("there is no {}", program.display());
        }
        say("etcd is not installed: nothing to compare with");
        return Ok(None);
    };
    let most_writers = bench.scale.writers.iter().copied().max().unwrap_or(1);
    let etcd = Arc::new(server.client(most_writers.div_ceil(WRITERS_PER_CHANNEL)).await?);
    load::fill(&etcd, bench.scale.hot_keys).await?;
    let store = load::filled(&folder.join("ours"), bench.scale.hot_keys).await?;
    let limit = Limit::time(bench.scale.turn);
    let mut turns = vec![];
    for turn in 1..=bench.scale.pairs {
        for &writers in bench.scale.writers {
            say(&format!("etcd: measuring {writers} writers, turn {turn} of {}…", bench.scale.pairs));
            let mut ours = load::update(&store, writers, bench.scale.hot_keys, limit).await?;
            let mut theirs = load::update(&etcd, writers, bench.scale.hot_keys, limit).await?;
            turns.push(Turn {
                writers,
                rates: [&ours, &theirs].map(|ran| ran.rate()),
                p50s: [&mut ours, &mut theirs].map(|ran| ran.latencies.quantile(0.5)),
                p99s: [&mut ours, &mut theirs].map(|ran| ran.latencies.quantile(0.99)),
            });
        }
    }
    Ok(Some(report(bench, &version(program), &turns)))
}

/// Ours first, then etcd.
#[derive(Clone, Copy, Debug)]
struct Turn {
    writers: usize,
    rates: [f64; 2],
    p50s: [f64; 2],
    p99s: [f64; 2],
}

fn report(bench: &Bench, version: &str, turns: &[Turn]) -> Section {
    let mut section = Section::new("Durable writes, beside etcd");
    let mut table =
        Table::new(&["writers", "ours", "p50", "p99", "etcd", "its p50", "its p99", "ours / etcd"]);
    for &writers in bench.scale.writers {
        let of =
            |field: fn(&Turn) -> f64| median(turns.iter().filter(|turn| turn.writers == writers).map(field));
        table.row([
            writers.to_string(),
            rate(of(|turn| turn.rates[0])),
            time(of(|turn| turn.p50s[0])),
            time(of(|turn| turn.p99s[0])),
            rate(of(|turn| turn.rates[1])),
            time(of(|turn| turn.p50s[1])),
            time(of(|turn| turn.p99s[1])),
            format!("{:.1}", of(|turn| turn.rates[0] / turn.rates[1])),
        ]);
    }
    section.tables.push(table);
    section.notes.push(format!(
        "{version}, a single member on loopback, a Txn with one put for each write, a connection for every \
         {WRITERS_PER_CHANNEL} writers. etcd's cost includes its protocol and shares the cores with the client; \
         ours is called in the process."
    ));
    section
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().map(|output| output.stdout);
    let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
    text.lines().next().map_or("etcd".into(), |line| line.replace(" Version:", ""))
}

/// A member with nothing in it.
struct Server {
    _process: Process,
    endpoint: String,
}

impl Server {
    /// Starts `program` with its data in `folder`; `None` when there is no such program.
    fn start(program: &Path, folder: &Path) -> anyhow::Result<Option<Self>> {
        let [endpoint, peer] = [free_address()?, free_address()?];
        let log = File::create(folder.join("log"))?;
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(folder.join("data")).args([
            "--listen-client-urls",
            &endpoint,
            "--advertise-client-urls",
            &endpoint,
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &format!("default={peer}"),
        ]);
        match Process::spawn(command.stderr(log)) {
            Ok(process) => Ok(Some(Server { _process: process, endpoint })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("starting {}", program.display())),
        }
    }

    /// Connects, and waits until a write succeeds.
    async fn client(&self, n_channels: usize) -> anyhow::Result<Client> {
        let endpoint = Channel::from_shared(self.endpoint.clone())?;
        let client = Client { channels: (0..n_channels).map(|_| endpoint.connect_lazy()).collect() };
        let begun = Instant::now();
        while let Err(error) = client.put(0, load::key(0), load::value(0)).await {
            if begun.elapsed() > START_LIMIT {
                return Err(error.context("etcd does not take writes"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(client)
    }
}

/// An address on loopback that was free a moment ago.
fn free_address() -> anyhow::Result<String> {
    Ok(format!("http://{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?))
}

struct Client {
    channels: Vec<Channel>,
}

impl Target for Client {
    async fn put(&self, writer: usize, key: String, value: Bytes) -> anyhow::Result<()> {
        let channel = &self.channels[writer / WRITERS_PER_CHANNEL % self.channels.len()];
        let put = PutRequest { key: key.into(), value };
        let request = TxnRequest { success: vec![RequestOp { put: Some(put) }] };
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
        let codec = ProstCodec::<TxnRequest, TxnResponse>::default();
        let response = grpc.unary(tonic::Request::new(request), path, codec).await?;
        if !response.into_inner().succeeded {
            bail!("etcd did not take a write");
        }
        Ok(())
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestOp {
    #[prost(message, optional, tag = "2")]
    put: Option<PutRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnResponse {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}
