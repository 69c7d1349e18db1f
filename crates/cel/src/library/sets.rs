//! Lists taken as sets.

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::EvalError,
    value::{List, Value, equal},
};

pub(super) const ROWS: &[Row] = &[
    ("sets.contains(list(A),list(A))->bool", contains, Cost::Pairs, Grows::Unknown),
    ("sets.equivalent(list(A),list(A))->bool", equivalent, Cost::Pairs, Grows::Unknown),
    ("sets.intersects(list(A),list(A))->bool", intersects, Cost::Pairs, Grows::Unknown),
];

fn has<'a>(list: &List<'a>, wanted: &Value<'a>, tools: &mut Tools<'_>) -> Result<bool, EvalError> {
    for item in list.iter() {
        if equal(&item?, wanted, tools.budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether some element of one list is, or is not, in another.
fn any<'a>(
    list: &List<'a>,
    among: &List<'a>,
    present: bool,
    tools: &mut Tools<'_>,
) -> Result<bool, EvalError> {
    for item in list.iter() {
        if has(among, &item?, tools)? == present {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::List(part)] = args else { return mismatch() };
    Ok(Value::Bool(!any(part, list, false, tools)?))
}

fn equivalent<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(one), Value::List(two)] = args else { return mismatch() };
    Ok(Value::Bool(!any(one, two, false, tools)? && !any(two, one, false, tools)?))
}

fn intersects<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(one), Value::List(two)] = args else { return mismatch() };
    Ok(Value::Bool(any(one, two, true, tools)?))
}
