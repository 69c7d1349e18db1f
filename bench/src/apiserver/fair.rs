//! Fairness: what a well-behaved client notices of greedy ones, and whether leases are kept meanwhile.
//!
//! The clients have identities of their own: certificates that the server's authority has signed. Flow schemas put them
//! into one level, apart from leases.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use http::Method;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Bench,
    bare::Bare,
    client::{Answer, Asked, Endpoint},
    kubeconfig,
    objects::{self, JSON, collection},
    target::Server,
};
use crate::{
    report::{Goal, Outcome, Section, Table},
    say,
    stats::{Latencies, count, time},
};

/// Greedy clients, and connections of each: ten times what the well-behaved one has.
const GREEDY: usize = 10;
const CONNECTIONS: usize = 10;

/// Holders of leases, how often each renews its own, and when it is lost.
const HOLDERS: usize = 10;
const RENEWAL: Duration = Duration::from_secs(2);
const LEASE_SECONDS: f64 = 15.0;

/// Seats for requests that read and that write: some for each core. With so many that all clients have one, nobody
/// waits for a seat and everybody for a core.
const SEATS: [&str; 2] = ["16", "8"];

/// How long the well-behaved client rests between two requests.
const REST: Duration = Duration::from_millis(5);

/// How long a greedy client that was sent away waits. The server asks for a second.
const PAUSE: Duration = Duration::from_millis(10);

/// The group of all of them, which may do everything.
const GROUP: &str = "bench";

/// How much slower the well-behaved client may become.
const SLOWER: f64 = 2.0;

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let data = bench.folder("data-fair")?;
    let (server, _) = Server::start_with(&bench.server, &data, SEATS).await?;
    let admin = &server.endpoint;
    say(&format!("fair: creating {} objects…", count(bench.scale.listed as u64)));
    objects::create_namespace(admin, "bench").await?;
    objects::fill(admin, "bench", bench.scale.listed).await?;
    steer(admin).await?;
    let modest = identity(&data, "bench-modest", server.process_id())?;
    let greedy: Vec<Arc<Endpoint>> = (0..GREEDY)
        .map(|idx| identity(&data, &format!("bench-greedy-{idx}"), server.process_id()))
        .collect::<Result<_, _>>()?;
    let holder = identity(&data, "bench-holder", server.process_id())?;

    let (idle_time, busy_time) = (bench.scale.turn * 4, bench.scale.turn * 8);
    let mut section = Section::new("Fairness");
    let mut table = Table::new(&[
        "a well-behaved client",
        "beside",
        "idle p50",
        "idle p99",
        "busy p50",
        "busy p99",
        "answers",
    ]);
    let mut longest = Duration::ZERO;
    for greed in [Greed::Searches, Greed::Pages] {
        say(&format!("fair: one client for {idle_time:?}, {}…", greed.calm()));
        let elsewhere = match greed {
            Greed::Searches => None,
            Greed::Pages => Some(Elsewhere::begin(bench, admin, &greed.path(bench.scale.page)).await?),
        };
        let mut idle = behave_both(&modest, idle_time).await?;
        elsewhere.map(Elsewhere::end).transpose()?;
        say(&format!(
            "fair: the same beside {GREEDY} clients that ask for {} for {busy_time:?}…",
            greed.text()
        ));
        let flood = Flood::begin(greedy.clone(), greed.path(bench.scale.page))?;
        let holders = tokio::spawn(hold(Arc::clone(&holder), greed, busy_time));
        let mut busy = behave_both(&modest, busy_time).await?;
        longest = longest.max(holders.await??);
        let (answers, refused) = flood.end()?;
        for (ask, (idle, busy)) in ASKS.into_iter().zip(idle.iter_mut().zip(&mut busy)) {
            let cells = [idle.quantile(0.5), idle.quantile(0.99), busy.quantile(0.5), busy.quantile(0.99)];
            let names = [ask.text().to_owned(), greed.text().to_owned()];
            table.row(names.into_iter().chain(cells.map(time)).chain([count(busy.len() as u64)]));
            section.outcomes.push(Outcome {
                what: format!("p99 of {} beside greedy {}", ask.text(), greed.text()),
                ours: time(cells[3]),
                yardstick: format!("{} {}", greed.calm(), time(cells[1])),
                measured: cells[3] / cells[1].max(1.0),
                unit: "",
                goal: Goal::AtMost(SLOWER),
            });
        }
        let (least, most) = (answers.iter().min().unwrap_or(&0), answers.iter().max().unwrap_or(&0));
        section.notes.push(format!(
            "The greedy clients of {} got {} to {} answers each; {} were sent away.",
            greed.text(),
            count(*least),
            count(*most),
            count(refused),
        ));
    }
    section.tables.push(table);
    server.end()?;

    section.outcomes.push(Outcome {
        what: format!("longest time without a renewal of {HOLDERS} leases"),
        ours: time(longest.as_nanos() as f64),
        yardstick: "lost after 15 s".to_owned(),
        measured: longest.as_secs_f64(),
        unit: " s",
        goal: Goal::AtMost(LEASE_SECONDS),
    });
    section.notes.push(format!(
        "{GREEDY} greedy clients have {CONNECTIONS} connections each and never rest; a well-behaved one asks, and rests for \
         {REST:?}. All are users of one level of a server with {} + {} seats, of {} objects. A search looks at all of them \
         and finds none, so only the server works. A page is of {}, and taking it costs the clients more than the server, with \
         which they share the cores. So what counts as idle beside pages is the same client while the greedy ones take the \
         same bytes from another server, which does nothing but send them.",
        SEATS[0],
        SEATS[1],
        count(bench.scale.listed as u64),
        count(bench.scale.page as u64),
    ));
    Ok(section)
}

/// Puts our clients into levels.
async fn steer(admin: &Endpoint) -> anyhow::Result<()> {
    let mut connection = admin.connect().await?;
    let rbac = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": GROUP},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": GROUP}],
    });
    let path = format!("/apis/{rbac}/v1/clusterrolebindings");
    connection.fetch(admin.ask(Method::POST, &path, JSON, binding.to_string())).await?;
    let users: Vec<String> = ["bench-modest", "bench-holder"]
        .into_iter()
        .map(str::to_owned)
        .chain((0..GREEDY).map(|idx| format!("bench-greedy-{idx}")))
        .collect();
    let subjects: Vec<Value> =
        users.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect();
    for (name, level, resource) in
        [("a-0-leases", "leader-election", "leases"), ("a-1-work", "workload-low", "*")]
    {
        let rule = json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": [resource], "namespaces": ["*"], "clusterScope": true,
        });
        let schema = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": name},
            "spec": {
                "matchingPrecedence": 2,
                "priorityLevelConfiguration": {"name": level},
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": subjects, "resourceRules": [rule]}],
            },
        });
        let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
        connection.fetch(admin.ask(Method::POST, path, JSON, schema.to_string())).await?;
    }
    Ok(())
}

/// A user of this name, by a certificate that the server's authority signs.
fn identity(data: &Path, name: &str, process: u32) -> anyhow::Result<Arc<Endpoint>> {
    let pki = data.join("pki");
    let read = |file: &str| fs::read_to_string(pki.join(file)).with_context(|| format!("reading {file}"));
    let issuer = Issuer::from_ca_cert_pem(&read("ca.crt")?, KeyPair::from_pem(&read("ca.key")?)?)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, GROUP);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let mut access = kubeconfig::read(&data.join("admin.kubeconfig"))?;
    access.identity = Some((certificate.pem().into_bytes(), key.serialize_pem().into_bytes()));
    Ok(Arc::new(Endpoint::new(&access, Some(process))?))
}

/// What the greedy clients ask for.
#[derive(Clone, Copy)]
enum Greed {
    Searches,
    Pages,
}

impl Greed {
    fn text(self) -> &'static str {
        match self {
            Greed::Searches => "searches",
            Greed::Pages => "pages",
        }
    }

    /// What the well-behaved client is compared with: itself, while it has the server for itself.
    fn calm(self) -> &'static str {
        match self {
            Greed::Searches => "idle",
            Greed::Pages => "pages of another server",
        }
    }

    fn path(self, page: usize) -> String {
        let path = collection("bench");
        match self {
            Greed::Searches => format!("{path}?labelSelector=shard%3Dnone"),
            Greed::Pages => format!("{path}?limit={page}"),
        }
    }
}

/// What the well-behaved client does.
#[derive(Clone, Copy)]
enum Ask {
    Get,
    Update,
}

const ASKS: [Ask; 2] = [Ask::Get, Ask::Update];

impl Ask {
    fn text(self) -> &'static str {
        match self {
            Ask::Get => "a get",
            Ask::Update => "a merge patch",
        }
    }

    fn request(self, endpoint: &Endpoint, seq: u64) -> Asked {
        let path = format!("{}/{}", collection("bench"), objects::name(0));
        match self {
            Ask::Get => endpoint.get(&path),
            Ask::Update => {
                let patch = format!("{{\"data\":{{\"seq\":\"{seq:09}\"}}}}");
                endpoint.ask(Method::PATCH, &path, "application/merge-patch+json", patch)
            }
        }
    }
}

/// Something that goes on in a thread of its own, with a runtime of its own.
struct Running<T>(Option<JoinHandle<anyhow::Result<T>>>);

impl<T: Send + 'static> Running<T> {
    fn spawn<F>(work: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = anyhow::Result<T>>,
    {
        Running(Some(thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
        })))
    }

    fn join(&mut self) -> anyhow::Result<T> {
        let thread = self.0.take().context("it has been waited for")?;
        thread.join().map_err(|_| anyhow!("a client panicked"))?
    }
}

/// Does one after the other, each for half of the time.
async fn behave_both(endpoint: &Arc<Endpoint>, duration: Duration) -> anyhow::Result<Vec<Latencies>> {
    let endpoint = Arc::clone(endpoint);
    let both = move || ASKS.iter().map(|ask| behave(&endpoint, *ask, duration / 2).join()).collect();
    tokio::task::spawn_blocking(both).await?
}

/// The well-behaved client: one request after the other, with a rest between them.
fn behave(endpoint: &Arc<Endpoint>, ask: Ask, duration: Duration) -> Running<Latencies> {
    let endpoint = Arc::clone(endpoint);
    Running::spawn(move || async move {
        let mut connection = endpoint.connect().await?;
        let mut latencies = Latencies::default();
        let (begun, mut seq) = (Instant::now(), 0);
        while begun.elapsed() < duration {
            seq += 1;
            let asked = Instant::now();
            if let Answer::Refused = connection.send(ask.request(&endpoint, seq)).await? {
                return Err(anyhow!("the well-behaved client was sent away"));
            }
            latencies.push(asked.elapsed());
            tokio::time::sleep(REST).await;
        }
        Ok(latencies)
    })
}

/// The greedy clients.
struct Flood {
    stop: Arc<AtomicBool>,
    answers: Arc<Vec<AtomicU64>>,
    refused: Arc<AtomicU64>,
    running: Running<()>,
}

impl Flood {
    fn begin(endpoints: Vec<Arc<Endpoint>>, path: String) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let answers: Arc<Vec<AtomicU64>> = Arc::new(endpoints.iter().map(|_| AtomicU64::new(0)).collect());
        let refused = Arc::new(AtomicU64::new(0));
        let (stopped, counted, sent_away) = (Arc::clone(&stop), Arc::clone(&answers), Arc::clone(&refused));
        let (ready_tx, ready_rx) = std::sync::mpsc::channel();
        let running = Running::spawn(move || async move {
            // They stand for clients on machines of their own.
            rustix::process::nice(19)?;
            let mut tasks = JoinSet::new();
            for (client, endpoint) in endpoints.iter().enumerate() {
                for _ in 0..CONNECTIONS {
                    let mut connection = endpoint.connect().await?;
                    connection.give_way();
                    let (endpoint, path) = (Arc::clone(endpoint), path.clone());
                    let (stopped, counted, sent_away) =
                        (Arc::clone(&stopped), Arc::clone(&counted), Arc::clone(&sent_away));
                    tasks.spawn(async move {
                        while !stopped.load(Ordering::Relaxed) {
                            match connection.send(endpoint.get(&path)).await? {
                                Answer::Good(_) => drop(counted[client].fetch_add(1, Ordering::Relaxed)),
                                Answer::Refused => {
                                    sent_away.fetch_add(1, Ordering::Relaxed);
                                    tokio::time::sleep(PAUSE).await;
                                }
                            }
                        }
                        anyhow::Ok(())
                    });
                }
            }
            let _ = ready_tx.send(());
            while let Some(task) = tasks.join_next().await {
                task??;
            }
            Ok(())
        });
        ready_rx.recv().context("the greedy clients could not connect")?;
        Ok(Flood { stop, answers, refused, running })
    }

    /// How many answers each got, and how many requests were sent away.
    fn end(mut self) -> anyhow::Result<(Vec<u64>, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.running.join()?;
        let answers = self.answers.iter().map(|n| n.load(Ordering::Relaxed)).collect();
        Ok((answers, self.refused.load(Ordering::Relaxed)))
    }
}

/// The greedy clients at a server that is not ours, with the same bytes.
struct Elsewhere {
    _bare: Bare,
    flood: Flood,
}

impl Elsewhere {
    async fn begin(bench: &Bench, admin: &Endpoint, path: &str) -> anyhow::Result<Self> {
        let folder = bench.folder("bare-fair")?;
        fs::write(folder.join("page"), admin.connect().await?.fetch(admin.get(path)).await?)?;
        let bare = Bare::start(&folder)?;
        let clients = (0..GREEDY).map(|_| Arc::clone(&bare.endpoint)).collect();
        let flood = Flood::begin(clients, "/page".to_owned())?;
        Ok(Elsewhere { _bare: bare, flood })
    }

    fn end(self) -> anyhow::Result<()> {
        self.flood.end().map(drop)
    }
}

/// Holds leases; returns the longest time for which one was not renewed.
async fn hold(endpoint: Arc<Endpoint>, greed: Greed, duration: Duration) -> anyhow::Result<Duration> {
    let path = "/apis/coordination.k8s.io/v1/namespaces/bench/leases";
    let begun = Instant::now();
    let mut holders = JoinSet::new();
    for idx in 0..HOLDERS {
        let endpoint = Arc::clone(&endpoint);
        holders.spawn(async move {
            let mut connection = endpoint.connect().await?;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": format!("{}-{idx}", greed.text())},
                "spec": {"holderIdentity": "bench", "leaseDurationSeconds": 15, "leaseTransitions": 0},
            });
            connection.fetch(endpoint.ask(Method::POST, path, JSON, lease.to_string())).await?;
            let (mut renewed, mut longest, mut n_renewals) = (Instant::now(), Duration::ZERO, 0);
            while begun.elapsed() < duration {
                tokio::time::sleep(RENEWAL.min(duration / 4)).await;
                n_renewals += 1;
                let patch = json!({"spec": {"leaseTransitions": n_renewals}}).to_string();
                let one = format!("{path}/{}-{idx}", greed.text());
                let request = endpoint.ask(Method::PATCH, &one, "application/merge-patch+json", patch);
                let answer = connection.send(request).await?;
                longest = longest.max(renewed.elapsed());
                if let Answer::Good(_) = answer {
                    renewed = Instant::now();
                }
            }
            anyhow::Ok(longest)
        });
    }
    let mut longest = Duration::ZERO;
    while let Some(held) = holders.join_next().await {
        longest = longest.max(held??);
    }
    Ok(longest)
}
