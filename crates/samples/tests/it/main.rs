//! The samples against a real API server in process, and against what they look after.

mod document;
mod killing;
mod migrating;
mod proxy;
mod redis;
mod samples;
mod server;
