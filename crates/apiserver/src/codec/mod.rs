//! Encodings of bodies that need more than the bytes to be read.

mod fields;
pub(crate) mod protobuf;
mod wire;
