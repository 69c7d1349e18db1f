//! What appliers rely on: who gets what, who is in the way, and what goes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    managed::{
        tests::{field, list, map, object, schema, text},
        track,
    },
    schema::{Definition, Key, Ownership},
};

/// An object and those who write it.
struct World {
    object: Object,
    versions: Box<dyn Versions>,
    clock: u32,
}

impl World {
    fn new() -> Self {
        Self::of(schema())
    }

    fn of(versions: impl Versions + 'static) -> Self {
        World { object: Object::new(), versions: Box::new(versions), clock: 0 }
    }

    fn run(&mut self, manager: &str, config: Value, force: bool) -> Result<(), ApplyError> {
        self.run_as(manager, "v1", "", config, force)
    }

    fn run_as(
        &mut self,
        manager: &str,
        api_version: &str,
        subresource: &str,
        config: Value,
        force: bool,
    ) -> Result<(), ApplyError> {
        self.clock += 1;
        let time = self.clock.to_string();
        let operation = Operation::Apply;
        let write = Write { manager, operation, api_version, subresource, time: &time, unowned: None };
        let request = Request { write, versions: &*self.versions, force };
        let mut config = map(&config);
        config.insert("apiVersion".to_owned(), api_version.into());
        let live = match self.object.is_empty() {
            true => Object::new(),
            false => self.versions.convert(&self.object, api_version).expect("it is served"),
        };
        let mut new = apply(&live, &config, &request)?;
        metadata_mut(&mut new).insert("uid".to_owned(), "u".into());
        self.object = self.versions.convert(&new, "v1").expect("it is served");
        Ok(())
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, config: Value) -> &mut Self {
        let done = self.run(manager, config.clone(), false);
        assert_eq!(done, Ok(()), "{manager} applies {config}");
        self
    }

    #[track_caller]
    fn force(&mut self, manager: &str, config: Value) -> &mut Self {
        assert_eq!(self.run(manager, config, true), Ok(()));
        self
    }

    #[track_caller]
    fn refused(&mut self, manager: &str, config: Value) -> String {
        let before = self.object.clone();
        let error = self.run(manager, config.clone(), false);
        let error = error.expect_err(&format!("{manager} applies {config}"));
        assert_eq!(self.object, before);
        error.to_string()
    }

    /// Someone writes by update.
    fn update(&mut self, manager: &str, subresource: &str, change: impl FnOnce(&mut Value)) -> &mut Self {
        self.clock += 1;
        let (time, operation) = (self.clock.to_string(), Operation::Update);
        let write = Write { manager, operation, api_version: "v1", subresource, time: &time, unowned: None };
        let old = self.object.clone();
        let mut new = Value::Object(old.clone());
        change(&mut new);
        self.object = map(&new);
        let old = (!old.is_empty()).then_some(&old);
        track(old, &mut self.object, &*self.versions, &write);
        metadata_mut(&mut self.object).insert("uid".to_owned(), "u".into());
        self
    }

    #[track_caller]
    fn has(&mut self, field: &str, expected: Value) -> &mut Self {
        assert_eq!(self.object.get(field).cloned().unwrap_or_default(), expected);
        self
    }

    #[track_caller]
    fn owned(&mut self, manager: &str, expected: Value) -> &mut Self {
        let entry = self.entry(manager).map_or(Value::Null, |entry| entry["fieldsV1"].clone());
        assert_eq!(entry, expected, "{manager}");
        self
    }

    fn entry(&self, manager: &str) -> Option<Value> {
        let list = metadata(&self.object).get(FIELD)?.as_array()?;
        list.iter().find(|entry| entry["manager"] == manager).cloned()
    }
}

#[test]
fn whoever_applies_owns_what_was_applied_and_nothing_else() {
    let config = json!({
        "metadata": {"name": "n", "labels": {"a": "1"}, "finalizers": ["f"]},
        "spec": {"replicas": 1, "selector": {"x": "y"}, "strategy": {}, "modes": [], "containers": [
            {"name": "c", "image": "i", "args": ["1"], "ports": [{"containerPort": 80}]},
        ]},
        "status": {"deep": {"er": [1]}},
    });
    let owned = json!({
        "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"f\"": {}}},
        "f:spec": {"f:replicas": {}, "f:selector": {}, "f:strategy": {}, "f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
        }}},
        "f:status": {"f:deep": {".": {}, "f:er": {}}},
    });
    let mut world = World::new();
    world.apply("a", config.clone()).owned("a", owned);
    let entry = world.entry("a").unwrap();
    assert_eq!(entry["operation"], "Apply");
    assert_eq!((&entry["time"], &entry["apiVersion"]), (&json!("1"), &json!("v1")));
    assert_eq!(world.object["spec"], config["spec"]);
}

#[test]
fn an_apply_that_changes_nothing_leaves_no_trace() {
    let config = json!({"spec": {"replicas": 1, "modes": ["m"], "containers": [{"name": "c"}]}});
    let mut world = World::new();
    world.apply("a", config.clone());
    let before = world.object.clone();
    world.apply("a", config);
    assert_eq!(world.object, before);
}

#[test]
fn the_same_value_is_owned_by_both_and_goes_with_the_last() {
    let config = json!({"spec": {"replicas": 1, "strategy": {"type": "x"}}});
    let mut world = World::new();
    world.apply("a", config.clone()).apply("b", config);
    world.owned("a", json!({"f:spec": {"f:replicas": {}, "f:strategy": {"f:type": {}}}}));
    world.apply("a", json!({"spec": {"replicas": 1}}));
    world.has("spec", json!({"replicas": 1, "strategy": {"type": "x"}}));
    world.apply("b", json!({"spec": {"replicas": 1}}));
    world.has("spec", json!({"replicas": 1}));
    world.apply("b", json!({})).owned("b", Value::Null).has("spec", json!({"replicas": 1}));
    world.apply("a", json!({})).has("spec", Value::Null);
    assert_eq!(metadata(&world.object).get(FIELD), None);
}

#[test]
fn what_an_updater_owns_stays_when_the_applier_gives_it_up() {
    let mut world = World::new();
    world.apply("a", json!({"data": {"x": "1", "y": "1"}}));
    world.update("u", "", |new| new["data"]["y"] = json!("2"));
    world.owned("a", json!({"f:data": {"f:x": {}}}));
    world.apply("a", json!({})).has("data", json!({"y": "2"}));
}

#[test]
fn conflicts_name_each_manager_and_each_field() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"replicas": 1, "containers": [{"name": "c", "image": "1"}]}}));
    assert_eq!(
        world.refused("b", json!({"spec": {"replicas": 2}})),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    world.update("u", "", |new| new["spec"]["replicas"] = json!(3));
    assert_eq!(
        world.refused("a", json!({"spec": {"replicas": 1, "containers": [{"name": "c", "image": "1"}]}})),
        "Apply failed with 1 conflict: conflict with \"u\" using v1: .spec.replicas"
    );
    world.update("s", "status", |new| new["status"] = json!({"ready": true}));
    let config = json!({
        "spec": {"replicas": 4, "containers": [{"name": "c", "image": "2"}]}, "status": {"ready": false},
    });
    assert_eq!(
        world.refused("b", config),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.containers[name=\"c\"].image\n\
         conflicts with \"s\" with subresource \"status\" using v1:\n- .status.ready\n\
         conflicts with \"u\" using v1:\n- .spec.replicas"
    );
}

#[test]
fn force_takes_over_and_the_loser_is_in_conflict_then() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"replicas": 1, "strategy": {"type": "x"}}}));
    world
        .force("b", json!({"spec": {"replicas": 2}}))
        .has("spec", json!({"replicas": 2, "strategy": {"type": "x"}}));
    world.owned("a", json!({"f:spec": {"f:strategy": {"f:type": {}}}}));
    world.owned("b", json!({"f:spec": {"f:replicas": {}}}));
    world.refused("a", json!({"spec": {"replicas": 1, "strategy": {"type": "x"}}}));
    world.apply("a", json!({"spec": {"strategy": {"type": "x"}}}));
    world.has("spec", json!({"replicas": 2, "strategy": {"type": "x"}}));
}

#[test]
fn entries_of_lists_are_merged_by_key_and_go_one_by_one() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"containers": [{"name": "x", "image": "1"}, {"name": "y"}]}}));
    world.apply("b", json!({"spec": {"containers": [{"name": "x", "args": ["1"]}, {"name": "z"}]}}));
    world.has(
        "spec",
        json!({"containers": [{"name": "x", "image": "1", "args": ["1"]}, {"name": "y"}, {"name": "z"}]}),
    );
    world.apply("a", json!({"spec": {"containers": [{"name": "x"}]}}));
    world.has("spec", json!({"containers": [{"name": "x", "args": ["1"]}, {"name": "z"}]}));
    world.apply("a", json!({})).apply("b", json!({"spec": {"containers": [{"name": "z"}]}}));
    world.has("spec", json!({"containers": [{"name": "z"}]}));
    world.apply("b", json!({})).has("spec", Value::Null);
}

#[test]
fn an_entry_goes_with_its_owner_even_if_others_own_fields_of_it() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"replicas": 1, "containers": [{"name": "x", "image": "1"}]}}));
    world.update("u", "", |new| new["spec"]["containers"][0]["args"] = json!(["1"]));
    world.owned("u", json!({"f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {"f:args": {}}}}}));
    world.apply("a", json!({"spec": {"replicas": 1}}));
    world.has("spec", json!({"replicas": 1})).owned("u", Value::Null);
}

#[test]
fn keys_that_are_left_out_have_their_defaults() {
    let port = |port: Value| json!({"spec": {"containers": [{"name": "c", "ports": port}]}});
    let mut world = World::new();
    world.update("u", "", |new| {
        *new =
            port(json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]));
    });
    world.apply("a", port(json!([{"containerPort": 80, "name": "web"}])));
    world.has(
        "spec",
        port(json!([
            {"containerPort": 80, "protocol": "TCP", "name": "web"}, {"containerPort": 80, "protocol": "UDP"},
        ]))["spec"]
            .clone(),
    );
    assert_eq!(
        world.refused("a", port(json!([{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]))),
        ".spec.containers[name=\"c\"].ports: duplicate entries for key [containerPort=1,protocol=\"TCP\"]"
    );
}

#[test]
fn the_order_is_that_of_the_configuration_with_the_others_where_they_were() {
    for (live, config, expected) in [
        (vec!["a", "b"], vec!["n"], vec!["a", "b", "n"]),
        (vec!["a", "s", "b"], vec!["b", "n", "a"], vec!["s", "b", "n", "a"]),
        (vec!["a", "b"], vec!["n", "b"], vec!["a", "n", "b"]),
        (vec!["a", "b", "c"], vec!["c", "b", "a"], vec!["c", "b", "a"]),
        (vec!["x", "a", "y", "b", "z"], vec!["a", "b"], vec!["x", "a", "y", "b", "z"]),
        (vec![], vec!["b", "a"], vec!["b", "a"]),
    ] {
        let entries = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let mut world = World::new();
        world.update("u", "", |new| *new = json!({"spec": {"modes": live, "containers": entries(&live)}}));
        world.apply("a", json!({"spec": {"modes": config, "containers": entries(&config)}}));
        world.has("spec", json!({"modes": expected, "containers": entries(&expected)}));
    }
}

#[test]
fn sets_are_united_and_values_go_one_by_one() {
    let mut world = World::new();
    let modes = |modes: Value| json!({"spec": {"modes": modes}, "metadata": {"finalizers": modes}});
    world.apply("a", modes(json!(["x", "y"]))).apply("b", modes(json!(["y", "z"])));
    world.has("spec", json!({"modes": ["x", "y", "z"]}));
    world.apply("a", modes(json!([]))).has("spec", json!({"modes": ["y", "z"]}));
    assert_eq!(metadata(&world.object)["finalizers"], json!(["y", "z"]));
    world.owned("a", Value::Null);
    let twice = world.refused("a", json!({"spec": {"modes": ["x", "x"]}}));
    assert_eq!(twice, ".spec.modes: duplicate entries for key [=\"x\"]");
}

#[test]
fn what_is_atomic_is_replaced_and_changes_hands_as_a_whole() {
    let selector = |value: Value| json!({"spec": {"selector": value}, "status": {"list": value}});
    let mut world = World::new();
    world.apply("a", selector(json!({"x": "1"})));
    assert!(world.refused("b", selector(json!({"y": "1"}))).contains(".spec.selector"));
    world.force("b", json!({"spec": {"selector": {"y": "1"}}, "status": {"list": [1]}}));
    world.has("spec", json!({"selector": {"y": "1"}})).has("status", json!({"list": [1]}));
    world.owned("a", Value::Null);
    world.owned("b", json!({"f:spec": {"f:selector": {}}, "f:status": {"f:list": {}}}));
}

#[test]
fn null_is_owned_and_clears_what_is_owned_as_a_whole() {
    let mut world = World::new();
    world.update("u", "", |new| {
        *new = json!({"spec": {"replicas": 1, "modes": ["m"]}, "data": {"x": "1"}});
    });
    let nothing = json!({"spec": {"replicas": null, "modes": null}, "data": null});
    assert!(world.refused("a", nothing.clone()).ends_with("conflict with \"u\" using v1: .spec.replicas"));
    world.force("a", nothing);
    world.has("spec", json!({"replicas": null, "modes": ["m"]})).has("data", json!({"x": "1"}));
    world.owned("a", json!({"f:spec": {"f:replicas": {}, "f:modes": {}}, "f:data": {}}));
}

#[test]
fn an_empty_map_is_owned_and_leaves_others_alone() {
    let mut world = World::new();
    world.apply("a", json!({"data": {"x": "1"}}));
    world.apply("b", json!({"data": {}})).has("data", json!({"x": "1"})).owned("b", json!({"f:data": {}}));
    world.apply("a", json!({})).has("data", json!({}));
    world.apply("b", json!({})).has("data", Value::Null);
}

#[test]
fn a_field_that_is_given_up_goes_with_its_defaults() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"replicas": 1, "strategy": {"type": "x"}}}));
    world.object["spec"]["strategy"]["default"] = json!("by the server");
    world.apply("a", json!({"spec": {"replicas": 1}})).has("spec", json!({"replicas": 1}));
}

#[test]
fn what_nobody_applied_stays() {
    let mut world = World::new();
    world.apply("a", json!({"metadata": {"labels": {"x": "1", "y": "1"}}}));
    world.object["metadata"]["labels"]["server"] = json!("1");
    world.apply("a", json!({"metadata": {"labels": {"x": "1"}}}));
    assert_eq!(metadata(&world.object)["labels"], json!({"x": "1", "server": "1"}));
}

#[test]
fn what_was_there_before_the_first_apply_has_an_entry() {
    let mut world = World::new();
    world.update("u", "", |new| *new = json!({"data": {"x": "1"}, "metadata": {"labels": {"l": "1"}}}));
    metadata_mut(&mut world.object).remove(FIELD);
    assert_eq!(
        world.refused("a", json!({"data": {"x": "2"}})),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
    world.apply("a", json!({"data": {"y": "1"}})).has("data", json!({"x": "1", "y": "1"}));
    let before = world.entry("before-first-apply").unwrap();
    assert_eq!(before["operation"], "Update");
    assert_eq!(before["fieldsV1"]["f:data"], json!({".": {}, "f:x": {}}));
}

#[test]
fn subresources_are_appliers_of_their_own() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"replicas": 1}}));
    world.run_as("a", "v1", "status", json!({"status": {"x": 1}}), false).unwrap();
    world.has("spec", json!({"replicas": 1})).has("status", json!({"x": 1}));
    let conflict = world.run_as("a", "v1", "scale", json!({"spec": {"replicas": 2}}), false).unwrap_err();
    assert_eq!(conflict.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas");
    world.apply("a", json!({})).has("status", json!({"x": 1}));
}

#[test]
fn entries_that_live_has_twice_stay_until_they_are_applied() {
    let twice = json!([
        {"name": "x", "image": "1", "args": ["1"]}, {"name": "x", "image": "2", "args": ["2"]}, {"name": "y"},
    ]);
    let mut world = World::new();
    world.update("u", "", |new| *new = json!({"spec": {"containers": twice}}));
    world.apply("a", json!({"spec": {"containers": [{"name": "z"}]}}));
    let mut expected = twice;
    expected.as_array_mut().unwrap().push(json!({"name": "z"}));
    world.has("spec", json!({"containers": expected}));
    world.force("a", json!({"spec": {"containers": [{"name": "x", "image": "3"}]}}));
    world.has("spec", json!({"containers": [{"name": "x", "image": "3"}, {"name": "y"}]}));
}

#[test]
fn lists_whose_entries_cannot_be_told_apart_are_refused() {
    for (list, why) in [
        (
            json!([null]),
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            json!([{"name": "a"}, 1]),
            ".spec.containers: element 1: associative list with keys may not have non-map",
        ),
        (
            json!([{"image": "a"}]),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"]",
        ),
        (json!([{"name": "a"}, {"name": "a"}]), ".spec.containers: duplicate entries for key [name=\"a\"]"),
    ] {
        let refused = World::new().refused("a", json!({"spec": {"containers": list}}));
        assert!(refused.starts_with(why), "{refused}");
    }
    for value in [json!({}), json!([]), json!(null)] {
        let refused = World::new().refused("a", json!({"spec": {"modes": ["x", value]}}));
        assert!(refused.starts_with(".spec.modes: element 1: "), "{refused}");
    }
}

/// In v2, `spec.size` is called `spec.length`, and v0 is not served any more.
struct Renamed(Node);

impl Versions for Renamed {
    fn schema(&self, api_version: &str) -> Option<&Node> {
        ["v1", "v2"].contains(&api_version).then_some(&self.0)
    }

    fn convert(&self, object: &Object, api_version: &str) -> Option<Object> {
        self.schema(api_version)?;
        let mut object = object.clone();
        let (from, to) = if api_version == "v2" { ("size", "length") } else { ("length", "size") };
        if let Some(Value::Object(spec)) = object.get_mut("spec")
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        object.insert("apiVersion".to_owned(), api_version.into());
        object.entry("kind").or_insert_with(|| "K".into());
        Some(object)
    }
}

#[test]
fn versions_name_the_same_fields_differently_and_still_conflict() {
    let mut world = World::of(Renamed(Node::Any));
    world.apply("a", json!({"spec": {"size": 1, "x": 1}}));
    let conflict = world.run_as("b", "v2", "", json!({"spec": {"length": 2}}), false).unwrap_err();
    assert_eq!(conflict.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.size");
    world.run_as("b", "v2", "", json!({"spec": {"length": 1, "y": 1}}), false).unwrap();
    assert_eq!(world.entry("b").unwrap()["apiVersion"], "v2");
    world.owned("b", json!({"f:spec": {".": {}, "f:length": {}, "f:y": {}}}));
    world.apply("a", json!({"spec": {"x": 1}}));
    world.has("spec", json!({"size": 1, "x": 1, "y": 1}));
    world.run_as("b", "v2", "", json!({"spec": {"y": 1}}), false).unwrap();
    world.has("spec", json!({"x": 1, "y": 1}));
}

#[test]
fn an_applier_that_moves_to_another_version_stays_the_same() {
    let mut world = World::of(Renamed(Node::Any));
    world.apply("a", json!({"spec": {"size": 1, "x": 1}}));
    world.run_as("a", "v2", "", json!({"spec": {"length": 2}}), false).unwrap();
    world.has("spec", json!({"size": 2}));
    assert_eq!(metadata(&world.object)[FIELD].as_array().map(Vec::len), Some(1));
    world.owned("a", json!({"f:spec": {".": {}, "f:length": {}}}));
    world.update("u", "", |new| new["spec"]["size"] = json!(3));
    world.owned("a", json!({"f:spec": {}}));
}

#[test]
fn entries_of_versions_that_are_gone_are_forgotten() {
    let mut world = World::of(Renamed(Node::Any));
    world.apply("a", json!({"spec": {"size": 1}})).apply("b", json!({"spec": {"size": 1}}));
    world.object["metadata"][FIELD][0]["apiVersion"] = json!("v0");
    world.force("b", json!({"spec": {"size": 2}}));
    assert_eq!(metadata(&world.object)[FIELD].as_array().map(Vec::len), Some(1));
}

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object that `kubectl apply` made from the client.
fn from_the_client(config: Value) -> World {
    let mut config = config;
    config["apiVersion"] = "v1".into();
    let mut world = World::new();
    world.update("kubectl-client-side-apply", "", |new| {
        *new = config.clone();
        new["metadata"]["annotations"][ANNOTATION] = config.to_string().into();
    });
    world
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let mut world = from_the_client(json!({"spec": {"replicas": 1}, "data": {"x": "1", "y": "1"}}));
    world.update("u", "", |new| new["data"]["y"] = json!("2"));
    let config = json!({"spec": {"replicas": 2}, "data": {"x": "2", "y": "3"}});
    let refused = world.refused("kubectl", config.clone());
    assert_eq!(refused, "Apply failed with 1 conflict: conflict with \"u\" using v1: .data.y");
    assert!(world.refused("someone", config).starts_with("Apply failed with 3 conflicts"));
    world.apply("kubectl", json!({"spec": {"replicas": 2}, "data": {"x": "2"}}));
    world.has("data", json!({"x": "2", "y": "2"}));
    let noted = metadata(&world.object)["annotations"][ANNOTATION].as_str().unwrap();
    let noted: Value = serde_json::from_str(noted).unwrap();
    assert_eq!(noted, json!({"apiVersion": "v1", "spec": {"replicas": 2}, "data": {"x": "2"}}));
}

#[test]
fn what_was_applied_from_the_client_is_noted_for_kubectl_alone() {
    let mut world = from_the_client(json!({"data": {"x": "1"}}));
    let noted = metadata(&world.object)["annotations"].clone();
    world.apply("someone", json!({"data": {"y": "1"}}));
    assert_eq!(metadata(&world.object)["annotations"], noted);
    let mut plain = World::new();
    plain.apply("kubectl", json!({"data": {"y": "1"}}));
    assert!(!metadata(&plain.object).contains_key("annotations"));
    for broken in ["", "{", "[]", "{\"apiVersion\":\"v9\",\"data\":{\"x\":\"1\"}}"] {
        world.object["metadata"]["annotations"][ANNOTATION] = broken.into();
        assert!(
            world.refused("kubectl", json!({"data": {"x": "2"}})).starts_with("Apply failed with 1 conflict")
        );
    }
}

#[test]
fn a_list_that_was_defined_anew_keeps_its_owners() {
    let keys: Arc<[Key]> = Arc::new(["name".into()]);
    let kind = |ownership| {
        let list = list(object(vec![field("name", text(), Ownership::Plain)]));
        let spec = object(vec![field("list", list, ownership)]);
        let definition = Definition::named("com.example.Kind");
        definition.define(object(vec![field("spec", spec, Ownership::Plain)]));
        Node::Named(Arc::new(definition))
    };
    let (granular, atomic) = (|| kind(Ownership::Keyed(Arc::clone(&keys))), || kind(Ownership::Atomic));
    let entries = |names: &[&str]| json!({"spec": {"list": names.iter().map(|name| json!({"name": name, "v": 1})).collect::<Vec<_>>()}});
    let mut world = World::of(granular());
    world.apply("a", entries(&["x"]));
    world.versions = Box::new(atomic());
    assert!(world.refused("b", entries(&["y"])).ends_with("conflict with \"a\": .spec.list"));
    world.apply("a", entries(&["x", "y"])).owned("a", json!({"f:spec": {"f:list": {}}}));
    world.versions = Box::new(granular());
    let mut other = entries(&["x"]);
    other["spec"]["list"][0]["v"] = json!(2);
    assert!(world.refused("b", other).ends_with("conflict with \"a\": .spec.list[name=\"x\"].v"));
    world.apply("a", entries(&["y"])).has("spec", entries(&["y"])["spec"].clone());
}

#[test]
fn kinds_without_a_schema_have_maps_by_field_and_lists_as_a_whole() {
    let mut world = World::of(Node::Any);
    world.apply(
        "a",
        json!({"spec": {"m": {"x": 1}, "l": [1]}, "metadata": {"ownerReferences": [{"uid": "1"}]}}),
    );
    world.apply("b", json!({"spec": {"m": {"y": 1}}, "metadata": {"ownerReferences": [{"uid": "2"}]}}));
    world.has("spec", json!({"m": {"x": 1, "y": 1}, "l": [1]}));
    assert_eq!(metadata(&world.object)["ownerReferences"], json!([{"uid": "1"}, {"uid": "2"}]));
    assert!(world.refused("b", json!({"spec": {"l": [1, 2]}})).ends_with(".spec.l"));
}

#[test]
fn forged_entries_cannot_take_away_what_nobody_owns() {
    let mut world = World::new();
    world.apply("a", json!({"metadata": {"name": "n"}, "data": {"x": "1"}}));
    let forged = json!({"f:metadata": {".": {}, "f:name": {}, "f:uid": {}}, "f:apiVersion": {}, "f:data": {"i:0": {}, "k:{}": {}}});
    world.object["metadata"][FIELD][0]["fieldsV1"] = forged;
    world.apply("a", json!({"data": {"x": "1"}}));
    assert_eq!(
        (&metadata(&world.object)["name"], &metadata(&world.object)["uid"]),
        (&json!("n"), &json!("u"))
    );
    assert_eq!(world.object["apiVersion"], "v1");
}

#[test]
fn many_conflicts_are_counted_but_not_all_listed() {
    let data = |value: &str| {
        let mut data = Object::new();
        for number in 0..3_000 {
            data.insert(format!("k{number}"), value.into());
        }
        json!({ "data": data })
    };
    let mut world = World::new();
    world.apply("a", data("1"));
    match world.run("b", data("2"), false) {
        Err(ApplyError::Conflicts(conflicts)) => {
            assert_eq!((conflicts.count, conflicts.listed.len()), (3_000, 1_000));
            assert!(conflicts.to_string().ends_with("\nand 2000 more"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn long_lists_are_quick() {
    let entries = |step: usize| -> Vec<Value> {
        (0..20_000).map(|number| json!({"name": format!("c{}", number * step % 20_011)})).collect()
    };
    let mut world = World::new();
    world.apply("a", json!({"spec": {"containers": entries(1)}}));
    world.apply("a", json!({"spec": {"containers": entries(7)}}));
    world.has("spec", json!({"containers": entries(7)}));
}

#[test]
fn many_managers_are_quick() {
    let mut world = World::new();
    let data = |range: std::ops::Range<u32>| json!({"data": range.map(|number| (format!("k{number}"), json!("1"))).collect::<Object>()});
    world.apply("me", data(0..5_000));
    let entry = |number: u32| {
        let fields = json!({"f:data": {format!("f:k{number}"): {}}});
        json!({"manager": format!("m{number}"), "operation": "Apply", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    };
    let list = world.object["metadata"][FIELD].as_array_mut().unwrap();
    list.extend((0..5_000).map(|number| entry(number * 2)));
    world.apply("me", data(10_000..15_000));
    assert_eq!(world.object["data"].as_object().map(Object::len), Some(2_500 + 5_000));
    world.update("u", "", |new| new["data"] = data(0..5_000)["data"].clone());
    world.owned("m2", json!({"f:data": {"f:k2": {}}}));
}
