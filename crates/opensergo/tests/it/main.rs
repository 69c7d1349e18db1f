//! The crate from outside.

mod definitions;
mod golden;
mod hostile;
