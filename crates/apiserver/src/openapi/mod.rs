//! OpenAPI documents and compiled schemas, from the rows.
//!
//! [`compile`] gives what the handlers work with; [`Documents`] gives what clients read. Both come from the same
//! JSON schemas and the same table of merge rules ([`merge`]). The JSON schemas are made when they are needed
//! and dropped again.

mod documents;
mod merge;
mod paths;
mod protobuf;
mod schemas;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use windlass_machinery::schema::{Compiler, Definition, Definitions, Node};

#[allow(unused_imports)]
pub(crate) use self::documents::{Document, Documents};
pub(crate) use self::protobuf::{ASKED_AS, MEDIA_TYPE};
use self::schemas::{Dialect, Schemas};
use crate::resources::Source;

/// The built-in types compiled so far. They never change, so all rows share them.
static COMPILED: LazyLock<Mutex<Definitions>> = LazyLock::new(Mutex::default);

/// The compiled schema of a type. Types it shares with others are compiled once.
pub(crate) fn compile(type_name: &str, source: &Source) -> Node {
    let mut compiled = COMPILED.lock();
    if let (Source::Type(_), Some(definition)) = (source, compiled.get(type_name)) {
        return Node::Named(Arc::clone(definition));
    }
    let mut schemas = Schemas::new(Dialect::V3);
    schemas.add(type_name, source);
    let sources = schemas.into_sources();
    let mut compiler = Compiler {
        sources: &sources,
        definitions: &mut compiled,
        atomic: &merge::is_atomic,
        merge: &merge::of,
    };
    match source {
        Source::Type(_) => compiler.named(type_name),
        // A custom resource may be defined anew, so its type is not shared.
        Source::Document(_) => {
            let definition = Definition::named(type_name);
            if let Some(schema) = sources.get(type_name) {
                definition.define(compiler.compile(schema, type_name));
            }
            Node::Named(Arc::new(definition))
        }
    }
}
