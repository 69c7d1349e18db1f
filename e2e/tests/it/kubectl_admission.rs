//! Policies and webhooks, as `kubectl` meets them.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_e2e::Server;

use crate::{
    hooks::{Hooks, Reply},
    objects::{WEB, config, contains, create, field},
};

const POLICY: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-replicas}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}
  variables:
  - {name: wanted, expression: object.spec.replicas}
  validations:
  - expression: variables.wanted <= 5
    messageExpression: \"'at most 5 replicas, not ' + string(variables.wanted)\"
  - expression: object.spec.nothing == 1 || true
    message: never
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-replicas-here}
spec: {policyName: few-replicas, validationActions: [Deny]}
";

#[test]
fn a_policy_refuses_with_its_message() {
    let server = Server::start();
    create(&server, POLICY);
    create(&server, WEB);
    let refused = server.kubectl("scale deployment web --replicas=9").fails();
    let words = "ValidatingAdmissionPolicy 'few-replicas' with binding 'few-replicas-here' denied request: at most 5 replicas, not 9";
    contains(&refused, &[words]);
    let refused = server.kubectl("apply -f -").yaml(&WEB.replace("replicas: 2", "replicas: 7")).fails();
    contains(&refused, &["at most 5 replicas, not 7"]);
    server.kubectl("scale deployment web --replicas=5").ok();
    assert_eq!(field(&server, "deployment web", ".spec.replicas"), "5");
}

#[test]
fn what_a_policy_gets_wrong_about_a_kind_can_be_read_in_its_status() {
    let server = Server::start();
    create(&server, POLICY);
    let path = ".status.typeChecking.expressionWarnings[0].fieldRef";
    assert_eq!(
        field(&server, "validatingadmissionpolicy few-replicas", path),
        "spec.validations[1].expression"
    );
}

#[test]
fn a_policy_that_does_not_compile_is_refused_where_it_is_wrong() {
    let server = Server::start();
    let wrong = POLICY.replace("variables.wanted <= 5", "variables.wanted <= five");
    let refused = server.kubectl("create -f -").yaml(&wrong).fails();
    contains(&refused, &["spec.validations[0].expression: Invalid value", "undeclared reference to 'five'"]);
}

#[test]
fn a_policy_sets_a_label() {
    let server = Server::start();
    create(
        &server,
        "
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  reinvocationPolicy: IfNeeded
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: \"Object{metadata: Object.metadata{labels: {'made-by': request.userInfo.username.replace(':', '-')}}}\"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label}
spec: {policyName: label}
",
    );
    create(&server, &config("x"));
    assert_ne!(field(&server, "cm x", ".metadata.labels.made-by"), "");
}

#[test]
fn a_webhook_by_url_refuses() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    let work = Arc::new(|_: &str, body: &[u8]| {
        let review: Value = serde_json::from_slice(body).expect("a review is JSON");
        let response = json!({
            "uid": review["request"]["uid"], "allowed": review["request"]["name"] != "bad",
            "status": {"message": "no such names here", "code": 403, "reason": "Forbidden"},
            "warnings": ["names are looked at"],
        });
        let answer =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        Reply::ok(answer.to_string())
    });
    let hooks = runtime.block_on(Hooks::start(&["127.0.0.1"], work));
    let server = Server::start();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "names"},
        "webhooks": [{
            "name": "names.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
            "clientConfig": {"url": format!("https://{}/", hooks.address), "caBundle": hooks.bundle()},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        }],
    });
    create(&server, &configuration.to_string());
    let refused = server.kubectl("create -f -").yaml(&config("bad")).fails();
    contains(
        &refused,
        &[
            "admission webhook \"names.example.com\" denied the request: no such names here",
            "Warning: names are looked at",
        ],
    );
    create(&server, &config("good"));
    drop((hooks, runtime));
    let refused = server.kubectl("create -f -").yaml(&config("later")).fails();
    contains(
        &refused,
        &["failed calling webhook \"names.example.com\": failed to call webhook: Post \"https://127.0.0.1:"],
    );
    server.kubectl("delete validatingwebhookconfiguration names").ok();
    create(&server, &config("later"));
}
