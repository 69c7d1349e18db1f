//! Bodies written by hand, read back.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_machinery::schema::{Definition, Node};

use super::*;
use crate::resources::{Version, builtin};

const MOST: usize = 3 * 1024 * 1024;

/// Writes messages.
#[derive(Clone, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn int(mut self, number: u64, value: i64) -> Self {
        self.varint(number << 3);
        self.varint(value.cast_unsigned());
        self
    }

    fn double(mut self, number: u64, value: f64) -> Self {
        self.varint(number << 3 | 1);
        self.0.extend(value.to_bits().to_le_bytes());
        self
    }

    fn bytes(mut self, number: u64, bytes: &[u8]) -> Self {
        self.varint(number << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, number: u64, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }

    fn message(self, number: u64, message: Writer) -> Self {
        self.bytes(number, &message.0)
    }

    fn entry(self, number: u64, key: &str, value: &str) -> Self {
        self.message(number, new().text(1, key).text(2, value))
    }
}

fn new() -> Writer {
    Writer::default()
}

fn body(api_version: &str, kind: &str, message: Writer) -> Vec<u8> {
    let type_meta = new().text(1, api_version).text(2, kind);
    let envelope = new().message(1, type_meta).message(2, message).text(3, "").text(4, "");
    [MAGIC, &envelope.0].concat()
}

fn read(api_version: &str, kind: &str, message: Writer) -> Value {
    match decode(&body(api_version, kind, message), MOST) {
        Ok(object) => Value::Object(object),
        Err(error) => panic!("{error}"),
    }
}

/// What Go writes for metadata with a name: all that is no pointer.
fn metadata(name: &str) -> Writer {
    let strings = new().text(1, name).text(2, "").text(3, "").text(4, "").text(5, "").text(6, "");
    strings.int(7, 0).message(8, new())
}

#[test]
fn zero_values_are_left_out_where_json_leaves_them_out() {
    let container = new().text(1, "web").text(2, "nginx").text(5, "").message(8, new()).int(16, 0);
    let pod_spec = new().message(2, container).text(3, "").int(4, 0).int(11, 0).int(21, 0).text(16, "");
    let template = new().message(1, metadata("")).message(2, pod_spec);
    let selector = new().entry(1, "app", "web");
    let spec = new().int(1, 0).message(2, selector).message(3, template).message(4, new().text(1, ""));
    let spec = spec.int(5, 0).int(7, 0);
    let deployment = new().message(1, metadata("web")).message(2, spec).message(3, new().int(1, 0));
    assert_eq!(
        read("apps/v1", "Deployment", deployment),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                // A pointer: someone meant zero.
                "replicas": 0,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {},
                "template": {
                    "metadata": {},
                    "spec": {
                        "automountServiceAccountToken": false,
                        "containers": [{"image": "nginx", "name": "web", "resources": {}}],
                        "terminationGracePeriodSeconds": 0,
                    },
                },
            },
            "status": {},
        })
    );
}

#[test]
fn messages_without_a_name_in_json_are_spread() {
    let empty_dir = new().message(2, new().text(1, "Memory").message(2, new().text(1, "1Gi")));
    let volume = new().text(1, "tmp").message(2, empty_dir);
    let get = new().text(1, "/").message(2, new().int(1, 0).int(2, 8080).text(3, "")).text(3, "");
    let probe = new().message(1, new().message(2, get)).int(2, 0).int(3, 5);
    let selector = new().message(1, new().text(1, "own")).text(2, "key").int(3, 0);
    let env = new().text(1, "A").text(2, "").message(3, new().message(3, selector));
    let container = new().text(1, "c").message(7, env).message(10, probe);
    let pod = new().message(2, new().message(1, volume).message(2, container));
    assert_eq!(
        read("v1", "Pod", pod)["spec"],
        json!({
            "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
            "containers": [{
                "name": "c",
                "env": [{
                    "name": "A",
                    "valueFrom": {"configMapKeyRef": {"name": "own", "key": "key", "optional": false}},
                }],
                "livenessProbe": {"httpGet": {"path": "/", "port": 8080}, "timeoutSeconds": 5},
            }],
        })
    );
}

#[test]
fn special_types_are_read_as_json_has_them() {
    let data = |key: &str, value: &[u8]| new().text(1, key).bytes(2, value);
    let secret = new().message(2, data("a", b"\0\xff")).message(2, data("b", b"")).text(3, "");
    assert_eq!(read("v1", "Secret", secret)["data"], json!({"a": "AP8=", "b": ""}));

    let port = |target: Writer| new().text(1, "").int(3, 80).message(4, target).int(5, 0);
    let spec = new().message(1, port(new().int(1, 1).int(2, 0).text(3, "http")));
    let spec = spec.message(1, port(new().int(1, 0).int(2, 0).text(3, "")));
    assert_eq!(
        read("v1", "Service", new().message(2, spec))["spec"]["ports"],
        json!([{"port": 80, "targetPort": "http"}, {"port": 80}])
    );

    let time = new().int(1, 1_700_000_000).int(2, 123_456_789);
    let lease = new().text(1, "me").int(2, 15).message(3, time.clone()).message(4, new());
    assert_eq!(
        read("coordination.k8s.io/v1", "Lease", new().message(2, lease))["spec"],
        json!({
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2023-11-14T22:13:20.123456Z",
        })
    );
    let entry = new().text(1, "m").message(4, time).message(7, new().text(1, r#"{"f:a":{}}"#));
    let owned = new().message(17, entry);
    assert_eq!(
        read("v1", "ConfigMap", new().message(1, owned))["metadata"]["managedFields"],
        json!([{"manager": "m", "time": "2023-11-14T22:13:20Z", "fieldsV1": {"f:a": {}}}])
    );

    let extra = |values: Writer| new().text(1, "scopes").message(2, values);
    let user = new().text(3, "me").message(5, extra(new().text(1, "a").text(1, "")));
    let review = new().message(2, user.clone());
    let review = read("authorization.k8s.io/v1", "SubjectAccessReview", review);
    let extra = review["spec"]["extra"].clone();
    assert_eq!(extra, json!({"scopes": ["a", ""]}), "{review}");

    let negative = new().message(1, metadata("low")).int(2, -5).int(3, 0).text(4, "");
    assert_eq!(read("scheduling.k8s.io/v1", "PriorityClass", negative)["value"], -5);
    let zero = read("scheduling.k8s.io/v1", "PriorityClass", new().int(2, 0).int(3, 0));
    assert_eq!((&zero["value"], zero.get("globalDefault")), (&json!(0), None));
}

#[test]
fn numbers_may_be_packed() {
    let values = |writer: Writer| {
        let codes = new().text(1, "").text(2, "In").0;
        let codes = Writer([codes, writer.0].concat());
        let rule = new().text(1, "Ignore").message(2, codes);
        let spec = new().message(11, new().message(1, rule));
        let job = read("batch/v1", "Job", new().message(2, spec));
        job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"].clone()
    };
    let expected = json!({"operator": "In", "values": [1, 300]});
    assert_eq!(values(new().int(3, 1).int(3, 300))["values"], expected["values"]);
    assert_eq!(values(new().bytes(3, &[1, 0xac, 2]))["values"], expected["values"]);
}

#[test]
fn schemas_of_custom_resources_are_read() {
    let text = || new().text(5, "string");
    let property = |key: &str, schema: Writer| new().text(1, key).message(2, schema);
    let list = new().text(5, "array").message(24, new().message(1, text()));
    let bounded = new().text(5, "number").double(9, 1.5).double(11, 0.0).message(8, new().text(1, "1"));
    let open = new().text(5, "object").message(30, new().int(1, 1).message(2, text()));
    let closed = new().text(5, "object").message(30, new().int(1, 0));
    let schema = new().text(5, "object").int(38, 1).int(10, 0).text(6, "");
    let schema = schema.message(29, property("list", list)).message(29, property("bounded", bounded));
    let schema = schema.message(29, property("open", open)).message(29, property("closed", closed));
    let version = new().text(1, "v1").int(2, 1).int(3, 0).message(4, new().message(1, schema));
    let crd = new().message(2, new().text(1, "example.com").message(7, version));
    assert_eq!(
        read("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd)["spec"]["versions"][0],
        json!({
            "name": "v1",
            "served": true,
            "storage": false,
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "bounded": {"type": "number", "maximum": 1.5, "minimum": 0, "default": 1},
                    "closed": {"type": "object", "additionalProperties": false},
                    "list": {"type": "array", "items": {"type": "string"}},
                    "open": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            }},
        })
    );
}

#[test]
fn delete_options_are_the_same_in_every_group() {
    for api_version in ["v1", "apps/v1", "meta.k8s.io/v1", "example.com/v2"] {
        let options = new().int(1, 0).message(2, new().text(1, "uid")).text(4, "Foreground").text(5, "All");
        assert_eq!(
            read(api_version, "DeleteOptions", options),
            json!({
                "apiVersion": api_version,
                "kind": "DeleteOptions",
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "uid"},
                "propagationPolicy": "Foreground",
                "dryRun": ["All"],
            })
        );
    }
}

#[test]
fn fields_that_are_not_known_are_skipped() {
    let mut fixed = new();
    fixed.varint(903 << 3 | 5);
    fixed.0.extend([1, 2, 3, 4]);
    let unknown = fixed.int(900, 1).text(901, "x").double(902, 1.0).entry(2, "a", "b");
    assert_eq!(read("v1", "ConfigMap", unknown)["data"], json!({"a": "b"}));
}

#[test]
fn whatever_is_wrong_is_told() {
    let whole = body("v1", "ConfigMap", new().message(1, metadata("c")).entry(2, "a", "b"));
    let told = |bytes: &[u8], most: usize| match decode(bytes, most) {
        Ok(object) => panic!("{object:?}"),
        Err(error) => error.to_string(),
    };
    for (bytes, message) in [
        (b"{}".to_vec(), "does not begin with the prefix"),
        (vec![], "does not begin with the prefix"),
        (MAGIC.to_vec(), "no kind \"\" is registered"),
        (
            body("example.com/v1", "Thing", new()),
            "no kind \"Thing\" is registered for version \"example.com/v1\"",
        ),
        (whole[..whole.len() - 5].to_vec(), "unexpected end"),
        (body("v1", "ConfigMap", new().int(1, 1)), "the wrong wire type"),
        (body("v1", "ConfigMap", new().bytes(2, b"\x0a\x02\xff\xff")), "not UTF-8"),
        (body("v1", "ConfigMap", Writer(vec![0x0b])), "illegal tag"),
        (body("v1", "ConfigMap", Writer(vec![0xff; 20])), "unexpected end"),
    ] {
        let error = told(&bytes, MOST);
        assert!(error.contains(message), "{error}");
    }
    let revision = body("apps/v1", "ControllerRevision", new().message(2, new().text(1, "{")));
    assert!(told(&revision, MOST).contains("JSON in the protobuf field data"));
    let time = body("v1", "ConfigMap", new().message(1, new().message(9, new().int(1, i64::MAX))));
    assert!(told(&time, MOST).contains("out of range"));
    assert!(told(&whole, 10).contains("too large"));
}

#[test]
fn no_bytes_make_it_panic() {
    let container = new().text(1, "web").text(2, "nginx").message(8, new()).int(16, 0);
    let pod = body("v1", "Pod", new().message(1, metadata("p")).message(2, new().message(2, container)));
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..20_000 {
        let mut bytes = pod.clone();
        for _ in 0..=round % 4 {
            let at = random.usize(MAGIC.len()..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        let _ = decode(&bytes, MOST);
    }
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| {
        let innermost = new().text(5, "object");
        let schema = (0..depth).fold(innermost, |inner, _| new().message(28, inner));
        let version = new().message(4, new().message(1, schema));
        body(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            new().message(2, new().message(7, version)),
        )
    };
    assert!(decode(&nested(100), MOST).is_ok());
    assert!(matches!(decode(&nested(200), MOST), Err(Error::Depth)));

    let inner = |bytes: &[u8]| body("apps/v1", "ControllerRevision", new().message(2, new().bytes(1, bytes)));
    let revision = (0..200).fold(inner(b"{}"), |bytes, _| inner(&bytes));
    assert!(matches!(decode(&revision, MOST), Err(Error::Depth)));
    let json = format!("{}{}", "[".repeat(126), "]".repeat(126));
    assert!(matches!(decode(&inner(json.as_bytes()), MOST), Err(Error::Depth)));
}

/// The types below a node, with the names of their fields.
fn walk(node: &Node, seen: &mut BTreeSet<String>, found: &mut impl FnMut(&Definition, BTreeSet<&str>)) {
    match node {
        Node::Named(definition) if seen.insert(definition.name().to_owned()) => {
            if let Node::Object(fields) = node.resolve() {
                found(definition, fields.iter().map(|field| &*field.name).collect());
            }
            walk(node.resolve(), seen, found);
        }
        Node::Object(fields) => fields.iter().for_each(|field| walk(&field.node, seen, found)),
        Node::Map(items) | Node::List(items) => walk(items, seen, found),
        _ => {}
    }
}

/// The names that the fields of a message have in JSON.
fn names(type_name: &str) -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for field in fields(type_name).unwrap_or_else(|| panic!("no {type_name}")) {
        match &field.kind {
            Type::Message(inner) if field.name.is_empty() => names.extend(self::names(inner)),
            _ => drop(names.insert(field.name)),
        }
    }
    names
}

#[test]
fn the_table_has_the_fields_of_all_kinds() {
    // What is only read is never sent.
    let rows: Vec<_> = builtin::rows().into_iter().filter(|row| !row.computed).collect();
    let package = |type_name: &str| type_name.rsplit_once('.').map(|(package, _)| package.to_owned());
    let mut versions: Vec<(String, String)> = vec![];
    for row in &rows {
        for version in &row.versions {
            let package = package(&version.type_name).expect("types are in packages");
            versions.push((package, row.api_version(&version.name)));
        }
    }
    for (package, version) in [
        ("io.k8s.apimachinery.pkg.apis.meta.v1", "meta.k8s.io/v1"),
        ("io.k8s.api.scheduling.v1alpha3", "scheduling.k8s.io/v1alpha3"),
    ] {
        versions.push((package.to_owned(), version.to_owned()));
    }
    let mut seen = BTreeSet::new();
    let mut missing = vec![];
    // Definitions of old are sent by clients that do not know the type, and so in JSON.
    let is_sent = |version: &&Version| !version.type_name.contains(".apiextensions.v1beta1.");
    for version in rows.iter().flat_map(|row| &row.versions).filter(is_sent) {
        walk(version.schema(), &mut seen, &mut |definition, wanted| {
            let name = definition.name();
            let (package, kind) = name.rsplit_once('.').expect("types are in packages");
            let (_, version) = versions
                .iter()
                .find(|(own, _)| own == package)
                .unwrap_or_else(|| panic!("no version for {name}"));
            let known = names(&format!("{version}.{kind}"));
            let unknown = wanted.iter().filter(|field| !known.contains(**field));
            let unknown = unknown.filter(|field| !matches!(**field, "apiVersion" | "kind"));
            missing.extend(unknown.map(|field| format!("{name}.{field}")));
        });
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
