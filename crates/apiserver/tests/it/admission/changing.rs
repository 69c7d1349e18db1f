//! Policies that change.

use serde_json::{Value, json};

use super::*;
use crate::client::{CONFIG_MAPS, PODS, pod};

fn applied(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
}

fn patching(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]})
}

fn about_pods(mut spec: Value) -> Value {
    spec["matchConstraints"] = json!({"resourceRules": [rule("", &["pods"], &["CREATE"])]});
    spec
}

#[tokio::test]
async fn an_applied_configuration_is_merged_into_the_object() {
    let client = Client::new().await;
    client
        .policy(
            "p",
            applied("Object{metadata: Object.metadata{labels: {'env': 'test', 'of': object.metadata.name}}}"),
        )
        .await;
    let sent = json!({"metadata": {"name": "x", "labels": {"own": "1", "env": "mine"}}, "data": {"a": "1"}});
    let made = client.post(CONFIG_MAPS, sent).await.created();
    assert_eq!(made["metadata"]["labels"], json!({"own": "1", "env": "test", "of": "x"}));
    assert_eq!(made["data"], json!({"a": "1"}));
}

#[tokio::test]
async fn entries_of_a_keyed_list_are_added_or_merged() {
    let client = Client::new().await;
    let expression = "Object{spec: Object.spec{containers: [
        Object.spec.containers{name: 'c', workingDir: '/w'},
        Object.spec.containers{name: 'side', image: 'i2', env: [Object.spec.containers.env{name: 'A', value: 'b'}]}
    ]}}";
    client.policy("p", about_pods(applied(expression))).await;
    let made = client.post(PODS, pod("p")).await.created();
    let containers = &made["spec"]["containers"];
    assert_eq!((&containers[0]["image"], &containers[0]["workingDir"]), (&json!("i"), &json!("/w")));
    assert_eq!((&containers[1]["image"], &containers[1]["env"][0]["value"]), (&json!("i2"), &json!("b")));
    assert_eq!(containers[1]["imagePullPolicy"], "Always");
}

#[tokio::test]
async fn a_field_that_the_kind_does_not_have_is_a_failure() {
    for (expression, field) in [
        ("Object{nope: Object.nope{a: 1}}", ".nope"),
        ("Object{metadata: Object.metadata{nope: 'x'}}", ".metadata.nope"),
    ] {
        let client = Client::new().await;
        client.policy("p", applied(expression)).await;
        let sent = json!({"metadata": {"name": "x"}});
        let status = client.post(CONFIG_MAPS, sent).await.refused(422, "Invalid");
        let told = message(&status);
        assert!(told.contains(&format!("{field}: field not declared in schema")), "{told}");
    }
}

#[tokio::test]
async fn what_has_one_owner_cannot_be_applied_to() {
    let client = Client::new().await;
    let expression =
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['a']}]}}";
    client.policy("p", about_pods(applied(expression))).await;
    let status = client.post(PODS, pod("p")).await.refused(422, "Invalid");
    let told = message(&status);
    assert!(
        told.contains(
            "MutatingAdmissionPolicy 'p' with binding 'p' denied request: error applying mutation: "
        ),
        "{told}"
    );
    assert!(told.contains("may not mutate atomic arrays, maps or structs: .spec.containers"), "{told}");
}

#[tokio::test]
async fn a_json_patch_is_made_of_operations() {
    let client = Client::new().await;
    let expression = "[
        JSONPatch{op: 'test', path: '/data/a', value: '1'},
        JSONPatch{op: 'add', path: '/metadata/annotations', value: {}},
        JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('example.com/b'), value: object.data.a + '!'},
        JSONPatch{op: 'remove', path: '/data/a'}
    ]";
    client.policy("p", patching(expression)).await;
    let made = client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(made["metadata"]["annotations"], json!({"example.com/b": "1!"}));
    assert!(made.get("data").is_none_or(|data| data == &json!({})), "{made}");
    let refused = client.post(CONFIG_MAPS, json!({"metadata": {"name": "y"}, "data": {"a": "2"}})).await;
    assert!(message(&refused.refused(422, "Invalid")).contains("the patch cannot be applied"));
}

#[tokio::test]
async fn mutations_build_on_each_other_and_all_count_or_none() {
    let client = Client::new().await;
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let first = patch("[JSONPatch{op: 'add', path: '/data/b', value: '2'}]");
    let second = patch("[JSONPatch{op: 'add', path: '/data/c', value: object.data.b + '3'}]");
    let broken = patch("[JSONPatch{op: 'add', path: '/data/d', value: object.data.nothing}]");
    client.policy("a", json!({"mutations": [first, second]})).await;
    let dropped = json!({"failurePolicy": "Ignore", "mutations": [patch("[JSONPatch{op: 'remove', path: '/data/a'}]"), broken]});
    client.policy("b", dropped).await;
    let made = client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(made["data"], json!({"a": "1", "b": "2", "c": "23"}));
}

#[tokio::test]
async fn a_mutation_that_fails_refuses_the_request() {
    let client = Client::new().await;
    client
        .policy("p", applied("Object{metadata: Object.metadata{labels: {'a': object.data.nothing}}}"))
        .await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
    assert!(message(&status).contains("resulted in error: no such key: nothing"), "{status}");
}

#[tokio::test]
async fn conditions_say_what_is_left_alone() {
    let client = Client::new().await;
    let mut spec = applied("Object{metadata: Object.metadata{labels: {'a': 'b'}}}");
    spec["matchConditions"] = json!([{"name": "unlabelled", "expression": "!has(object.metadata.labels)"}]);
    client.policy("p", spec).await;
    let labelled = json!({"metadata": {"name": "x", "labels": {"c": "d"}}});
    assert_eq!(client.post(CONFIG_MAPS, labelled).await.created()["metadata"]["labels"], json!({"c": "d"}));
    let made = client.post(CONFIG_MAPS, config("y")).await.created();
    assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn policies_run_by_name_before_webhooks_and_their_outcome_is_validated() {
    let client = Client::new().await;
    let trail = |letter: &str| {
        patching(&format!(
            "[JSONPatch{{op: 'add', path: '/data/trail', value: (has(object.data.trail) ? object.data.trail : '') + '{letter}'}}]"
        ))
    };
    client.policy("second", trail("2")).await;
    client.policy("first", trail("1")).await;
    let reviewer = Reviewer::agreeable().await;
    client.configure(MUTATING, "m", vec![reviewer.webhook("see.example.com", json!({}))]).await;
    client
        .policy(
            "check",
            json!({"validations": [{"expression": "object.data.trail != '12'", "message": "seen"}]}),
        )
        .await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
    assert!(message(&status).ends_with("seen"), "{status}");
    assert_eq!(reviewer.asked()[0]["object"]["data"]["trail"], "12");
}

#[tokio::test]
async fn a_policy_runs_again_if_it_wants_to_when_a_webhook_changes_the_object_after_it() {
    let client = Client::new().await;
    let mark = |name: &str| {
        format!(
            "[JSONPatch{{op: 'add', path: '/data/{name}', value: has(object.data.late) ? 'after' : 'before'}}]"
        )
    };
    let mut eager = patching(&mark("eager"));
    eager["reinvocationPolicy"] = "IfNeeded".into();
    client.policy("eager", eager).await;
    client.policy("once", patching(&mark("once"))).await;
    let reviewer =
        Reviewer::start(|_| patched(json!([{"op": "add", "path": "/data/late", "value": "yes"}]))).await;
    client.configure(MUTATING, "m", vec![reviewer.webhook("late.example.com", json!({}))]).await;
    let made = client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(made["data"], json!({"a": "1", "eager": "after", "once": "before", "late": "yes"}));
}

#[tokio::test]
async fn a_policy_that_cannot_be_is_refused() {
    let client = Client::new().await;
    let plural = path("mutatingadmissionpolicies");
    for (change, words) in [
        (
            applied("'text'"),
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"'text'\": must evaluate to Object",
        ),
        (
            patching("Object{}"),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"Object{}\": must evaluate to list(JSONPatch)",
        ),
        (patching("[JSONPatch{operation: 'add'}]"), "undefined field 'operation'"),
        (
            json!({
                "matchConstraints": {"resourceRules": [rule("", &["pods"], &["DELETE"])]},
                "mutations": applied("Object{}")["mutations"],
            }),
            "spec.matchConstraints.resourceRules[0].operations: Unsupported value: \"DELETE\"",
        ),
    ] {
        let mut spec =
            json!({"matchConstraints": {"resourceRules": [rule("", &["configmaps"], &["CREATE"])]}});
        merge(&mut spec, change);
        let refused = client.post(&plural, json!({"metadata": {"name": "p"}, "spec": spec})).await;
        let told = message(&refused.refused(422, "Invalid"));
        assert!(told.contains(words), "{told}");
    }
}
