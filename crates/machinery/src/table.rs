//! Tables: the columns that `kubectl get` shows.
//!
//! A [`Column`] is data: what it is called and where its [`Cell`]s come from. [`definitions`] gives what a
//! `Table` says about its columns, [`cells`] the cells of one object. Nothing an object holds makes a cell fail:
//! a field of the wrong type counts as absent.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    jsonpath::JsonPath,
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
    /// The first value that a path of a custom resource definition finds, if it is of the column's type.
    Found(Arc<JsonPath>, Typed),
}

/// What the cells of a custom resource's column are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Any value as text; maps and lists as JSON.
    Text,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
    /// A timestamp, shown as the time since.
    Date,
}

impl Typed {
    /// The type of a column by its name in a custom resource definition.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Typed::Text,
            "integer" => Typed::Integer,
            "number" => Typed::Number,
            "boolean" => Typed::Boolean,
            "date" => Typed::Date,
            _ => return None,
        })
    }
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

/// The columns of a custom resource, made from its `additionalPrinterColumns`: the name, then those, or the age if
/// there are none. A column that cannot be made sense of is left out.
pub fn custom_columns(definitions: &[Value]) -> Vec<Column> {
    let name = Column::new("Name", "string", Cell::Name)
        .format("name")
        .about("The name, unique among the objects of its kind.");
    let mut columns = vec![name];
    if definitions.is_empty() {
        let created = json!({
            "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": "When it was created.",
        });
        columns.extend(custom_column(&created));
    }
    columns.extend(definitions.iter().filter_map(custom_column));
    columns
}

fn custom_column(definition: &Value) -> Option<Column> {
    let text = |key: &str| definition.get(key).and_then(Value::as_str).unwrap_or_default();
    let typed = Typed::named(text("type"))?;
    let path = JsonPath::compile(text("jsonPath")).ok()?;
    let about = match text("description") {
        "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")),
        about => about.to_owned(),
    };
    let mut column =
        Column::new(text("name").to_owned(), text("type").to_owned(), Cell::Found(Arc::new(path), typed))
            .format(text("format").to_owned())
            .about(about);
    let priority = definition.get("priority").and_then(Value::as_i64).unwrap_or_default();
    column.priority = u8::try_from(priority.max(0)).unwrap_or(u8::MAX);
    Some(column)
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
    match cell {
        Cell::Name => object::name(object).into(),
        Cell::Age => since(find(object, "metadata.creationTimestamp"), now).into(),
        Cell::Path(path) => {
            find(object, path).filter(|value| is_scalar(value)).map_or("<none>".into(), Value::clone)
        }
        Cell::Text(path, absent) => text(find(object, path), absent).into(),
        Cell::Int(path) => find(object, path).and_then(Value::as_i64).unwrap_or_default().into(),
        Cell::Bool(path, absent) => find(object, path).and_then(Value::as_bool).unwrap_or(*absent).into(),
        Cell::Count(paths) => {
            paths.iter().map(|path| find(object, path).map_or(0, len)).sum::<usize>().into()
        }
        Cell::Joined(path, field, none) => joined(find(object, path), field, none).into(),
        Cell::Since(path, absent) => match find(object, path) {
            None => (*absent).into(),
            time => since(time, now).into(),
        },
        Cell::With(work_out) => work_out(object, now),
        Cell::Found(path, typed) => {
            path.find(object).next().map_or(Value::Null, |value| shown(value, *typed, now))
        }
    }
}

/// A value as a cell of this type; `null` if it is of another.
fn shown(value: &Value, typed: Typed, now: Timestamp) -> Value {
    match (typed, value) {
        (_, Value::Null) => Value::Null,
        (Typed::Text, Value::String(text)) => text.as_str().into(),
        (Typed::Text, value) => value.to_string().into(),
        (Typed::Integer, Value::Number(number)) if number.is_f64() => {
            number.as_f64().map_or(Value::Null, |float| (float as i64).into())
        }
        (Typed::Integer | Typed::Number, Value::Number(_)) | (Typed::Boolean, Value::Bool(_)) => {
            value.clone()
        }
        (Typed::Date, Value::String(text)) if text.is_empty() => "<unknown>".into(),
        (Typed::Date, Value::String(text)) => match time::parse(text) {
            Some(then) => between(then, now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
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
    match entries.is_empty() {
        true => none.to_owned(),
        false => entries.iter().map(part).collect::<Vec<_>>().join(","),
    }
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
    fn custom_columns_show_what_their_type_allows() {
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-03-01T11:57:00Z"},
            "spec": {"n": 3, "f": 2.5, "s": "text", "yes": true, "nothing": null, "map": {"x": [1]}, "bad": "soon"},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let object = object.as_object().expect("an object");
        let cases = [
            ("string", ".spec.s", json!("text")),
            ("string", ".spec.n", json!("3")),
            ("string", ".spec.map", json!(r#"{"x":[1]}"#)),
            ("string", ".spec.nothing", json!(null)),
            ("string", ".spec.absent", json!(null)),
            ("string", r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            ("integer", ".spec.n", json!(3)),
            ("integer", ".spec.f", json!(2)),
            ("integer", ".spec.s", json!(null)),
            ("number", ".spec.f", json!(2.5)),
            ("number", ".spec.n", json!(3)),
            ("boolean", ".spec.yes", json!(true)),
            ("boolean", ".spec.n", json!(null)),
            ("date", ".metadata.creationTimestamp", json!("3m")),
            ("date", ".spec.bad", json!("<invalid>")),
            ("date", ".spec.absent", json!(null)),
        ];
        for (kind, path, shown) in cases {
            let columns = custom_columns(&[json!({"name": "X", "type": kind, "jsonPath": path})]);
            assert_eq!(cells(&columns, object, now()), [json!("a"), shown], "{kind} {path}");
        }
    }

    #[test]
    fn custom_columns_are_described_as_they_were_defined() {
        let columns = custom_columns(&[
            json!({"name": "Wide", "type": "string", "jsonPath": ".a", "priority": 1, "format": "byte",
                "description": "About."}),
            json!({"name": "Plain", "type": "integer", "jsonPath": ".b"}),
            json!({"name": "Broken", "type": "integer", "jsonPath": ".b["}),
            json!({"name": "Unknown", "type": "colour", "jsonPath": ".b"}),
        ]);
        let expected = json!([
            {"name": "Name", "type": "string", "format": "name", "priority": 0,
                "description": "The name, unique among the objects of its kind."},
            {"name": "Wide", "type": "string", "format": "byte", "priority": 1, "description": "About."},
            {"name": "Plain", "type": "integer", "format": "", "priority": 0,
                "description": "Custom resource definition column (in JSONPath format): .b"},
        ]);
        assert_eq!(Value::from(definitions(&columns)), expected);
        let age = custom_columns(&[]);
        assert_eq!(age.iter().map(|column| &*column.name).collect::<Vec<_>>(), ["Name", "Age"]);
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
