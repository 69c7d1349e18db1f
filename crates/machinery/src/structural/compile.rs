//! From a schema that has been checked to its compact form, and what can only be checked then: that defaults are
//! valid and that rules point to fields.

use serde_json::Value;

use super::{
    Format, Kind, ListType, STEPS_MOST, Schema, Shape,
    compact::{Builder, Check, Field, Id, Node, Real, RuleRow},
    embedded, openapi,
    place::Place,
    prune::Pruning,
    source::Source,
    structure, validate,
};
use crate::{
    field::{Errors, Fault},
    object::Object,
};

/// Checks and compiles a schema. `None` if it cannot be used, which `errors` explain then.
pub(super) fn compile(schema: &Value, errors: &mut Errors) -> Option<Schema> {
    let mut faults = Errors::new();
    let compiled = match schema {
        Value::Object(map) => checked(Source(map), &mut faults),
        other => {
            faults.push(Fault::TypeInvalid, "", super::clipped(&other.to_string()), "must be a schema");
            None
        }
    };
    let usable = faults.is_empty();
    errors.absorb(faults);
    compiled.filter(|_| usable)
}

fn checked(source: Source<'_>, errors: &mut Errors) -> Option<Schema> {
    openapi::check(source, errors);
    if errors.is_empty() {
        structure::check(source, errors);
    }
    if !errors.is_empty() {
        return None;
    }
    let mut builder = Builder::new();
    let root = node(source, &mut builder);
    let schema = Schema(builder.finish(root));
    let mut defaults = Defaults { budget: validate::Budget::new(STEPS_MOST), around: vec![] };
    defaults.place(schema.root(), true, errors);
    Some(schema)
}

fn node(source: Source<'_>, builder: &mut Builder) -> Id {
    let kind = kind(source);
    // Objects keep their order by name, which fields are searched by.
    let fields: Vec<Field> = source
        .properties()
        .map(|(name, property)| Field { name: builder.text(name), node: node(property, builder) })
        .collect();
    let values = source.schema("additionalProperties").map(|values| node(values, builder));
    let items = source.schema("items").map(|items| node(items, builder));
    let checks = checks(source, builder);
    let node = Node {
        kind,
        format: Format::of(kind, source.text("format")),
        list: match source.text("x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => ListType::Map,
            "atomic" => ListType::Atomic,
            _ => ListType::Unset,
        },
        nullable: source.flag("nullable"),
        preserve: source.flag("x-kubernetes-preserve-unknown-fields"),
        embedded: source.flag("x-kubernetes-embedded-resource"),
        atomic: source.text("x-kubernetes-map-type") == "atomic",
        open: source.flag("additionalProperties"),
        fields: builder.fields(&fields),
        values,
        items,
        checks: builder.checks(&checks),
    };
    builder.node(node)
}

fn kind(source: Source<'_>) -> Kind {
    if source.flag("x-kubernetes-int-or-string") {
        return Kind::IntOrString;
    }
    match source.text("type") {
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => Kind::Any,
    }
}

fn checks(source: Source<'_>, builder: &mut Builder) -> Vec<Check> {
    let mut checks = vec![];
    if let Some(limit) = source.number("maximum").map(Real::new) {
        checks.push(Check::Maximum { limit, exclusive: source.flag("exclusiveMaximum") });
    }
    if let Some(limit) = source.number("minimum").map(Real::new) {
        checks.push(Check::Minimum { limit, exclusive: source.flag("exclusiveMinimum") });
    }
    checks.extend(source.number("multipleOf").map(Real::new).map(Check::MultipleOf));
    type Limit = (&'static str, fn(i64) -> Check);
    const LIMITS: &[Limit] = &[
        ("maxLength", Check::MaxLength),
        ("minLength", Check::MinLength),
        ("maxItems", Check::MaxItems),
        ("minItems", Check::MinItems),
        ("maxProperties", Check::MaxProperties),
        ("minProperties", Check::MinProperties),
    ];
    checks.extend(LIMITS.iter().filter_map(|(key, check)| source.whole(key).map(check)));
    if !source.text("pattern").is_empty() {
        checks.push(Check::Pattern(builder.text(source.text("pattern"))));
    }
    checks.extend(source.texts("required").map(|name| Check::Required(builder.text(name))));
    let options = source.list("enum");
    if !options.is_empty() {
        checks.push(match options.iter().map(Value::as_str).collect::<Option<Vec<&str>>>() {
            Some(texts) => Check::Texts(builder.texts(texts.into_iter())),
            None => Check::Values(builder.values(options)),
        });
    }
    type Junctor = (&'static str, fn(super::compact::Span) -> Check);
    const JUNCTORS: &[Junctor] = &[("allOf", Check::AllOf), ("anyOf", Check::AnyOf), ("oneOf", Check::OneOf)];
    for (key, check) in JUNCTORS {
        let ids: Vec<Id> = source.schemas(key).map(|nested| node(nested, builder)).collect();
        if !ids.is_empty() {
            checks.push(check(builder.ids(&ids)));
        }
    }
    checks.extend(source.schema("not").map(|not| Check::Not(node(not, builder))));
    checks.extend(source.get("default").map(|default| Check::Default(builder.value(default))));
    if !source.list("x-kubernetes-list-map-keys").is_empty() {
        checks.push(Check::Keys(builder.texts(source.texts("x-kubernetes-list-map-keys"))));
    }
    let rules: Vec<RuleRow> =
        source.schemas("x-kubernetes-validations").map(|rule| rule_row(rule, builder)).collect();
    if !rules.is_empty() {
        checks.push(Check::Rules(builder.rules(&rules)));
    }
    checks
}

fn rule_row(rule: Source<'_>, builder: &mut Builder) -> RuleRow {
    RuleRow {
        rule: builder.text(rule.text("rule")),
        message: builder.text(rule.text("message")),
        message_expression: builder.text(rule.text("messageExpression")),
        reason: builder.text(rule.text("reason")),
        field_path: builder.text(rule.text("fieldPath")),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

/// The check of defaults and of the paths of rules.
struct Defaults {
    /// For all defaults together.
    budget: validate::Budget,
    /// The way from the resource that contains this place, inside of its metadata.
    around: Vec<Step>,
}

enum Step {
    Field(String),
    Entry,
}

impl Defaults {
    fn place(&mut self, shape: Shape<'_>, is_resource: bool, errors: &mut Errors) {
        if let Some(default) = shape.default() {
            let mut faults = Errors::new();
            self.default(shape, default, &mut faults);
            errors.at("default", |errors| errors.absorb(faults));
        }
        for (index, rule) in shape.rules().enumerate() {
            if !rule.field_path.is_empty() && super::field_path(shape, rule.field_path, true).is_err() {
                errors.at_index("x-kubernetes-validations", index, |errors| {
                    errors.invalid_str("fieldPath", rule.field_path, "must be a valid path");
                });
            }
        }
        if let Some(items) = shape.items() {
            self.below(Step::Entry, |this| {
                errors.at("items", |errors| this.place(items, items.is_embedded(), errors));
            });
        }
        for (name, field) in shape.fields() {
            let enters = is_resource && openapi::META.contains(&name);
            let before = enters.then(|| std::mem::take(&mut self.around));
            let mut visit = |this: &mut Self| {
                errors.at_key("properties", name, |errors| this.place(field, field.is_embedded(), errors));
            };
            match enters || !self.around.is_empty() {
                true => {
                    self.around.push(Step::Field(name.to_owned()));
                    visit(self);
                    self.around.pop();
                }
                false => visit(self),
            }
            if let Some(before) = before {
                self.around = before;
            }
        }
        if let Some(values) = shape.values() {
            errors.at("additionalProperties", |errors| self.place(values, values.is_embedded(), errors));
        }
    }

    fn below(&mut self, step: Step, visit: impl FnOnce(&mut Self)) {
        if self.around.is_empty() {
            return visit(self);
        }
        self.around.push(step);
        visit(self);
        self.around.pop();
    }

    fn default(&mut self, shape: Shape<'_>, default: &Value, errors: &mut Errors) {
        if !self.around.is_empty() {
            let mut faults = Errors::new();
            embedded::check_meta(&self.surrounding(default), &mut faults);
            if let Some(fault) = faults.list().first() {
                let detail = format!("must result in valid metadata: {fault}");
                errors.push(Fault::Invalid, "", super::clipped(&default.to_string()), detail);
                return;
            }
        } else {
            let mut pruned = default.clone();
            let mut pruning = Pruning::new(Some(&mut *errors));
            pruning.value(shape, &mut pruned, false, &Place::ROOT);
            if pruned != *default {
                errors.push(
                    Fault::Invalid,
                    "",
                    super::clipped(&default.to_string()),
                    "must not have unknown fields",
                );
            }
        }
        if errors.is_empty() {
            validate::value(shape, default, &mut self.budget, errors);
        }
    }

    /// A resource that has the default at its place.
    fn surrounding(&self, default: &Value) -> Object {
        let inner = self.around.iter().skip(1).rev().fold(default.clone(), |value, step| match step {
            Step::Entry => Value::Array(vec![value]),
            Step::Field(name) => Value::Object(Object::from_iter([(name.clone(), value)])),
        });
        let mut resource = Object::from_iter([
            ("apiVersion".to_owned(), Value::from("validation/v1")),
            ("kind".to_owned(), Value::from("Validation")),
        ]);
        if let Some(Step::Field(name)) = self.around.first() {
            resource.insert(name.clone(), inner);
        }
        resource
    }
}
