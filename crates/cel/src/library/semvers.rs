//! Semantic versions.

use std::cmp::Ordering;

use semver::Version;

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::{EvalError, shown},
    value::{Extension, Value},
};

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("semver(string)->semver", semver, Cost::Tenth(0), NO),
    ("semver(string,bool)->semver", semver, Cost::Tenth(0), NO),
    ("isSemver(string)->bool", is_semver, Cost::Tenth(0), NO),
    ("isSemver(string,bool)->bool", is_semver, Cost::Tenth(0), NO),
    ("semver::major()->int", major, ONE, NO),
    ("semver::minor()->int", minor, ONE, NO),
    ("semver::patch()->int", patch, ONE, NO),
    ("semver::isLessThan(semver)->bool", is_less, ONE, NO),
    ("semver::isGreaterThan(semver)->bool", is_greater, ONE, NO),
    ("semver::compareTo(semver)->int", compare_to, ONE, NO),
];

/// Without the leading `v`, with the numbers that are missing, without leading zeros.
fn normalized(text: &str) -> Result<String, &'static str> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in &mut parts {
        if part.len() > 1 {
            let trimmed = part.trim_start_matches('0');
            let zero = if trimmed.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
            *part = format!("{zero}{trimmed}");
        }
    }
    if parts.len() < 3 {
        if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data");
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

fn read(args: &[Value<'_>]) -> Result<Result<Version, String>, EvalError> {
    let (text, normalize) = match args {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(normalize)] => (text, *normalize),
        _ => return Err(EvalError::no_such_overload()),
    };
    if !normalize {
        return Ok(Version::parse(text).map_err(|error| error.to_string()));
    }
    Ok(normalized(text)
        .map_err(str::to_owned)
        .and_then(|text| Version::parse(&text).map_err(|error| error.to_string())))
}

fn semver<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let version = read(args)?.map_err(|why| {
        let text = args.first().and_then(Value::as_str).map_or("", shown);
        EvalError::failed(format!("invalid semantic version {text:?}: {why}"))
    })?;
    Ok(Value::extension(Extension::Semver(Box::new(version))))
}

fn is_semver<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(read(args)?.is_ok()))
}

fn version<'v>(value: &'v Value<'_>) -> Result<&'v Version, EvalError> {
    match value {
        Value::Extension(extension) => match extension.as_ref() {
            Extension::Semver(version) => Ok(version),
            _ => Err(EvalError::no_such_overload()),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn number<'a>(args: &[Value<'a>], number: impl Fn(&Version) -> u64) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    let number = i64::try_from(number(version(value)?));
    number.map(Value::Int).map_err(|_| super::convert::int_overflow())
}

fn major<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    number(args, |version| version.major)
}

fn minor<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    number(args, |version| version.minor)
}

fn patch<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    number(args, |version| version.patch)
}

fn order(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    let [one, two] = args else { return Err(EvalError::no_such_overload()) };
    Ok(version(one)?.cmp_precedence(version(two)?))
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
