//! Timestamps and durations: reading, writing, parts, arithmetic.

use std::sync::LazyLock;

use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone, TimeZoneDatabase},
};

use super::{
    Outcome, Row, Tools,
    convert::{int_overflow, wrong},
    mismatch,
};
use crate::{
    cost::{Cost, Grows},
    error::{EvalError, shown},
    value::Value,
};

/// The first and the last second there is: the years 1 and 9999. The last day of the last year is cut short
/// by a few hours, which is where the calendar behind this ends.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("timestamp(timestamp)->timestamp", timestamp, ONE, NO),
    ("timestamp(string)->timestamp", timestamp, ONE, NO),
    ("timestamp(int)->timestamp", timestamp, ONE, NO),
    ("duration(duration)->duration", duration, ONE, NO),
    ("duration(string)->duration", duration, Cost::Scan(0), NO),
    ("timestamp::getFullYear()->int", year, ONE, NO),
    ("timestamp::getFullYear(string)->int", year, ONE, NO),
    ("timestamp::getMonth()->int", month, ONE, NO),
    ("timestamp::getMonth(string)->int", month, ONE, NO),
    ("timestamp::getDate()->int", date, ONE, NO),
    ("timestamp::getDate(string)->int", date, ONE, NO),
    ("timestamp::getDayOfMonth()->int", day_of_month, ONE, NO),
    ("timestamp::getDayOfMonth(string)->int", day_of_month, ONE, NO),
    ("timestamp::getDayOfWeek()->int", day_of_week, ONE, NO),
    ("timestamp::getDayOfWeek(string)->int", day_of_week, ONE, NO),
    ("timestamp::getDayOfYear()->int", day_of_year, ONE, NO),
    ("timestamp::getDayOfYear(string)->int", day_of_year, ONE, NO),
    ("timestamp::getHours()->int", hours, ONE, NO),
    ("timestamp::getHours(string)->int", hours, ONE, NO),
    ("timestamp::getMinutes()->int", minutes, ONE, NO),
    ("timestamp::getMinutes(string)->int", minutes, ONE, NO),
    ("timestamp::getSeconds()->int", seconds, ONE, NO),
    ("timestamp::getSeconds(string)->int", seconds, ONE, NO),
    ("timestamp::getMilliseconds()->int", milliseconds, ONE, NO),
    ("timestamp::getMilliseconds(string)->int", milliseconds, ONE, NO),
    ("duration::getHours()->int", hours, ONE, NO),
    ("duration::getMinutes()->int", minutes, ONE, NO),
    ("duration::getSeconds()->int", seconds, ONE, NO),
    ("duration::getMilliseconds()->int", milliseconds, ONE, NO),
];

/// Reads a time of RFC 3339 within the years there are.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    windlass_machinery::time::parse(text).filter(|time| SECONDS.contains(&time.as_second()))
}

/// A duration that fits into 64 bits of nanoseconds.
pub(crate) fn bounded(duration: SignedDuration) -> Option<SignedDuration> {
    i64::try_from(duration.as_nanos()).ok().map(|_| duration)
}

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration as Go writes it: `1h30m`, `-1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() || rest.len() > 100 {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &after[..unit_end])?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanos = nanos.checked_add(whole.checked_mul(*unit)?)?;
        // More digits than these cannot reach a nanosecond.
        let digits = &fraction[..fraction.len().min(15)];
        if !digits.is_empty() {
            nanos += digits.parse::<i128>().ok()? * unit / 10i128.pow(digits.len() as u32);
        }
        rest = &after[unit_end..];
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// A duration in seconds, as JSON has it.
pub(crate) fn duration_text(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, fraction) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let fraction = format!("{fraction:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}s"),
        fraction => format!("{sign}{whole}.{fraction}s"),
    }
}

fn timestamp<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let time = match args {
        [Value::Timestamp(time)] => Some(*time),
        [Value::Int(second)] => {
            Timestamp::from_second(*second).ok().filter(|time| SECONDS.contains(&time.as_second()))
        }
        [value @ Value::String(text)] => {
            let time = parse_timestamp(text).map(Value::Timestamp);
            return time.ok_or_else(|| wrong(value, "google.protobuf.Timestamp"));
        }
        _ => return mismatch(),
    };
    time.map(Value::Timestamp).ok_or_else(timestamp_overflow)
}

fn duration<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Duration(duration)] => Ok(Value::Duration(*duration)),
        [value @ Value::String(text)] => {
            let duration = parse_duration(text).map(Value::Duration);
            duration.ok_or_else(|| wrong(value, "google.protobuf.Duration"))
        }
        _ => mismatch(),
    }
}

pub(crate) fn timestamp_overflow() -> EvalError {
    EvalError::failed("timestamp overflow")
}

/// A time moved by a duration.
pub(crate) fn moved(time: Timestamp, by: SignedDuration) -> Result<Timestamp, EvalError> {
    let moved = time.checked_add(by).ok().filter(|time| SECONDS.contains(&time.as_second()));
    moved.ok_or_else(timestamp_overflow)
}

/// The time between two times.
pub(crate) fn between(one: Timestamp, two: Timestamp) -> Result<SignedDuration, EvalError> {
    bounded(one.duration_since(two)).ok_or_else(int_overflow)
}

/// The time zones of the world, from a copy within the program: nothing is read from the machine.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    if name.contains(':') {
        let (sign, digits) = match name.as_bytes().first()? {
            b'-' => (-1, &name[1..]),
            b'+' => (1, &name[1..]),
            _ => (1, name),
        };
        let (hours, minutes) = digits.split_once(':')?;
        let two = |text: &str| text.parse::<i32>().ok().filter(|_| text.len() <= 2 && !text.starts_with('+'));
        let (hours, minutes) = (two(hours)?, two(minutes)?);
        return Some(TimeZone::fixed(Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?));
    }
    ZONES.get(name).ok()
}

/// The calendar and the clock at a time, in a time zone.
fn civil(args: &[Value<'_>]) -> Result<DateTime, EvalError> {
    let (time, name): (&Timestamp, &str) = match args {
        [Value::Timestamp(time)] => (time, "UTC"),
        [Value::Timestamp(time), Value::String(name)] => (time, name),
        _ => return Err(EvalError::no_such_overload()),
    };
    let zone = zone(name).ok_or_else(|| EvalError::failed(format!("unknown time zone {}", shown(name))))?;
    Ok(time.to_zoned(zone).datetime())
}

fn year<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(civil(args)?.year().into()))
}

fn month<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(i64::from(civil(args)?.month()) - 1))
}

fn date<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(civil(args)?.day().into()))
}

fn day_of_month<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(i64::from(civil(args)?.day()) - 1))
}

fn day_of_week<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(civil(args)?.weekday().to_sunday_zero_offset().into()))
}

fn day_of_year<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(i64::from(civil(args)?.day_of_year()) - 1))
}

fn hours<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(match args {
        [Value::Duration(duration)] => duration.as_secs() / 3600,
        _ => civil(args)?.hour().into(),
    }))
}

fn minutes<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(match args {
        [Value::Duration(duration)] => duration.as_secs() / 60,
        _ => civil(args)?.minute().into(),
    }))
}

fn seconds<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(match args {
        [Value::Duration(duration)] => duration.as_secs(),
        _ => civil(args)?.second().into(),
    }))
}

fn milliseconds<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(match args {
        [Value::Duration(duration)] => duration.as_millis() as i64,
        _ => (civil(args)?.subsec_nanosecond() / 1_000_000).into(),
    }))
}
