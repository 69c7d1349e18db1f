//! Whatever an object says, the answer is a message or a reason.

use fastrand::Rng;
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::{Map, Value, json};
use windlass_opensergo::{
    kinds::{KINDS, Kind, Untranslatable},
    text,
};

const ROUNDS: usize = 2_000;

const ROUTER: &str = "traffic.opensergo.io/v1alpha1/TrafficRouter";

const RULE: &str = "fault-tolerance.opensergo.io/v1alpha1/FaultToleranceRule";

/// Words that are read somewhere, so that more than the first look is random.
const NAMES: &[&str] = &[
    "targets",
    "targetResourceName",
    "strategies",
    "name",
    "kind",
    "selector",
    "app",
    "fallbackAction",
    "metricType",
    "limitMode",
    "threshold",
    "statDurationSeconds",
    "minIntervalOfRequests",
    "queueTimeout",
    "maxConcurrency",
    "strategy",
    "triggerRatio",
    "statDuration",
    "recoveryTimeout",
    "minRequestAmount",
    "slowConditions",
    "maxAllowedRt",
    "errorConditions",
    "hosts",
    "http",
    "match",
    "route",
    "destination",
    "host",
    "subset",
    "port",
    "number",
    "fallback",
    "weight",
    "headers",
    "request",
    "response",
    "set",
    "add",
    "remove",
    "uri",
    "exact",
    "prefix",
    "regex",
    "method",
    "scheme",
    "authority",
    "queryParams",
    "withoutHeaders",
    "ignoreUriCase",
    "sourceLabels",
    "gateways",
    "redirect",
    "redirectCode",
    "directResponse",
    "status",
    "body",
    "string",
    "bytes",
    "rewrite",
    "timeout",
    "retries",
    "attempts",
    "perTryTimeout",
    "retryOn",
    "mirror",
    "mirrorPercentage",
    "value",
    "corsPolicy",
    "allowOrigins",
    "maxAge",
    "tls",
    "tcp",
];

const TEXTS: &[&str] = &[
    "",
    "a",
    "RateLimitStrategy",
    "SlowRequestRatio",
    "ErrorRequestRatio",
    "RequestAmount",
    "Local",
    "Global",
    "60%",
    "%",
    "101%",
    "5s",
    "0s",
    "9223372036854775807d",
    "1.5h",
    "-1s",
    "ünïcode",
    "*",
    "a.b",
    "outbound|||",
    "503,5xx",
    "é",
    "aGk=",
    "\u{0}",
];

fn value(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..if depth == 0 { 6 } else { 14 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 => rng.i64(..).into(),
        3 => json!(rng.f64() * 1e300),
        4 => rng.u8(..200).into(),
        5 => TEXTS[rng.usize(..TEXTS.len())].into(),
        6..9 => (0..rng.usize(..4)).map(|_| value(rng, depth - 1)).collect(),
        _ => object(rng, depth - 1).into(),
    }
}

fn object(rng: &mut Rng, depth: usize) -> Map<String, Value> {
    let n_fields = rng.usize(..12);
    (0..n_fields).map(|_| (NAMES[rng.usize(..NAMES.len())].to_owned(), value(rng, depth))).collect()
}

/// Changes something somewhere in an object that is right.
fn spoil(rng: &mut Rng, value: &mut Value) {
    let below: Vec<&mut Value> = match value {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => vec![],
    };
    let n_below = below.len();
    match below.into_iter().nth(rng.usize(..=n_below)) {
        Some(one) => spoil(rng, one),
        None => *value = self::value(rng, 3),
    }
}

fn check(metadata: ObjectMeta, spec: Value) {
    let object = DynamicObject { types: None, metadata, data: json!({"spec": spec}) };
    for kind in KINDS {
        (kind.warnings)(&object);
        (kind.references)(&object);
        match (kind.translate)(&object) {
            Ok(message) => {
                text::text(&message).expect("what is sent can be shown");
                text::json(&message).expect("what is sent can be shown");
            }
            Err(error) => assert!(!error.0.is_empty(), "no reason for {object:?}"),
        }
    }
}

#[test]
fn random_objects_are_sent_or_refused() {
    let mut rng = Rng::with_seed(7);
    for _ in 0..ROUNDS {
        let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
        check(metadata, value(&mut rng, 5));
    }
    check(ObjectMeta::default(), json!({}));
}

#[test]
fn spoiled_rules_are_sent_or_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut rng = Rng::with_seed(8);
    for file in std::fs::read_dir(folder).expect("a folder") {
        let file = file.expect("a file").path();
        if file.extension().is_some_and(|kind| kind == "yaml") {
            let text = std::fs::read_to_string(&file).expect("text");
            let right: DynamicObject = serde_saphyr::from_str(&text).expect("an object");
            for _ in 0..300 {
                let mut spec = right.data["spec"].clone();
                spoil(&mut rng, &mut spec);
                check(right.metadata.clone(), spec);
            }
        }
    }
}

/// Translates it, and looks for what has no effect; in both, nothing may take more room than it is worth.
fn translated(kind: &str, spec: Value) -> Result<usize, Vec<String>> {
    let kind = Kind::find(kind).expect("one of ours");
    let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
    let object = DynamicObject { types: None, metadata, data: json!({"spec": spec}) };
    let warnings = (kind.warnings)(&object);
    assert!(warnings.len() <= 21, "{} warnings", warnings.len());
    assert!(warnings.iter().all(|one| one.chars().count() <= 201), "{warnings:?}");
    (kind.translate)(&object).map(|message| message.value.len()).map_err(|Untranslatable(problems)| problems)
}

/// Routes of so many hosts, for so many sorts of requests, to so many destinations.
fn routes(n_hosts: usize, n_matches: usize, n_destinations: usize) -> Value {
    let hosts: Vec<String> = (0..n_hosts).map(|idx| format!("h{idx}")).collect();
    let destination = json!({"destination": {"host": "a.b"}, "weight": 1});
    json!({
        "hosts": hosts,
        "http": [{"match": vec![json!({}); n_matches], "route": vec![destination; n_destinations]}],
    })
}

#[test]
fn what_would_become_too_many_destinations_is_refused() {
    let expected =
        "spec.http: expected at most 20000 destinations, each counted once for every match and each of the";
    assert_eq!(
        translated(ROUTER, routes(1000, 1000, 100)),
        Err(vec![format!("{expected} 1000 hosts, found 100000000")])
    );
    assert_eq!(
        translated(ROUTER, routes(2, 10_001, 1)),
        Err(vec![format!("{expected} 2 hosts, found 20002")])
    );
    let hosts_alone = json!({"hosts": vec!["a"; 20_001]});
    assert_eq!(translated(ROUTER, hosts_alone), Err(vec![format!("{expected} 20001 hosts, found 20001")]));
}

/// An API server takes them, too, and keeps them as they are.
#[test]
fn whole_numbers_may_have_a_point() {
    let limit = |threshold: Value| {
        let spec = json!({"metricType": "RequestAmount", "limitMode": "Local", "threshold": threshold, "statDurationSeconds": 1});
        translated("fault-tolerance.opensergo.io/v1alpha1/RateLimitStrategy", spec)
    };
    assert_eq!(limit(json!(10.0)), limit(json!(10)));
    for wrong in [json!(10.5), json!(1e30), json!(-1.0)] {
        assert!(limit(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn an_empty_text_to_match_is_told_of() {
    let spec = json!({"http": [{"match": [{"queryParams": {"canary": {"exact": ""}}}], "route": [{"destination": {"host": "a"}}]}]});
    let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
    let object = DynamicObject { types: None, metadata, data: json!({"spec": spec}) };
    let warnings = (Kind::find(ROUTER).expect("one of ours").warnings)(&object);
    let expected = "spec.http[0].match[0].queryParams[canary].exact: an empty text says nothing";
    assert!(warnings.iter().any(|one| one.starts_with(expected)), "{warnings:?}");
}

#[test]
fn large_routes_are_sent() {
    for (n_hosts, n_matches, n_destinations) in [(1, 20_000, 1), (100, 200, 1), (10, 10, 100), (1, 1, 100)] {
        let size = translated(ROUTER, routes(n_hosts, n_matches, n_destinations)).expect("it is right");
        assert!(size > n_hosts * n_matches * n_destinations * 10, "{size} bytes");
    }
}

#[test]
fn what_would_become_too_many_bytes_is_refused() {
    let long = "a".repeat(300_000);
    let expected = "expected a message of at most 1048576 bytes, found at least";
    let refused = |kind: &str, spec: Value| {
        let problems = translated(kind, spec).expect_err("too many bytes");
        assert!(matches!(&problems[..], [one] if one.starts_with(expected)), "{problems:?}");
    };
    let answer = |n_matches: usize| {
        let matches = vec![json!({}); n_matches];
        json!({"http": [{"match": matches, "directResponse": {"status": 200, "body": {"string": long}}}]})
    };
    assert!(translated(ROUTER, answer(3)).is_ok());
    refused(ROUTER, answer(4));
    refused(ROUTER, answer(20_000));
    let named = |hosts: Value| json!({"hosts": hosts, "http": [{"name": long, "redirect": {"uri": "/"}}]});
    assert!(translated(ROUTER, named(json!(["a", "b", "c"]))).is_ok());
    refused(ROUTER, named(json!(["a", "b", "c", "d"])));
    let targets = |n: usize| {
        let target = json!({"targetResourceName": "a".repeat(1024)});
        json!({"targets": vec![target; n], "strategies": []})
    };
    assert!(translated(RULE, targets(1000)).is_ok());
    refused(RULE, targets(1100));
}

#[test]
fn of_much_that_is_wrong_the_first_is_said_in_short() {
    let long = "a".repeat(300_000);
    let unknown: Map<String, Value> = (0..10_000).map(|idx| (format!("field{idx}"), json!(1))).collect();
    let matches =
        json!({"headers": {long.as_str(): unknown}, long.as_str(): 1, "uri": {"exact": "a", "prefix": "b"}});
    let spec = json!({"http": [{"match": vec![matches; 3], "redirect": {"uri": "/"}}]});
    assert!(translated(ROUTER, spec).is_ok());
    let wrong =
        json!({"http": [{"match": vec![json!({"headers": {long.as_str(): long}}); 20], "timeout": long}]});
    let problems = translated(ROUTER, wrong).expect_err("it is wrong");
    assert!(problems.len() <= 10 && problems.iter().all(|one| one.chars().count() <= 201), "{problems:?}");
    let namespace = Some("a".repeat(300));
    let metadata = ObjectMeta { name: Some("a".to_owned()), namespace, ..ObjectMeta::default() };
    let object = DynamicObject { types: None, metadata, data: json!({"spec": {"hosts": ["a"]}}) };
    let kind = Kind::find(ROUTER).expect("one of ours");
    let error = (kind.translate)(&object).expect_err("it is too long").to_string();
    assert_eq!(error, "metadata.namespace: expected a name of at most 253 letters");
}

#[test]
fn a_server_is_told_how_long_lists_may_be() {
    let definition = (Kind::find(ROUTER).expect("one of ours").definition)();
    let definition = serde_json::to_value(definition).expect("it can be written");
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let http = format!("{spec}/http/items/properties");
    let most = [
        (format!("{spec}/hosts"), 1000),
        (format!("{spec}/http"), 1000),
        (format!("{http}/match"), 1000),
        (format!("{http}/route"), 100),
    ];
    for (list, most) in most {
        assert_eq!(definition.pointer(&format!("{list}/maxItems")), Some(&json!(most)), "{list}");
    }
}
