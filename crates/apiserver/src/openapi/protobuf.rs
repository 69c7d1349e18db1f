//! The Swagger document in protobuf, as kubectl reads it: `openapi.v2.Document` of the gnostic project.
//!
//! kubectl asks for nothing else when it validates a `List`, and does not fall back to JSON. The messages are
//! described here as far as our documents have them; what begins with `x-` goes along as YAML text.

use serde_json::{Map, Value};

/// What it is called in an answer.
pub(crate) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// What clients call it, though `@` has no place in the name of a media type and they read no answer that says so.
pub(crate) const ASKED_AS: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// How a value is written.
enum Form {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    /// Any JSON, as YAML text.
    Yaml,
    Yamls,
    Message(&'static Message),
    Messages(&'static Message),
    /// A map: each entry a message of name and value, in the field of that number.
    Named(u32, &'static Form),
    /// The value is field 1 of a message of its own.
    Within(&'static Form),
    /// A parameter: which message it is depends on where it stands.
    Parameter,
    /// One or several names of types.
    Type,
    /// A schema where there might be several, or something else.
    OneSchema,
    /// A schema, or whether anything may be there.
    SchemaOrBool,
}

/// The fields of a message by their JSON names, and the number of the field for extensions.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    extensions: u32,
}

use Form::{
    Bool, Double, Int, Named, OneSchema, Parameter, SchemaOrBool, Text, Texts, Type, Within, Yaml, Yamls,
};

static INFO: Message = Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: 7 };

static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, Form::Message(&OPERATION)),
        ("put", 3, Form::Message(&OPERATION)),
        ("post", 4, Form::Message(&OPERATION)),
        ("delete", 5, Form::Message(&OPERATION)),
        ("options", 6, Form::Message(&OPERATION)),
        ("head", 7, Form::Message(&OPERATION)),
        ("patch", 8, Form::Message(&OPERATION)),
        ("parameters", 9, Parameter),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Parameter),
        ("responses", 9, Named(1, &Within(&Form::Message(&RESPONSE)))),
        ("schemes", 10, Texts),
        ("deprecated", 11, Bool),
    ],
    extensions: 13,
};

static RESPONSE: Message =
    Message { fields: &[("description", 1, Text), ("schema", 2, OneSchema)], extensions: 5 };

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Bool),
        ("schema", 5, Form::Message(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Bool),
    ],
    extensions: 23,
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Bool),
    ],
    extensions: 22,
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Yaml),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Int),
        ("minLength", 12, Int),
        ("pattern", 13, Text),
        ("maxItems", 14, Int),
        ("minItems", 15, Int),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Int),
        ("minProperties", 18, Int),
        ("required", 19, Texts),
        ("enum", 20, Yamls),
        ("additionalProperties", 21, SchemaOrBool),
        ("type", 22, Type),
        ("items", 23, OneSchema),
        ("allOf", 24, Form::Messages(&SCHEMA)),
        ("properties", 25, Named(1, &Form::Message(&SCHEMA))),
        ("readOnly", 27, Bool),
        ("example", 30, Yaml),
    ],
    extensions: 31,
};

/// The document, from its parts.
pub(super) fn document(
    info: &Value,
    definitions: impl Iterator<Item = (String, Value)>,
    paths: impl Iterator<Item = (String, Value)>,
) -> Vec<u8> {
    let mut out = vec![];
    bytes(&mut out, 1, b"2.0");
    write(&mut out, 2, &Form::Message(&INFO), info);
    // The occurrences of a message field are merged by whoever reads, so entries need not be gathered first.
    for (name, item) in paths {
        let entry = named(&name, &item, &Form::Message(&PATH_ITEM));
        bytes(&mut out, 8, &wrapped(2, &entry));
    }
    for (name, schema) in definitions {
        let entry = named(&name, &schema, &Form::Message(&SCHEMA));
        bytes(&mut out, 9, &wrapped(1, &entry));
    }
    out
}

fn message(shape: &Message, value: &Map<String, Value>) -> Vec<u8> {
    let mut out = vec![];
    for (name, value) in value {
        if let Some((_, number, form)) = shape.fields.iter().find(|(known, ..)| known == name) {
            write(&mut out, *number, form, value);
        } else if name.starts_with("x-") {
            bytes(&mut out, shape.extensions, &named(name, value, &Yaml));
        } else {
            debug_assert!(false, "the document has {name:?}, which has no place in protobuf");
        }
    }
    out
}

/// Writes one field. A value of another type than the form's is left out, as gnostic does.
fn write(out: &mut Vec<u8>, number: u32, form: &Form, value: &Value) {
    match (form, value) {
        (Text, Value::String(text)) => bytes(out, number, text.as_bytes()),
        (Texts, Value::Array(items)) => items.iter().for_each(|item| write(out, number, &Text, item)),
        (Bool, Value::Bool(value)) => integer(out, number, u64::from(*value)),
        (Int, Value::Number(value)) => {
            if let Some(value) = value.as_i64() {
                integer(out, number, value.cast_unsigned());
            }
        }
        (Double, Value::Number(value)) => {
            varint(out, u64::from(number << 3 | 1));
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        (Yaml, value) => bytes(out, number, &wrapped(2, value.to_string().as_bytes())),
        (Yamls, Value::Array(items)) => items.iter().for_each(|item| write(out, number, &Yaml, item)),
        (Form::Message(shape), Value::Object(value)) => bytes(out, number, &message(shape, value)),
        (Form::Messages(shape), Value::Array(items)) => {
            items.iter().for_each(|item| write(out, number, &Form::Message(shape), item));
        }
        (Named(inner, form), Value::Object(entries)) => {
            let mut all = vec![];
            for (name, value) in entries {
                bytes(&mut all, *inner, &named(name, value, form));
            }
            bytes(out, number, &all);
        }
        (Within(form), value) => {
            let mut inner = vec![];
            write(&mut inner, 1, form, value);
            bytes(out, number, &inner);
        }
        (Parameter, Value::Array(items)) => {
            items.iter().for_each(|item| bytes(out, number, &parameter(item)))
        }
        (Type, Value::String(_)) => write(out, number, &Within(&Text), value),
        (Type, Value::Array(_)) => write(out, number, &Within(&Texts), value),
        (OneSchema, value) => {
            let mut inner = vec![];
            write(&mut inner, 1, &Form::Message(&SCHEMA), value);
            bytes(out, number, &inner);
        }
        (SchemaOrBool, Value::Bool(value)) => {
            let mut inner = vec![];
            integer(&mut inner, 2, u64::from(*value));
            bytes(out, number, &inner);
        }
        (SchemaOrBool, value) => write(out, number, &OneSchema, value),
        _ => debug_assert!(false, "field {number} is another type than the form says: {value}"),
    }
}

/// A parameter within its two or three layers of choices.
fn parameter(value: &Value) -> Vec<u8> {
    let Value::Object(fields) = value else { return vec![] };
    let choice = match value["in"].as_str() {
        Some("body") => wrapped(1, &message(&BODY_PARAMETER, fields)),
        Some("path") => wrapped(2, &wrapped(4, &message(&PATH_PARAMETER, fields))),
        _ => wrapped(2, &wrapped(3, &message(&QUERY_PARAMETER, fields))),
    };
    wrapped(1, &choice)
}

/// An entry of a map.
fn named(name: &str, value: &Value, form: &Form) -> Vec<u8> {
    let mut out = wrapped(1, name.as_bytes());
    write(&mut out, 2, form, value);
    out
}

fn wrapped(number: u32, inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len() + 6);
    bytes(&mut out, number, inner);
    out
}

fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    varint(out, u64::from(number << 3 | 2));
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn integer(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number << 3));
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::document;

    #[test]
    fn a_small_document_is_these_bytes() {
        let definitions = [("T".to_owned(), json!({"type": "object", "x-y": [1]}))];
        let paths = [("/p".to_owned(), json!({"parameters": [{"in": "query", "name": "q"}]}))];
        let written =
            document(&json!({"title": "t", "version": "v"}), definitions.into_iter(), paths.into_iter());
        let expected: &[&[u8]] = &[
            b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v",
            b"\x42\x1a\x12\x18\x0a\x02/p\x12\x12\x4a\x10\x0a\x0e\x12\x0c\x1a\x0a",
            b"\x12\x05query\x22\x01q",
            b"\x4a\x21\x0a\x1f\x0a\x01T\x12\x1a\xb2\x01\x08\x0a\x06object\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]",
        ];
        assert_eq!(written.escape_ascii().to_string(), expected.concat().escape_ascii().to_string());
    }
}
