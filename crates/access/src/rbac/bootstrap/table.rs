//! The table of roles and bindings that every server has.
//!
//! They are those of Kubernetes, with two differences. Nobody may write `endpoints` or `endpointslices` by way of `edit` or
//! `admin`: who can, can send the traffic of other namespaces wherever they like (CVE-2021-25740). And there are no roles of
//! controllers that do not run here.

/// A role. Without a namespace it is a cluster role.
pub(super) struct Role {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    /// Of which roles it becomes a part.
    pub(super) part_of: &'static [&'static str],
    /// Of the parts of which roles it is made.
    pub(super) made_of: &'static [&'static str],
    pub(super) rules: &'static [Row],
}

/// One rule; several words are several values, and `core` is the group without a name.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// Verbs, groups, resources.
    On(&'static str, &'static str, &'static str),
    /// Verbs, groups, resources, names.
    Named(&'static str, &'static str, &'static str, &'static str),
    /// Verbs, paths.
    Paths(&'static str, &'static str),
}

/// A role, and to whom it is given.
pub(super) struct Binding {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    pub(super) role: &'static str,
    pub(super) to: &'static [Given],
}

/// To whom a role is given.
pub(super) enum Given {
    User(&'static str),
    Group(&'static str),
    /// A namespace and a name.
    Account(&'static str, &'static str),
}

use self::Row::{Named, On, Paths};

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL: &str = "create delete deletecollection get list patch update watch";
const RBAC: &str = "rbac.authorization.k8s.io";
const SYSTEM: &str = "kube-system";

const fn cluster(name: &'static str, rules: &'static [Row]) -> Role {
    Role { namespace: "", name, part_of: &[], made_of: &[], rules }
}

const fn within(namespace: &'static str, name: &'static str, rules: &'static [Row]) -> Role {
    Role { namespace, ..cluster(name, rules) }
}

const EVENTS: Row = On("create patch update", "core events.k8s.io", "events");

pub(super) const ROLES: &[Role] = &[
    cluster("cluster-admin", &[On("*", "*", "*"), Paths("*", "*")]),
    // What people are given in their namespaces.
    Role { made_of: &["admin"], ..cluster("admin", &[]) },
    Role { made_of: &["edit"], part_of: &["admin"], ..cluster("edit", &[]) },
    Role { made_of: &["view"], part_of: &["edit"], ..cluster("view", &[]) },
    Role { part_of: &["admin"], ..cluster("system:aggregate-to-admin", ADMIN) },
    Role { part_of: &["edit"], ..cluster("system:aggregate-to-edit", EDIT) },
    Role { part_of: &["view"], ..cluster("system:aggregate-to-view", VIEW) },
    // What everyone has.
    cluster(
        "system:basic-user",
        &[
            On("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            On("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    cluster(
        "system:discovery",
        &[Paths(
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
        )],
    ),
    // What is well in detail says no more than what is well as a whole, which can be asked for in detail.
    cluster(
        "system:public-info-viewer",
        &[Paths("get", "/healthz /healthz/* /livez /livez/* /readyz /readyz/* /version /version/")],
    ),
    cluster(
        "system:monitoring",
        &[Paths("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")],
    ),
    cluster(
        "system:service-account-issuer-discovery",
        &[Paths(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    // Servers beside this one.
    cluster(
        "system:auth-delegator",
        &[
            On("create", "authentication.k8s.io", "tokenreviews"),
            On("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    cluster("system:kube-aggregator", &[On(READ, "core", "endpoints services")]),
    cluster(
        "system:kube-dns",
        &[
            On("list watch", "core", "endpoints services"),
            On("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    ),
    cluster("system:kube-scheduler", SCHEDULER),
    cluster("system:volume-scheduler", VOLUME_SCHEDULER),
    cluster("system:kube-controller-manager", CONTROLLER_MANAGER),
    cluster("system:persistent-volume-provisioner", PROVISIONER),
    // Nodes.
    cluster("system:node", NODE),
    cluster(
        "system:node-bootstrapper",
        &[On("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    cluster(
        "system:node-problem-detector",
        &[On("get", "core", "nodes"), On("patch", "core", "nodes/status"), EVENTS],
    ),
    cluster(
        "system:node-proxier",
        &[
            On("list watch", "core", "endpoints services"),
            On(READ, "core", "nodes"),
            EVENTS,
            On("list watch", "discovery.k8s.io", "endpointslices"),
            On("list watch", "networking.k8s.io", "servicecidrs"),
        ],
    ),
    cluster(
        "system:kubelet-api-admin",
        &[
            On(READ, "core", "nodes"),
            On("proxy", "core", "nodes"),
            On(
                "*",
                "core",
                "nodes/log nodes/metrics nodes/proxy nodes/stats nodes/configz nodes/healthz nodes/pods",
            ),
        ],
    ),
    // Certificates.
    cluster(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[On("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
    ),
    cluster(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[On("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
    ),
    cluster(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client")],
    ),
    cluster(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    cluster(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving")],
    ),
    cluster(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/legacy-unknown")],
    ),
    cluster(
        "system:cluster-trust-bundle-discovery",
        &[On(READ, "certificates.k8s.io", "clustertrustbundles")],
    ),
    // In namespaces of the cluster.
    within(
        SYSTEM,
        "extension-apiserver-authentication-reader",
        &[Named(READ, "core", "configmaps", "extension-apiserver-authentication")],
    ),
    within(
        SYSTEM,
        "system::leader-locking-kube-controller-manager",
        &[
            On("create", "coordination.k8s.io", "leases"),
            Named("get update watch", "coordination.k8s.io", "leases", "kube-controller-manager"),
        ],
    ),
    within(
        SYSTEM,
        "system::leader-locking-kube-scheduler",
        &[
            On("create", "coordination.k8s.io", "leases"),
            Named("get update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
        ],
    ),
    within(SYSTEM, "system:controller:bootstrap-signer", &[On(READ, "core", "secrets")]),
    within(
        SYSTEM,
        "system:controller:token-cleaner",
        &[On("delete get list watch", "core", "secrets"), EVENTS],
    ),
    within(
        "kube-public",
        "system:controller:bootstrap-signer",
        &[On(READ, "core", "configmaps"), Named("update", "core", "configmaps", "cluster-info"), EVENTS],
    ),
];

const ADMIN: &[Row] =
    &[On("create", "authorization.k8s.io", "localsubjectaccessreviews"), On(ALL, RBAC, "roles rolebindings")];

const EDIT: &[Row] = &[
    On(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    On("impersonate", "core", "serviceaccounts"),
    On(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    On("create", "core", "pods/eviction"),
    On(
        WRITE,
        "core",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
    ),
    On("create", "core", "serviceaccounts/token"),
    On(
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
         statefulsets/scale",
    ),
    On(WRITE, "autoscaling", "horizontalpodautoscalers"),
    On(WRITE, "batch", "cronjobs jobs"),
    On(WRITE, "policy", "poddisruptionbudgets"),
    On(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    On(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    On(ALL, "coordination.k8s.io", "leases"),
];

const VIEW: &[Row] = &[
    On(
        READ,
        "core",
        "bindings configmaps endpoints events limitranges namespaces namespaces/status persistentvolumeclaims \
         persistentvolumeclaims/status pods pods/log pods/status replicationcontrollers replicationcontrollers/scale \
         replicationcontrollers/status resourcequotas resourcequotas/status serviceaccounts services services/status",
    ),
    On(READ, "discovery.k8s.io", "endpointslices"),
    On(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets \
         replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    On(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    On(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    On(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    On(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    On(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
];

const SCHEDULER: &[Row] = &[
    EVENTS,
    On("create", "coordination.k8s.io", "leases"),
    Named("get update", "coordination.k8s.io", "leases", "kube-scheduler"),
    On(
        READ,
        "core",
        "namespaces nodes persistentvolumeclaims persistentvolumes replicationcontrollers services",
    ),
    On("delete get list watch", "core", "pods"),
    On("create", "core", "bindings pods/binding"),
    On("patch update", "core", "pods/status"),
    On(READ, "apps", "replicasets statefulsets"),
    On(READ, "policy", "poddisruptionbudgets"),
    On(READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses volumeattachments"),
    On(READ, "resource.k8s.io", "deviceclasses resourceclaims resourceslices"),
    On("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "subjectaccessreviews"),
];

const VOLUME_SCHEDULER: &[Row] = &[
    On("get list patch update watch", "core", "persistentvolumes"),
    On(READ, "storage.k8s.io", "storageclasses"),
    On("get list patch update watch", "core", "persistentvolumeclaims"),
];

const CONTROLLER_MANAGER: &[Row] = &[
    EVENTS,
    On("create", "coordination.k8s.io", "leases"),
    Named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
    On("create", "core", "secrets serviceaccounts serviceaccounts/token"),
    On("delete", "core", "secrets"),
    On("get", "core", "configmaps namespaces secrets serviceaccounts"),
    On("update", "core", "secrets serviceaccounts"),
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "subjectaccessreviews"),
    On("list watch", "*", "*"),
];

const PROVISIONER: &[Row] = &[
    On("create delete get list watch", "core", "persistentvolumes"),
    On("get list update watch", "core", "persistentvolumeclaims"),
    On(READ, "storage.k8s.io", "storageclasses"),
    On("list watch", "core", "events"),
    EVENTS,
];

const NODE: &[Row] = &[
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    On(READ, "core", "services"),
    On("create get list watch", "core", "nodes"),
    On("patch update", "core", "nodes nodes/status"),
    EVENTS,
    On("create delete get list watch", "core", "pods"),
    On("patch update", "core", "pods/status"),
    On("create", "core", "pods/eviction"),
    On(READ, "core", "configmaps secrets"),
    On("get", "core", "persistentvolumeclaims persistentvolumes"),
    On("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    On("create delete get patch update", "coordination.k8s.io", "leases"),
    On("get", "storage.k8s.io", "volumeattachments"),
    On("create delete get patch update", "storage.k8s.io", "csinodes"),
    On(READ, "storage.k8s.io", "csidrivers"),
    On("create", "core", "serviceaccounts/token"),
    On("get patch update", "core", "persistentvolumeclaims/status"),
    On(READ, "node.k8s.io", "runtimeclasses"),
    On("get", "resource.k8s.io", "resourceclaims"),
    On("create delete deletecollection get list patch update watch", "resource.k8s.io", "resourceslices"),
    On(READ, "certificates.k8s.io", "clustertrustbundles"),
];

const AUTHENTICATED: Given = Given::Group("system:authenticated");

const fn to(role: &'static str, to: &'static [Given]) -> Binding {
    Binding { namespace: "", name: role, role, to }
}

pub(super) const BINDINGS: &[Binding] = &[
    to("cluster-admin", &[Given::Group("system:masters")]),
    to("system:basic-user", &[AUTHENTICATED]),
    to("system:discovery", &[AUTHENTICATED]),
    to("system:public-info-viewer", &[AUTHENTICATED, Given::Group("system:unauthenticated")]),
    to("system:monitoring", &[Given::Group("system:monitoring")]),
    to("system:service-account-issuer-discovery", &[Given::Group("system:serviceaccounts")]),
    to("system:cluster-trust-bundle-discovery", &[Given::Group("system:serviceaccounts")]),
    to("system:kube-dns", &[Given::Account(SYSTEM, "kube-dns")]),
    to("system:kube-scheduler", &[Given::User("system:kube-scheduler")]),
    to("system:volume-scheduler", &[Given::User("system:kube-scheduler")]),
    to("system:kube-controller-manager", &[Given::User("system:kube-controller-manager")]),
    to("system:node-proxier", &[Given::User("system:kube-proxy")]),
    // Which node may do what is not for roles to say, so nobody is given this one.
    to("system:node", &[]),
    Binding {
        namespace: SYSTEM,
        name: "system::extension-apiserver-authentication-reader",
        role: "extension-apiserver-authentication-reader",
        to: &[Given::User("system:kube-controller-manager"), Given::User("system:kube-scheduler")],
    },
    Binding {
        namespace: SYSTEM,
        name: "system::leader-locking-kube-controller-manager",
        role: "system::leader-locking-kube-controller-manager",
        to: &[
            Given::User("system:kube-controller-manager"),
            Given::Account(SYSTEM, "kube-controller-manager"),
        ],
    },
    Binding {
        namespace: SYSTEM,
        name: "system::leader-locking-kube-scheduler",
        role: "system::leader-locking-kube-scheduler",
        to: &[Given::User("system:kube-scheduler"), Given::Account(SYSTEM, "kube-scheduler")],
    },
    Binding {
        namespace: SYSTEM,
        name: "system:controller:bootstrap-signer",
        role: "system:controller:bootstrap-signer",
        to: &[Given::Account(SYSTEM, "bootstrap-signer")],
    },
    Binding {
        namespace: SYSTEM,
        name: "system:controller:token-cleaner",
        role: "system:controller:token-cleaner",
        to: &[Given::Account(SYSTEM, "token-cleaner")],
    },
    Binding {
        namespace: "kube-public",
        name: "system:controller:bootstrap-signer",
        role: "system:controller:bootstrap-signer",
        to: &[Given::Account(SYSTEM, "bootstrap-signer")],
    },
];
