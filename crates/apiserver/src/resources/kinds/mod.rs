//! What single kinds do differently: one file per family, each a [`super::Strategy`].

pub(super) mod address;
pub(super) mod admission_policy;
pub(super) mod certificate;
mod checks;
pub(super) mod claim;
pub(super) mod class;
pub(super) mod config_map;
mod cron;
pub(super) mod cron_job;
pub(super) mod daemon_set;
pub(super) mod deployment;
pub(super) mod device;
pub(super) mod endpoints;
pub(super) mod event;
pub(super) mod extension;
mod fields;
pub(super) mod flow_control;
pub(super) mod horizontal_pod_autoscaler;
pub(super) mod ingress;
pub(super) mod job;
pub(super) mod lease;
pub(super) mod namespace;
pub(super) mod network_policy;
pub(super) mod node;
pub(super) mod pod;
pub(super) mod pod_disruption_budget;
mod pod_spec;
mod pod_update;
pub(super) mod quota;
pub(super) mod rbac;
pub(super) mod replica_set;
pub(super) mod revision;
pub(super) mod secret;
mod selector;
pub(super) mod service;
pub(super) mod service_account;
pub(super) mod stateful_set;
pub(super) mod storage;
pub(super) mod template;
pub(super) mod volume;
pub(super) mod webhook;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod variants;
