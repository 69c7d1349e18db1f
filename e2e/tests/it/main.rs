//! Black-box tests: one file per thing a user does.

mod abuse;
mod changes;
mod clients_kube_rs;
mod clients_print;
mod kubectl_access;
mod kubectl_admission;
mod kubectl_apply;
mod kubectl_apply_server_side;
mod kubectl_change;
mod kubectl_create;
mod kubectl_custom_resources;
mod kubectl_delete;
mod kubectl_describe;
mod kubectl_discover;
mod kubectl_get;
mod kubectl_kubelet;
mod kubectl_node;
mod kubectl_proxy;
mod kubectl_scale;
mod kubectl_validate;
mod kubectl_wait;
mod kubectl_watch;
mod objects;
mod pages;
mod restart_keeps_data;
mod watch_load;
