//! Whatever is printed says the same, however it is cut into pieces.

use serde_json::{Value, json};
use windlass_machinery::decode::decode_yaml;

use super::*;

fn print(style: Style, json: &str, piece: usize) -> String {
    let (mut printer, mut out) = (Printer::new(style), vec![]);
    json.as_bytes().chunks(piece).for_each(|piece| printer.push(piece, &mut out));
    printer.end(&mut out);
    String::from_utf8(out).expect("text")
}

/// What YAML says, as the server itself reads it.
fn read(yaml: &str) -> Value {
    let decoded = decode_yaml(yaml.as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {yaml}"));
    Value::Object(decoded.object)
}

/// Texts that mean something else in YAML when nobody takes care.
const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "a b",
    "a ",
    "-",
    "- a",
    "a: b",
    "a:",
    "a #b",
    "#",
    "yes",
    "No",
    "TRUE",
    "null",
    "~",
    "1",
    "1.5",
    "0x1f",
    "1e3",
    "12:30",
    "2024-01-01T00:00:00Z",
    "=",
    "<<",
    "*a",
    "&a",
    "!a",
    "%a",
    "@a",
    "`a",
    "[",
    "{",
    "}",
    "a,b",
    "'",
    "\"",
    "\\",
    "\t",
    "a\tb",
    "ü",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "\u{1f600}",
    "\u{1}",
    "a\nb",
    "a\nb\n",
    "a\n\nb",
    "a\nb\n\n",
    "\na",
    " a\nb",
    "a\n b\n",
    "a\r\nb",
    "---",
    "...",
    "nginx:1.25",
    "/etc/passwd",
    ".inf",
    ".nan",
    "NaN",
    "\n",
    "a\n# b",
    "a\n- b: c",
    "a\n---\nb",
];

#[test]
fn indented_json_is_what_go_makes_of_it() {
    let value = json!({"a": [], "b": {}, "c": [1, {"d": "x\"y\\", "e": null}], "f": true});
    let expected = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x\\\"y\\\\\",\n      \"e\": null\n    }\n  ],\n  \"f\": true\n}";
    for piece in [1, 3, 1000] {
        assert_eq!(print(Style::Indented, &value.to_string(), piece), expected);
    }
}

#[test]
fn yaml_is_laid_out_as_people_know_it() {
    let json =
        r#"{"kind":"List","items":[{"a":1,"b":["x",[],{}],"c":{"d":"10"}},[[1],[2]]],"text":"one\ntwo\n"}"#;
    let expected = "kind: List\nitems:\n- a: 1\n  b:\n  - x\n  - []\n  - {}\n  c:\n    d: \"10\"\n- - - 1\n  - - 2\ntext: |\n  one\n  two\n";
    assert_eq!(print(Style::Yaml, json, 7), expected);
}

#[test]
fn yaml_says_the_same_as_json() {
    let long = "k".repeat(2000);
    let mut all = vec![
        json!({}),
        json!({"a": {}}),
        json!({"n": [1e300, -1.5e-7, 0, -3, 1.25, 18446744073709551615_u64]}),
    ];
    for text in TEXTS {
        all.push(json!({"v": text, "l": [text, [text]], "m": {(*text).to_owned(): {(*text).to_owned(): text}}, "z": 1}));
    }
    all.push(json!({long.clone(): {"a": 1}, "b": {long.clone(): [1, {"c": long}]}}));
    for value in all {
        for piece in [1, 5, 10_000] {
            let printed = print(Style::Yaml, &value.to_string(), piece);
            assert_eq!(read(&printed), value, "{printed}");
        }
    }
}

#[test]
fn any_value_can_be_printed_and_read_again() {
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..500 {
        let value = json!({"root": random(&mut rng, 0)});
        let json = value.to_string();
        let piece = rng.usize(1..20);
        let indented = print(Style::Indented, &json, piece);
        assert_eq!(indented, serde_json::to_string_pretty(&value).expect("JSON"));
        let printed = print(Style::Yaml, &json, piece);
        assert_eq!(read(&printed), value, "{printed}");
    }
}

fn random(rng: &mut fastrand::Rng, depth: usize) -> Value {
    let text = |rng: &mut fastrand::Rng| TEXTS[rng.usize(..TEXTS.len())].to_owned();
    match rng.u8(0..if depth > 5 { 4 } else { 8 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 => rng.i32(..).into(),
        3 => text(rng).into(),
        4 | 5 => (0..rng.usize(0..4)).map(|_| random(rng, depth + 1)).collect(),
        _ => (0..rng.usize(0..4)).map(|_| (text(rng), random(rng, depth + 1))).collect(),
    }
}

#[test]
fn people_are_known_by_what_they_look_through() {
    let of = |agent: &str, accept: &str, query: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, agent.parse().expect("a value"));
        headers.insert(header::ACCEPT, accept.parse().expect("a value"));
        Style::of(&headers, &Query::parse(Some(query)))
    };
    let (json, yaml) = ("application/json", "application/yaml");
    for (agent, accept, query, style) in [
        ("kubectl/v1", json, "", None),
        ("kubectl/v1", json, "pretty=true", Some(Style::Indented)),
        ("kubectl/v1", json, "pretty=1", Some(Style::Indented)),
        ("kubectl/v1", json, "pretty=0", None),
        ("kubectl/v1", json, "pretty=what", None),
        ("kubectl/v1", "application/json;pretty=1", "", Some(Style::Indented)),
        ("curl/8", "*/*", "", Some(Style::Indented)),
        ("curl/8", "*/*", "pretty=false", None),
        ("curl/8", "*/*", "pretty", Some(Style::Indented)),
        ("Wget/1", "*/*", "", Some(Style::Indented)),
        ("Mozilla/5.0 (X11)", "text/html, */*;q=0.8", "", Some(Style::Indented)),
        ("Mozilla/4.0", "*/*", "", None),
        ("kubectl/v1", yaml, "", Some(Style::Yaml)),
        ("kubectl/v1", "application/json;q=0.5, application/yaml", "", Some(Style::Yaml)),
        ("kubectl/v1", "application/yaml;q=0.5, application/json", "", None),
        ("kubectl/v1", "*/*, application/yaml", "", Some(Style::Yaml)),
        ("kubectl/v1", "application/yaml;as=Table;g=meta.k8s.io;v=v1", "", Some(Style::Yaml)),
    ] {
        assert_eq!(of(agent, accept, query), style, "{agent} {accept} {query}");
    }
}
