//! Equality and order.
//!
//! Equality goes deep, so it pays as it goes: two values for one unit, beyond what the operator itself costs.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::Value as Json;

use super::{Key, List, Map, Object, Text, Value};
use crate::{
    budget::Budget,
    error::EvalError,
    types::{ListKind, Type},
};

/// How deep values may nest when they are compared.
const MOST_DEPTH: u32 = 200;

/// Whether two values are equal; values of different types are not, but numbers are by amount.
pub(crate) fn equal(one: &Value<'_>, two: &Value<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
    // The common cases need no bookkeeping.
    match (one, two) {
        (Value::String(one), Value::String(two)) => return Ok(**one == **two),
        (Value::Int(one), Value::Int(two)) => return Ok(one == two),
        (Value::Bool(one), Value::Bool(two)) => return Ok(one == two),
        _ => {}
    }
    let mut comparison = Comparison { budget, work: 0, depth: 0 };
    let outcome = comparison.equal(one, two)?;
    comparison.pay(2)?;
    Ok(outcome)
}

struct Comparison<'b> {
    budget: &'b mut Budget,
    /// Values gone through and not yet paid for.
    work: u64,
    depth: u32,
}

impl Comparison<'_> {
    /// Pays for what was gone through, in portions.
    fn pay(&mut self, portion: u64) -> Result<(), EvalError> {
        if self.work >= portion {
            self.budget.charge(self.work / 2)?;
            self.work %= 2;
        }
        Ok(())
    }

    fn equal(&mut self, one: &Value<'_>, two: &Value<'_>) -> Result<bool, EvalError> {
        self.work += 1;
        self.pay(1000)?;
        Ok(match (one, two) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(one), Value::Bool(two)) => one == two,
            (Value::String(one), Value::String(two)) => {
                self.work += one.len().min(two.len()) as u64 / 10;
                **one == **two
            }
            (Value::Bytes(one), Value::Bytes(two)) => {
                self.work += one.len().min(two.len()) as u64 / 10;
                one == two
            }
            (Value::Timestamp(one), Value::Timestamp(two)) => one == two,
            (Value::Duration(one), Value::Duration(two)) => one == two,
            (Value::Type(one), Value::Type(two)) => one == two,
            (Value::Extension(one), Value::Extension(two)) => one == two,
            (Value::Optional(one), Value::Optional(two)) => match (one, two) {
                (Some(one), Some(two)) => self.deeper(|this| this.equal(one, two))?,
                (None, None) => true,
                _ => false,
            },
            (Value::List(one), Value::List(two)) => self.deeper(|this| this.lists(one, two))?,
            (Value::Map(one), Value::Map(two)) => self.deeper(|this| this.maps(one, two))?,
            (Value::Object(one), Value::Object(two)) => self.deeper(|this| this.objects(one, two))?,
            _ => matches!(numbers(one, two), Some(Some(Ordering::Equal))),
        })
    }

    fn deeper(
        &mut self,
        compare: impl FnOnce(&mut Self) -> Result<bool, EvalError>,
    ) -> Result<bool, EvalError> {
        if self.depth >= MOST_DEPTH {
            return Err(EvalError::failed("value is nested too deeply to be compared"));
        }
        self.depth += 1;
        let outcome = compare(self);
        self.depth -= 1;
        outcome
    }

    fn lists(&mut self, one: &List<'_>, two: &List<'_>) -> Result<bool, EvalError> {
        if one.len() != two.len() {
            return Ok(false);
        }
        match one {
            List::Json(items, Type::List(list)) if list.kind != ListKind::Atomic => {
                self.unordered(items, &list.kind, one, two)
            }
            _ => {
                for index in 0..one.len() {
                    if !self.equal(&one.get(index)?, &two.get(index)?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether every element of the second list has its equal in the first, whatever the order.
    fn unordered(
        &mut self,
        items: &[Json],
        kind: &ListKind,
        one: &List<'_>,
        two: &List<'_>,
    ) -> Result<bool, EvalError> {
        let places: BTreeMap<String, usize> =
            items.iter().enumerate().map(|(index, item)| (identity(item, kind), index)).collect();
        self.work += items.len() as u64;
        for index in 0..two.len() {
            let at = match two {
                List::Json(others, _) => places.get(&identity(&others[index], kind)),
                List::Shared(others) => match others[index].to_json() {
                    Ok(json) => places.get(&identity(&json, kind)),
                    Err(_) => None,
                },
            };
            let Some(at) = at else { return Ok(false) };
            if !self.equal(&one.get(*at)?, &two.get(index)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn maps(&mut self, one: &Map<'_>, two: &Map<'_>) -> Result<bool, EvalError> {
        match (one, two) {
            (Map::Json(own, Type::Struct(_)), Map::Json(..)) => self.structs(own, one, two),
            _ => {
                if one.len() != two.len() {
                    return Ok(false);
                }
                for (key, value) in entries(one) {
                    match two.get(&key)? {
                        Some(other) if self.equal(&value?, &other)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }

    /// Objects of the data: a field that is null is as good as absent, and unknown fields count.
    fn structs(
        &mut self,
        own: &serde_json::Map<String, Json>,
        one: &Map<'_>,
        two: &Map<'_>,
    ) -> Result<bool, EvalError> {
        let (Map::Json(_, ty), Map::Json(others, _)) = (one, two) else { return Ok(false) };
        let present =
            |map: &serde_json::Map<String, Json>| map.values().filter(|value| !value.is_null()).count();
        if present(own) != present(others) {
            return Ok(false);
        }
        for (name, value) in own.iter().filter(|(_, value)| !value.is_null()) {
            let Some(other) = others.get(name).filter(|other| !other.is_null()) else { return Ok(false) };
            let declared = ty.field_by_json(name);
            let (value, other) = (super::from_json(value, declared)?, super::from_json(other, declared)?);
            if !self.equal(&value, &other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn objects(&mut self, one: &Object<'_>, two: &Object<'_>) -> Result<bool, EvalError> {
        if one.name != two.name || one.fields.len() != two.fields.len() {
            return Ok(false);
        }
        for ((name, value), (other_name, other)) in one.fields.iter().zip(&two.fields) {
            if name != other_name || !self.equal(value, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The entries of a map, by key.
pub(crate) fn entries<'m, 'a>(
    map: &'m Map<'a>,
) -> Box<dyn Iterator<Item = (Key<'a>, Result<Value<'a>, EvalError>)> + 'm> {
    match map {
        Map::Json(map, ty) => Box::new(map.iter().map(|(key, value)| {
            (Key::String(Text::Borrowed(key)), super::from_json(value, ty.value_at(key)))
        })),
        Map::Shared(entries) => Box::new(entries.iter().map(|(key, value)| (key.clone(), Ok(value.clone())))),
    }
}

/// What tells an element of a set or of a keyed list from the others.
pub(crate) fn identity(item: &Json, kind: &ListKind) -> String {
    match kind {
        ListKind::Map(keys) => {
            let values: Vec<&Json> = keys.iter().map(|key| item.get(&**key).unwrap_or(&Json::Null)).collect();
            serde_json::to_string(&values).unwrap_or_default()
        }
        _ => item.to_string(),
    }
}

/// The order of two numbers; the inner `None` when one is not a number, the outer when they are no numbers.
#[allow(clippy::option_option)]
fn numbers(one: &Value<'_>, two: &Value<'_>) -> Option<Option<Ordering>> {
    Some(match (one, two) {
        (Value::Int(one), Value::Int(two)) => Some(one.cmp(two)),
        (Value::Uint(one), Value::Uint(two)) => Some(one.cmp(two)),
        (Value::Double(one), Value::Double(two)) => one.partial_cmp(two),
        (Value::Int(one), Value::Uint(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
        (Value::Uint(one), Value::Int(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
        (Value::Int(one), Value::Double(two)) => whole_and_double(i128::from(*one), *two),
        (Value::Uint(one), Value::Double(two)) => whole_and_double(i128::from(*one), *two),
        (Value::Double(one), Value::Int(two)) => {
            whole_and_double(i128::from(*two), *one).map(Ordering::reverse)
        }
        (Value::Double(one), Value::Uint(two)) => {
            whole_and_double(i128::from(*two), *one).map(Ordering::reverse)
        }
        _ => return None,
    })
}

/// Compares without losing digits: not every integer has a double of its own.
fn whole_and_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Far above all integers of 64 bits, and exact below.
    let floor = double.floor().clamp(-1e30, 1e30);
    Some(whole.cmp(&(floor as i128)).then(if double > floor { Ordering::Less } else { Ordering::Equal }))
}

/// The order of two values; `None` when one of them is not a number, an error when they have no order.
pub(crate) fn compare(one: &Value<'_>, two: &Value<'_>) -> Result<Option<Ordering>, EvalError> {
    Ok(Some(match (one, two) {
        (Value::String(one), Value::String(two)) => (**one).cmp(&**two),
        (Value::Bytes(one), Value::Bytes(two)) => one.cmp(two),
        (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
        (Value::Timestamp(one), Value::Timestamp(two)) => one.cmp(two),
        (Value::Duration(one), Value::Duration(two)) => one.cmp(two),
        _ => return numbers(one, two).ok_or_else(EvalError::no_such_overload),
    }))
}
