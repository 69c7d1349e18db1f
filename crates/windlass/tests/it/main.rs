//! The binary, as people and scripts use it.

mod audit;
mod docs;
mod house;
mod localhost;
mod rules;
mod server;
mod store_tools;
mod support;
mod tls_files;
mod tokens;
mod up;
