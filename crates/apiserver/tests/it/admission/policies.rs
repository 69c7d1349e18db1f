//! Policies that refuse.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::client::{CONFIG_MAPS, PODS, deployment, pod};

const POLICIES: &str = "validatingadmissionpolicies";

fn validations(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}

#[tokio::test]
async fn a_policy_refuses_with_its_message() {
    let client = Client::new().await;
    let validation = json!({"expression": "object.data.a != '1'", "message": "a must not be 1"});
    client.policy("no-ones", json!({"validations": [validation]})).await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
    let why = "ValidatingAdmissionPolicy 'no-ones' with binding 'no-ones' denied request: a must not be 1";
    assert_eq!(message(&status), format!("configmaps \"x\" is forbidden: {why}"));
    assert_eq!(status["details"]["causes"], json!([{"message": why}]));
    client.config_map("y", json!({"a": "2"})).await;
    let changed = client.patch("merge", &format!("{CONFIG_MAPS}/y"), json!({"data": {"a": "1"}})).await;
    changed.refused(422, "Invalid");
}

#[tokio::test]
async fn without_a_message_the_expression_is_told() {
    let client = Client::new().await;
    client.policy("p", validations("  object.data.a != '1' ")).await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
    assert!(
        message(&status).ends_with("denied request: failed expression: object.data.a != '1'"),
        "{status}"
    );
}

#[tokio::test]
async fn a_message_can_be_worked_out() {
    let client = Client::new().await;
    for (expression, told) in [
        ("'a is ' + object.data.a", "a is 1"),
        // What fails, is empty or has several lines is not used.
        ("'a is ' + object.data.nothing", "fallback"),
        ("'   '", "fallback"),
        ("'one\\ntwo'", "fallback"),
    ] {
        let validation =
            json!({"expression": "false", "message": "fallback", "messageExpression": expression});
        client.policy("p", json!({"validations": [validation]})).await;
        let status = client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
        assert!(message(&status).ends_with(&format!("denied request: {told}")), "{expression}: {status}");
        for plural in [POLICIES, "validatingadmissionpolicybindings"] {
            client.delete(&format!("{}/p", path(plural)), Value::Null).await.ok();
        }
    }
}

#[tokio::test]
async fn the_reason_of_a_validation_is_that_of_the_refusal() {
    let client = Client::new().await;
    for (reason, code) in
        [("Unauthorized", 401), ("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)]
    {
        let name = reason.to_lowercase();
        let expression = format!("object.metadata.name != '{name}'");
        client.policy(&name, json!({"validations": [{"expression": expression, "reason": reason}]})).await;
        client.post(CONFIG_MAPS, config(&name)).await.refused(code, reason);
    }
}

#[tokio::test]
async fn a_binding_can_warn_instead() {
    let client = Client::new().await;
    let spec = json!({"validations": [{"expression": "false", "message": "first"}, {"expression": "false", "message": "second"}]});
    client.bound("p", spec, json!({"validationActions": ["Warn", "Audit"]})).await;
    let answer = client.post(CONFIG_MAPS, config("x")).await;
    answer.created();
    let warning =
        |what: &str| format!("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': {what}");
    assert_eq!(answer.warnings(), [warning("first"), warning("second")]);
}

#[tokio::test]
async fn a_policy_needs_a_binding_and_a_binding_its_policy() {
    let client = Client::new().await;
    client.policy("p", validations("false")).await;
    client.delete(&format!("{}/p", path("validatingadmissionpolicybindings")), Value::Null).await.ok();
    client.post(CONFIG_MAPS, config("a")).await.created();
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    client.post(&path("validatingadmissionpolicybindings"), binding).await.created();
    client.post(CONFIG_MAPS, config("b")).await.refused(422, "Invalid");
    client.delete(&format!("{}/p", path(POLICIES)), Value::Null).await.ok();
    client.post(CONFIG_MAPS, config("b")).await.created();
}

#[tokio::test]
async fn constraints_and_bindings_say_what_a_policy_is_about() {
    let client = Client::new().await;
    client
        .post("/api/v1/namespaces", json!({"metadata": {"name": "prod", "labels": {"env": "prod"}}}))
        .await
        .created();
    let mut named = rule("", &["configmaps"], &["*"]);
    named["resourceNames"] = json!(["special"]);
    let spec = json!({
        "matchConstraints": {
            "resourceRules": [rule("", &["configmaps", "secrets"], &["CREATE"])],
            "excludeResourceRules": [named],
        },
        "validations": [{"expression": "false"}],
    });
    let binding = json!({"matchResources": {"namespaceSelector": {"matchLabels": {"env": "prod"}}}});
    client.bound("p", spec, binding).await;
    let prod = "/api/v1/namespaces/prod/configmaps";
    client.post(CONFIG_MAPS, config("x")).await.created();
    client.post(prod, config("special")).await.created();
    client.post(prod, config("x")).await.refused(422, "Invalid");
    client
        .post("/api/v1/namespaces/prod/secrets", json!({"metadata": {"name": "s"}}))
        .await
        .refused(422, "Invalid");
    client
        .post(
            "/api/v1/namespaces/prod/services",
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}),
        )
        .await
        .created();
}

#[tokio::test]
async fn variables_are_composed_and_worked_out_only_when_they_are_read() {
    let client = Client::new().await;
    let variables = json!([
        {"name": "n", "expression": "int(object.data.a)"},
        {"name": "twice", "expression": "variables.n * 2"},
        {"name": "broken", "expression": "object.data.nothing.at.all"},
    ]);
    let told = "'twice is ' + string(variables.twice)";
    let spec = json!({
        "variables": variables,
        "validations": [{"expression": "variables.twice < 10 || variables.broken == 1", "messageExpression": told}],
    });
    client.policy("p", spec).await;
    client.config_map("x", json!({"a": "4"})).await;
    let status = client
        .post(CONFIG_MAPS, json!({"metadata": {"name": "y"}, "data": {"a": "5"}}))
        .await
        .refused(422, "Invalid");
    assert!(message(&status).contains("no such key: nothing"), "{status}");
}

#[tokio::test]
async fn conditions_say_when_a_policy_is_in_force() {
    let client = Client::new().await;
    let mut spec = validations("false");
    spec["matchConditions"] = json!([{"name": "only", "expression": "object.metadata.name.startsWith('x')"}]);
    client.policy("p", spec).await;
    client.post(CONFIG_MAPS, config("a")).await.created();
    client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
}

#[tokio::test]
async fn the_failure_policy_decides_about_expressions_that_fail() {
    let client = Client::new().await;
    let mut spec = validations("object.data.nothing == '1'");
    spec["failurePolicy"] = "Ignore".into();
    client.policy("ignored", spec.clone()).await;
    client.post(CONFIG_MAPS, config("a")).await.created();
    spec["failurePolicy"] = "Fail".into();
    client.policy("needed", spec).await;
    let status = client.post(CONFIG_MAPS, config("b")).await.refused(422, "Invalid");
    let why = "'needed' with binding 'needed' denied request: expression 'object.data.nothing == '1'' resulted in error: no such key: nothing";
    assert!(message(&status).ends_with(why), "{status}");
}

#[tokio::test]
async fn expressions_see_the_old_object_and_what_is_being_done() {
    let client = Client::new().await;
    let all = json!({"resourceRules": [rule("", &["configmaps"], &["*"])]});
    let expression = "
        request.operation == 'CREATE' ? oldObject == null && object.data.a == '1' :
        request.operation == 'UPDATE' ? int(object.data.a) > int(oldObject.data.a) :
        object == null && oldObject.data.a == '3' && request.options.kind == 'DeleteOptions'";
    let spec = json!({"matchConstraints": all, "validations": [{"expression": expression, "message": "no"}]});
    client.policy("p", spec).await;
    let one = format!("{CONFIG_MAPS}/x");
    client.post(CONFIG_MAPS, config("x")).await.created();
    client.delete(&one, Value::Null).await.refused(422, "Invalid");
    client.patch("merge", &one, json!({"data": {"a": "3"}})).await.ok();
    client.patch("merge", &one, json!({"data": {"a": "2"}})).await.refused(422, "Invalid");
    client.delete(&one, Value::Null).await.ok();
}

#[tokio::test]
async fn expressions_see_who_asks_for_what_and_in_which_namespace() {
    let client = Client::new().await;
    let holds = [
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps' && request.kind.version == 'v1'",
        "request.name == 'x' && request.namespace == 'default' && !request.dryRun",
        "request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups",
        "namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'",
        "authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()",
        "authorizer.requestResource.check('anything').allowed()",
        "!authorizer.serviceAccount('default', 'default').path('/x').check('get').allowed()",
        "!has(request.subResource)",
    ];
    let validations: Vec<Value> = holds.iter().map(|expression| json!({"expression": expression})).collect();
    client.policy("p", json!({"validations": validations})).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
}

#[tokio::test]
async fn subresources_are_what_rules_say() {
    let client = Client::new().await;
    let rules = json!({"resourceRules": [rule("", &["pods/status"], &["UPDATE"]), rule("apps", &["deployments/scale"], &["UPDATE"])]});
    let expression =
        "request.subResource == 'scale' ? object.spec.replicas <= 5 : object.status.phase != 'Failed'";
    client.policy("p", json!({"matchConstraints": rules, "validations": [{"expression": expression}]})).await;
    client.post(PODS, pod("p")).await.created();
    let status = format!("{PODS}/p/status");
    client.patch("merge", &status, json!({"status": {"phase": "Running"}})).await.ok();
    client.patch("merge", &status, json!({"status": {"phase": "Failed"}})).await.refused(422, "Invalid");
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    client.post(deployments, deployment("d")).await.created();
    let scale = format!("{deployments}/d/scale");
    client.patch("merge", &scale, json!({"spec": {"replicas": 5}})).await.ok();
    client.patch("merge", &scale, json!({"spec": {"replicas": 6}})).await.refused(422, "Invalid");
}

#[tokio::test]
async fn expressions_are_compiled_when_a_policy_is_written() {
    let client = Client::new().await;
    let constraints = json!({"resourceRules": [rule("", &["configmaps"], &["*"])]});
    for (change, field, words) in [
        (
            json!({"validations": [{"expression": "object."}]}),
            "validations[0].expression",
            "compilation failed: ERROR: <input>:1:8",
        ),
        (
            json!({"validations": [{"expression": "1 + 1"}]}),
            "validations[0].expression",
            "must evaluate to bool",
        ),
        (
            json!({"validations": [{"expression": "params.a == 1"}]}),
            "validations[0].expression",
            "undeclared reference to 'params'",
        ),
        (
            json!({"validations": [{"expression": "variables.a"}]}),
            "validations[0].expression",
            "undefined field 'a'",
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "1"}]}),
            "validations[0].messageExpression",
            "must evaluate to string",
        ),
        (
            json!({"validations": [{"expression": "true"}], "variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]}),
            "variables[0].expression",
            "undefined field 'b'",
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "true"}]}),
            "auditAnnotations[0].valueExpression",
            "must evaluate to string",
        ),
        (
            json!({"validations": [{"expression": "true"}], "matchConditions": [{"name": "c", "expression": "nothing"}]}),
            "matchConditions[0].expression",
            "undeclared reference to 'nothing'",
        ),
    ] {
        let mut spec = json!({"matchConstraints": constraints});
        merge(&mut spec, change);
        let refused = client.post(&path(POLICIES), json!({"metadata": {"name": "p"}, "spec": spec})).await;
        let told = message(&refused.refused(422, "Invalid"));
        assert!(
            told.contains(&format!("spec.{field}: Invalid value")) && told.contains(words),
            "{field}: {told}"
        );
    }
}

#[tokio::test]
async fn what_an_expression_gets_wrong_about_a_kind_is_told_in_the_status() {
    let client = Client::new().await;
    let rules = json!({"resourceRules": [rule("apps", &["deployments"], &["*"])]});
    let mut constraints = rules.clone();
    constraints["resourceRules"][0]["apiVersions"] = json!(["v1"]);
    let spec = json!({
        "matchConstraints": constraints,
        "validations": [
            {"expression": "object.spec.replicas <= 5 && object.metadata.namespace != ''"},
            {"expression": "object.spec.replica <= 5"},
            {"expression": "object.spec.replicas == 'five'"},
        ],
    });
    let made = client.policy("p", spec).await;
    let status = &made["status"];
    assert_eq!(status["observedGeneration"], 1);
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().expect("warnings");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[1].expression");
    let text = warnings[0]["warning"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'"),
        "{text}"
    );
    assert!(
        warnings[1]["warning"].as_str().is_some_and(|text| text.contains("no matching overload")),
        "{warnings:?}"
    );
    let one = format!("{}/p", path(POLICIES));
    let right = json!([{"op": "replace", "path": "/spec/validations", "value": [{"expression": "object.spec.replicas < 9"}]}]);
    let made = client.patch("json", &one, right).await.ok();
    assert_eq!(made["status"], json!({"observedGeneration": 2, "typeChecking": {}}));
}

#[tokio::test]
async fn an_expression_costs_no_more_than_its_budget() {
    let client = Client::new().await;
    let list: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let list = format!("[{}]", list.join(","));
    let expression = format!(
        "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, a + b + c + d + e >= 0)))))"
    );
    let many: Vec<Value> = (0..100).map(|_| json!({"expression": expression})).collect();
    client.policy("dear", json!({"validations": many})).await;
    let begun = Instant::now();
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
    assert!(message(&status).contains("cost limit exceeded"), "{status}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    client.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.created();
}

#[tokio::test]
async fn notes_for_those_who_read_logs_are_worked_out() {
    let client = Client::new().await;
    let notes =
        |expression: &str| json!({"auditAnnotations": [{"key": "size", "valueExpression": expression}]});
    client.policy("good", notes("'size ' + string(size(object.data))")).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
    client.policy("bad", notes("object.data.nothing + '!'")).await;
    let status = client.post(CONFIG_MAPS, config("y")).await.refused(422, "Invalid");
    assert!(message(&status).contains("audit annotation 'size'"), "{status}");
}

#[tokio::test]
async fn a_kind_in_another_version_is_shown_in_the_one_that_the_rule_names() {
    let client = Client::new().await;
    let mut rule = rule("autoscaling", &["horizontalpodautoscalers"], &["*"]);
    rule["apiVersions"] = json!(["v2"]);
    let validation =
        json!({"expression": "object.spec.metrics.all(m, m.resource.target.averageUtilization < 90)"});
    client
        .policy("p", json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}))
        .await;
    let scaler = |name: &str, percent: u64| {
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        json!({
            "metadata": {"name": name},
            "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": percent},
        })
    };
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    client.post(path, scaler("low", 80)).await.created();
    client.post(path, scaler("high", 95)).await.refused(422, "Invalid");
}
