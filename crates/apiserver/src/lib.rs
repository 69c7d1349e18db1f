//! The API server: objects over the store, served as Kubernetes serves them.
//!
//! Start at [`ApiServer::start`] and [`serve`]; follow a request from `http` (what is asked for) through
//! `verbs` (how it is answered) to `registry` (objects over the store), where the rows of [`resources`] say
//! what a kind is and [`admission`] may change or refuse a write. `crd` adds rows while the server runs.

mod access;
pub mod admission;
mod api_services;
pub mod audit;
mod bulk;
mod codec;
mod columns;
mod config;
mod crd;
mod direct;
mod discovery;
mod health;
mod http;
mod metrics;
mod openapi;
mod registry;
pub mod resources;
mod server;
mod startup;
pub mod status;
mod verbs;
mod webhook;

pub use self::{
    access::{
        AccountIssuer, Authentication,
        issuers::{IssuerConfig, Pace},
    },
    admission::{Asked, Signer},
    config::Config,
    direct::Direct,
    http::{Body, Tls, serve, serve_plain},
    server::{ApiServer, StartError},
};
pub use windlass_access::localhost::Guard;

pub use windlass_access::issuers::Classic;

/// An error and its causes on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line
}
