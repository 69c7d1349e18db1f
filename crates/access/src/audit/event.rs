//! What is written down: the `Event` of audit.k8s.io/v1.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Level, Stage};
use crate::User;

/// One line of an audit log.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// How much is written down.
    pub level: Level,
    /// What the lines of one request have in common.
    #[serde(rename = "auditID")]
    pub audit_id: &'a str,
    /// How far the request has come.
    pub stage: Stage,
    /// What was asked for, as the client sent it.
    #[serde(rename = "requestURI")]
    pub request_uri: &'a str,
    /// `get`, `create`, …; for paths, the method in small letters.
    pub verb: &'a str,
    /// Who asks.
    pub user: Account<'a>,
    /// Whom they ask as, if that is someone else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonated_user: Option<Account<'a>>,
    /// The other end of the connection.
    #[serde(rename = "sourceIPs", skip_serializing_if = "Option::is_none")]
    pub source_ips: Option<[&'a str; 1]>,
    /// How the client calls itself.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub user_agent: &'a str,
    /// The object or the objects it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_ref: Option<&'a ObjectRef>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_status: Option<&'a ResponseStatus>,
    /// What was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_object: Option<&'a Value>,
    /// What was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_object: Option<&'a Value>,
    /// When it came.
    #[serde(serialize_with = "in_microseconds")]
    pub request_received_timestamp: Timestamp,
    /// When it came to this stage.
    #[serde(serialize_with = "in_microseconds")]
    pub stage_timestamp: Timestamp,
    /// What those say who had a hand in it.
    #[serde(skip_serializing_if = "is_empty")]
    pub annotations: &'a BTreeMap<String, String>,
}

fn is_empty(annotations: &&BTreeMap<String, String>) -> bool {
    annotations.is_empty()
}

fn in_microseconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.6}"))
}

impl Event<'_> {
    /// The line, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Line<'a> {
            kind: &'static str,
            api_version: &'static str,
            #[serde(flatten)]
            event: &'a Event<'a>,
        }
        let line = Line { kind: "Event", api_version: "audit.k8s.io/v1", event: self };
        // A string is always a key here, which is all that could fail.
        let mut line = serde_json::to_vec(&line).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// A user, as events name them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Account<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

impl<'a> From<&'a User> for Account<'a> {
    fn from(user: &'a User) -> Self {
        let extra = Some(&user.extra).filter(|extra| !extra.is_empty());
        Account { username: &user.name, uid: &user.uid, groups: &user.groups, extra }
    }
}

/// The object or the objects that a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// The plural.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The namespace, if it is in one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name, if it is one object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its id, where the client named it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The API group; empty for the core.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its revision, where the client named it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The subresource, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// How a request ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResponseStatus {
    metadata: Map<String, Value>,
    /// `Success`, `Failure`, or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// What the client was told.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The same for machines.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The status code of HTTP.
    pub code: u16,
}

impl ResponseStatus {
    /// An answer of which the code is all there is to say.
    pub fn of_code(code: u16) -> Self {
        ResponseStatus { code, ..Self::default() }
    }

    /// A failure.
    pub fn failure(code: u16, reason: &str, message: &str) -> Self {
        ResponseStatus {
            status: "Failure".to_owned(),
            message: message.to_owned(),
            reason: reason.to_owned(),
            ..Self::of_code(code)
        }
    }

    /// What a `Status` says; `None` if the object is none.
    pub fn of_object(object: &Value, code: u16) -> Option<Self> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        (text("kind") == "Status" && text("apiVersion") == "v1").then(|| ResponseStatus {
            status: text("status"),
            message: text("message"),
            reason: text("reason"),
            details: object.get("details").filter(|details| !details.is_null()).cloned(),
            ..Self::of_code(code)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_as_kubernetes_writes_it() {
        let mut user = User::new("ann", vec!["devs".to_owned()]);
        user.uid = "7".to_owned();
        user.extra.insert("scopes".to_owned(), vec!["a".to_owned()]);
        let other = User::new("bob", vec![]);
        let annotations = BTreeMap::from([("authorization.k8s.io/decision".to_owned(), "allow".to_owned())]);
        let object = ObjectRef {
            resource: "deployments".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            api_group: "apps".to_owned(),
            api_version: "v1".to_owned(),
            subresource: "status".to_owned(),
            ..ObjectRef::default()
        };
        let sent = json!({"text": "two\nlines"});
        let event = Event {
            level: Level::Request,
            audit_id: "id-1",
            stage: Stage::ResponseComplete,
            request_uri: "/apis/apps/v1/namespaces/shop/deployments/web/status?a=b",
            verb: "update",
            user: Account::from(&user),
            impersonated_user: Some(Account::from(&other)),
            source_ips: Some(["10.0.0.1"]),
            user_agent: "kubectl/v1.37.0",
            object_ref: Some(&object),
            response_status: Some(&ResponseStatus::of_code(200)),
            request_object: Some(&sent),
            response_object: None,
            request_received_timestamp: Timestamp::from_microsecond(1_700_000_000_000_001).expect("a time"),
            stage_timestamp: Timestamp::from_second(1_700_000_001).expect("a time"),
            annotations: &annotations,
        };
        let line = String::from_utf8(event.to_line()).expect("text");
        let expected = concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"id-1","#,
            r#""stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/shop/deployments/web/status?a=b","#,
            r#""verb":"update","user":{"username":"ann","uid":"7","groups":["devs"],"extra":{"scopes":["a"]}},"#,
            r#""impersonatedUser":{"username":"bob"},"sourceIPs":["10.0.0.1"],"userAgent":"kubectl/v1.37.0","#,
            r#""objectRef":{"resource":"deployments","namespace":"shop","name":"web","apiGroup":"apps","#,
            r#""apiVersion":"v1","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"#,
            r#""requestObject":{"text":"two\nlines"},"requestReceivedTimestamp":"2023-11-14T22:13:20.000001Z","#,
            r#""stageTimestamp":"2023-11-14T22:13:21.000000Z","#,
            r#""annotations":{"authorization.k8s.io/decision":"allow"}}"#,
            "\n",
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn what_a_status_says_is_taken_over_and_other_objects_are_none() {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {"continue": "secret"}, "status": "Failure",
            "message": "gone", "reason": "NotFound", "details": {"name": "a"}, "code": 404,
        });
        let taken = ResponseStatus::of_object(&status, 404).expect("a Status");
        assert_eq!(
            serde_json::to_value(taken).expect("JSON"),
            json!({"metadata": {}, "status": "Failure", "message": "gone", "reason": "NotFound",
                   "details": {"name": "a"}, "code": 404})
        );
        assert_eq!(ResponseStatus::of_object(&json!({"kind": "Pod", "apiVersion": "v1"}), 200), None);
    }
}
