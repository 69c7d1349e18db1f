//! HTTP: what a request asks for, in which form, and how the answer is sent.

mod body;
mod connection;
mod forms;
mod guests;
mod path;
mod print;
mod query;
mod serve;
mod websocket;

pub use self::{
    body::Body,
    connection::Tls,
    serve::{serve, serve_plain},
};
pub(crate) use self::{
    forms::{
        Encoding, Form, TAKEN_OF_CUSTOM, accepted, check_stream, media_type, of_body, of_objects, takes_gzip,
        wants_aggregated_discovery,
    },
    path::{Route, Target, route},
    print::Style,
    query::{Query, is_dry_run},
    websocket::{Handshake, refuse, take_bearer},
};
