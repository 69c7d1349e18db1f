//! What the objects that configure webhooks say.

use std::time::Duration;

use serde_json::Value;
use windlass_machinery::object::{Object, int_at, list_at, name, str_at};

use super::super::{
    expressions::{Conditions, env},
    matching::Matching,
};
use crate::{
    status::{Outcome, Status},
    webhook::Hook,
};

/// A configuration of webhooks.
pub(super) struct Configuration {
    pub(super) webhooks: Vec<Webhook>,
}

/// One webhook.
pub(super) struct Webhook {
    /// What tells it from all others.
    pub(super) id: String,
    pub(super) name: String,
    /// Where it is, or why that is not known.
    pub(super) hook: Result<Hook, String>,
    pub(super) matching: Matching,
    pub(super) conditions: Conditions,
    pub(super) timeout: Duration,
    /// Whether requests go on without it when it fails.
    pub(super) ignored: bool,
    /// Whether it may be asked about what is not going to happen.
    pub(super) takes_dry_run: bool,
    /// Whether it is asked once more when others change the object after it.
    pub(super) reinvoked: bool,
    /// The version of reviews it understands.
    pub(super) review: &'static str,
}

impl Configuration {
    pub(super) fn of(object: &Object) -> Self {
        let webhooks = list_at(object, &["webhooks"]).iter().filter_map(Value::as_object);
        Configuration { webhooks: webhooks.map(|webhook| Webhook::of(name(object), webhook)).collect() }
    }
}

impl Webhook {
    fn of(configuration: &str, webhook: &Object) -> Self {
        let text = |field: &str| str_at(webhook, &[field]).unwrap_or_default();
        let versions = list_at(webhook, &["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        let known = |version: &str| match version {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        };
        let client = webhook.get("clientConfig").and_then(Value::as_object).cloned().unwrap_or_default();
        Webhook {
            id: format!("{configuration}/{}", text("name")),
            name: text("name").to_owned(),
            hook: Hook::of(&client).map_err(|error| error.to_string()),
            matching: Matching::of_webhook(webhook),
            conditions: Conditions::of(webhook, &env()),
            timeout: Duration::from_secs(
                int_at(webhook, &["timeoutSeconds"]).unwrap_or(10).clamp(1, 30) as u64
            ),
            ignored: text("failurePolicy") == "Ignore",
            takes_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
            review: versions.filter_map(known).next().unwrap_or("v1"),
        }
    }

    /// What becomes of a request when the webhook fails.
    pub(super) fn failed(&self, why: &str) -> Outcome<()> {
        let message = format!("failed calling webhook {:?}: {why}", self.name);
        match self.ignored {
            true => {
                tracing::warn!(webhook = self.name, why, "a webhook failed and is ignored");
                Ok(())
            }
            false => Err(Status::internal(message)),
        }
    }
}
