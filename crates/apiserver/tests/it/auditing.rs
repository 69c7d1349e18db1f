//! What is written down about requests.

use std::{convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_access::{User, authn::Peer};
use windlass_apiserver::{
    Config,
    audit::{Audit, Destination, Files, Mode, Policy},
};

use crate::{
    admission::{Reviewer, VALIDATING},
    client::{CONFIG_MAPS, Client, PODS, pod},
};

/// A server whose requests are written down.
struct Audited {
    client: Client,
    audit: Arc<Audit>,
    folder: TempDir,
}

impl Audited {
    async fn with(rules: &str) -> Self {
        Self::in_mode(rules, Mode::Blocking).await
    }

    async fn in_mode(rules: &str, mode: Mode) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = open(folder.path().join("audit.log"), rules, mode);
        let config = Config { audit: Some(Arc::clone(&audit)), ..Config::default() };
        Audited { client: Client::with(config).await, audit, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// Everything that was written down.
    async fn text(&self) -> String {
        self.audit.close().await;
        std::fs::read_to_string(self.path()).expect("a log")
    }

    async fn events(&self) -> Vec<Value> {
        let text = self.text().await;
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON"));
        lines.collect()
    }
}

/// A log at this path.
pub(crate) fn open(path: PathBuf, rules: &str, mode: Mode) -> Arc<Audit> {
    let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}");
    let policy = Policy::parse(policy.as_bytes()).expect("a policy");
    let files = Files { path, max_bytes: 100 << 20, max_backups: 0, max_age: Duration::ZERO };
    Audit::open(policy, Destination::Files(files), mode).expect("a log")
}

/// The stage, the verb, and the code.
pub(crate) fn steps(events: &[Value]) -> Vec<String> {
    let steps = events.iter().map(|event| {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let code = event["responseStatus"]["code"].to_string();
        format!("{} {} {code}", text("stage"), text("verb"))
    });
    steps.collect()
}

const EVERYTHING: &str = "rules: [{level: RequestResponse}]";
pub(crate) const METADATA: &str = "omitStages: [RequestReceived]\nrules: [{level: Metadata}]";

#[tokio::test]
async fn an_event_has_the_form_that_kubernetes_gives_it() {
    let server = Audited::with(EVERYTHING).await;
    let headers = [("content-type", "application/json"), ("user-agent", "tester/1"), ("audit-id", "mine-1")];
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let path = format!("{CONFIG_MAPS}?fieldManager=me");
    let answer = server.client.send("POST", &path, &headers, map.to_string()).await;
    answer.created();
    assert_eq!(answer.header("audit-id"), "mine-1");
    let events = server.events().await;
    assert_eq!(steps(&events), ["RequestReceived create null", "ResponseComplete create 201"]);
    let received = &events[0];
    assert_eq!(received["kind"], "Event");
    assert_eq!(received["apiVersion"], "audit.k8s.io/v1");
    assert_eq!(received["auditID"], "mine-1");
    assert_eq!(received["requestURI"], path);
    assert_eq!(
        received["user"],
        json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]})
    );
    assert_eq!(received["userAgent"], "tester/1");
    assert_eq!(
        received["objectRef"],
        json!({"resource": "configmaps", "namespace": "default", "apiVersion": "v1"})
    );
    assert!(received.get("responseStatus").is_none() && received.get("requestObject").is_none());
    let done = &events[1];
    assert_eq!(done["level"], "RequestResponse");
    assert_eq!(done["objectRef"]["name"], "a", "the name was in the body");
    assert_eq!(done["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(done["requestObject"]["data"], json!({"k": "v"}));
    assert!(done["requestObject"]["metadata"].get("uid").is_none(), "it is what was sent");
    assert!(done["responseObject"]["metadata"]["uid"].is_string());
    assert_eq!(done["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(done["annotations"]["authorization.k8s.io/reason"], "", "the masters need none");
    for (event, field) in
        [(done, "requestReceivedTimestamp"), (done, "stageTimestamp"), (received, "stageTimestamp")]
    {
        let time = event[field].as_str().unwrap_or_default();
        assert!(time.len() == "2006-01-02T15:04:05.000000Z".len() && time.ends_with('Z'), "{field}: {time}");
    }
    assert_eq!(received["requestReceivedTimestamp"], done["requestReceivedTimestamp"]);
}

/// Does one of each, and gives what was written down of it.
async fn one_of_each(level: &str) -> Vec<Value> {
    let server = Audited::with(&format!("omitStages: [RequestReceived]\nrules: [{{level: {level}}}]")).await;
    let client = &server.client;
    let one = format!("{CONFIG_MAPS}/a");
    client.config_map("a", json!({"k": "v"})).await;
    client.get(&one).await.ok();
    client.get(CONFIG_MAPS).await.ok();
    client.patch("merge", &one, json!({"data": {"k": "w"}})).await.ok();
    client.patch("json", &one, json!([{"op": "remove", "path": "/data/k"}])).await.ok();
    client
        .send(
            "PATCH",
            &format!("{one}?fieldManager=m"),
            &[("content-type", "application/apply-patch+yaml")],
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  other: z\n",
        )
        .await
        .ok();
    client.delete(&one, json!({"propagationPolicy": "Background"})).await.ok();
    client.delete(CONFIG_MAPS, Value::Null).await.ok();
    client.post(PODS, pod("p")).await.created();
    let status = json!({"status": {"phase": "Running"}});
    client.patch("merge", &format!("{PODS}/p/status"), status).await.ok();
    server.events().await
}

#[tokio::test]
async fn each_level_says_as_much_as_it_should() {
    for (level, sends, answers) in
        [("Metadata", false, false), ("Request", true, false), ("RequestResponse", true, true)]
    {
        let events = one_of_each(level).await;
        let verbs: Vec<&str> = events.iter().filter_map(|event| event["verb"].as_str()).collect();
        let expected = [
            "create",
            "get",
            "list",
            "patch",
            "patch",
            "patch",
            "delete",
            "deletecollection",
            "create",
            "patch",
        ];
        assert_eq!(verbs, expected, "{level}");
        let sent: Vec<bool> = events.iter().map(|event| event.get("requestObject").is_some()).collect();
        let expected = [true, false, false, true, true, true, true, false, true, true].map(|is| is && sends);
        assert_eq!(sent, expected, "{level}: what was sent");
        for event in &events {
            assert_eq!(event.get("responseObject").is_some(), answers, "{level}: {event}");
            assert_eq!(event["stage"], "ResponseComplete");
        }
        if sends {
            assert_eq!(events[3]["requestObject"], json!({"data": {"k": "w"}}));
            assert_eq!(events[4]["requestObject"], json!([{"op": "remove", "path": "/data/k"}]));
            assert_eq!(events[5]["requestObject"]["data"], json!({"other": "z"}));
            assert_eq!(events[6]["requestObject"]["propagationPolicy"], "Background");
        }
        if answers {
            assert_eq!(events[2]["responseObject"]["kind"], "ConfigMapList");
        }
        assert_eq!(events[6]["responseStatus"]["status"], "Success", "a deletion is answered by a Status");
        assert_eq!(events[9]["objectRef"]["subresource"], "status");
    }
}

#[tokio::test]
async fn a_watch_is_written_down_when_it_begins_and_when_it_ends() {
    let server = Audited::with(EVERYTHING).await;
    let watch = server.client.watch(&format!("{CONFIG_MAPS}?watch=1"), &[]).await;
    server.client.get("/version").await.ok();
    drop(watch);
    let events = server.events().await;
    assert_eq!(
        steps(&events),
        [
            "RequestReceived watch null",
            "ResponseStarted watch 200",
            "RequestReceived get null",
            "ResponseComplete get 200",
            "ResponseComplete watch 200"
        ]
    );
    assert!(events.iter().all(|event| event["verb"] == "get" || event.get("responseObject").is_none()));
}

#[tokio::test]
async fn failures_are_written_down_with_their_reason() {
    let server = Audited::with(METADATA).await;
    let client = &server.client;
    let wrong = [("authorization", "Bearer wrong")];
    client.anonymous().send("GET", PODS, &wrong, "").await.refused(401, "Unauthorized");
    client.as_user("eve", &[]).get(PODS).await.refused(403, "Forbidden");
    client.anonymous().get(&format!("{PODS}/a")).await.refused(403, "Forbidden");
    client.get(&format!("{PODS}/none")).await.refused(404, "NotFound");
    client.get("/apis/nowhere/v1/things").await.refused(404, "NotFound");
    client
        .post(PODS, json!({"metadata": {"name": "UPPER"}, "spec": {"containers": []}}))
        .await
        .refused(422, "Invalid");
    client
        .send("POST", PODS, &[("content-type", "application/json")], "{nonsense")
        .await
        .refused(400, "BadRequest");
    client.config_map("twice", json!({})).await;
    let again = json!({"metadata": {"name": "twice"}});
    client.post(CONFIG_MAPS, again).await.refused(409, "AlreadyExists");
    let events = server.events().await;
    let told: Vec<String> = events
        .iter()
        .map(|event| {
            let status = &event["responseStatus"];
            format!("{} {} {}", event["stage"].as_str().unwrap_or_default(), status["code"], status["reason"])
        })
        .collect();
    assert_eq!(
        told,
        [
            "ResponseStarted 401 \"Unauthorized\"",
            "ResponseComplete 403 \"Forbidden\"",
            "ResponseComplete 403 \"Forbidden\"",
            "ResponseComplete 404 \"NotFound\"",
            "ResponseComplete 404 \"NotFound\"",
            "ResponseComplete 422 \"Invalid\"",
            "ResponseComplete 400 \"BadRequest\"",
            "ResponseComplete 201 null",
            "ResponseComplete 409 \"AlreadyExists\"",
        ]
    );
    assert_eq!(events[0]["user"], json!({}), "nobody knows who that was");
    assert_eq!(events[0]["responseStatus"]["message"], "Authentication failed, attempted: bearer");
    assert_eq!(events[1]["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(events[2]["user"]["username"], "system:anonymous");
    assert!(events[4].get("objectRef").is_none(), "a path is not about an object");
}

#[tokio::test]
async fn without_a_rule_for_it_nothing_is_written_down_of_a_request() {
    let server = Audited::with("rules: [{level: None, users: [admin]}, {level: Metadata}]").await;
    server.client.get(PODS).await.ok();
    assert_eq!(server.text().await, "");
}

#[tokio::test]
async fn a_client_that_goes_away_is_written_down_all_the_same() {
    let server = Audited::with(METADATA).await;
    let user = User::new("admin", vec!["system:masters".to_owned()]);
    let peer = Peer { certificate: Some(Arc::new(user)), ..Peer::default() };
    let endless = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = http::Request::post(CONFIG_MAPS).extension(peer).body(endless).expect("a request");
    // As far as it gets: the body never comes, and then the client is gone.
    assert!(server.client.server.handle(request).now_or_never().is_none());
    let events = server.events().await;
    assert_eq!(steps(&events), ["ResponseComplete create 499"]);
}

#[tokio::test]
async fn what_the_client_calls_itself_and_the_request_is_bounded() {
    let server = Audited::with(METADATA).await;
    let agent = "a".repeat(5_000);
    let id = "i".repeat(65);
    let answer =
        server.client.send("GET", "/version", &[("user-agent", &agent), ("audit-id", &id)], "").await;
    assert_ne!(answer.header("audit-id"), id);
    let events = server.events().await;
    assert_eq!(events[0]["auditID"], answer.header("audit-id"));
    let agent = events[0]["userAgent"].as_str().unwrap_or_default();
    assert!(agent.starts_with(&"a".repeat(1_024)) && agent.len() < 1_100, "{}", agent.len());
}

#[tokio::test]
async fn managed_fields_are_left_out_where_the_policy_says_so() {
    let server = Audited::with("omitManagedFields: true\nrules: [{level: RequestResponse}]").await;
    server.client.config_map("a", json!({"k": "v"})).await;
    server.client.get(CONFIG_MAPS).await.ok();
    let text = server.text().await;
    assert!(text.contains("responseObject") && !text.contains("managedFields"), "{text}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_left_out_and_the_event_says_so() {
    let server =
        Audited::with("omitStages: [RequestReceived]\nrules: [{level: RequestResponse, verbs: [list]}]")
            .await;
    for number in 0..4 {
        server.client.config_map(&format!("large-{number}"), json!({"k": "v".repeat(900_000)})).await;
    }
    server.client.get(CONFIG_MAPS).await.ok();
    let events = server.events().await;
    assert_eq!(steps(&events), ["ResponseComplete list 200"]);
    assert!(events[0].get("responseObject").is_none());
    let why = &events[0]["annotations"]["windlass.dev/response-object-left-out"];
    assert_eq!(*why, "the answer has more than 3145728 bytes");
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[tokio::test]
async fn what_secrets_hold_is_not_written_down_unless_a_rule_names_them() {
    let named = "rules: [{level: RequestResponse, resources: [{resources: [secrets]}]}]";
    for (rules, is_told) in [(EVERYTHING, false), (named, true)] {
        let server = Audited::with(rules).await;
        let client = &server.client;
        let canary = "Y2FuYXJ5LWluLXRoZS1taW5l";
        let plain = "canary-in-the-mine";
        let one = format!("{SECRETS}/s");
        client.post(SECRETS, json!({"metadata": {"name": "s"}, "data": {"k": canary}})).await.created();
        client.get(&one).await.ok();
        client.get(SECRETS).await.ok();
        client.patch("merge", &one, json!({"stringData": {"k": plain}})).await.ok();
        client.patch("json", &one, json!([{"op": "add", "path": "/data/l", "value": canary}])).await.ok();
        let mut object = client.get(&one).await.ok();
        object["data"]["m"] = canary.into();
        client.put(&one, object).await.ok();
        // Refusals may quote what they refuse.
        client.post(SECRETS, json!({"metadata": {"name": "T"}, "data": {"k": [plain]}})).await;
        client.post(SECRETS, json!({"metadata": {"name": "s"}, "data": {plain: plain}, "type": 1})).await;
        client
            .send("POST", SECRETS, &[("content-type", "application/json")], format!("{{\"{plain}\"}}"))
            .await;
        client.patch("merge", &one, json!({"data": {"k": plain}})).await;
        client.delete(&one, Value::Null).await.ok();
        let review = json!({"spec": {"token": plain}});
        client.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
        let token = json!({"spec": {"audiences": [plain]}});
        client.post("/api/v1/namespaces/default/serviceaccounts/default/token", token).await;
        let text = server.text().await;
        let holds = text.contains(canary) || text.contains(plain);
        assert_eq!(holds, is_told, "{rules}: {text}");
    }
}

#[tokio::test]
async fn in_strict_mode_nothing_is_carried_out_that_cannot_be_written_down() {
    // Writing to it always fails, as on a disk that is full.
    let files =
        Files { path: "/dev/full".into(), max_bytes: u64::MAX, max_backups: 0, max_age: Duration::ZERO };
    let policy =
        || Policy::parse(format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{EVERYTHING}").as_bytes());
    for (mode, code) in [(Mode::Blocking, 201), (Mode::Batch, 201), (Mode::Strict, 500)] {
        let destination = Destination::Files(files.clone());
        let audit = Audit::open(policy().expect("a policy"), destination, mode).expect("a log");
        let client = Client::with(Config { audit: Some(Arc::clone(&audit)), ..Config::default() }).await;
        let answer = client.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
        assert_eq!(answer.code, code, "{mode:?}: {}", answer.text());
        let beside = client.beside().await;
        let there = beside.get(&format!("{CONFIG_MAPS}/a")).await.code;
        assert_eq!(there, if code == 201 { 200 } else { 404 }, "{mode:?}");
        audit.close().await;
        if mode == Mode::Strict {
            assert_eq!(answer.status()["message"], "Internal error occurred: failed to store audit event");
            continue;
        }
        let metrics = client.get("/metrics").await.text();
        let lost = metrics.lines().find_map(|line| line.strip_prefix("apiserver_audit_error_total "));
        assert!(lost.is_some_and(|lost| lost != "0"), "{mode:?}: {lost:?}");
    }
}

#[tokio::test]
async fn what_is_written_down_is_counted() {
    let server = Audited::with("rules: [{level: None, verbs: [list]}, {level: Metadata}]").await;
    server.client.get(&format!("{PODS}/none")).await;
    server.client.get(PODS).await.ok();
    let metrics = server.client.get("/metrics").await.text();
    for line in [
        "apiserver_audit_event_total 3",
        "apiserver_audit_level_total{level=\"None\"} 1",
        "apiserver_audit_level_total{level=\"Metadata\"} 2",
        "apiserver_audit_error_total 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn policies_leave_their_notes() {
    let server = Audited::with(METADATA).await;
    let client = &server.client;
    let base = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "metadata": {"name": "small"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "!has(object.data)", "message": "no data"}],
            "auditAnnotations": [{"key": "seen", "valueExpression": "'name is ' + object.metadata.name"}],
        },
    });
    client.post(&format!("{base}/validatingadmissionpolicies"), policy).await.created();
    let binding = json!({"metadata": {"name": "everywhere"}, "spec": {"policyName": "small", "validationActions": ["Audit", "Warn"]}});
    client.post(&format!("{base}/validatingadmissionpolicybindings"), binding).await.created();
    client.config_map("noted", json!({"k": "v"})).await;
    let events = server.events().await;
    let event = events.iter().find(|event| event["objectRef"]["name"] == "noted").expect("an event");
    assert_eq!(event["annotations"]["small/seen"], "name is noted");
    let failure = event["annotations"]["validation.policy.admission.k8s.io/validation_failure"].as_str();
    let failure: Value = serde_json::from_str(failure.expect("a note")).expect("JSON");
    assert_eq!(
        failure,
        json!([{"message": "no data", "policy": "small", "binding": "everywhere", "expressionIndex": 0,
                "validationActions": ["Warn", "Audit"]}])
    );
}

#[tokio::test]
async fn the_standards_of_pods_leave_their_notes() {
    let server = Audited::with(METADATA).await;
    let client = &server.client;
    let labels = json!({"pod-security.kubernetes.io/audit": "restricted", "pod-security.kubernetes.io/enforce": "baseline"});
    client.patch("merge", "/api/v1/namespaces/default", json!({"metadata": {"labels": labels}})).await.ok();
    client.post(PODS, pod("noted")).await.created();
    let events = server.events().await;
    let notes =
        &events.iter().find(|event| event["objectRef"]["name"] == "noted").expect("an event")["annotations"];
    assert_eq!(notes["pod-security.kubernetes.io/enforce-policy"], "baseline:latest");
    let found = notes["pod-security.kubernetes.io/audit-violations"].as_str().unwrap_or_default();
    assert!(found.starts_with("would violate PodSecurity \"restricted:latest\": "), "{notes}");
}

#[tokio::test]
async fn webhooks_leave_their_notes() {
    let server = Audited::with(METADATA).await;
    let client = &server.client;
    let reviewer = Reviewer::start(|request| {
        let allowed = request["name"] != "refused";
        json!({"allowed": allowed, "auditAnnotations": {"seen": "it was here", "odd": 1}})
    })
    .await;
    client.configure(VALIDATING, "v", vec![reviewer.webhook("notes.example.com", json!({}))]).await;
    client.config_map("let-in", json!({})).await;
    client.post(CONFIG_MAPS, json!({"metadata": {"name": "refused"}})).await.refused(400, "");
    let events = server.events().await;
    for name in ["let-in", "refused"] {
        let event = events.iter().find(|event| event["objectRef"]["name"] == name).expect("an event");
        assert_eq!(event["annotations"]["notes.example.com/seen"], "it was here", "{event}");
    }
}

#[tokio::test]
async fn a_secret_in_the_wrong_place_is_not_written_down() {
    let server = Audited::with(EVERYTHING).await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": "Q0FOQVJZ"}});
    server.client.post(CONFIG_MAPS, secret).await.refused(400, "BadRequest");
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "CANARY"}});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    server.client.post(path, review).await.refused(400, "BadRequest");
    let text = server.text().await;
    assert!(
        text.contains("selfsubjectreviews") && !text.contains("Q0FOQVJZ") && !text.contains("CANARY"),
        "{text}"
    );
}

#[tokio::test]
async fn what_a_policy_quotes_of_a_secret_is_not_written_down() {
    let server = Audited::with(METADATA).await;
    let client = &server.client;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{
            "expression": "false", "messageExpression": "'bad ' + string(object.data['p'])", "reason": "Forbidden",
        }],
    }});
    client.post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", policy).await.created();
    let binding =
        json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    client
        .post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", binding)
        .await
        .created();
    let secret = json!({"metadata": {"name": "s"}, "data": {"p": "Q0FOQVJZ"}});
    let answer = client.post("/api/v1/namespaces/default/secrets", secret).await;
    assert!(answer.code == 403 && answer.text().contains("Q0FOQVJZ"), "{}", answer.text());
    let text = server.text().await;
    assert!(text.contains("\"code\":403") && !text.contains("Q0FOQVJZ"), "{text}");
}

#[tokio::test]
async fn why_someone_may_is_written_down() {
    let server = Audited::with(METADATA).await;
    server.client.as_user("ann", &[]).get("/api").await.ok();
    let events = server.events().await;
    let why = events[0]["annotations"]["authorization.k8s.io/reason"].as_str().unwrap_or_default();
    assert!(why.starts_with("RBAC: allowed by ClusterRoleBinding \"system:discovery\""), "{why}");
}

#[tokio::test]
async fn who_asks_and_for_whom_are_both_written_down() {
    let server = Audited::with(METADATA).await;
    let headers = [("impersonate-user", "ann"), ("impersonate-group", "devs")];
    server.client.send("GET", PODS, &headers, "").await.refused(403, "Forbidden");
    let events = server.events().await;
    assert_eq!(events[0]["user"]["username"], "admin");
    assert_eq!(events[0]["impersonatedUser"]["username"], "ann");
    assert_eq!(events[0]["annotations"]["authorization.k8s.io/decision"], "forbid");
}
