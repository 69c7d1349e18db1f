//! Managers of controllers on informers that a test feeds, in virtual time.

mod leading;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    Action, Informer, Key, ReconcileError,
    election::Durations,
    testing::{
        Feed, eventually, key, map,
        server::{Forecast, Server, Weather},
        within,
    },
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hub";

/// A manager that runs.
struct Running {
    manager: Manager,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn new(manager: &Manager) -> Self {
        let (manager, stop) = (manager.clone(), CancellationToken::new());
        let task = tokio::spawn({
            let (manager, stop) = (manager.clone(), stop.clone());
            async move { manager.run(stop).await }
        });
        Running { manager, stop, task }
    }

    fn status(&self, name: &str) -> ControllerStatus {
        let all = self.manager.status();
        all.into_iter().find(|status| status.name == name).expect("there is such a controller")
    }

    async fn works(&self, name: &str) {
        eventually("it works", || self.status(name).running).await;
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic");
    }
}

fn manager() -> Manager {
    Manager::new(Server::default().client())
}

/// What was reconciled.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut *self.0.lock());
        all.sort();
        all
    }

    async fn settled(&self) -> Vec<String> {
        sleep(Duration::from_millis(100)).await;
        self.take()
    }
}

/// Adds a controller that writes down what it is asked for.
fn add(manager: &Manager, name: &'static str, informer: &Informer<ConfigMap>) -> Log {
    add_with(manager, name, informer, |controller| controller)
}

fn add_with(
    manager: &Manager,
    name: &'static str,
    informer: &Informer<ConfigMap>,
    finish: impl Fn(Controller) -> Controller + Send + Sync + 'static,
) -> Log {
    let (log, informer) = (Log::default(), informer.clone());
    let for_all = log.clone();
    let build = move |context: &Context| {
        let log = log.clone();
        let writes = move |key: Key| {
            log.0.lock().push(key.to_string());
            async { Ok(Action::Done) }
        };
        Ok(finish(context.controller(writes).reconciles(&informer)))
    };
    manager.add(name, build).expect("a new name");
    for_all
}

#[derive(Debug, thiserror::Error)]
#[error("it does not work")]
struct Broken;

#[tokio::test(start_paused = true)]
async fn a_controller_is_disabled_within_two_seconds_and_catches_up_when_it_is_enabled_again() {
    let ((own, feed), manager) = (Feed::new(), manager());
    let (others, asked) = (add(&manager, "other", &own), Arc::new(AtomicUsize::new(0)));
    let build = {
        let (own, asked) = (own.clone(), Arc::clone(&asked));
        move |context: &Context| {
            let asked = Arc::clone(&asked);
            let blocks = move |_: Key| {
                asked.fetch_add(1, SeqCst);
                std::future::pending::<Result<Action, ReconcileError>>()
            };
            Ok(context.controller(blocks).reconciles(&own).workers(2))
        }
    };
    manager.add("stuck", build).expect("a new name");
    let running = Running::new(&manager);
    feed.list((0..10).map(|n| map(&n.to_string(), n)));
    running.works("stuck").await;
    eventually("it blocks", || running.status("stuck").queue_length == 8).await;
    let status = running.status("stuck");
    assert_eq!((status.workers, status.in_hand, &*status.state, status.synced), (2, 2, "working", true));
    running.manager.enable("stuck", false).expect("a known name");
    within(Duration::from_secs(2), "it stops", || running.status("stuck").state == "disabled").await;
    let (status, text) = (running.status("stuck"), running.manager.metrics().1);
    assert_eq!((status.queue_length, status.in_hand, status.running, status.enabled), (0, 0, false, false));
    assert!(text.contains("workqueue_depth{name=\"stuck\",controller=\"stuck\"} 0"), "{text}");
    assert_eq!(others.take().len(), 10, "others do not notice");
    feed.apply(map("late", 20));
    assert_eq!(others.settled().await, ["default/late"]);
    assert_eq!(asked.swap(0, SeqCst), 2);
    running.manager.enable("stuck", true).expect("a known name");
    eventually("it catches up", || running.status("stuck").queue_length == 9).await;
    assert_eq!(asked.load(SeqCst), 2);
    timeout(Duration::from_secs(2), running.stop()).await.expect("it stops in time");
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_told_anything_else_while_it_runs() {
    let ((own, feed), manager) = (Feed::new(), manager());
    let log = add(&manager, "test", &own);
    let only = |namespaces: &[&str], keys: &[Key]| ReconcilerConfig {
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        keys: keys.to_vec(),
        workers: Some(3),
        ..ReconcilerConfig::default()
    };
    manager.configure("test", only(&["elsewhere"], &[key("b")])).expect("a known name");
    let running = Running::new(&manager);
    let mut elsewhere = map("c", 3);
    elsewhere.metadata.namespace = Some("elsewhere".to_owned());
    feed.list([map("a", 1), map("b", 2), elsewhere]);
    running.works("test").await;
    assert_eq!(running.status("test").workers, 3);
    assert_eq!(log.settled().await, ["default/b", "elsewhere/c"]);
    running.manager.configure("test", only(&["elsewhere"], &[key("b")])).expect("a known name");
    assert!(log.settled().await.is_empty(), "that is no news");
    running.manager.configure("test", only(&[], &[key("a")])).expect("a known name");
    assert_eq!(log.settled().await, ["default/a"]);
    let error = running.manager.enable("tset", false).expect_err("there is none");
    assert_eq!(error.to_string(), "there is no reconciler \"tset\"; there are: test");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_done_first_keeps_the_manager_from_being_ready() {
    let ((own, feed), manager) = (Feed::new(), manager());
    let is_broken = Arc::new(AtomicBool::new(true));
    let log = add_with(&manager, "test", &own, {
        let is_broken = Arc::clone(&is_broken);
        move |controller| {
            let is_broken = Arc::clone(&is_broken);
            controller.after_sync(move || {
                let is_broken = is_broken.load(SeqCst);
                async move { if is_broken { Err(Broken.into()) } else { Ok(()) } }
            })
        }
    });
    manager.add_check("disk", || Ok(()));
    assert_eq!(manager.readyz().0, 500, "it does not run");
    let running = Running::new(&manager);
    sleep(Duration::from_secs(1)).await;
    let (code, text) = running.manager.readyz();
    assert_eq!(code, 500);
    assert!(text.contains("[-]test failed: its caches have not seen everything\n"), "{text}");
    feed.list([map("a", 1)]);
    sleep(Duration::from_secs(10)).await;
    let (code, text) = running.manager.readyz();
    assert_eq!(
        (code, &*text),
        (500, "[+]ping ok\n[+]disk ok\n[-]test failed: it does not work\nreadyz check failed\n")
    );
    assert!(log.take().is_empty());
    is_broken.store(false, SeqCst);
    running.works("test").await;
    let (code, text) = running.manager.readyz();
    assert_eq!((code, &*text), (200, "[+]ping ok\n[+]disk ok\n[+]test ok\nreadyz check passed\n"));
    running.manager.add_check("disk2", || Err("it is full".to_owned()));
    assert_eq!(running.manager.readyz_of("disk2"), Some((500, "[-]disk2 failed: it is full\n".to_owned())));
    assert_eq!(running.manager.readyz_of("test").map(|(code, _)| code), Some(200));
    assert_eq!(running.manager.readyz_of("other"), None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_does_not_exist_is_waited_for_and_one_that_goes_away_stops_its_controller() {
    let ((own, feed), manager) = (Feed::new(), manager());
    let log = add(&manager, "test", &own);
    let running = Running::new(&manager);
    feed.fail(404);
    eventually("it waits", || running.status("test").state == "waiting for a kind that does not exist").await;
    let (code, text) = running.manager.readyz();
    assert_eq!(code, 200, "others can be ready without it");
    assert!(text.contains("warn: test: a kind that it watches does not exist\n"), "{text}");
    feed.list([map("a", 1)]);
    running.works("test").await;
    assert_eq!(log.settled().await, ["default/a"]);
    feed.fail(404);
    within(Duration::from_secs(2), "it stops", || !running.status("test").running).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.status("test").state, "waiting for a kind that does not exist");
    log.take();
    feed.list([map("a", 2), map("b", 3)]);
    running.works("test").await;
    assert_eq!(log.settled().await, ["default/a", "default/b"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_put_together_or_panics_is_tried_again_and_others_do_not_notice() {
    let ((own, feed), manager) = (Feed::new(), manager());
    let others = add(&manager, "other", &own);
    let tries = Arc::new(AtomicUsize::new(0));
    let build = {
        let (own, tries) = (own.clone(), Arc::clone(&tries));
        move |context: &Context| match tries.fetch_add(1, SeqCst) {
            0 => Err(Broken.into()),
            1 => panic!("while it is put together"),
            n => {
                let idle = |_: Key| async { Ok(Action::Done) };
                let keys_of = move |object: &ConfigMap| match n {
                    2 => panic!("while it watches"),
                    _ => vec![Key::of(object)],
                };
                Ok(context.controller(idle).watches(&own, keys_of))
            }
        }
    };
    manager.add("bad", build).expect("a new name");
    let running = Running::new(&manager);
    feed.list([map("a", 1)]);
    for (n, why) in
        [(1, "it does not work"), (2, "panic: while it is put together"), (3, "panic: while it watches")]
    {
        eventually(why, || running.status("bad").last_error.as_deref() == Some(why)).await;
        assert_eq!((tries.load(SeqCst), running.manager.readyz().0), (n, 500));
        assert!(running.status("other").running);
    }
    running.works("bad").await;
    assert_eq!((tries.load(SeqCst), running.manager.readyz().0), (4, 200));
    assert_eq!(others.take(), ["default/a"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn those_that_panic_block_or_fail_harm_nobody_else_and_people_are_told() {
    let ((own, feed), manager) = (Feed::new(), manager());
    for name in ["fails", "blocks", "panics"] {
        let own = own.clone();
        let build = move |context: &Context| {
            let bad = move |_: Key| async move {
                match name {
                    "blocks" => std::future::pending::<()>().await,
                    "panics" => panic!("oh no"),
                    _ => {}
                }
                Err(Broken.into())
            };
            Ok(context.controller(bad).reconciles(&own))
        };
        manager.add(name, build).expect("a new name");
    }
    let others = add(&manager, "good", &own);
    let running = Running::new(&manager);
    feed.list([map("a", 1), map("b", 2)]);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(others.take(), ["default/a", "default/b"]);
    feed.apply(map("c", 3));
    assert_eq!(others.settled().await, ["default/c"], "others do not notice");
    let ((code, text), (_, metrics)) = (running.manager.readyz(), running.manager.metrics());
    assert_eq!(code, 200);
    assert!(text.contains("warn: blocks: a reconcile has been under way for 100 s\n"), "{text}");
    assert!(!text.contains("warn: good"), "{text}");
    for (name, why) in [("fails", ": it does not work"), ("panics", ": panic: oh no")] {
        assert!(text.contains(&format!("warn: {name}: 3 failing, at last default/")), "{text}");
        let status = running.status(name);
        assert_eq!((status.failing, status.running), (3, true));
        assert!(status.last_error.is_some_and(|error| error.ends_with(why)), "{name}");
    }
    let blocks = running.status("blocks");
    assert_eq!((blocks.in_hand, blocks.queue_length, blocks.last_error), (1, 2, None));
    assert!(metrics.contains("longest_running_processor_seconds{name=\"blocks\",controller=\"blocks\"} 1"));
    assert!(metrics.contains("active_workers{controller=\"blocks\"} 1"), "{metrics}");
    for (count, name, is_none) in [
        ("panics", "panics", false),
        ("panics", "fails", true),
        ("errors", "fails", false),
        ("errors", "good", true),
    ] {
        let line = format!("controller_runtime_reconcile_{count}_total{{controller=\"{name}\"}} 0\n");
        assert_eq!(metrics.contains(&line), is_none, "{line}: {metrics}");
    }
    running.stop().await;
}

fn elect(manager: &Manager, client: Client) {
    elect_within(manager, client, Durations::default());
}

fn elect_within(manager: &Manager, client: Client, durations: Durations) {
    let election = Election::new(client, "kube-system", "hub", "test", durations);
    manager.elect(election.expect("good durations"));
}

#[tokio::test(start_paused = true)]
async fn one_of_two_managers_acts_and_the_other_takes_over() {
    let (server, (own, feed)) = (Server::default(), Feed::new());
    let mut managers = vec![];
    for _ in 0..2 {
        let manager = Manager::new(server.client());
        elect(&manager, server.client());
        let leads = add(&manager, "leads", &own);
        let everywhere = add_with(&manager, "everywhere", &own, Controller::everywhere);
        let running = Running::new(&manager);
        sleep(Duration::from_secs(1)).await;
        managers.push((running, leads, everywhere));
    }
    feed.list([map("a", 1)]);
    sleep(Duration::from_secs(60)).await;
    let (second, first) = (managers.remove(1), managers.remove(0));
    assert_eq!((first.0.manager.is_leader(), second.0.manager.is_leader()), (Some(true), Some(false)));
    assert_eq!((first.1.take().len(), first.2.take().len()), (1, 1));
    assert_eq!((second.1.take().len(), second.2.take().len()), (0, 1));
    assert_eq!(second.0.status("leads").state, "waiting to lead");
    assert_eq!(second.0.manager.readyz().0, 200, "who waits is ready");
    first.0.stop().await;
    assert_eq!(server.get(LEASE).expect("a lease")["spec"]["holderIdentity"], "");
    within(Duration::from_secs(3), "the other takes over", || second.0.status("leads").running).await;
    assert_eq!(second.1.settled().await, ["default/a"]);
    assert!(second.0.manager.metrics().1.contains("leader_election_master_status{name=\"hub\"} 1"));
    second.0.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_no_longer_leads_stops_before_another_could_begin() {
    let short = Durations {
        lease: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry: Duration::from_millis(500),
    };
    for durations in [Durations::default(), short] {
        loses_its_lease(durations).await;
    }
}

async fn loses_its_lease(durations: Durations) {
    let (server, (own, feed)) = (Server::default(), Feed::new());
    let is_cut = Arc::new(AtomicBool::new(false));
    let forecast: Forecast = {
        let is_cut = Arc::clone(&is_cut);
        Arc::new(move |_, _| Weather { is_lost: is_cut.load(SeqCst), ..Weather::default() })
    };
    let manager = manager();
    elect_within(&manager, server.client_in(forecast), durations);
    let is_busy = Arc::new(AtomicUsize::new(0));
    let build = {
        let is_busy = Arc::clone(&is_busy);
        move |context: &Context| {
            let (is_busy, context2) = (Arc::clone(&is_busy), context.clone());
            let blocks = move |_: Key| {
                let (is_busy, context) = (Arc::clone(&is_busy), context2.clone());
                async move {
                    assert!(matches!(context.fence(), Ok(Some(_))), "whoever acts has a number");
                    is_busy.fetch_add(1, SeqCst);
                    let end = scopeguard(is_busy);
                    std::future::pending::<()>().await;
                    drop(end);
                    Ok(Action::Done)
                }
            };
            Ok(context.controller(blocks).reconciles(&own))
        }
    };
    manager.add("test", build).expect("a new name");
    let running = Running::new(&manager);
    feed.list([map("a", 1)]);
    eventually("it is busy", || is_busy.load(SeqCst) == 1).await;
    is_cut.store(true, SeqCst);
    let cut = Instant::now();
    eventually("it stops", || is_busy.load(SeqCst) == 0).await;
    let took = cut.elapsed();
    // The last renewal was up to a retry period before the cut.
    let least = durations.renew_deadline.saturating_sub(durations.retry);
    assert!(took >= least && took < durations.lease - durations.retry / 2, "{took:?}");
    is_cut.store(false, SeqCst);
    eventually("it leads again", || is_busy.load(SeqCst) == 1).await;
    running.stop().await;
}

/// Counts down when it is dropped.
fn scopeguard(count: Arc<AtomicUsize>) -> impl Drop {
    struct Down(Arc<AtomicUsize>);
    impl Drop for Down {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    Down(count)
}

#[tokio::test(start_paused = true)]
async fn it_stops_workers_then_gives_back_the_lease_and_writes_events_last() {
    let (server, (own, feed)) = (Server::default(), Feed::new());
    let manager = Manager::new(server.client());
    elect(&manager, server.client());
    let held = Arc::new(Mutex::new(vec![]));
    let build = {
        let (held, server) = (Arc::clone(&held), server.clone());
        move |context: &Context| {
            let (held, server, recorder) = (Arc::clone(&held), server.clone(), context.recorder());
            let slow = move |key: Key| {
                let (held, server, recorder) = (Arc::clone(&held), server.clone(), recorder.clone());
                async move {
                    sleep(Duration::from_secs(1)).await;
                    let lease = server.get(LEASE).expect("a lease");
                    held.lock().push(lease["spec"]["holderIdentity"] != "");
                    recorder.normal(&map(key.name(), 1), "Done", "in time");
                    Ok(Action::Done)
                }
            };
            Ok(context.controller(slow).reconciles(&own))
        }
    };
    manager.add("test", build).expect("a new name");
    let running = Running::new(&manager);
    feed.list([map("a", 1)]);
    eventually("it is under way", || running.status("test").in_hand == 1).await;
    server.taken();
    running.stop().await;
    assert_eq!(*held.lock(), [true], "the lease is held while there is work");
    let taken = server.taken();
    assert_eq!(server.get(LEASE).expect("a lease")["spec"]["holderIdentity"], "");
    let event = taken.iter().find(|taken| taken.path.ends_with("/events")).expect("the event was written");
    assert_eq!((&event.method, &event.body["source"]["component"]), (&Method::POST, &json!("test")));
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}

#[tokio::test]
async fn pages_are_served() {
    let ((own, feed), manager) = (Feed::new(), manager());
    let log = add(&manager, "test", &own);
    let running = Running::new(&manager);
    feed.list([map("a", 1)]);
    eventually("it works", || !log.0.lock().is_empty()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, stop) = (listener.local_addr().expect("an address"), CancellationToken::new());
    let serving = tokio::spawn({
        let (manager, stop) = (running.manager.clone(), stop.clone());
        async move { manager.serve(listener, Pages::All, stop).await }
    });
    for (path, code, text) in [
        ("/healthz", 200, "ok"),
        ("/readyz?verbose", 200, "[+]test ok"),
        ("/readyz/test", 200, "[+]test ok"),
        ("/readyz/other", 404, "404"),
        ("/metrics", 200, "controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 1"),
        ("/status", 200, "\"queueLength\": 0"),
        ("/", 404, "404"),
    ] {
        let answer = get(address, path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{path}: {answer}");
        assert!(answer.contains(text), "{path}: {answer}");
    }
    stop.cancel();
    serving.await.expect("no panic");
    running.stop().await;
}

#[tokio::test]
async fn pages_are_served_where_the_configuration_says() {
    let manager = manager();
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("an address");
    let wanted = config(json!({"metrics-bind-address": address.to_string()}));
    let stop = CancellationToken::new();
    let served = manager.serve_configured(&wanted, stop.clone()).await;
    assert_eq!(served.err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
    drop(taken);
    let serving = tokio::spawn(manager.serve_configured(&wanted, stop.clone()).await.expect("it is free"));
    for (path, code) in [("/metrics", 200), ("/healthz", 404)] {
        let answer = get(address, path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{path}: {answer}");
    }
    stop.cancel();
    serving.await.expect("no panic");
}

/// Whatever happens to a controller, no object is looked after by two at a time, and in the end each is as it was last.
#[tokio::test(start_paused = true)]
async fn whatever_happens_everything_is_looked_after_in_the_end_and_by_one_at_a_time() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (server, (own, feed)) = (Server::default(), Feed::new());
        let manager = Manager::new(server.client());
        if seed % 2 == 0 {
            elect(&manager, server.client());
        }
        let (known, busy) = (Arc::new(Mutex::new(BTreeMap::new())), Arc::new(Mutex::new(HashSet::new())));
        let build = {
            let (known, busy, own) = (Arc::clone(&known), Arc::clone(&busy), own.clone());
            move |context: &Context| {
                let (known, busy, cache) = (Arc::clone(&known), Arc::clone(&busy), own.cache().clone());
                let looks = move |key: Key| {
                    let (known, busy, cache) = (Arc::clone(&known), Arc::clone(&busy), cache.clone());
                    async move {
                        assert!(busy.lock().insert(key.clone()), "one at a time");
                        let _end = Free(Arc::clone(&busy), key.clone());
                        sleep(Duration::from_millis(fastrand::u64(..300))).await;
                        let revision = cache.get(&key).and_then(|map| map.metadata.resource_version.clone());
                        known.lock().insert(key, revision);
                        if fastrand::u8(..8) == 0 { Err(Broken.into()) } else { Ok(Action::Done) }
                    }
                };
                Ok(context.controller(looks).reconciles(&own).workers(3))
            }
        };
        manager.add("test", build).expect("a new name");
        let running = Running::new(&manager);
        let mut there = BTreeMap::new();
        feed.list([]);
        for revision in 1..60_u64 {
            match random.u8(..10) {
                0 => running.manager.enable("test", random.bool()).expect("a known name"),
                1 => {
                    let workers = Some(random.usize(1..4));
                    let told = ReconcilerConfig { workers, ..ReconcilerConfig::default() };
                    running.manager.configure("test", told).expect("a known name");
                }
                2 => feed.fail(404),
                3 => feed.list(there.values().cloned()),
                _ => {
                    let object = map(&random.u8(..6).to_string(), revision);
                    there.insert(Key::of(&object), object.clone());
                    feed.apply(object);
                }
            }
            sleep(Duration::from_millis(random.u64(..1500))).await;
        }
        feed.list(there.values().cloned());
        running.manager.enable("test", true).expect("a known name");
        let last = |map: &ConfigMap| map.metadata.resource_version.clone();
        let is_right = || there.iter().all(|(key, map)| known.lock().get(key) == Some(&last(map)));
        eventually(&format!("seed {seed}"), is_right).await;
        let metrics = running.manager.metrics().1;
        assert!(metrics.contains("reconcile_panics_total{controller=\"test\"} 0"), "seed {seed}: {metrics}");
        running.stop().await;
        assert!(busy.lock().is_empty(), "nothing is left under way");
    }
}

/// Says that nobody has a key any more.
struct Free(Arc<Mutex<HashSet<Key>>>, Key);

impl Drop for Free {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

const REGISTRATIONS: &[Registration] = &[
    Registration {
        name: "one",
        about: "Does nothing",
        crd: None,
        graph: None,
        build: |context| {
            #[derive(serde::Deserialize)]
            #[serde(deny_unknown_fields, default)]
            struct Settings {
                colour: String,
            }
            impl Default for Settings {
                fn default() -> Self {
                    Settings { colour: "red".to_owned() }
                }
            }
            let settings: Settings = context.settings()?;
            match &*settings.colour {
                "red" | "blue" => Ok(context.controller(|_| async { Ok(Action::Done) })),
                other => Err(format!("there is no colour {other}").into()),
            }
        },
    },
    Registration {
        name: "two",
        about: "Does as little",
        crd: None,
        graph: None,
        build: |context| Ok(context.controller(|_| async { Ok(Action::Done) })),
    },
];

fn config(json: serde_json::Value) -> HubConfig {
    serde_json::from_value(json).expect("a configuration")
}

#[tokio::test(start_paused = true)]
async fn registered_reconcilers_run_as_the_configuration_says_and_it_can_be_replaced() {
    let client = Server::default().client();
    let of = |json| Manager::of(client.clone(), REGISTRATIONS, &config(json));
    let error = of(json!({"reconcilers": {"tow": {}}})).expect_err("there is none");
    assert_eq!(error.to_string(), "there is no reconciler \"tow\"; there are: one, two");
    let error =
        of(json!({"leader-election": {"enabled": true, "lease-duration": "5s"}})).expect_err("too short");
    assert!(error.to_string().contains("must be shorter than the lease"), "{error}");
    let twice = [REGISTRATIONS[0], REGISTRATIONS[0]];
    let error = Manager::of(client.clone(), &twice, &HubConfig::default()).expect_err("two of one name");
    assert_eq!(error, ConfigError::Twice("one".to_owned()));
    let manager = of(json!({"reconcilers": {"two": {"enabled": false, "workers": 7}}})).expect("it is right");
    let running = Running::new(&manager);
    running.works("one").await;
    assert_eq!(running.status("two").state, "disabled");
    let wrong = config(json!({"reconcilers": {"one": {"enabled": false}, "three": {}}}));
    running.manager.apply(&wrong).expect_err("there is no such reconciler");
    let next =
        config(json!({"reconcilers": {"one": {"settings": {"colour": "green"}}, "two": {"workers": 7}}}));
    running.manager.apply(&next).expect("it is right");
    running.works("two").await;
    assert_eq!(running.status("two").workers, 7);
    let broken = || running.status("one").last_error.as_deref() == Some("there is no colour green");
    eventually("it cannot be put together", broken).await;
    running.manager.apply(&HubConfig::default()).expect("it is right");
    within(Duration::from_millis(100), "it is well again", || running.status("one").running).await;
    assert_eq!(running.status("two").workers, 1);
    running.stop().await;
}
