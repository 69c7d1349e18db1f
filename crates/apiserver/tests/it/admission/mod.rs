//! Admission by outsiders: webhooks and policies, as those who configure them may rely on them.

mod answers;
mod asking;
mod changing;
mod custom;
mod failing;
mod params;
mod policies;

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    client::Client,
    hooks::{Hooks, Reply},
};

pub(crate) const MUTATING: &str = "mutatingwebhookconfigurations";
pub(crate) const VALIDATING: &str = "validatingwebhookconfigurations";

/// Where objects of the configuration of admission are.
pub(crate) fn path(plural: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{plural}")
}

/// A webhook that answers reviews, and remembers what it was asked.
pub(crate) struct Reviewer {
    pub(crate) hooks: Hooks,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Reviewer {
    /// `judge` is given the request of a review and gives the response to it, but for the uid.
    pub(crate) async fn start(judge: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self::start_at(&["127.0.0.1"], move |_, request| judge(request)).await
    }

    /// The same for a server of these names, told the path as well.
    pub(crate) async fn start_at(
        names: &[&str],
        judge: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let kept = Arc::clone(&asked);
        let work = Arc::new(move |path: &str, body: &[u8]| {
            let review: Value = serde_json::from_slice(body).expect("a review is JSON");
            let request = &review["request"];
            let path = path.split('?').next().unwrap_or_default();
            kept.lock().push((path.to_owned(), review.clone()));
            let mut response = judge(path, request);
            if response.get("uid").is_none() {
                response["uid"] = request["uid"].clone();
            }
            let answer = json!({
                "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response,
            });
            Reply::ok(answer.to_string())
        });
        Reviewer { hooks: Hooks::start(names, work).await, asked }
    }

    /// One that agrees to everything.
    pub(crate) async fn agreeable() -> Self {
        Self::start(|_| json!({"allowed": true})).await
    }

    /// The reviews it was sent, and forgets them.
    pub(crate) fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.asked.lock())
            .into_iter()
            .map(|(_, review)| review["request"].clone())
            .collect()
    }

    /// The reviews it was sent, whole, and forgets them.
    pub(crate) fn reviews(&self) -> Vec<Value> {
        std::mem::take(&mut *self.asked.lock()).into_iter().map(|(_, review)| review).collect()
    }

    /// The paths it was called at, and forgets them.
    pub(crate) fn paths(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock()).into_iter().map(|(path, _)| path).collect()
    }

    /// What was done to what, and forgets it.
    pub(crate) fn operations(&self) -> Vec<String> {
        let shown = self.asked().into_iter().map(|request| {
            let sub = request["subResource"].as_str().map(|sub| format!("/{sub}")).unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!(
                "{} {}{sub} {}",
                text(&request["operation"]),
                text(&request["resource"]["resource"]),
                text(&request["name"])
            )
        });
        shown.collect()
    }

    /// A webhook of a configuration that is answered here.
    pub(crate) fn webhook(&self, name: &str, change: Value) -> Value {
        webhook(&self.hooks, name, change)
    }
}

/// A webhook of a configuration, about all config maps unless something else is said.
pub(crate) fn webhook(hooks: &Hooks, name: &str, change: Value) -> Value {
    let mut webhook = json!({
        "name": name,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://{}/{name}", hooks.address), "caBundle": hooks.bundle()},
        "rules": [rule("", &["configmaps"], &["*"])],
    });
    merge(&mut webhook, change);
    webhook
}

/// A rule about these resources of a group.
pub(crate) fn rule(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": resources, "operations": operations})
}

fn merge(to: &mut Value, from: Value) {
    for (field, value) in from.as_object().cloned().unwrap_or_default() {
        to[field] = value;
    }
}

impl Client {
    /// Configures webhooks.
    pub(crate) async fn configure(&self, plural: &str, name: &str, webhooks: Vec<Value>) {
        let configuration = json!({"metadata": {"name": name}, "webhooks": webhooks});
        self.post(&path(plural), configuration).await.created();
    }

    /// Creates a policy about config maps, and a binding of the same name.
    pub(crate) async fn policy(&self, name: &str, spec: Value) -> Value {
        self.bound(name, spec, json!({})).await
    }

    /// The same with more in the binding.
    pub(crate) async fn bound(&self, name: &str, spec: Value, binding: Value) -> Value {
        let kind = if spec.get("mutations").is_some() { "mutating" } else { "validating" };
        let mut whole = json!({"matchConstraints": {"resourceRules": [rule("", &["configmaps"], &["CREATE", "UPDATE"])]}});
        merge(&mut whole, spec);
        let policy = json!({"metadata": {"name": name}, "spec": whole});
        let made = self.post(&path(&format!("{kind}admissionpolicies")), policy).await.created();
        let mut spec = json!({"policyName": name});
        if kind == "validating" {
            spec["validationActions"] = json!(["Deny"]);
        }
        merge(&mut spec, binding);
        let binding = json!({"metadata": {"name": name}, "spec": spec});
        self.post(&path(&format!("{kind}admissionpolicybindings")), binding).await.created();
        made
    }
}

/// A response that patches.
pub(crate) fn patched(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

/// A config map.
pub(crate) fn config(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

/// The message of a `Status`.
pub(crate) fn message(status: &Value) -> String {
    status["message"].as_str().unwrap_or_default().to_owned()
}
