//! Bodies, good and bad.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn yaml(text: &str) -> Decoded {
    decode_yaml(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn yaml_value(text: &str) -> Value {
    Value::Object(yaml(text).object)
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"w\u00e9b","n":null}},
    "spec":{"containers":[{"name":"c","ports":[{"containerPort":80}],"env":[]},{"name":"d"}],"weight":-1.5e3,
    "big":18446744073709551615,"huge":123456789012345678901234567890,"on":true}}"#;

#[test]
fn json_is_read_as_it_always_is() {
    let decoded = decode_json(POD.as_bytes()).expect("good");
    assert_eq!(decoded.object, serde_json::from_str::<Object>(POD).expect("good"));
    assert_eq!(decoded.duplicates, [""; 0]);
    assert_eq!(decode_json(b" {} \n").expect("good"), Decoded::default());
}

#[test]
fn fields_given_twice_are_named_and_the_last_counts() {
    let text = r#"{"spec":{"replicas":1,"replicas":2,"replicas":3,"containers":[{"name":"a"},{"name":"b","name":"c"}]},
        "kind":"A","kind":"B","metadata":{"labels":{"x.io/a":"1","x.io/a":"2"}}}"#;
    let decoded = decode_json(text.as_bytes()).expect("good");
    let paths = ["spec.replicas", "spec.containers[1].name", "kind", "metadata.labels.x.io/a"];
    assert_eq!(decoded.duplicates, paths);
    let object = json!({"spec": {"replicas": 3, "containers": [{"name": "a"}, {"name": "c"}]}, "kind": "B",
        "metadata": {"labels": {"x.io/a": "2"}}});
    assert_eq!(Value::Object(decoded.object.clone()), object);
    // JSON is YAML too, and then the lines are told.
    let as_yaml = yaml(text);
    assert_eq!((&as_yaml.object, &as_yaml.duplicates), (&decoded.object, &decoded.duplicates));
    assert_eq!(as_yaml.repeated.len(), 5);
    assert_eq!(as_yaml.repeated[4], "line 2: key \"x.io/a\" already set in map");
    let many: Vec<String> = (0..300).map(|n| format!("\"k{n}\":1,\"k{n}\":2")).collect();
    let decoded = decode_json(format!("{{{}}}", many.join(",")).as_bytes()).expect("good");
    assert_eq!((decoded.duplicates.len(), decoded.object.len()), (DUPLICATES_MOST, 300));
}

#[test]
fn keys_given_twice_in_yaml_are_told_with_the_line_of_their_value() {
    let text = "a: 1\nb:\n  c: x\n  c: y\n  c: z\nd:\n- e: 1\n  e:\n    f: 1\n1: x\n1: y\na: 2\n";
    let decoded = yaml(text);
    assert_eq!(
        decoded.repeated,
        [
            "line 4: key \"c\" already set in map",
            "line 5: key \"c\" already set in map",
            "line 9: key \"e\" already set in map",
            "line 11: key 1 already set in map",
            "line 12: key \"a\" already set in map",
        ]
    );
    assert_eq!(decoded.duplicates, ["b.c", "d[0].e", "1", "a"]);
}

#[test]
fn what_is_no_json_object_is_refused_with_its_place() {
    for (text, says) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("1", "invalid type: integer `1`, expected an object at line 1 column 1"),
        ("[]", "expected an object at line 1 column 0"),
        ("null", "expected an object"),
        ("{\n\"a\":}", "expected value at line 2 column 5"),
        ("{} {}", "trailing characters at line 1 column 4"),
        ("{}x", "trailing characters"),
        ("{\"a\":1e999}", "number out of range"),
        ("{\"a\":\"\u{1}\"}", "control character"),
        ("{1:2}", "key must be a string"),
        ("{\"a\":01}", "invalid number"),
        ("{\"a\":\"\\ud800\"}", "unexpected end of hex escape"),
    ] {
        let message = decode_json(text.as_bytes()).map_err(|e| e.to_string()).expect_err(text);
        assert!(message.contains(says), "{text}: {message}");
    }
    assert!(decode_json(b"{\"a\":\"\xff\"}").is_err());
}

#[test]
fn depth_is_limited() {
    let json = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert!(decode_json(json(126).as_bytes()).is_ok());
    assert!(decode_json(objects(127).as_bytes()).is_ok());
    assert!(decode_yaml(json(126).as_bytes()).is_ok());
    assert!(decode_yaml(objects(127).as_bytes()).is_ok());
    for depth in [128, 10_000, 300_000] {
        let message = decode_json(json(depth).as_bytes()).map_err(|e| e.to_string()).expect_err("too deep");
        assert!(message.starts_with("recursion limit exceeded at line 1 column"), "{message}");
        assert!(decode_json(objects(depth).as_bytes()).is_err());
        assert!(decode_yaml(json(depth).as_bytes()).is_err());
        assert!(decode_yaml(objects(depth).as_bytes()).is_err());
        assert!(decode_yaml("- ".repeat(depth).as_bytes()).is_err());
    }
    let block: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(decode_yaml(block.as_bytes()).is_err());
}

#[test]
fn yaml_scalars_mean_what_they_mean_to_kubernetes() {
    for (text, value) in [
        ("yes", json!(true)),
        ("No", json!(false)),
        ("on", json!(true)),
        ("OFF", json!(false)),
        ("y", json!(true)),
        ("true", json!(true)),
        ("'yes'", json!("yes")),
        ("\"true\"", json!("true")),
        ("12", json!(12)),
        ("-12", json!(-12)),
        ("0755", json!(493)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("1_000", json!(1000)),
        ("1.5", json!(1.5)),
        ("1.0", json!(1)),
        ("1e3", json!(1000)),
        ("18446744073709551615", json!(18446744073709551615u64)),
        ("~", json!(null)),
        ("null", json!(null)),
        ("", json!(null)),
        ("\"\"", json!("")),
        ("2024-01-02T03:04:05Z", json!("2024-01-02T03:04:05Z")),
        ("2024-01-02", json!("2024-01-02")),
        ("12:30:45", json!("12:30:45")),
        ("1.2.3", json!("1.2.3")),
        ("100m", json!("100m")),
        ("inf", json!("inf")),
        ("nan", json!("nan")),
        ("!!str 12", json!("12")),
        ("!custom text", json!("text")),
        ("!!int \"12\"", json!(12)),
        ("!!float 2", json!(2)),
        ("tRue", json!("tRue")),
        ("08", json!(8)),
        ("-0x10", json!(-16)),
        ("+5", json!(5)),
        ("0x", json!("0x")),
        ("--1", json!("--1")),
        ("1-2", json!("1-2")),
        (".5", json!(0.5)),
        (".", json!(".")),
        ("1e", json!("1e")),
        ("1e999", json!("1e999")),
        ("-9223372036854775808", json!(i64::MIN)),
        ("123456789012345678901234567890", json!(123456789012345678901234567890f64)),
        ("|\n  a\n  b\n", json!("a\nb\n")),
        (">-\n  a\n  b\n", json!("a b")),
    ] {
        assert_eq!(yaml_value(&format!("k: {text}")), json!({"k": value}), "{text}");
    }
}

#[test]
fn yaml_keys_become_strings() {
    let decoded = yaml("1: a\ntrue: b\nyes: c\n1.5: d\n0x10: e\nx: f\n");
    assert_eq!(
        Value::Object(decoded.object),
        json!({"1": "a", "true": "c", "1.5": "d", "16": "e", "x": "f"})
    );
    assert_eq!(decoded.duplicates, ["true"]);
    for text in ["~: a", "[1]: a", "{a: b}: c", "? \n: a"] {
        assert!(decode_yaml(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn yaml_duplicates_are_found() {
    let decoded = yaml("spec:\n  a:\n  - b: 1\n    b: 2\n  - b: 3\n  a: 4\n");
    assert_eq!(decoded.duplicates, ["spec.a[0].b", "spec.a"]);
    assert_eq!(Value::Object(decoded.object), json!({"spec": {"a": 4}}));
}

#[test]
fn yaml_is_one_mapping() {
    assert_eq!(yaml_value("---\na: 1\n...\n"), json!({"a": 1}));
    assert_eq!(yaml_value("# comment\na: 1 # more\n"), json!({"a": 1}));
    assert_eq!(yaml_value("\u{feff}a: 1\n"), json!({"a": 1}));
    for text in
        ["", "# nothing", "a", "- a", "12", "~", "a: 1\n---\nb: 2\n", "a: 1\n---\n", "a: [", "a: b: c"]
    {
        assert!(decode_yaml(text.as_bytes()).is_err(), "{text:?}");
    }
    assert!(decode_yaml(b"a: \xff").is_err());
    assert!(decode_yaml(b"a: .inf").is_err());
    assert!(decode_yaml(b"a: !!binary aGVsbG8=").is_err());
    assert!(decode_yaml(b"a: !!int x").is_err());
    let message = decode_yaml(b"a: 1\nb: [1,\n").map_err(|e| e.to_string()).expect_err("broken");
    assert!(message.starts_with("error converting YAML to JSON: yaml: line 2: "), "{message}");
    let message = decode_yaml(b"a: 1\n[b]: 1\n").map_err(|e| e.to_string()).expect_err("broken");
    let says = "error converting YAML to JSON: yaml: line 2: a list or a mapping cannot be a key";
    assert_eq!(message, says);
}

#[test]
fn yaml_aliases_are_expanded() {
    assert_eq!(
        yaml_value("a: &x {b: 1, c: 2}\nd: *x\ne:\n  <<: *x\n  c: 3\n"),
        json!({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 2}, "e": {"b": 1, "c": 3}})
    );
    assert_eq!(yaml("a: &x {b: 1}\ne:\n  b: 2\n  <<: *x\n").duplicates, [""; 0]);
    let uses: String = (0..500).map(|n| format!("k{n}: *x\n")).collect();
    assert_eq!(yaml(&format!("a: &x {{b: 1}}\n{uses}")).object.len(), 501);
}

#[test]
fn yaml_bombs_do_not_go_off() {
    let mut laughs = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol,lol]\n".to_owned();
    for n in 1..10 {
        let line = vec![format!("*a{}", n - 1); 10].join(",");
        laughs.push_str(&format!("a{n}: &a{n} [{line}]\n"));
    }
    let long = format!("a: &x {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*x"; 1000].join(","));
    let mut merges = "a0: &a0 {k: 1}\n".to_owned();
    for n in 1..30 {
        let m = n - 1;
        merges.push_str(&format!("a{n}: &a{n}\n  x{n}: *a{m}\n  y{n}: *a{m}\n  <<: [*a{m}, *a{m}]\n"));
    }
    let mut nested = format!("a0: &a0 {}{}\n", "[".repeat(100), "]".repeat(100));
    for n in 1..100 {
        nested.push_str(&format!("a{n}: &a{n} [*a{}]\n", n - 1));
    }
    let anchors: String = (0..120).map(|n| format!("{}k: &x{n}\n", " ".repeat(n))).collect();
    let anchored = format!("{anchors}{}{}", " ".repeat(120), "x".repeat(1 << 20));
    let aliasing = "document contains excessive aliasing";
    for (bomb, says) in [
        (laughs.as_str(), aliasing),
        (&long, aliasing),
        (&merges, aliasing),
        (&anchored, aliasing),
        (&nested, "exceeded max depth of 127"),
        ("a: &x [*x]\n", "an anchor's value contains itself"),
    ] {
        let message = decode_yaml(bomb.as_bytes()).map_err(|e| e.to_string()).expect_err("a bomb");
        assert!(message.ends_with(says), "{message}");
    }
}

/// A sequence of numbers that looks random and is the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

#[test]
fn broken_bytes_never_panic() {
    let block = "apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: \"w\\u00e9b\"\n  labels: {a: 'b', <<: *m}\nspec:\n- |2\n   x\n- ? [q]\n  : *m\n- !!int 0x1\n";
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let start = Instant::now();
    for seed in [POD, block] {
        for end in 0..seed.len() {
            let _ = (decode_json(&seed.as_bytes()[..end]), decode_yaml(&seed.as_bytes()[..end]));
        }
        while start.elapsed() < Duration::from_millis(if seed == POD { 300 } else { 600 }) {
            let mut bytes = seed.as_bytes().to_vec();
            for _ in 0..=dice.roll(4) {
                let at = dice.roll(bytes.len());
                match dice.roll(4) {
                    0 => bytes[at] = dice.roll(256) as u8,
                    1 => bytes[at] = b"{}[],:\"\\&*!|>-?#'%@`\n \t0e.<~"[dice.roll(28)],
                    2 => drop(bytes.remove(at)),
                    _ => {
                        let to = dice.roll(bytes.len());
                        let piece = bytes[at.min(to)..at.max(to)].to_vec();
                        bytes.splice(at..at, piece.into_iter().take(40));
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let _ = (decode_json(&bytes), decode_yaml(&bytes));
        }
    }
}
