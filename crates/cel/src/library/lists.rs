//! Functions on lists.

use std::cmp::Ordering;

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    ast::Operator,
    cost::{Cost, Grows, tenth},
    error::EvalError,
    eval::operate,
    value::{List, Value, compare, equal},
};

const EACH: Cost = Cost::Elements(0);
const NO: Grows = Grows::Unknown;
const LIKE: Grows = Grows::Like(0);

pub(super) const ROWS: &[Row] = &[
    ("list(int)::sum()->int", sum_int, EACH, NO),
    ("list(uint)::sum()->uint", sum_uint, EACH, NO),
    ("list(double)::sum()->double", sum_double, EACH, NO),
    ("list(duration)::sum()->duration", sum_duration, EACH, NO),
    ("list(int)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(uint)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(double)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(bool)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(duration)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(timestamp)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(string)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(bytes)::isSorted()->bool", is_sorted, EACH, NO),
    ("list(int)::min()->int", min, EACH, NO),
    ("list(uint)::min()->uint", min, EACH, NO),
    ("list(double)::min()->double", min, EACH, NO),
    ("list(bool)::min()->bool", min, EACH, NO),
    ("list(duration)::min()->duration", min, EACH, NO),
    ("list(timestamp)::min()->timestamp", min, EACH, NO),
    ("list(string)::min()->string", min, EACH, NO),
    ("list(bytes)::min()->bytes", min, EACH, NO),
    ("list(int)::max()->int", max, EACH, NO),
    ("list(uint)::max()->uint", max, EACH, NO),
    ("list(double)::max()->double", max, EACH, NO),
    ("list(bool)::max()->bool", max, EACH, NO),
    ("list(duration)::max()->duration", max, EACH, NO),
    ("list(timestamp)::max()->timestamp", max, EACH, NO),
    ("list(string)::max()->string", max, EACH, NO),
    ("list(bytes)::max()->bytes", max, EACH, NO),
    ("list(A)::indexOf(A)->int", index_of, EACH, NO),
    ("list(A)::lastIndexOf(A)->int", last_index_of, EACH, NO),
    ("dyn::includes(dyn)->bool", includes, EACH, NO),
    ("list(A)::slice(int,int)->list(A)", slice, Cost::Length(0), LIKE),
    ("list(list(A))::flatten()->list(A)", flatten, Cost::Length(0), NO),
    ("list(dyn)::flatten(int)->list(dyn)", flatten, Cost::Length(0), NO),
    ("list(A)::distinct()->list(A)", distinct, Cost::Length(0), LIKE),
    ("list(A)::reverse()->list(A)", reverse, Cost::Length(0), LIKE),
    ("list(int)::sort()->list(int)", sort, EACH, LIKE),
    ("list(uint)::sort()->list(uint)", sort, EACH, LIKE),
    ("list(double)::sort()->list(double)", sort, EACH, LIKE),
    ("list(bool)::sort()->list(bool)", sort, EACH, LIKE),
    ("list(duration)::sort()->list(duration)", sort, EACH, LIKE),
    ("list(timestamp)::sort()->list(timestamp)", sort, EACH, LIKE),
    ("list(string)::sort()->list(string)", sort, EACH, LIKE),
    ("list(bytes)::sort()->list(bytes)", sort, EACH, LIKE),
    ("list(A)::first()->optional(A)", first, Cost::One, NO),
    ("list(A)::last()->optional(A)", last, Cost::One, NO),
    ("lists.range(int)->list(int)", range, Cost::Range, NO),
];

fn sum<'a>(tools: &mut Tools<'_>, args: &[Value<'a>], zero: Value<'a>) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut total: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        match item {
            Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) => {}
            _ => return mismatch(),
        }
        total = Some(match total {
            Some(total) => operate(Operator::Add, total, item, tools)?,
            None => item,
        });
    }
    Ok(total.unwrap_or(zero))
}

fn sum_int<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    sum(tools, args, Value::Int(0))
}

fn sum_uint<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    sum(tools, args, Value::Uint(0))
}

fn sum_double<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    sum(tools, args, Value::Double(0.0))
}

fn sum_duration<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    sum(tools, args, Value::Duration(jiff::SignedDuration::ZERO))
}

fn is_sorted<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut previous: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(previous) = previous
            && compare(&previous, &item)? == Some(Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

fn extreme<'a>(args: &[Value<'a>], name: &str, wanted: Ordering) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if compare(&item, &best)? != Some(wanted) => best,
            _ => item,
        });
    }
    best.ok_or_else(|| EvalError::failed(format!("{name} called on empty list")))
}

fn min<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "min", Ordering::Less)
}

fn max<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "max", Ordering::Greater)
}

/// Where the first of some elements is that equals a value.
fn position<'a>(
    list: &List<'a>,
    places: impl Iterator<Item = usize>,
    wanted: &Value<'a>,
    tools: &mut Tools<'_>,
) -> Result<Option<usize>, EvalError> {
    for index in places {
        if equal(&list.get(index)?, wanted, tools.budget)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn index_of<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), wanted] = args else { return mismatch() };
    let found = position(list, 0..list.len(), wanted, tools)?;
    Ok(Value::Int(found.map_or(-1, |index| index as i64)))
}

fn last_index_of<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), wanted] = args else { return mismatch() };
    let found = position(list, (0..list.len()).rev(), wanted, tools)?;
    Ok(Value::Int(found.map_or(-1, |index| index as i64)))
}

fn includes<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(match args {
        [Value::List(list), wanted] => position(list, 0..list.len(), wanted, tools)?.is_some(),
        [value, wanted] => equal(value, wanted, tools.budget)?,
        _ => return mismatch(),
    }))
}

fn slice<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(from), Value::Int(to)] = args else { return mismatch() };
    let failed = |text: String| Err(EvalError::failed(text));
    let (Ok(start), Ok(end)) = (usize::try_from(*from), usize::try_from(*to)) else {
        return failed(format!("cannot slice({from}, {to}), negative indexes not supported"));
    };
    if start > end {
        return failed(format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        ));
    }
    if end > list.len() {
        return failed(format!("cannot slice({from}, {to}), list is length {}", list.len()));
    }
    Ok(match list {
        List::Json(items, ty) => Value::List(List::Json(&items[start..end], ty)),
        List::Shared(items) => Value::list(items[start..end].to_vec()),
    })
}

fn flatten<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] if *depth >= 0 => (list, *depth),
        [_, Value::Int(_)] => return Err(EvalError::failed("level must be non-negative")),
        _ => return mismatch(),
    };
    let mut flat = vec![];
    flatten_into(list, depth.min(100), &mut flat, tools)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    list: &List<'a>,
    depth: i64,
    flat: &mut Vec<Value<'a>>,
    tools: &mut Tools<'_>,
) -> Result<(), EvalError> {
    for item in list.iter() {
        tools.budget.charge(1)?;
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat, tools)?,
            other => flat.push(other),
        }
    }
    Ok(())
}

fn distinct<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut kept: Vec<Value<'a>> = vec![];
    for item in list.iter() {
        let item = item?;
        tools.budget.charge(tenth(kept.len() as u64))?;
        let mut known = false;
        for other in &kept {
            known = equal(other, &item, tools.budget)?;
            if known {
                break;
            }
        }
        if !known {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn reverse<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    Ok(Value::list(list.iter().rev().collect::<Result<_, _>>()?))
}

fn sort<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut keyed = vec![];
    for item in list.iter() {
        let item = item?;
        keyed.push((item.clone(), item));
    }
    sorted(keyed, tools)
}

/// The values in the order of their keys, which must all be of one kind that has an order.
pub(crate) fn sorted<'a>(mut keyed: Vec<(Value<'a>, Value<'a>)>, tools: &mut Tools<'_>) -> Outcome<'a> {
    let rounds = u64::from(keyed.len().max(1).ilog2()) + 1;
    tools.budget.charge(tenth(keyed.len() as u64).saturating_mul(rounds))?;
    let kind = keyed.first().map(|(key, _)| key.type_name().to_owned()).unwrap_or_default();
    if keyed.iter().any(|(key, _)| key.type_name() != kind) {
        return Err(EvalError::failed("list elements must have the same type"));
    }
    if let Some((key, _)) = keyed.first() {
        compare(key, key).map_err(|_| EvalError::failed("list elements must be comparable"))?;
    }
    keyed.sort_by(|(one, _), (two, _)| compare(one, two).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Value::list(keyed.into_iter().map(|(_, value)| value).collect()))
}

fn first<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    list.iter().next().transpose().map(|item| item.map_or(Value::NONE, Value::some))
}

fn last<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return mismatch() };
    list.iter().next_back().transpose().map(|item| item.map_or(Value::NONE, Value::some))
}

fn range<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(count)] = args else { return mismatch() };
    if *count < 0 {
        return Err(EvalError::failed(format!("lists.range: size must be non-negative, got {count}")));
    }
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}
