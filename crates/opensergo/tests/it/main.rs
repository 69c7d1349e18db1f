//! The crate from outside.

mod definitions;
mod document;
mod golden;
mod hostile;
