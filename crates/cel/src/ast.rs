//! The tree the parser makes: macros are expanded, names are not yet looked up.

use std::sync::Arc;

/// A part of an expression.
#[derive(Debug)]
pub(crate) struct Expr {
    /// The byte of the source that an error about it points to.
    pub(crate) at: u32,
    /// How deep the tree below is.
    pub(crate) depth: u16,
    pub(crate) kind: Kind,
}

impl Expr {
    /// Whether a field of a variable is named, in whatever way, here or below.
    pub(crate) fn selects(&self, variable: &str, field: &str) -> bool {
        let is_variable = |operand: &Expr| matches!(&operand.kind, Kind::Ident(name) if **name == *variable);
        let is_field =
            |index: &Expr| matches!(&index.kind, Kind::Literal(Literal::String(text)) if **text == *field);
        let here = match &self.kind {
            Kind::Select { operand, field: own, .. } | Kind::Has { operand, field: own } => {
                **own == *field && is_variable(operand)
            }
            Kind::Index { operand, index, .. } => is_variable(operand) && is_field(index),
            _ => false,
        };
        here || self.kind.children().any(|child| child.selects(variable, field))
    }
}

#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(Box<str>),
    Select { operand: Box<Expr>, field: Box<str>, optional: bool },
    Has { operand: Box<Expr>, field: Box<str> },
    Index { operand: Box<Expr>, index: Box<Expr>, optional: bool },
    Call { target: Option<Box<Expr>>, name: Box<str>, args: Vec<Expr> },
    Not(Box<Expr>),
    Negate(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct { name: Box<str>, fields: Vec<FieldEntry> },
    Fold(Box<Fold>),
    Bind { variable: Box<str>, init: Box<Expr>, body: Box<Expr> },
    OptMap { target: Box<Expr>, variable: Box<str>, body: Box<Expr>, flat: bool },
}

#[derive(Clone, Debug)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// An element of a list; an optional one is left out when it has no value.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) optional: bool,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) optional: bool,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct FieldEntry {
    pub(crate) at: u32,
    pub(crate) optional: bool,
    pub(crate) name: Box<str>,
    pub(crate) value: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    In,
}

impl Operator {
    /// The name of the function behind it, as errors have it.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Operator::Add => "_+_",
            Operator::Subtract => "_-_",
            Operator::Multiply => "_*_",
            Operator::Divide => "_/_",
            Operator::Modulo => "_%_",
            Operator::Less => "_<_",
            Operator::LessEqual => "_<=_",
            Operator::Greater => "_>_",
            Operator::GreaterEqual => "_>=_",
            Operator::Equal => "_==_",
            Operator::NotEqual => "_!=_",
            Operator::In => "@in",
        }
    }
}

/// A macro that goes through a list or a map.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) what: FoldKind,
    pub(crate) range: Expr,
    pub(crate) first: Box<str>,
    /// The second variable: then the first is the index or key and this the element or value.
    pub(crate) second: Option<Box<str>>,
    /// Which elements are taken, where that is asked.
    pub(crate) filter: Option<Expr>,
    /// The predicate, or what becomes of an element.
    pub(crate) body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `map`, and `transformList` with two variables.
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    SortBy,
}
