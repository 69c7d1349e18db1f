//! The type checker, which also makes the program and works out what it may cost at most.
//!
//! One pass does all three, because each needs the same thing: what every part is. Faults are gathered; what
//! is wrong has the type [`Type::Error`], which fits everywhere, so that one fault is told once.

mod calls;
mod folds;
mod unify;

use std::sync::Arc;

use self::unify::Unknowns;
use crate::{
    ast::{Element, Entry, Expr, FieldEntry, Kind, Literal},
    budget::Budget,
    cost::{Operand, Size},
    env::Env,
    error::CompileError,
    escape::unescape,
    eval, library,
    node::{EntryNode, FieldNode, ItemNode, Node, StructNode},
    parser::qualified_name,
    types::{Declared, StructField, Type},
    value::{Key, Map, Text, Value},
};

/// How many macros may be within one another.
const MOST_NESTED: usize = 16;
/// How many variables a program may read.
const MOST_VARIABLES: usize = 64;
/// How many faults are told.
const MOST_ERRORS: usize = 20;
/// What may be spent on one constant and on all of an expression, so that constants are small and soon made.
const CONSTANT_BUDGET: (u64, u64) = (1000, 20_000);
/// How many regular expressions an expression may have; a large one counts as many.
const MOST_PATTERNS: u32 = 100;

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// A variable that a program reads.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) declared: Declared,
}

/// What the checker makes of an expression.
pub(crate) struct Outcome {
    pub(crate) node: Node,
    pub(crate) ty: Type,
    pub(crate) cost: u64,
    pub(crate) slots: Vec<Slot>,
    pub(crate) depth: u16,
    /// How many regular expressions were compiled.
    pub(crate) patterns: u32,
}

/// Checks a whole expression.
pub(crate) fn check(env: &Env, source: &str, expr: &Expr) -> Result<Outcome, Vec<CompileError>> {
    let mut checker = Checker {
        env,
        source,
        errors: vec![],
        unknowns: Unknowns::default(),
        locals: vec![],
        slots: vec![],
        nested: 0,
        constants: Budget::new(CONSTANT_BUDGET.0, CONSTANT_BUDGET.1),
        patterns: 0,
    };
    let checked = checker.check(expr);
    if !checker.errors.is_empty() {
        return Err(checker.errors);
    }
    let ty = checker.unknowns.apply(&checked.ty, true);
    let Checker { slots, patterns, .. } = checker;
    Ok(Outcome { node: checked.node, ty, cost: checked.cost, slots, depth: expr.depth, patterns })
}

/// What is known about a part.
struct Checked {
    node: Node,
    ty: Type,
    size: Size,
    /// What it costs at most.
    cost: u64,
}

impl Checked {
    fn error() -> Self {
        Checked { node: Node::Const(Value::Null), ty: Type::Error, size: Size::UNKNOWN, cost: 0 }
    }
}

/// A variable of a macro.
struct Local {
    name: Box<str>,
    ty: Type,
    size: Size,
}

struct Checker<'e> {
    env: &'e Env,
    source: &'e str,
    errors: Vec<CompileError>,
    unknowns: Unknowns,
    locals: Vec<Local>,
    slots: Vec<Slot>,
    /// How many macros are around.
    nested: usize,
    /// What is left for the computation of constants.
    constants: Budget,
    patterns: u32,
}

/// How large what is declared may be.
fn declared_size(declared: &Declared) -> Size {
    Size::at_most(declared.most)
}

impl Checker<'_> {
    fn fault(&mut self, at: u32, message: impl Into<String>) -> Checked {
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(CompileError::new(self.source, at, message));
        }
        Checked::error()
    }

    fn undeclared(&mut self, at: u32, name: &str) -> Checked {
        let hint = match name {
            "authorizer" => ": authorization checks are not available to this expression",
            _ => "",
        };
        self.fault(at, format!("undeclared reference to '{name}' (in container ''){hint}"))
    }

    fn mismatch(&mut self, at: u32, expected: &Type, found: &Type) -> Checked {
        let (expected, found) = (self.unknowns.apply(expected, true), self.unknowns.apply(found, true));
        self.fault(at, format!("expected type '{expected}' but found '{found}'"))
    }

    fn check(&mut self, expr: &Expr) -> Checked {
        match &expr.kind {
            Kind::Literal(literal) => self.literal(literal),
            Kind::Ident(name) => self.ident(expr.at, name),
            Kind::Select { operand, field, optional } => self.select(expr, operand, field, *optional),
            Kind::Has { operand, field } => self.has(expr.at, operand, field),
            Kind::Index { operand, index, optional } => self.index(expr.at, operand, index, *optional),
            Kind::Call { target, name, args } => self.call(expr.at, target.as_deref(), name, args),
            Kind::Not(operand) => self.unary(expr.at, "!_", operand, Node::Not),
            Kind::Negate(operand) => self.unary(expr.at, "-_", operand, Node::Negate),
            Kind::And(one, two) => self.logical(one, two, Node::And),
            Kind::Or(one, two) => self.logical(one, two, Node::Or),
            Kind::Binary(operator, one, two) => self.binary(expr.at, *operator, one, two),
            Kind::Conditional(condition, yes, no) => self.conditional(expr.at, condition, yes, no),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.structure(expr.at, name, fields),
            Kind::Fold(fold) => self.fold(expr.at, fold),
            Kind::Bind { variable, init, body } => self.bind(expr.at, variable, init, body),
            Kind::OptMap { target, variable, body, flat } => {
                self.opt_map(expr.at, target, variable, body, *flat)
            }
        }
    }

    fn literal(&mut self, literal: &Literal) -> Checked {
        let (value, ty, size) = match literal {
            Literal::Null => (Value::Null, Type::Null, 1),
            Literal::Bool(value) => (Value::Bool(*value), Type::Bool, 1),
            Literal::Int(value) => (Value::Int(*value), Type::Int, 1),
            Literal::Uint(value) => (Value::Uint(*value), Type::Uint, 1),
            Literal::Double(value) => (Value::Double(*value), Type::Double, 1),
            Literal::String(text) => {
                (Value::String(Text::Shared(text.clone())), Type::String, text.chars().count() as u64)
            }
            Literal::Bytes(bytes) => (Value::Bytes(bytes.clone()), Type::Bytes, bytes.len() as u64),
        };
        Checked { node: Node::Const(value), ty, size: Size::exactly(size), cost: 0 }
    }

    fn ident(&mut self, at: u32, name: &str) -> Checked {
        if let Some(place) = self.locals.iter().rposition(|local| &*local.name == name) {
            let local = &self.locals[place];
            let (ty, size) = (local.ty.clone(), local.size);
            return Checked { node: Node::Local(place as u16), ty, size, cost: 1 };
        }
        match self.global(at, name) {
            Some(checked) => checked,
            None => self.undeclared(at, name),
        }
    }

    /// A variable of the environment, or a type.
    fn global(&mut self, at: u32, name: &str) -> Option<Checked> {
        if let Some((name, declared)) = self.env.find(name) {
            let (ty, size) = (declared.ty.clone(), declared_size(declared));
            let known = self.slots.iter().position(|slot| slot.name == *name);
            let place = known.unwrap_or_else(|| {
                self.slots.push(Slot { name: name.clone(), declared: declared.clone() });
                self.slots.len() - 1
            });
            if place >= MOST_VARIABLES {
                return Some(
                    self.fault(at, format!("expression reads more than {MOST_VARIABLES} variables")),
                );
            }
            return Some(Checked { node: Node::Variable(place as u16), ty, size, cost: 1 });
        }
        let ty = library::type_named(name)?;
        let node = Node::Const(Value::Type(name.into()));
        Some(Checked { node, ty: Type::Type(Arc::new(ty)), size: Size::exactly(1), cost: 0 })
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Checked {
        if !optional
            && let Some(name) = qualified_name(expr)
            && !self.locals.iter().any(|local| name.split('.').next() == Some(&*local.name))
            && let Some(checked) = self.global(expr.at, &name)
        {
            return checked;
        }
        let operand = self.check(operand);
        let (ty, size, known) = self.field_of(expr.at, &operand.ty, field);
        let ty = match (optional, &ty) {
            (true, Type::Optional(_)) | (false, _) => ty,
            (true, _) => Type::optional(ty),
        };
        let cost = operand.cost.saturating_add(1);
        let node =
            Node::Field(Box::new(FieldNode { operand: operand.node, name: field.into(), optional, known }));
        Checked { node, ty, size, cost }
    }

    /// The type and size of a field, and the field where it is one that a schema names.
    fn field_of(&mut self, at: u32, operand: &Type, name: &str) -> (Type, Size, Option<StructField>) {
        match self.unknowns.shallow(operand) {
            Type::Struct(structure) => match structure.field(name) {
                Some(field) => {
                    let declared = &field.declared;
                    (declared.ty.clone(), declared_size(declared), Some(field.clone()))
                }
                None => {
                    self.fault(at, format!("undefined field '{name}'"));
                    (Type::Error, Size::UNKNOWN, None)
                }
            },
            Type::Map(map) => (map.value.ty.clone(), declared_size(&map.value), None),
            Type::Optional(of) => {
                let (ty, size, _) = self.field_of(at, &of, name);
                (Type::optional(ty), size, None)
            }
            Type::Object(object) => match (&*object, name) {
                ("JSONPatch", "op" | "path" | "from") => (Type::String, Size::UNKNOWN, None),
                _ => (Type::Dyn, Size::UNKNOWN, None),
            },
            unknown @ Type::Unknown(_) => {
                self.unknowns.assignable(&unknown, &Type::Dyn);
                (Type::Dyn, Size::UNKNOWN, None)
            }
            Type::Dyn => (Type::Dyn, Size::UNKNOWN, None),
            Type::Error => (Type::Error, Size::UNKNOWN, None),
            other => {
                let other = self.unknowns.apply(&other, true);
                self.fault(at, format!("type '{other}' does not support field selection"));
                (Type::Error, Size::UNKNOWN, None)
            }
        }
    }

    fn has(&mut self, at: u32, operand: &Expr, field: &str) -> Checked {
        let operand = self.check(operand);
        let (_, _, known) = self.field_of(at, &operand.ty, field);
        let node = FieldNode { operand: operand.node, name: field.into(), optional: false, known };
        // A test for presence is free, as it is in Kubernetes.
        let cost = operand.cost;
        Checked { node: Node::Has(Box::new(node)), ty: Type::Bool, size: Size::exactly(1), cost }
    }

    fn list(&mut self, elements: &[Element]) -> Checked {
        let parts = elements.iter().map(|element| {
            let checked = self.check(&element.value);
            (element.value.at, element.optional, checked)
        });
        let parts = parts.collect();
        self.list_of(parts)
    }

    /// A list of parts, of which each is said to be optional or not.
    fn list_of(&mut self, parts: Vec<(u32, bool, Checked)>) -> Checked {
        let first = self.unknowns.fresh(1);
        let item = Type::Unknown(crate::types::Unknown(first));
        let size = Size { least: 0, most: parts.len() as u64 };
        let (mut cost, mut most, mut nodes) = (LIST_COST, 0, vec![]);
        for (at, optional, part) in parts {
            let ty = if optional { self.inner_of(at, &part.ty) } else { part.ty.clone() };
            if !self.unknowns.assignable(&item, &ty) {
                self.mismatch(at, &item, &ty);
            }
            cost = cost.saturating_add(part.cost);
            most = most.max(part.size.most);
            nodes.push(ItemNode { optional, value: part.node });
        }
        let item = self.unknowns.shallow(&item);
        let ty = Type::list(Declared { most, ..Declared::from(item) });
        let constant = nodes.iter().all(|node| !node.optional && node.value.is_const());
        let node = if constant {
            let values = nodes.into_iter().filter_map(|node| match node.value {
                Node::Const(value) => Some(value),
                _ => None,
            });
            Node::Const(Value::list(values.collect()))
        } else {
            Node::List(nodes.into())
        };
        let exact = matches!(node, Node::Const(_));
        Checked { node, ty, size: if exact { Size::exactly(size.most) } else { size }, cost }
    }

    /// What an optional part is when it is there.
    fn inner_of(&mut self, at: u32, ty: &Type) -> Type {
        match self.unknowns.shallow(ty) {
            Type::Optional(of) => (*of).clone(),
            Type::Dyn => Type::Dyn,
            Type::Error => Type::Error,
            other => {
                self.mismatch(at, &Type::optional(Type::Dyn), &other);
                Type::Error
            }
        }
    }

    fn map(&mut self, entries: &[Entry]) -> Checked {
        let first = self.unknowns.fresh(2);
        let [key_ty, value_ty] =
            [first, first + 1].map(|number| Type::Unknown(crate::types::Unknown(number)));
        let (mut cost, mut most, mut nodes) = (MAP_COST, 0, vec![]);
        for entry in entries {
            let key = self.check(&entry.key);
            let value = self.check(&entry.value);
            match self.unknowns.shallow(&key.ty) {
                Type::Bool
                | Type::Int
                | Type::Uint
                | Type::String
                | Type::Dyn
                | Type::Error
                | Type::Unknown(_) => {}
                other => {
                    let other = self.unknowns.apply(&other, true);
                    self.fault(entry.key.at, format!("unsupported key type: {other}"));
                }
            }
            if !self.unknowns.assignable(&key_ty, &key.ty) {
                self.mismatch(entry.key.at, &key_ty, &key.ty);
            }
            let ty = if entry.optional { self.inner_of(entry.value.at, &value.ty) } else { value.ty.clone() };
            if !self.unknowns.assignable(&value_ty, &ty) {
                self.mismatch(entry.value.at, &value_ty, &ty);
            }
            cost = cost.saturating_add(key.cost).saturating_add(value.cost);
            most = most.max(value.size.most);
            nodes.push(EntryNode { optional: entry.optional, key: key.node, value: value.node });
        }
        let (key_ty, value_ty) = (self.unknowns.shallow(&key_ty), self.unknowns.shallow(&value_ty));
        let ty = Type::map(key_ty, Declared { most, ..Declared::from(value_ty) });
        let size = Size { least: 0, most: entries.len() as u64 };
        let node = constant_map(&nodes).map_or_else(|| Node::Map(nodes.into()), Node::Const);
        Checked { node, ty, size, cost }
    }

    fn structure(&mut self, at: u32, name: &str, fields: &[FieldEntry]) -> Checked {
        let object = name == "Object" || name.starts_with("Object.");
        if !self.env.can_construct() || !(object || name == "JSONPatch") {
            return self.undeclared(at, name);
        }
        let mut cost = STRUCT_COST;
        let mut nodes: Vec<(Arc<str>, ItemNode)> = vec![];
        for field in fields {
            let expected = match (object, &*field.name) {
                (true, _) | (false, "value") => Type::Dyn,
                (false, "op" | "path" | "from") => Type::String,
                (false, other) => {
                    self.fault(field.at, format!("undefined field '{other}'"));
                    Type::Error
                }
            };
            let value = self.check(&field.value);
            let ty = if field.optional { self.inner_of(field.value.at, &value.ty) } else { value.ty.clone() };
            if !self.unknowns.assignable(&expected, &ty) {
                self.mismatch(field.value.at, &expected, &ty);
            }
            cost = cost.saturating_add(value.cost);
            let json = unescape(&field.name).unwrap_or_else(|| field.name.to_string());
            nodes.push((json.into(), ItemNode { optional: field.optional, value: value.node }));
        }
        nodes.sort_by(|(one, _), (two, _)| one.cmp(two));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let message = format!("field '{}' is set twice", pair[0].0);
            self.fault(at, message);
        }
        let name: Arc<str> = name.into();
        let node = Node::Struct(Box::new(StructNode { name: name.clone(), fields: nodes }));
        Checked { node, ty: Type::Object(name), size: Size::UNKNOWN, cost }
    }

    /// What the cost table wants to know about arguments.
    fn operands(&self, args: &[&Checked]) -> Vec<Operand> {
        args.iter().map(|arg| Operand { ty: self.unknowns.apply(&arg.ty, false), size: arg.size }).collect()
    }

    /// The size of what a part comes to, which is known when it is a constant.
    fn size_of(node: &Node, size: Size) -> Size {
        match node {
            Node::Const(Value::String(text)) => Size::exactly(text.chars().count() as u64),
            Node::Const(value @ (Value::List(_) | Value::Map(_) | Value::Bytes(_))) => {
                Size::exactly(value.size())
            }
            _ => size,
        }
    }

    /// The value of a part whose own parts are constants; itself when that fails.
    fn folded(&mut self, node: Node) -> Node {
        match eval::constant(&node, &mut self.constants) {
            Some(Ok(value)) => Node::Const(value),
            _ => node,
        }
    }
}

/// The map, where all of its keys and values are constants.
fn constant_map(entries: &[EntryNode]) -> Option<Value<'static>> {
    let mut constant = vec![];
    for entry in entries {
        match (&entry.key, &entry.value) {
            (Node::Const(key), Node::Const(value)) if !entry.optional => {
                constant.push((Key::from_value(key)?, value.clone()));
            }
            _ => return None,
        }
    }
    Map::from_entries(constant).ok().map(Value::Map)
}
