//! What holds for all configurations, tried on random ones.

use serde_json::{Map, Value, json};

use super::*;
use crate::managed::{
    tests::{map, schema},
    track,
};

const SEEDS: std::ops::Range<u64> = 0..600;

/// Random configurations for the schema of the managed fields' tests, in the form in which they can be extracted
/// again: without `null`s and without empty lists that merge.
struct Random(fastrand::Rng);

impl Random {
    fn new(seed: u64) -> Self {
        Random(fastrand::Rng::with_seed(seed))
    }

    fn scalar(&mut self) -> Value {
        [json!("x"), json!("y"), json!(1), json!(true)][self.0.usize(..4)].clone()
    }

    fn some(&mut self, names: &[&str], mut value: impl FnMut(&mut Self, &str) -> Option<Value>) -> Value {
        let mut map = Map::new();
        for name in names {
            if self.0.bool()
                && let Some(value) = value(self, name)
            {
                map.insert((*name).to_owned(), value);
            }
        }
        Value::Object(map)
    }

    fn list(&mut self, names: &[&str], mut value: impl FnMut(&mut Self, &str) -> Value) -> Option<Value> {
        let mut names = names.to_vec();
        self.0.shuffle(&mut names);
        let keep = self.0.usize(..=names.len());
        (keep > 0).then(|| names[..keep].iter().map(|name| value(self, name)).collect())
    }

    fn container(&mut self, name: &str) -> Value {
        let mut container =
            self.some(&["image", "args", "resources", "ports"], |random, field| match field {
                "args" => random.list(&["1", "2"], |_, arg| arg.into()),
                "resources" => Some(
                    random
                        .some(&["limits"], |random, _| Some(random.some(&["cpu"], |_, _| Some(json!("1"))))),
                ),
                "ports" => random.list(&["80", "81"], |random, port| {
                    let mut entry = random.some(&["name"], |random, _| Some(random.scalar()));
                    entry["containerPort"] = port.parse::<u16>().expect("a number").into();
                    if random.0.bool() {
                        entry["protocol"] = json!("TCP");
                    }
                    entry
                }),
                _ => Some(random.scalar()),
            });
        container["name"] = name.into();
        container
    }

    fn config(&mut self) -> Object {
        let config = self.some(&["metadata", "spec", "data", "status"], |random, field| {
            Some(match field {
                "metadata" => random.some(
                    &["labels", "annotations", "finalizers", "ownerReferences"],
                    |random, field| match field {
                        "finalizers" => random.list(&["f", "g"], |_, name| name.into()),
                        "ownerReferences" => random
                            .list(&["1", "2"], |random, uid| json!({"uid": uid, "name": random.scalar()})),
                        _ => Some(random.some(&["a", "b"], |random, _| Some(random.scalar()))),
                    },
                ),
                "spec" => random.some(
                    &["replicas", "selector", "containers", "modes", "strategy", "more"],
                    |random, field| match field {
                        "selector" | "strategy" => {
                            Some(random.some(&["type", "b"], |random, _| Some(random.scalar())))
                        }
                        "containers" => random.list(&["a", "b", "c"], Self::container),
                        "modes" => random.list(&["m", "n", "o"], |_, name| name.into()),
                        _ => Some(random.scalar()),
                    },
                ),
                "data" => random.some(&["a", "b", "c"], |random, _| Some(random.scalar())),
                _ => random.some(&["a", "b"], |random, _| {
                    Some(random.some(&["c", "d"], |random, _| Some(random.scalar())))
                }),
            })
        });
        let mut config = map(&config);
        if metadata(&config).is_empty() {
            config.remove("metadata");
        }
        config
    }

    /// An object that others have written, by applying and by updating.
    fn live(&mut self) -> Object {
        let mut live = Object::new();
        for round in 0..self.0.u32(..5) {
            let (name, config) = (format!("m{}", self.0.u32(..3)), self.config());
            let mut new = match self.0.bool() {
                true => applied(&live, &config, &name, true).expect("force"),
                false => {
                    let mut new = config;
                    let time = round.to_string();
                    let write = Write { operation: Operation::Update, ..write(&name, &time) };
                    track((!live.is_empty()).then_some(&live), &mut new, &schema(), &write);
                    new
                }
            };
            metadata_mut(&mut new).insert("uid".to_owned(), "u".into());
            live = new;
        }
        live
    }
}

fn write<'a>(manager: &'a str, time: &'a str) -> Write<'a> {
    Write { manager, operation: Operation::Apply, api_version: "v1", subresource: "", time, unowned: None }
}

fn applied(live: &Object, config: &Object, manager: &str, force: bool) -> Result<Object, ApplyError> {
    apply(live, config, &Request { write: write(manager, "9"), versions: &schema(), force })
}

fn entries(object: &Object) -> Managers {
    metadata(object).get(FIELD).cloned().map(Managers::trusted).unwrap_or_default()
}

fn fields(object: &Object, manager: &str) -> FieldSet {
    let entry = entries(object)
        .0
        .into_iter()
        .find(|entry| entry.manager == manager && entry.operation == Operation::Apply);
    entry.map(|entry| entry.fields).unwrap_or_default()
}

/// What an entry is known by.
fn kin(entry: &Entry) -> (Operation, String, String, String) {
    (entry.operation, entry.manager.clone(), entry.api_version.clone(), entry.subresource.clone())
}

/// The same with all lists in one order, and without what has no meaning.
fn settled(value: &Value) -> Value {
    match value {
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(settled).collect();
            list.sort_by_key(Value::to_string);
            Value::Array(list)
        }
        Value::Object(map) => {
            let rest = map.iter().filter(|(name, _)| !["managedFields", "uid"].contains(&name.as_str()));
            let mut map: Object = rest.map(|(name, value)| (name.clone(), settled(value))).collect();
            if map.get("metadata").and_then(Value::as_object).is_some_and(Object::is_empty) {
                map.remove("metadata");
            }
            Value::Object(map)
        }
        scalar => scalar.clone(),
    }
}

/// The same without maps that are empty, or are then.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.into_iter().map(|(name, value)| (name, without_empty(value)));
            Value::Object(fields.filter(|(_, value)| *value != json!({})).collect())
        }
        other => other,
    }
}

#[test]
fn merging_and_extracting_gives_what_was_applied() {
    for seed in SEEDS {
        let mut random = Random::new(seed);
        let (live, config) = (random.live(), random.config());
        let merged = applied(&live, &config, "me", true).expect("force");
        let extracted = fields(&merged, "me").extract(&merged, &schema());
        assert_eq!(extracted, config, "seed {seed}: {live:?}");
    }
}

#[test]
fn applying_again_changes_nothing() {
    for seed in SEEDS {
        let mut random = Random::new(seed);
        let (live, config) = (random.live(), random.config());
        let once = applied(&live, &config, "me", true).expect("force");
        let twice = applied(&once, &config, "me", false).expect("nothing changes, so nobody is in the way");
        assert_eq!(twice, once, "seed {seed}");
    }
}

#[test]
fn without_force_nothing_changes_that_others_own() {
    let mut taken = 0;
    for seed in SEEDS {
        let mut random = Random::new(seed);
        let (live, config) = (random.live(), random.config());
        let Ok(merged) = applied(&live, &config, "m0", false) else { continue };
        taken += 1;
        for entry in entries(&live).0.iter().filter(|entry| !entry.is_by(&write("m0", ""))) {
            let after = entries(&merged).0.into_iter().find(|after| kin(after) == kin(entry));
            let left = after.map(|after| after.fields).unwrap_or_default();
            let extract = |set: &FieldSet, object| settled(&Value::Object(set.extract(object, &schema())));
            assert_eq!(extract(&left, &live), extract(&left, &merged), "seed {seed}: {entry:?}");
        }
    }
    assert!(taken > 50, "{taken}");
}

/// Splits a configuration in two that have no field in common, but for the keys of entries that both have.
fn split(random: &mut Random, value: &Value, keys: &[&str]) -> (Value, Value) {
    let Value::Object(map) = value else { unreachable!("only maps are split") };
    let (mut one, mut other) = (Map::new(), Map::new());
    for (name, value) in map {
        if keys.contains(&name.as_str()) {
            one.insert(name.clone(), value.clone());
            other.insert(name.clone(), value.clone());
            continue;
        }
        let below: &[&str] = match name.as_str() {
            "containers" => &["name"],
            "ports" => &["containerPort", "protocol"],
            "ownerReferences" => &["uid"],
            _ => &[],
        };
        let parts = match value {
            Value::Object(map) if name != "selector" && !map.is_empty() => {
                let (one, other) = split(random, value, &[]);
                [one, other].map(|part| part.as_object().is_some_and(|map| !map.is_empty()).then_some(part))
            }
            Value::Array(list) if !below.is_empty() => {
                let mut parts = [vec![], vec![]];
                for entry in list {
                    let (one, other) = split(random, entry, below);
                    match random.0.u8(..3) {
                        0 => parts[0].push(entry.clone()),
                        1 => parts[1].push(entry.clone()),
                        _ => {
                            parts[0].push(one);
                            parts[1].push(other);
                        }
                    }
                }
                parts.map(|part| (!part.is_empty()).then_some(Value::Array(part)))
            }
            Value::Array(list) if ["modes", "finalizers"].contains(&name.as_str()) => {
                let (one, other): (Vec<Value>, Vec<Value>) =
                    list.iter().cloned().partition(|_| random.0.bool());
                [one, other].map(|part| (!part.is_empty()).then_some(Value::Array(part)))
            }
            _ if random.0.bool() => [Some(value.clone()), None],
            _ => [None, Some(value.clone())],
        };
        for (target, part) in [&mut one, &mut other].into_iter().zip(parts) {
            if let Some(part) = part {
                target.insert(name.clone(), part);
            }
        }
    }
    (Value::Object(one), Value::Object(other))
}

/// Other values wherever there is one that is no key.
fn changed(value: &Value, name: &str) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(name, value)| (name.clone(), changed(value, name))).collect())
        }
        Value::Array(_) if ["modes", "finalizers"].contains(&name) => value.clone(),
        Value::Array(list) => list.iter().map(|value| changed(value, "")).collect(),
        key if ["name", "containerPort", "protocol", "uid"].contains(&name) => key.clone(),
        _ => json!("changed"),
    }
}

#[test]
fn managers_of_disjoint_fields_are_never_in_each_others_way() {
    for seed in SEEDS {
        let mut random = Random::new(seed);
        let whole = Value::Object(random.config());
        let (one, other) = split(&mut random, &whole, &[]);
        let first = applied(&Object::new(), &map(&one), "one", false).expect("nobody is there");
        let both = applied(&first, &map(&other), "other", false);
        let both = both.unwrap_or_else(|error| panic!("seed {seed}: {error}: {one} and {other}"));
        assert_eq!(settled(&Value::Object(both.clone())), settled(&whole), "seed {seed}: {one} and {other}");
        for (manager, config) in [("one", &one), ("other", &other)] {
            let config = changed(config, "");
            let done = applied(&both, &map(&config), manager, false);
            assert!(done.is_ok(), "seed {seed}: {done:?}: {manager} changes {config}");
        }
    }
}

#[test]
fn whoever_gives_up_everything_leaves_what_was_there_before() {
    for seed in SEEDS {
        let mut random = Random::new(seed);
        let (live, config) = (random.live(), random.config());
        let Ok(merged) = applied(&live, &config, "me", false) else { continue };
        let left = applied(&merged, &Object::new(), "me", false).expect("nothing is asked for");
        // Where nobody owns an empty map, it may go with what was in it for a while.
        let of = |object: Object| without_empty(settled(&Value::Object(object)));
        assert_eq!(of(left), of(live), "seed {seed}: {config:?}");
    }
}
