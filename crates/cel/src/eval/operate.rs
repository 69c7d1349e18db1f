//! Operators.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value as Json;

use crate::{
    ast::Operator,
    cost::tenth,
    error::EvalError,
    library::{
        Outcome, Tools,
        convert::{int_overflow, uint_overflow},
        time,
    },
    types::{ListKind, Type},
    value::{Key, List, Value, compare, equal, identity},
};

fn no_overload<'a>() -> Outcome<'a> {
    Err(EvalError::no_such_overload())
}

pub(super) fn negate(value: Value<'_>) -> Outcome<'_> {
    match value {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(int_overflow),
        Value::Double(value) => Ok(Value::Double(-value)),
        _ => no_overload(),
    }
}

/// Applies an operator to two values, and pays for it.
pub(crate) fn operate<'a>(
    operator: Operator,
    one: Value<'a>,
    two: Value<'a>,
    tools: &mut Tools<'_>,
) -> Outcome<'a> {
    match operator {
        Operator::Equal | Operator::NotEqual => {
            tools.budget.charge(tenth(one.size().min(two.size())).max(1))?;
            Ok(Value::Bool(equal(&one, &two, tools.budget)? == (operator == Operator::Equal)))
        }
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            let cost = match &one {
                Value::String(_) | Value::Bytes(_) => tenth(one.size().min(two.size())),
                _ => 1,
            };
            tools.budget.charge(cost)?;
            let order = compare(&one, &two)?;
            let order = order.ok_or_else(|| EvalError::failed("NaN values cannot be ordered"))?;
            Ok(Value::Bool(match operator {
                Operator::Less => order.is_lt(),
                Operator::LessEqual => order.is_le(),
                Operator::Greater => order.is_gt(),
                _ => order.is_ge(),
            }))
        }
        Operator::In => contains(&one, &two, tools),
        Operator::Add => add(one, two, tools),
        Operator::Subtract => {
            tools.budget.charge(1)?;
            subtract(&one, &two)
        }
        Operator::Multiply | Operator::Divide | Operator::Modulo => {
            tools.budget.charge(1)?;
            multiply(operator, &one, &two)
        }
    }
}

fn contains<'a>(wanted: &Value<'a>, within: &Value<'a>, tools: &mut Tools<'_>) -> Outcome<'a> {
    match within {
        Value::List(list) => {
            tools.budget.charge(list.len() as u64)?;
            for item in list.iter() {
                if equal(&item?, wanted, tools.budget)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(map) => {
            tools.budget.charge(1)?;
            let key = Key::from_value(wanted);
            Ok(Value::Bool(match key {
                Some(key) => map.get(&key)?.is_some(),
                None => false,
            }))
        }
        _ => no_overload(),
    }
}

fn add<'a>(one: Value<'a>, two: Value<'a>, tools: &mut Tools<'_>) -> Outcome<'a> {
    match (&one, &two) {
        (Value::String(left), Value::String(right)) => {
            tools.budget.charge(tenth((left.len() + right.len()) as u64))?;
            let mut text = String::with_capacity(left.len() + right.len());
            text.push_str(left);
            text.push_str(right);
            return Ok(Value::text(text));
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            tools.budget.charge(tenth((left.len() + right.len()) as u64))?;
            return Ok(Value::Bytes([&**left, &**right].concat().into()));
        }
        (Value::List(left), Value::List(right)) => return join(left, right, tools),
        _ => tools.budget.charge(1)?,
    }
    Ok(match (one, two) {
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_add(two).ok_or_else(int_overflow)?),
        (Value::Uint(one), Value::Uint(two)) => Value::Uint(one.checked_add(two).ok_or_else(uint_overflow)?),
        (Value::Double(one), Value::Double(two)) => Value::Double(one + two),
        (Value::Timestamp(time), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(time)) => {
            Value::Timestamp(time::moved(time, by)?)
        }
        (Value::Duration(one), Value::Duration(two)) => {
            let sum = one.checked_add(two).and_then(time::bounded);
            Value::Duration(sum.ok_or_else(int_overflow)?)
        }
        _ => return no_overload(),
    })
}

/// Two lists as one. Lists of the data that are sets or have keys are merged.
fn join<'a>(left: &List<'a>, right: &List<'a>, tools: &mut Tools<'_>) -> Outcome<'a> {
    // Kubernetes asks for one, as it copies nothing; we do.
    tools.budget.charge(1 + (left.len() + right.len()) as u64)?;
    if right.is_empty() {
        return Ok(Value::List(left.clone()));
    }
    match left {
        List::Json(items, Type::List(list)) if list.kind != ListKind::Atomic => {
            merge(left, items, &list.kind, right)
        }
        _ => Ok(Value::list(left.iter().chain(right.iter()).collect::<Result<_, _>>()?)),
    }
}

/// The elements of the first list in their places, replaced by those of the second that have the same
/// identity; then the rest of the second.
fn merge<'a>(left: &List<'a>, items: &'a [Json], kind: &ListKind, right: &List<'a>) -> Outcome<'a> {
    let mut merged: Vec<Value<'a>> = left.iter().collect::<Result<_, _>>()?;
    let mut places: BTreeMap<String, usize> =
        items.iter().enumerate().map(|(at, item)| (identity(item, kind), at)).collect();
    for index in 0..right.len() {
        let value = right.get(index)?;
        let identity = match right {
            List::Json(items, _) => identity(&items[index], kind),
            List::Shared(_) => identity(&value.to_json()?, kind),
        };
        match places.get(&identity) {
            Some(at) => merged[*at] = value,
            None => {
                places.insert(identity, merged.len());
                merged.push(value);
            }
        }
    }
    Ok(Value::List(List::Shared(Arc::new(merged))))
}

fn subtract<'a>(one: &Value<'a>, two: &Value<'a>) -> Outcome<'a> {
    Ok(match (one, two) {
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_sub(*two).ok_or_else(int_overflow)?),
        (Value::Uint(one), Value::Uint(two)) => Value::Uint(one.checked_sub(*two).ok_or_else(uint_overflow)?),
        (Value::Double(one), Value::Double(two)) => Value::Double(one - two),
        (Value::Timestamp(one), Value::Timestamp(two)) => Value::Duration(time::between(*one, *two)?),
        (Value::Timestamp(time), Value::Duration(by)) => {
            let by = by.checked_neg().ok_or_else(int_overflow)?;
            Value::Timestamp(time::moved(*time, by)?)
        }
        (Value::Duration(one), Value::Duration(two)) => {
            let rest = one.checked_sub(*two).and_then(time::bounded);
            Value::Duration(rest.ok_or_else(int_overflow)?)
        }
        _ => return no_overload(),
    })
}

fn multiply<'a>(operator: Operator, one: &Value<'a>, two: &Value<'a>) -> Outcome<'a> {
    let by_zero = || EvalError::failed("division by zero");
    let modulo_zero = || EvalError::failed("modulus by zero");
    Ok(match (operator, one, two) {
        (Operator::Multiply, Value::Int(one), Value::Int(two)) => {
            Value::Int(one.checked_mul(*two).ok_or_else(int_overflow)?)
        }
        (Operator::Multiply, Value::Uint(one), Value::Uint(two)) => {
            Value::Uint(one.checked_mul(*two).ok_or_else(uint_overflow)?)
        }
        (Operator::Multiply, Value::Double(one), Value::Double(two)) => Value::Double(one * two),
        (Operator::Divide, Value::Int(_), Value::Int(0)) => return Err(by_zero()),
        (Operator::Divide, Value::Int(one), Value::Int(two)) => {
            Value::Int(one.checked_div(*two).ok_or_else(int_overflow)?)
        }
        (Operator::Divide, Value::Uint(one), Value::Uint(two)) => {
            Value::Uint(one.checked_div(*two).ok_or_else(by_zero)?)
        }
        (Operator::Divide, Value::Double(one), Value::Double(two)) => Value::Double(one / two),
        (Operator::Modulo, Value::Int(_), Value::Int(0)) => return Err(modulo_zero()),
        (Operator::Modulo, Value::Int(one), Value::Int(two)) => {
            Value::Int(one.checked_rem(*two).ok_or_else(int_overflow)?)
        }
        (Operator::Modulo, Value::Uint(one), Value::Uint(two)) => {
            Value::Uint(one.checked_rem(*two).ok_or_else(modulo_zero)?)
        }
        _ => return no_overload(),
    })
}
