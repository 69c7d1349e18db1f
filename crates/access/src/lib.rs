//! Who asks, what they want to do, and whether they may.
//!
//! Start at [`authn::Chain`], which makes a [`User`] of what a client shows, and [`Attributes`], which is what
//! such a user is allowed or refused.

mod attributes;
pub mod authn;
pub mod rbac;
mod user;

pub use self::{
    attributes::{Attributes, Wanted},
    user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User},
};
