//! Amounts of resources.

use std::cmp::Ordering;

use windlass_machinery::quantity::{Format, Quantity};

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::EvalError,
    value::{Extension, Value},
};

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("quantity(string)->quantity", quantity, Cost::Tenth(0), NO),
    ("isQuantity(string)->bool", is_quantity, Cost::Tenth(0), NO),
    ("sign(quantity)->int", sign, ONE, NO),
    ("quantity::sign()->int", sign, ONE, NO),
    ("quantity::isInteger()->bool", is_integer, ONE, NO),
    ("quantity::asInteger()->int", as_integer, ONE, NO),
    ("quantity::asApproximateFloat()->double", as_float, ONE, NO),
    ("quantity::add(quantity)->quantity", add, ONE, NO),
    ("quantity::add(int)->quantity", add, ONE, NO),
    ("quantity::sub(quantity)->quantity", sub, ONE, NO),
    ("quantity::sub(int)->quantity", sub, ONE, NO),
    ("quantity::isLessThan(quantity)->bool", is_less, ONE, NO),
    ("quantity::isGreaterThan(quantity)->bool", is_greater, ONE, NO),
    ("quantity::compareTo(quantity)->int", compare_to, ONE, NO),
];

fn amount(value: &Value<'_>) -> Result<Quantity, EvalError> {
    match value {
        Value::Extension(extension) => match extension.as_ref() {
            Extension::Quantity(quantity) => Ok(*quantity),
            _ => Err(EvalError::no_such_overload()),
        },
        Value::Int(units) => Ok(Quantity::from_int(*units).with_format(Format::Exponent)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn quantity<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    let quantity = Quantity::parse(text).map_err(|error| EvalError::failed(error.to_string()))?;
    Ok(Value::extension(Extension::Quantity(quantity)))
}

fn is_quantity<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::Bool(Quantity::parse(text).is_ok()))
}

fn sign<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [quantity] = args else { return mismatch() };
    Ok(Value::Int(amount(quantity)?.cmp(&Quantity::ZERO) as i64))
}

/// The number of units, when it is whole and fits.
fn integer(value: &Value<'_>) -> Result<Option<i64>, EvalError> {
    let quantity = amount(value)?;
    let units = quantity.value();
    Ok((Quantity::from_int(units) == quantity).then_some(units))
}

fn is_integer<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [quantity] = args else { return mismatch() };
    Ok(Value::Bool(integer(quantity)?.is_some()))
}

fn as_integer<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [quantity] = args else { return mismatch() };
    integer(quantity)?.map(Value::Int).ok_or_else(|| EvalError::failed("cannot convert value to integer"))
}

fn as_float<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [quantity] = args else { return mismatch() };
    Ok(Value::Double(amount(quantity)?.as_f64()))
}

fn add<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [one, two] = args else { return mismatch() };
    Ok(Value::extension(Extension::Quantity(amount(one)? + amount(two)?)))
}

fn sub<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [one, two] = args else { return mismatch() };
    Ok(Value::extension(Extension::Quantity(amount(one)? - amount(two)?)))
}

fn order(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    let [one, two] = args else { return Err(EvalError::no_such_overload()) };
    Ok(amount(one)?.cmp(&amount(two)?))
}

fn is_less<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(order(args)?.is_lt()))
}

fn is_greater<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(order(args)?.is_gt()))
}

fn compare_to<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(order(args)? as i64))
}
