//! What can be done to any Kubernetes-style object, whatever its kind.
//!
//! Pure: no input or output, no clock, no randomness; time and ids come in as arguments. An object is a JSON
//! map ([`object::Object`]); what is known about its kind comes in as a compiled [`schema`]. Custom kinds have a
//! [`definition`] with [`structural`] schemas, from which that is made.

pub mod apply;
pub mod decode;
pub mod definition;
pub mod field;
pub mod jsonpath;
pub mod managed;
pub mod metadata;
pub mod names;
pub mod object;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod stored;
pub mod structural;
pub mod table;
pub mod time;
pub mod version;
