//! What users of `kubectl apply`, `edit` and `patch` rely on.

use serde_json::json;

use super::*;
use crate::schema::{Field, Format, Merge, Ownership, Presence};

fn field(name: &str, node: Node, strategic: Strategic) -> Field {
    Field {
        name: name.into(),
        node,
        required: false,
        merge: Merge { ownership: Ownership::Plain, strategic },
        presence: Presence::Optional,
    }
}

fn object(mut fields: Vec<Field>) -> Node {
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    Node::Object(fields)
}

fn list(items: Node) -> Node {
    Node::List(Box::new(items))
}

fn text() -> Node {
    Node::String(Format::Plain)
}

/// A pod's spec, more or less.
fn schema() -> Node {
    let port = object(vec![field("containerPort", Node::Any, Strategic::Replace)]);
    let container = object(vec![
        field("name", text(), Strategic::Replace),
        field("image", text(), Strategic::Replace),
        field("args", list(text()), Strategic::Replace),
        field("ports", list(port), Strategic::MergeBy("containerPort")),
    ]);
    let volume = object(vec![
        field("name", text(), Strategic::Replace),
        field("emptyDir", Node::Any, Strategic::Replace),
        field("hostPath", Node::Any, Strategic::Replace),
    ]);
    let strategy = object(vec![
        field("type", text(), Strategic::Replace),
        field("rollingUpdate", Node::Any, Strategic::Replace),
    ]);
    object(vec![
        field("containers", list(container), Strategic::MergeBy("name")),
        field("volumes", list(volume), Strategic::RetainKeys(Some("name"))),
        field("strategy", strategy, Strategic::RetainKeys(None)),
        field("finalizers", list(text()), Strategic::MergeSet),
        field("args", list(text()), Strategic::Replace),
        field("labels", Node::Map(Box::new(text())), Strategic::Replace),
        field("tolerations", list(Node::Any), Strategic::Replace),
        field("$ref", text(), Strategic::Replace),
        field("raw", Node::Any, Strategic::Replace),
    ])
}

fn apply(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let mut merged = target.as_object().unwrap().clone();
    strategic_merge(&mut merged, patch.as_object().unwrap(), &schema())?;
    Ok(Value::Object(merged))
}

#[track_caller]
fn check(target: Value, patch: Value, expected: Value) {
    assert_eq!(apply(&target, &patch), Ok(expected), "{target} + {patch}");
}

#[track_caller]
fn refuse(target: Value, patch: Value, code: u16, message: &str) {
    let error = apply(&target, &patch).expect_err(&patch.to_string());
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.code(), code, "{error}");
}

#[test]
fn maps_are_merged_and_null_deletes() {
    check(
        json!({"labels": {"a": "1", "b": "2"}, "args": ["x"]}),
        json!({"labels": {"a": "3", "b": null, "c": "4", "d": null}, "args": ["y"], "raw": {"n": {"m": null}}}),
        json!({"labels": {"a": "3", "c": "4"}, "args": ["y"], "raw": {"n": {}}}),
    );
    check(json!({"labels": {"a": "1"}}), json!({"labels": null}), json!({}));
    check(json!({"labels": "wrong"}), json!({"labels": {"a": "1"}}), json!({"labels": {"a": "1"}}));
}

#[test]
fn a_map_can_be_replaced_emptied_or_merged_by_directive() {
    let target = json!({"labels": {"a": "1"}, "raw": {"x": {"y": 1}}});
    for (patch, expected) in [
        (json!({"labels": {"$patch": "replace", "b": "2"}}), json!({"b": "2"})),
        (json!({"labels": {"$patch": "delete"}}), json!({})),
        (json!({"labels": {"$patch": "merge", "b": "2"}}), json!({"a": "1", "b": "2"})),
    ] {
        check(target.clone(), patch, json!({"labels": expected, "raw": {"x": {"y": 1}}}));
    }
    check(json!({"args": ["x"]}), json!({"$patch": "replace", "args": ["y"]}), json!({"args": ["y"]}));
    check(json!({}), json!({"labels": {"$patch": "replace", "b": "2"}}), json!({"labels": {"b": "2"}}));
    check(json!({}), json!({"labels": {"$patch": "delete"}}), json!({}));
    check(
        json!({"raw": {"a": 1}}),
        json!({"raw": {"$patch": "replace", "b": {"c": null, "d": [{"$patch": "delete"}, {"e": null}]}}}),
        json!({"raw": {"b": {"d": [{}]}}}),
    );
}

#[test]
fn lists_are_merged_by_their_key_at_every_level() {
    check(
        json!({"containers": [
            {"name": "a", "image": "1", "ports": [{"containerPort": 80, "name": "http"}]},
            {"name": "b", "image": "1"},
        ]}),
        json!({"containers": [
            {"name": "b", "image": "2"},
            {"name": "a", "args": ["x"], "ports": [{"containerPort": 81}, {"containerPort": 80, "name": null}]},
        ]}),
        json!({"containers": [
            {"name": "b", "image": "2"},
            {"name": "a", "image": "1", "args": ["x"], "ports": [{"containerPort": 81}, {"containerPort": 80}]},
        ]}),
    );
}

#[test]
fn entries_that_are_new_come_first_and_others_stay_where_they_were() {
    let named =
        |names: &[&str]| json!({"containers": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()});
    for (target, patch, expected) in [
        (&["a", "b"][..], &["n"][..], &["n", "a", "b"][..]),
        (&["a", "b"], &["b"], &["a", "b"]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b", "c"], &["b", "n"], &["a", "b", "n", "c"]),
        (&[], &["x", "y"], &["x", "y"]),
    ] {
        check(named(target), named(patch), named(expected));
    }
}

#[test]
fn the_order_of_a_list_is_as_asked_for() {
    let named = |names: &[&str]| names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>();
    for (target, patch, order, expected) in [
        (&["a", "b"][..], &["n"][..], &["a", "b", "n"][..], &["a", "b", "n"][..]),
        (&["a", "b", "c"], &[], &["c", "a"], &["b", "c", "a"]),
        (&["a", "s", "b"], &["n"], &["b", "n", "a"], &["s", "b", "n", "a"]),
        (&[], &["y"], &["x", "y"], &["y"]),
    ] {
        let mut change = json!({"$setElementOrder/containers": named(order)});
        if !patch.is_empty() {
            change["containers"] = json!(named(patch));
        }
        check(json!({"containers": named(target)}), change, json!({"containers": named(expected)}));
    }
    check(json!({}), json!({"$setElementOrder/containers": [{"name": "a"}]}), json!({}));
    check(
        json!({"finalizers": ["a", "b"]}),
        json!({"$setElementOrder/finalizers": ["b", "c", "a"], "finalizers": ["c"]}),
        json!({"finalizers": ["b", "c", "a"]}),
    );
    check(
        json!({"args": ["a", "b"]}),
        json!({"$setElementOrder/args": ["b", "a"]}),
        json!({"args": ["b", "a"]}),
    );
}

#[test]
fn entries_can_be_deleted_and_lists_replaced_by_directive() {
    let target = json!({"containers": [{"name": "a"}, {"name": "b", "image": "1"}]});
    check(
        target.clone(),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
            "containers": [{"name": "c"}, {"$patch": "delete", "name": "a"}]}),
        json!({"containers": [{"name": "b", "image": "1"}, {"name": "c"}]}),
    );
    check(
        target.clone(),
        json!({"containers": [{"$patch": "replace"}, {"name": "b"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
    check(
        target.clone(),
        json!({"containers": [{"$patch": "merge", "name": "a", "image": "2"}]}),
        json!({"containers": [{"name": "a", "image": "2"}, {"name": "b", "image": "1"}]}),
    );
    check(
        json!({}),
        json!({"containers": [{"$patch": "delete", "name": "x"}, {"name": "y", "image": null}]}),
        json!({"containers": [{"name": "y"}]}),
    );
    check(
        json!({"tolerations": [{"key": "a"}]}),
        json!({"tolerations": [{"$patch": "replace"}, {"key": "b"}]}),
        json!({"tolerations": [{"key": "b"}]}),
    );
}

#[test]
fn sets_are_united_and_cut_down() {
    check(
        json!({"finalizers": ["a", "b"]}),
        json!({"finalizers": ["b", "c", "c"]}),
        json!({"finalizers": ["a", "b", "c"]}),
    );
    check(
        json!({"finalizers": ["a", "b"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"], "finalizers": ["c"]}),
        json!({"finalizers": ["c", "b"]}),
    );
    check(json!({}), json!({"$deleteFromPrimitiveList/finalizers": ["a"]}), json!({}));
}

#[test]
fn retain_keys_clears_what_is_not_named() {
    check(
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    check(
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/"}}]}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    );
    check(
        json!({}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    let invalid = "invalid patch format of retainKeys";
    for keys in [json!("type"), json!([1]), json!(["rollingUpdate"])] {
        refuse(json!({}), json!({"strategy": {"$retainKeys": keys, "type": "x"}}), 400, invalid);
    }
}

#[test]
fn misuse_is_refused_with_the_words_of_kubernetes() {
    let keyless = "map: map[image:x] does not contain declared merge key: name";
    for target in [json!({}), json!({"containers": [{"name": "a"}]})] {
        refuse(target.clone(), json!({"containers": [{"image": "x"}]}), 422, keyless);
        refuse(
            target.clone(),
            json!({"containers": [{"$patch": "delete"}]}),
            422,
            "declared merge key: name",
        );
        refuse(target.clone(), json!({"containers": ["a"]}), 422, "not a map");
        refuse(
            target,
            json!({"containers": [{"name": "b"}], "$setElementOrder/containers": [{"name": "a"}]}),
            400,
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list",
        );
    }
    let target = json!({"labels": {"a": "1"}, "finalizers": ["a"], "containers": []});
    for (patch, message) in [
        (json!({"labels": {"$patch": "smash"}}), "unknown patch type: smash in map: map[$patch:smash]"),
        (json!({"containers": [{"$patch": 1, "name": "a"}]}), "unknown patch type: 1"),
        (json!({"$deleteFromPrimitiveList/finalizers": "a"}), "invalid patch format of primitive list"),
        (json!({"$setElementOrder/finalizers": "a"}), "invalid patch format of setElementOrder list"),
        (json!({"finalizers": [{"a": 1}]}), "invalid patch format of primitive list"),
        (json!({"$unheardOf": 1}), "unknown directive \"$unheardOf\""),
    ] {
        refuse(target.clone(), patch, 400, message);
    }
}

#[test]
fn fields_that_look_like_directives_are_kept_where_they_are_known_or_free() {
    check(json!({}), json!({"$ref": "x", "raw": {"$id": 1}}), json!({"$ref": "x", "raw": {"$id": 1}}));
}

#[test]
fn without_a_schema_maps_are_merged_and_lists_replaced() {
    let mut target = json!({"a": {"b": 1, "l": [{"name": "x"}]}}).as_object().unwrap().clone();
    let patch = json!({"a": {"c": 2, "l": [{"name": "y"}]}});
    strategic_merge(&mut target, patch.as_object().unwrap(), &Node::Any).unwrap();
    assert_eq!(Value::Object(target), json!({"a": {"b": 1, "c": 2, "l": [{"name": "y"}]}}));
}

#[test]
fn deep_patches_are_refused_and_long_lists_are_quick() {
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({ "raw": [deep] });
    }
    refuse(json!({}), deep, 400, "levels");
    let long: Vec<Value> = (0..5_000).map(|name| json!({"name": name.to_string()})).collect();
    let reversed: Vec<Value> = long.iter().rev().cloned().collect();
    let patch = json!({"containers": long, "$setElementOrder/containers": long});
    check(json!({"containers": reversed}), patch, json!({"containers": long}));
}

#[test]
fn a_diff_says_what_has_to_be_said() {
    for (from, to, expected) in [
        (
            json!({"labels": {"a": "1", "b": "1"}}),
            json!({"labels": {"a": "2"}}),
            json!({"labels": {"a": "2", "b": null}}),
        ),
        (
            json!({"args": ["a"], "labels": {}}),
            json!({"args": ["b"]}),
            json!({"args": ["b"], "labels": null}),
        ),
        (
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a", "image": "2"}]}),
            json!({
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c"}, {"name": "a", "image": "2"}, {"$patch": "delete", "name": "b"}],
            }),
        ),
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["c", "b"]}),
            json!({
                "$setElementOrder/finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"],
                "finalizers": ["c"],
            }),
        ),
        (
            json!({"strategy": {"type": "x", "rollingUpdate": {}}}),
            json!({"strategy": {"type": "y"}}),
            json!({"strategy": {"$retainKeys": ["type"], "rollingUpdate": null, "type": "y"}}),
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {}}]}),
            json!({
                "$setElementOrder/volumes": [{"name": "v"}],
                "volumes": [{"$retainKeys": ["hostPath", "name"], "emptyDir": null, "hostPath": {}, "name": "v"}],
            }),
        ),
        (json!({"raw": {"a": 1}}), json!({"raw": {"a": 1}}), json!({})),
    ] {
        let diff = strategic_diff(from.as_object().unwrap(), to.as_object().unwrap(), &schema());
        assert_eq!(Value::Object(diff), expected, "{from} -> {to}");
        check(from, expected, to);
    }
}

/// Random objects of the schema above, as the server would store them: without `null`s.
struct Random(fastrand::Rng);

impl Random {
    fn text(&mut self) -> Value {
        ["x", "y", "z"][self.0.usize(..3)].into()
    }

    fn some(&mut self, names: &[&str], mut value: impl FnMut(&mut Self, &str) -> Value) -> Value {
        let mut map = Object::new();
        for name in names {
            if self.0.bool() {
                map.insert((*name).to_owned(), value(self, name));
            }
        }
        Value::Object(map)
    }

    fn shuffled(&mut self, names: &[&str], mut value: impl FnMut(&mut Self, &str) -> Value) -> Value {
        let mut names = names.to_vec();
        self.0.shuffle(&mut names);
        let keep = self.0.usize(..=names.len());
        names[..keep].iter().map(|name| value(self, name)).collect()
    }

    fn container(&mut self, name: &str) -> Value {
        let mut container = self.some(&["image", "args", "ports", "extra"], |random, field| match field {
            "args" => random.shuffled(&["1", "2"], |_, arg| arg.into()),
            "ports" => random.shuffled(&["80", "81", "82"], |random, port| {
                let mut entry = random.some(&["name", "host"], |random, _| random.text());
                entry["containerPort"] = port.parse::<u16>().expect("a number").into();
                entry
            }),
            "extra" => random.some(&["a", "b"], |random, _| random.text()),
            _ => random.text(),
        });
        container["name"] = name.into();
        container
    }

    fn object(&mut self) -> Object {
        let fields = [
            "containers",
            "volumes",
            "strategy",
            "finalizers",
            "args",
            "labels",
            "tolerations",
            "$ref",
            "raw",
        ];
        let object = self.some(&fields, |random, field| match field {
            "containers" => random.shuffled(&["a", "b", "c", "d"], Self::container),
            "volumes" => random.shuffled(&["v", "w"], |random, name| {
                let mut volume = random.some(&["emptyDir", "hostPath"], |random, _| {
                    random.some(&["path", "type"], |random, _| random.text())
                });
                volume["name"] = name.into();
                volume
            }),
            "strategy" | "labels" => random.some(&["type", "rollingUpdate"], |random, _| random.text()),
            "finalizers" => random.shuffled(&["f", "g", "h"], |_, name| name.into()),
            "args" => random.shuffled(&["1", "2", "3"], |_, name| name.into()),
            "tolerations" => {
                random.shuffled(&["k", "l"], |random, _| random.some(&["key"], |random, _| random.text()))
            }
            "raw" if random.0.bool() => random.text(),
            "raw" => {
                random.some(&["m", "n"], |random, _| random.shuffled(&["1", "2"], |_, name| name.into()))
            }
            _ => random.text(),
        });
        object.as_object().expect("a map").clone()
    }
}

#[test]
fn a_two_way_diff_makes_the_one_object_of_the_other() {
    for seed in 0..2_000 {
        let mut random = Random(fastrand::Rng::with_seed(seed));
        let (from, to) = (random.object(), random.object());
        let diff = strategic_diff(&from, &to, &schema());
        let mut merged = from.clone();
        let done = strategic_merge(&mut merged, &diff, &schema());
        assert_eq!((done, &merged), (Ok(()), &to), "seed {seed}: {diff:?}");
        assert!(strategic_diff(&to, &to, &schema()).is_empty(), "seed {seed}");
    }
}
