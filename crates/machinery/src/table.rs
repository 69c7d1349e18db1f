//! Tables: the columns that `kubectl get` shows.
//!
//! A [`Column`] is data: what it is called and where its [`Cell`]s come from. [`definitions`] gives what a
//! `Table` says about its columns, [`cells`] the cells of one object. Nothing an object holds makes a cell fail:
//! a field of the wrong type counts as absent.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    object::{self, Object},
    time,
};

/// One column of a kind's table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading, such as `Ready`.
    pub name: Cow<'static, str>,
    /// The JSON type of its cells: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Cow<'static, str>,
    /// A hint for the client, such as `name`; mostly empty.
    pub format: Cow<'static, str>,
    /// What it tells.
    pub description: Cow<'static, str>,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: u8,
    /// Where its cells come from.
    pub cell: Cell,
}

/// Where the cells of a column come from. Paths are field names with dots between them.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The object's name.
    Name,
    /// The time since its creation, for people.
    Age,
    /// The scalar under a path of field names such as `spec.replicas`; `<none>` if there is none.
    Path(&'static str),
    /// The scalar under a path, as text; the second text if there is none or it is empty.
    Text(&'static str, &'static str),
    /// The integer under a path, 0 if there is none.
    Int(&'static str),
    /// The boolean under a path, or what it means when there is none.
    Bool(&'static str, bool),
    /// How many entries the lists and maps under these paths have together.
    Count(&'static [&'static str]),
    /// What the entries of the list under a path have under a field (empty: the entries themselves), with
    /// commas between them; the last text if that is empty.
    Joined(&'static str, &'static str, &'static str),
    /// The time since the timestamp under a path, for people; the second text if there is none.
    Since(&'static str, &'static str),
    /// Worked out from the object and the time.
    With(fn(&Object, Timestamp) -> Value),
}

impl Column {
    /// A column that is always shown.
    pub fn new(name: impl Into<Cow<'static, str>>, kind: impl Into<Cow<'static, str>>, cell: Cell) -> Self {
        let (name, kind) = (name.into(), kind.into());
        Column { name, kind, format: "".into(), description: "".into(), priority: 0, cell }
    }

    /// Shown with `-o wide` only.
    pub fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// With a hint for the client.
    pub fn format(mut self, format: impl Into<Cow<'static, str>>) -> Self {
        self.format = format.into();
        self
    }

    /// With what it tells.
    pub fn about(mut self, description: impl Into<Cow<'static, str>>) -> Self {
        self.description = description.into();
        self
    }
}

/// The `columnDefinitions` of a table.
pub fn definitions(columns: &[Column]) -> Vec<Value> {
    let definition = |column: &Column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    };
    columns.iter().map(definition).collect()
}

/// The cells of one object: one for each column.
pub fn cells(columns: &[Column], object: &Object, now: Timestamp) -> Vec<Value> {
    columns.iter().map(|column| cell(&column.cell, object, now)).collect()
}

fn cell(cell: &Cell, object: &Object, now: Timestamp) -> Value {
    match *cell {
        Cell::Name => object::name(object).into(),
        Cell::Age => since(find(object, "metadata.creationTimestamp"), now).into(),
        Cell::Path(path) => {
            find(object, path).filter(|value| is_scalar(value)).map_or("<none>".into(), Value::clone)
        }
        Cell::Text(path, absent) => text(find(object, path), absent).into(),
        Cell::Int(path) => find(object, path).and_then(Value::as_i64).unwrap_or_default().into(),
        Cell::Bool(path, absent) => find(object, path).and_then(Value::as_bool).unwrap_or(absent).into(),
        Cell::Count(paths) => {
            paths.iter().map(|path| find(object, path).map_or(0, len)).sum::<usize>().into()
        }
        Cell::Joined(path, field, none) => joined(find(object, path), field, none).into(),
        Cell::Since(path, absent) => match find(object, path) {
            None => absent.into(),
            time => since(time, now).into(),
        },
        Cell::With(work_out) => work_out(object, now),
    }
}

/// The value under field names with dots between them; `null` counts as absent.
pub fn find<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut fields = path.split('.');
    let first = object.get(fields.next()?)?;
    fields.try_fold(first, |value, field| value.get(field)).filter(|value| !value.is_null())
}

/// A scalar as text, or `absent` if it is none or empty.
pub fn text(value: Option<&Value>, absent: &str) -> String {
    match value {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
        _ => absent.to_owned(),
    }
}

/// The time since a timestamp, for people: `<unknown>` when there is none, `<invalid>` when it is to come.
pub fn since(timestamp: Option<&Value>, now: Timestamp) -> String {
    match timestamp.and_then(Value::as_str).and_then(time::parse) {
        Some(then) => between(then, now),
        None => "<unknown>".to_owned(),
    }
}

/// The time from one moment to another, for people.
pub fn between(from: Timestamp, to: Timestamp) -> String {
    time::human_duration(to.duration_since(from).as_secs())
}

fn joined(list: Option<&Value>, field: &str, none: &str) -> String {
    let entries = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let part = |entry| text(if field.is_empty() { Some(entry) } else { entry.get(field) }, "");
    let joined = entries.iter().map(part).collect::<Vec<_>>().join(",");
    if joined.is_empty() { none.to_owned() } else { joined }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

fn len(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00.5Z".parse().expect("a time")
    }

    fn one(cell: Cell, object: Value) -> Value {
        let object = object.as_object().expect("an object").clone();
        cells(&[Column::new("X", "string", cell)], &object, now()).remove(0)
    }

    #[test]
    fn ages_are_written_for_people() {
        let cases = [
            (json!("2026-03-01T11:59:55Z"), "5s"),
            (json!("2026-03-01T11:57:00Z"), "3m"),
            (json!("2026-02-27T11:00:00Z"), "2d1h"),
            (json!("2026-03-01T12:00:02Z"), "0s"),
            (json!("2026-03-01T12:00:09Z"), "<invalid>"),
            (json!(null), "<unknown>"),
            (json!(7), "<unknown>"),
            (json!("yesterday"), "<unknown>"),
        ];
        for (created, shown) in cases {
            let object = json!({"metadata": {"creationTimestamp": created}});
            assert_eq!(one(Cell::Age, object.clone()), shown, "{object}");
        }
        assert_eq!(one(Cell::Age, json!({})), "<unknown>");
    }

    #[test]
    fn cells_are_found_by_path() {
        let object = json!({
            "metadata": {"name": "a"},
            "spec": {"n": 3, "s": "text", "empty": "", "yes": true, "nothing": null, "map": {"x": 1, "y": 2}},
            "list": [{"k": "v"}, {"k": "w"}, {}],
            "plain": ["a", "b"],
            "seen": "2026-03-01T11:59:00Z",
        });
        let cases = [
            (Cell::Name, json!("a")),
            (Cell::Path("spec.n"), json!(3)),
            (Cell::Path("spec.yes"), json!(true)),
            (Cell::Path("spec.nothing"), json!("<none>")),
            (Cell::Path("spec.map"), json!("<none>")),
            (Cell::Path("spec.n.deeper"), json!("<none>")),
            (Cell::Text("spec.n", "-"), json!("3")),
            (Cell::Text("spec.empty", "-"), json!("-")),
            (Cell::Text("absent", ""), json!("")),
            (Cell::Int("spec.n"), json!(3)),
            (Cell::Int("spec.s"), json!(0)),
            (Cell::Bool("spec.yes", false), json!(true)),
            (Cell::Bool("spec.s", true), json!(true)),
            (Cell::Count(&["spec.map", "list", "absent", "spec.s"]), json!(5)),
            (Cell::Joined("list", "k", "-"), json!("v,w,")),
            (Cell::Joined("plain", "", "-"), json!("a,b")),
            (Cell::Joined("absent", "k", "-"), json!("-")),
            (Cell::Since("seen", "-"), json!("60s")),
            (Cell::Since("absent", "-"), json!("-")),
            (Cell::With(|object, _| object.len().into()), json!(5)),
        ];
        for (cell, shown) in cases {
            assert_eq!(one(cell.clone(), object.clone()), shown, "{cell:?}");
        }
    }

    #[test]
    fn definitions_have_every_field() {
        let column =
            Column::new("Name", "string", Cell::Name).format("name").about("What it is called.").wide();
        let expected = json!([{
            "name": "Name", "type": "string", "format": "name", "description": "What it is called.", "priority": 1
        }]);
        assert_eq!(Value::from(definitions(&[column])), expected);
    }
}
