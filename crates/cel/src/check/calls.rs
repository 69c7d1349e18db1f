//! Checking of operators and function calls.

use super::{Checked, Checker, MOST_PATTERNS, declared_size, unify::instantiate};
use crate::{
    ast::{Element, Expr, Kind, Operator},
    cost::Size,
    error::EvalError,
    eval,
    library::{self, Overload, format, patterns},
    node::{CallNode, IndexNode, Node, OrElseNode, PatternKind, PatternNode},
    parser::qualified_name,
    types::{Declared, Type},
    value::Value,
};

/// The overloads that may be meant, and the type of the result.
type Chosen = (Vec<&'static Overload>, Type);

impl Checker<'_> {
    /// Finds the overloads that fit the arguments; none is a fault.
    fn choose(
        &mut self,
        at: u32,
        name: &str,
        overloads: &'static [Overload],
        member: bool,
        args: &[&Checked],
    ) -> Option<Chosen> {
        let mut chosen: Option<Chosen> = None;
        for overload in overloads {
            if overload.member != member || overload.args.len() != args.len() {
                continue;
            }
            let mark = self.unknowns.mark();
            let first = self.unknowns.fresh(overload.parameters);
            let fits = overload
                .args
                .iter()
                .zip(args)
                .all(|(to, arg)| self.unknowns.assignable(&instantiate(to, first), &arg.ty));
            if !fits {
                self.unknowns.back(mark);
                continue;
            }
            let result = self.unknowns.apply(&instantiate(&overload.result, first), false);
            match &mut chosen {
                None => chosen = Some((vec![overload], result)),
                Some((all, ty)) => {
                    all.push(overload);
                    if *ty != result {
                        *ty = Type::Dyn;
                    }
                }
            }
        }
        if chosen.is_none() {
            self.no_overload(at, name, member, args);
        }
        chosen
    }

    pub(super) fn no_overload(&mut self, at: u32, name: &str, member: bool, args: &[&Checked]) -> Checked {
        if args.iter().any(|arg| arg.ty == Type::Error) {
            return Checked::error();
        }
        let types: Vec<String> =
            args.iter().map(|arg| self.unknowns.apply(&arg.ty, true).to_string()).collect();
        let applied = match (member, types.split_first()) {
            (true, Some((receiver, rest))) => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", types.join(", ")),
        };
        self.fault(at, format!("found no matching overload for '{name}' applied to '{applied}'"))
    }

    /// The highest cost and the size of the result over all overloads that may be meant.
    fn weigh(&self, chosen: &Chosen, args: &[&Checked]) -> (u64, Size) {
        let operands = self.operands(args);
        let (overloads, ty) = chosen;
        let own = overloads.iter().map(|overload| overload.cost.most(&operands)).max().unwrap_or(1);
        let size = overloads
            .iter()
            .map(|overload| overload.grows.size(&operands, ty))
            .reduce(Size::or)
            .unwrap_or(Size::UNKNOWN);
        (args.iter().fold(own, |sum, arg| sum.saturating_add(arg.cost)), size)
    }

    pub(super) fn unary(
        &mut self,
        at: u32,
        name: &'static str,
        operand: &Expr,
        make: fn(Box<Node>) -> Node,
    ) -> Checked {
        let operand = self.check(operand);
        let overloads = library::overloads(name).unwrap_or_default();
        let Some((_, ty)) = self.choose(at, name, overloads, false, &[&operand]) else {
            return Checked::error();
        };
        let constant = operand.node.is_const();
        let node = make(Box::new(operand.node));
        let node = if constant { self.folded(node) } else { node };
        Checked { node, ty, size: Size::exactly(1), cost: operand.cost.saturating_add(1) }
    }

    pub(super) fn logical(&mut self, one: &Expr, two: &Expr, make: fn(Box<[Node; 2]>) -> Node) -> Checked {
        let (one, two) = (self.predicate(one), self.predicate(two));
        let node = make(Box::new([one.node, two.node]));
        Checked { node, ty: Type::Bool, size: Size::exactly(1), cost: one.cost.saturating_add(two.cost) }
    }

    pub(super) fn binary(&mut self, at: u32, operator: Operator, one: &Expr, two: &Expr) -> Checked {
        let (one, two) = (self.check(one), self.check(two));
        // All comparisons have the signatures of the first.
        let table = match operator {
            Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => Operator::Less,
            other => other,
        };
        let overloads = library::overloads(table.function()).unwrap_or_default();
        let args = [&one, &two];
        let Some(chosen) = self.choose(at, operator.function(), overloads, false, &args) else {
            return Checked::error();
        };
        let (cost, size) = self.weigh(&chosen, &args);
        let constant = one.node.is_const() && two.node.is_const();
        let node = Node::Binary(operator, Box::new([one.node, two.node]));
        let node = if constant { self.folded(node) } else { node };
        Checked { node, ty: chosen.1, size, cost }
    }

    pub(super) fn conditional(&mut self, at: u32, condition: &Expr, yes: &Expr, no: &Expr) -> Checked {
        let (condition, yes, no) = (self.check(condition), self.check(yes), self.check(no));
        let number = self.unknowns.fresh(1);
        let ty = Type::Unknown(crate::types::Unknown(number));
        let fits = self.unknowns.assignable(&Type::Bool, &condition.ty)
            && self.unknowns.assignable(&ty, &yes.ty)
            && self.unknowns.assignable(&ty, &no.ty);
        if !fits {
            return self.no_overload(at, "_?_:_", false, &[&condition, &yes, &no]);
        }
        let ty = self.unknowns.shallow(&ty);
        let size = yes.size.or(no.size);
        let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
        Checked { node: Node::If(Box::new([condition.node, yes.node, no.node])), ty, size, cost }
    }

    pub(super) fn index(&mut self, at: u32, operand: &Expr, index: &Expr, optional: bool) -> Checked {
        let (operand, index) = (self.check(operand), self.check(index));
        let name = if optional { "_[?_]" } else { "_[_]" };
        let overloads = library::overloads(name).unwrap_or_default();
        let args = [&operand, &index];
        let Some((_, ty)) = self.choose(at, name, overloads, false, &args) else { return Checked::error() };
        let size = match self.unknowns.shallow(&operand.ty) {
            Type::List(list) => declared_size(&list.item),
            Type::Map(map) => declared_size(&map.value),
            _ => Size::UNKNOWN,
        };
        let cost = operand.cost.saturating_add(index.cost).saturating_add(1);
        let node = Node::Index(Box::new(IndexNode { operand: operand.node, index: index.node, optional }));
        Checked { node, ty, size, cost }
    }

    pub(super) fn call(&mut self, at: u32, target: Option<&Expr>, name: &str, args: &[Expr]) -> Checked {
        let arg_at = args.first().map_or(at, |arg| arg.at);
        // A function of a namespace looks like a method of it.
        let namespace = target.and_then(qualified_name).map(|namespace| format!("{namespace}.{name}"));
        if let Some(full) = namespace.filter(|full| library::overloads(full).is_some()) {
            if matches!(&*full, "math.greatest" | "math.least") && args.len() > 2 {
                let parts = args.iter().map(|arg| (arg.at, false, self.check(arg))).collect();
                let list = self.list_of(parts);
                return self.function(at, arg_at, &full, false, vec![list]);
            }
            let args = args.iter().map(|arg| self.check(arg)).collect();
            return self.function(at, arg_at, &full, false, args);
        }
        let member = target.is_some();
        if let (Some(target), "format", [Expr { kind: Kind::List(parts), .. }]) = (target, name, args) {
            return self.format(at, target, parts);
        }
        let args = target.into_iter().chain(args).map(|arg| self.check(arg)).collect();
        self.function(at, arg_at, name, member, args)
    }

    /// A text with its arguments written out, which may be of different types and are checked one by one.
    fn format(&mut self, at: u32, target: &Expr, parts: &[Element]) -> Checked {
        let target = self.check(target);
        let parts: Vec<(u32, bool, Checked)> =
            parts.iter().map(|part| (part.value.at, part.optional, self.check(&part.value))).collect();
        let exact = parts.iter().all(|(_, optional, _)| !optional);
        if let Some(text) = target.node.const_text().filter(|_| exact) {
            let types: Vec<Type> =
                parts.iter().map(|(.., part)| self.unknowns.apply(&part.ty, true)).collect();
            if let Err((index, why)) = format::check(text, &types) {
                let place = index.and_then(|index| parts.get(index)).map_or(at, |(place, ..)| *place);
                return self.fault(place, why);
            }
        }
        let parts =
            parts.into_iter().map(|(at, optional, part)| (at, optional, Checked { ty: Type::Dyn, ..part }));
        let parts = parts.collect();
        let list = self.list_of(parts);
        self.function(at, at, "format", true, vec![target, list])
    }

    /// A call; `arg_at` is where its first argument is that is not the receiver.
    fn function(&mut self, at: u32, arg_at: u32, name: &str, member: bool, args: Vec<Checked>) -> Checked {
        let Some(overloads) = library::overloads(name).filter(|_| self.env.has_function(name)) else {
            // What is wrong with the receiver was said already.
            return match args.first().is_some_and(|first| member && first.ty == Type::Error) {
                true => Checked::error(),
                false => self.undeclared(at, name),
            };
        };
        let refs: Vec<&Checked> = args.iter().collect();
        let Some(chosen) = self.choose(at, name, overloads, member, &refs) else { return Checked::error() };
        let (cost, size) = self.weigh(&chosen, &refs);
        let (overloads, ty) = chosen;
        let ty = match (name, args.first()) {
            // No piece of a text is longer than the text.
            ("split" | "findAll", Some(text)) => {
                Type::list(Declared { most: text.size.most, ..Declared::from(Type::String) })
            }
            _ => ty,
        };
        let constant = args.iter().all(|arg| arg.node.is_const());
        let nodes: Vec<Node> = args.into_iter().map(|arg| arg.node).collect();
        let node = match name {
            "or" | "orValue" if member => or_else(nodes, name == "orValue"),
            "matches" | "find" | "findAll" => match self.pattern(arg_at, name, nodes) {
                Ok(node) => node,
                Err(nodes) => call(overloads, nodes),
            },
            _ => call(overloads, nodes),
        };
        let node = if constant { self.folded_call(arg_at, name, node) } else { node };
        let size = Self::size_of(&node, size);
        Checked { node, ty, size, cost }
    }

    /// A function of a pattern that is a literal: it is compiled here, and a wrong one is a fault.
    fn pattern(&mut self, at: u32, name: &str, mut nodes: Vec<Node>) -> Result<Node, Vec<Node>> {
        let Some(pattern) = nodes.get(1).and_then(Node::const_text) else { return Err(nodes) };
        let length = pattern.len() as u64;
        let compiled = match self.patterns < MOST_PATTERNS {
            true => patterns::compile(pattern),
            false => Err("there are too many regular expressions, or they are too large".to_owned()),
        };
        let regex = match compiled {
            Ok((regex, weight)) => {
                self.patterns += weight;
                regex
            }
            Err(why) => {
                self.fault(at, format!("invalid {name} argument: {why}"));
                return Ok(Node::Const(Value::Null));
            }
        };
        let limit = if nodes.len() == 3 { nodes.pop() } else { None };
        nodes.truncate(1);
        let Some(text) = nodes.pop() else { return Err(nodes) };
        let what = match name {
            "matches" => PatternKind::Matches,
            "find" => PatternKind::Find,
            _ => PatternKind::FindAll(limit),
        };
        Ok(Node::Pattern(Box::new(PatternNode { what, text, regex, length })))
    }

    /// The value of a call whose arguments are constants. Times that cannot be read are faults.
    fn folded_call(&mut self, at: u32, name: &str, node: Node) -> Node {
        match eval::constant(&node, &mut self.constants) {
            Some(Ok(value)) => Node::Const(value),
            Some(Err(EvalError::Failed(_))) if matches!(name, "duration" | "timestamp") && is_text(&node) => {
                self.fault(at, format!("invalid {name} argument"));
                node
            }
            _ => node,
        }
    }
}

/// Whether the first argument of a call is a text.
fn is_text(node: &Node) -> bool {
    matches!(node, Node::Call(call) if call.args.first().and_then(Node::const_text).is_some())
}

fn call(overloads: Vec<&'static Overload>, nodes: Vec<Node>) -> Node {
    Node::Call(Box::new(CallNode { overloads: overloads.into(), args: nodes.into() }))
}

fn or_else(nodes: Vec<Node>, value: bool) -> Node {
    let [target, other] =
        <[Node; 2]>::try_from(nodes).expect("the signature has a receiver and one argument");
    Node::OrElse(Box::new(OrElseNode { target, other, value }))
}
