//! The versions of a kind: their schemas, subresources, columns and selectable fields.

use serde_json::Value;

use super::{invalid_large, text};
use crate::{
    field::{Errors, Fault},
    names,
    object::{self, Object},
    structural::{Kind, Schema, field_path},
};

/// Most fields that objects of one version can be selected by.
const SELECTABLE_MOST: usize = 8;
/// Most bytes of the warning of a version that is not to be used.
const WARNING_MOST: usize = 256;

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// What can be at the root of a schema when the status is written by itself, so that the rules for the status are
/// below it.
const BESIDE_STATUS: &[&str] = &[
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Checks all versions; their schemas are returned in their order.
pub(super) fn validate(spec: &Object, errors: &mut Errors) -> Vec<Option<Schema>> {
    let versions = object::list_at(spec, &["versions"]);
    let mut schemas = vec![];
    for (index, version) in versions.iter().enumerate() {
        schemas.push(errors.at_index("versions", index, |errors| match version.as_object() {
            Some(version) => validate_version(version, errors),
            None => {
                invalid_large("", version, "must be a map", errors);
                None
            }
        }));
    }
    let all = spec.get("versions").unwrap_or(&Value::Null);
    let name = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
    let mut unique: Vec<String> = versions.iter().map(name).collect();
    unique.sort_unstable();
    unique.dedup();
    if unique.len() < versions.len() {
        invalid_large("versions", all, "must contain unique version names", errors);
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        invalid_large("versions", all, "must have exactly one version marked as storage version", errors);
    }
    schemas
}

fn validate_version(version: &Object, errors: &mut Errors) -> Option<Schema> {
    let name = text(version, &["name"]);
    if let Some(fault) = names::label_1035(name, false) {
        errors.invalid_str("name", name, fault);
    }
    for flag in ["served", "storage"] {
        match version.get(flag) {
            None | Some(Value::Null) => errors.required(flag, ""),
            Some(Value::Bool(_)) => {}
            Some(other) => errors.invalid(flag, other, "must be a boolean"),
        }
    }
    validate_warning(version, errors);
    let subresources = version.get("subresources").and_then(Value::as_object);
    let set = |field: &str| subresources.and_then(|all| all.get(field)).filter(|value| !value.is_null());
    let schema = match object::at(version, &["schema", "openAPIV3Schema"]) {
        None | Some(Value::Null) => {
            errors.required("schema.openAPIV3Schema", "");
            None
        }
        Some(source) => errors.at("schema.openAPIV3Schema", |errors| {
            validate_root(source, set("status").is_some(), errors);
            Schema::compile(source, errors)
        }),
    };
    if let Some(scale) = set("scale") {
        errors.at("subresources.scale", |errors| validate_scale(scale, errors));
    }
    let columns = object::list_at(version, &["additionalPrinterColumns"]);
    for (index, column) in columns.iter().enumerate() {
        errors.at_index("additionalPrinterColumns", index, |errors| validate_column(column, errors));
    }
    let selectable = object::list_at(version, &["selectableFields"]);
    if let Some(schema) = &schema {
        validate_selectable(selectable, schema, errors);
    }
    schema
}

fn validate_warning(version: &Object, errors: &mut Errors) {
    const FIELD: &str = "deprecationWarning";
    let Some(warning) = version.get(FIELD).and_then(Value::as_str) else { return };
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        errors.invalid_str(FIELD, warning, "can only be set for deprecated versions");
        return;
    }
    if warning.len() > WARNING_MOST {
        errors.invalid_str(FIELD, warning, format!("must be <= {WARNING_MOST} characters long"));
    }
    if warning.is_empty() {
        errors.invalid_str(FIELD, warning, "must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.invalid_str(FIELD, warning, detail);
    }
}

fn validate_root(source: &Value, has_status: bool, errors: &mut Errors) {
    let Some(map) = source.as_object() else { return };
    if map.get("nullable") == Some(&Value::Bool(true)) {
        errors.forbidden("nullable", "nullable cannot be true at the root");
    }
    if !has_status {
        return;
    }
    let kind = text(map, &["type"]);
    if !["", "object"].contains(&kind) {
        let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        errors.invalid_str("type", kind, detail);
    }
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    if map.iter().any(|(key, value)| is_set(value) && !BESIDE_STATUS.contains(&key.as_str())) {
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            BESIDE_STATUS.join(" ")
        );
        invalid_large("", source, &detail, errors);
    }
}

/// Tells whether a path begins as one must.
fn begins_as_path(field: &str, path: &str, errors: &mut Errors) -> bool {
    if !path.starts_with('.') {
        errors.invalid_str(field, path, "must be a simple json path starting with .");
        return false;
    }
    true
}

fn validate_scale(scale: &Value, errors: &mut Errors) {
    type Rule = (&'static str, &'static [&'static str], &'static str, bool);
    const PATHS: &[Rule] = &[
        ("specReplicasPath", &[".spec."], "should be a json path under .spec", true),
        ("statusReplicasPath", &[".status."], "should be a json path under .status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
            false,
        ),
    ];
    for (field, parents, detail, is_required) in PATHS {
        let path = scale.get(field).and_then(Value::as_str).unwrap_or_default();
        match path {
            "" if *is_required => errors.required(field, ""),
            "" => {}
            path => {
                if begins_as_path(field, path, errors)
                    && !parents.iter().any(|parent| path.starts_with(parent))
                {
                    errors.invalid_str(field, path, *detail);
                }
            }
        }
    }
}

fn validate_column(column: &Value, errors: &mut Errors) {
    let text = |field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("name").is_empty() {
        errors.required("name", "");
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text("type") {
        "" => errors.required("type", types),
        kind if !COLUMN_TYPES.contains(&kind) => errors.invalid_str("type", kind, types),
        _ => {}
    }
    let format = text("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.invalid_str("format", format, format!("must be one of {}", COLUMN_FORMATS.join(",")));
    }
    match text("jsonPath") {
        "" => errors.required("jsonPath", ""),
        path => drop(begins_as_path("jsonPath", path, errors)),
    }
}

fn validate_selectable(selectable: &[Value], schema: &Schema, errors: &mut Errors) {
    let mut known: Vec<Vec<String>> = vec![];
    for (index, field) in selectable.iter().enumerate() {
        let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        errors.at_index("selectableFields", index, |errors| {
            if path.is_empty() {
                errors.required("jsonPath", "");
                return;
            }
            let (names, shape) = match field_path(schema.root(), path, false) {
                Ok(found) => found,
                Err(fault) => {
                    errors.invalid_str("jsonPath", path, format!("is an invalid path: {fault}"));
                    return;
                }
            };
            if names.first().is_some_and(|first| first == "metadata") {
                errors.invalid_str("jsonPath", path, "must not point to fields in metadata");
            }
            if !matches!(shape.kind(), Kind::String | Kind::Boolean | Kind::Integer) {
                errors.invalid_str(
                    "jsonPath",
                    path,
                    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
                );
            }
            match known.contains(&names) {
                true => errors.push(Fault::Duplicate, "jsonPath", format!("{path:?}"), ""),
                false => known.push(names),
            }
        });
    }
    if known.len() > SELECTABLE_MOST {
        errors.too_many("selectableFields", known.len(), SELECTABLE_MOST);
    }
}
