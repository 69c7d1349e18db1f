//! The levels and schemas that every server has.
//!
//! Names, precedences and figures are those of Kubernetes, so that what people know of theirs holds here. What is ours is
//! `leases`: whoever holds a lease comes before all work, and not only what is in `kube-system`.

use serde_json::{Value, json};

/// The group of what steers fairness.
pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";
pub(super) const LEVELS: &str = "prioritylevelconfigurations";
pub(super) const SCHEMAS: &str = "flowschemas";

/// The level and the schema of whatever belongs nowhere else.
pub(super) const CATCH_ALL: &str = "catch-all";

/// An object that every server has.
pub(super) struct Given {
    pub(super) name: &'static str,
    pub(super) spec: Value,
    /// Whether it holds even when someone has changed or deleted it.
    pub(super) is_mandatory: bool,
}

/// Name, shares, lendable percent; queues and hand size, where requests wait.
type LevelRow = (&'static str, u32, u32, Option<(u32, u32)>);

const LIMITED: [LevelRow; 7] = [
    ("system", 30, 33, Some((64, 6))),
    ("node-high", 40, 25, Some((64, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
    ("global-default", 20, 50, Some((128, 6))),
    (CATCH_ALL, 5, 0, None),
];

/// The levels.
pub(super) fn levels() -> Vec<Given> {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let mut levels = vec![Given { name: "exempt", spec: exempt, is_mandatory: true }];
    levels.extend(LIMITED.into_iter().map(|(name, shares, lendable, queues)| {
        let response = match queues {
            Some((queues, hand)) => json!({
                "type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50},
            }),
            None => json!({"type": "Reject"}),
        };
        let limited = json!({
            "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response,
        });
        let spec = json!({"type": "Limited", "limited": limited});
        Given { name, spec, is_mandatory: name == CATCH_ALL }
    }));
    levels
}

/// What the spec of an object has to be that every server goes by. Of the level `exempt`, shares may be changed.
pub(crate) fn fixed(plural: &str, name: &str) -> Option<Value> {
    let given = match plural {
        LEVELS if name == CATCH_ALL => levels(),
        SCHEMAS => schemas(),
        _ => return None,
    };
    given.into_iter().find(|given| given.is_mandatory && given.name == name).map(|given| given.spec)
}

/// Who a schema is about.
enum Who {
    Users(&'static [&'static str]),
    Groups(&'static [&'static str]),
    /// Service accounts of `kube-system`.
    Accounts(&'static [&'static str]),
    /// Users, and service accounts of `kube-system`.
    Both(&'static [&'static str], &'static [&'static str]),
}

/// What a schema is about.
enum What {
    Everything,
    Paths(&'static [&'static str]),
    /// Verbs, and of each group its resources. The last says whether what is in no namespace belongs to it.
    Objects(&'static [&'static str], &'static [(&'static str, &'static [&'static str])], bool),
}

use What::{Everything, Objects, Paths};
use Who::{Accounts, Both, Groups, Users};

/// Name, level, precedence, what tells flows apart, who, what.
type SchemaRow = (&'static str, &'static str, u32, &'static str, Who, What);

const EVERYONE: Who = Groups(&["system:unauthenticated", "system:authenticated"]);
const ELECTION: &[&str] = &["get", "create", "update"];
const MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const LEASES: (&str, &[&str]) = ("coordination.k8s.io", &["leases"]);

const ROWS: [SchemaRow; 14] = [
    ("exempt", "exempt", 1, "", Groups(&["system:masters"]), Everything),
    ("probes", "exempt", 2, "", EVERYONE, Paths(&["/healthz", "/readyz", "/livez"])),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        Both(&[MANAGER, SCHEDULER], &["*"]),
        Objects(ELECTION, &[LEASES], false),
    ),
    (
        "endpoint-controller",
        "workload-high",
        150,
        "ByUser",
        Both(&[MANAGER], &["endpoint-controller", "endpointslicemirroring-controller"]),
        Objects(ELECTION, &[("", &["endpoints"])], false),
    ),
    (
        "workload-leader-election",
        "leader-election",
        200,
        "ByUser",
        Accounts(&["*"]),
        Objects(ELECTION, &[("", &["endpoints", "configmaps"]), LEASES], false),
    ),
    (
        "leases",
        "leader-election",
        300,
        "ByUser",
        Groups(&["system:authenticated"]),
        Objects(&["get", "create", "update", "patch"], &[LEASES], false),
    ),
    (
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        Groups(&["system:nodes"]),
        Objects(&["*"], &[("", &["nodes", "nodes/status"]), LEASES], true),
    ),
    ("system-nodes", "system", 500, "ByUser", Groups(&["system:nodes"]), Everything),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", Users(&[MANAGER]), Everything),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", Users(&[SCHEDULER]), Everything),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", Accounts(&["*"]), Everything),
    ("service-accounts", "workload-low", 9000, "ByUser", Groups(&["system:serviceaccounts"]), Everything),
    ("global-default", "global-default", 9900, "ByUser", EVERYONE, Everything),
    (CATCH_ALL, CATCH_ALL, 10_000, "ByUser", EVERYONE, Everything),
];

/// The schemas.
pub(super) fn schemas() -> Vec<Given> {
    let schema = |(name, level, precedence, distinguisher, who, what): SchemaRow| {
        let mut rule = what_is_wanted(&what);
        rule["subjects"] = subjects(&who);
        let mut spec = json!({
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            "rules": [rule],
        });
        if !distinguisher.is_empty() {
            spec["distinguisherMethod"] = json!({"type": distinguisher});
        }
        Given { name, spec, is_mandatory: name == "exempt" || name == CATCH_ALL }
    };
    ROWS.into_iter().map(schema).collect()
}

fn subjects(who: &Who) -> Value {
    let users = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect()
    };
    let accounts = |names: &[&str]| -> Vec<Value> {
        let account = |name| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}});
        names.iter().map(account).collect()
    };
    match who {
        Users(names) => users(names).into(),
        Groups(names) => names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect(),
        Accounts(names) => accounts(names).into(),
        Both(some, others) => [users(some), accounts(others)].concat().into(),
    }
}

fn what_is_wanted(what: &What) -> Value {
    match what {
        Everything => json!({
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        Paths(paths) => json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": paths}]}),
        Objects(verbs, groups, is_cluster_wide) => {
            let rule = |(group, resources): &(&str, &[&str])| {
                let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
                if *is_cluster_wide {
                    rule["clusterScope"] = true.into();
                }
                rule
            };
            json!({"resourceRules": groups.iter().map(rule).collect::<Vec<_>>()})
        }
    }
}
