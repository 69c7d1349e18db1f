//! The OpenSergo control plane: rules are custom resources, and SDKs that subscribe over one gRPC stream are told at once
//! when a rule changes.
//!
//! - [`kinds`]: what can be subscribed to, and how objects become messages.
//! - [`rules`]: the messages there are, by app and kind.
//! - [`subscriber`]: what one client wants to be told, has been told, and has answered.
//! - [`plane`]: joins the two.
//! - [`source`]: where rules come from: [`cluster`], [`directory`].
//! - [`serve`]: how it is reached, over gRPC.
//! - [`view`]: what it shows of itself.
//! - [`report`]: what it writes into the status of rules.
//! - [`access`]: who may know what.
//! - [`proto`]: what goes over the wire.
//! - [`text`]: messages for people.

pub mod access;
pub mod cluster;
pub mod debounce;
pub mod directory;
pub mod documents;
pub mod kinds;
pub mod metrics;
pub mod plane;
pub mod proto;
pub mod report;
pub mod rules;
pub mod serve;
mod service;
pub mod source;
mod status;
pub mod subscriber;
pub mod text;
pub mod topic;
pub mod view;
mod wire;
