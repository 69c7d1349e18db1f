//! Named formats of texts, as schemas and validation know them.

use base64::{Engine, engine::general_purpose::STANDARD};
use windlass_machinery::names;

use super::{Outcome, Row, Tools, mismatch, time, urls::Url};
use crate::{
    cost::{Cost, Grows},
    value::{Extension, Value},
};

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("format.named(string)->optional(format)", named, ONE, NO),
    ("format::validate(string)->optional(list(string))", validate, Cost::Validate, NO),
    ("format.dns1123Label()->format", |_, _| Ok(constant(0)), ONE, NO),
    ("format.dns1123Subdomain()->format", |_, _| Ok(constant(1)), ONE, NO),
    ("format.dns1035Label()->format", |_, _| Ok(constant(2)), ONE, NO),
    ("format.qualifiedName()->format", |_, _| Ok(constant(3)), ONE, NO),
    ("format.dns1123LabelPrefix()->format", |_, _| Ok(constant(4)), ONE, NO),
    ("format.dns1123SubdomainPrefix()->format", |_, _| Ok(constant(5)), ONE, NO),
    ("format.dns1035LabelPrefix()->format", |_, _| Ok(constant(6)), ONE, NO),
    ("format.labelValue()->format", |_, _| Ok(constant(7)), ONE, NO),
    ("format.uri()->format", |_, _| Ok(constant(8)), ONE, NO),
    ("format.uuid()->format", |_, _| Ok(constant(9)), ONE, NO),
    ("format.byte()->format", |_, _| Ok(constant(10)), ONE, NO),
    ("format.date()->format", |_, _| Ok(constant(11)), ONE, NO),
    ("format.datetime()->format", |_, _| Ok(constant(12)), ONE, NO),
];

/// A named format.
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// What is wrong with a text.
    faults: fn(&str) -> Vec<String>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Format").field(&self.name).finish()
    }
}

/// The formats, in the order of the rows above.
static FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", faults: |text| names::label(text, false).into_iter().collect() },
    Format { name: "dns1123Subdomain", faults: |text| names::subdomain(text, false).into_iter().collect() },
    Format { name: "dns1035Label", faults: |text| names::label_1035(text, false).into_iter().collect() },
    Format { name: "qualifiedName", faults: names::qualified },
    Format { name: "dns1123LabelPrefix", faults: |text| names::label(text, true).into_iter().collect() },
    Format {
        name: "dns1123SubdomainPrefix",
        faults: |text| names::subdomain(text, true).into_iter().collect(),
    },
    Format { name: "dns1035LabelPrefix", faults: |text| names::label_1035(text, true).into_iter().collect() },
    Format { name: "labelValue", faults: names::label_value },
    Format { name: "uri", faults: |text| Url::parse(text).err().into_iter().collect() },
    Format { name: "uuid", faults: |text| unless(is_uuid(text), "does not match the UUID format") },
    Format { name: "byte", faults: |text| unless(STANDARD.decode(text).is_ok(), "invalid base64") },
    Format { name: "date", faults: |text| unless(is_date(text), "invalid date") },
    Format {
        name: "datetime",
        faults: |text| unless(time::parse_timestamp(text).is_some(), "invalid datetime"),
    },
];

fn unless(fits: bool, fault: &str) -> Vec<String> {
    if fits { vec![] } else { vec![fault.to_owned()] }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && time::parse_timestamp(&format!("{text}T00:00:00Z")).is_some()
}

/// Eight, four, four, four and twelve digits, with or without the dashes between them.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let digits = text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    digits && (groups == [8, 4, 4, 4, 12] || groups == [32])
}

fn constant<'a>(at: usize) -> Value<'a> {
    Value::extension(Extension::Format(&FORMATS[at]))
}

fn named<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(name)] = args else { return mismatch() };
    let found = FORMATS.iter().position(|format| format.name == &**name);
    Ok(found.map_or(Value::NONE, |at| Value::some(constant(at))))
}

fn validate<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Extension(extension), Value::String(text)] = args else { return mismatch() };
    let Extension::Format(format) = extension.as_ref() else { return mismatch() };
    let faults = (format.faults)(text);
    if faults.is_empty() {
        return Ok(Value::NONE);
    }
    Ok(Value::some(Value::list(faults.into_iter().map(Value::text).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_called_by_its_name() {
        for (at, (signature, ..)) in ROWS.iter().skip(2).enumerate() {
            assert_eq!(*signature, format!("format.{}()->format", FORMATS[at].name));
        }
        assert_eq!(ROWS.len() - 2, FORMATS.len());
    }
}
