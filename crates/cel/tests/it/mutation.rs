//! Objects and patches that expressions make, and variables that are expressions.

use serde_json::json;
use windlass_cel::{Budget, Env, Type, Variables};

use crate::support::{compiled, refused, show};

fn env() -> Env {
    Env::new().variable("object", Type::Dyn).with_mutations()
}

#[test]
fn objects_are_made_field_by_field() {
    let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2}});
    for (source, expected) in [
        ("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", json!({"spec": {"replicas": 3}})),
        (
            "Object{metadata: Object.metadata{labels: {'a': 'b'}}}",
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
        (
            "Object{spec: Object.spec{?x: object.spec.?nope, ?y: object.spec.?replicas}}",
            json!({"spec": {"y": 2}}),
        ),
        (
            "Object{spec: Object.spec{list: [Object.spec.list{name: 'a'}], none: null}}",
            json!({"spec": {"list": [{"name": "a"}], "none": null}}),
        ),
        ("Object{}", json!({})),
        ("Object{x__dash__y: 1, __namespace__: 'n'}", json!({"x-y": 1, "namespace": "n"})),
        ("[Object{x__dash__y: 1}.x__dash__y]", json!([1])),
        (
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'x'}]",
            json!([{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "x"}]),
        ),
        (
            "[JSONPatch{op: 'move', from: '/a', path: '/b'}] + [JSONPatch{op: 'remove', path: '/c'}]",
            json!([{"op": "move", "from": "/a", "path": "/b"}, {"op": "remove", "path": "/c"}]),
        ),
        ("JSONPatch{op: 'add', path: '/x', value: {'a': [1, 2]}}.value", json!({"a": [1, 2]})),
    ] {
        let program = compiled(&env(), source);
        let value = program
            .eval(&Variables::new().json("object", &object), &mut Budget::default())
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(value.to_json().expect("JSON"), expected, "{source}");
    }
}

#[test]
fn objects_have_types_by_name() {
    let env = env();
    for (source, ty) in [
        ("Object{}", "Object"),
        ("Object.spec{}", "Object.spec"),
        ("JSONPatch{op: 'add'}", "JSONPatch"),
        ("[JSONPatch{op: 'add'}]", "list(JSONPatch)"),
        ("JSONPatch{op: 'add'}.op", "string"),
    ] {
        assert_eq!(compiled(&env, source).result().to_string(), ty, "{source}");
    }
    refused(
        &env,
        &[
            ("JSONPatch{op: 1}", "1:15: expected type 'string' but found 'int'"),
            ("JSONPatch{nope: 1}", "1:11: undefined field 'nope'"),
            ("Objekt{}", "1:7: undeclared reference to 'Objekt'"),
            ("Object{a: 1, a: 2}", "1:7: field 'a' is set twice"),
            ("Object{a}", "1:9: Syntax error"),
        ],
    );
    let value = compiled(&env, "Object{spec: Object.spec{a: 1}} == Object{spec: Object.spec{a: 1}}");
    let value = value.eval(&Variables::new(), &mut Budget::default()).expect("a value");
    assert_eq!(show(&value), "true");
}

#[test]
fn objects_at_the_wrong_place_are_named() {
    let env = env();
    for (source, expected) in [
        ("Object{spec: Object.spec{a: Object.spec.a{}}}", vec![]),
        ("Object{list: [Object.list{}], map: {'k': Object.map{}}}", vec![]),
        (
            "Object{spec: Object.metadata{}}",
            vec![
                "unexpected type name \"Object.metadata\", expected \"Object.spec\", which matches field name path from root Object type",
            ],
        ),
        (
            "Object{list: [Object.spec{}]}",
            vec![
                "unexpected type name \"Object.spec\", expected \"Object.list\", which matches field name path from root Object type",
            ],
        ),
    ] {
        let program = compiled(&env, source);
        let value = program.eval(&Variables::new(), &mut Budget::default()).expect("a value");
        let windlass_cel::Value::Object(object) = value else { panic!("{source} makes an object") };
        assert_eq!(object.misnamed(), expected, "{source}");
    }
}

#[test]
fn variables_that_are_expressions_are_run_once_and_only_when_read() {
    let object = json!({"items": [1, 2, 3]});
    let base = Env::new().variable("object", Type::Dyn);
    let sum = compiled(&base, "object.items.map(x, x * 2).sum()");
    let bad = compiled(&base, "object.nope");
    let fields = |names: &[(&'static str, Type)]| {
        let fields = names.iter().map(|(name, ty)| (*name, ty.clone().into()));
        Type::structure("variables", fields)
    };
    let env = base.clone().variable("variables", fields(&[("sum", Type::Dyn)]));
    let more = compiled(&env, "variables.sum + 1");
    let env =
        base.variable("variables", fields(&[("sum", Type::Dyn), ("bad", Type::Dyn), ("more", Type::Dyn)]));
    let programs = [
        "variables.more == 13 && variables.sum == 12",
        "variables.more == 13 && variables.sum == 12",
        "true || variables.bad == 1",
        "has(variables.bad)",
        "variables.bad == 1",
        "variables == variables",
    ]
    .map(|source| compiled(&env, source));
    let variables = Variables::new()
        .json("object", &object)
        .defer("variables", "sum", &sum)
        .defer("variables", "bad", &bad)
        .defer("variables", "more", &more);
    let outcomes = programs.each_ref().map(|program| {
        let mut budget = Budget::default();
        let outcome = program.eval(&variables, &mut budget);
        (outcome.map_or_else(|error| error.to_string(), |value| show(&value)), budget.spent())
    });
    let said: Vec<&str> = outcomes.iter().map(|(said, _)| &**said).collect();
    let only = "variables can only be used by its fields";
    assert_eq!(said, ["true", "true", "true", "true", "no such key: nope", only]);
    assert!(outcomes[1].1 < outcomes[0].1, "{outcomes:?}");
}

#[test]
fn variables_that_depend_on_themselves_fail() {
    let env = Env::new().variable("variables", Type::structure("v", [("a", Type::Dyn.into())]));
    let itself = compiled(&env, "variables.a + 1");
    let program = compiled(&env, "variables.a == 1");
    let variables = Variables::new().defer("variables", "a", &itself);
    let error = program.eval(&variables, &mut Budget::default()).expect_err("a circle");
    assert_eq!(error.to_string(), "a depends on itself");
}
