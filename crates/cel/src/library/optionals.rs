//! Optional values. What `or` and `orValue` fall back on is evaluated only when it is needed, so those two
//! are the evaluator's; here are their signatures for what is not optional until it runs.

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::EvalError,
    value::Value,
};

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("optional.of(A)->optional(A)", of, ONE, Grows::Like(0)),
    ("optional.ofNonZeroValue(A)->optional(A)", of_non_zero, ONE, Grows::Like(0)),
    ("optional.none()->optional(A)", none, ONE, NO),
    ("optional(A)::hasValue()->bool", has_value, ONE, NO),
    ("optional(A)::value()->A", value, ONE, Grows::Like(0)),
    ("optional(A)::or(optional(A))->optional(A)", or, ONE, NO),
    ("optional(A)::orValue(A)->A", or_value, ONE, NO),
    ("optional.unwrap(list(optional(A)))->list(A)", unwrap, Cost::Length(0), Grows::Like(0)),
    ("list(optional(A))::unwrapOpt()->list(A)", unwrap, Cost::Length(0), Grows::Like(0)),
];

fn of<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::some(value.clone()))
}

fn of_non_zero<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(if value.is_zero() { Value::NONE } else { Value::some(value.clone()) })
}

fn none<'a>(_: &mut Tools<'_>, _: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::NONE)
}

fn has_value<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Optional(value)] = args else { return mismatch() };
    Ok(Value::Bool(value.is_some()))
}

fn value<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(value))] => Ok(value.as_ref().clone()),
        [Value::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => mismatch(),
    }
}

fn or<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(None), other @ Value::Optional(_)] => Ok(other.clone()),
        [value @ Value::Optional(Some(_)), _] => Ok(value.clone()),
        _ => mismatch(),
    }
}

fn or_value<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(None), other] => Ok(other.clone()),
        [Value::Optional(Some(value)), _] => Ok(value.as_ref().clone()),
        _ => mismatch(),
    }
}

fn unwrap<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut values = vec![];
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => values.push(value.as_ref().clone()),
            Value::Optional(None) => {}
            _ => return mismatch(),
        }
    }
    Ok(Value::list(values))
}
