//! OpenAPI documents and compiled schemas, from the rows.
//!
//! [`compile`] gives what the handlers work with; [`Documents`] gives what clients read. Both come from the same
//! JSON schemas and the same table of merge rules ([`merge`]). The JSON schemas are made when they are needed
//! and dropped again.

mod custom;
mod documents;
mod merge;
mod paths;
mod presence;
mod protobuf;
mod schemas;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use schemars::{Schema, SchemaGenerator};
use windlass_machinery::schema::{Compiler, Definitions, Node};

pub(crate) use self::documents::{Document, Documents};
pub(crate) use self::protobuf::{ASKED_AS, MEDIA_TYPE};
use self::schemas::{Dialect, Schemas};
use crate::resources::Source;

/// The built-in types compiled so far. They never change, so all rows share them.
static COMPILED: LazyLock<Mutex<Definitions>> = LazyLock::new(Mutex::default);

/// The compiled schema of a built-in type. Types it shares with others are compiled once.
pub(crate) fn compile(type_name: &str, ask: fn(&mut SchemaGenerator) -> Schema) -> Node {
    let mut compiled = COMPILED.lock();
    if let Some(definition) = compiled.get(type_name) {
        return Node::Named(Arc::clone(definition));
    }
    let mut schemas = Schemas::new(Dialect::V3);
    schemas.add(type_name, &Source::Type(ask));
    let sources = schemas.into_sources();
    let mut compiler = Compiler {
        sources: &sources,
        definitions: &mut compiled,
        atomic: &merge::is_atomic,
        merge: &merge::of,
        presence: &presence::of,
    };
    compiler.named(type_name)
}
