//! The functions there are, as tables: a signature, what runs, what it costs, how large the result is.
//!
//! A signature reads `receiver::name(arguments)->result`, or `name(arguments)->result` without a receiver.
//! `A` and `B` stand for any type. To add a function, add a row.

pub(crate) mod authz;
pub(crate) mod convert;
pub(crate) mod encode;
pub(crate) mod format;
pub(crate) mod formats;
pub(crate) mod lists;
pub(crate) mod maths;
pub(crate) mod net;
pub(crate) mod operators;
pub(crate) mod optionals;
pub(crate) mod patterns;
pub(crate) mod quantities;
pub(crate) mod semvers;
pub(crate) mod sets;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod urls;

use std::{collections::HashMap, sync::LazyLock};

use self::patterns::Patterns;
use crate::{
    budget::Budget,
    cost::{Cost, Grows},
    error::EvalError,
    types::{ExtensionType, Type, Unknown},
    value::Value,
};

/// What functions may use.
pub(crate) struct Tools<'b> {
    pub(crate) budget: &'b mut Budget,
    pub(crate) patterns: Patterns,
}

pub(crate) type Outcome<'a> = Result<Value<'a>, EvalError>;

/// What runs. The arguments fit the signature, but for the elements of lists and maps.
pub(crate) type Run = for<'a> fn(&mut Tools<'_>, &[Value<'a>]) -> Outcome<'a>;

/// A row of a table.
pub(crate) type Row = (&'static str, Run, Cost, Grows);

/// A function for certain arguments.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) member: bool,
    /// The receiver, if any, and the arguments.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// How many type parameters there are.
    pub(crate) parameters: u32,
    /// What runs; operators are the evaluator's own.
    pub(crate) run: Option<Run>,
    pub(crate) cost: Cost,
    pub(crate) grows: Grows,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    let mut add = |signature: &'static str, run, cost, grows| {
        let (name, member, args, result) =
            read_signature(signature).unwrap_or_else(|| panic!("{signature} is a signature"));
        let parameters = if signature.contains('B') { 2 } else { u32::from(signature.contains('A')) };
        let overload = Overload { member, args, result, parameters, run, cost, grows };
        functions.entry(name).or_default().push(overload);
    };
    for (signature, cost, grows) in operators::SIGNATURES {
        add(signature, None, *cost, *grows);
    }
    let tables = [
        convert::ROWS,
        strings::ROWS,
        format::ROWS,
        time::ROWS,
        lists::ROWS,
        sets::ROWS,
        maths::ROWS,
        patterns::ROWS,
        encode::ROWS,
        optionals::ROWS,
        urls::ROWS,
        quantities::ROWS,
        net::ROWS,
        formats::ROWS,
        semvers::ROWS,
        authz::ROWS,
    ];
    for (signature, run, cost, grows) in tables.into_iter().flatten() {
        add(signature, Some(*run), *cost, *grows);
    }
    functions
});

/// The overloads of a name; `None` when there is no such function.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// The types there are names for.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "bool" => Type::Bool,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(Type::Dyn.into()),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        _ => {
            let extension = ExtensionType::ALL.into_iter().find(|extension| extension.name() == name);
            return extension.map(Type::Extension);
        }
    })
}

/// The name of a function, whether it has a receiver, its arguments, its result.
type Signature<'s> = (&'s str, bool, Vec<Type>, Type);

fn read_signature(text: &str) -> Option<Signature<'_>> {
    let (call, result) = text.split_once("->")?;
    let (receiver, call) = match call.split_once("::") {
        Some((receiver, call)) => (Some(receiver), call),
        None => (None, call),
    };
    // Operators have parentheses in no name, so the first one begins the arguments.
    let (name, args) = call.strip_suffix(')')?.split_once('(')?;
    let mut types = vec![];
    if let Some(receiver) = receiver {
        types.push(read_type(receiver)?);
    }
    for arg in split_types(args) {
        types.push(read_type(arg)?);
    }
    Some((name, receiver.is_some(), types, read_type(result)?))
}

/// Types separated by commas that are not within parentheses.
fn split_types(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}

fn read_type(text: &str) -> Option<Type> {
    let text = text.trim();
    if let Some((outer, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let inner = split_types(inner).into_iter().map(read_type).collect::<Option<Vec<_>>>()?;
        return Some(match (outer, &*inner) {
            ("list", [item]) => Type::list(item.clone()),
            ("map", [key, value]) => Type::map(key.clone(), value.clone()),
            ("optional", [of]) => Type::optional(of.clone()),
            ("type", [of]) => Type::Type(of.clone().into()),
            _ => return None,
        });
    }
    Some(match text {
        "A" => Type::Unknown(Unknown(0)),
        "B" => Type::Unknown(Unknown(1)),
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "quantity" => Type::Extension(ExtensionType::Quantity),
        "ip" => Type::Extension(ExtensionType::Ip),
        "cidr" => Type::Extension(ExtensionType::Cidr),
        "url" => Type::Extension(ExtensionType::Url),
        "semver" => Type::Extension(ExtensionType::Semver),
        "format" => Type::Extension(ExtensionType::Format),
        "authorizer" => Type::Extension(ExtensionType::Authorizer),
        "pathcheck" => Type::Extension(ExtensionType::PathCheck),
        "groupcheck" => Type::Extension(ExtensionType::GroupCheck),
        "resourcecheck" => Type::Extension(ExtensionType::ResourceCheck),
        "decision" => Type::Extension(ExtensionType::Decision),
        name => return type_named(name),
    })
}

/// The arguments are not what the function takes, which only dynamic values can bring about.
pub(crate) fn mismatch<'a>() -> Outcome<'a> {
    Err(EvalError::no_such_overload())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_every_table_is_read() {
        assert!(FUNCTIONS.len() > 100, "{}", FUNCTIONS.len());
        let add = overloads("_+_").expect("addition");
        assert!(add.iter().any(|overload| overload.result == Type::String));
        let find = overloads("find").expect("find");
        assert_eq!((find[0].member, find[0].args.len()), (true, 2));
    }
}
