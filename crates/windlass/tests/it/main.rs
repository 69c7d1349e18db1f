//! The binary, as people and scripts use it.

mod docs;
mod house;
mod server;
mod store_tools;
mod support;
mod tokens;
mod up;
