//! Who owns what after which writes.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{delta::Delta, *};
use crate::schema::{Definition, Field, Format, Key, Merge, Node, Ownership, Presence, Strategic};

pub(crate) fn field(name: &str, node: Node, ownership: Ownership) -> Field {
    let merge = Merge { ownership, strategic: Strategic::Replace };
    Field { name: name.into(), node, required: false, merge, presence: Presence::Optional }
}

fn keyed(keys: &[&str]) -> Ownership {
    let default = |name: &str| (name == "protocol").then(|| json!("TCP"));
    Ownership::Keyed(keys.iter().map(|key| Key { name: (*key).into(), default: default(key) }).collect())
}

pub(crate) fn list(items: Node) -> Node {
    Node::List(Box::new(items))
}

pub(crate) fn text() -> Node {
    Node::String(Format::Plain)
}

pub(crate) fn object(mut fields: Vec<Field>) -> Node {
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    Node::Object(fields)
}

pub(crate) fn schema() -> Node {
    let free = || Node::Map(Box::new(text()));
    let port = object(vec![
        field("containerPort", Node::Integer { narrow: true }, Ownership::Plain),
        field("protocol", text(), Ownership::Plain),
        field("name", text(), Ownership::Plain),
    ]);
    let container = object(vec![
        field("name", text(), Ownership::Plain),
        field("image", text(), Ownership::Plain),
        field("args", list(text()), Ownership::Plain),
        field("ports", list(port), keyed(&["protocol", "containerPort"])),
        field("resources", Node::Any, Ownership::Plain),
    ]);
    let spec = object(vec![
        field("replicas", Node::Integer { narrow: true }, Ownership::Plain),
        field("selector", free(), Ownership::Atomic),
        field("containers", list(container), keyed(&["name"])),
        field("modes", list(text()), Ownership::Set),
        field("strategy", object(vec![field("type", text(), Ownership::Plain)]), Ownership::Plain),
    ]);
    object(vec![
        field("spec", spec, Ownership::Plain),
        field("data", free(), Ownership::Plain),
        field("status", Node::Any, Ownership::Plain),
    ])
}

pub(crate) fn map(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

fn set(value: Value) -> FieldSet {
    FieldSet::from_json(value).unwrap()
}

fn write<'a>(manager: &'a str, time: &'a str) -> Write<'a> {
    Write { manager, operation: Operation::Update, api_version: "v1", subresource: "", time, unowned: None }
}

fn entries(object: &Object) -> Value {
    object["metadata"].get("managedFields").cloned().unwrap_or(Value::Null)
}

/// `new` as written over `old`, which has its entries, by a client that does not send them.
fn written(old: &Object, new: &Value, write: &Write<'_>) -> Object {
    let mut new = map(new);
    track(Some(old), &mut new, &schema(), write);
    new
}

fn created(new: &Value, write: &Write<'_>) -> Object {
    let mut new = map(new);
    track(None, &mut new, &schema(), write);
    new
}

/// What each manager owns.
fn owned(object: &Object, manager: &str) -> Value {
    let list = entries(object);
    let mut found = list.as_array().into_iter().flatten().filter(|entry| entry["manager"] == manager);
    found.next().map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[test]
fn whoever_creates_an_object_owns_all_that_was_written() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "namespace": "b", "uid": "c", "generateName": "g", "creationTimestamp": "t",
            "labels": {"app": "x"}, "finalizers": ["f/g"], "ownerReferences": [{"uid": "u", "name": "n"}],
            "managedFields": [{"manager": "liar"}],
        },
        "spec": {
            "selector": {"app": "x"}, "modes": ["m"], "strategy": {},
            "containers": [{
                "name": "c", "args": ["1"], "resources": {},
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }],
        },
    });
    let object = created(&pod, &write("kubectl", "2026-01-01T00:00:00Z"));
    let fields = json!({
        "f:metadata": {
            "f:generateName": {},
            "f:labels": {".": {}, "f:app": {}},
            "f:finalizers": {".": {}, "v:\"f/g\"": {}},
            "f:ownerReferences": {".": {}, "k:{\"uid\":\"u\"}": {".": {}, "f:name": {}, "f:uid": {}}},
        },
        "f:spec": {
            ".": {},
            "f:selector": {},
            "f:modes": {".": {}, "v:\"m\"": {}},
            "f:strategy": {},
            "f:containers": {
                ".": {},
                "k:{\"name\":\"c\"}": {
                    ".": {}, "f:name": {}, "f:args": {}, "f:resources": {},
                    "f:ports": {
                        ".": {},
                        "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                            ".": {}, "f:containerPort": {}, "f:protocol": {},
                        },
                    },
                },
            },
        },
    });
    let expected = json!([{
        "manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }]);
    assert_eq!(entries(&object), expected);
}

#[test]
fn what_every_object_of_a_built_in_kind_has_is_not_owned() {
    let definition = Arc::new(Definition::named("io.k8s.api.apps.v1.Deployment"));
    let always =
        |name: &str, node| Field { presence: Presence::OmitEmpty, ..field(name, node, Ownership::Plain) };
    let text = || Node::String(Format::Plain);
    let strategy = Node::Object(vec![field("type", text(), Ownership::Plain)]);
    definition.define(Node::Object(vec![
        field("data", Node::Map(Box::new(text())), Ownership::Plain),
        always(
            "spec",
            Node::Object(vec![field("replicas", text(), Ownership::Plain), always("strategy", strategy)]),
        ),
        always("status", Node::Object(vec![])),
    ]));
    let mut new = map(&json!({
        "metadata": {"labels": {}},
        "spec": {"replicas": 1, "strategy": {"type": "x"}},
        "status": {},
        "data": {"a": "1"},
    }));
    track(None, &mut new, &Node::Named(definition), &write("a", "1"));
    let expected = json!({
        "f:metadata": {"f:labels": {}},
        "f:spec": {"f:replicas": {}, "f:strategy": {"f:type": {}}},
        "f:data": {".": {}, "f:a": {}},
    });
    assert_eq!(owned(&new, "a"), expected);
}

#[test]
fn an_applied_object_owns_values_and_entries_but_not_the_maps_around_them() {
    let object = json!({
        "metadata": {"name": "a", "labels": {"app": "x"}, "annotations": {}},
        "spec": {
            "selector": {"a": "b"}, "modes": [], "strategy": {},
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}}}],
        },
    });
    let expected = json!({
        "f:metadata": {"f:labels": {"f:app": {}}, "f:annotations": {}},
        "f:spec": {
            "f:selector": {}, "f:strategy": {},
            "f:containers": {"k:{\"name\":\"c\"}": {
                ".": {}, "f:name": {}, "f:image": {},
                "f:resources": {"f:limits": {".": {}, "f:cpu": {}}},
            }},
        },
    });
    assert_eq!(FieldSet::of(&map(&object), &schema()).into_json(), expected);
}

#[test]
fn a_change_moves_fields_to_who_made_it() {
    let old = created(&json!({"data": {"a": "1", "b": "1", "c": "1"}}), &write("one", "1"));
    let new = written(&old, &json!({"data": {"a": "1", "b": "2", "d": "1"}}), &write("two", "2"));
    assert_eq!(owned(&new, "one"), json!({"f:data": {".": {}, "f:a": {}}}));
    assert_eq!(owned(&new, "two"), json!({"f:data": {"f:b": {}, "f:d": {}}}));
    let gone = written(&new, &json!({"data": {"b": "2"}}), &write("three", "3"));
    assert_eq!(owned(&gone, "one"), json!({"f:data": {}}));
    assert_eq!(owned(&gone, "two"), json!({"f:data": {"f:b": {}}}));
    assert_eq!(owned(&gone, "three"), Value::Null, "who only removes owns nothing");
    let gone = written(&gone, &json!({}), &write("three", "3"));
    assert_eq!(entries(&gone), Value::Null);
}

#[test]
fn a_number_that_is_written_otherwise_is_no_change() {
    let old = created(&json!({"data": {"a": 1.0, "b": [{"x": 2.0}], "c": 1}}), &write("one", "1"));
    let new = written(&old, &json!({"data": {"a": 1, "b": [{"x": 2}], "c": 1.5}}), &write("two", "2"));
    assert_eq!(owned(&new, "one"), json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
    assert_eq!(owned(&new, "two"), json!({"f:data": {"f:c": {}}}));
}

#[test]
fn entries_of_lists_are_owned_one_by_one() {
    let old = json!({"spec": {
        "modes": ["a", "b"], "selector": {"x": "1"},
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
    }});
    let old = created(&old, &write("one", "1"));
    let new = json!({"spec": {
        "modes": ["c", "a"], "selector": {"x": "1", "y": "2"},
        "containers": [{"name": "n"}, {"name": "b", "image": "2"}],
    }});
    let new = written(&old, &new, &write("two", "2"));
    let one = json!({"f:spec": {
        ".": {},
        "f:modes": {".": {}, "v:\"a\"": {}},
        "f:containers": {".": {}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}}},
    }});
    let two = json!({"f:spec": {
        "f:modes": {"v:\"c\"": {}},
        "f:selector": {},
        "f:containers": {
            "k:{\"name\":\"b\"}": {"f:image": {}},
            "k:{\"name\":\"n\"}": {".": {}, "f:name": {}},
        },
    }});
    assert_eq!(owned(&new, "one"), one);
    assert_eq!(owned(&new, "two"), two);
}

#[test]
fn another_order_of_a_merged_list_is_no_change() {
    let old = json!({"spec": {"modes": ["a", "b"], "containers": [{"name": "a"}, {"name": "b"}]}});
    let new = json!({"spec": {"modes": ["b", "a"], "containers": [{"name": "b"}, {"name": "a"}]}});
    let old = created(&old, &write("one", "1"));
    assert_eq!(entries(&written(&old, &new, &write("two", "2"))), entries(&old));
}

#[test]
fn versions_subresources_and_operations_are_entries_of_their_own() {
    let mut object = created(&json!({"data": {"0": "x"}}), &write("m", "0"));
    let base = write("m", "1");
    let writes = [
        Write { api_version: "v2", ..base },
        Write { subresource: "status", ..base },
        Write { operation: Operation::Apply, ..base },
        Write { operation: Operation::Apply, api_version: "v2", ..base },
        base,
    ];
    for (index, write) in writes.iter().enumerate() {
        let mut new = object.clone();
        new["data"][format!("{}", index + 1)] = "x".into();
        track(Some(&object), &mut new, &schema(), write);
        object = new;
    }
    let list = entries(&object);
    let told: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let fields: Vec<&String> = entry["fieldsV1"]["f:data"].as_object().unwrap().keys().collect();
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            format!("{} {} {} {fields:?}", text("operation"), text("apiVersion"), text("subresource"))
        })
        .collect();
    let expected = [
        "Apply v2  [\"f:3\", \"f:4\"]",
        "Update v1  [\".\", \"f:0\", \"f:5\"]",
        "Update v1 status [\"f:2\"]",
        "Update v2  [\"f:1\"]",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_is_not_written_this_way_is_not_owned() {
    let unowned = FieldSet::of_paths(["status", "spec.replicas"]);
    let by = Write { unowned: Some(&unowned), ..write("one", "1") };
    let old = created(&json!({"spec": {"replicas": 1, "modes": ["m"]}, "status": {"a": 1}}), &by);
    assert_eq!(owned(&old, "one"), json!({"f:spec": {".": {}, "f:modes": {".": {}, "v:\"m\"": {}}}}));
    let new = json!({"spec": {"replicas": 2, "modes": ["m"]}, "status": {"a": 2}});
    assert_eq!(entries(&written(&old, &new, &by)), entries(&old));
}

#[test]
fn times_move_only_with_changes() {
    let old = created(&json!({"data": {"a": "1", "b": "1"}}), &write("one", "1"));
    let time = |object: &Object| entries(object)[0]["time"].clone();
    let same = written(
        &old,
        &json!({"data": {"a": "1", "b": "1"}, "metadata": {"generation": 7}}),
        &write("one", "2"),
    );
    assert_eq!(entries(&same), entries(&old));
    let changed = written(&old, &json!({"data": {"a": "2", "b": "1"}}), &write("one", "2"));
    assert_eq!(time(&changed), "2");
    let taken = written(&changed, &json!({"data": {"a": "3", "b": "1"}}), &write("two", "3"));
    assert_eq!(time(&taken), "2", "that another took a field is no change of ours");
}

#[test]
fn clients_may_clear_or_edit_entries_but_not_lose_them_by_accident() {
    let base = json!({"data": {"a": "1"}, "metadata": {}});
    let old = created(&base, &write("one", "1"));
    let sent = |list: Value| {
        let mut new = base.clone();
        new["metadata"]["managedFields"] = list;
        new
    };
    let by = write("two", "2");
    assert_eq!(entries(&written(&old, &sent(json!([{}])), &by)), Value::Null);
    let valid = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}}}]);
    assert_eq!(entries(&written(&old, &sent(valid.clone()), &by)), valid);
    let with = |field: &str, value: Value| {
        let mut list = valid.clone();
        list[0][field] = value;
        list
    };
    let ignored = [
        json!([]),
        json!({}),
        json!("x"),
        json!([1]),
        json!([{}, {}]),
        with("operation", json!("Delete")),
        with("apiVersion", Value::Null),
        with("fieldsType", json!("FieldsV2")),
        with("fieldsV1", json!({"f:a": 1})),
        with("fieldsV1", json!({"k:x": {}})),
        with("manager", json!("x".repeat(129))),
        with("manager", json!(1)),
    ];
    for list in ignored {
        assert_eq!(entries(&written(&old, &sent(list.clone()), &by)), entries(&old), "{list}");
    }
    let status = Write { subresource: "status", ..by };
    assert_eq!(entries(&written(&old, &sent(json!([{}])), &status)), entries(&old));
    let mut cleared = sent(json!([{}]));
    cleared["data"]["b"] = "2".into();
    let cleared = written(&old, &cleared, &by);
    assert_eq!(entries(&cleared), Value::Null);
    let changed = written(&cleared, &json!({"data": {"a": "9"}}), &by);
    assert_eq!(entries(&changed), Value::Null, "it stays without until it is applied to");
}

#[test]
fn the_oldest_of_too_many_updaters_are_folded() {
    let mut object = created(&json!({"data": {"x": "0"}}), &write("creator", "00"));
    for round in 1..=14 {
        let mut new = object.clone();
        new["data"][format!("{round:02}")] = "x".into();
        let name = format!("m{round:02}");
        track(Some(&object), &mut new, &schema(), &write(&name, &format!("{round:02}")));
        object = new;
    }
    let list = entries(&object);
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|e| e["manager"].as_str().unwrap()).collect();
    assert_eq!(names, ["ancient-changes", "m06", "m07", "m08", "m09", "m10", "m11", "m12", "m13", "m14"]);
    let expected =
        json!({"f:data": {".": {}, "f:x": {}, "f:01": {}, "f:02": {}, "f:03": {}, "f:04": {}, "f:05": {}}});
    assert_eq!(owned(&object, "ancient-changes"), expected);
    assert_eq!(list[0]["time"], "05");
}

#[test]
fn a_value_of_another_type_is_a_change_of_all_of_it() {
    let old = created(&json!({"status": {"a": {"b": 1}}}), &write("one", "1"));
    let new = written(&old, &json!({"status": {"a": [1]}}), &write("two", "2"));
    assert_eq!(owned(&new, "one"), json!({"f:status": {}}));
    assert_eq!(owned(&new, "two"), json!({"f:status": {"f:a": {}}}));
    let new = written(&new, &json!({"status": {"a": {"b": null}}}), &write("one", "3"));
    assert_eq!(owned(&new, "one"), json!({"f:status": {".": {}, "f:a": {".": {}, "f:b": {}}}}));
    assert_eq!(owned(&new, "two"), Value::Null);
}

#[test]
fn malformed_objects_do_no_harm() {
    for object in [
        json!({"metadata": 1, "spec": [1]}),
        json!({"spec": {"containers": [1, {}, {"name": 1}, {"name": "a"}, {"name": "a"}], "modes": [{}, 1, 1]}}),
        json!({"metadata": {"ownerReferences": {"a": 1}, "finalizers": "x", "labels": []}}),
    ] {
        let one = created(&object, &write("one", "1"));
        let two = written(&one, &json!({"spec": {"containers": [{"name": "a"}, 2]}}), &write("two", "2"));
        written(&two, &object, &write("one", "3"));
    }
}

#[test]
fn sets_are_read_into_one_form() {
    let messy = json!({
        ".": {}, "f:a": {".": {}}, "x:y": {}, "z": {}, "i:007": {},
        "f:b": {"k:{ \"b\": 2, \"a\" : \"x\" }": {"f:c": {}}, "k:{\"a\":\"x\",\"b\":2}": {}, "v: 1": {}},
    });
    let expected = json!({
        "f:a": {}, "i:7": {},
        "f:b": {"k:{\"a\":\"x\",\"b\":2}": {".": {}, "f:c": {}}, "v:1": {}},
    });
    assert_eq!(set(messy).into_json(), expected);
    for wrong in [json!([]), json!({"f:a": []}), json!({"k:1": {}}), json!({"v:": {}}), json!({"i:x": {}})] {
        assert!(FieldSet::from_json(wrong.clone()).is_err(), "{wrong}");
    }
    let mut made = FieldSet::default();
    made.insert(&["f:spec", "k:{\"name\":\"x\"}", "f:image"]);
    made.insert(&["f:spec", "v:1"]);
    made.insert(&["f:spec"]);
    made.insert(&["f:spec"]);
    assert_eq!(made.paths(), [".spec", ".spec[name=\"x\"].image", ".spec[=1]"]);
}

/// A small generator, so that every run is the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn some(&mut self, names: &[&str], mut value: impl FnMut(&mut Self) -> Value) -> Value {
        let mut out = Object::new();
        for name in names {
            if self.roll(2) == 0 {
                out.insert((*name).to_owned(), value(self));
            }
        }
        Value::Object(out)
    }

    fn list(&mut self, names: &[&str], mut value: impl FnMut(&mut Self, &str) -> Value) -> Value {
        let mut names = names.to_vec();
        if self.roll(2) == 0 {
            names.reverse();
        }
        let mut out = vec![];
        for name in names {
            if self.roll(3) > 0 {
                out.push(value(self, name));
            }
        }
        Value::Array(out)
    }

    fn scalar(&mut self) -> Value {
        [json!("x"), json!("y"), json!(1), json!(null)][self.roll(4) as usize].clone()
    }

    fn object(&mut self) -> Object {
        let mut spec = map(&self.some(&["replicas", "unknown"], Self::scalar));
        let containers = self.list(&["a", "b", "c"], |dice, name| {
            let mut entry = map(&dice.some(&["image", "args"], Self::scalar));
            entry.insert("name".to_owned(), name.into());
            let ports = dice
                .list(&["TCP", "UDP"], |dice, name| json!({"containerPort": dice.roll(2), "protocol": name}));
            entry.insert("ports".to_owned(), ports);
            Value::Object(entry)
        });
        for (name, value) in [
            ("containers", containers),
            ("modes", self.list(&["m", "n", "o"], |_, name| name.into())),
            ("selector", self.some(&["a", "b"], Self::scalar)),
            ("strategy", self.some(&["type", "other"], Self::scalar)),
        ] {
            if self.roll(4) > 0 {
                spec.insert(name.to_owned(), value);
            }
        }
        let labels = self.some(&["a", "b"], Self::scalar);
        let status = self.some(&["a", "b"], |dice| dice.some(&["c", "d"], Self::scalar));
        map(&json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": labels},
            "spec": spec, "data": self.some(&["a", "b", "c"], Self::scalar), "status": status,
        }))
    }
}

#[test]
fn after_any_writes_every_field_has_exactly_one_owner_and_no_other_is_owned() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for _ in 0..100 {
        let mut object = dice.object();
        track(None, &mut object, &schema(), &write("m0", "0"));
        for round in 1..6 {
            let mut new = dice.object();
            let name = format!("m{}", dice.roll(4));
            track(Some(&object), &mut new, &schema(), &write(&name, &round.to_string()));
            object = new;
            let managers = Managers::decode(entries(&object)).unwrap();
            let mut all = FieldSet::default();
            for entry in &managers.0 {
                assert!(all.intersection(&entry.fields).is_empty(), "owned twice: {managers:?}");
                all.union(entry.fields.clone());
                assert_eq!(set(entry.fields.clone().into_json()), entry.fields);
            }
            let mut left = FieldSet::of(&object, &schema());
            left.difference(&all);
            assert!(left.is_empty(), "not owned: {left:?} of {object:?}");
            all.difference(&Delta::of_new(&object, &schema()));
            assert!(all.is_empty(), "owned but not there: {all:?} of {object:?}");
            let mut again = object.clone();
            track(Some(&object), &mut again, &schema(), &write("late", "9"));
            assert_eq!(again, object, "nothing changed");
        }
    }
}

#[test]
fn sets_combine_as_sets_of_paths() {
    let mut dice = Dice(0x1234_5678_9ABC_DEF1);
    let paths = |set: &FieldSet| -> BTreeSet<String> { set.paths().into_iter().collect() };
    for _ in 0..200 {
        let one = FieldSet::of(&dice.object(), &schema());
        let other = Delta::of_new(&dice.object(), &schema());
        let (a, b) = (paths(&one), paths(&other));
        let mut union = one.clone();
        union.union(other.clone());
        let mut difference = one.clone();
        difference.difference(&other);
        let intersection = one.intersection(&other);
        assert_eq!(paths(&union), &a | &b);
        assert_eq!(paths(&difference), &a - &b);
        assert_eq!(paths(&intersection), &a & &b);
        for result in [union, difference, intersection] {
            assert_eq!(set(result.clone().into_json()), result, "in its one form");
        }
    }
}
