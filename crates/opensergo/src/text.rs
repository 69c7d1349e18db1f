//! Messages for people: in protobuf's text form, and as JSON.
//!
//! A message inside of an `Any` is shown where it is one of ours; others stay as they are.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions, text_format::FormatOptions};
use prost_types::Any;
use serde_json::Value;

use crate::proto::DESCRIPTORS;

/// Why a message cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The bytes are not what they are said to be.
    #[error("this is no message of the type that it names")]
    Decode(#[from] prost::DecodeError),
    /// Something in it is not known.
    #[error("this message cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the descriptors were made of files that could be compiled")
});

/// Any message in text form, with its type before it.
pub fn text(message: &Any) -> Result<String, TextError> {
    let options = FormatOptions::new().pretty(true).expand_any(true);
    let mut text = dynamic(message)?.to_text_format_with_options(&options);
    text.push('\n');
    Ok(text)
}

/// Any message as JSON, with its type in `@type`.
pub fn json(message: &Any) -> Result<Value, TextError> {
    let options = SerializeOptions::new().skip_default_fields(true);
    Ok(dynamic(message)?.serialize_with_options(serde_json::value::Serializer, &options)?)
}

fn dynamic(message: &Any) -> Result<DynamicMessage, TextError> {
    let any = POOL.get_message_by_name("google.protobuf.Any").expect("the transport imports it");
    Ok(DynamicMessage::decode(any, message.encode_to_vec().as_slice())?)
}
