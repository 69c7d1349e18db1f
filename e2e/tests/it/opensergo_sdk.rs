//! The OpenSergo SDKs for Go and Java, as their projects publish them: rules in by kubectl, and what the SDK holds of
//! them.

use serde_json::{Value, json};
use windlass_e2e::{Sdk, Server, Subscriber, eventually, page};

use crate::objects::{becomes, create, field};

/// All kinds of rules, as kubectl takes them.
const ALL: &str = "faulttolerancerules,ratelimitstrategies,throttlingstrategies,concurrencylimitstrategies,\
                   circuitbreakerstrategies,trafficrouters";

/// One rule of each kind for an app. Everything that may differ between two sets of them is made of `n`.
fn rules(app: &str, n: u32) -> String {
    let rule = |group: &str, kind: &str, name: &str, spec: &str| {
        format!(
            "---\n{{apiVersion: {group}.opensergo.io/v1alpha1, kind: {kind},
              metadata: {{name: {name}, labels: {{app: {app}}}}}, spec: {{{spec}}}}}\n"
        )
    };
    let limit = format!(
        "metricType: RequestAmount, limitMode: Global,
         threshold: {n}, statDurationSeconds: {n}"
    );
    let throttle = format!("minIntervalOfRequests: {n}ms, queueTimeout: {n}s");
    let crowd = format!("maxConcurrency: {n}, limitMode: Local");
    let breaker = format!(
        "strategy: SlowRequestRatio, triggerRatio: {n}%, statDuration: {n}m, recoveryTimeout: {n}s,
         minRequestAmount: {n}, slowConditions: {{maxAllowedRt: {n}ms}}"
    );
    let guard = format!(
        "targets: [{{targetResourceName: /{n}}}],
         strategies: [{{name: limit, kind: RateLimitStrategy}}]"
    );
    let router = format!(
        "hosts: [shop], http: [{{route: [{{destination:
           {{host: shop, subset: v{n}, fallback: {{host: shop, subset: base}}}}}}]}}]"
    );
    let all = [
        rule("fault-tolerance", "RateLimitStrategy", "limit", &limit),
        rule("fault-tolerance", "ThrottlingStrategy", "throttle", &throttle),
        rule("fault-tolerance", "ConcurrencyLimitStrategy", "crowd", &crowd),
        rule("fault-tolerance", "CircuitBreakerStrategy", "breaker", &breaker),
        rule("fault-tolerance", "FaultToleranceRule", "guard", &guard),
        rule("traffic", "TrafficRouter", "shop", &router),
    ];
    all.concat()
}

/// What an SDK holds of those rules.
fn messages(n: u32) -> [(&'static str, Value); 6] {
    [
        (
            "RateLimitStrategy",
            json!([{
                "name": "limit", "metricType": "TYPE_REQUEST_AMOUNT", "limitMode": "MODE_GLOBAL",
                "threshold": n.to_string(), "statDuration": n, "statDurationTimeUnit": "SECOND",
            }]),
        ),
        (
            "ThrottlingStrategy",
            json!([{
                "name": "throttle", "minIntervalMillisOfRequests": n.to_string(),
                "queueTimeoutMillis": (n * 1000).to_string(),
            }]),
        ),
        (
            "ConcurrencyLimitStrategy",
            json!([{
                "name": "crowd", "limitMode": "MODE_LOCAL", "maxConcurrency": n.to_string(),
            }]),
        ),
        (
            "CircuitBreakerStrategy",
            json!([{
                "name": "breaker", "strategy": "STRATEGY_SLOW_REQUEST_RATIO", "triggerRatio": f64::from(n) / 100.0,
                "statDuration": (n * 60_000).to_string(), "statDurationTimeUnit": "MILLISECOND",
                "recoveryTimeout": n * 1000, "recoveryTimeoutTimeUnit": "MILLISECOND",
                "minRequestAmount": n, "slowCondition": {"maxAllowedRtMillis": n},
            }]),
        ),
        (
            "FaultToleranceRule",
            json!([{
                "targets": [{"targetResourceName": format!("/{n}")}],
                "strategies": [{"name": "limit", "kind": "RateLimitStrategy"}],
            }]),
        ),
        (
            "TrafficRouter",
            json!([{
                "name": "shop",
                "virtualHosts": [{
                    "name": "shop",
                    "domains": ["shop.default.svc.cluster.local"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"inlineClusterSpecifierPlugin": {"extension": {
                        "name": "envoy.router.cluster_specifier_plugin.cluster_fallback",
                        "typedConfig": {
                            "@type": "type.googleapis.com/io.opensergo.proto.router.v1.ClusterFallbackConfig_ClusterConfig",
                            "RoutingCluster": format!("outbound||v{n}|shop.default.svc.cluster.local"),
                            "FallbackCluster": "outbound||base|shop.default.svc.cluster.local",
                        },
                    }}}}],
                }],
            }]),
        ),
    ]
}

/// A rate limit of an app in some namespace.
fn limit(namespace: &str, app: &str, threshold: u32) -> String {
    format!(
        "{{apiVersion: fault-tolerance.opensergo.io/v1alpha1, kind: RateLimitStrategy,
          metadata: {{name: {app}, namespace: {namespace}, labels: {{app: {app}}}}},
          spec: {{metricType: RequestAmount, limitMode: Local, threshold: {threshold}, statDurationSeconds: 1}}}}"
    )
}

/// Whether rate limits have these thresholds and no others.
fn thresholds(expected: &[u32]) -> impl Fn(&Value) -> bool {
    move |rules| {
        let rules = rules.as_array().expect("a list");
        let mut found: Vec<&str> = rules.iter().filter_map(|rule| rule["threshold"].as_str()).collect();
        found.sort_unstable();
        found == expected.iter().map(u32::to_string).collect::<Vec<_>>()
    }
}

fn apply(server: &Server, text: &str) {
    server.kubectl("apply -f -").yaml(text).ok();
}

/// How often something has happened since the server was started, for all kinds together.
fn counted(server: &Server, metric: &str) -> u64 {
    let url = server.endpoint("opensergo-status").expect("the control plane runs");
    let metrics = page(url.strip_prefix("http://").expect("no TLS"), "/metrics");
    let lines = metrics.lines().filter(|line| !line.starts_with('#') && line.contains(metric));
    lines.map(|line| line.rsplit_once(' ').expect("a value").1.parse::<u64>().expect("a number")).sum()
}

/// Clients had no reason to answer that they do not take what they got.
#[track_caller]
fn everything_was_accepted(server: &Server) {
    assert!(counted(server, r#"result="accepted""#) > 0);
    for result in [r#"result="rejected""#, r#"result="outdated""#, "opensergo_bad_requests_total"] {
        assert_eq!(counted(server, result), 0, "{result}");
    }
}

fn follows_every_kind(sdk: Sdk) {
    let server = Server::start();
    let subscriber = server.subscriber(sdk);
    is_told_of_every_kind(&server, sdk, subscriber);
    everything_was_accepted(&server);
}

fn is_told_of_every_kind(server: &Server, sdk: Sdk, mut subscriber: Subscriber) {
    let all = |app: &str, n: u32| messages(n).map(|(kind, rules)| (format!("default {app} {kind}"), rules));
    for (subscription, _) in all("shop", 1) {
        subscriber.subscribe(&subscription);
    }
    subscriber.start();
    for (subscription, _) in all("shop", 1) {
        subscriber.is_told(&subscription, &json!([]));
    }
    for n in [10, 25] {
        apply(server, &rules("shop", n));
        for (subscription, rules) in all("shop", n) {
            subscriber.is_told(&subscription, &rules);
        }
    }
    // Those of another app, on the same stream.
    for (subscription, _) in all("store", 1) {
        subscriber.subscribe(&subscription);
        subscriber.is_told(&subscription, &json!([]));
    }
    server.kubectl(&format!("label {ALL} --all app=store --overwrite")).ok();
    for (subscription, rules) in all("store", 25) {
        subscriber.is_told(&subscription, &rules);
    }
    for (subscription, _) in all("shop", 1) {
        subscriber.is_told(&subscription, &json!([]));
    }
    server.kubectl(&format!("delete {ALL} --all")).ok();
    for (subscription, _) in all("store", 1) {
        subscriber.is_told(&subscription, &json!([]));
    }
    only_the_end_of_streams(sdk, subscriber.troubles());
    subscriber.close();
}

/// Whether the SDK for Java tells of the end of a stream that it has let run out.
fn is_an_end(trouble: &str) -> bool {
    trouble.contains("DEADLINE_EXCEEDED")
}

/// An SDK has nothing to complain about but, in Java, the end of each stream after its ten seconds.
#[track_caller]
fn only_the_end_of_streams(sdk: Sdk, troubles: &[String]) {
    let is_usual = |trouble: &String| sdk == Sdk::Java && is_an_end(trouble);
    assert!(troubles.iter().all(is_usual), "the SDK for {sdk:?} complains: {troubles:?}");
}

#[test]
fn the_go_sdk_follows_every_kind() {
    follows_every_kind(Sdk::Go);
}

#[test]
fn the_java_sdk_follows_every_kind() {
    follows_every_kind(Sdk::Java);
}

/// As beside a cluster of somebody else: all it has is a kubeconfig.
#[test]
fn a_control_plane_alone_serves_the_rules_of_any_api_server() {
    let server = Server::start_with(&["--without", "opensergo"]);
    let definitions = server.windlass_alone("crds");
    server.kubectl("apply --server-side -f -").yaml(&definitions).ok();
    let mut plane = server.start_beside(
        "opensergo --kubeconfig data/admin.kubeconfig --opensergo-port 0 --opensergo-identity alone",
        "plane.log",
    );
    let line = plane.line_with("opensergo   ");
    let address = line.split_whitespace().last().expect("it says where it listens").to_owned();
    for sdk in [Sdk::Go, Sdk::Java] {
        is_told_of_every_kind(&server, sdk, server.subscriber_of(sdk, &address));
    }
}

#[test]
fn an_app_gets_all_of_its_rules_and_none_of_others() {
    let server = Server::start();
    let mut java = server.subscriber(Sdk::Java);
    let mut go = server.subscriber(Sdk::Go);
    server.kubectl("create namespace mall").ok();
    let subscription = "mall shop RateLimitStrategy";
    for subscriber in [&mut java, &mut go] {
        subscriber.subscribe(subscription);
        subscriber.start();
        subscriber.is_told(subscription, &json!([]));
    }
    let second = limit("mall", "shop", 2).replace("name: shop", "name: second");
    for text in [limit("mall", "shop", 1), second, limit("mall", "store", 3), limit("default", "shop", 4)] {
        create(&server, &text);
    }
    java.is_told_what(subscription, "two", thresholds(&[1, 2]));
    // This release decodes every rule of a list into one message, so that all are like the last.
    go.is_told_what(subscription, "two", |rules| rules.as_array().is_some_and(|rules| rules.len() == 2));
    server.kubectl("delete ratelimitstrategy second -n mall").ok();
    for subscriber in [&mut java, &mut go] {
        subscriber.is_told_what(subscription, "the first", thresholds(&[1]));
    }
}

fn gets_no_more_after_unsubscribing(sdk: Sdk) {
    let (one, other) = ("default shop RateLimitStrategy", "mall shop RateLimitStrategy");
    let server = Server::start();
    let mut subscriber = server.subscriber(sdk);
    let mut witness = server.subscriber(Sdk::Go);
    server.kubectl("create namespace mall").ok();
    for subscription in [one, other] {
        subscriber.subscribe(subscription);
        witness.subscribe(subscription);
    }
    subscriber.start();
    witness.start();
    subscriber.is_told(other, &json!([]));
    create(&server, &limit("default", "shop", 1));
    let version = subscriber.is_told_what(one, "1", thresholds(&[1]));
    subscriber.unsubscribe(one);
    apply(&server, &limit("default", "shop", 2));
    witness.is_told_what(one, "2", thresholds(&[2]));
    // What came for the one would have come before this.
    apply(&server, &limit("mall", "shop", 3));
    subscriber.is_told_what(other, "3", thresholds(&[3]));
    let cached = subscriber.cached(one);
    assert!(cached.as_ref().is_none_or(|held| held.version == version), "it got {cached:?} after {version}");
    // It may change its mind.
    subscriber.subscribe(one);
    subscriber.is_told_what(one, "2", thresholds(&[2]));
}

#[test]
fn the_go_sdk_gets_no_more_after_unsubscribing() {
    gets_no_more_after_unsubscribing(Sdk::Go);
}

#[test]
fn the_java_sdk_gets_no_more_after_unsubscribing() {
    gets_no_more_after_unsubscribing(Sdk::Java);
}

#[test]
fn clients_of_one_app_do_not_stand_in_each_others_way() {
    let subscription = "default shop RateLimitStrategy";
    let mut server = Server::start();
    let mut clients: Vec<_> = [Sdk::Go, Sdk::Go, Sdk::Java, Sdk::Go].map(|sdk| server.subscriber(sdk)).into();
    for client in &mut clients {
        client.subscribe(subscription);
        client.start();
        client.is_told(subscription, &json!([]));
    }
    let mut n = 0;
    while let Some(leaving) = clients.pop() {
        n += 1;
        apply(&server, &limit("default", "shop", n));
        for client in &mut clients {
            client.is_told_what(subscription, "the last change", thresholds(&[n]));
        }
        // Some say so when they leave, others are just gone.
        if n % 2 == 0 {
            leaving.close();
        }
    }
    let mut late = server.subscriber(Sdk::Go);
    late.subscribe(subscription);
    late.start();
    late.is_told_what(subscription, "what there is", thresholds(&[n]));
    // An open stream does not keep the server from ending.
    server.stop();
    late.is_troubled("error when receive config-data");
}

/// A rule of most of a megabyte.
fn large(name: &str) -> String {
    let targets: Vec<Value> =
        (0..900).map(|n| json!({"targetResourceName": format!("{n:0>1000}")})).collect();
    let rule = json!({
        "apiVersion": "fault-tolerance.opensergo.io/v1alpha1",
        "kind": "FaultToleranceRule",
        "metadata": {"name": name, "labels": {"app": "shop"}},
        "spec": {"targets": targets, "strategies": [{"name": "shop", "kind": "RateLimitStrategy"}]},
    });
    rule.to_string()
}

/// An SDK gives up a stream on which more than 4 MiB come at once.
#[test]
fn more_rules_than_fit_cost_nobody_their_stream() {
    let (large_one, small_one) = ("default shop FaultToleranceRule", "default shop RateLimitStrategy");
    let has = |n: usize| move |rules: &Value| rules.as_array().is_some_and(|rules| rules.len() == n);
    let server = Server::start();
    let mut early = server.subscriber(Sdk::Go);
    let mut late = server.subscriber(Sdk::Go);
    for subscriber in [&mut early, &mut late] {
        subscriber.subscribe(small_one);
        subscriber.subscribe(large_one);
    }
    early.start();
    for name in ["a", "b", "c", "d"] {
        create(&server, &large(name));
    }
    early.is_told_what(large_one, "four", has(4));
    create(&server, &large("e"));
    let why = r#".status.conditions[?(@.type=="Delivered")].reason"#;
    becomes(&server, "faulttolerancerule e", why, "TooLarge");
    late.start();
    create(&server, &limit("default", "shop", 1));
    for subscriber in [&mut early, &mut late] {
        subscriber.is_told_what(small_one, "1", thresholds(&[1]));
    }
    early.is_told_what(large_one, "the last that could be told", has(4));
    server.kubectl("delete faulttolerancerule a b").ok();
    for subscriber in [&mut early, &mut late] {
        subscriber.is_told_what(large_one, "three", has(3));
        only_the_end_of_streams(Sdk::Go, subscriber.troubles());
    }
}

#[test]
fn a_kind_that_nobody_knows_disturbs_no_other() {
    let server = Server::start();
    let mut subscriber = server.subscriber(Sdk::Go);
    subscriber.start();
    for kind in ["UnheardOf", "RateLimitStrategy", "UnheardOf"] {
        subscriber.subscribe(&format!("default shop {kind}"));
    }
    create(&server, &limit("default", "shop", 1));
    subscriber.is_told_what("default shop RateLimitStrategy", "1", thresholds(&[1]));
    assert_eq!(subscriber.cached("default shop UnheardOf"), None);
    only_the_end_of_streams(Sdk::Go, subscriber.troubles());
}

fn is_told_of_the_next_change_after_refusing_one(sdk: Sdk) {
    let subscription = "default shop RateLimitStrategy";
    let server = Server::start();
    let mut subscriber = server.subscriber(sdk);
    subscriber.subscribe(subscription);
    subscriber.start();
    subscriber.is_told(subscription, &json!([]));
    subscriber.refuse(subscription);
    for n in 1..4 {
        apply(&server, &limit("default", "shop", n));
        subscriber.is_told_what(subscription, "the last change", thresholds(&[n]));
        is_rejected(&server, n);
    }
    // What was refused is not sent again, but a new stream is told what there is.
    let n_streams = 1 + subscriber.troubles().iter().filter(|trouble| is_an_end(trouble)).count() as u64;
    let n_pushes = counted(&server, "opensergo_pushes_total");
    assert!((4..4 + n_streams).contains(&n_pushes), "{n_pushes} pushes on {n_streams} streams");
}

/// Waits until the object says that a client has refused it as it is.
#[track_caller]
fn is_rejected(server: &Server, generation: u32) {
    let rejected = r#".status.conditions[?(@.type=="RejectedBy")]"#;
    let path = format!(r"{rejected}.observedGeneration}} {{{rejected}.message");
    eventually(|| {
        let said = field(server, "ratelimitstrategy shop", &path);
        let is_right = said.starts_with(&format!("{generation} ")) && said.contains("refused as told");
        if is_right { Ok(()) } else { Err(format!("it says {said:?}")) }
    });
}

#[test]
fn the_go_sdk_is_told_of_the_next_change_after_refusing_one() {
    is_told_of_the_next_change_after_refusing_one(Sdk::Go);
}

#[test]
fn the_java_sdk_is_told_of_the_next_change_after_refusing_one() {
    is_told_of_the_next_change_after_refusing_one(Sdk::Java);
}

/// Subscribes rules of three apps, and lets one be changed, one be deleted and one be as it is while there is no
/// control plane.
fn restart(sdk: Sdk, end: impl Fn(&mut Server), come_back: impl Fn(&mut Subscriber)) {
    let subscription = |app: &str| format!("default {app} RateLimitStrategy");
    let mut server = Server::start();
    let mut subscriber = server.subscriber(sdk);
    for app in ["changed", "deleted", "kept"] {
        create(&server, &limit("default", app, 1));
        subscriber.subscribe(&subscription(app));
    }
    subscriber.start();
    for app in ["changed", "deleted", "kept"] {
        subscriber.is_told_what(&subscription(app), "1", thresholds(&[1]));
    }
    // More versions than a server counts that begins again.
    for n in [2, 3] {
        apply(&server, &limit("default", "changed", n));
        subscriber.is_told_what(&subscription("changed"), "the last change", thresholds(&[n]));
    }
    end(&mut server);
    server.set_flags(&["--without", "opensergo"]);
    server.start_again();
    apply(&server, &limit("default", "changed", 4));
    server.kubectl("delete ratelimitstrategy deleted").ok();
    server.set_flags(&[]);
    server.restart();
    come_back(&mut subscriber);
    subscriber.is_told_what(&subscription("changed"), "4", thresholds(&[4]));
    subscriber.is_told(&subscription("deleted"), &json!([]));
    subscriber.is_told_what(&subscription("kept"), "1", thresholds(&[1]));
    for app in ["changed", "deleted", "kept"] {
        apply(&server, &limit("default", app, 5));
        subscriber.is_told_what(&subscription(app), "5", thresholds(&[5]));
    }
    everything_was_accepted(&server);
}

#[test]
fn the_go_sdk_comes_back_by_itself_after_a_crash() {
    restart(Sdk::Go, Server::kill, |_| {});
}

#[test]
fn a_new_client_of_the_java_sdk_goes_on_after_a_restart() {
    restart(Sdk::Java, Server::stop, |subscriber| subscriber.start());
}

#[test]
fn a_stream_of_the_java_sdk_lives_as_long_as_it_asks_for() {
    let subscription = "default shop RateLimitStrategy";
    let server = Server::start();
    let mut subscriber = server.subscriber(Sdk::Java);
    subscriber.subscribe(subscription);
    subscriber.start();
    subscriber.is_told(subscription, &json!([]));
    subscriber.is_troubled("DEADLINE_EXCEEDED: deadline exceeded after 9.");
    only_the_end_of_streams(Sdk::Java, subscriber.troubles());
    create(&server, &limit("default", "shop", 1));
    subscriber.start();
    subscriber.is_told_what(subscription, "1", thresholds(&[1]));
}
