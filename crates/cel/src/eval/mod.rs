//! Runs programs.
//!
//! Every step pays before it does anything. Failures are absorbed by `&&` and `||` where the other side
//! decides; an empty budget is not.

mod access;
mod fold;
mod operate;

use std::sync::Arc;

use serde_json::Value as Json;

use crate::{
    ast::Operator,
    budget::Budget,
    check::Slot,
    cost::{Cost, tenth},
    error::EvalError,
    library::{Outcome, Tools, patterns},
    node::{CallNode, EntryNode, ItemNode, Node, PatternKind, PatternNode, StructNode},
    program::{Bound, State, Variables},
    value::{Key, List, Map, Object, Text, Value, equal, from_json},
};

pub(crate) use self::operate::operate;

/// How deep programs that read one another may be, all together.
const MOST_DEPTH: u32 = 450;
/// The place of a variable that is not bound.
const UNBOUND: u8 = u8::MAX;

/// The value of a part whose own parts are constants.
pub(crate) fn constant(node: &Node, budget: &mut Budget) -> Option<Result<Value<'static>, EvalError>> {
    let variables = Variables::new();
    budget.begin();
    let outcome = match Evaluator::new(&[], &variables, budget, 0) {
        Ok(mut evaluator) => evaluator.eval(node),
        Err(error) => Err(error),
    };
    budget.end();
    match outcome {
        Ok(value) => value.detached().map(Ok),
        Err(error) => Some(Err(error)),
    }
}

pub(crate) struct Evaluator<'a, 'v> {
    slots: &'a [Slot],
    variables: &'v Variables<'a>,
    /// Where among the variables those of the program are.
    places: [u8; 64],
    locals: Vec<Local<'a>>,
    tools: Tools<'v>,
    depth: u32,
}

/// A variable of a macro.
enum Local<'a> {
    Value(Value<'a>),
    /// Computed when it is first read.
    Pending(&'a Node),
}

impl<'a, 'v> Evaluator<'a, 'v> {
    pub(crate) fn new(
        slots: &'a [Slot],
        variables: &'v Variables<'a>,
        budget: &'v mut Budget,
        depth: u32,
    ) -> Result<Self, EvalError> {
        if depth > MOST_DEPTH {
            return Err(EvalError::failed("expressions that use one another are nested too deeply"));
        }
        let mut places = [UNBOUND; 64];
        for (place, slot) in places.iter_mut().zip(slots) {
            if let Some(at) = variables.place(&slot.name) {
                *place = u8::try_from(at).unwrap_or(UNBOUND);
            }
        }
        let tools = Tools { budget, patterns: patterns::Patterns::default() };
        Ok(Evaluator { slots, variables, places, locals: vec![], tools, depth })
    }

    #[inline]
    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.tools.budget.charge(cost)
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Const(value) => Ok(borrowed(value)),
            Node::Variable(slot) => self.variable(*slot as usize),
            Node::Local(place) => self.local(*place as usize),
            Node::Field(field) => self.field(field),
            Node::Has(field) => self.has(field),
            Node::Index(index) => self.index(index),
            Node::Not(operand) => {
                self.charge(1)?;
                match self.eval(operand)? {
                    Value::Bool(value) => Ok(Value::Bool(!value)),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
            Node::Negate(operand) => {
                self.charge(1)?;
                let value = self.eval(operand)?;
                operate::negate(value)
            }
            Node::And(sides) => self.logical(sides, false),
            Node::Or(sides) => self.logical(sides, true),
            Node::Binary(operator, sides) => self.binary(*operator, sides),
            Node::If(parts) => match self.eval(&parts[0])? {
                Value::Bool(true) => self.eval(&parts[1]),
                Value::Bool(false) => self.eval(&parts[2]),
                _ => Err(EvalError::no_such_overload()),
            },
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Struct(structure) => self.structure(structure),
            Node::Call(call) => self.call(call),
            Node::Pattern(pattern) => self.pattern(pattern),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(parts) => {
                self.charge(1)?;
                self.locals.push(Local::Pending(&parts[0]));
                let outcome = self.eval(&parts[1]);
                self.locals.pop();
                outcome
            }
            Node::OptMap(map) => {
                self.charge(2)?;
                let Value::Optional(value) = self.eval(&map.target)? else {
                    return Err(EvalError::no_such_overload());
                };
                let Some(value) = value else { return Ok(Value::NONE) };
                self.locals.push(Local::Value(value.as_ref().clone()));
                let outcome = self.eval(&map.body);
                self.locals.pop();
                match (outcome?, map.flat) {
                    (value, false) => Ok(Value::some(value)),
                    (value @ Value::Optional(_), true) => Ok(value),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
            Node::OrElse(or) => {
                self.charge(1)?;
                match (self.eval(&or.target)?, or.value) {
                    (Value::Optional(Some(value)), true) => Ok(value.as_ref().clone()),
                    (value @ Value::Optional(Some(_)), false) => Ok(value),
                    (Value::Optional(None), _) => self.eval(&or.other),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
        }
    }

    fn variable(&mut self, slot: usize) -> Outcome<'a> {
        self.charge(1)?;
        let slots = self.slots;
        match self.bound(slot) {
            Some(Bound::Json(json)) => {
                let json: &'a Json = json;
                let value = from_json(json, &slots[slot].declared)?;
                self.noticed(value)
            }
            Some(Bound::Value(value)) => Ok(value.clone()),
            Some(Bound::Deferred(_)) => {
                let name = &slots[slot].name;
                Err(EvalError::failed(format!("{name} can only be used by its fields")))
            }
            None => Err(EvalError::failed(format!("no such attribute(s): {}", slots[slot].name))),
        }
    }

    fn bound(&self, slot: usize) -> Option<&'v Bound<'a>> {
        self.variables.at(self.places[slot] as usize)
    }

    /// Pays for a value that had to be decoded.
    fn noticed(&mut self, value: Value<'a>) -> Outcome<'a> {
        if let Value::Bytes(bytes) = &value {
            self.charge(tenth(bytes.len() as u64))?;
        }
        Ok(value)
    }

    fn local(&mut self, place: usize) -> Outcome<'a> {
        self.charge(1)?;
        let pending = match &self.locals[place] {
            Local::Value(value) => return Ok(value.clone()),
            Local::Pending(node) => *node,
        };
        // It sees what was around it, not what is around its use.
        let above = self.locals.split_off(place);
        let outcome = self.eval(pending);
        self.locals.extend(above);
        let value = outcome?;
        self.locals[place] = Local::Value(value.clone());
        Ok(value)
    }

    /// Whether a variable with fields of expressions has this field; `None` for other variables.
    fn has_deferred(&self, slot: usize, field: &str) -> Option<bool> {
        match self.bound(slot) {
            Some(Bound::Deferred(cell)) => Some(cell.borrow().iter().any(|deferred| deferred.name == field)),
            _ => None,
        }
    }

    /// A field that an expression of its own comes to.
    fn deferred(&mut self, slot: usize, field: &str) -> Option<Outcome<'a>> {
        let Some(Bound::Deferred(cell)) = self.bound(slot) else { return None };
        let fields = cell.borrow();
        let Some(at) = fields.iter().position(|deferred| deferred.name == field) else {
            return Some(Err(EvalError::no_such_key(field)));
        };
        let (program, state) = (fields[at].program, fields[at].state.clone());
        drop(fields);
        match state {
            State::Done(outcome) => return Some(outcome),
            State::Running => {
                return Some(Err(EvalError::failed(format!("{field} depends on itself"))));
            }
            State::New => {}
        }
        cell.borrow_mut()[at].state = State::Running;
        let outcome = program.run(self.variables, self.tools.budget, self.depth);
        cell.borrow_mut()[at].state = State::Done(outcome.clone());
        Some(outcome)
    }

    /// `&&` and `||`: one side that decides is enough, even when the other fails.
    fn logical(&mut self, sides: &'a [Node; 2], decides: bool) -> Outcome<'a> {
        let left = match self.eval(&sides[0]) {
            Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
            Ok(Value::Bool(_)) => None,
            Err(error) if error.is_budget() => return Err(error),
            Err(error) => Some(error),
            Ok(_) => Some(EvalError::no_such_overload()),
        };
        match (self.eval(&sides[1]), left) {
            (Ok(Value::Bool(value)), _) if value == decides => Ok(Value::Bool(decides)),
            (Err(error), _) if error.is_budget() => Err(error),
            (_, Some(error)) => Err(error),
            (Ok(Value::Bool(value)), None) => Ok(Value::Bool(value)),
            (Err(error), None) => Err(error),
            (Ok(_), None) => Err(EvalError::no_such_overload()),
        }
    }

    fn binary(&mut self, operator: Operator, sides: &'a [Node; 2]) -> Outcome<'a> {
        let one = self.eval(&sides[0])?;
        if let (Operator::In, Node::Const(Value::List(List::Shared(items)))) = (operator, &sides[1]) {
            // A list that is written out is a set to Kubernetes, and free.
            self.charge(items.len() as u64 / 10)?;
            for item in items.iter() {
                if equal(item, &one, self.tools.budget)? {
                    return Ok(Value::Bool(true));
                }
            }
            return Ok(Value::Bool(false));
        }
        let two = self.eval(&sides[1])?;
        operate(operator, one, two, &mut self.tools)
    }

    /// The value of an element, unless it is optional and has none.
    fn item(&mut self, item: &'a ItemNode) -> Result<Option<Value<'a>>, EvalError> {
        match (self.eval(&item.value)?, item.optional) {
            (value, false) => Ok(Some(value)),
            (Value::Optional(value), true) => Ok(value.map(|value| value.as_ref().clone())),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn list(&mut self, items: &'a [ItemNode]) -> Outcome<'a> {
        self.charge((items.len() as u64).max(10))?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.extend(self.item(item)?);
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [EntryNode]) -> Outcome<'a> {
        self.charge((2 * entries.len() as u64).max(30))?;
        let mut pairs = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let key = match &key {
                Value::Double(_) => None,
                key => Key::from_value(key),
            };
            let key = key.ok_or_else(|| EvalError::failed("unsupported key type"))?;
            let value = match (self.eval(&entry.value)?, entry.optional) {
                (value, false) => value,
                (Value::Optional(Some(value)), true) => value.as_ref().clone(),
                (Value::Optional(None), true) => continue,
                _ => return Err(EvalError::no_such_overload()),
            };
            pairs.push((key, value));
        }
        Ok(Value::Map(Map::from_entries(pairs)?))
    }

    fn structure(&mut self, structure: &'a StructNode) -> Outcome<'a> {
        self.charge((2 * structure.fields.len() as u64).max(40))?;
        let mut fields = Vec::with_capacity(structure.fields.len());
        for (name, item) in &structure.fields {
            if let Some(value) = self.item(item)? {
                fields.push((name.clone(), value));
            }
        }
        Ok(Value::Object(Arc::new(Object { name: structure.name.clone(), fields })))
    }

    fn call(&mut self, call: &'a CallNode) -> Outcome<'a> {
        // Most calls have few arguments, which then need no allocation.
        match &*call.args {
            [] => self.dispatch(call, &[]),
            [one] => {
                let args = [self.eval(one)?];
                self.dispatch(call, &args)
            }
            [one, two] => {
                let args = [self.eval(one)?, self.eval(two)?];
                self.dispatch(call, &args)
            }
            many => {
                let mut args = Vec::with_capacity(many.len());
                for arg in many {
                    args.push(self.eval(arg)?);
                }
                self.dispatch(call, &args)
            }
        }
    }

    fn dispatch(&mut self, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
        let overload = match &*call.overloads {
            [only] => only,
            many => many
                .iter()
                .find(|overload| args.iter().zip(&overload.args).all(|(arg, ty)| arg.fits(ty)))
                .ok_or_else(EvalError::no_such_overload)?,
        };
        self.charge(overload.cost.now(args))?;
        let run = overload.run.ok_or_else(EvalError::no_such_overload)?;
        run(&mut self.tools, args)
    }

    fn pattern(&mut self, node: &'a PatternNode) -> Outcome<'a> {
        let Value::String(text) = self.eval(&node.text)? else {
            return Err(EvalError::no_such_overload());
        };
        let limit = match &node.what {
            PatternKind::FindAll(Some(limit)) => match self.eval(limit)? {
                Value::Int(limit) => limit,
                _ => return Err(EvalError::no_such_overload()),
            },
            _ => -1,
        };
        self.charge(Cost::regex(text.len() as u64, node.length))?;
        Ok(match node.what {
            PatternKind::Matches => Value::Bool(node.regex.is_match(&text)),
            PatternKind::Find => patterns::found(&node.regex, &text),
            PatternKind::FindAll(_) => patterns::all_found(&node.regex, &text, limit, &mut self.tools)?,
        })
    }
}

/// A constant; its text is borrowed from the program.
fn borrowed<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::String(text) => Value::String(Text::Borrowed(text)),
        other => other.clone(),
    }
}
