//! Simulations: requests that arrive at chosen or random times and take a known time.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use serde_json::{Value, json};

use super::{dispatcher::Dispatcher, *};
use crate::{Attributes, User, Wanted};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn shape(shares: u32, lendable_percent: u32, queuing: (u32, u32, u32)) -> Shape {
    let (queues, hand_size, queue_length_limit) = queuing;
    let queuing = Queuing { queues, hand_size, queue_length_limit };
    Shape { shares, lendable_percent, borrowing_percent: None, queuing }
}

struct Request {
    level: &'static str,
    flow: u64,
    takes: Duration,
    arrived: Duration,
    ticket: Ticket,
    is_over: bool,
}

/// A server that does nothing but take its time.
struct Simulation {
    dispatcher: Dispatcher<usize>,
    total: u64,
    now: Duration,
    requests: Vec<Request>,
    running: BinaryHeap<Reverse<(Duration, usize)>>,
}

impl Simulation {
    fn new(total: u64, levels: &[(&str, Shape)]) -> Self {
        let mut dispatcher = Dispatcher::new(total);
        assert!(dispatcher.configure(levels, Duration::ZERO).is_empty());
        Simulation { dispatcher, total, now: Duration::ZERO, requests: vec![], running: BinaryHeap::new() }
    }

    fn arrive(
        &mut self,
        level: &'static str,
        flow: u64,
        seats: u32,
        takes: Duration,
    ) -> Result<usize, Refusal> {
        let idx = self.requests.len();
        let id = self.dispatcher.level(level).ok_or(Refusal::NoLevel)?;
        let (ticket, begun) = self.dispatcher.arrive(id, flow, seats, self.now, || idx)?;
        let request = Request { level, flow, takes, arrived: self.now, ticket, is_over: false };
        if ticket.begun().is_some() {
            self.running.push(Reverse((self.now + takes, idx)));
        }
        self.requests.push(request);
        self.begin(begun);
        Ok(idx)
    }

    fn begin(&mut self, begun: Begun<usize>) {
        for (ticket, idx) in begun {
            let request = &mut self.requests[idx];
            assert!(request.ticket.begun().is_none() && !request.is_over, "begun twice, or after it gave up");
            assert_eq!(ticket.begun(), Some(self.now));
            request.ticket = ticket;
            self.running.push(Reverse((self.now + request.takes, idx)));
        }
        assert!(self.dispatcher.in_use() <= self.total, "{} of {}", self.dispatcher.in_use(), self.total);
    }

    fn give_up(&mut self, idx: usize) {
        self.requests[idx].is_over = true;
        let begun = self.dispatcher.give_up(self.requests[idx].ticket, self.now);
        self.begin(begun);
    }

    /// Lets time pass.
    fn until(&mut self, then: Duration) {
        while let Some(Reverse((at, idx))) =
            self.running.peek().copied().filter(|Reverse((at, _))| *at <= then)
        {
            self.running.pop();
            self.now = at;
            let request = &mut self.requests[idx];
            request.is_over = true;
            let begun = self.dispatcher.end(request.ticket, at);
            self.begin(begun);
        }
        self.now = then;
    }

    /// Lets everything come to its end.
    fn finish(&mut self) {
        while let Some(Reverse((at, _))) = self.running.peek().copied() {
            self.until(at);
        }
        assert!(self.requests.iter().all(|request| request.is_over), "someone waits for ever");
        assert_eq!((self.dispatcher.in_use(), self.dispatcher.waiting()), (0, 0));
    }

    /// The seat-seconds that a flow has had.
    fn served(&self, flow: u64) -> f64 {
        let of_flow = self.requests.iter().filter(|request| request.flow == flow);
        let took = of_flow.filter_map(|request| {
            let begun = request.ticket.begun()?;
            let took = self.now.min(begun + request.takes) - begun;
            Some(took.as_secs_f64() * f64::from(request.ticket.seats()))
        });
        took.sum()
    }

    fn longest_wait(&self, flow: u64) -> Duration {
        let of_flow = self.requests.iter().filter(|request| request.flow == flow);
        of_flow
            .map(|request| request.ticket.begun().unwrap_or(self.now) - request.arrived)
            .max()
            .unwrap_or_default()
    }
}

const QUEUES: (u32, u32, u32) = (64, 6, 50);

#[test]
fn who_asks_ten_times_as_much_gets_no_more_when_others_ask_for_their_share() {
    let mut simulation = Simulation::new(10, &[("a", shape(1, 0, QUEUES))]);
    // Ten seats, two flows: five seats each, so 250 requests of 20 ms a second. One wants ten times that.
    for step in 0..20_000_u64 {
        simulation.until(millis(step / 4));
        let _ = simulation.arrive("a", 1, 1, millis(20));
        if step % 16 < 1 {
            let _ = simulation.arrive("a", 2, 1, millis(20)).expect("the modest one is never sent away");
        }
    }
    let (greedy, modest) = (simulation.served(1), simulation.served(2));
    assert!(modest > 24.0, "all that was asked for: {modest}");
    assert!(greedy > 24.0, "all that is left: {greedy}");
    let wait = simulation.longest_wait(2);
    assert!(wait <= millis(45), "the modest one waits for what runs, not for what waits: {wait:?}");
    simulation.finish();
}

#[test]
fn flows_that_all_want_more_than_there_is_get_the_same() {
    // Short and long, narrow and wide: what counts is seats and time.
    let kinds = [(1, 1, 5), (2, 1, 100), (3, 4, 20), (4, 2, 60), (5, 10, 10)];
    let mut simulation = Simulation::new(12, &[("a", shape(1, 0, (512, 8, 50)))]);
    for step in 0..30_000_u64 {
        simulation.until(millis(step));
        for (flow, seats, takes) in kinds {
            let _ = simulation.arrive("a", flow, seats, millis(takes));
        }
    }
    let served: Vec<f64> = kinds.iter().map(|(flow, ..)| simulation.served(*flow)).collect();
    let (least, most) =
        served.iter().fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
    assert!(most / least < 1.15, "{served:?}");
    simulation.finish();
}

#[test]
fn a_level_uses_what_others_do_not_and_gives_it_back() {
    let levels = [("a", shape(1, 50, QUEUES)), ("b", shape(1, 50, QUEUES))];
    let mut simulation = Simulation::new(100, &levels);
    for flow in 0..100 {
        simulation.arrive("a", flow, 1, millis(100 + flow)).expect("there is room in the queues");
    }
    assert_eq!(simulation.dispatcher.usage("a").0, 75, "its own 50, and what b lends");
    for flow in 0..60 {
        simulation.arrive("b", flow, 1, millis(1000)).expect("there is room in the queues");
    }
    assert_eq!(simulation.dispatcher.usage("b").0, 25, "what b does not lend is there at once");
    simulation.until(millis(124));
    let (of_a, of_b) = (simulation.dispatcher.usage("a").0, simulation.dispatcher.usage("b").0);
    assert_eq!((of_a, of_b), (50, 50), "b comes first until it has what is its own");
    simulation.finish();
}

#[test]
fn a_level_borrows_no_more_than_it_may() {
    let timid = Shape { borrowing_percent: Some(20), ..shape(1, 0, QUEUES) };
    let mut simulation = Simulation::new(100, &[("a", timid), ("b", shape(1, 100, QUEUES))]);
    for flow in 0..100 {
        simulation.arrive("a", flow, 1, millis(10)).expect("there is room in the queues");
    }
    assert_eq!(simulation.dispatcher.usage("a").0, 60);
    simulation.finish();
}

#[test]
fn what_a_level_does_not_lend_is_there_at_once() {
    let levels = [("leases", shape(10, 0, (16, 4, 50))), ("work", shape(100, 90, (128, 6, 50)))];
    let mut simulation = Simulation::new(600, &levels);
    for request in 0..10_000 {
        let _ = simulation.arrive("work", request % 10, 1, Duration::from_secs(60));
    }
    assert!(simulation.dispatcher.usage("work").1 > 0, "work has to wait");
    for holder in 0..10 {
        let idx = simulation.arrive("leases", holder, 1, millis(5)).expect("a seat");
        assert_eq!(simulation.requests[idx].ticket.begun(), Some(simulation.now), "leases do not wait");
    }
    simulation.finish();
}

#[test]
fn small_requests_do_not_keep_a_large_one_away() {
    let mut simulation = Simulation::new(10, &[("a", shape(1, 0, QUEUES))]);
    for step in 0..100 {
        simulation.until(millis(step));
        simulation.arrive("a", step % 7, 1, millis(9)).expect("there is room");
    }
    let wide = simulation.arrive("a", 99, 10, millis(10)).expect("there is room");
    for step in 100..1000 {
        simulation.until(millis(step));
        let _ = simulation.arrive("a", step % 7, 1, millis(9));
    }
    let request = &simulation.requests[wide];
    let begun = request.ticket.begun().expect("it has begun");
    assert!(begun - request.arrived < millis(60), "{:?}", begun - request.arrived);
    simulation.finish();
}

/// A level full of long lists, with more of them waiting, of ten clients.
fn crowded() -> Simulation {
    let mut simulation = Simulation::new(25, &[("a", shape(1, 0, QUEUES))]);
    for request in 0..100 {
        simulation.arrive("a", request % 10, 5, millis(20 + request % 7)).expect("a place");
    }
    assert!(simulation.dispatcher.waiting() > 50);
    simulation
}

#[test]
fn who_asks_for_little_does_not_wait_for_long_lists() {
    let mut simulation = crowded();
    for step in 1..300 {
        simulation.until(millis(step));
        let _ = simulation.arrive("a", step % 10, 5, millis(20));
        if step % 5 == 0 {
            let small = simulation.arrive("a", 99, 1, millis(1)).expect("a place");
            assert_eq!(simulation.requests[small].ticket.begun(), Some(simulation.now), "at {step} ms");
        }
    }
    simulation.finish();
}

#[test]
fn who_pauses_between_two_lists_gets_no_more_than_others() {
    let mut simulation = crowded();
    let mut own = simulation.arrive("a", 99, 5, millis(20)).expect("a place");
    for step in 1..2000 {
        simulation.until(millis(step));
        let _ = simulation.arrive("a", step % 10, 5, millis(20));
        if simulation.requests[own].is_over {
            own = simulation.arrive("a", 99, 5, millis(20)).expect("a place");
        }
    }
    let most = (0..10).map(|flow| simulation.served(flow)).fold(0.0, f64::max);
    let own = simulation.served(99);
    assert!(own <= most * 1.1, "{own} seat-seconds, others {most}");
    assert!(own >= most * 0.5, "{own} seat-seconds, others {most}");
    simulation.finish();
}

#[test]
fn what_wants_more_seats_than_its_level_has_gets_all_but_one_of_them() {
    let mut simulation = Simulation::new(20, &[("a", shape(1, 0, QUEUES)), ("b", shape(3, 0, QUEUES))]);
    let idx = simulation.arrive("a", 1, 1_000_000, millis(1)).expect("a place");
    assert_eq!(simulation.requests[idx].ticket.seats(), 4);
    assert!(simulation.requests[idx].ticket.begun().is_some());
    simulation.finish();
}

#[test]
fn a_level_without_queues_sends_away() {
    let mut simulation = Simulation::new(2, &[("a", shape(1, 0, (1, 1, 0)))]);
    for _ in 0..2 {
        simulation.arrive("a", 1, 1, millis(10)).expect("a seat");
    }
    assert_eq!(simulation.arrive("a", 1, 1, millis(10)).err(), Some(Refusal::NoSeats));
    simulation.until(millis(10));
    simulation.arrive("a", 1, 1, millis(10)).expect("a seat again");
    simulation.finish();
}

#[test]
fn queues_are_bounded_and_whoever_gives_up_frees_a_place() {
    let mut simulation = Simulation::new(1, &[("a", shape(1, 0, (1, 1, 3)))]);
    simulation.arrive("a", 1, 1, millis(10)).expect("a seat");
    let waiting: Vec<usize> =
        (0..3).map(|_| simulation.arrive("a", 1, 1, millis(10)).expect("a place")).collect();
    assert_eq!(simulation.arrive("a", 1, 1, millis(10)).err(), Some(Refusal::QueueFull));
    simulation.give_up(waiting[1]);
    let late = simulation.arrive("a", 1, 1, millis(10)).expect("a place");
    simulation.until(millis(45));
    let begun = |idx: usize| simulation.requests[idx].ticket.begun();
    assert_eq!(
        [begun(waiting[0]), begun(waiting[1]), begun(waiting[2]), begun(late)],
        [Some(millis(10)), None, Some(millis(20)), Some(millis(30))]
    );
    simulation.finish();
    assert_eq!(simulation.dispatcher.kept("a"), (0, 0), "nothing is kept of queues that are empty");
}

#[test]
fn who_gives_up_at_the_head_lets_others_begin() {
    let mut simulation = Simulation::new(3, &[("a", shape(1, 0, (1, 1, 10)))]);
    simulation.arrive("a", 1, 2, millis(100)).expect("seats");
    let wide = simulation.arrive("a", 1, 3, millis(10)).expect("a place");
    let narrow = simulation.arrive("a", 1, 1, millis(10)).expect("a place");
    assert!(simulation.requests[narrow].ticket.begun().is_none());
    simulation.give_up(wide);
    assert!(simulation.requests[narrow].ticket.begun().is_some());
    simulation.finish();
}

#[test]
fn levels_that_go_serve_those_who_wait_and_nobody_else() {
    let mut simulation = Simulation::new(2, &[("a", shape(1, 0, QUEUES)), ("b", shape(1, 0, QUEUES))]);
    for _ in 0..5 {
        simulation.arrive("a", 1, 1, millis(10)).expect("a place");
    }
    let gone = simulation.dispatcher.level("a").expect("it is there");
    let begun = simulation.dispatcher.configure(&[("b", shape(1, 0, QUEUES))], simulation.now);
    simulation.begin(begun);
    assert_eq!(simulation.dispatcher.level("a"), None);
    let now = simulation.now;
    assert_eq!(simulation.dispatcher.arrive(gone, 1, 1, now, || 0).err(), Some(Refusal::NoLevel));
    simulation.arrive("b", 1, 1, millis(10)).expect("a place");
    simulation.finish();
    assert_eq!(simulation.dispatcher.limits("b").nominal, 2, "and then their seats are free for others");
}

#[test]
fn what_levels_keep_for_themselves_is_never_more_than_there_is() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..2000 {
        let most = [3, 600, u64::from(u32::MAX) * 2][random.usize(0..3)];
        let total = random.u64(1..=most);
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let levels: Vec<(&str, Shape)> = names
            .iter()
            .map(|name| (*name, shape(random.u32(0..200), random.u32(0..=100), QUEUES)))
            .collect();
        let mut dispatcher: Dispatcher<()> = Dispatcher::new(total);
        dispatcher.configure(&levels, Duration::ZERO);
        let limits: Vec<_> = names.iter().map(|name| dispatcher.limits(name)).collect();
        assert!(limits.iter().map(|limits| limits.reserved).sum::<u64>() <= total);
        assert!(
            limits.iter().all(|limits| limits.reserved <= limits.nominal && limits.nominal <= limits.most)
        );
        assert!(
            levels.iter().zip(&limits).all(|((_, shape), limits)| (shape.shares > 0) == (limits.nominal > 0))
        );
    }
}

/// Random arrivals, widths, durations, changes of mind and changes of the configuration. The simulation itself checks
/// that there are never more seats taken than there are, that nobody begins twice, and that nobody waits for ever.
fn at_random(seed: u64) -> Vec<Option<Duration>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let names = ["a", "b", "c", "d"];
    let some_levels = |random: &mut fastrand::Rng| {
        let mut levels = vec![];
        for name in names {
            if levels.is_empty() || random.bool() {
                let queues = random.u32(1..20);
                let queuing = (queues, random.u32(1..=queues), random.u32(0..8));
                let borrowing_percent = random.bool().then(|| random.u32(0..300));
                let some = shape(random.u32(1..50), random.u32(0..=100), queuing);
                levels.push((name, Shape { borrowing_percent, ..some }));
            }
        }
        levels
    };
    let mut simulation = Simulation::new(random.u64(1..30), &some_levels(&mut random));
    let mut waiting = vec![];
    for _ in 0..600 {
        simulation.until(simulation.now + Duration::from_micros(random.u64(0..4000)));
        match random.u32(0..100) {
            0 => {
                let levels = some_levels(&mut random);
                let begun = simulation.dispatcher.configure(&levels, simulation.now);
                simulation.begin(begun);
            }
            1..8 if !waiting.is_empty() => {
                let idx: usize = waiting.swap_remove(random.usize(0..waiting.len()));
                if simulation.requests[idx].ticket.begun().is_none() {
                    simulation.give_up(idx);
                }
            }
            _ => {
                let level = names[random.usize(0..names.len())];
                let takes = Duration::from_micros(random.u64(0..40_000));
                if let Ok(idx) = simulation.arrive(level, random.u64(0..12), random.u32(1..12), takes) {
                    waiting.push(idx);
                }
            }
        }
        for name in names {
            let (n_waiting, (n_flows, n_queues)) =
                (simulation.dispatcher.usage(name).1, simulation.dispatcher.kept(name));
            let active =
                simulation.requests.iter().filter(|request| request.level == name && !request.is_over);
            assert!(n_flows <= active.count() && n_queues <= n_waiting && n_waiting <= 19 * 8, "{name}");
        }
    }
    simulation.finish();
    simulation.requests.iter().map(|request| request.ticket.begun()).collect()
}

#[test]
fn nobody_waits_for_ever_and_no_seat_is_given_twice() {
    for seed in 0..100 {
        at_random(seed);
    }
}

#[test]
fn the_same_requests_at_the_same_times_get_the_same_turns() {
    assert_eq!(at_random(42), at_random(42));
}

/// What `spec` says of these requests.
#[track_caller]
fn check_matches(rule: Value, cases: &[(&str, &[&str], Attributes<'_>, bool)]) {
    let spec = json!({"priorityLevelConfiguration": {"name": "a"}, "matchingPrecedence": 1, "rules": [rule]});
    let schema = Schema::new("a", serde_json::from_value(spec).expect("a spec"));
    for (user, groups, attributes, expected) in cases {
        let user = User::new(*user, groups.iter().map(ToString::to_string).collect());
        assert_eq!(schema.matches(&user, attributes), *expected, "{} {attributes:?}", user.name);
    }
}

fn wants<'a>(verb: &'a str, what: &'a str, namespace: &'a str) -> Attributes<'a> {
    let (group, rest) = what.split_once(':').unwrap_or(("", what));
    let (resource, subresource) = rest.split_once('/').unwrap_or((rest, ""));
    Attributes {
        verb,
        wanted: Wanted::Resource { group, version: "v1", resource, subresource, namespace, name: "" },
    }
}

#[test]
fn rules_name_objects_and_scopes() {
    let anyone = json!([{"kind": "User", "user": {"name": "*"}}]);
    let rule = |verbs: Value, groups: Value, resources: Value, cluster: bool, namespaces: Value| {
        json!({"subjects": anyone, "resourceRules": [{
            "verbs": verbs, "apiGroups": groups, "resources": resources,
            "clusterScope": cluster, "namespaces": namespaces,
        }]})
    };
    check_matches(
        rule(
            json!(["get", "update"]),
            json!(["coordination.k8s.io"]),
            json!(["leases"]),
            false,
            json!(["*"]),
        ),
        &[
            ("jane", &[], wants("get", "coordination.k8s.io:leases", "default"), true),
            ("jane", &[], wants("list", "coordination.k8s.io:leases", "default"), false),
            ("jane", &[], wants("get", "coordination.k8s.io:leases", ""), false),
            ("jane", &[], wants("get", "leases", "default"), false),
            ("jane", &[], wants("get", "coordination.k8s.io:leases/status", "default"), false),
            ("jane", &[], Attributes { verb: "get", wanted: Wanted::Path("/metrics") }, false),
        ],
    );
    check_matches(
        rule(json!(["*"]), json!(["*"]), json!(["pods", "pods/status"]), true, json!(["a"])),
        &[
            ("jane", &[], wants("list", "pods", ""), true),
            ("jane", &[], wants("update", "pods/status", "a"), true),
            ("jane", &[], wants("update", "pods/exec", "a"), false),
            ("jane", &[], wants("update", "pods", "b"), false),
        ],
    );
    check_matches(
        rule(json!(["*"]), json!(["*"]), json!(["*"]), true, json!(["*"])),
        &[("jane", &[], wants("update", "x.y:pods/exec", "a"), true)],
    );
}

#[test]
fn rules_name_users_groups_and_accounts() {
    let rule = |subject: Value| {
        let all = json!(["*"]);
        json!({"subjects": [subject], "resourceRules": [{
            "verbs": all, "apiGroups": all, "resources": all, "clusterScope": true, "namespaces": all,
        }]})
    };
    let it = wants("get", "pods", "a");
    check_matches(
        rule(json!({"kind": "User", "user": {"name": "jane"}})),
        &[("jane", &[], it, true), ("joe", &["jane"], it, false)],
    );
    check_matches(
        rule(json!({"kind": "Group", "group": {"name": "dev"}})),
        &[("jane", &["dev"], it, true), ("dev", &[], it, false)],
    );
    let account =
        |name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": name}});
    check_matches(
        rule(account("b")),
        &[
            ("system:serviceaccount:n:b", &[], it, true),
            ("system:serviceaccount:n:c", &[], it, false),
            ("system:serviceaccount:m:b", &[], it, false),
            ("n:b", &[], it, false),
        ],
    );
    check_matches(
        rule(account("*")),
        &[
            ("system:serviceaccount:n:c", &[], it, true),
            ("system:serviceaccount:nn:c", &[], it, false),
            ("system:serviceaccount:n", &[], it, false),
        ],
    );
}

#[test]
fn rules_name_paths() {
    let rule = json!({
        "subjects": [{"kind": "Group", "group": {"name": "*"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/openapi/*"]}],
    });
    let path = |verb, path| Attributes { verb, wanted: Wanted::Path(path) };
    check_matches(
        rule,
        &[
            ("jane", &["x"], path("get", "/metrics"), true),
            ("jane", &["x"], path("post", "/metrics"), false),
            ("jane", &["x"], path("get", "/openapi/v3/apis"), true),
            ("jane", &["x"], path("get", "/openapi"), false),
            ("jane", &["x"], path("get", "/metrics/slis"), true),
            ("jane", &["x"], path("get", "/metricss"), false),
            ("jane", &["x"], wants("get", "metrics", ""), false),
        ],
    );
}

#[test]
fn the_lowest_precedence_is_asked_first_and_flows_are_told_apart_as_it_says() {
    let schema = |name: &str, precedence: i32, distinguisher: Value| {
        let spec = json!({
            "priorityLevelConfiguration": {"name": "a"}, "matchingPrecedence": precedence,
            "distinguisherMethod": distinguisher,
            "rules": [{"subjects": [{"kind": "User", "user": {"name": "*"}}], "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": [name], "clusterScope": true, "namespaces": ["*"],
            }, {
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["both"], "clusterScope": true, "namespaces": ["*"],
            }]}],
        });
        (Schema::new(name, serde_json::from_value(spec).expect("a spec")), precedence)
    };
    let classifier = Classifier::new(vec![
        schema("users", 100, json!({"type": "ByUser"})),
        schema("places", 50, json!({"type": "ByNamespace"})),
        schema("all", 50, Value::Null),
    ]);
    let (jane, joe) = (User::new("jane", vec![]), User::new("joe", vec![]));
    let named = |what| classifier.classify(&jane, &what).map(|(schema, _)| schema.name.clone());
    assert_eq!(named(wants("get", "both", "a")).as_deref(), Some("all"));
    assert_eq!(named(wants("get", "places", "a")).as_deref(), Some("places"));
    assert_eq!(named(wants("get", "nothing", "a")), None);
    let same = |what: &str, one: (&User, &str), other: (&User, &str)| {
        let flow = |(user, namespace)| {
            let what = wants("get", what, namespace);
            classifier.classify(user, &what).map(|(schema, _)| schema.flow(user, &what, 7))
        };
        flow(one) == flow(other)
    };
    assert!(!same("users", (&jane, "a"), (&joe, "a")) && same("users", (&jane, "a"), (&jane, "b")));
    assert!(same("places", (&jane, "a"), (&joe, "a")) && !same("places", (&jane, "a"), (&jane, "b")));
    assert!(same("all", (&jane, "a"), (&joe, "b")));
}
