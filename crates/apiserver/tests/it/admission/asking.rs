//! Which webhooks are asked about what, and what they are told.

use serde_json::{Value, json};

use super::*;
use crate::client::{CONFIG_MAPS, PODS, deployment, pod};

#[tokio::test]
async fn a_review_says_who_does_what_to_which_object() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    client.configure(VALIDATING, "v", vec![reviewer.webhook("see.example.com", json!({}))]).await;
    client.post(&format!("{CONFIG_MAPS}?fieldManager=me"), config("x")).await.created();
    let asked = &reviewer.asked()[0];
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    for (field, expected) in [
        ("operation", json!("CREATE")),
        ("name", json!("x")),
        ("namespace", json!("default")),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("dryRun", json!(false)),
        ("oldObject", Value::Null),
        ("options", json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"})),
    ] {
        assert_eq!(asked[field], expected, "{field}");
    }
    assert!(asked.get("subResource").is_none());
    assert_eq!(asked["userInfo"]["username"], "admin");
    assert!(
        asked["userInfo"]["groups"]
            .as_array()
            .is_some_and(|groups| groups.contains(&json!("system:masters")))
    );
    let object = &asked["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"], &object["data"]["a"]),
        (&json!("ConfigMap"), &json!("v1"), &json!("1"))
    );
}

#[tokio::test]
async fn changes_show_both_objects_and_deletions_only_the_old_one() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    client.config_map("x", json!({"a": "1"})).await;
    client.configure(VALIDATING, "v", vec![reviewer.webhook("see.example.com", json!({}))]).await;
    client.patch("merge", &format!("{CONFIG_MAPS}/x"), json!({"data": {"a": "2"}})).await.ok();
    let options = json!({"gracePeriodSeconds": 5, "propagationPolicy": "Background"});
    client.delete(&format!("{CONFIG_MAPS}/x"), options).await.ok();
    let asked = reviewer.asked();
    let data = |object: &Value| object["data"]["a"].clone();
    assert_eq!((data(&asked[0]["object"]), data(&asked[0]["oldObject"])), (json!("2"), json!("1")));
    assert_eq!(asked[0]["options"]["kind"], "UpdateOptions");
    assert_eq!((&asked[1]["object"], data(&asked[1]["oldObject"])), (&Value::Null, json!("2")));
    let options = &asked[1]["options"];
    assert_eq!((&options["kind"], &options["gracePeriodSeconds"]), (&json!("DeleteOptions"), &json!(5)));
    assert_eq!(options["propagationPolicy"], "Background");
}

#[tokio::test]
async fn rules_say_which_requests_a_webhook_is_asked_about() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let rules = [
        ("pods", rule("", &["pods"], &["CREATE"])),
        ("updates", rule("", &["pods"], &["UPDATE"])),
        ("status", rule("", &["pods/status"], &["UPDATE"])),
        ("subs", rule("", &["pods/*"], &["*"])),
        ("star", rule("*", &["*"], &["*"])),
        ("stars", rule("*", &["*/*"], &["*"])),
        ("apps", rule("apps", &["*"], &["*"])),
        (
            "beta",
            json!({"apiGroups": [""], "apiVersions": ["v2"], "resources": ["pods"], "operations": ["*"]}),
        ),
        (
            "cluster",
            json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "Cluster"}),
        ),
        (
            "spaced",
            json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "Namespaced"}),
        ),
    ];
    let hooks =
        rules.map(|(name, rule)| reviewer.webhook(&format!("{name}.example.com"), json!({"rules": [rule]})));
    client.configure(VALIDATING, "v", hooks.into()).await;
    let asked = || {
        let mut names: Vec<String> =
            reviewer.paths().iter().map(|path| path[1..].replace(".example.com", "")).collect();
        names.sort();
        names.join(" ")
    };
    client.post(PODS, pod("p")).await.created();
    assert_eq!(asked(), "pods spaced star stars subs");
    client.patch("merge", &format!("{PODS}/p/status"), json!({"status": {"phase": "Running"}})).await.ok();
    assert_eq!(asked(), "stars status subs");
    client.patch("merge", &format!("{PODS}/p"), json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(asked(), "spaced star stars subs updates");
    client.post("/apis/apps/v1/namespaces/default/deployments", deployment("d")).await.created();
    assert_eq!(asked(), "apps spaced star stars");
    client.namespace("n").await;
    assert_eq!(asked(), "cluster star stars");
}

#[tokio::test]
async fn another_version_of_a_resource_is_shown_in_the_one_that_the_rule_names() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| {
        let path = "/spec/metrics/0/resource/target/averageUtilization";
        match request["kind"]["version"].as_str() {
            Some("v2") => patched(json!([{"op": "replace", "path": path, "value": 42}])),
            _ => json!({"allowed": true}),
        }
    })
    .await;
    let rule = |version: &str| json!({"apiGroups": ["autoscaling"], "apiVersions": [version], "resources": ["horizontalpodautoscalers"], "operations": ["*"]});
    let exact = json!({"rules": [rule("v2")], "matchPolicy": "Exact"});
    let hooks = vec![
        reviewer.webhook("exact.example.com", exact),
        reviewer.webhook("two.example.com", json!({"rules": [rule("v2")]})),
        reviewer.webhook("one.example.com", json!({"rules": [rule("v1")]})),
    ];
    client.configure(MUTATING, "m", hooks).await;
    let scaler = json!({
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "maxReplicas": 3, "targetCPUUtilizationPercentage": 80,
        },
    });
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let made = client.post(path, scaler).await.created();
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 42);
    let asked = reviewer.asked();
    assert_eq!(asked.len(), 2, "the exact one is not asked");
    assert_eq!(
        (&asked[0]["kind"]["version"], &asked[0]["requestKind"]["version"]),
        (&json!("v2"), &json!("v1"))
    );
    assert_eq!(asked[0]["object"]["apiVersion"], "autoscaling/v2");
    assert!(asked[0]["object"]["spec"]["metrics"].is_array());
    assert_eq!(asked[1]["object"]["spec"]["targetCPUUtilizationPercentage"], 42);
}

#[tokio::test]
async fn namespaces_are_selected_by_their_labels_also_when_they_are_written_themselves() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let selected = json!({
        "rules": [rule("", &["configmaps", "namespaces", "nodes"], &["*"])],
        "namespaceSelector": {"matchLabels": {"guarded": "yes"}},
    });
    client.configure(VALIDATING, "v", vec![reviewer.webhook("ns.example.com", selected)]).await;
    let labelled = json!({"metadata": {"name": "guarded", "labels": {"guarded": "yes"}}});
    client.post("/api/v1/namespaces", labelled).await.created();
    client.namespace("free").await;
    for namespace in ["guarded", "free"] {
        client.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), config(namespace)).await.created();
    }
    client.post("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.created();
    assert_eq!(
        reviewer.operations(),
        ["CREATE namespaces guarded", "CREATE configmaps guarded", "CREATE nodes n"]
    );
}

#[tokio::test]
async fn objects_are_selected_by_the_labels_they_have_or_had() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let selected =
        json!({"objectSelector": {"matchExpressions": [{"key": "watched", "operator": "Exists"}]}});
    client.configure(VALIDATING, "v", vec![reviewer.webhook("o.example.com", selected)]).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(reviewer.operations().len(), 0);
    let label = |value: Value| json!({"metadata": {"labels": {"watched": value}}});
    let path = format!("{CONFIG_MAPS}/x");
    client.patch("merge", &path, label(json!("1"))).await.ok();
    client.patch("merge", &path, label(Value::Null)).await.ok();
    assert_eq!(reviewer.operations().len(), 2);
    client.patch("merge", &path, json!({"data": {"b": "2"}})).await.ok();
    assert_eq!(reviewer.operations().len(), 0);
}

#[tokio::test]
async fn conditions_say_which_requests_a_webhook_is_asked_about() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let when = |expressions: &[&str]| {
        let conditions: Vec<Value> = expressions
            .iter()
            .enumerate()
            .map(|(index, expression)| json!({"name": format!("c{index}"), "expression": expression}))
            .collect();
        json!({"matchConditions": conditions})
    };
    let hooks = vec![
        reviewer.webhook(
            "yes.example.com",
            when(&["object.data.a == '1'", "request.userInfo.username == 'admin'"]),
        ),
        reviewer.webhook("no.example.com", when(&["object.data.a == '1'", "request.operation == 'DELETE'"])),
        reviewer.webhook(
            "may.example.com",
            when(&["authorizer.group('').resource('configmaps').check('create').allowed()"]),
        ),
        // One that does not hold decides, whatever becomes of the others.
        reviewer.webhook("mixed.example.com", when(&["object.data.nothing == '1'", "false"])),
    ];
    client.configure(VALIDATING, "v", hooks).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
    let mut paths = reviewer.paths();
    paths.sort();
    assert_eq!(paths, ["/may.example.com", "/yes.example.com"]);
}

#[tokio::test]
async fn a_condition_that_fails_is_a_failure_of_the_webhook() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let broken = |policy: &str| json!({"failurePolicy": policy, "matchConditions": [{"name": "c", "expression": "object.data.nothing == '1'"}]});
    client.configure(MUTATING, "m", vec![reviewer.webhook("ignored.example.com", broken("Ignore"))]).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
    client.configure(VALIDATING, "v", vec![reviewer.webhook("needed.example.com", broken("Fail"))]).await;
    let status = client.post(CONFIG_MAPS, config("y")).await.refused(403, "Forbidden");
    let told = message(&status);
    assert!(told.contains("\"needed.example.com\"") && told.contains("no such key: nothing"), "{told}");
    assert_eq!(reviewer.asked().len(), 0);
}

#[tokio::test]
async fn conditions_are_compiled_when_they_are_written() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    for (expression, words) in [
        ("object.", "compilation failed: ERROR: <input>:1:8"),
        ("objekt.a == 1", "undeclared reference to 'objekt'"),
        ("'text'", "must evaluate to bool"),
        ("request.nothing == 1", "undefined field 'nothing'"),
    ] {
        let webhook = reviewer
            .webhook("c.example.com", json!({"matchConditions": [{"name": "c", "expression": expression}]}));
        let refused =
            client.post(&path(VALIDATING), json!({"metadata": {"name": "v"}, "webhooks": [webhook]})).await;
        let told = message(&refused.refused(422, "Invalid"));
        assert!(
            told.contains("webhooks[0].matchConditions[0].expression: Invalid value") && told.contains(words),
            "{told}"
        );
    }
}

#[tokio::test]
async fn nobody_is_asked_about_the_configuration_of_admission() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|_| json!({"allowed": false})).await;
    let all = json!({"rules": [rule("*", &["*/*"], &["*"])]});
    client.configure(VALIDATING, "v", vec![reviewer.webhook("all.example.com", all.clone())]).await;
    client.configure(MUTATING, "m", vec![reviewer.webhook("all.example.com", all)]).await;
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule("*", &["*/*"], &["*"])]}, "validations": [{"expression": "false"}],
    });
    client.policy("p", spec).await;
    for plural in [VALIDATING, MUTATING] {
        let one = format!("{}/{}", path(plural), &plural[..1]);
        client.patch("merge", &one, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
        client.delete(&one, Value::Null).await.ok();
    }
    client.delete(&format!("{}/p", path("validatingadmissionpolicybindings")), Value::Null).await.ok();
    assert_eq!(reviewer.asked().len(), 0);
    client.post(CONFIG_MAPS, config("x")).await.created();
}

#[tokio::test]
async fn a_configuration_holds_at_once_and_is_gone_at_once() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|_| json!({"allowed": false})).await;
    for _ in 0..3 {
        client.configure(VALIDATING, "v", vec![reviewer.webhook("no.example.com", json!({}))]).await;
        client.post(CONFIG_MAPS, config("x")).await.refused(400, "");
        let other = json!([{"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["secrets"]}]);
        client.patch("json", &format!("{}/v", path(VALIDATING)), other).await.ok();
        client.post(CONFIG_MAPS, config("x")).await.created();
        client.delete(&format!("{}/v", path(VALIDATING)), Value::Null).await.ok();
        client.delete(&format!("{CONFIG_MAPS}/x"), Value::Null).await.ok();
    }
}

#[tokio::test]
async fn a_dry_run_is_told_as_such() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let effects = json!({"sideEffects": "NoneOnDryRun"});
    client.configure(VALIDATING, "v", vec![reviewer.webhook("dry.example.com", effects)]).await;
    client.post(&format!("{CONFIG_MAPS}?dryRun=All"), config("x")).await.created();
    let asked = &reviewer.asked()[0];
    assert_eq!((&asked["dryRun"], &asked["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    client.get(&format!("{CONFIG_MAPS}/x")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_collection_is_asked_about_one_by_one() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| json!({"allowed": request["name"] != "kept"})).await;
    for name in ["a", "b", "kept"] {
        client.post(CONFIG_MAPS, json!({"metadata": {"name": name, "labels": {"of": "us"}}})).await.created();
    }
    client.configure(VALIDATING, "v", vec![reviewer.webhook("del.example.com", json!({}))]).await;
    client.delete(&format!("{CONFIG_MAPS}?labelSelector=of%3Dus"), Value::Null).await.refused(400, "");
    let mut asked = reviewer.operations();
    asked.sort();
    assert_eq!(asked, ["DELETE configmaps a", "DELETE configmaps b", "DELETE configmaps kept"]);
    let left = client.get(&format!("{CONFIG_MAPS}?labelSelector=of%3Dus")).await.ok();
    assert_eq!(crate::client::names(&left), ["kept"]);
}

#[tokio::test]
async fn a_deletion_is_asked_about_once_even_if_it_waits_for_finalizers() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let held = json!({"metadata": {"name": "x", "finalizers": ["example.com/hold"]}});
    client.post(CONFIG_MAPS, held).await.created();
    client.configure(VALIDATING, "v", vec![reviewer.webhook("del.example.com", json!({}))]).await;
    let one = format!("{CONFIG_MAPS}/x");
    client.delete(&one, Value::Null).await.ok();
    client.patch("merge", &one, json!({"metadata": {"finalizers": null}})).await.ok();
    client.get(&one).await.refused(404, "NotFound");
    assert_eq!(reviewer.operations(), ["DELETE configmaps x", "UPDATE configmaps x"]);
}

#[tokio::test]
async fn evictions_bindings_and_connections_are_asked_about_as_what_they_are() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(
        |request| json!({"allowed": request["operation"] != "CONNECT", "status": {"message": "no shell"}}),
    )
    .await;
    for name in ["bound", "evicted"] {
        client.post(PODS, pod(name)).await.created();
    }
    let all = json!({"rules": [rule("*", &["pods", "pods/*"], &["*"])]});
    client.configure(VALIDATING, "v", vec![reviewer.webhook("act.example.com", all)]).await;
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{PODS}/bound/binding"), binding).await.created();
    let asked = reviewer.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0]["operation"], &asked[0]["subResource"]), (&json!("CREATE"), &json!("binding")));
    assert_eq!(
        (&asked[0]["kind"]["kind"], &asked[0]["object"]["target"]["name"]),
        (&json!("Binding"), &json!("n"))
    );
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}});
    client.post(&format!("{PODS}/evicted/eviction"), eviction).await.created();
    let asked = reviewer.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["kind"], json!({"group": "policy", "version": "v1", "kind": "Eviction"}));
    let refused = client.post(&format!("{PODS}/bound/exec?command=sh&stdin=true"), json!({})).await;
    assert!(message(&refused.refused(400, "")).contains("no shell"));
    let asked = reviewer.asked();
    assert_eq!((&asked[0]["operation"], &asked[0]["object"]["command"]), (&json!("CONNECT"), &json!(["sh"])));
}

#[tokio::test]
async fn a_scale_is_asked_about_as_a_scale() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| match request["kind"]["kind"].as_str() {
        Some("Scale") => patched(json!([{"op": "replace", "path": "/spec/replicas", "value": 4}])),
        _ => json!({"allowed": false}),
    })
    .await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    client.post(deployments, deployment("d")).await.created();
    let rules = json!({"rules": [rule("apps", &["deployments", "deployments/*"], &["*"])]});
    client.configure(MUTATING, "m", vec![reviewer.webhook("scale.example.com", rules)]).await;
    let scaled =
        client.patch("merge", &format!("{deployments}/d/scale"), json!({"spec": {"replicas": 9}})).await.ok();
    assert_eq!(scaled["spec"]["replicas"], 4);
    let asked = reviewer.asked();
    assert_eq!((asked.len(), &asked[0]["object"]["spec"]["replicas"]), (1, &json!(9)));
    assert_eq!(asked[0]["oldObject"]["spec"]["replicas"], 1);
}

#[tokio::test]
async fn a_webhook_can_be_a_service_of_the_cluster() {
    let client = Client::new().await;
    let reviewer = Reviewer::start_at(&["hook.default.svc"], |_, _| json!({"allowed": false})).await;
    let address = reviewer.hooks.address;
    let service =
        json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443, "targetPort": 9443}]}});
    client.post("/api/v1/namespaces/default/services", service).await.created();
    // Endpoints cannot be on the loopback address, so the slice is written past the API.
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "hook"}},
        "endpoints": [{"addresses": [address.ip().to_string()]}], "ports": [{"name": "", "port": address.port()}],
    });
    let value = windlass_machinery::stored::encode(slice.as_object().expect("an object"));
    let txn = windlass_store::Txn::new().put(
        "endpointslices/default/hook-1",
        value,
        windlass_store::Expect::Absent,
    );
    windlass_store::Store::commit(&*client.store, txn).await.expect("a commit");
    let at = json!({"clientConfig": {
        "service": {"namespace": "default", "name": "hook", "path": "/here"}, "caBundle": reviewer.hooks.bundle(),
    }});
    client.configure(VALIDATING, "v", vec![reviewer.webhook("svc.example.com", at)]).await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(400, "");
    assert!(message(&status).contains("\"svc.example.com\" denied the request"), "{status}");
    assert_eq!(reviewer.paths(), ["/here"]);
}

#[tokio::test]
async fn an_event_is_shown_in_the_group_that_the_rule_names() {
    let client = Client::new().await;
    let reviewer =
        Reviewer::start(|_| patched(json!([{"op": "add", "path": "/note", "value": "noted"}]))).await;
    let rules = json!({"rules": [rule("events.k8s.io", &["events"], &["CREATE"])]});
    client.configure(MUTATING, "m", vec![reviewer.webhook("ev.example.com", rules)]).await;
    let event = json!({
        "metadata": {"name": "e"}, "message": "said", "reason": "Because", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    let made = client.post("/api/v1/namespaces/default/events", event).await.created();
    assert_eq!((&made["message"], &made["apiVersion"]), (&json!("noted"), &json!("v1")));
    let asked = &reviewer.asked()[0];
    assert_eq!(
        (&asked["object"]["note"], &asked["object"]["apiVersion"]),
        (&json!("said"), &json!("events.k8s.io/v1"))
    );
    assert_eq!(
        (&asked["resource"]["group"], &asked["requestResource"]["group"]),
        (&json!("events.k8s.io"), &json!(""))
    );
}

#[tokio::test]
async fn a_webhook_with_side_effects_is_not_asked_about_what_will_not_happen() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    // Such a webhook cannot be configured any more, but old ones are still around.
    let webhook = reviewer.webhook("effects.example.com", json!({"sideEffects": "Some"}));
    let old = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "old"}, "webhooks": [webhook],
    });
    let value = windlass_machinery::stored::encode(old.as_object().expect("an object"));
    let txn =
        windlass_store::Txn::new().put(format!("{VALIDATING}/old"), value, windlass_store::Expect::Absent);
    windlass_store::Store::commit(&*client.store, txn).await.expect("a commit");
    client.post(CONFIG_MAPS, config("x")).await.created();
    let status =
        client.post(&format!("{CONFIG_MAPS}?dryRun=All"), config("y")).await.refused(400, "BadRequest");
    assert_eq!(message(&status), "admission webhook \"effects.example.com\" does not support dry run");
    assert_eq!(reviewer.asked().len(), 1);
}

#[tokio::test]
async fn server_side_apply_is_asked_about_as_what_it_does() {
    let client = Client::new().await;
    let reviewer =
        Reviewer::start(|_| patched(json!([{"op": "add", "path": "/data/b", "value": "2"}]))).await;
    client.configure(MUTATING, "m", vec![reviewer.webhook("ssa.example.com", json!({}))]).await;
    let apply = |a: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": a}})
            .to_string()
    };
    let path = format!("{CONFIG_MAPS}/x?fieldManager=me");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let made = client.send("PATCH", &path, &headers, apply("1")).await.created();
    assert_eq!(made["data"], json!({"a": "1", "b": "2"}));
    let made = client.send("PATCH", &path, &headers, apply("3")).await.ok();
    assert_eq!(made["data"], json!({"a": "3", "b": "2"}));
    assert_eq!(reviewer.operations(), ["CREATE configmaps x", "UPDATE configmaps x"]);
}
