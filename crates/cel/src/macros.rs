//! Calls that are no functions: what they are given is not evaluated first.

use crate::{
    ast::{Expr, Fold, FoldKind, Kind},
    parser::{Fault, Parsed, Parser, qualified_name},
};

/// A call without a receiver: `has(a.b)`, or a function.
pub(crate) fn global(parser: &mut Parser<'_>, at: u32, name: Box<str>, mut args: Vec<Expr>) -> Parsed {
    if &*name != "has" {
        return parser.part(at, Kind::Call { target: None, name, args });
    }
    let arg = if args.len() == 1 { args.pop() } else { None };
    match arg {
        Some(Expr { kind: Kind::Select { operand, field, optional: false }, .. }) => {
            parser.part(at, Kind::Has { operand, field })
        }
        Some(other) => Err(parser.error(other.at, "invalid argument to has() macro")),
        None => Err(parser.error(at, "invalid argument to has() macro")),
    }
}

/// A call on a receiver: a macro when the name and the number of arguments say so, else a function.
pub(crate) fn member(
    parser: &mut Parser<'_>,
    at: u32,
    target: Expr,
    name: Box<str>,
    args: Vec<Expr>,
) -> Parsed {
    let namespace = qualified_name(&target);
    match (&*name, args.len()) {
        ("bind", 3) if namespace.as_deref() == Some("cel") => {
            let [variable, init, body] = exactly(args);
            let variable = simple_name(parser, &variable)?;
            parser.part(at, Kind::Bind { variable, init: Box::new(init), body: Box::new(body) })
        }
        ("optMap" | "optFlatMap", 2) => {
            let flat = &*name == "optFlatMap";
            let [variable, body] = exactly(args);
            let variable = simple_name(parser, &variable)?;
            parser.part(at, Kind::OptMap { target: Box::new(target), variable, body: Box::new(body), flat })
        }
        (text, count) => match fold_kind(text, count) {
            Some((what, variables)) => fold(parser, at, target, what, variables, args),
            None => parser.part(at, Kind::Call { target: Some(Box::new(target)), name, args }),
        },
    }
}

/// Which macro it is, and how many variables it names.
fn fold_kind(name: &str, count: usize) -> Option<(FoldKind, usize)> {
    Some(match (name, count) {
        ("all", 2) => (FoldKind::All, 1),
        ("all", 3) => (FoldKind::All, 2),
        ("exists", 2) => (FoldKind::Exists, 1),
        ("exists", 3) => (FoldKind::Exists, 2),
        ("exists_one" | "existsOne", 2) => (FoldKind::ExistsOne, 1),
        ("exists_one" | "existsOne", 3) => (FoldKind::ExistsOne, 2),
        ("map", 2 | 3) => (FoldKind::Map, 1),
        ("filter", 2) => (FoldKind::Filter, 1),
        ("transformList", 3 | 4) => (FoldKind::Map, 2),
        ("transformMap", 3 | 4) => (FoldKind::TransformMap, 2),
        ("transformMapEntry", 3 | 4) => (FoldKind::TransformMapEntry, 2),
        ("sortBy", 2) => (FoldKind::SortBy, 1),
        _ => return None,
    })
}

fn fold(
    parser: &mut Parser<'_>,
    at: u32,
    range: Expr,
    what: FoldKind,
    variables: usize,
    args: Vec<Expr>,
) -> Parsed {
    let mut args = args.into_iter();
    let mut names = vec![];
    for variable in args.by_ref().take(variables) {
        let name = simple_name(parser, &variable)?;
        if names.contains(&name) {
            return Err(parser.error(variable.at, format!("duplicate variable name: {name}")));
        }
        names.push(name);
    }
    let second = if variables == 2 { names.pop() } else { None };
    let first = names.pop().unwrap_or_default();
    let mut rest: Vec<Expr> = args.collect();
    let Some(body) = rest.pop() else { return Err(parser.error(at, "missing argument")) };
    parser.part(at, Kind::Fold(Box::new(Fold { what, range, first, second, filter: rest.pop(), body })))
}

fn simple_name(parser: &Parser<'_>, expr: &Expr) -> Result<Box<str>, Fault> {
    match &expr.kind {
        Kind::Ident(name) => Ok(name.clone()),
        _ => Err(parser.error(expr.at, "argument must be a simple name")),
    }
}

/// The arguments, whose number the caller has just matched.
fn exactly<const N: usize>(args: Vec<Expr>) -> [Expr; N] {
    <[Expr; N]>::try_from(args).expect("the number of arguments was matched")
}
