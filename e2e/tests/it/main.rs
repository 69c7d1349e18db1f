//! Black-box tests: one file per thing a user does.

mod abuse;
mod changes;
mod clients_credentials;
mod clients_kube_rs;
mod clients_print;
#[path = "../../../crates/apiserver/tests/it/hooks.rs"]
#[allow(dead_code)]
mod hooks;
mod hub;
mod kubectl_access;
mod kubectl_admission;
mod kubectl_apply;
mod kubectl_apply_server_side;
mod kubectl_audit;
mod kubectl_cascade;
mod kubectl_change;
mod kubectl_create;
mod kubectl_custom_resources;
mod kubectl_delete;
mod kubectl_describe;
mod kubectl_discover;
mod kubectl_fairness;
mod kubectl_get;
mod kubectl_issuers;
mod kubectl_kubelet;
mod kubectl_node;
mod kubectl_proxy;
mod kubectl_scale;
mod kubectl_token;
mod kubectl_validate;
mod kubectl_wait;
mod kubectl_watch;
mod objects;
mod opensergo_sdk;
mod pages;
#[path = "../../../crates/apiserver/tests/it/provider.rs"]
#[allow(dead_code)]
mod provider;
#[path = "../../../crates/samples/tests/it/redis.rs"]
#[allow(dead_code)]
mod redis;
mod restart_keeps_data;
mod samples;
mod secrets_at_rest;
mod two_servers;
mod watch_load;
