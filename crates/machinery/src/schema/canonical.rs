//! The form in which Go's types write an object: zero values where they are always written, nothing where they are
//! left out.
//!
//! Clients read through structs that are always there (`status.loadBalancer.ingress`), JSON patches add to them, and
//! who owns what depends on which fields an object has. So every object of a built-in kind is put into this form
//! before it is compared, owned and stored. What it does with a field is the field's [`Presence`].

use serde_json::Value;

use super::{Field, Format, Node, Presence};
use crate::object::Object;

/// Puts an object into the form in which Go's types write it.
///
/// Doing so twice changes nothing. Unknown fields stay as they are.
pub fn canonicalize(node: &Node, object: &mut Object) {
    write_object(node, object, Empty::Kept);
}

/// The same for an object that is stored: the storage format of Kubernetes does not tell empty lists and maps from
/// absent ones, so what is always written and empty becomes `null`.
pub fn canonicalize_stored(node: &Node, object: &mut Object) {
    write_object(node, object, Empty::Null);
}

/// What becomes of empty lists and maps that are always written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    Kept,
    Null,
}

fn write_object(node: &Node, object: &mut Object, empty: Empty) {
    if let Node::Object(fields) = node.resolve() {
        write_fields(fields, object, empty);
    }
}

fn write_fields(fields: &[Field], object: &mut Object, empty: Empty) {
    object.retain(|name, value| match fields.binary_search_by(|field| (*field.name).cmp(name)) {
        Ok(index) => write_field(&fields[index], value, empty),
        Err(_) => true,
    });
    for field in fields {
        if is_always_written(field) && !object.contains_key(&*field.name) {
            object.insert(String::from(&*field.name), zero(field));
        }
    }
}

/// Writes the value of a field; false when the field is left out.
fn write_field(field: &Field, value: &mut Value, empty: Empty) -> bool {
    if value.is_null() {
        *value = zero(field);
        return is_always_written(field);
    }
    write_value(&field.node, value, empty);
    match field.presence {
        Presence::Optional | Presence::Nullable => true,
        Presence::OmitEmpty => is_struct(&field.node) || !is_empty(value),
        Presence::OmitZero => !is_empty(value),
        Presence::Always => {
            if empty == Empty::Null && !is_struct(&field.node) && is_empty(value) {
                *value = zero(field);
            }
            true
        }
    }
}

fn write_value(node: &Node, value: &mut Value, empty: Empty) {
    match (node.resolve(), value) {
        (Node::Object(fields), Value::Object(object)) => write_fields(fields, object, empty),
        (Node::Map(items), Value::Object(map)) if holds_structs(items) => {
            map.values_mut().for_each(|value| write_value(items, value, empty));
        }
        (Node::List(items), Value::Array(list)) if holds_structs(items) => {
            list.iter_mut().for_each(|value| write_value(items, value, empty));
        }
        _ => {}
    }
}

fn holds_structs(items: &Node) -> bool {
    matches!(items.resolve(), Node::Object(_) | Node::Map(_) | Node::List(_))
}

/// Whether a field is there in every object, even if nobody has set it.
pub(crate) fn is_always_written(field: &Field) -> bool {
    match field.presence {
        Presence::Optional | Presence::OmitZero => false,
        Presence::OmitEmpty => is_struct(&field.node),
        Presence::Always | Presence::Nullable => true,
    }
}

/// Whether a field has the value that it has where nobody has set it.
pub(crate) fn is_zero(node: &Node, value: &Value) -> bool {
    match (node.resolve(), value) {
        (_, Value::Null) => true,
        (Node::Object(_), Value::Object(_)) => *value == zero_value(node),
        (Node::List(_) | Node::Map(_) | Node::Any, _) => false,
        _ => *value == zero_value(node),
    }
}

/// What is written of a field that is absent and yet written.
fn zero(field: &Field) -> Value {
    match field.presence {
        Presence::Nullable => Value::Null,
        _ => zero_value(&field.node),
    }
}

/// The zero value of a type that is no pointer.
fn zero_value(node: &Node) -> Value {
    match node.resolve() {
        Node::Any | Node::List(_) | Node::Map(_) | Node::Named(_) => Value::Null,
        Node::String(Format::Time | Format::MicroTime | Format::Bytes) => Value::Null,
        Node::String(Format::Quantity) => "0".into(),
        Node::String(Format::Plain) => "".into(),
        Node::Bool => false.into(),
        Node::Integer { .. } | Node::Number | Node::IntOrString => 0.into(),
        Node::Object(fields) => {
            let mut object = Object::new();
            write_fields(fields, &mut object, Empty::Kept);
            Value::Object(object)
        }
    }
}

/// Whether values are structs in Go, which are written however empty they are: also those that JSON shows as text.
fn is_struct(node: &Node) -> bool {
    match node.resolve() {
        Node::Object(_) | Node::IntOrString | Node::Any => true,
        Node::String(format) => matches!(format, Format::Time | Format::MicroTime | Format::Quantity),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Merge;

    fn field(name: &str, presence: Presence, node: Node) -> Field {
        Field { name: name.into(), node, required: false, merge: Merge::PLAIN, presence }
    }

    fn written(fields: impl IntoIterator<Item = Field>, object: Value) -> Value {
        let mut fields: Vec<Field> = fields.into_iter().collect();
        fields.sort_by(|one, other| one.name.cmp(&other.name));
        let node = Node::Object(fields);
        let Value::Object(mut object) = object else { panic!("an object") };
        canonicalize(&node, &mut object);
        let once = object.clone();
        canonicalize(&node, &mut object);
        assert_eq!(object, once, "doing it twice changes nothing");
        Value::Object(object)
    }

    fn every_type(presence: Presence) -> Vec<Field> {
        let inner = || Node::Object(vec![field("n", Presence::Always, Node::Integer { narrow: true })]);
        vec![
            field("any", presence, Node::Any),
            field("bool", presence, Node::Bool),
            field("bytes", presence, Node::String(Format::Bytes)),
            field("int", presence, Node::Integer { narrow: false }),
            field("list", presence, Node::List(Box::new(inner()))),
            field("map", presence, Node::Map(Box::new(Node::String(Format::Plain)))),
            field("port", presence, Node::IntOrString),
            field("quantity", presence, Node::String(Format::Quantity)),
            field("struct", presence, inner()),
            field("text", presence, Node::String(Format::Plain)),
            field("time", presence, Node::String(Format::Time)),
        ]
    }

    #[test]
    fn what_is_absent_is_written_as_its_type_and_tag_say() {
        let always = json!({
            "any": null, "bool": false, "bytes": null, "int": 0, "list": null, "map": null, "port": 0,
            "quantity": "0", "struct": {"n": 0}, "text": "", "time": null
        });
        assert_eq!(written(every_type(Presence::Always), json!({})), always);
        let structs = json!({"any": null, "port": 0, "quantity": "0", "struct": {"n": 0}, "time": null});
        assert_eq!(written(every_type(Presence::OmitEmpty), json!({})), structs);
        assert_eq!(written(every_type(Presence::Optional), json!({})), json!({}));
        assert_eq!(written(every_type(Presence::OmitZero), json!({})), json!({}));
        let nulls = written(every_type(Presence::Nullable), json!({}));
        assert!(nulls.as_object().unwrap().values().all(Value::is_null) && nulls["struct"].is_null());
    }

    #[test]
    fn what_is_empty_is_left_out_unless_it_is_a_pointer() {
        let empty = json!({"bool": false, "bytes": "", "int": 0, "list": [], "map": {}, "text": ""});
        let structs = json!({"any": null, "port": 0, "quantity": "0", "struct": {"n": 0}, "time": null});
        assert_eq!(written(every_type(Presence::OmitEmpty), empty.clone()), structs);
        assert_eq!(written(every_type(Presence::Optional), empty.clone()), empty);
        let always = written(every_type(Presence::Always), empty.clone());
        assert_eq!((&always["list"], &always["map"]), (&json!([]), &json!({})));
        let Value::Object(mut stored) = always else { panic!("an object") };
        canonicalize_stored(&Node::Object(every_type(Presence::Always)), &mut stored);
        assert_eq!(
            (&stored["list"], &stored["map"], &stored["text"]),
            (&Value::Null, &Value::Null, &json!(""))
        );
    }

    #[test]
    fn entries_of_lists_and_what_is_unknown_are_looked_at_too() {
        let got = written(every_type(Presence::OmitEmpty), json!({"list": [{}, {"n": 2, "x": ""}], "y": []}));
        assert_eq!(got["list"], json!([{"n": 0}, {"n": 2, "x": ""}]));
        assert_eq!(got["y"], json!([]));
    }
}
