//! Merging what an `ApplyConfiguration` says into an object, by the kinds of its lists and maps.

use serde_json::Value;
use windlass_machinery::{
    object::Object,
    schema::{Node, Ownership},
};

/// Puts everything that is in a configuration into an object: maps by field, keyed lists by entry, sets by value. What
/// has one owner as a whole cannot be changed this way.
pub(super) fn merge(live: &mut Object, config: &Object, schema: &Node) -> Result<(), String> {
    Merging { path: String::new() }.map(live, config, schema)
}

struct Merging {
    /// Where it stands, such as `.spec.containers`.
    path: String,
}

impl Merging {
    fn below<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let len = self.path.len();
        self.path.push_str(step);
        let outcome = work(self);
        self.path.truncate(len);
        outcome
    }

    fn map(&mut self, live: &mut Object, config: &Object, node: &Node) -> Result<(), String> {
        for (name, value) in config.iter().filter(|(_, value)| !value.is_null()) {
            let (child, ownership) = match node.field(name) {
                Some(field) => (&field.node, &field.merge.ownership),
                None => (node.items().unwrap_or(&Node::Any), &Ownership::Plain),
            };
            let slot = live.entry(name.as_str()).or_insert(Value::Null);
            self.below(&format!(".{name}"), |merging| merging.value(slot, value, child, ownership))?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        live: &mut Value,
        config: &Value,
        node: &Node,
        ownership: &Ownership,
    ) -> Result<(), String> {
        match (config, ownership) {
            (Value::Object(_), Ownership::Atomic) => Err(self.atomic()),
            (Value::Object(_), _) if node.is_atomic() => Err(self.atomic()),
            (Value::Object(config), _) => {
                if !live.is_object() {
                    *live = Value::Object(Object::new());
                }
                match live.as_object_mut() {
                    Some(live) => self.map(live, config, node),
                    None => Ok(()),
                }
            }
            (Value::Array(config), Ownership::Keyed(keys)) => {
                let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
                self.entries(list(live), config, &keys, node.items().unwrap_or(&Node::Any))
            }
            (Value::Array(config), Ownership::Set) => {
                let live = list(live);
                for value in config {
                    if !live.contains(value) {
                        live.push(value.clone());
                    }
                }
                Ok(())
            }
            (Value::Array(_), _) => Err(self.atomic()),
            (scalar, _) => {
                *live = scalar.clone();
                Ok(())
            }
        }
    }

    fn entries(
        &mut self,
        live: &mut Vec<Value>,
        config: &[Value],
        keys: &[&str],
        node: &Node,
    ) -> Result<(), String> {
        for (index, entry) in config.iter().enumerate() {
            let Some(wanted) = entry.as_object() else {
                return Err(format!("{}[{index}] is no object", self.path));
            };
            if let Some(key) = keys.iter().find(|key| wanted.get(**key).is_none_or(Value::is_null)) {
                return Err(format!("{}[{index}] has no {key}, by which entries are told apart", self.path));
            }
            let same = |one: &&mut Value| keys.iter().all(|key| one.get(*key) == wanted.get(*key));
            let place = match live.iter_mut().find(same) {
                Some(known) => known,
                None => {
                    live.push(Value::Object(Object::new()));
                    let last = live.len() - 1;
                    &mut live[last]
                }
            };
            let Some(place) = place.as_object_mut() else { continue };
            self.below(&format!("[{index}]"), |merging| merging.map(place, wanted, node))?;
        }
        Ok(())
    }

    fn atomic(&self) -> String {
        format!("may not mutate atomic arrays, maps or structs: {}", self.path)
    }
}

/// The list in a value, which is made one.
fn list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(vec![]);
    }
    match value {
        Value::Array(list) => list,
        _ => unreachable!("it was made a list"),
    }
}
