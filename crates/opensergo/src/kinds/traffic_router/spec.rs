//! What people write: what the VirtualService of Istio has, and where to go instead.
//!
//! Nothing has to be there. What cannot be sent is known nevertheless, so that it is refused and not dropped.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::RuleStatus;

/// Servers take a rule for a list only where they know how long checking it takes at most.
const MOST_ROUTES: usize = 1000;

/// The same for the destinations of a route.
const MOST_DESTINATIONS: usize = 100;

/// The most hosts. Each of them gets all routes.
const MOST_HOSTS: usize = 1000;

/// The most sorts of requests that a route is for. Each of them gets all destinations.
const MOST_MATCHES: usize = 1000;

/// What a route has to say.
const HAS_ACTION: &str =
    "has(self.redirect) || has(self.directResponse) || (has(self.route) && size(self.route) > 0)";

/// Of several destinations, one has to get something.
const HAS_WEIGHT: &str = "!has(self.route) || size(self.route) < 2 || \
    self.route.exists(one, has(one.weight) && one.weight > 0)";

/// Hosts, and the routes to them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "traffic.opensergo.io",
    version = "v1alpha1",
    kind = "TrafficRouter",
    plural = "trafficrouters",
    shortname = "tr",
    namespaced,
    status = "RuleStatus",
    doc = "Says which instances of a service requests go to.",
    printcolumn = r#"{"name":"App", "type":"string", "jsonPath":".metadata.labels.app"}"#,
    printcolumn = r#"{"name":"Hosts", "type":"string", "jsonPath":".spec.hosts"}"#,
    printcolumn = r#"{"name":"Accepted", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Delivered", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Delivered\")].status"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct TrafficRouterSpec {
    /// The services whose requests are routed. A name without dots is a service of the same namespace. Without any, it is
    /// the service that is called as this object is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_HOSTS))]
    pub hosts: Vec<String>,
    /// Routes, of which the first counts that matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ROUTES))]
    pub http: Vec<HttpRoute>,
    /// It has no effect: there are no gateways.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
    /// It has no effect: the namespace and the label app say who is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub export_to: Vec<String>,
    /// It has no effect: only HTTP is routed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "open_list")]
    pub tls: Vec<Value>,
    /// It has no effect: only HTTP is routed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "open_list")]
    pub tcp: Vec<Value>,
    /// It has no effect: the label app says whom a rule is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// Whom a rule is for, as the specification has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Selector {
    /// An app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

/// Something that is done with requests of some sort.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": HAS_ACTION, "message": "one of route, redirect and directResponse is needed"},
    {"rule": HAS_WEIGHT, "message": "one of several destinations needs a weight above 0"},
]))]
pub struct HttpRoute {
    /// What it is called in logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which requests: those that one of these matches. All without.
    #[serde(rename = "match", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_MATCHES))]
    pub matches: Vec<HttpMatch>,
    /// Where they go. Of several, each gets the share that its weight is of all weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_DESTINATIONS))]
    pub route: Vec<Destined>,
    /// Sends the client elsewhere instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// Answers instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_response: Option<DirectResponse>,
    /// What is asked of the destination instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// How long the destination may take, such as `1.5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// When and how often it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// Who gets a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Mirror>,
    /// How many get copied, in percent. All without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror_percentage: Option<Percentage>,
    /// The same, in whole percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub mirror_percent: Option<i32>,
    /// Who else may ask from a browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors_policy: Option<CorsPolicy>,
    /// Which headers are changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeaderChanges>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open")]
    pub fault: Option<Value>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open")]
    pub delegate: Option<Value>,
}

/// A sort of requests: all that is said must be so.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpMatch {
    /// What it is called in logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<StringMatch>,
    /// Whether `/a` is `/A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_uri_case: Option<bool>,
    /// The scheme, such as `https`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<StringMatch>,
    /// The method, such as `GET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<StringMatch>,
    /// The host that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<StringMatch>,
    /// Headers by name. One about which nothing is said has to be there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, StringMatch>,
    /// Headers that must not be so.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub without_headers: BTreeMap<String, StringMatch>,
    /// Parameters in the query, by name. One about which nothing is said has to be there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query_params: BTreeMap<String, StringMatch>,
    /// What its metrics are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat_prefix: Option<String>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub source_labels: BTreeMap<String, String>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_namespace: Option<String>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
}

/// How a text is. Of several, the first counts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct StringMatch {
    /// It is this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// It begins with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All of it is matched by this, in the syntax of RE2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

/// Where requests go, and how many of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Destined {
    /// Where they go.
    pub destination: Destination,
    /// How many of them, as a share of all weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub weight: Option<i32>,
    /// Which headers of theirs are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeaderChanges>,
}

/// Instances of a service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Destination {
    /// The service. A name without dots is one of the same namespace.
    #[schemars(length(min = 1))]
    pub host: String,
    /// Which of its instances, such as a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// On which port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
    /// Where requests go while none of those instances is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
}

/// Instances of a service that a copy goes to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Mirror {
    /// The service.
    #[schemars(length(min = 1))]
    pub host: String,
    /// Which of its instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// On which port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Port {
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub number: Option<i32>,
}

/// Where requests go otherwise.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Fallback {
    /// The service; the same one without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Which of its instances; any without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
}

/// Which headers are changed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct HeaderChanges {
    /// Those of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<HeaderOperations>,
    /// Those of answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<HeaderOperations>,
}

/// How headers are changed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct HeaderOperations {
    /// What they are instead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// What they have besides.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, String>,
    /// Which ones go away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// Where a client is sent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Redirect {
    /// Another path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Another host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// Another port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derive_port: Option<String>,
    /// Another scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// 301, 302, 303, 307 or 308. 301 without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_code: Option<i32>,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct DirectResponse {
    /// Its status, from 200 to 599.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 599))]
    pub status: Option<i32>,
    /// What it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
}

/// What an answer says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Body {
    /// As text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// As bytes, in Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
}

/// What is asked of the destination instead.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rewrite {
    /// What stands instead of the part of the path that was matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Another host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// What stands instead of the part of the path that an expression matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_regex_rewrite: Option<RegexRewrite>,
}

/// A part of a path, and what stands there instead.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct RegexRewrite {
    /// An expression, in the syntax of RE2.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// What stands there; `\1` is the first group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<String>,
}

/// When and how often something is tried again.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Retries {
    /// How often.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub attempts: Option<i32>,
    /// How long one may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<String>,
    /// After what, such as `5xx,connect-failure,429`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<String>,
    /// It is refused: nobody could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_remote_localities: Option<bool>,
}

/// A share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Percentage {
    /// In percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub value: Option<f64>,
}

/// Who else may ask from a browser.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CorsPolicy {
    /// Pages of these origins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_origins: Vec<StringMatch>,
    /// The same, exactly so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_origin: Vec<String>,
    /// With these methods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_methods: Vec<String>,
    /// With these headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_headers: Vec<String>,
    /// Which headers they see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<String>,
    /// How long they may remember this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
    /// Whether with credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_credentials: Option<bool>,
}

fn open(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "It is refused: nobody could be told.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

fn open_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "It has no effect: only HTTP is routed.",
        "type": "array",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}
