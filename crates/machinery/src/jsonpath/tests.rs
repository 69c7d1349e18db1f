//! What paths find, and which texts are none.

use serde_json::json;

use super::*;

fn found(path: &str, object: &Value) -> Vec<String> {
    let object = object.as_object().expect("an object");
    let path = JsonPath::compile(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    path.find(object).map(Value::to_string).collect()
}

fn object() -> Value {
    json!({
        "metadata": {"name": "a", "annotations": {"a.b/c": "dotted", "it's": "quoted"}},
        "spec": {
            "replicas": 3, "on": true, "ratio": 1.5, "empty": null,
            "items": [{"name": "x", "n": 1}, {"name": "y", "n": 2, "also": true}, {"n": 3}],
            "matrix": [[1, 2], [3, 4]],
        },
        "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}, {"type": "Odd (x]"},
        ]},
    })
}

#[test]
fn paths_find_what_kubectl_would_find() {
    let object = object();
    let cases: &[(&str, &[&str])] = &[
        (".metadata.name", &[r#""a""#]),
        ("{.metadata.name}", &[r#""a""#]),
        ("$.metadata.name", &[r#""a""#]),
        (".spec.replicas", &["3"]),
        (".spec.empty", &["null"]),
        (".spec.absent", &[]),
        (".spec.replicas.deeper", &[]),
        (".", &[]),
        (r".metadata.annotations.a\.b/c", &[r#""dotted""#]),
        (".metadata.annotations['a.b/c']", &[r#""dotted""#]),
        (r#".metadata.annotations["a.b/c"]"#, &[r#""dotted""#]),
        (r".metadata.annotations['it\'s']", &[r#""quoted""#]),
        (".metadata['name']", &[r#""a""#]),
        (".spec.items[0].name", &[r#""x""#]),
        (".spec.items[-1].n", &["3"]),
        (".spec.items[7].n", &[]),
        (".spec.items[-7].n", &[]),
        (".spec.items[0:2].n", &["1", "2"]),
        (".spec.items[1:].n", &["2", "3"]),
        (".spec.items[:-1].n", &["1", "2"]),
        (".spec.items[::2].n", &["1", "3"]),
        (".spec.items[0,2].n", &["1", "3"]),
        (".spec['replicas','on']", &["3", "true"]),
        (".spec.items[*].name", &[r#""x""#, r#""y""#]),
        (".spec.matrix[*][1]", &["2", "4"]),
        (".metadata.annotations.*", &[r#""dotted""#, r#""quoted""#]),
        (".spec.replicas[0]", &[]),
        (r#".status.conditions[?(@.type=="Ready")].status"#, &[r#""True""#]),
        (r".status.conditions[?(@.type=='Synced')].status", &[r#""False""#]),
        (r#".status.conditions[?(@.type == "Ready")].status"#, &[r#""True""#]),
        (r#".status.conditions[?(@.type=="Odd (x]")].type"#, &[r#""Odd (x]""#]),
        (r#".status.conditions[?(@.type!="Ready")].type"#, &[r#""Synced""#, r#""Odd (x]""#]),
        (".status.conditions[?(@.status)].type", &[r#""Ready""#, r#""Synced""#]),
        (".spec.items[?(@.n>1)].n", &["2", "3"]),
        (".spec.items[?(@.n<=2)].n", &["1", "2"]),
        (".spec.items[?(@.n<1.5)].n", &["1"]),
        (".spec.items[?(@.also==true)].n", &["2"]),
        (".spec.items[?(@.name>5)].n", &[]),
        (".spec.items[?(@.n==@.n)].n", &["1", "2", "3"]),
        (".spec[?(@.n==1)]", &[]),
        ("..type", &[r#""Ready""#, r#""Synced""#, r#""Odd (x]""#]),
        ("..name", &[r#""a""#, r#""x""#, r#""y""#]),
        ("..conditions[0].type", &[r#""Ready""#]),
        (".spec..name", &[r#""x""#, r#""y""#]),
    ];
    for (path, values) in cases {
        assert_eq!(found(path, &object), *values, "{path}");
    }
}

#[test]
fn malformed_paths_are_refused() {
    let deep = format!(".a{}", "[?(@.b".repeat(20));
    let long = ".a".repeat(4000);
    for path in [
        "spec.replicas",
        ".spec[",
        ".spec[0",
        ".spec[a]",
        ".spec[1:2:3:4]",
        ".spec[::0]",
        ".spec[]",
        ".a....b",
        ".a[?(@.b==)]",
        ".a[?(@.b==c)]",
        ".a[?(@.b=1)]",
        ".a[?(@.b",
        ".a[?(@.b)",
        ".a]",
        ".a b",
        "{.a",
        ".a}",
        ".spec.[x]",
        &deep,
        &long,
    ] {
        assert!(JsonPath::compile(path).is_err(), "{path}");
    }
}

#[test]
fn paths_that_fan_out_are_cut_off() {
    let mut value = json!(1);
    for _ in 0..60 {
        value = json!({"a": value.clone(), "b": 1});
    }
    let object = json!({"a": value});
    assert!(found("..a..a..a..a..a", &object).len() <= FOUND_MOST);
    let wide = json!({"list": vec![vec![0; 1000]; 1000]});
    assert_eq!(found(".list[*][*]", &wide).len(), FOUND_MOST);
}

#[test]
fn plain_paths_are_lists_of_names() {
    assert_eq!(fields(".spec.replicas"), Some(vec!["spec", "replicas"]));
    for path in ["", ".", "spec.replicas", ".spec..replicas", ".spec.", ".spec[0]"] {
        assert_eq!(fields(path), None, "{path}");
    }
}

#[test]
fn no_text_makes_reading_or_finding_fail() {
    const PARTS: &[&str] = &[
        ".", "..", "[", "]", "?(", ")", "@", "a", "spec", "items", "*", "'", "\"", "\\", "==", "<", "0",
        "-1", ":", ",", "{", "}", " ", "ä", "$", "n",
    ];
    let object = object();
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let n_parts = random.usize(..12);
        let text: String = (0..n_parts).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
        if let Ok(path) = JsonPath::compile(&text) {
            assert!(
                path.find(object.as_object().expect("an object")).count() <= FOUND_MOST,
                "seed {seed}: {text}"
            );
        }
    }
}
