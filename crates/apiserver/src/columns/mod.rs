//! The columns of the built-in kinds, as `kubectl get` shows them.
//!
//! Data first: each kind is a list of columns, and only what no path can express is worked out by a function.
//! Objects come in their stored form: events as in the core group, autoscalers as in `autoscaling/v2`. The cells
//! are those of `-o wide`; the client leaves out what it does not show. Start at [`of`].

mod access;
mod cluster;
mod devices;
mod extension;
mod network;
mod pods;
mod scaling;
mod storage;
#[cfg(test)]
mod tests;
mod words;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_machinery::{
    object::{self, Object},
    table::{Cell, Column},
};

/// The columns of a kind by its group and name, if the family has it.
type Family = fn(&str, &str) -> Option<Vec<Column>>;

/// The columns of a kind. Kinds without a table of their own show their name and when they were created.
pub(crate) fn of(group: &str, kind: &str) -> Vec<Column> {
    const FAMILIES: [Family; 9] = [
        pods::of,
        workloads::of,
        scaling::of,
        network::of,
        storage::of,
        devices::of,
        cluster::of,
        access::of,
        extension::of,
    ];
    FAMILIES.iter().find_map(|family| family(group, kind)).unwrap_or_else(|| vec![name(), created()])
}

/// The `conditions` of an object's row: only finished pods have any.
#[allow(dead_code)]
pub(crate) fn row_conditions(group: &str, kind: &str, object: &Object) -> Vec<Value> {
    let phase = object::str_at(object, &["status", "phase"]);
    let message = match (group, kind, phase) {
        ("", "Pod", Some("Succeeded")) => "The pod has completed successfully.",
        ("", "Pod", Some("Failed")) => "The pod failed.",
        _ => return vec![],
    };
    vec![json!({"type": "Completed", "status": "True", "reason": phase, "message": message})]
}

fn name() -> Column {
    string("Name", Cell::Name).format("name").about("The name, unique among the objects of its kind.")
}

fn age() -> Column {
    string("Age", Cell::Age).about("The time since it was created.")
}

fn created() -> Column {
    let cell = Cell::Text("metadata.creationTimestamp", "<unknown>");
    Column::new("Created At", "date", cell).about("When it was created.")
}

/// A column of strings.
fn string(name: &'static str, cell: Cell) -> Column {
    Column::new(name, "string", cell)
}

/// A column of integers.
fn integer(name: &'static str, cell: Cell) -> Column {
    Column::new(name, "integer", cell)
}

/// A column of booleans.
fn boolean(name: &'static str, cell: Cell) -> Column {
    Column::new(name, "boolean", cell)
}

/// A column of the text under a path, empty if there is none.
fn path(name: &'static str, path: &'static str) -> Column {
    string(name, Cell::Text(path, ""))
}

/// A column of strings that are worked out.
fn with(name: &'static str, work_out: fn(&Object, Timestamp) -> Value) -> Column {
    string(name, Cell::With(work_out))
}
