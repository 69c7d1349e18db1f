//! Merging what an `ApplyConfiguration` says into an object, by the kinds of its lists and maps.

use serde_json::Value;
use windlass_machinery::{
    apply::merge_into,
    object::Object,
    schema::{Node, Ownership},
};

/// Puts everything that is in a configuration into an object: maps by field, keyed lists by entry, sets by value. What
/// has one owner as a whole cannot be changed this way.
pub(super) fn merge(live: &mut Object, mut config: Object, schema: &Node) -> Result<(), String> {
    Parts { path: String::new(), depth: 0 }.map(&mut config, schema)?;
    merge_into(live, &config, schema).map_err(|error| crate::chain(&error))
}

/// Goes through a configuration, drops what is null, and finds what cannot be changed in parts.
struct Parts {
    /// Where it stands, such as `.spec.containers`.
    path: String,
    depth: usize,
}

/// How deep a configuration may go; objects that are deeper could not be read any more.
const MOST_DEPTH: usize = 100;

impl Parts {
    fn below(
        &mut self,
        step: &str,
        work: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.depth == MOST_DEPTH {
            return Err(format!("it is nested more than {MOST_DEPTH} levels deep"));
        }
        let len = self.path.len();
        self.path.push_str(step);
        self.depth += 1;
        let outcome = work(self);
        self.depth -= 1;
        self.path.truncate(len);
        outcome
    }

    fn map(&mut self, config: &mut Object, node: &Node) -> Result<(), String> {
        config.retain(|_, value| !value.is_null());
        for (name, value) in config.iter_mut() {
            let (child, ownership) = match node.field(name) {
                Some(field) => (&field.node, &field.merge.ownership),
                // The metadata of every kind is the same, whether its schema says so or not.
                None if self.path.is_empty() && name == "metadata" => continue,
                None => (node.items().unwrap_or(&Node::Any), &Ownership::Plain),
            };
            self.below(&format!(".{name}"), |parts| parts.value(value, child, ownership))?;
        }
        Ok(())
    }

    fn value(&mut self, config: &mut Value, node: &Node, ownership: &Ownership) -> Result<(), String> {
        match (config, ownership) {
            (Value::Object(_) | Value::Array(_), Ownership::Atomic) => Err(self.atomic()),
            (Value::Object(_), _) if node.is_atomic() => Err(self.atomic()),
            (Value::Object(config), _) => self.map(config, node),
            (Value::Array(entries), Ownership::Keyed(_)) => {
                let items = node.items().unwrap_or(&Node::Any);
                for (index, entry) in entries.iter_mut().enumerate() {
                    self.below(&format!("[{index}]"), |parts| match entry {
                        Value::Object(entry) => parts.map(entry, items),
                        _ => Err(format!("{} is no object", parts.path)),
                    })?;
                }
                Ok(())
            }
            (Value::Array(_), Ownership::Plain) => Err(self.atomic()),
            _ => Ok(()),
        }
    }

    fn atomic(&self) -> String {
        format!("may not mutate atomic arrays, maps or structs: {}", self.path)
    }
}
