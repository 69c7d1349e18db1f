//! `math.`: the greatest and least, rounding, signs, bits.

use std::cmp::Ordering;

use super::{Outcome, Row, Tools, convert::int_overflow, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::EvalError,
    value::{Value, compare},
};

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("math.greatest(int)->int", greatest, ONE, NO),
    ("math.greatest(uint)->uint", greatest, ONE, NO),
    ("math.greatest(double)->double", greatest, ONE, NO),
    ("math.greatest(int,int)->int", greatest, ONE, NO),
    ("math.greatest(uint,uint)->uint", greatest, ONE, NO),
    ("math.greatest(double,double)->double", greatest, ONE, NO),
    ("math.greatest(int,uint)->dyn", greatest, ONE, NO),
    ("math.greatest(int,double)->dyn", greatest, ONE, NO),
    ("math.greatest(uint,int)->dyn", greatest, ONE, NO),
    ("math.greatest(uint,double)->dyn", greatest, ONE, NO),
    ("math.greatest(double,int)->dyn", greatest, ONE, NO),
    ("math.greatest(double,uint)->dyn", greatest, ONE, NO),
    ("math.greatest(list(int))->int", greatest, Cost::Length(0), NO),
    ("math.greatest(list(uint))->uint", greatest, Cost::Length(0), NO),
    ("math.greatest(list(double))->double", greatest, Cost::Length(0), NO),
    ("math.least(int)->int", least, ONE, NO),
    ("math.least(uint)->uint", least, ONE, NO),
    ("math.least(double)->double", least, ONE, NO),
    ("math.least(int,int)->int", least, ONE, NO),
    ("math.least(uint,uint)->uint", least, ONE, NO),
    ("math.least(double,double)->double", least, ONE, NO),
    ("math.least(int,uint)->dyn", least, ONE, NO),
    ("math.least(int,double)->dyn", least, ONE, NO),
    ("math.least(uint,int)->dyn", least, ONE, NO),
    ("math.least(uint,double)->dyn", least, ONE, NO),
    ("math.least(double,int)->dyn", least, ONE, NO),
    ("math.least(double,uint)->dyn", least, ONE, NO),
    ("math.least(list(int))->int", least, Cost::Length(0), NO),
    ("math.least(list(uint))->uint", least, Cost::Length(0), NO),
    ("math.least(list(double))->double", least, Cost::Length(0), NO),
    ("math.ceil(double)->double", ceil, ONE, NO),
    ("math.floor(double)->double", floor, ONE, NO),
    ("math.round(double)->double", round, ONE, NO),
    ("math.trunc(double)->double", trunc, ONE, NO),
    ("math.sqrt(double)->double", sqrt, ONE, NO),
    ("math.sqrt(int)->double", sqrt, ONE, NO),
    ("math.sqrt(uint)->double", sqrt, ONE, NO),
    ("math.isNaN(double)->bool", is_nan, ONE, NO),
    ("math.isInf(double)->bool", is_inf, ONE, NO),
    ("math.isFinite(double)->bool", is_finite, ONE, NO),
    ("math.abs(int)->int", abs, ONE, NO),
    ("math.abs(uint)->uint", abs, ONE, NO),
    ("math.abs(double)->double", abs, ONE, NO),
    ("math.sign(int)->int", sign, ONE, NO),
    ("math.sign(uint)->uint", sign, ONE, NO),
    ("math.sign(double)->double", sign, ONE, NO),
    ("math.bitAnd(int,int)->int", bit_and, ONE, NO),
    ("math.bitAnd(uint,uint)->uint", bit_and, ONE, NO),
    ("math.bitOr(int,int)->int", bit_or, ONE, NO),
    ("math.bitOr(uint,uint)->uint", bit_or, ONE, NO),
    ("math.bitXor(int,int)->int", bit_xor, ONE, NO),
    ("math.bitXor(uint,uint)->uint", bit_xor, ONE, NO),
    ("math.bitNot(int)->int", bit_not, ONE, NO),
    ("math.bitNot(uint)->uint", bit_not, ONE, NO),
    ("math.bitShiftLeft(int,int)->int", shift_left, ONE, NO),
    ("math.bitShiftLeft(uint,int)->uint", shift_left, ONE, NO),
    ("math.bitShiftRight(int,int)->int", shift_right, ONE, NO),
    ("math.bitShiftRight(uint,int)->uint", shift_right, ONE, NO),
];

fn extreme<'a>(args: &[Value<'a>], name: &str, wanted: Ordering) -> Outcome<'a> {
    let values: Vec<Value<'a>> = match args {
        [Value::List(list)] => list.iter().collect::<Result<_, _>>()?,
        _ => args.to_vec(),
    };
    let mut best: Option<Value<'a>> = None;
    for value in values {
        if !matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_)) {
            return mismatch();
        }
        best = Some(match best {
            Some(best) if compare(&value, &best)? != Some(wanted) => best,
            _ => value,
        });
    }
    best.ok_or_else(|| EvalError::failed(format!("math.{name}(list) argument must not be empty")))
}

fn greatest<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "greatest", Ordering::Greater)
}

fn least<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "least", Ordering::Less)
}

fn ceil<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Double(value)] = args else { return mismatch() };
    Ok(Value::Double(value.ceil()))
}

fn floor<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Double(value)] = args else { return mismatch() };
    Ok(Value::Double(value.floor()))
}

fn round<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Double(value)] = args else { return mismatch() };
    Ok(Value::Double(value.round()))
}

fn trunc<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Double(value)] = args else { return mismatch() };
    Ok(Value::Double(value.trunc()))
}

fn sqrt<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(match args {
        [Value::Double(value)] => value.sqrt(),
        [Value::Int(value)] => (*value as f64).sqrt(),
        [Value::Uint(value)] => (*value as f64).sqrt(),
        _ => return mismatch(),
    }))
}

fn is_nan<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Double(value)] = args else { return mismatch() };
    Ok(Value::Bool(value.is_nan()))
}

fn is_inf<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Double(value)] = args else { return mismatch() };
    Ok(Value::Bool(value.is_infinite()))
}

fn is_finite<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Double(value)] = args else { return mismatch() };
    Ok(Value::Bool(value.is_finite()))
}

fn abs<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(value)] => Value::Int(value.checked_abs().ok_or_else(int_overflow)?),
        [Value::Uint(value)] => Value::Uint(*value),
        [Value::Double(value)] => Value::Double(value.abs()),
        _ => return mismatch(),
    })
}

fn sign<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(value)] => Value::Int(value.signum()),
        [Value::Uint(value)] => Value::Uint(u64::from(*value > 0)),
        [Value::Double(value)] if *value == 0.0 || value.is_nan() => Value::Double(*value),
        [Value::Double(value)] => Value::Double(value.signum()),
        _ => return mismatch(),
    })
}

fn bit_and<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(one), Value::Int(two)] => Value::Int(one & two),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one & two),
        _ => return mismatch(),
    })
}

fn bit_or<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(one), Value::Int(two)] => Value::Int(one | two),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one | two),
        _ => return mismatch(),
    })
}

fn bit_xor<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(one), Value::Int(two)] => Value::Int(one ^ two),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one ^ two),
        _ => return mismatch(),
    })
}

fn bit_not<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(value)] => Value::Int(!value),
        [Value::Uint(value)] => Value::Uint(!value),
        _ => return mismatch(),
    })
}

/// The distance of a shift; from 64 on nothing is left.
fn distance(by: i64, name: &str) -> Result<Option<u32>, EvalError> {
    match u32::try_from(by) {
        Ok(by) if by < 64 => Ok(Some(by)),
        Err(_) if by < 0 => Err(EvalError::failed(format!("math.{name}() negative offset: {by}"))),
        _ => Ok(None),
    }
}

fn shift_left<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value, Value::Int(by)] = args else { return mismatch() };
    let by = distance(*by, "bitShiftLeft")?;
    Ok(match value {
        Value::Int(value) => Value::Int(by.map_or(0, |by| value << by)),
        Value::Uint(value) => Value::Uint(by.map_or(0, |by| value << by)),
        _ => return mismatch(),
    })
}

fn shift_right<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value, Value::Int(by)] = args else { return mismatch() };
    let by = distance(*by, "bitShiftRight")?;
    Ok(match value {
        // The sign is not drawn along.
        Value::Int(value) => Value::Int(by.map_or(0, |by| ((*value as u64) >> by) as i64)),
        Value::Uint(value) => Value::Uint(by.map_or(0, |by| value >> by)),
        _ => return mismatch(),
    })
}
