//! Role-based access: who has which roles, and what those allow. Rules only ever add rights.
//!
//! An [`Index`] holds roles and bindings by whom they are for, so that a question costs as much as the asker has
//! bindings, however many others there are. It is persistent: a copy is a few pointers, and a change of one object
//! changes little. Whoever hands rights on is held against [`missing`]; roles that are made of others are made by
//! [`aggregate`]; the roles that every server has are a table in [`bootstrap`].

mod aggregate;
pub mod bootstrap;
mod cover;
mod index;
mod objects;
mod rule;
#[cfg(test)]
mod tests;

pub use self::{
    aggregate::aggregate,
    cover::{Missing, missing},
    index::{Grant, Index},
    objects::{Binding, Role, RoleRef, Subject, SubjectKind, service_account_groups, service_account_of},
    rule::Rule,
};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
