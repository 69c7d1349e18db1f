//! What objects make of the rules.

use fastrand::Rng;
use serde_json::{Value, json};

use super::*;

fn kind(name: &str) -> KindId {
    KindId::all().find(|id| id.kind().kind == name).expect("a kind")
}

fn object(name: &str, app: Option<&str>, spec: Value) -> Arc<DynamicObject> {
    let labels = app.map(|app| json!({ APP_LABEL: app }));
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    let object = json!({"metadata": metadata, "spec": spec});
    Arc::new(serde_json::from_value(object).expect("an object"))
}

fn limit(name: &str, app: Option<&str>, threshold: impl Into<Value>) -> Arc<DynamicObject> {
    let threshold: Value = threshold.into();
    let spec = json!({
        "metricType": "RequestAmount", "limitMode": "Local", "threshold": threshold, "statDurationSeconds": 1,
    });
    object(name, app, spec)
}

fn limits() -> KindId {
    kind("RateLimitStrategy")
}

fn apps(names: &[&str]) -> BTreeSet<App> {
    names.iter().map(|name| App::new("default", name)).collect()
}

fn topic(app: &str) -> Topic {
    Topic { app: App::new("default", app), kind: limits() }
}

#[test]
fn only_those_are_touched_whose_rules_are_others_now() {
    let mut rules = Rules::default();
    let mut apply = |object| rules.apply(limits(), object);
    assert_eq!(apply(limit("a", Some("one"), 1)), apps(&["one"]));
    assert_eq!(apply(limit("a", Some("one"), 1)), apps(&[]), "it says the same");
    assert_eq!(apply(limit("a", Some("one"), 2)), apps(&["one"]));
    assert_eq!(apply(limit("a", Some("two"), 2)), apps(&["one", "two"]));
    assert_eq!(apply(limit("a", Some("two"), "many")), apps(&[]), "what it said last stays");
    assert_eq!(apply(limit("a", Some("one"), "many")), apps(&["one", "two"]), "and goes with it");
    assert_eq!(apply(limit("a", None, 2)), apps(&["one"]));
    assert_eq!(apply(limit("a", Some(""), 3)), apps(&[]), "an empty label is none");
    assert_eq!(apply(limit("never", Some("one"), "many")), apps(&[]), "of it there is nothing to tell");
    assert_eq!(rules.remove(limits(), &Key::new("default", "a")), apps(&[]));
    assert_eq!(rules.remove(limits(), &Key::new("default", "a")), apps(&[]), "it is gone already");
    assert_eq!((rules.count(limits()), rules.count_untranslatable(limits())), (1, 1));
}

#[test]
fn content_is_the_same_however_it_came_about() {
    let (mut one, mut two) = (Rules::default(), Rules::default());
    for name in ["a", "b", "c"] {
        one.apply(limits(), limit(name, Some("shop"), 1));
    }
    for name in ["c", "d", "a", "b"] {
        two.apply(limits(), limit(name, Some("shop"), 7));
    }
    for name in ["b", "a", "c"] {
        two.apply(limits(), limit(name, Some("shop"), 1));
    }
    assert_ne!(one.content(&topic("shop")), two.content(&topic("shop")));
    assert_eq!(two.remove(limits(), &Key::new("default", "d")), apps(&["shop"]));
    assert_eq!(one.content(&topic("shop")), two.content(&topic("shop")));
    let nothing = one.content(&topic("nobody"));
    assert_eq!((nothing.n_rules, nothing.data.len()), (0, 0));
}

/// Clients that are told less than there was take the rest for deleted.
#[test]
fn a_topic_is_withheld_while_nobody_knows_what_something_in_it_said() {
    let mut rules = Rules::default();
    let accepted = |threshold: Value| {
        let mut object = (*limit("a", Some("shop"), threshold)).clone();
        object.data["status"] = json!({"conditions": [{"type": ACCEPTED, "status": "True"}]});
        Arc::new(object)
    };
    rules.apply(limits(), limit("b", Some("shop"), 1));
    assert_eq!(rules.content(&topic("shop")).withheld, None);
    assert_eq!(rules.apply(limits(), accepted(json!("many"))), apps(&["shop"]));
    assert_eq!(rules.content(&topic("shop")).withheld, Some(Withheld::LastGoodUnknown));
    assert_eq!(rules.content(&topic("other")).withheld, None);
    assert_eq!(rules.apply(limits(), accepted(json!(2))), apps(&["shop"]));
    assert_eq!((rules.content(&topic("shop")).withheld, rules.content(&topic("shop")).n_rules), (None, 2));
    rules.apply(limits(), accepted(json!("many")));
    assert_eq!(rules.content(&topic("shop")).withheld, None, "it is known what it said");
    let mut rules = Rules::default();
    rules.apply(limits(), accepted(json!("many")));
    assert_eq!(rules.remove(limits(), &Key::new("default", "a")), apps(&["shop"]));
    assert_eq!(rules.content(&topic("shop")).withheld, None, "it is gone");
}

/// Whoever may write a status may write anything there.
#[test]
fn only_what_is_of_its_kind_is_told_instead_of_a_rule() {
    let told = |any: Option<prost_types::Any>| {
        let data = DataWithVersion { data: any.into_iter().collect(), version: 0 };
        let mut object = (*limit("a", Some("shop"), "many")).clone();
        object.data["status"] = json!({"told": STANDARD.encode(data.encode_to_vec())});
        let mut rules = Rules::default();
        rules.apply(limits(), Arc::new(object));
        rules.content(&topic("shop")).n_rules
    };
    let right = (limits().kind().translate)(&limit("a", Some("shop"), 1)).expect("a message");
    assert_eq!(told(Some(right.clone())), 1);
    assert_eq!(told(None), 0);
    let type_url = "type.googleapis.com/evil.Type".to_owned();
    assert_eq!(told(Some(prost_types::Any { type_url, ..right.clone() })), 0);
    assert_eq!(told(Some(prost_types::Any { value: vec![0xff], ..right })), 0);
}

#[test]
fn what_is_named_is_there_only_in_the_same_app() {
    let mut rules = Rules::default();
    let (of_rules, key) = (kind("FaultToleranceRule"), Key::new("default", "r"));
    let spec = json!({"targets": [{"targetResourceName": "/a"}], "strategies": [
        {"name": "a", "kind": "RateLimitStrategy"}, {"name": "b", "kind": "ThrottlingStrategy"},
    ]});
    rules.apply(of_rules, object("r", Some("shop"), spec));
    let names = |rules: &Rules| -> Vec<String> {
        rules.dangling(of_rules, &key).into_iter().map(|reference| reference.name).collect()
    };
    assert_eq!(names(&rules), ["a", "b"]);
    rules.apply(limits(), limit("b", Some("shop"), 1));
    assert_eq!(names(&rules), ["a", "b"], "it is of another kind");
    rules.apply(limits(), limit("a", Some("other"), 1));
    assert_eq!(names(&rules), ["a", "b"], "it is another app's");
    rules.apply(limits(), limit("a", Some("shop"), 1));
    assert_eq!(names(&rules), ["b"]);
    rules.apply(kind("ThrottlingStrategy"), object("b", Some("shop"), json!({})));
    assert_eq!(names(&rules), ["b"], "nobody is told of it");
    assert_eq!(rules.naming(&App::new("default", "shop")), [(of_rules, key.clone())]);
    assert_eq!(rules.naming(&App::new("default", "other")), []);
    assert_eq!(rules.dangling(of_rules, &Key::new("default", "gone")), []);
}

/// Whatever happens, what is told is what a look at all objects would find, and whoever is told something else is
/// among those that were touched.
#[test]
fn in_whatever_order_objects_come_and_go_nothing_is_missed() {
    let names = ["a", "b", "c"];
    let app_names = ["one", "two", "three"];
    for seed in 0..100 {
        let (mut rng, mut rules) = (Rng::with_seed(seed), Rules::default());
        // By name: the app, and what it said last that was right.
        let mut model: HashMap<&str, (Option<&str>, Option<i64>)> = HashMap::new();
        for _ in 0..200 {
            let before = app_names.map(|app| rules.content(&topic(app)));
            let name = names[rng.usize(..names.len())];
            let touched = match rng.u8(..5) {
                0 => {
                    model.remove(name);
                    rules.remove(limits(), &Key::new("default", name))
                }
                action => {
                    let app = app_names.get(rng.usize(..=app_names.len())).copied();
                    let threshold = (action > 1).then(|| rng.i64(..3).abs());
                    let known = model.get(name).and_then(|known| known.1);
                    model.insert(name, (app, threshold.or(known)));
                    let threshold = threshold.map_or(json!("many"), Value::from);
                    rules.apply(limits(), limit(name, app, threshold))
                }
            };
            for (app, before) in app_names.into_iter().zip(before) {
                let after = rules.content(&topic(app));
                assert_eq!(touched.contains(&App::new("default", app)), before != after, "{app}");
                let expected = model.values().filter(|(of, told)| *of == Some(app) && told.is_some());
                assert_eq!(after.n_rules, expected.count(), "{app}");
            }
        }
    }
}
