//! Fairness: who is served when more is asked for than there are seats.
//!
//! An answer that nobody reads holds its seat, so seats can be taken for as long as a test wants.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::join_all, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use windlass_access::{User, authn::Peer};
use windlass_apiserver::Config;

use super::client::{Answer, CONFIG_MAPS, Client, DEADLINE, names};

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// So few seats that a level with ten shares has one.
fn few_seats() -> Config {
    Config { max_inflight_reads: 10, max_inflight_writes: 10, ..Config::default() }
}

fn queue(queues: u32, length: u32) -> Value {
    let queuing = json!({"queues": queues, "handSize": queues.min(6), "queueLengthLimit": length});
    json!({"type": "Queue", "queuing": queuing})
}

/// Creates a level that borrows nothing.
async fn level(client: &Client, name: &str, shares: u32, response: Value) -> Value {
    let limited = json!({
        "nominalConcurrencyShares": shares, "lendablePercent": 0, "borrowingLimitPercent": 0,
        "limitResponse": response,
    });
    let object = json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}});
    client.post(LEVELS, object).await.created()
}

/// Puts all that some users do with a resource into a level. The name decides which of several is asked first.
async fn schema(client: &Client, name: &str, level: &str, users: &[&str], resource: &str) -> Value {
    let subjects: Vec<Value> =
        users.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect();
    let all = json!(["*"]);
    let rule = json!({
        "verbs": all, "apiGroups": all, "resources": [resource], "namespaces": all, "clusterScope": true,
    });
    let object = json!({"metadata": {"name": name}, "spec": {
        "matchingPrecedence": 2,
        "priorityLevelConfiguration": {"name": level},
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": subjects, "resourceRules": [rule]}],
    }});
    // They may do everything, but not without waiting, as the masters do.
    let binding = json!({
        "metadata": {"name": "testers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "testers"}],
    });
    let bound = client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    assert!([201, 409].contains(&bound.code), "{}", bound.text());
    client.post(SCHEMAS, object).await.created()
}

fn user(client: &Client, name: &str) -> Client {
    client.as_user(name, &["testers"])
}

/// The value of a metric of the flows of a schema.
async fn metric(client: &Client, name: &str, schema: &str) -> u64 {
    let text = client.get("/metrics").await.text();
    let label = format!("flow_schema=\"{schema}\"");
    let values = text.lines().filter(|line| line.starts_with(name) && line.contains(&label));
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

async fn until_queued(client: &Client, schema: &str, n: u64) {
    let deadline = std::time::Instant::now() + DEADLINE;
    while metric(client, "apiserver_flowcontrol_current_inqueue_requests", schema).await != n {
        assert!(std::time::Instant::now() < deadline, "never {n} in the queue");
        tokio::task::yield_now().await;
    }
}

#[track_caller]
fn sent_away(answer: &Answer) {
    let status = answer.refused(429, "TooManyRequests");
    assert_eq!(status["message"], "Too many requests, please try again later.");
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn a_full_level_without_queues_sends_away_and_nobody_else_notices() {
    let client = Client::with(few_seats()).await;
    let narrow = level(&client, "narrow", 10, json!({"type": "Reject"})).await;
    let of_jane = schema(&client, "a-jane", "narrow", &["jane"], "*").await;
    let jane = user(&client, "jane");
    let held = jane.open(CONFIG_MAPS).await;
    assert_eq!(held.status(), 200);
    let refused = jane.get(CONFIG_MAPS).await;
    sent_away(&refused);
    for answer in [&refused, &jane.get("/api/v1/nodes").await] {
        assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), of_jane["metadata"]["uid"]);
        assert_eq!(answer.header("x-kubernetes-pf-prioritylevel-uid"), narrow["metadata"]["uid"]);
    }
    assert_eq!(jane.get("/healthz").await.code, 200, "health needs no seat");
    let exempt = client.get(CONFIG_MAPS).await;
    exempt.ok();
    let uid = client.get(&format!("{SCHEMAS}/exempt")).await.ok()["metadata"]["uid"].clone();
    assert_eq!(exempt.header("x-kubernetes-pf-flowschema-uid"), uid);
    assert_eq!(metric(&client, "apiserver_flowcontrol_current_executing_requests", "a-jane").await, 1);
    drop(held);
    jane.get(CONFIG_MAPS).await.ok();
    assert_eq!(metric(&client, "apiserver_flowcontrol_rejected_requests_total", "a-jane").await, 2);
    assert_eq!(metric(&client, "apiserver_flowcontrol_dispatched_requests_total", "a-jane").await, 2);
    assert_eq!(metric(&client, "apiserver_flowcontrol_current_executing_requests", "a-jane").await, 0);
}

#[tokio::test]
async fn users_of_one_level_take_turns_however_much_one_of_them_asks() {
    let client = Client::with(few_seats()).await;
    level(&client, "narrow", 10, queue(64, 50)).await;
    schema(&client, "a-all", "narrow", &["holder", "greedy", "modest"], "*").await;
    let held = user(&client, "holder").open(CONFIG_MAPS).await;
    let order = Mutex::new(vec![]);
    let asks = |name: &'static str| {
        let (asker, order) = (user(&client, name), &order);
        async move {
            asker.get(CONFIG_MAPS).await.ok();
            order.lock().expect("nobody panicked").push(name);
        }
    };
    let askers = (0..60).map(|_| "greedy").chain(["modest", "modest"]).map(asks);
    let release = async move { drop(held) };
    futures_util::future::join(join_all(askers), release).await;
    let order = order.into_inner().expect("nobody panicked");
    let last = order.iter().rposition(|name| *name == "modest").expect("the modest one was served");
    assert!(last < 50, "the modest one has to wait for everyone: {last}");
}

/// A request whose body never comes.
fn endless(client: &Client, name: &str, path: &str) -> impl Future<Output = http::StatusCode> + use<> {
    let user = User::new(name, vec!["testers".to_owned(), "system:authenticated".to_owned()]);
    let peer = Peer { certificate: Some(Arc::new(user)), ..Peer::default() };
    let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = http::Request::post(path).extension(peer).header("content-type", "application/json");
    let (server, request) = (Arc::clone(&client.server), request.body(body).expect("a request"));
    async move { server.handle(request).await.status() }
}

#[tokio::test]
async fn whoever_sends_slowly_has_no_seat_meanwhile() {
    let client = Client::with(few_seats()).await;
    level(&client, "narrow", 10, json!({"type": "Reject"})).await;
    schema(&client, "narrow", "narrow", &["slow", "other"], "configmaps").await;
    let mut slow: Vec<_> = (0..100).map(|_| Box::pin(endless(&client, "slow", CONFIG_MAPS))).collect();
    for one in &mut slow {
        assert!(one.now_or_never().is_none(), "its body may still come");
    }
    let other = user(&client, "other");
    other.config_map("a", json!({"k": "v"})).await;
    other.get(CONFIG_MAPS).await.ok();
}

#[tokio::test]
async fn what_one_user_sends_at_once_is_bounded_and_others_do_not_notice() {
    let client = Client::with(Config::default()).await;
    level(&client, "wide", 10, queue(1, 10)).await;
    schema(&client, "wide", "wide", &["greedy", "other"], "configmaps").await;
    // Nobody knows how long they will be, so room is kept for as much as a body may have.
    let mut sent: Vec<_> = (0..10).map(|_| Box::pin(endless(&client, "greedy", CONFIG_MAPS))).collect();
    for one in &mut sent {
        assert!(one.now_or_never().is_none(), "its body may still come");
    }
    let soon = format!("{CONFIG_MAPS}?timeout=1s");
    assert_eq!(endless(&client, "greedy", &soon).await, 429, "and there is no room for another");
    assert_eq!(endless(&client, "other", &soon).await, 504, "others are waited for");
    user(&client, "other").config_map("a", json!({"k": "v"})).await;
    user(&client, "greedy").config_map("b", json!({"k": "v"})).await;
    drop(sent);
    assert_eq!(endless(&client, "greedy", &soon).await, 504, "there is room again");
}

#[tokio::test]
async fn leases_are_renewed_while_work_waits() {
    let client = Client::with(few_seats()).await;
    level(&client, "narrow", 10, queue(1, 50)).await;
    schema(&client, "a-0-leases", "leader-election", &["worker"], "leases").await;
    schema(&client, "a-1-work", "narrow", &["worker"], "*").await;
    let worker = user(&client, "worker");
    let held = worker.open(CONFIG_MAPS).await;
    let waits = {
        let worker = worker.clone();
        tokio::spawn(async move { worker.get(CONFIG_MAPS).await.code })
    };
    until_queued(&client, "a-1-work", 1).await;
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "worker"}});
    worker.post(LEASES, lease).await.created();
    worker.patch("merge", &format!("{LEASES}/a"), json!({"spec": {"leaseTransitions": 1}})).await.ok();
    assert_eq!(metric(&client, "apiserver_flowcontrol_current_inqueue_requests", "a-1-work").await, 1);
    drop(held);
    assert_eq!(waits.await.expect("an answer"), 200);
}

#[tokio::test]
async fn a_change_of_a_schema_holds_for_the_next_request() {
    let client = Client::with(few_seats()).await;
    level(&client, "narrow", 10, json!({"type": "Reject"})).await;
    schema(&client, "a-jane", "narrow", &["jane"], "*").await;
    let jane = user(&client, "jane");
    let held = jane.open(CONFIG_MAPS).await;
    let path = format!("{SCHEMAS}/a-jane");
    let to = |level: &str| json!({"spec": {"priorityLevelConfiguration": {"name": level}}});
    for _ in 0..20 {
        sent_away(&jane.get(CONFIG_MAPS).await);
        client.patch("merge", &path, to("global-default")).await.ok();
        jane.get(CONFIG_MAPS).await.ok();
        client.patch("merge", &path, to("narrow")).await.ok();
    }
    sent_away(&jane.get(CONFIG_MAPS).await);
    client.patch("merge", &path, to("nowhere")).await.ok();
    jane.get(CONFIG_MAPS).await.ok();
    client.patch("merge", &path, to("narrow")).await.ok();
    let wider = json!({"spec": {"limited": {"nominalConcurrencyShares": 1000}}});
    client.patch("merge", &format!("{LEVELS}/narrow"), wider).await.ok();
    jane.get(CONFIG_MAPS).await.ok();
    client.delete(&format!("{LEVELS}/narrow"), Value::Null).await.ok();
    jane.get(CONFIG_MAPS).await.ok();
    drop(held);
    jane.get(CONFIG_MAPS).await.ok();
}

#[tokio::test]
async fn another_server_on_the_same_store_hears_of_a_schema() {
    let client = Client::with(few_seats()).await;
    let other = client.beside().await;
    let shut = json!({"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}});
    let object = json!({"metadata": {"name": "shut"}, "spec": {"type": "Limited", "limited": shut}});
    client.post(LEVELS, object).await.created();
    schema(&client, "a-jane", "shut", &["jane"], "*").await;
    sent_away(&user(&client, "jane").get(CONFIG_MAPS).await);
    let jane = user(&other, "jane");
    let deadline = std::time::Instant::now() + DEADLINE;
    while jane.get(CONFIG_MAPS).await.code != 429 {
        assert!(std::time::Instant::now() < deadline, "never heard of it");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_goes_away_leaves_the_queue() {
    let client = Client::with(few_seats()).await;
    level(&client, "narrow", 10, queue(1, 1)).await;
    schema(&client, "a-jane", "narrow", &["jane"], "*").await;
    let jane = user(&client, "jane");
    let held = jane.open(CONFIG_MAPS).await;
    let asks = || {
        let jane = jane.clone();
        tokio::spawn(async move { jane.get(CONFIG_MAPS).await.code })
    };
    let waits = asks();
    until_queued(&client, "a-jane", 1).await;
    sent_away(&jane.get(CONFIG_MAPS).await);
    waits.abort();
    until_queued(&client, "a-jane", 0).await;
    let waits = asks();
    until_queued(&client, "a-jane", 1).await;
    drop(held);
    assert_eq!(waits.await.expect("an answer"), 200);
    jane.get(CONFIG_MAPS).await.ok();
}

#[tokio::test]
async fn nobody_waits_for_longer_than_a_quarter_of_the_time_a_request_may_take() {
    let client = Client::with(Config { request_timeout: Duration::from_secs(2), ..few_seats() }).await;
    level(&client, "narrow", 10, queue(1, 5)).await;
    schema(&client, "a-jane", "narrow", &["jane"], "*").await;
    let jane = user(&client, "jane");
    let held = jane.open(CONFIG_MAPS).await;
    sent_away(&jane.get(CONFIG_MAPS).await);
    assert_eq!(metric(&client, "apiserver_flowcontrol_rejected_requests_total", "a-jane").await, 1);
    let text = client.get("/metrics").await.text();
    assert!(text.lines().any(|line| line.contains("reason=\"time-out\"") && line.ends_with(" 1")), "{text}");
    drop(held);
    jane.get(CONFIG_MAPS).await.ok();
}

#[tokio::test]
async fn a_watch_that_has_begun_needs_no_seat_and_a_long_list_needs_several() {
    let client = Client::with(few_seats()).await;
    level(&client, "narrow", 40, json!({"type": "Reject"})).await;
    schema(&client, "a-jane", "narrow", &["jane"], "*").await;
    let jane = user(&client, "jane");
    let mut watches = vec![];
    for _ in 0..5 {
        watches.push(jane.watch(&format!("{CONFIG_MAPS}?watch=1"), &[]).await);
    }
    let held = (jane.open(CONFIG_MAPS).await, jane.open(CONFIG_MAPS).await, jane.open(CONFIG_MAPS).await);
    sent_away(&jane.get(CONFIG_MAPS).await);
    drop(held);
    for idx in 0..101 {
        client.config_map(&format!("a{idx}"), json!({})).await;
    }
    let held = jane.open(CONFIG_MAPS).await;
    sent_away(&jane.get(CONFIG_MAPS).await);
    jane.get(&format!("{CONFIG_MAPS}/a1")).await.ok();
    drop(held);
    let page = format!("{CONFIG_MAPS}?limit=100");
    let held = (jane.open(&page).await, jane.open(&page).await);
    assert!(held.0.status() == 200 && held.1.status() == 200, "one seat for a page of a hundred");
    let whole = held.0.into_body().collect().await.expect("bodies cannot fail").to_bytes();
    assert!(!whole.is_empty());
}

#[tokio::test]
async fn every_server_has_the_schemas_and_levels_that_people_know() {
    let client = Client::new().await;
    let levels = client.get(LEVELS).await.ok();
    assert_eq!(
        names(&levels),
        [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low"
        ]
    );
    let schemas = client.get(SCHEMAS).await.ok();
    let known = [
        "catch-all",
        "endpoint-controller",
        "exempt",
        "global-default",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-system-service-accounts",
        "leases",
        "probes",
        "service-accounts",
        "system-leader-election",
        "system-node-high",
        "system-nodes",
        "workload-leader-election",
    ];
    assert_eq!(names(&schemas), known);
    for item in schemas["items"].as_array().expect("items") {
        let condition = &item["status"]["conditions"][0];
        assert_eq!(
            (&condition["type"], &condition["status"]),
            (&json!("Dangling"), &json!("False")),
            "{item}"
        );
        assert_eq!(item["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"], "true");
    }
    let again = client.restarted().await;
    assert_eq!(again.get(SCHEMAS).await.ok()["items"], schemas["items"], "a restart changes nothing");
    assert_eq!(again.get(LEVELS).await.ok()["items"], levels["items"], "a restart changes nothing");
}

#[tokio::test]
async fn what_someone_changed_is_brought_back_at_the_next_start_unless_they_say_no() {
    let client = Client::new().await;
    let shares = |n: u32| json!({"spec": {"limited": {"nominalConcurrencyShares": n}}});
    let kept = json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}});
    client.patch("merge", &format!("{LEVELS}/system"), shares(7)).await.ok();
    client.patch("merge", &format!("{LEVELS}/workload-low"), shares(7)).await.ok();
    client.patch("merge", &format!("{LEVELS}/workload-low"), kept).await.ok();
    client.delete(&format!("{SCHEMAS}/probes"), Value::Null).await.ok();
    let again = client.restarted().await;
    for (name, expected) in [("system", 30), ("workload-low", 7)] {
        let level = again.get(&format!("{LEVELS}/{name}")).await.ok();
        assert_eq!(level["spec"]["limited"]["nominalConcurrencyShares"], expected, "{name}");
    }
    again.get(&format!("{SCHEMAS}/probes")).await.ok();
}

#[tokio::test]
async fn a_schema_says_whether_its_level_exists() {
    let client = Client::new().await;
    schema(&client, "a-jane", "nowhere", &["jane"], "*").await;
    let dangles = async |expected: &str| {
        let deadline = std::time::Instant::now() + DEADLINE;
        loop {
            let shown = client.get(&format!("{SCHEMAS}/a-jane")).await.ok();
            let condition = &shown["status"]["conditions"][0];
            if condition["type"] == "Dangling" && condition["status"] == expected {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{shown}");
            tokio::task::yield_now().await;
        }
    };
    dangles("True").await;
    level(&client, "nowhere", 10, json!({"type": "Reject"})).await;
    dangles("False").await;
    client.delete(&format!("{LEVELS}/nowhere"), Value::Null).await.ok();
    dangles("True").await;
}

#[tokio::test]
async fn nobody_can_lock_the_masters_out() {
    let client = Client::with(few_seats()).await;
    level(&client, "nothing", 0, json!({"type": "Reject"})).await;
    let all = json!(["*"]);
    let everything = json!({
        "subjects": [{"kind": "Group", "group": {"name": "*"}}],
        "resourceRules": [{
            "verbs": all, "apiGroups": all, "resources": all, "namespaces": all, "clusterScope": true,
        }],
        "nonResourceRules": [{"verbs": all, "nonResourceURLs": all}],
    });
    let lock = |name: &str, precedence: u32| {
        json!({"metadata": {"name": name}, "spec": {
            "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": "nothing"}, "rules": [everything],
        }})
    };
    let first = client.post(SCHEMAS, lock("aaa", 1)).await.refused(422, "Invalid");
    let why = first["message"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("only the schema named 'exempt' may have matchingPrecedence 1"), "{why}");
    client.post(SCHEMAS, lock("aaa", 2)).await.created();
    for path in [format!("{SCHEMAS}/exempt"), format!("{SCHEMAS}/catch-all"), format!("{LEVELS}/catch-all")] {
        let patch = json!({"spec": {"priorityLevelConfiguration": {"name": "nothing"}, "limited": {"nominalConcurrencyShares": 1}}});
        let status = client.patch("merge", &path, patch).await.refused(422, "Invalid");
        let why = status["message"].as_str().unwrap_or_default();
        assert!(why.contains("must equal the fixed value"), "{path}: {why}");
    }
    client.get(CONFIG_MAPS).await.ok();
    sent_away(&client.as_user("jane", &[]).get("/api").await);
    client.delete(&format!("{SCHEMAS}/aaa"), Value::Null).await.ok();
    client.as_user("jane", &[]).get("/api").await.ok();
}

#[tokio::test]
async fn what_has_to_be_there_comes_back() {
    let client = Client::new().await;
    for path in [format!("{SCHEMAS}/exempt"), format!("{LEVELS}/exempt"), format!("{LEVELS}/catch-all")] {
        let before = client.get(&path).await.ok()["metadata"]["uid"].clone();
        client.delete(&path, Value::Null).await.ok();
        let deadline = std::time::Instant::now() + DEADLINE;
        loop {
            let now = client.get(&path).await;
            if now.code == 200 && now.json()["metadata"]["uid"] != before {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{path} does not come back");
            tokio::task::yield_now().await;
        }
    }
}
