//! The rules of a schema: `x-kubernetes-validations`, at any depth.
//!
//! [`Rules::compile`] finds and compiles them when a definition is written; [`Rules::check`] holds an object
//! against them. The object is not copied: a rule sees the part of it that stands at its place.

mod compile;
mod correlate;
mod path;

use serde_json::{Map, Value};
use windlass_machinery::field::{Errors, Fault, FieldError};

use self::correlate::Correlation;
use crate::{
    budget::Budget,
    error::{EvalError, Limit},
    program::{Program, Variables},
    types::ListKind,
};

/// What one rule may be estimated to cost, for all the places it may run at in one object.
pub const RULE_COST_LIMIT: u64 = 10_000_000;
/// What all rules of a schema may be estimated to cost.
pub const SCHEMA_COST_LIMIT: u64 = 100_000_000;
/// The longest message that an expression may make, in bytes.
const MOST_MESSAGE: usize = 5 * 1024;

/// The rules of a schema, compiled.
#[derive(Debug)]
pub struct Rules {
    root: Place,
}

/// What is checked at one place of a schema, and below.
#[derive(Debug, Default)]
struct Place {
    /// The type in the schema, which the messages of rules that came to no value show.
    kind: Box<str>,
    rules: Vec<Rule>,
    properties: Vec<(Box<str>, Place)>,
    items: Option<Box<(Place, ListKind)>>,
    values: Option<Box<Place>>,
}

impl Place {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.properties.is_empty() && self.items.is_none() && self.values.is_none()
    }
}

#[derive(Debug)]
struct Rule {
    /// As it was written, for messages.
    text: Box<str>,
    program: Program,
    message: Option<Box<str>>,
    message_expression: Option<(Box<str>, Program)>,
    fault: Fault,
    /// Below the place, such as `spec.name`.
    field: Box<str>,
    old: Old,
}

/// How a rule looks at the object before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Old {
    /// It does not.
    No,
    /// It runs only when there is one.
    Needed,
    /// It runs always.
    Optional,
}

impl Rule {
    /// What names the rule in a message.
    fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.text)
    }

    fn message_reads_old(&self) -> bool {
        self.message_expression.as_ref().is_some_and(|(_, program)| program.reads("oldSelf"))
    }
}

/// Nothing more is to be run.
struct Stop;

impl Rules {
    /// Compiles all rules of a schema, the root of which is a resource; `None` when there are none.
    ///
    /// The fields of the errors are within the schema, such as
    /// `properties[spec].x-kubernetes-validations[0].rule`.
    pub fn compile(schema: &Value) -> Result<Option<Rules>, Vec<FieldError>> {
        compile::compile(schema)
    }

    /// As [`Rules::check`], for an object that is at hand as a map. It is copied only if there are rules for the whole
    /// of it.
    pub fn check_object(
        &self,
        new: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        budget: &mut Budget,
        errors: &mut Errors,
    ) {
        if !self.root.rules.is_empty() || self.root.values.is_some() {
            let whole = |object: &Map<String, Value>| Value::Object(object.clone());
            return self.check(&whole(new), old.map(whole).as_ref(), budget, errors);
        }
        let mut run = Run { budget, errors };
        // Nothing looks at the whole: a part that was not there before cannot have stayed the same with it.
        let whole = Correlation::root(&Value::Null, None);
        for (name, child) in &self.root.properties {
            let Some(value) = new.get(&**name) else { continue };
            let part = whole.part(name, value, old.and_then(|old| old.get(&**name)));
            // The fault that stopped the run has been recorded.
            if run.below(|errors, check| errors.at(name, check), child, &part).is_err() {
                return;
            }
        }
    }

    /// Holds an object against the rules. With the object as it was before, rules about the change are run
    /// too, and a part that has not changed may go on breaking a rule.
    pub fn check(&self, new: &Value, old: Option<&Value>, budget: &mut Budget, errors: &mut Errors) {
        let mut run = Run { budget, errors };
        // The fault that stopped the run has been recorded.
        let _ = run.place(&self.root, &Correlation::root(new, old));
    }
}

struct Run<'r> {
    budget: &'r mut Budget,
    errors: &'r mut Errors,
}

impl Run<'_> {
    fn place(&mut self, place: &Place, part: &Correlation<'_, '_>) -> Result<(), Stop> {
        // A value that is null is for the place around it to judge.
        if part.new.is_null() {
            return Ok(());
        }
        if !place.rules.is_empty() {
            let variables = Variables::new().json("self", part.new);
            for rule in &place.rules {
                self.rule(place, rule, &variables, part)?;
            }
        }
        match part.new {
            Value::Object(map) => {
                for (name, child) in &place.properties {
                    let Some(value) = map.get(&**name) else { continue };
                    let below = part.key(name, value);
                    self.below(|errors, check| errors.at(name, check), child, &below)?;
                }
                let Some(child) = place.values.as_deref() else { return Ok(()) };
                for (key, value) in map {
                    let below = part.key(key, value);
                    self.below(|errors, check| errors.at_key("", key, check), child, &below)?;
                }
            }
            Value::Array(_) => {
                let Some((child, kind)) = place.items.as_deref() else { return Ok(()) };
                for (index, below) in part.items(kind).iter().enumerate() {
                    self.below(|errors, check| errors.at_index("", index, check), child, below)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Goes to a place below, and comes back.
    fn below(
        &mut self,
        at: impl FnOnce(&mut Errors, &mut dyn FnMut(&mut Errors) -> Result<(), Stop>) -> Result<(), Stop>,
        child: &Place,
        part: &Correlation<'_, '_>,
    ) -> Result<(), Stop> {
        let budget = &mut *self.budget;
        at(self.errors, &mut |errors: &mut Errors| Run { budget, errors }.place(child, part))
    }

    fn rule<'a>(
        &mut self,
        place: &Place,
        rule: &'a Rule,
        plain: &Variables<'a>,
        part: &Correlation<'_, 'a>,
    ) -> Result<(), Stop> {
        let both = || Variables::new().json("self", part.new);
        let with_old = match (rule.old, part.old) {
            (Old::No, None) => None,
            (Old::No, Some(old)) => rule.message_reads_old().then(|| both().json("oldSelf", old)),
            (Old::Needed, Some(old)) => Some(both().json("oldSelf", old)),
            (Old::Needed, None) => return Ok(()),
            (Old::Optional, old) => Some(both().optional_json("oldSelf", old)),
        };
        let variables = with_old.as_ref().unwrap_or(plain);
        // What Kubernetes calls the whole object.
        let root = if part.is_root() { "<nil>" } else { "" };
        match rule.program.eval(variables, self.budget) {
            Ok(value) if value.as_bool() == Some(true) => return Ok(()),
            Ok(_) => {}
            Err(error) => return self.failed(place, root, rule, &error),
        }
        let message = match &rule.message_expression {
            Some((text, program)) => self.message(place, root, text, program, variables)?,
            None => None,
        };
        // What was wrong before and has not been touched is let pass, but not by a rule about the change.
        if rule.old == Old::No && part.unchanged() {
            return Ok(());
        }
        let message = message.unwrap_or_else(|| match &rule.message {
            Some(message) => message.to_string(),
            None => format!("failed rule: {}", rule.text),
        });
        // What is large is not shown.
        let shown = match (rule.fault, part.new) {
            (Fault::Required | Fault::Forbidden, _) | (_, Value::Object(_) | Value::Array(_)) => {
                String::new()
            }
            (_, scalar) => scalar.to_string(),
        };
        let field = if rule.field.is_empty() { root } else { &rule.field };
        self.errors.push(rule.fault, field, shown, message);
        Ok(())
    }

    /// Records that a rule came to no value.
    fn failed(&mut self, place: &Place, root: &str, rule: &Rule, error: &EvalError) -> Result<(), Stop> {
        let name = rule.name();
        let (detail, outcome) = match error {
            EvalError::Budget(Limit::Object) => (error.to_string(), Err(Stop)),
            EvalError::Budget(Limit::Expression) => {
                let why = "no further validation rules will be run due to call cost exceeds limit for rule";
                (format!("'{error}': {why}: {name}"), Err(Stop))
            }
            _ if error.is_no_such_overload() => {
                let why = "call arguments did not match a supported operator, function or macro signature";
                (format!("'{error}': {why} for rule: {name}"), Ok(()))
            }
            _ => (format!("{error} evaluating rule: {name}"), Ok(())),
        };
        self.errors.push(Fault::Invalid, root, format!("{:?}", place.kind), detail);
        outcome
    }

    /// The message that an expression makes; `None` when there is nothing to be made of it.
    fn message<'a>(
        &mut self,
        place: &Place,
        root: &str,
        text: &str,
        program: &'a Program,
        variables: &Variables<'a>,
    ) -> Result<Option<String>, Stop> {
        let detail = match program.eval(variables, self.budget) {
            Ok(value) => {
                let message = value.as_str().unwrap_or_default().trim();
                let fits = !message.is_empty() && message.len() <= MOST_MESSAGE && !message.contains('\n');
                return Ok(fits.then(|| message.to_owned()));
            }
            Err(EvalError::Budget(Limit::Object)) => {
                "messageExpression evaluation failed due to running out \
                 of cost budget, no further validation rules will be run"
                    .to_owned()
            }
            Err(EvalError::Budget(Limit::Expression)) => {
                let why = "no further validation rules will be run due to call cost exceeds limit";
                format!("{why} for messageExpression: {text:?}")
            }
            Err(_) => return Ok(None),
        };
        self.errors.push(Fault::Invalid, root, format!("{:?}", place.kind), detail);
        Err(Stop)
    }
}
