//! Base64, and the escaping of keys in JSON pointers.

use base64::{
    Engine, alphabet,
    engine::{
        DecodePaddingMode,
        general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD},
    },
};

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::EvalError,
    value::Value,
};

pub(super) const ROWS: &[Row] = &[
    ("base64.encode(bytes)->string", encode, Cost::Fifth(0), Grows::Times(0, 2)),
    ("base64.decode(string)->bytes", decode, Cost::Fifth(0), Grows::Like(0)),
    ("jsonpatch.escapeKey(string)->string", escape_key, Cost::Fifth(0), Grows::Times(0, 2)),
];

/// Takes what has no padding, too.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn encode<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Bytes(bytes)] = args else { return mismatch() };
    Ok(Value::text(STANDARD.encode(bytes)))
}

fn decode<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    let bytes = LENIENT.decode(text.as_bytes()).map_err(|_| EvalError::failed("illegal base64 data"))?;
    Ok(Value::Bytes(bytes.into()))
}

fn escape_key<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::text(text.replace('~', "~0").replace('/', "~1")))
}
