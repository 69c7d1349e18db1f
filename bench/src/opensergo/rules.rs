//! The rules that clients are told of, each with a number in it.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, bail};
use http::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::apiserver::client::{Connection, Endpoint};

/// Where the rules are.
pub(crate) const NAMESPACE: &str = "default";
/// What clients call their kind.
pub(crate) const KIND: &str = "fault-tolerance.opensergo.io/v1alpha1/RateLimitStrategy";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RULES: &str = "/apis/fault-tolerance.opensergo.io/v1alpha1/namespaces/default/ratelimitstrategies";

/// How long definitions may take to be served.
const SERVED: Duration = Duration::from_secs(20);

/// Installs the kinds that `program` brings along.
pub(crate) async fn define(endpoint: &Endpoint, program: &Path) -> anyhow::Result<()> {
    let printed = Command::new(program).arg("crds").output()?;
    let text = String::from_utf8(printed.stdout)?;
    let mut connection = endpoint.connect().await?;
    for definition in text.split("---\n").filter(|part| part.contains("opensergo.io")) {
        let request = endpoint.ask(Method::POST, DEFINITIONS, "application/yaml", definition.to_owned());
        connection.fetch(request).await.context("installing a definition")?;
    }
    let begun = Instant::now();
    while connection.fetch(endpoint.get(RULES)).await.is_err() {
        if begun.elapsed() > SERVED {
            bail!("the definitions are not served");
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Writes the rule of an app.
pub(crate) async fn write(
    endpoint: &Endpoint,
    connection: &mut Connection,
    app: &str,
    number: i64,
) -> anyhow::Result<()> {
    let rule = json!({
        "apiVersion": "fault-tolerance.opensergo.io/v1alpha1",
        "kind": "RateLimitStrategy",
        "metadata": {"name": format!("rule-{app}"), "labels": {"app": app}},
        "spec": {"metricType": "RequestAmount", "limitMode": "Local", "threshold": number, "statDurationSeconds": 1},
    });
    let path = format!("{RULES}/rule-{app}?fieldManager=bench&force=true");
    let request = endpoint.ask(Method::PATCH, &path, "application/apply-patch+yaml", rule.to_string());
    connection.fetch(request).await.map(drop)
}
