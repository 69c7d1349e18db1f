//! Encryption at rest: which values are sealed before they are stored, with what, and how they are opened again.
//!
//! The settings are those of Kubernetes (`EncryptionConfiguration`), and so are the bytes: a value begins with
//! `k8s:enc:PROVIDER:v1:KEY:`, and a kube-apiserver with the same keys on the same etcd opens it. Nothing here
//! reads files or knows a store. Start at [`Configuration::parse`] and [`Sealing`].

mod config;
mod keys;
mod sealing;

#[cfg(test)]
mod tests;

pub use self::{
    config::{Configuration, Fault},
    keys::Random,
    sealing::{OpenError, Opened, Sealing, Stored},
};
