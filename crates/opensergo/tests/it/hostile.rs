//! Whatever an object says, the answer is a message or a reason.

use fastrand::Rng;
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::{Map, Value, json};
use windlass_opensergo::{kinds::KINDS, text};

const ROUNDS: usize = 2_000;

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
