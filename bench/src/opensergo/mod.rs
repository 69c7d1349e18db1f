//! The OpenSergo control plane's benchmark: what an idle subscriber takes, how long a change takes to reach many, how many
//! changes a second get through, and how long a restart takes everyone.
//!
//! The API server, the control plane and the clients are a process each. Start at [`run`].

mod client;
mod rules;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tokio::{task::JoinSet, time::sleep};

use self::client::Clients;
use crate::{
    apiserver::{client::Endpoint, target},
    args::OwnArgs,
    machine::Machine,
    print,
    process::{Process, resident_bytes_of},
    report::{self, Goal, Outcome, Section, Table},
    say,
    stats::{Latencies, count, time},
};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Connections with one stream each, and with several.
    connections: usize,
    crowd: (usize, usize),
    /// Subscribers of one app, and how often it changes.
    subscribers: usize,
    changes: usize,
    /// Apps with ten subscribers each, changes a second, and for how long.
    apps: usize,
    rate: u64,
    seconds: u64,
}

/// Subscribers of each app while many change.
const OF_AN_APP: usize = 10;

/// How long nothing may happen before something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long memory is left to settle.
const SETTLE: Duration = Duration::from_secs(2);

/// Writers of changes.
const WRITERS: usize = 16;

/// Measures everything, and prints each part as it is done.
pub(crate) async fn run(args: &OwnArgs) -> anyhow::Result<()> {
    let OwnArgs { quick, tiny, directory, server, markdown } = args;
    let scale = match (tiny, quick) {
        (true, _) => Scale {
            connections: 20,
            crowd: (10, 2),
            subscribers: 20,
            changes: 2,
            apps: 5,
            rate: 20,
            seconds: 1,
        },
        (_, true) => Scale {
            connections: 2_000,
            crowd: (1_000, 5),
            subscribers: 2_000,
            changes: 5,
            apps: 100,
            rate: 100,
            seconds: 5,
        },
        _ => Scale {
            connections: 10_000,
            crowd: (10_000, 5),
            subscribers: 10_000,
            changes: 10,
            apps: 1_000,
            rate: 1_000,
            seconds: 10,
        },
    };
    let machine = Machine::describe(directory, "windlass-bench opensergo".to_owned());
    print(&machine.text())?;
    let program = target::program(server.as_deref())?;
    let folder = tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(directory)?;
    let data = folder.path().join("data");
    let (server, _) = target::Server::start(&program, &data).await?;
    rules::define(&server.endpoint, &program).await?;
    let stage = Stage { program, data, endpoint: Arc::clone(&server.endpoint) };
    let mut sections = vec![];
    for section in [
        stage.idle(scale).await?,
        stage.fan_out(scale).await?,
        stage.churn(scale).await?,
        stage.restart(scale).await?,
    ] {
        print(&section.text())?;
        sections.push(section);
    }
    server.end()?;
    print(&report::summary(&sections))?;
    if let Some(file) = markdown {
        let text = report::markdown("The OpenSergo control plane", &machine, &sections);
        report::write(file, "opensergo", &text)?;
    }
    Ok(())
}

/// What everything is measured with.
struct Stage {
    program: PathBuf,
    data: PathBuf,
    endpoint: Arc<Endpoint>,
}

/// A control plane.
struct Plane {
    process: Process,
    address: SocketAddr,
}

impl Plane {
    fn start(program: &Path, data: &Path, port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("opensergo").arg("--kubeconfig").arg(data.join("admin.kubeconfig"));
        command.args(["--opensergo-port", &port.to_string(), "--opensergo-identity", "bench"]);
        let mut process = Process::spawn_to_read(&mut command)?;
        let address = loop {
            let line = process.line().context("the control plane did not start")?;
            if let Some(address) = line.strip_prefix("opensergo") {
                break address.trim().parse().context("it does not say where it listens")?;
            }
        };
        Ok(Plane { process, address })
    }

    fn resident_bytes(&self) -> anyhow::Result<f64> {
        Ok(resident_bytes_of(&self.process.id().to_string())? as f64)
    }
}

impl Stage {
    fn plane(&self) -> anyhow::Result<Plane> {
        Plane::start(&self.program, &self.data, 0)
    }

    /// What subscribers take that nothing is told.
    async fn idle(&self, scale: Scale) -> anyhow::Result<Section> {
        let mut section = Section::new("Idle subscribers");
        let mut table = Table::new(&["connections", "streams", "bytes for each stream"]);
        for (n_connections, n_streams) in [(scale.connections, 1), scale.crowd] {
            say(&format!("idle: {} connections with {n_streams} streams each…", count(n_connections as u64)));
            let plane = self.plane()?;
            let mut clients = Clients::new();
            // Whoever comes first pays for what all of them need.
            clients.connect(plane.address, vec!["idle".to_owned()], false);
            clients.all(PATIENCE, |_| true).await?;
            sleep(SETTLE).await;
            let before = plane.resident_bytes()?;
            for _ in 0..n_connections {
                clients.connect(plane.address, vec!["idle".to_owned(); n_streams], false);
            }
            let n_all = n_connections * n_streams;
            for _ in 0..n_all {
                clients.next(PATIENCE).await?;
            }
            sleep(SETTLE).await;
            let each = (plane.resident_bytes()? - before) / n_all as f64;
            table.row([count(n_connections as u64), count(n_all as u64), count(each.max(0.0) as u64)]);
            section.outcomes.push(Outcome {
                what: format!(
                    "memory of each of {} streams, {n_streams} on a connection",
                    count(n_all as u64)
                ),
                ours: format!("{} bytes", count(each.max(0.0) as u64)),
                yardstick: String::new(),
                measured: each / 1024.0,
                unit: " KiB",
                goal: Goal::AtMost(20.0),
            });
            plane.process.end()?;
        }
        section.tables.push(table);
        section.notes.push(
            "What the control plane's process occupies above what it did with one client. A process may have 20,000 \
             descriptors here, so that more streams than that share connections."
                .to_owned(),
        );
        Ok(section)
    }

    /// How long a change takes to reach everyone.
    async fn fan_out(&self, scale: Scale) -> anyhow::Result<Section> {
        let mut section = Section::new("One change to many subscribers");
        let mut table = Table::new(&["subscribers", "p50", "p99", "all"]);
        let mut number = 0;
        for n_subscribers in [1, scale.subscribers] {
            say(&format!("fan-out: {} subscribers…", count(n_subscribers as u64)));
            let plane = self.plane()?;
            let mut clients = Clients::new();
            let mut writer = self.endpoint.connect().await?;
            (0..n_subscribers).for_each(|_| clients.connect(plane.address, vec!["one".to_owned()], false));
            clients.all(PATIENCE, |_| true).await?;
            let (mut arrivals, mut last) = (Latencies::default(), Latencies::default());
            for _ in 0..scale.changes {
                number += 1;
                let begun = Instant::now();
                rules::write(&self.endpoint, &mut writer, "one", number).await?;
                let when = clients.all(PATIENCE, |told| told.number == Some(number)).await?;
                let took = when.iter().map(|at| at.saturating_duration_since(begun));
                took.clone().for_each(|took| arrivals.push(took));
                last.push(took.max().unwrap_or_default());
                sleep(Duration::from_millis(200)).await;
            }
            let [p50, p99, all] = [arrivals.quantile(0.5), arrivals.quantile(0.99), last.quantile(0.5)];
            table.row([count(n_subscribers as u64), time(p50), time(p99), time(all)]);
            if n_subscribers > 1 {
                section.outcomes.push(Outcome {
                    what: format!("p99 from the write to {} subscribers", count(n_subscribers as u64)),
                    ours: time(p99),
                    yardstick: String::new(),
                    measured: p99 / 1e9,
                    unit: " s",
                    goal: Goal::AtMost(1.0),
                });
            }
            plane.process.end()?;
        }
        section.tables.push(table);
        section.notes.push(format!(
            "{} changes, from before the write until a client has decoded the message; 100 ms of it are for more changes \
             that might come.",
            scale.changes
        ));
        Ok(section)
    }

    /// How long changes take when there are many.
    async fn churn(&self, scale: Scale) -> anyhow::Result<Section> {
        let Scale { apps: n_apps, rate, seconds, .. } = scale;
        say(&format!("churn: {} changes a second of {} apps…", count(rate), count(n_apps as u64)));
        let plane = self.plane()?;
        let mut clients = Clients::new();
        for idx in 0..n_apps * OF_AN_APP {
            clients.connect(plane.address, vec![format!("app-{}", idx % n_apps)], false);
        }
        clients.all(PATIENCE, |_| true).await?;
        let (begun, n_changes) = (Instant::now(), (rate * seconds) as usize);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let endpoint = Arc::clone(&self.endpoint);
            writers.spawn(async move {
                let mut connection = endpoint.connect().await?;
                let mut written = vec![];
                for change in (writer..n_changes).step_by(WRITERS) {
                    let due = begun + Duration::from_nanos(change as u64 * 1_000_000_000 / rate);
                    tokio::time::sleep_until(due.into()).await;
                    let at = Instant::now();
                    rules::write(
                        &endpoint,
                        &mut connection,
                        &format!("app-{}", change % n_apps),
                        change as i64,
                    )
                    .await?;
                    written.push((change, at));
                }
                anyhow::Ok(written)
            });
        }
        // The last change of every app reaches all of its subscribers; those before it may be left out.
        let last_of = |app: usize| (n_changes - 1 - (n_changes - 1 - app) % n_apps) as i64;
        let mut n_left = clients.len();
        let mut told = vec![];
        while n_left > 0 {
            let next = clients.next(PATIENCE).await?;
            n_left -= usize::from(next.number == Some(last_of(next.client % n_apps)));
            told.push(next);
        }
        let took = begun.elapsed();
        let mut written = vec![begun; n_changes];
        while let Some(done) = writers.join_next().await {
            done??.into_iter().for_each(|(change, at)| written[change] = at);
        }
        let mut latencies = Latencies::default();
        let mut versions = vec![0; clients.len()];
        for one in &told {
            if one.version < versions[one.client] {
                bail!("a version went back");
            }
            versions[one.client] = one.version;
            let number = one.number.and_then(|number| usize::try_from(number).ok());
            if let Some(written) = number.and_then(|number| written.get(number)) {
                latencies.push(one.at.saturating_duration_since(*written));
            }
        }
        let mut section = Section::new("Many changes");
        let mut table = Table::new(&["changes a second", "messages a second", "p50", "p99"]);
        let messages = told.len() as f64 / took.as_secs_f64();
        let p99 = latencies.quantile(0.99);
        let done = n_changes as f64 / took.as_secs_f64();
        table.row([count(done as u64), count(messages as u64), time(latencies.quantile(0.5)), time(p99)]);
        section.tables.push(table);
        section.notes.push(format!(
            "{} apps with {OF_AN_APP} subscribers each; every app changes once a second or less often, and everyone is told \
             the last change of theirs.",
            count(n_apps as u64)
        ));
        section.outcomes.push(Outcome {
            what: format!("p99 from the write, at {} changes a second", count(rate)),
            ours: time(p99),
            yardstick: String::new(),
            measured: p99 / 1e9,
            unit: " s",
            goal: Goal::AtMost(1.0),
        });
        plane.process.end()?;
        Ok(section)
    }

    /// How long it takes after a restart until everyone knows what is.
    async fn restart(&self, scale: Scale) -> anyhow::Result<Section> {
        say(&format!("restart: {} clients…", count(scale.subscribers as u64)));
        let plane = self.plane()?;
        let mut writer = self.endpoint.connect().await?;
        let number = 1_000_000;
        for app in 0..OF_AN_APP {
            rules::write(&self.endpoint, &mut writer, &format!("restart-{app}"), number).await?;
        }
        let mut clients = Clients::new();
        for idx in 0..scale.subscribers {
            clients.connect(plane.address, vec![format!("restart-{}", idx % OF_AN_APP)], true);
        }
        clients.all(PATIENCE, |told| told.number == Some(number)).await?;
        let port = plane.address.port();
        plane.process.kill()?;
        let begun = Instant::now();
        let plane = Plane::start(&self.program, &self.data, port)?;
        let mut n_empty = 0;
        let when = clients
            .all(PATIENCE, |told| {
                n_empty += usize::from(told.number.is_none());
                told.number == Some(number)
            })
            .await?;
        let took =
            when.into_iter().max().map_or(Duration::ZERO, |last| last.saturating_duration_since(begun));
        let mut section = Section::new("Restart");
        section.outcomes.push(Outcome {
            what: "wrong messages without rules after a restart".to_owned(),
            ours: n_empty.to_string(),
            yardstick: String::new(),
            measured: n_empty as f64,
            unit: "",
            goal: Goal::AtMost(0.0),
        });
        section.outcomes.push(Outcome {
            what: format!("until {} clients know what is", count(scale.subscribers as u64)),
            ours: time(took.as_nanos() as f64),
            yardstick: String::new(),
            measured: took.as_secs_f64(),
            unit: " s",
            goal: Goal::AtMost(10.0),
        });
        section.notes.push(
            "The control plane is killed and started again; every client connects again after 50 to 100 ms, as often as \
             it takes."
                .to_owned(),
        );
        drop(clients);
        plane.process.end()?;
        Ok(section)
    }
}
