//! The compiled form: names are places, functions are chosen, constants are computed.

use std::sync::Arc;

use regex::Regex;

use crate::{
    ast::{FoldKind, Operator},
    library::Overload,
    types::StructField,
    value::Value,
};

/// A part of a program.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    /// A variable that the caller binds, by its place in the program's list.
    Variable(u16),
    /// A variable of a macro, by how many others are around it.
    Local(u16),
    Field(Box<FieldNode>),
    Has(Box<FieldNode>),
    Index(Box<IndexNode>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Binary(Operator, Box<[Node; 2]>),
    If(Box<[Node; 3]>),
    List(Box<[ItemNode]>),
    Map(Box<[EntryNode]>),
    Struct(Box<StructNode>),
    Call(Box<CallNode>),
    /// A function of a text and a pattern that was compiled with the program.
    Pattern(Box<PatternNode>),
    Fold(Box<FoldNode>),
    /// A value that is computed when it is first needed, and what needs it.
    Bind(Box<[Node; 2]>),
    /// An optional, and what becomes of its value.
    OptMap(Box<OptMapNode>),
    /// An optional, and what is taken when it has no value.
    OrElse(Box<OrElseNode>),
}

#[derive(Debug)]
pub(crate) struct FieldNode {
    pub(crate) operand: Node,
    /// The escaped name.
    pub(crate) name: Box<str>,
    /// Whether the result is optional.
    pub(crate) optional: bool,
    /// The field, where the type of the operand is known.
    pub(crate) known: Option<StructField>,
}

#[derive(Debug)]
pub(crate) struct IndexNode {
    pub(crate) operand: Node,
    pub(crate) index: Node,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct ItemNode {
    pub(crate) optional: bool,
    pub(crate) value: Node,
}

#[derive(Debug)]
pub(crate) struct EntryNode {
    pub(crate) optional: bool,
    pub(crate) key: Node,
    pub(crate) value: Node,
}

#[derive(Debug)]
pub(crate) struct StructNode {
    pub(crate) name: Arc<str>,
    /// Sorted by name.
    pub(crate) fields: Vec<(Arc<str>, ItemNode)>,
}

#[derive(Debug)]
pub(crate) struct CallNode {
    /// What may be meant; which one is known when the arguments are.
    pub(crate) overloads: Box<[&'static Overload]>,
    pub(crate) args: Box<[Node]>,
}

#[derive(Debug)]
pub(crate) struct PatternNode {
    pub(crate) what: PatternKind,
    pub(crate) text: Node,
    pub(crate) regex: Regex,
    /// Bytes of the pattern as it was written.
    pub(crate) length: u64,
}

#[derive(Debug)]
pub(crate) enum PatternKind {
    Matches,
    Find,
    FindAll(Option<Node>),
}

#[derive(Debug)]
pub(crate) struct FoldNode {
    pub(crate) what: FoldKind,
    pub(crate) range: Node,
    pub(crate) two: bool,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

#[derive(Debug)]
pub(crate) struct OptMapNode {
    pub(crate) target: Node,
    pub(crate) body: Node,
    pub(crate) flat: bool,
}

#[derive(Debug)]
pub(crate) struct OrElseNode {
    pub(crate) target: Node,
    pub(crate) other: Node,
    /// Whether the value is taken out.
    pub(crate) value: bool,
}

impl Node {
    pub(crate) fn is_const(&self) -> bool {
        matches!(self, Node::Const(_))
    }

    /// The text, where it is a constant one.
    pub(crate) fn const_text(&self) -> Option<&str> {
        match self {
            Node::Const(value) => value.as_str(),
            _ => None,
        }
    }
}
