//! Elections on a server that is a map, in virtual time.

use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    task::Poll,
};

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::testing::{
    eventually,
    server::{Forecast, Server, Weather},
    within,
};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hub";

fn election(client: Client, who: &str) -> Election {
    Election::new(client, "kube-system", "hub", who, Durations::default()).expect("good durations")
}

/// A candidate that runs.
struct Running {
    leads: Arc<Mutex<Option<Leadership>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn is_leader(&self) -> bool {
        self.leads.lock().as_ref().is_some_and(Leadership::is_valid)
    }

    fn leadership(&self) -> Leadership {
        self.leads.lock().clone().expect("it leads")
    }
}

fn run(election: Election) -> Running {
    let (leads, stop) = (Arc::new(Mutex::new(None)), CancellationToken::new());
    let task = tokio::spawn({
        let (leads, stop) = (Arc::clone(&leads), stop.clone());
        async move {
            election
                .run(stop.clone(), |leadership| {
                    let (leads, stop) = (Arc::clone(&leads), stop.clone());
                    async move {
                        *leads.lock() = Some(leadership.clone());
                        tokio::select! {
                            () = leadership.over().cancelled() => {}
                            () = stop.cancelled() => {}
                        }
                        *leads.lock() = None;
                    }
                })
                .await;
        }
    });
    Running { leads, stop, task }
}

fn spec(server: &Server) -> Value {
    server.get(PATH).expect("there is a lease")["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn the_first_one_leads_and_renews_its_lease() {
    let server = Server::default();
    let election = election(server.client(), "one");
    let identity = election.identity().to_owned();
    assert!(identity.starts_with("one_"));
    let one = run(election);
    eventually("it leads", || one.is_leader()).await;
    let first = spec(&server);
    assert_eq!(first["holderIdentity"], identity.as_str());
    assert_eq!((&first["leaseDurationSeconds"], &first["leaseTransitions"]), (&json!(15), &json!(0)));
    sleep(Duration::from_secs(3600)).await;
    assert!(one.is_leader());
    let later = spec(&server);
    assert_ne!(later["renewTime"], first["renewTime"]);
    assert_eq!(later["acquireTime"], first["acquireTime"]);
    assert_eq!(later["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let server = Server::default();
    let one = run(election(server.client(), "one"));
    eventually("it leads", || one.is_leader()).await;
    let other = run(election(server.client(), "other"));
    sleep(Duration::from_secs(60)).await;
    assert!(one.is_leader() && !other.is_leader());
    let first = one.leadership();
    one.stop.cancel();
    one.task.await.expect("no panic");
    assert!(!first.is_valid() && first.over().is_cancelled());
    let free = spec(&server);
    assert_eq!((&free["holderIdentity"], &free["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    within(Duration::from_millis(2401), "the other leads", || other.is_leader()).await;
    assert_eq!(spec(&server)["leaseTransitions"], 1);
    assert!(other.leadership().fence().number() > first.fence().number());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_killed_is_followed_when_its_lease_has_run_out() {
    let server = Server::default();
    let one = run(election(server.client(), "one"));
    eventually("it leads", || one.is_leader()).await;
    let other = run(election(server.client(), "other"));
    sleep(Duration::from_secs(60)).await;
    let first = one.leadership();
    one.task.abort();
    let killed = Instant::now();
    eventually("the other leads", || other.is_leader()).await;
    let took = killed.elapsed();
    assert!(took > Duration::from_secs(13) && took < Duration::from_millis(17_500), "{took:?}");
    assert!(first.over().is_cancelled(), "nobody acts for one that is gone");
    assert_eq!(spec(&server)["leaseTransitions"], 1);
}

/// A client that can be cut off.
fn fragile(server: &Server) -> (Client, Arc<AtomicBool>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let forecast: Forecast = {
        let is_cut = Arc::clone(&is_cut);
        Arc::new(move |_, _| Weather { is_lost: is_cut.load(SeqCst), ..Weather::default() })
    };
    (server.client_in(forecast), is_cut)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_begins_and_comes_back() {
    let server = Server::default();
    let (client, is_cut) = fragile(&server);
    let one = run(election(client, "one"));
    eventually("it leads", || one.is_leader()).await;
    let other = run(election(server.client(), "other"));
    sleep(Duration::from_secs(60)).await;
    is_cut.store(true, SeqCst);
    let (cut, leadership) = (Instant::now(), one.leadership());
    sleep(Duration::from_millis(7_900)).await;
    assert!(leadership.is_valid(), "it goes on for a while");
    leadership.over().cancelled().await;
    assert!(cut.elapsed() <= Duration::from_secs(10), "{:?}", cut.elapsed());
    assert!(!other.is_leader());
    eventually("the other leads", || other.is_leader()).await;
    assert!(cut.elapsed() > Duration::from_secs(13));
    is_cut.store(false, SeqCst);
    sleep(Duration::from_secs(60)).await;
    assert!(other.is_leader() && !one.is_leader());
    other.stop.cancel();
    within(Duration::from_secs(3), "it leads again", || one.is_leader()).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_harms_nobody() {
    let server = Server::default();
    let (client, is_cut) = fragile(&server);
    let one = run(election(client, "one"));
    eventually("it leads", || one.is_leader()).await;
    let leadership = one.leadership();
    for _ in 0..50 {
        is_cut.store(true, SeqCst);
        sleep(Duration::from_secs(5)).await;
        is_cut.store(false, SeqCst);
        sleep(Duration::from_secs(5)).await;
    }
    assert!(leadership.is_valid());
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_a_holder_does_not_matter() {
    let server = Server::default();
    let lease = |n: u32, year: u32| {
        json!({"metadata": {"name": "hub", "namespace": "kube-system"}, "spec": {
            "holderIdentity": "stranger", "leaseDurationSeconds": 15, "leaseTransitions": 7,
            "renewTime": format!("{year}-01-01T00:00:{n:02}.000000Z")}})
    };
    let collection = PATH.trim_end_matches("/hub");
    server.handle(&Method::POST, collection, lease(0, 1999));
    let one = run(election(server.client(), "one"));
    for n in 0..20 {
        server.handle(&Method::PUT, PATH, lease(n, 2100 - n));
        sleep(Duration::from_secs(10)).await;
        assert!(!one.is_leader(), "it is renewed");
    }
    within(Duration::from_secs(8), "it leads", || one.is_leader()).await;
    assert_eq!(spec(&server)["leaseTransitions"], 8);
}

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_as_long_as_its_holder_has_said() {
    let server = Server::default();
    let lease = json!({"metadata": {"name": "hub"}, "spec": {
        "holderIdentity": "stranger", "leaseDurationSeconds": 60, "renewTime": "2020-01-01T00:00:00.000000Z"}});
    server.handle(&Method::POST, PATH.trim_end_matches("/hub"), lease);
    let one = run(election(server.client(), "one"));
    sleep(Duration::from_millis(59_900)).await;
    assert!(!one.is_leader());
    within(Duration::from_secs(1), "it leads", || one.is_leader()).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_taken_or_deleted_stops_and_one_whose_lease_is_touched_goes_on() {
    let server = Server::default();
    let one = run(election(server.client(), "one"));
    eventually("it leads", || one.is_leader()).await;
    server.handle(&Method::PATCH, PATH, json!({"metadata": {"labels": {"a": "b"}}}));
    let leadership = one.leadership();
    sleep(Duration::from_secs(60)).await;
    assert!(leadership.is_valid());
    assert_eq!(server.get(PATH).expect("a lease")["metadata"]["labels"]["a"], "b", "it is left as it is");
    server.handle(&Method::PATCH, PATH, json!({"spec": {"holderIdentity": "thief"}}));
    // By its next renewal it knows.
    sleep(Duration::from_millis(2001)).await;
    assert!(!leadership.is_valid());
}

#[test]
fn durations_have_to_fit_each_other() {
    let check = |lease, renew, retry| {
        let of = Duration::from_millis;
        Durations { lease: of(lease), renew_deadline: of(renew), retry: of(retry) }.check().is_ok()
    };
    assert_eq!(Durations::default().check(), Ok(()));
    assert!(check(3000, 2000, 500));
    for (lease, renew, retry) in
        [(10_000, 10_000, 2000), (15_000, 2000, 2000), (15_000, 10_000, 0), (500, 400, 100)]
    {
        assert!(!check(lease, renew, retry), "{lease} {renew} {retry}");
    }
}

#[test]
fn a_later_leader_is_known_by_what_it_has_written() {
    let fence = |name: &str, revision: u64| {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some(revision.to_string());
        Fence::new("ns", name, &lease)
    };
    let mut meta = ObjectMeta::default();
    assert!(fence("a", 1).allows(&meta));
    fence("a", 5).mark(&mut meta);
    assert_eq!(meta.annotations.as_ref().map(|all| all[FENCE].as_str()), Some("ns/a:5"));
    assert!(!fence("a", 4).allows(&meta));
    assert!(fence("a", 5).allows(&meta) && fence("a", 6).allows(&meta));
    assert!(fence("b", 1).allows(&meta), "another lease says nothing");
}

/// Now and then, is not run for a while: as if its process had been stopped, or its machine had been busy.
async fn with_pauses(mut random: fastrand::Rng, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    let mut is_asleep = false;
    let mut turn = Box::pin(sleep(Duration::from_secs(random.u64(5..60))));
    poll_fn(|context| {
        while turn.as_mut().poll(context).is_ready() {
            is_asleep = !is_asleep;
            let most = if is_asleep { 40_000 } else { 90_000 };
            turn = Box::pin(sleep(Duration::from_millis(random.u64(1..most))));
        }
        if is_asleep { Poll::Pending } else { work.as_mut().poll(context) }
    })
    .await;
}

/// A network that delays, loses and answers twice as late as it should.
fn bad_weather(seed: u64) -> Forecast {
    let random = Mutex::new(fastrand::Rng::with_seed(seed));
    Arc::new(move |_, _| {
        let mut random = random.lock();
        let mut delay = || {
            let most = if random.u8(..20) == 0 { 20_000 } else { 1_500 };
            Duration::from_millis(random.u64(..most))
        };
        let delays = (delay(), delay());
        let (is_lost, is_unanswered) = (random.u8(..8) == 0, random.u8(..8) == 0);
        Weather { delays, is_lost, is_unanswered, refused: (random.u8(..10) == 0).then_some(500) }
    })
}

#[tokio::test(start_paused = true)]
async fn there_are_never_two_leaders() {
    let n_terms = Arc::new(AtomicUsize::new(0));
    for seed in 0..10 {
        let server = Server::default();
        let stop = CancellationToken::new();
        // Who leads: as each of them believes. And the numbers of all leaders, in order of their coming.
        let leads = Arc::new(Mutex::new(vec![None::<Leadership>; 4]));
        let fences = Arc::new(Mutex::new(vec![]));
        let mut tasks = vec![];
        for n in 0..4 {
            let own_seed = seed * 10 + n as u64;
            // Whoever has it good takes over as early as can be from whoever does not.
            let client = if n < 2 { server.client_in(bad_weather(own_seed)) } else { server.client() };
            let election = election(client, &n.to_string());
            let (leads, fences, stop) = (Arc::clone(&leads), Arc::clone(&fences), stop.clone());
            let (mut random, n_terms) = (fastrand::Rng::with_seed(own_seed), Arc::clone(&n_terms));
            let work = election.run(stop, move |leadership| {
                leads.lock()[n] = Some(leadership.clone());
                fences.lock().push(leadership.fence().number());
                n_terms.fetch_add(1, SeqCst);
                let tires = sleep(Duration::from_secs(random.u64(10..200)));
                async move {
                    tokio::select! {
                        () = leadership.over().cancelled() => {}
                        () = tires => {}
                    }
                }
            });
            tasks.push(tokio::spawn(with_pauses(fastrand::Rng::with_seed(own_seed), work)));
        }
        let mut deletes = fastrand::Rng::with_seed(seed);
        for n in 0..10_000 {
            sleep(Duration::from_millis(100)).await;
            // Now and then somebody deletes the lease, once everybody has seen it.
            if n > 2000 && deletes.u16(..1000) == 0 {
                server.handle(&Method::DELETE, PATH, Value::Null);
            }
            let leading = leads.lock().iter().flatten().filter(|leadership| leadership.is_valid()).count();
            assert!(leading <= 1, "seed {seed}");
        }
        let fences = fences.lock().clone();
        assert!(fences.is_sorted_by(|one, next| one < next), "seed {seed}: {fences:?}");
        stop.cancel();
        tasks.iter().for_each(JoinHandle::abort);
    }
    assert!(n_terms.load(SeqCst) > 100, "{n_terms:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_not_taken_before_its_holder_knows() {
    for tenths in 0..20 {
        let server = Server::default();
        let one = run(election(server.client(), "one"));
        eventually("it leads", || one.is_leader()).await;
        let other = run(election(server.client(), "other"));
        sleep(Duration::from_secs(60) + Duration::from_millis(100) * tenths).await;
        server.handle(&Method::DELETE, PATH, Value::Null);
        let mut has_led = false;
        for _ in 0..6000 {
            sleep(Duration::from_millis(10)).await;
            assert!(!(one.is_leader() && other.is_leader()), "{tenths}: two lead");
            has_led |= server.get(PATH).is_some() && (one.is_leader() || other.is_leader());
        }
        assert!(has_led, "{tenths}: in the end one leads");
    }
}
