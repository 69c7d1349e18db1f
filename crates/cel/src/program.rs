//! Compiled expressions, and the variables they are run with.

use std::cell::RefCell;

use serde_json::Value as Json;

use crate::{
    authorizer::{Authorizer, ResourceCheck},
    budget::Budget,
    check::{Outcome, Slot},
    error::EvalError,
    eval::Evaluator,
    node::Node,
    types::Type,
    value::{Asked, Extension, Value},
};

/// A compiled expression. It can be run any number of times, on any thread.
#[derive(Debug)]
pub struct Program {
    node: Node,
    ty: Type,
    cost: u64,
    slots: Vec<Slot>,
    depth: u16,
    patterns: u32,
}

impl Program {
    pub(crate) fn new(checked: Outcome) -> Self {
        let Outcome { node, ty, cost, slots, depth, patterns } = checked;
        Program { node, ty, cost, slots, depth, patterns }
    }

    /// The type of what it comes to.
    pub fn result(&self) -> &Type {
        &self.ty
    }

    /// What it costs at most, as far as the declared sizes of its variables tell.
    pub fn most_cost(&self) -> u64 {
        self.cost
    }

    /// How many regular expressions were compiled for it; a large one counts as many.
    pub(crate) fn patterns(&self) -> u32 {
        self.patterns
    }

    /// Whether it reads a variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.slots.iter().any(|slot| *slot.name == *variable)
    }

    /// Runs it. What it costs is taken from the budget, whatever comes of it.
    pub fn eval<'a>(
        &'a self,
        variables: &Variables<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, EvalError> {
        budget.begin();
        let outcome = self.run(variables, budget, 0);
        budget.end();
        outcome
    }

    /// Runs it within the budget of an expression that is running.
    pub(crate) fn run<'a>(
        &'a self,
        variables: &Variables<'a>,
        budget: &mut Budget,
        depth: u32,
    ) -> Result<Value<'a>, EvalError> {
        let depth = depth + u32::from(self.depth);
        Evaluator::new(&self.slots, variables, budget, depth)?.eval(&self.node)
    }
}

/// The values of variables.
///
/// JSON is read as the type that the variable was declared with, and only as far as the expression looks.
#[derive(Debug, Default)]
pub struct Variables<'a> {
    bound: Vec<(&'a str, Bound<'a>)>,
}

#[derive(Debug)]
pub(crate) enum Bound<'a> {
    Json(&'a Json),
    Value(Value<'a>),
    Deferred(RefCell<Vec<Deferred<'a>>>),
}

/// A field that an expression of its own comes to, when it is first asked for.
#[derive(Debug)]
pub(crate) struct Deferred<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: &'a Program,
    pub(crate) state: State<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum State<'a> {
    New,
    Running,
    Done(Result<Value<'a>, EvalError>),
}

impl<'a> Variables<'a> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn bind(mut self, name: &'a str, bound: Bound<'a>) -> Self {
        self.bound.retain(|(own, _)| *own != name);
        self.bound.push((name, bound));
        self
    }

    /// Binds a variable to data.
    pub fn json(self, name: &'a str, json: &'a Json) -> Self {
        self.bind(name, Bound::Json(json))
    }

    /// Binds a variable that was declared as optional.
    pub fn optional_json(self, name: &'a str, json: Option<&'a Json>) -> Self {
        match json {
            Some(json) => self.json(name, json),
            None => self.value(name, Value::Optional(None)),
        }
    }

    /// Binds a variable to a value.
    pub fn value(self, name: &'a str, value: Value<'a>) -> Self {
        self.bind(name, Bound::Value(value))
    }

    /// Binds a variable to who decides about authorisation.
    pub fn authorizer(self, name: &'a str, authorizer: &'a dyn Authorizer) -> Self {
        let asked = Asked { authorizer, service_account: None };
        self.value(name, Value::extension(Extension::Authorizer(asked)))
    }

    /// Binds a variable to a check of a resource, such as `authorizer.requestResource`.
    pub fn resource_check(self, name: &'a str, authorizer: &'a dyn Authorizer, check: ResourceCheck) -> Self {
        let asked = Asked { authorizer, service_account: None };
        self.value(name, Value::extension(Extension::ResourceCheck(asked, Box::new(check))))
    }

    /// Gives a variable a field whose value is that of a program. It is run when it is first read, with these
    /// variables, within the budget of who reads it; the outcome is kept.
    pub fn defer(mut self, variable: &'a str, field: &'a str, program: &'a Program) -> Self {
        let known = self.bound.iter_mut().find(|(own, _)| *own == variable);
        let deferred = Deferred { name: field, program, state: State::New };
        match known {
            Some((_, Bound::Deferred(fields))) => {
                fields.get_mut().push(deferred);
                self
            }
            _ => self.bind(variable, Bound::Deferred(RefCell::new(vec![deferred]))),
        }
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.bound.iter().position(|(own, _)| *own == name)
    }

    pub(crate) fn at(&self, place: usize) -> Option<&Bound<'a>> {
        self.bound.get(place).map(|(_, bound)| bound)
    }
}
