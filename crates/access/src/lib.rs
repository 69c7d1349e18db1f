//! Who asks, what they want to do, and whether they may.
//!
//! Start at [`authn::Chain`], which makes a [`User`] of what a client shows, and [`Attributes`], which is what
//! such a user is allowed or refused.

pub mod accounts;
pub mod atrest;
mod attributes;
pub mod audit;
pub mod authn;
pub mod bootstrap;
pub mod fair;
pub mod issuers;
pub mod jwt;
mod kubectl;
pub mod localhost;
pub mod rbac;
pub mod tokens;
mod user;
pub mod user_tokens;

pub use self::{
    attributes::{Attributes, Wanted},
    kubectl::KubectlRules,
    user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User},
};
