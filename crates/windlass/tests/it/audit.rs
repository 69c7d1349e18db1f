//! The audit log from the command line: what is refused before anything starts, and where lines go.

use std::fs;

use rustix::process::Signal;

use crate::{
    server::{Kubeconfig, Server},
    support::{stderr, windlass},
};

#[test]
fn a_bad_audit_policy_exits_with_64_and_its_field_is_named() {
    let here = tempfile::tempdir().expect("a folder");
    let up = |policy: &str| {
        fs::write(here.path().join("policy.yaml"), policy).expect("a file");
        let flags = [
            "up",
            "--secure-port",
            "0",
            "--opensergo-port",
            "0",
            "--audit-policy-file",
            "policy.yaml",
            "--audit-log-path",
            "audit.log",
        ];
        stderr(windlass(here.path()).args(flags), 64)
    };
    let said = up("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, verb: [get]}]");
    assert!(said.contains("--audit-policy-file policy.yaml: rules[0].verb: Forbidden"), "{said}");
    let said = up("apiVersion: audit.k8s.io/v1\nkind: Policy");
    assert!(said.contains("rules: Required value"), "{said}");
    assert!(!here.path().join("audit.log").exists());
    let flags = ["up", "--audit-policy-file", "none.yaml", "--audit-log-path", "audit.log"];
    assert!(stderr(windlass(here.path()).args(flags), 64).contains("none.yaml"));
}

#[test]
fn the_audit_log_can_be_the_standard_output() {
    let here = tempfile::tempdir().expect("a folder");
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]";
    fs::write(here.path().join("policy.yaml"), policy).expect("a file");
    let flags = ["up", "--audit-policy-file", "policy.yaml", "--audit-log-path", "-", "--audit-strict"];
    let server = Server::start(here.path(), &flags);
    let admin = Kubeconfig::read(here.path());
    // It would not be answered if whoever prints the banner kept the audit log from being written.
    let said = admin.get(server.address(), "localhost", "/version").expect("an answer");
    assert!(said.contains("200 OK"), "{said}");
    assert_eq!(server.end(Signal::TERM), Some(0));
}
