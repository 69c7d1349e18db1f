//! Which parts of OpenAPI a schema may use, and how its extensions must be used. Errors are in the words that
//! Kubernetes clients know.

use serde_json::Value;

use super::{DEPTH_MOST, clipped, source::Source};
use crate::field::{Errors, Fault};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

const UNSUPPORTED: &[&str] =
    &["$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties"];

/// The fields that say what an object is and what it is called.
pub(super) const META: &[&str] = &["apiVersion", "kind", "metadata"];

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const RULES: &str = "x-kubernetes-validations";

/// Checks a whole schema.
pub(super) fn check(source: Source<'_>, errors: &mut Errors) {
    let context = Context { root: true, in_meta: false, no_defaults: None, depth: 0 };
    walk(source, &context, errors);
}

#[derive(Clone)]
struct Context {
    root: bool,
    /// Whether this is about what an object is and what it is called.
    in_meta: bool,
    /// Why there cannot be defaults here, if so.
    no_defaults: Option<String>,
    depth: usize,
}

impl Context {
    fn below(&self) -> Context {
        Context { root: false, depth: self.depth + 1, ..self.clone() }
    }
}

fn walk(source: Source<'_>, context: &Context, errors: &mut Errors) {
    if context.depth > DEPTH_MOST {
        errors.forbidden("", format!("must not be nested more than {DEPTH_MOST} levels deep"));
        return;
    }
    source.check_types(errors);
    supported(source, context, errors);
    check_map_type(source, errors);
    check_list_type(source, errors);
    check_rules(source, errors);
    let below = context.below();
    additional(source, &below, errors);
    for (name, property) in source.properties() {
        let mut below = below.clone();
        if (context.root || source.flag("x-kubernetes-embedded-resource")) && META.contains(&name) {
            below.in_meta = true;
            if context.root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        errors.at_key("properties", name, |errors| walk(property, &below, errors));
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        for (index, nested) in source.schemas(junctor).enumerate() {
            errors.at_index(junctor, index, |errors| walk(nested, &below, errors));
        }
    }
    for key in ["not", "items"] {
        if let Some(nested) = source.schema(key) {
            errors.at(key, |errors| walk(nested, &below, errors));
        }
    }
}

fn supported(source: Source<'_>, context: &Context, errors: &mut Errors) {
    let kind = source.text("type");
    if kind == "null" {
        errors.forbidden("type", "type cannot be set to null, use nullable as an alternative");
    } else if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported("type", kind, TYPES);
    }
    if let Some(reason) = &context.no_defaults
        && source.get("default").is_some()
    {
        errors.forbidden("default", format!("must not be set {reason}"));
    }
    for key in UNSUPPORTED {
        let empty = |value: &Value| match value {
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        if source.get(key).is_some_and(|value| !empty(value)) {
            errors.forbidden(key, format!("{key} is not supported"));
        }
    }
    if source.get("items").is_some_and(Value::is_array) {
        errors.forbidden("items", "items must be a schema object and not an array");
    }
    if source.flag("uniqueItems") {
        errors.forbidden(
            "uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        );
    }
    if context.in_meta && source.flag("x-kubernetes-embedded-resource") {
        errors.forbidden("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
    if source.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        errors.invalid(
            "x-kubernetes-preserve-unknown-fields",
            &Value::Bool(false),
            "must be true or undefined",
        );
    }
}

fn additional(source: Source<'_>, below: &Context, errors: &mut Errors) {
    let Some(additional) = source.get("additionalProperties") else { return };
    let has_properties = source.properties().next().is_some();
    match additional {
        Value::Bool(true) => {}
        _ if has_properties => errors
            .forbidden("additionalProperties", "additionalProperties and properties are mutual exclusive"),
        Value::Bool(false) => {
            errors.forbidden("additionalProperties", "additionalProperties cannot be set to false");
        }
        _ => {}
    }
    if let Some(values) = source.schema("additionalProperties") {
        let mut below = below.clone();
        if below.in_meta {
            below.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        errors.at("additionalProperties", |errors| walk(values, &below, errors));
    }
}

/// The type must be this because of that extension.
fn need_type(source: Source<'_>, kind: &str, extension: &str, errors: &mut Errors) -> bool {
    let detail = format!("must be {kind} if {extension} is specified");
    match source.text("type") {
        "" => errors.required("type", detail),
        found if found == kind => return true,
        found => errors.invalid_str("type", found, detail),
    }
    false
}

fn check_map_type(source: Source<'_>, errors: &mut Errors) {
    if source.get(MAP_TYPE).is_none() {
        return;
    }
    need_type(source, "object", MAP_TYPE, errors);
    let map_type = source.text(MAP_TYPE);
    if !["atomic", "granular"].contains(&map_type) {
        errors.not_supported(MAP_TYPE, map_type, &["atomic", "granular"]);
    }
}

fn check_list_type(source: Source<'_>, errors: &mut Errors) {
    let list_type = source.get(LIST_TYPE).map(|_| source.text(LIST_TYPE));
    let has_keys = !source.list(LIST_KEYS).is_empty();
    let Some(list_type) = list_type else {
        if has_keys {
            errors.required(LIST_TYPE, format!("must be map if {LIST_KEYS} is non-empty"));
        }
        return;
    };
    let is_list = need_type(source, "array", LIST_TYPE, errors);
    if !["atomic", "set", "map"].contains(&list_type) {
        errors.not_supported(LIST_TYPE, list_type, &["atomic", "set", "map"]);
    }
    if has_keys && list_type != "map" {
        errors.invalid_str(LIST_TYPE, list_type, format!("must be map if {LIST_KEYS} is non-empty"));
    }
    let items = source.schema("items");
    if ["set", "map"].contains(&list_type) && items.is_some_and(|items| items.flag("nullable")) {
        errors.forbidden("items.nullable", format!("cannot be nullable when {LIST_TYPE} is {list_type}"));
    }
    match list_type {
        "set" if is_list => check_set(items, errors),
        "map" => check_map_list(source, items, errors),
        _ => {}
    }
}

/// Entries of sets are told as a whole, so that they must be owned as a whole.
fn check_set(items: Option<Source<'_>>, errors: &mut Errors) {
    let Some(items) = items else { return };
    let (extension, is_atomic) = match items.text("type") {
        "array" => (LIST_TYPE, ["", "atomic"].contains(&items.text(LIST_TYPE))),
        "object" => (MAP_TYPE, items.text(MAP_TYPE) == "atomic"),
        _ => return,
    };
    if !is_atomic {
        errors.at("items", |errors| {
            let found = items.get(extension).unwrap_or(&Value::Null);
            errors.invalid(
                extension,
                found,
                format!("must be atomic as item of a list with {LIST_TYPE}=set"),
            );
        });
    }
}

fn check_map_list(source: Source<'_>, items: Option<Source<'_>>, errors: &mut Errors) {
    let keys: Vec<&str> = source.texts(LIST_KEYS).collect();
    if keys.is_empty() {
        errors.required(LIST_KEYS, format!("must not be empty if {LIST_TYPE} is map"));
    }
    let Some(items) = items else {
        if source.get("items").is_none() {
            errors.required("items", format!("must have a schema if {LIST_TYPE} is map"));
        }
        return;
    };
    if items.text("type") != "object" {
        let detail = format!("must be object if parent array's {LIST_TYPE} is map");
        errors.invalid_str("items.type", items.text("type"), detail);
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            errors.invalid(LIST_KEYS, &source.0[LIST_KEYS], "must not contain duplicate entries");
        }
        match items.property(key) {
            Some(property) => check_key(items, key, property, errors),
            None => errors.invalid(
                LIST_KEYS,
                &source.0[LIST_KEYS],
                "entries must all be names of item properties",
            ),
        }
    }
}

fn check_key(items: Source<'_>, key: &str, property: Source<'_>, errors: &mut Errors) {
    errors.at("items", |errors| {
        errors.at_key("properties", key, |errors| {
            let kind = property.text("type");
            if ["array", "object"].contains(&kind) {
                let detail = format!("must be a scalar type if parent array's {LIST_TYPE} is map");
                errors.invalid_str("type", kind, detail);
            }
            if property.get("default").is_none() && !items.texts("required").any(|name| name == key) {
                errors.required(
                    "default",
                    format!(
                        "this property is in {LIST_KEYS}, so it must have a default or be a required property"
                    ),
                );
            }
            if property.flag("nullable") {
                errors.forbidden(
                    "nullable",
                    format!("this property is in {LIST_KEYS}, so it cannot be nullable"),
                );
            }
        });
    });
}

fn check_rules(source: Source<'_>, errors: &mut Errors) {
    for (index, rule) in source.list(RULES).iter().enumerate() {
        errors.at_index(RULES, index, |errors| {
            if !rule.is_object() {
                errors.push(Fault::TypeInvalid, "", clipped(&rule.to_string()), "must be a map");
                return;
            }
            check_rule(Source::of(rule), errors);
        });
    }
}

fn check_rule(rule: Source<'_>, errors: &mut Errors) {
    for key in ["rule", "message", "messageExpression", "reason", "fieldPath"] {
        if let Some(value) = rule.get(key).filter(|value| !value.is_string()) {
            errors.push(Fault::TypeInvalid, key, clipped(&value.to_string()), "must be a string");
        }
    }
    if let Some(value) = rule.get("optionalOldSelf").filter(|value| !value.is_boolean()) {
        errors.push(Fault::TypeInvalid, "optionalOldSelf", clipped(&value.to_string()), "must be a boolean");
    }
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (rule.text("rule").trim(), rule.text("message").trim());
    let shown = rule.text("message");
    if expression.is_empty() {
        errors.required("rule", "rule is not specified");
    } else if message.is_empty() && !shown.is_empty() {
        errors.invalid_str("message", shown, "must be non-empty if specified");
    } else if has_breaks(message) {
        errors.invalid_str("message", shown, "must not contain line breaks");
    } else if message.is_empty() && has_breaks(expression) {
        errors.required("message", "message must be specified if rule contains line breaks");
    }
    let blank = |key: &str| !rule.text(key).is_empty() && rule.text(key).trim().is_empty();
    if blank("messageExpression") {
        errors.required("messageExpression", "messageExpression must be non-empty if specified");
    }
    if rule.get("reason").is_some() && !REASONS.contains(&rule.text("reason")) {
        errors.not_supported("reason", rule.text("reason"), REASONS);
    }
    let path = rule.text("fieldPath");
    if blank("fieldPath") {
        errors.invalid_str("fieldPath", path, "must be non-empty if specified");
    }
    if has_breaks(path) {
        errors.invalid_str("fieldPath", path, "must not contain line breaks");
    }
}
