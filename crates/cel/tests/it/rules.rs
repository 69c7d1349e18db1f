//! Rules of custom resources.

use serde_json::{Value, json};
use windlass_cel::{Budget, rules::Rules};
use windlass_machinery::field::Errors;

#[test]
fn what_is_compiled_can_be_shared_among_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Rules>();
    shared::<windlass_cel::Program>();
    shared::<windlass_cel::Env>();
    sent::<windlass_cel::Variables<'_>>();
}

/// A schema of a resource with a `spec` of these properties and rules.
fn spec(properties: Value, rules: Value) -> Value {
    json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties, "x-kubernetes-validations": rules}},
    })
}

#[track_caller]
fn compile(schema: &Value) -> Rules {
    match Rules::compile(schema) {
        Ok(Some(rules)) => rules,
        Ok(None) => panic!("there are rules"),
        Err(errors) => panic!("{}", errors[0]),
    }
}

fn check(rules: &Rules, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = Errors::new();
    rules.check(new, old, &mut Budget::default(), &mut errors);
    if let Some(map) = new.as_object() {
        let (mut budget, mut same) = (Budget::default(), Errors::new());
        rules.check_object(map, old.and_then(Value::as_object), &mut budget, &mut same);
        assert_eq!(errors.list(), same.list(), "as a map, an object is no different");
    }
    errors.list().iter().map(ToString::to_string).collect()
}

fn refusals(schema: &Value) -> Vec<String> {
    match Rules::compile(schema) {
        Ok(_) => vec![],
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_schema_without_rules_has_none() {
    assert!(Rules::compile(&json!({"type": "object"})).is_ok_and(|rules| rules.is_none()));
    assert!(Rules::compile(&spec(json!({}), json!([]))).is_ok_and(|rules| rules.is_none()));
}

#[test]
fn a_rule_that_fails_says_so_at_its_place() {
    let schema = spec(
        json!({"replicas": {"type": "integer"}, "max": {"type": "integer"}}),
        json!([{"rule": "self.replicas <= self.max"}, {"rule": "self.max < 100", "message": " too many "}]),
    );
    let rules = compile(&schema);
    let fine = json!({"spec": {"replicas": 1, "max": 2}});
    assert!(check(&rules, &fine, None).is_empty());
    assert_eq!(
        check(&rules, &json!({"spec": {"replicas": 300, "max": 200}}), None),
        ["spec: Invalid value: failed rule: self.replicas <= self.max", "spec: Invalid value: too many",]
    );
    // Nothing to check where nothing is.
    assert!(check(&rules, &json!({}), None).is_empty());
    assert!(check(&rules, &json!({"spec": null}), None).is_empty());
    assert_eq!(
        check(&rules, &json!({"spec": {"max": 1}}), None),
        ["spec: Invalid value: \"object\": no such key: replicas evaluating rule: self.replicas <= self.max"]
    );
}

#[test]
fn rules_stand_at_every_depth() {
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a')"}],
        "properties": {
            "list": {
                "type": "array", "maxItems": 10,
                "items": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": "self != 'bad'"}]},
            },
            "map": {
                "type": "object", "maxProperties": 10,
                "additionalProperties": {
                    "type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}},
                },
            },
            "a.b": {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == 'x'"}]},
        },
    });
    let rules = compile(&schema);
    let object = json!({
        "metadata": {"name": "b"}, "list": ["ok", "bad"], "map": {"k": {"n": 0}, "l": {"n": 1}}, "a.b": "y",
    });
    let mut said = check(&rules, &object, None);
    said.sort();
    assert_eq!(
        said,
        [
            "<nil>: Invalid value: failed rule: self.metadata.name.startsWith('a')",
            "a.b: Invalid value: \"y\": failed rule: self == 'x'",
            "list[1]: Invalid value: \"bad\": failed rule: self != 'bad'",
            "map[k].n: Invalid value: 0: failed rule: self > 0",
        ]
    );
}

#[test]
fn reasons_fields_and_messages_are_as_the_rule_says() {
    let properties = json!({
        "a": {"type": "string"}, "n": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    });
    let schema = spec(
        properties,
        json!([
            {"rule": "has(self.a)", "reason": "FieldValueRequired", "fieldPath": ".a", "message": "needed"},
            {"rule": "self.n < 1", "reason": "FieldValueForbidden", "fieldPath": ".n"},
            {"rule": "self.n < 2", "reason": "FieldValueDuplicate", "fieldPath": ".labels['x.y']"},
            {"rule": "self.n < 3", "reason": "FieldValueInvalid", "messageExpression": "'n is ' + string(self.n)"},
            {"rule": "self.n < 4", "messageExpression": "self.a", "message": "fallback"},
            {"rule": "self.n < 4", "messageExpression": "'a\\nb'"},
        ]),
    );
    let rules = compile(&schema);
    assert_eq!(
        check(&rules, &json!({"spec": {"n": 5}}), None),
        [
            "spec.a: Required value: needed",
            "spec.n: Forbidden: failed rule: self.n < 1",
            "spec.labels[x.y]: Duplicate value: failed rule: self.n < 2",
            "spec: Invalid value: n is 5",
            "spec: Invalid value: fallback",
            "spec: Invalid value: failed rule: self.n < 4",
        ]
    );
}

#[test]
fn rules_about_a_change_run_only_when_there_was_something() {
    let schema = spec(
        json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]}}),
        json!([
            {"rule": "oldSelf.hasValue() || self.a == 'first'", "optionalOldSelf": true, "message": "created wrong"},
            {"rule": "!has(oldSelf.a) || has(self.a)", "message": "cannot be unset"},
        ]),
    );
    let rules = compile(&schema);
    let object = |a: &str| json!({"spec": {"a": a}});
    assert!(check(&rules, &object("first"), None).is_empty());
    assert_eq!(check(&rules, &object("x"), None), ["spec: Invalid value: created wrong"]);
    assert!(check(&rules, &object("x"), Some(&object("x"))).is_empty());
    assert_eq!(check(&rules, &object("y"), Some(&object("x"))), ["spec.a: Invalid value: \"y\": immutable"]);
    // Nothing is forgiven to a rule about the change, not even no change.
    let strict = spec(
        json!({"a": {"type": "string"}}),
        json!([{"rule": "self.a != oldSelf.a", "message": "must change"}]),
    );
    assert_eq!(
        check(&compile(&strict), &object("x"), Some(&object("x"))),
        ["spec: Invalid value: must change"]
    );
    // Set for the first time, there is nothing to compare with.
    assert!(check(&rules, &object("y"), Some(&json!({"spec": {}}))).is_empty());
    assert_eq!(
        check(&rules, &json!({"spec": {}}), Some(&object("x"))),
        ["spec: Invalid value: cannot be unset"]
    );
}

#[test]
fn a_message_may_tell_what_was_there_before() {
    let schema = spec(
        json!({"n": {"type": "integer"}}),
        json!([{"rule": "self.n < 5", "messageExpression": "'was %d'.format([oldSelf.n])", "message": "too large"}]),
    );
    let rules = compile(&schema);
    let object = |n: i64| json!({"spec": {"n": n}});
    assert_eq!(check(&rules, &object(9), Some(&object(8))), ["spec: Invalid value: was 8"]);
    assert_eq!(check(&rules, &object(9), None), ["spec: Invalid value: too large"]);
}

#[test]
fn the_version_of_an_object_is_never_unchanged() {
    let schema = json!({
        "type": "object",
        "properties": {"kind": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'A'"}]}},
    });
    let rules = compile(&schema);
    let object = json!({"kind": "B"});
    assert_eq!(check(&rules, &object, Some(&object)).len(), 1);
}

#[test]
fn elements_of_keyed_lists_are_found_again_by_their_keys() {
    let schema = json!({
        "type": "object",
        "properties": {
            "ports": {
                "type": "array", "maxItems": 10,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"],
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"}, "protocol": {"type": "string"},
                        "port": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
                    },
                },
            },
        },
    });
    let rules = compile(&schema);
    let port =
        |name: &str, protocol: &str, port: u32| json!({"name": name, "protocol": protocol, "port": port});
    let old = json!({"ports": [port("a", "TCP", 5), port("a", "UDP", 6), port("b", "TCP", 7)]});
    let turned = json!({"ports": [port("b", "TCP", 7), port("a", "UDP", 6), port("a", "TCP", 5)]});
    assert!(check(&rules, &turned, Some(&old)).is_empty());
    let new = json!({"ports": [port("c", "TCP", 1), port("a", "UDP", 5), port("a", "TCP", 9)]});
    assert_eq!(
        check(&rules, &new, Some(&old)),
        ["ports[1].port: Invalid value: 5: failed rule: self >= oldSelf"]
    );
}

#[test]
fn what_was_wrong_and_is_untouched_may_stay() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
            "spec": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.a > 0"}],
            },
            "list": {
                "type": "array", "maxItems": 5,
                "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
            },
            "keyed": {
                "type": "array", "maxItems": 5,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {
                    "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.v > 0"}],
                },
            },
        },
    });
    let rules = compile(&schema);
    let old = json!({"n": 0, "spec": {"a": 0, "b": 1}, "list": [0, 1], "keyed": [{"k": "a", "v": 0}, {"k": "b", "v": 1}]});
    assert_eq!(check(&rules, &old, None).len(), 4);
    assert!(check(&rules, &old, Some(&old)).is_empty());
    let fields = |new: &Value| -> Vec<String> {
        let said = check(&rules, new, Some(&old));
        said.iter().map(|said| said.split(':').next().unwrap_or_default().to_owned()).collect()
    };
    // A change beside it does not matter, a change around it does.
    let with = |path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(path).expect("a place") = value;
        new
    };
    assert_eq!(fields(&with("/n", json!(-1))), ["n"]);
    assert_eq!(fields(&with("/spec/b", json!(2))), ["spec"]);
    // Elements of a plain list cannot be found again, so the list as a whole must be the same.
    assert_eq!(fields(&with("/list", json!([0, 2]))), ["list[0]"]);
    assert_eq!(
        fields(&with("/keyed", json!([{"k": "b", "v": 2}, {"k": "a", "v": 0}]))),
        Vec::<String>::new()
    );
    assert_eq!(fields(&with("/keyed/0/v", json!(-1))), ["keyed[0]"]);
}

#[test]
fn the_budget_of_an_object_is_shared_by_its_rules() {
    let schema = json!({
        "type": "object",
        "properties": {
            "list": {
                "type": "array", "maxItems": 100, "items": {
                    "type": "string", "maxLength": 100,
                    "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')", "message": "letters only"}],
                },
            },
        },
    });
    let rules = compile(&schema);
    let object = json!({"list": vec!["abc"; 100]});
    let mut errors = Errors::new();
    let mut budget = Budget::default();
    rules.check(&object, None, &mut budget, &mut errors);
    assert!(errors.is_empty());
    let cost = budget.spent();
    let mut budget = Budget::new(1000, cost / 2);
    rules.check(&object, None, &mut budget, &mut errors);
    let said: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("validation failed due to running out of cost budget"), "{said:?}");
    // One expression that costs too much stops everything, too.
    let mut errors = Errors::new();
    rules.check(&object, None, &mut Budget::new(2, 1000), &mut errors);
    let said = errors.list()[0].to_string();
    assert_eq!(errors.list().len(), 1);
    assert!(
        said.contains(
            "no further validation rules will be run due to call cost exceeds limit for rule: letters only"
        ),
        "{said}"
    );
}

#[test]
fn dynamic_values_that_fit_no_function_are_told_as_kubernetes_does() {
    let schema =
        spec(json!({"target": {"x-kubernetes-int-or-string": true}}), json!([{"rule": "self.target > 5"}]));
    let rules = compile(&schema);
    assert!(check(&rules, &json!({"spec": {"target": 6}}), None).is_empty());
    assert_eq!(
        check(&rules, &json!({"spec": {"target": "x"}}), None),
        [
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, \
          function or macro signature for rule: self.target > 5"
        ]
    );
}

#[test]
fn rules_that_are_wrong_are_refused_with_their_path() {
    let properties = json!({"a": {"type": "string", "maxLength": 5}, "n": {"type": "integer"}});
    let at = "properties[spec].x-kubernetes-validations[0]";
    for (rule, expected) in [
        (json!({"rule": ""}), "rule: Required value: rule is not specified"),
        (json!({}), "rule: Required value: rule is not specified"),
        (
            json!({"rule": "true", "message": "  "}),
            "message: Invalid value: \"  \": must be non-empty if specified",
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            "message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            json!({"rule": "true &&\n true"}),
            "message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "messageExpression": " "}),
            "messageExpression: Required value: messageExpression must be non-empty if specified",
        ),
        (
            json!({"rule": "true", "reason": "Nope"}),
            "reason: Unsupported value: \"Nope\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \
             \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".nope"}),
            "fieldPath: Invalid value: \".nope\": must be a valid path",
        ),
        (
            json!({"rule": "true", "fieldPath": " "}),
            "fieldPath: Invalid value: \" \": must be non-empty if specified",
        ),
        (
            json!({"rule": "self.n"}),
            "rule: Invalid value: {\"rule\":\"self.n\"}: cel expression must evaluate to a bool",
        ),
        (
            json!({"rule": "self.nope == 1"}),
            "rule: Invalid value: {\"rule\":\"self.nope == 1\"}: compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n \
             | self.nope == 1\n | ....^",
        ),
        (
            json!({"rule": "self.n > 0", "messageExpression": "self.n"}),
            "messageExpression: Invalid value: {\"messageExpression\":\"self.n\",\"rule\":\"self.n > 0\"}: messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "self.n > 0", "messageExpression": "self.q"}),
            "messageExpression: Invalid value: {\"messageExpression\":\"self.q\",\"rule\":\"self.n > 0\"}: messageExpression compilation failed: ERROR",
        ),
        (
            json!({"rule": "self.n > 0", "optionalOldSelf": true}),
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
        (
            json!({"rule": "oldSelf.n > 0", "optionalOldSelf": true}),
            "rule: Invalid value: {\"optionalOldSelf\":true,\"rule\":\"oldSelf.n > 0\"}: compilation failed",
        ),
    ] {
        let said = refusals(&spec(properties.clone(), json!([rule])));
        assert_eq!(said.len(), 1, "{rule}: {said:?}");
        assert!(said[0].starts_with(&format!("{at}.{expected}")), "{rule}: {}", said[0]);
    }
    assert!(refusals(&spec(properties, json!("x")))[0].contains("must be a list of rules"));
}

#[test]
fn a_change_cannot_be_judged_below_a_list_without_keys() {
    let item = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let list = |kind: Value| {
        let list = json!({"type": "array", "maxItems": 5, "items": item, "x-kubernetes-list-type": kind});
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": list}}}})
    };
    for kind in ["atomic", "set"] {
        assert_eq!(
            refusals(&list(json!(kind))),
            [
                "properties[spec].properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": \
              oldSelf cannot be used on the uncorrelatable portion of the schema within properties[spec].properties[l]"
            ]
        );
    }
}

#[test]
fn rules_that_would_cost_too_much_are_refused() {
    let unbounded = json!({
        "type": "object",
        "properties": {
            "list": {
                "type": "array",
                "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self.contains('keyword')"}]},
            },
        },
    });
    let said = refusals(&unbounded);
    let at = "properties[list].items.x-kubernetes-validations[0].rule: Forbidden";
    assert!(
        said[0].starts_with(&format!(
            "{at}: estimated rule cost exceeds budget by factor of more than 100x (try"
        )),
        "{said:?}"
    );
    assert_eq!(
        said[1],
        format!(
            "{at}: contributed to estimated rule & messageExpression cost total exceeding cost limit for entire OpenAPIv3 schema"
        )
    );
    assert!(
        said[2].starts_with(
            ": Forbidden: x-kubernetes-validations estimated rule & messageExpression cost total for entire \
             OpenAPIv3 schema exceeds budget by factor of more than 100x"
        ),
        "{said:?}"
    );
    // With bounds it fits; with wider ones it is told by how much it does not.
    let bounded = |items: u64, length: u64| {
        let text = json!({"type": "string", "maxLength": length});
        let list = json!({
            "type": "array", "maxItems": items, "items": text,
            "x-kubernetes-validations": [{"rule": "self.all(x, self.exists_one(y, x == y))"}],
        });
        json!({"type": "object", "properties": {"list": list}})
    };
    assert!(refusals(&bounded(50, 50)).is_empty());
    let said = refusals(&bounded(700, 50));
    assert!(said[0].contains("estimated rule cost exceeds budget by factor of 1.176420x"), "{said:?}");
    let said = refusals(&bounded(2000, 50));
    assert!(said[0].contains("estimated rule cost exceeds budget by factor of 9.6x"), "{said:?}");
}

#[test]
fn rules_do_not_copy_the_object() {
    // A rule that reads one field of a large object costs what reading the field costs.
    let schema = spec(
        json!({"name": {"type": "string", "maxLength": 10}, "blob": {"type": "array", "items": {"type": "string"}}}),
        json!([{"rule": "self.name == 'a'"}]),
    );
    let rules = compile(&schema);
    let object = json!({"spec": {"name": "a", "blob": vec!["x".repeat(1000); 1000]}});
    let mut budget = Budget::default();
    rules.check(&object, None, &mut budget, &mut Errors::new());
    assert_eq!(budget.spent(), 3);
}
