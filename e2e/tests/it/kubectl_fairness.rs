//! Flow schemas and priority levels, as kubectl shows them.

use windlass_e2e::Server;

use crate::objects::{contains, create, names, rows};

#[test]
fn the_levels_and_schemas_that_people_know_are_there() {
    let server = Server::start();
    let schemas = server.kubectl("get flowschemas").ok();
    let head = ["PRIORITYLEVEL", "MATCHINGPRECEDENCE", "DISTINGUISHERMETHOD", "AGE", "MISSINGPL"];
    contains(&schemas, &head);
    let found = names(&schemas);
    let all = rows(&schemas);
    let row = |name: &str| {
        let idx = found.iter().position(|one| *one == name).unwrap_or_else(|| panic!("no {name}: {schemas}"));
        all[idx].clone()
    };
    for (name, level, precedence, distinguisher) in [
        ("exempt", "exempt", "1", "<none>"),
        ("probes", "exempt", "2", "<none>"),
        ("system-leader-election", "leader-election", "100", "ByUser"),
        ("leases", "leader-election", "300", "ByUser"),
        ("kube-scheduler", "workload-high", "800", "ByNamespace"),
        ("service-accounts", "workload-low", "9000", "ByUser"),
        ("catch-all", "catch-all", "10000", "ByUser"),
    ] {
        let row = row(name);
        assert_eq!(row[1..4], [level, precedence, distinguisher], "{schemas}");
        assert_eq!(row.last().map(|cell| &**cell), Some("False"), "{schemas}");
    }
    let levels = server.kubectl("get prioritylevelconfigurations").ok();
    contains(&levels, &["TYPE", "NOMINALCONCURRENCYSHARES", "QUEUES", "HANDSIZE", "QUEUELENGTHLIMIT"]);
    assert!(levels.lines().any(|line| line.starts_with("workload-low")), "{levels}");
    let low = rows(&levels).into_iter().find(|row| row[0] == "workload-low").expect("it is there");
    assert_eq!(low[1..6], ["Limited", "100", "128", "6", "50"], "{levels}");
    let both = server.kubectl("get flowschemas,prioritylevelconfigurations -o name").ok();
    contains(
        &both,
        &[
            "flowschema.flowcontrol.apiserver.k8s.io/exempt",
            "prioritylevelconfiguration.flowcontrol.apiserver.k8s.io/exempt",
        ],
    );
}

#[test]
fn a_schema_without_a_level_can_be_waited_for() {
    let server = Server::start();
    create(
        &server,
        "apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: lost}
spec:
  matchingPrecedence: 5000
  priorityLevelConfiguration: {name: nowhere}
  rules:
  - subjects: [{kind: User, user: {name: jane}}]
    nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]
",
    );
    server.kubectl("wait flowschema/lost --for=condition=Dangling --timeout=20s").ok();
    let table = server.kubectl("get flowschema lost").ok();
    assert_eq!(rows(&table)[0].last().map(|cell| &**cell), Some("True"), "{table}");
}
