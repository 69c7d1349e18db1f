//! The words that clients of apply know, as a real kube-apiserver gives them.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::schema::{Definition, Merge, Presence, Strategic};

fn field(name: &str, node: Node, ownership: Ownership) -> Field {
    let merge = Merge { ownership, strategic: Strategic::Replace };
    Field { name: name.into(), node, required: false, merge, presence: Presence::Optional }
}

fn text() -> Node {
    Node::String(Format::Plain)
}

fn schema() -> Node {
    let plain = |name: &str, node| field(name, node, Ownership::Plain);
    let entry = || Node::Object(vec![plain("name", text()), plain("port", Node::Integer { narrow: true })]);
    let open = Definition::named("").open();
    open.define(Node::Object(vec![plain("a", text())]));
    Node::Object(vec![
        plain("any", Node::Any),
        plain("flag", Node::Bool),
        field("keyed", Node::List(Box::new(entry())), Ownership::Keyed(["name".into()].into())),
        plain("list", Node::List(Box::new(text()))),
        plain("map", Node::Map(Box::new(text()))),
        plain("number", Node::Number),
        plain("open", Node::Named(Arc::new(open))),
        plain("port", Node::IntOrString),
        field("set", Node::List(Box::new(text())), Ownership::Set),
        plain("size", Node::String(Format::Quantity)),
        plain("text", text()),
    ])
}

#[test]
fn a_configuration_is_told_what_does_not_merge() {
    let cases = [
        (json!({"text": null, "list": null, "map": null, "flag": null, "number": null, "keyed": null}), ""),
        (json!({"any": {"a": [1, {}]}, "port": {"a": 1}, "open": {"b": 1, "a": "x"}, "size": 1}), ""),
        (json!({"odd": 1}), ".odd: field not declared in schema"),
        (json!({"odd": 1, "other": 2}), ".odd: field not declared in schema"),
        (json!({"number": "3"}), ".number: expected numeric (int or float), got string"),
        (json!({"number": true}), ".number: expected numeric (int or float), got bool"),
        (json!({"number": [1]}), ".number: expected numeric (int or float), got []interface {}"),
        (json!({"number": {}}), ".number: expected numeric (int or float), got map[string]interface {}"),
        (json!({"flag": "x"}), ".flag: expected boolean, got &{x}"),
        (
            json!({"flag": {"b": [1.5, null], "a": true}}),
            ".flag: expected boolean, got &{map[a:true b:[1.5 <nil>]]}",
        ),
        (json!({"map": [1, "a"]}), ".map: expected map, got &{[1 a]}"),
        (json!({"map": {"a": 1}}), ".map.a: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"list": "x"}), ".list: expected list, got &{x}"),
        (json!({"list": ["a", 2]}), ".list[1]: expected string, got &value.valueUnstructured{Value:2}"),
        (json!({"size": {"a": 1}}), ".size: expected any scalar, got &{map[a:1]}"),
        (json!({"text": 1000000}), ".text: expected string, got &value.valueUnstructured{Value:1000000}"),
        (json!({"text": 0.00001}), ".text: expected string, got &value.valueUnstructured{Value:1e-05}"),
        (
            json!({"text": 1234567.5}),
            ".text: expected string, got &value.valueUnstructured{Value:1.2345675e+06}",
        ),
        (
            json!({"text": {"a": [1, null, true, "x"]}}),
            ".text: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"a\":[]interface {}{1, interface {}(nil), true, \"x\"}}}",
        ),
        (json!({"open": {"a": 1}}), ".open.a: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"set": ["a", "a"]}), ".set: duplicate entries for key [=\"a\"]"),
        (json!({"set": [1]}), ".set[=1]: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"keyed": [{"name": "a", "odd": 1}]}), ".keyed[name=\"a\"].odd: field not declared in schema"),
        (json!({"keyed": [{"name": "a"}, {"name": "a"}]}), ".keyed: duplicate entries for key [name=\"a\"]"),
        (
            json!({"keyed": [null]}),
            ".keyed: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"flag": 1, "number": "a", "odd": 1}),
            ".flag: expected boolean, got &{1}|.number: expected numeric (int or float), got string|.odd: field not declared in schema",
        ),
    ];
    for (config, said) in cases {
        let config = config.as_object().expect("an object");
        assert_eq!(faults(config, &schema()).join("|"), said, "{config:?}");
    }
}

#[test]
fn what_is_told_is_bounded() {
    let many: Object = (0..1000).map(|n| (format!("k{n}"), json!(n))).collect();
    let config = Object::from_iter([("map".to_owned(), Value::Object(many))]);
    assert_eq!(faults(&config, &schema()).len(), MAX_FAULTS);
    let config = Object::from_iter([("text".to_owned(), json!([vec!["x".repeat(1000); 1000]]))]);
    assert!(faults(&config, &schema())[0].len() < 2 * MAX_SHOWN);
}
