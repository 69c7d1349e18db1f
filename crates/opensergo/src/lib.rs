//! The OpenSergo control plane: rules are custom resources, and SDKs that subscribe over one gRPC stream are told at once
//! when a rule changes.
//!
//! - [`kinds`]: what can be subscribed to, and how objects become messages.
//! - [`proto`]: what goes over the wire.
//! - [`text`]: messages for people.

pub mod kinds;
pub mod proto;
pub mod text;
