//! Random input, for a bounded time: whatever the bytes, there is an answer and no panic.
//!
//! `WINDLASS_FUZZ_SECONDS` says how long each target runs, `WINDLASS_FUZZ_SEED` repeats a run.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use windlass_apiserver::resources::{Resource, builtin};
use windlass_machinery::{
    decode::{decode_json, decode_yaml},
    schema::{Format, Node},
    selector::{FieldSelector, LabelSelector},
};

use super::{
    client::{Client, patch_type},
    custom::{DEFINITIONS, widgets},
};

/// How long a target runs unless told otherwise: all of them together must not dominate the tests.
const SECONDS: u64 = 3;

/// A source of randomness that says how it can be repeated, and when to stop.
struct Run {
    rng: Rng,
    end: Instant,
    seed: u64,
}

impl Run {
    fn begin() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("WINDLASS_FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
        println!("WINDLASS_FUZZ_SEED={seed}");
        let seconds = number("WINDLASS_FUZZ_SECONDS").unwrap_or(SECONDS);
        Run { rng: Rng::with_seed(seed), end: Instant::now() + Duration::from_secs(seconds), seed }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.rng.usize(..from.len())]
    }

    /// Changes some bytes: flips, removes, repeats, and puts in pieces that mean something.
    fn mutate(&mut self, bytes: &mut Vec<u8>, pieces: &[&str]) {
        for _ in 0..self.rng.usize(1..6) {
            let at = self.rng.usize(..=bytes.len());
            match self.rng.u8(..6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.rng.u8(..8),
                1 => bytes.truncate(at),
                2 if at < bytes.len() => drop(bytes.drain(at..(at + self.rng.usize(1..9)).min(bytes.len()))),
                3 => {
                    let part: Vec<u8> = bytes[at..].iter().take(self.rng.usize(1..40)).copied().collect();
                    drop(bytes.splice(at..at, part));
                }
                _ => {
                    let piece = self.pick(pieces).as_bytes().to_vec();
                    drop(bytes.splice(at..at, piece));
                }
            }
        }
    }
}

const DOCUMENTS: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
    r#"{"a":[1,-2,3.5e3,true,null,"\u00e4\n"],"b":{"c":{}}}"#,
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: |\n    one\n    two\n  b: >-\n    three\n",
    "a: &a {b: [1, 2, *a]}\n<<: *a\nc: !!str 1\n? d\n: e\n",
    "- 1\n- 'x''y'\n- \"\\x41\"\n---\nz: ~\n...\n",
];

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "'",
    "\\",
    "\\u",
    "\\ud800",
    "null",
    "true",
    "1e999",
    "-0",
    "99999999999999999999",
    "&a ",
    "*a",
    "<<: ",
    "- ",
    "? ",
    "!!int ",
    "!!binary ",
    "|",
    ">",
    "\n",
    "\t",
    "  ",
    "---\n",
    "...",
    "#",
    "%YAML 1.1\n",
    "\u{feff}",
    "\u{0}",
    "\u{2028}",
    "ä",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
];

#[test]
fn the_decoders_take_or_refuse_any_bytes() {
    let mut run = Run::begin();
    let (mut n_runs, mut n_taken) = (0, 0);
    while run.goes_on() {
        let mut bytes = run.pick(DOCUMENTS).as_bytes().to_vec();
        run.mutate(&mut bytes, PIECES);
        n_runs += 1;
        for decoded in [decode_json(&bytes), decode_yaml(&bytes)].into_iter().flatten() {
            n_taken += 1;
            // What was understood can be written down and is understood the same way.
            let text = Value::Object(decoded.object.clone()).to_string();
            let again = decode_json(text.as_bytes());
            assert_eq!(again.map(|again| again.object), Ok(decoded.object), "seed {}: {bytes:?}", run.seed);
        }
    }
    assert!(n_runs > 100 && n_taken > 0, "{n_taken} of {n_runs} were taken");
}

#[test]
fn selectors_are_understood_or_refused_whatever_the_text() {
    const LABELS: &[&str] = &["a=b", "a in (b,c),d notin (e)", "!a,b", "x/y==z,w>1,v<-2", "a!=b,c", ""];
    const FIELDS: &[&str] = &["metadata.name=a", "a!=b,c==d", r"a=b\,c\=d\\e", ""];
    const PIECES: &[&str] = &[
        "=",
        "==",
        "!=",
        "!",
        "in",
        "notin",
        "(",
        ")",
        ",",
        "<",
        ">",
        " ",
        "\\",
        "a/b",
        "ä",
        "\u{0}",
        "99999999999999999999",
        "\n",
    ];
    let mut run = Run::begin();
    let mut n_taken = 0;
    while run.goes_on() {
        let mut bytes = run.pick(&[LABELS, FIELDS].concat()).as_bytes().to_vec();
        run.mutate(&mut bytes, PIECES);
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(selector) = LabelSelector::parse(&text) {
            n_taken += 1;
            let again = LabelSelector::parse(&selector.to_string());
            assert_eq!(again.as_ref(), Ok(&selector), "seed {}: {text:?}", run.seed);
            selector.matches(|key| (key == "a").then_some("b"));
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            n_taken += 1;
            // The order is that of the text, where `==` and `=` differ.
            let sorted = |selector: &FieldSelector| {
                let mut terms: Vec<_> = selector.terms.iter().map(|term| format!("{term:?}")).collect();
                terms.sort();
                terms
            };
            let again = FieldSelector::parse(&selector.to_string()).map(|again| sorted(&again));
            assert_eq!(again, Ok(sorted(&selector)), "seed {}: {text:?}", run.seed);
        }
    }
    assert!(n_taken > 0);
}

/// Strings that mean something to someone.
const WORDS: &[&str] = &[
    "",
    "a",
    "c",
    "web",
    "x1",
    "default",
    "Always",
    "Never",
    "OnFailure",
    "TCP",
    "ClusterIP",
    "NodePort",
    "ExternalName",
    "In",
    "Exists",
    "Equal",
    "NoSchedule",
    "RollingUpdate",
    "Recreate",
    "Opaque",
    "kubernetes.io/tls",
    "ReadWriteOnce",
    "10.96.0.10",
    "::1",
    "10.0.0.0/8",
    "fd00::/64",
    "nonsense",
    "*/5 * * * *",
    "@daily",
    "Europe/Berlin",
    "100%",
    "-1%",
    "1Gi",
    "-5m",
    "1e3",
    "99999999999999999999Ei",
    "2024-01-01T00:00:00Z",
    "YWJj",
    "../..",
    "a/b",
    "/tmp",
    "http://",
    "ä",
    "\u{0}",
    "a b",
    "\n",
    "Deployment",
    "apps/v1",
    "Node",
    "Pod",
    "cpu",
    "memory",
    "None",
    "True",
];

impl Run {
    fn word(&mut self) -> String {
        match self.rng.u8(..40) {
            0 => "x".repeat(self.rng.usize(60..300)),
            _ => (*self.pick(WORDS)).to_owned(),
        }
    }

    fn integer(&mut self) -> i64 {
        *self.pick(&[
            0,
            1,
            2,
            3,
            80,
            443,
            30000,
            65535,
            65536,
            -1,
            1_000_000,
            i64::from(i32::MAX),
            i64::MAX,
            i64::MIN,
        ])
    }

    /// A value of this shape, or now and then of another one.
    fn value(&mut self, node: &Node, depth: usize) -> Value {
        if self.rng.u8(..200) == 0 {
            return self
                .pick(&[json!(null), json!([]), json!({}), json!("a"), json!(1), json!(true), json!([[{}]])])
                .clone();
        }
        match node.resolve() {
            Node::Any => json!({"a": self.word()}),
            Node::Bool => self.rng.bool().into(),
            Node::Integer { narrow: true } => i64::from(self.integer() as i32).into(),
            Node::Integer { .. } => self.integer().into(),
            Node::Number => self.rng.f64().into(),
            Node::String(format) => match (format, self.rng.u8(..8)) {
                (_, 0) => self.word().into(),
                (Format::Bytes, _) => "YWJj".into(),
                (Format::Time, _) => "2024-01-01T00:00:00Z".into(),
                (Format::MicroTime, _) => "2024-01-01T00:00:00.000001Z".into(),
                (Format::Quantity, _) => (*self.pick(&["1", "100m", "1Gi", "0", "-1", "1e3"])).into(),
                (Format::Plain, _) => self.word().into(),
            },
            Node::IntOrString => {
                if self.rng.bool() {
                    self.integer().into()
                } else {
                    self.word().into()
                }
            }
            Node::List(items) => (0..self.rng.usize(..3)).map(|_| self.value(items, depth + 1)).collect(),
            Node::Map(items) => {
                (0..self.rng.usize(..3)).map(|_| (self.word(), self.value(items, depth + 1))).collect()
            }
            Node::Object(fields) => {
                let mut object = Map::new();
                for field in fields {
                    // Deeper down only what is needed, or objects would never end.
                    let likely = if field.required { 90 } else { 45_u8.saturating_sub(depth as u8 * 8) };
                    if depth < 9 && self.rng.u8(..100) < likely {
                        object.insert(field.name.to_string(), self.value(&field.node, depth + 1));
                    }
                }
                object.into()
            }
            Node::Named(_) => Value::Null,
        }
    }

    /// Replaces something in a value by something of the same shape, drops it, or doubles it.
    fn disturb(&mut self, value: &mut Value, node: &Node, depth: usize) {
        let node = node.resolve();
        match (value, node) {
            (Value::Object(object), Node::Object(fields)) if !object.is_empty() && self.rng.u8(..5) > 0 => {
                let at = self.rng.usize(..object.len());
                let field =
                    fields.iter().find(|field| object.keys().nth(at).is_some_and(|key| *key == *field.name));
                if let (Some(field), Some(value)) = (field, object.values_mut().nth(at)) {
                    self.disturb(value, &field.node, depth + 1);
                }
            }
            (Value::Object(object), Node::Object(fields)) if !fields.is_empty() => {
                let field = self.pick(fields);
                match self.rng.u8(..4) {
                    0 => drop(object.remove(&*field.name)),
                    _ => drop(object.insert(field.name.to_string(), self.value(&field.node, depth + 1))),
                }
            }
            (Value::Array(list), Node::List(items)) if !list.is_empty() && self.rng.u8(..4) > 0 => {
                let at = self.rng.usize(..list.len());
                match self.rng.u8(..6) {
                    0 => list.push(list[at].clone()),
                    1 => drop(list.remove(at)),
                    _ => self.disturb(&mut list[at], items, depth + 1),
                }
            }
            (value, node) => *value = self.value(node, depth),
        }
    }
}

/// Objects that are valid, to begin with.
fn seeds() -> Vec<(&'static str, &'static str, Value)> {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}},
            "env": [{"name": "E", "value": "v"}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "livenessProbe": {"httpGet": {"port": 80, "path": "/"}}}],
        "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"operator": "Exists"}]}});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let selector = json!({"matchLabels": {"a": "b"}});
    vec![
        ("", "configmaps", json!({"data": {"a": "b"}})),
        ("", "secrets", json!({"type": "Opaque", "data": {"a": "YWJj"}})),
        ("", "pods", json!({"spec": template["spec"]})),
        ("", "services", json!({"spec": {"selector": {"a": "b"}, "ports": [{"name": "p", "port": 80}]}})),
        ("", "namespaces", json!({})),
        ("", "nodes", json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})),
        ("", "endpoints", json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]})),
        (
            "",
            "events",
            json!({"involvedObject": {"namespace": "default", "kind": "Pod", "name": "p"}, "reason": "R"}),
        ),
        ("", "replicationcontrollers", json!({"spec": {"selector": {"a": "b"}, "template": template}})),
        (
            "",
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        (
            "",
            "persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}}),
        ),
        ("apps", "deployments", json!({"spec": {"selector": selector, "template": template}})),
        (
            "apps",
            "statefulsets",
            json!({"spec": {"serviceName": "s", "selector": selector, "template": template}}),
        ),
        ("apps", "daemonsets", json!({"spec": {"selector": selector, "template": template}})),
        ("apps", "replicasets", json!({"spec": {"selector": selector, "template": template}})),
        ("batch", "jobs", json!({"spec": {"template": once}})),
        (
            "batch",
            "cronjobs",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}}),
        ),
        ("policy", "poddisruptionbudgets", json!({"spec": {"minAvailable": 1, "selector": selector}})),
        (
            "networking.k8s.io",
            "ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
        ),
        ("networking.k8s.io", "networkpolicies", json!({"spec": {"podSelector": selector, "ingress": [{}]}})),
        (
            "coordination.k8s.io",
            "leases",
            json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 3}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
    ]
}

/// Whether a configuration is refused in the way in which Kubernetes refuses those that do not fit their schema.
fn is_unfit(answer: &super::client::Answer) -> bool {
    let words = ["failed to create typed patch object (", "failed to convert new object ("];
    answer.code == 500
        && answer.json()["message"]
            .as_str()
            .is_some_and(|said| words.iter().any(|words| said.starts_with(words)))
}

#[tokio::test]
async fn no_object_of_any_kind_makes_the_server_fail() {
    let client = Client::new().await;
    let account = json!({"metadata": {"name": "default"}});
    client.post("/api/v1/namespaces/default/serviceaccounts", account).await;
    let rows = builtin::rows();
    let mut run = Run::begin();
    let (mut n_requests, mut n_taken) = (0_u32, 0_u32);
    let mut kept: Vec<Option<Value>> = rows.iter().map(|row| seed_of(row)).collect();
    while run.goes_on() {
        let at = run.rng.usize(..rows.len());
        let row = &rows[at];
        let (method, path, kind, object) = request(&mut run, row, kept[at].as_ref());
        let body = Bytes::from(object.to_string());
        let answer = client.provoke(method, &path, &[("content-type", kind)], body.clone()).await;
        n_requests += 1;
        match answer {
            Err(_) if method == "POST" => {
                n_taken += 1;
                kept[at] = Some(object);
            }
            Err(_) => n_taken += 1,
            Ok(answer) => {
                let code = answer.code;
                assert!(
                    code < 500 || code == 501 || is_unfit(&answer),
                    "seed {}: {method} {path} {}\n{body:?}",
                    run.seed,
                    answer.text()
                );
                answer.status();
            }
        }
    }
    assert_eq!(client.panics().await, 0, "seed {}", run.seed);
    assert!(n_taken > 0, "none of {n_requests} was taken");
}

fn seed_of(row: &Resource) -> Option<Value> {
    let seeds = seeds();
    seeds
        .into_iter()
        .find(|(group, plural, _)| (*group, *plural) == (&row.group, &row.plural))
        .map(|(.., seed)| seed)
}

/// A request with a disturbed or made-up object.
fn request(
    run: &mut Run,
    row: &Resource,
    known: Option<&Value>,
) -> (&'static str, String, &'static str, Value) {
    let version = run.rng.usize(..row.versions.len());
    let version = &row.versions[version];
    let schema = version.schema();
    let mut object = match known.filter(|_| run.rng.u8(..4) > 0) {
        Some(known) => known.clone(),
        None => run.value(schema, 0),
    };
    for _ in 0..run.rng.usize(..4) {
        run.disturb(&mut object, schema, 0);
    }
    let name = format!("x{}", run.rng.u8(..4));
    if run.rng.u8(..20) > 0 && object.is_object() {
        let metadata = &mut object["metadata"];
        if !metadata.is_object() || run.rng.u8(..3) > 0 {
            *metadata = json!({});
        }
        metadata["name"] = name.as_str().into();
        if row.namespaced {
            metadata["namespace"] = "default".into();
        }
        for field in ["resourceVersion", "uid"] {
            metadata.as_object_mut().map(|metadata| metadata.remove(field));
        }
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("apiVersion");
        object.remove("kind");
    }
    let root = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
    let scope = if row.namespaced { "/namespaces/default" } else { "" };
    let all = format!("{root}/{}{scope}/{}", version.name, row.plural);
    let json_type = "application/json";
    match run.rng.u8(..8) {
        0..4 => ("POST", all, json_type, object),
        4 => ("PUT", format!("{all}/{name}"), json_type, object),
        5 => {
            let (kind, path) = (run.pick(&["merge", "strategic", "apply", "apply"]), format!("{all}/{name}"));
            if *kind != "apply" {
                return ("PATCH", path, patch_type(kind), object);
            }
            if let Some(object) = object.as_object_mut() {
                object.insert("apiVersion".to_owned(), row.api_version(&version.name).into());
                object.insert("kind".to_owned(), row.kind.as_str().into());
            }
            let (manager, force) = (run.rng.u8(..3), run.rng.bool());
            let path = format!("{path}?fieldManager=f{manager}&force={force}");
            ("PATCH", path, patch_type(kind), object)
        }
        6 => {
            let mut subs: Vec<&str> = row.parts.iter().map(|part| part.name).collect();
            subs.extend(row.actions.iter().map(|(name, _)| *name));
            subs.extend(row.scale.as_ref().map(|_| "scale"));
            let sub = if subs.is_empty() { "status" } else { run.pick(&subs) };
            let method = run.pick(&["PUT", "POST", "PATCH"]);
            let kind = if *method == "PATCH" { patch_type("merge") } else { json_type };
            (method, format!("{all}/{name}/{sub}"), kind, object)
        }
        _ => {
            let grace = run.integer();
            ("DELETE", format!("{all}/{name}"), json_type, json!({"gracePeriodSeconds": grace}))
        }
    }
}

/// Pieces that mean something in definitions.
const DEFINING: &[&str] = &[
    "\"type\":\"object\",",
    "\"type\":\"array\",\"items\":{\"type\":\"string\"},",
    "\"nullable\":true,",
    "\"default\":{},",
    "\"default\":null,",
    "\"pattern\":\"(a*)*b\",",
    "\"format\":\"date-time\",",
    "\"maximum\":-1e300,",
    "\"multipleOf\":0,",
    "\"additionalProperties\":true,",
    "\"x-kubernetes-preserve-unknown-fields\":true,",
    "\"x-kubernetes-embedded-resource\":true,",
    "\"x-kubernetes-int-or-string\":true,",
    "\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"name\"],",
    "\"x-kubernetes-validations\":[{\"rule\":\"self.size > oldSelf.size\"}],",
    "\"oneOf\":[{\"required\":[\"a\"]}],",
    "{}",
    "[]",
    "null,",
    "\"\",",
    "\"v2\"",
    "\u{e9}",
];

#[tokio::test]
async fn no_definition_and_no_custom_object_makes_the_server_fail() {
    let mut run = Run::begin();
    let client = Client::new().await;
    let json = [("content-type", "application/json")];
    let object = json!({
        "metadata": {"name": "a"}, "spec": {"size": 3, "parts": [{"name": "p"}], "port": 80, "free": {"x": [null]}},
    });
    let mut n_served = 0;
    while run.goes_on() {
        let mut definition = widgets().to_string().into_bytes();
        run.mutate(&mut definition, DEFINING);
        let shown = String::from_utf8_lossy(&definition).into_owned();
        let answer = client.send("POST", DEFINITIONS, &json, definition).await;
        assert!(answer.code < 500, "seed {}: {}: {shown}", run.seed, answer.text());
        if answer.code != 201 {
            continue;
        }
        n_served += 1;
        let created = answer.json();
        let text =
            |pointer: &str| created.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, plural, version) =
            (text("/spec/group"), text("/spec/names/plural"), text("/spec/versions/0/name"));
        let path = format!("/apis/{group}/{version}/namespaces/default/{plural}");
        for _ in 0..20 {
            let mut bytes = object.to_string().into_bytes();
            run.mutate(&mut bytes, DEFINING);
            let body = String::from_utf8_lossy(&bytes).into_owned();
            let answer = client.send("POST", &path, &json, bytes.clone()).await;
            assert!(answer.code < 500, "seed {}: {}: {shown}: {body}", run.seed, answer.text());
            let patch = [("content-type", patch_type("merge"))];
            let answer = client.send("PATCH", &format!("{path}/a"), &patch, bytes).await;
            assert!(answer.code < 500, "seed {}: {}: {shown}: {body}", run.seed, answer.text());
        }
        let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
        for path in [path.as_str(), "/apis", "/openapi/v3"] {
            let answer = client.send("GET", path, &table, "").await;
            assert!(answer.code < 500, "seed {}: {}: {shown}", run.seed, answer.text());
        }
        let own = format!("{DEFINITIONS}/{}", text("/metadata/name"));
        client.delete(&own, Value::Null).await;
        while client.get(&own).await.code != 404 {
            tokio::task::yield_now().await;
        }
    }
    assert!(n_served > 0, "seed {}: nothing was taken", run.seed);
    assert_eq!(client.panics().await, 0, "seed {}", run.seed);
}
