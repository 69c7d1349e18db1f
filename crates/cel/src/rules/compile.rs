//! Finds the rules of a schema, compiles them, and says what is wrong with them.

use serde_json::{Map, Value};
use windlass_machinery::field::{Fault, FieldError};

use super::{Old, Place, RULE_COST_LIMIT, Rule, Rules, SCHEMA_COST_LIMIT, path};
use crate::{
    env::Env,
    error::CompileError,
    escape::escape,
    program::Program,
    schema::{MOST_REQUEST, list_keys},
    types::{Declared, ListKind, Type},
};

/// Rules this deep are refused, so that nothing recurses further.
const MOST_DEPTH: usize = 100;
/// How many regular expressions the rules of a schema may have; a large one counts as many.
const MOST_PATTERNS: u32 = 1000;
/// How many rules that cost the most are named when all of them cost too much.
const MOST_NAMED: usize = 4;

const REASONS: [(&str, Fault); 4] = [
    ("FieldValueDuplicate", Fault::Duplicate),
    ("FieldValueForbidden", Fault::Forbidden),
    ("FieldValueInvalid", Fault::Invalid),
    ("FieldValueRequired", Fault::Required),
];

pub(super) fn compile(schema: &Value) -> Result<Option<Rules>, Vec<FieldError>> {
    if !has_rules(schema, 0) {
        return Ok(None);
    }
    let mut compiler = Compiler::default();
    let declared = Type::from_resource_schema(schema);
    let around = Around { cardinality: Some(1), uncorrelatable: None, depth: 0 };
    let root = compiler.place(schema, "", &declared, &around);
    compiler.total();
    match compiler.errors.is_empty() {
        true => Ok(Some(Rules { root })),
        false => Err(compiler.errors),
    }
}

/// Whether there is any rule, so that most schemas are done with at once.
fn has_rules(schema: &Value, depth: usize) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    if schema
        .get("x-kubernetes-validations")
        .is_some_and(|rules| !rules.as_array().is_some_and(Vec::is_empty))
    {
        return true;
    }
    // Deeper than this the compiler does not go either, and says so.
    if depth > MOST_DEPTH {
        return true;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let below = [schema.get("items"), schema.get("additionalProperties")];
    properties
        .into_iter()
        .flat_map(Map::values)
        .chain(below.into_iter().flatten())
        .any(|schema| has_rules(schema, depth + 1))
}

/// What is around a place.
struct Around {
    /// How many such places an object can have; `None` when the schema does not say.
    cardinality: Option<u64>,
    /// The list that makes it impossible to find a place again after a change.
    uncorrelatable: Option<String>,
    depth: usize,
}

impl Around {
    fn below(&self) -> Around {
        Around { uncorrelatable: self.uncorrelatable.clone(), depth: self.depth + 1, ..*self }
    }

    /// Below a list or a map of so many entries at most.
    fn times(&self, schema: &Map<String, Value>, most: &str) -> Around {
        let most = schema.get(most).and_then(Value::as_u64);
        let cardinality = self.cardinality.zip(most).map(|(own, most)| own.saturating_mul(most));
        Around { cardinality, ..self.below() }
    }
}

#[derive(Default)]
struct Compiler {
    errors: Vec<FieldError>,
    total: u64,
    patterns: u32,
    /// What rules cost that cost much, and where they are.
    expensive: Vec<(u64, String)>,
}

/// A path with one more part.
fn join(path: &str, part: &str) -> String {
    if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") }
}

impl Compiler {
    fn error(&mut self, fault: Fault, field: String, shown: String, detail: impl Into<String>) {
        self.errors.push(FieldError { fault, field, shown, detail: detail.into() });
    }

    fn place(&mut self, schema: &Value, path: &str, declared: &Declared, around: &Around) -> Place {
        let mut place = Place::default();
        let Some(object) = schema.as_object() else { return place };
        if around.depth > MOST_DEPTH {
            let detail = format!("schema is nested more than {MOST_DEPTH} deep");
            self.error(Fault::Forbidden, path.to_owned(), String::new(), detail);
            return place;
        }
        place.kind = object.get("type").and_then(Value::as_str).unwrap_or_default().into();
        self.rules(schema, path, declared, around, &mut place);
        self.properties(object, path, declared, around, &mut place);
        if let Some(items) = object.get("items").filter(|items| items.is_object()) {
            let kind = match object.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("map") => ListKind::Map(list_keys(object)),
                _ => ListKind::Atomic,
            };
            let mut below = around.times(object, "maxItems");
            if kind == ListKind::Atomic && below.uncorrelatable.is_none() {
                below.uncorrelatable = Some(path.to_owned());
            }
            let of_list = match &declared.ty {
                Type::List(list) => Some(list.item.clone()),
                _ => None,
            };
            let item = of_list.unwrap_or_else(|| Type::from_schema_at(items, &join(path, "items")));
            let child = self.place(items, &join(path, "items"), &item, &below);
            place.items = (!child.is_empty()).then(|| Box::new((child, kind)));
        }
        place
    }

    fn properties(
        &mut self,
        schema: &Map<String, Value>,
        path: &str,
        declared: &Declared,
        around: &Around,
        place: &mut Place,
    ) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path = join(path, &format!("properties[{name}]"));
            let known = match &declared.ty {
                Type::Struct(structure) => escape(name)
                    .and_then(|name| structure.fields.get(&*name))
                    .map(|field| field.declared.clone()),
                _ => None,
            };
            let known = known.unwrap_or_else(|| Type::from_schema_at(property, &path));
            let child = self.place(property, &path, &known, &around.below());
            if !child.is_empty() {
                place.properties.push(((**name).into(), child));
            }
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            let path = join(path, "additionalProperties");
            let of_map = match &declared.ty {
                Type::Map(map) => Some(map.value.clone()),
                _ => None,
            };
            let value = of_map.unwrap_or_else(|| Type::from_schema_at(values, &path));
            let child = self.place(values, &path, &value, &around.times(schema, "maxProperties"));
            place.values = (!child.is_empty()).then(|| Box::new(child));
        }
    }

    fn rules(&mut self, schema: &Value, path: &str, declared: &Declared, around: &Around, place: &mut Place) {
        let Some(rules) = schema.get("x-kubernetes-validations") else { return };
        let path = join(path, "x-kubernetes-validations");
        let Some(rules) = rules.as_array() else {
            return self.error(Fault::TypeInvalid, path, String::new(), "must be a list of rules");
        };
        for (index, rule) in rules.iter().enumerate() {
            let path = format!("{path}[{index}]");
            place.rules.extend(self.rule(schema, rule, &path, declared, around));
        }
    }

    fn rule(
        &mut self,
        schema: &Value,
        rule: &Value,
        path: &str,
        declared: &Declared,
        around: &Around,
    ) -> Option<Rule> {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let (fault, field) = self.plain_parts(schema, rule, path)?;
        // What is over already is not made worse; it is refused at the end.
        if self.patterns > MOST_PATTERNS {
            return None;
        }
        let optional = rule.get("optionalOldSelf").and_then(Value::as_bool);
        let old = match optional {
            Some(true) => Declared { nullable: true, ..Declared::from(Type::optional(declared.ty.clone())) },
            _ => declared.clone(),
        };
        let env = Env::new().variable("self", declared.clone()).variable("oldSelf", old);
        let source = text("rule");
        let rule_path = format!("{path}.rule");
        let program = match env.compile(source) {
            Ok(program) => program,
            Err(errors) => {
                let detail = format!("compilation failed: {}", listed(&errors));
                self.error(Fault::Invalid, rule_path, rule.to_string(), detail);
                return None;
            }
        };
        self.patterns = self.patterns.saturating_add(program.patterns());
        if *program.result() != Type::Bool {
            let detail = "cel expression must evaluate to a bool";
            self.error(Fault::Invalid, rule_path, rule.to_string(), detail);
            return None;
        }
        let times = around.cardinality.unwrap_or(MOST_REQUEST / (declared.least_json + 1));
        self.observe("estimated rule cost", &rule_path, program.most_cost().saturating_mul(times));
        let transition = program.reads("oldSelf");
        if let (true, Some(within)) = (transition, &around.uncorrelatable) {
            let within = if within.is_empty() { "the root" } else { within };
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            self.error(Fault::Invalid, rule_path, format!("{source:?}"), detail);
        }
        if let (false, Some(optional)) = (transition, optional) {
            let detail = "may not be set if oldSelf is not used in rule";
            self.error(Fault::Invalid, format!("{path}.optionalOldSelf"), optional.to_string(), detail);
        }
        let message_expression = self.message_expression(&env, rule, path);
        let message = Some(text("message").trim()).filter(|message| !message.is_empty());
        let old = match (transition, optional) {
            (false, _) => Old::No,
            (true, Some(true)) => Old::Optional,
            (true, _) => Old::Needed,
        };
        Some(Rule {
            text: source.trim().into(),
            program,
            message: message.map(Into::into),
            message_expression,
            fault,
            field: field.into(),
            old,
        })
    }

    /// What is not an expression: message, reason, field. `None` when something is wrong with it.
    fn plain_parts(&mut self, schema: &Value, rule: &Value, path: &str) -> Option<(Fault, String)> {
        let before = self.errors.len();
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let (source, message) = (text("rule").trim(), text("message").trim());
        let at = |name: &str| format!("{path}.{name}");
        let shown = |name: &str| format!("{:?}", text(name));
        if source.is_empty() {
            self.error(Fault::Required, at("rule"), String::new(), "rule is not specified");
        } else if !text("message").is_empty() && message.is_empty() {
            self.error(Fault::Invalid, at("message"), shown("message"), "must be non-empty if specified");
        } else if breaks(message) {
            self.error(Fault::Invalid, at("message"), shown("message"), "must not contain line breaks");
        } else if breaks(source) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            self.error(Fault::Required, at("message"), String::new(), detail);
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            self.error(Fault::Required, at("messageExpression"), String::new(), detail);
        }
        let reason = rule.get("reason").and_then(Value::as_str).unwrap_or("FieldValueInvalid");
        let fault = REASONS.iter().find(|(name, _)| *name == reason).map(|(_, fault)| *fault);
        if fault.is_none() {
            let names: Vec<String> = REASONS.iter().map(|(name, _)| format!("{name:?}")).collect();
            let detail = format!("supported values: {}", names.join(", "));
            self.error(Fault::NotSupported, at("reason"), shown("reason"), detail);
        }
        let field = text("fieldPath");
        let normal = path::normalize(field.trim(), schema);
        let wrong = match &normal {
            _ if field.is_empty() => None,
            _ if field.trim().is_empty() => Some("must be non-empty if specified"),
            _ if breaks(field) => Some("must not contain line breaks"),
            None => Some("must be a valid path"),
            Some(_) => None,
        };
        if let Some(detail) = wrong {
            self.error(Fault::Invalid, at("fieldPath"), shown("fieldPath"), detail);
        }
        if self.errors.len() > before { None } else { Some((fault?, normal.unwrap_or_default())) }
    }

    fn message_expression(&mut self, env: &Env, rule: &Value, path: &str) -> Option<(Box<str>, Program)> {
        let source = rule.get("messageExpression").and_then(Value::as_str).unwrap_or_default();
        if source.trim().is_empty() {
            return None;
        }
        let path = format!("{path}.messageExpression");
        let shown = rule.to_string();
        let program = match env.compile(source) {
            Ok(program) => program,
            Err(errors) => {
                let detail = format!("messageExpression compilation failed: {}", listed(&errors));
                self.error(Fault::Invalid, path, shown, detail);
                return None;
            }
        };
        self.patterns = self.patterns.saturating_add(program.patterns());
        if *program.result() != Type::String {
            self.error(Fault::Invalid, path, shown, "messageExpression must evaluate to a string");
            return None;
        }
        self.observe("estimated messageExpression cost", &path, program.most_cost());
        Some((source.into(), program))
    }

    /// Adds up what rules cost, and refuses the one that costs too much by itself.
    fn observe(&mut self, what: &str, path: &str, cost: u64) {
        if cost > RULE_COST_LIMIT {
            self.error(
                Fault::Forbidden,
                path.to_owned(),
                String::new(),
                exceeds(what, cost, RULE_COST_LIMIT),
            );
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_LIMIT / 100 {
            self.expensive.push((cost, path.to_owned()));
        }
    }

    fn total(&mut self) {
        if self.patterns > MOST_PATTERNS {
            let detail = "x-kubernetes-validations have too many or too large regular expressions";
            self.error(Fault::Forbidden, String::new(), String::new(), detail);
        }
        if self.total <= SCHEMA_COST_LIMIT {
            return;
        }
        let mut expensive = std::mem::take(&mut self.expensive);
        expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, path) in expensive.into_iter().take(MOST_NAMED) {
            let detail = "contributed to estimated rule & messageExpression cost total exceeding cost limit for \
                          entire OpenAPIv3 schema";
            self.error(Fault::Forbidden, path, String::new(), detail);
        }
        let what = "x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema";
        self.error(
            Fault::Forbidden,
            String::new(),
            String::new(),
            exceeds(what, self.total, SCHEMA_COST_LIMIT),
        );
    }
}

fn listed(errors: &[CompileError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("\n")
}

/// By how much an estimate is too high, and what to do about it.
fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        ..1.5 => format!("{factor:.6}x"),
        ..=100.0 => format!("{factor:.1}x"),
        _ => "more than 100x".to_owned(),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
