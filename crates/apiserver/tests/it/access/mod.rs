//! Who may do what, as clients see it.

mod bootstrap;
mod escalating;
mod impersonating;
mod owning;
mod reviewing;
mod roles;
mod watching;

use serde_json::{Value, json};

use crate::client::Client;

/// Where the objects of RBAC are.
pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A rule: verbs, a group, and resources, each several words.
pub(crate) fn rule(verbs: &str, group: &str, resources: &str) -> Value {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    json!({"verbs": words(verbs), "apiGroups": [group], "resources": words(resources)})
}

impl Client {
    /// Someone with these rules, everywhere.
    pub(crate) async fn with_rules(&self, name: &str, rules: Value) -> Client {
        self.post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules}))
            .await
            .created();
        self.bind("", name, "ClusterRole", name).await;
        self.as_user(name, &[])
    }

    /// Someone with these rules in a namespace.
    pub(crate) async fn with_rules_in(&self, namespace: &str, name: &str, rules: Value) -> Client {
        let path = format!("{RBAC}/namespaces/{namespace}/roles");
        self.post(&path, json!({"metadata": {"name": name}, "rules": rules})).await.created();
        self.bind(namespace, name, "Role", name).await;
        self.as_user(name, &[])
    }

    /// Gives a role to a user, in a namespace or everywhere.
    pub(crate) async fn bind(&self, namespace: &str, user: &str, kind: &str, role: &str) {
        let path = match namespace {
            "" => format!("{RBAC}/clusterrolebindings"),
            namespace => format!("{RBAC}/namespaces/{namespace}/rolebindings"),
        };
        self.post(&path, binding(user, kind, role, user)).await.created();
    }
}

/// A binding of a role to a user.
pub(crate) fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}
