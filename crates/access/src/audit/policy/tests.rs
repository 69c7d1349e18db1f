//! What policies match, row by row.

use super::{super::Stage, *};

fn policy(text: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{text}");
    Policy::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn faults(text: &str) -> String {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{text}");
    Policy::parse(text.as_bytes()).expect_err("the policy is wrong").to_string()
}

/// A request as a row has it: the user and their groups, the verb, and a path or `group/resource[/sub] ns/name`.
fn decide(policy: &Policy, who: &str, verb: &str, what: &str) -> Decision {
    let user = who.split_once('|').map(|(name, groups)| {
        User::new(name, groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect())
    });
    let wanted = match what.strip_prefix("path ") {
        Some(path) => Wanted::Path(path),
        None => {
            let (kind, place) = what.split_once(' ').expect("a place");
            let (namespace, name) = place.split_once('/').expect("a namespace and a name");
            let mut kind = kind.split('/');
            Wanted::Resource {
                group: kind.next().expect("a group"),
                version: "v1",
                resource: kind.next().expect("a resource"),
                subresource: kind.next().unwrap_or_default(),
                namespace,
                name,
            }
        }
    };
    policy.decide(&Asked { user: user.as_ref(), attributes: Attributes { verb, wanted } })
}

const ANN: &str = "ann|devs,system:authenticated";

#[test]
fn a_rule_matches_what_it_says_and_nothing_else() {
    // What one rule says, who does what to what, and whether the rule is about it.
    let rows: &[(&str, &str, &str, &str, bool)] = &[
        ("{}", ANN, "get", "/pods ns/a", true),
        ("{}", ANN, "get", "path /healthz", true),
        ("{}", "nobody", "get", "path /healthz", true),
        ("{users: [ann]}", ANN, "get", "/pods ns/a", true),
        ("{users: [ann]}", "bob|devs", "get", "/pods ns/a", false),
        ("{users: [bob, ann]}", ANN, "get", "path /metrics", true),
        ("{users: [ann]}", "nobody", "get", "/pods ns/a", false),
        ("{users: ['*']}", ANN, "get", "/pods ns/a", false),
        ("{userGroups: [devs]}", ANN, "get", "/pods ns/a", true),
        ("{userGroups: [ops]}", ANN, "get", "/pods ns/a", false),
        ("{userGroups: ['system:authenticated']}", ANN, "get", "/pods ns/a", true),
        ("{userGroups: [devs]}", "nobody", "get", "/pods ns/a", false),
        ("{users: [ann], userGroups: [ops]}", ANN, "get", "/pods ns/a", false),
        ("{verbs: [get, list]}", ANN, "list", "/pods ns/", true),
        ("{verbs: [get, list]}", ANN, "watch", "/pods ns/", false),
        ("{verbs: ['*']}", ANN, "get", "/pods ns/a", false),
        ("{verbs: [get]}", ANN, "get", "path /version", true),
        ("{namespaces: [ns]}", ANN, "get", "/pods ns/a", true),
        ("{namespaces: [ns]}", ANN, "get", "/pods other/a", false),
        ("{namespaces: ['']}", ANN, "get", "/nodes /a", true),
        ("{namespaces: ['']}", ANN, "list", "/pods /", true),
        ("{namespaces: ['']}", ANN, "get", "/pods ns/a", false),
        ("{namespaces: [ns]}", ANN, "get", "path /metrics", false),
        ("{namespaces: ['']}", ANN, "get", "path /metrics", false),
        ("{resources: [{group: ''}]}", ANN, "get", "/pods ns/a", true),
        ("{resources: [{}]}", ANN, "get", "/pods/log ns/a", true),
        ("{resources: [{group: ''}]}", ANN, "get", "apps/deployments ns/a", false),
        ("{resources: [{group: apps}]}", ANN, "get", "apps/deployments/scale ns/a", true),
        ("{resources: [{resources: [pods]}]}", ANN, "get", "/pods ns/a", true),
        ("{resources: [{resources: [pods]}]}", ANN, "get", "/pods/log ns/a", false),
        ("{resources: [{resources: [pods]}]}", ANN, "get", "apps/pods ns/a", false),
        ("{resources: [{resources: [pods/log]}]}", ANN, "get", "/pods/log ns/a", true),
        ("{resources: [{resources: [pods/log]}]}", ANN, "get", "/pods ns/a", false),
        ("{resources: [{resources: [pods/log]}]}", ANN, "get", "/pods/status ns/a", false),
        ("{resources: [{resources: ['*']}]}", ANN, "get", "/pods ns/a", true),
        ("{resources: [{resources: ['*']}]}", ANN, "get", "/pods/log ns/a", true),
        ("{resources: [{resources: ['*/status']}]}", ANN, "update", "/pods/status ns/a", true),
        ("{resources: [{resources: ['*/status']}]}", ANN, "update", "/pods/log ns/a", false),
        ("{resources: [{resources: ['*/status']}]}", ANN, "update", "/pods ns/a", false),
        ("{resources: [{resources: ['*/']}]}", ANN, "update", "/pods ns/a", false),
        ("{resources: [{resources: ['pods/*']}]}", ANN, "get", "/pods/log ns/a", true),
        ("{resources: [{resources: ['pods/*']}]}", ANN, "get", "/pods ns/a", true),
        ("{resources: [{resources: ['pods/*']}]}", ANN, "get", "/podtemplates ns/a", false),
        ("{resources: [{resources: [pods], resourceNames: [a]}]}", ANN, "get", "/pods ns/a", true),
        ("{resources: [{resources: [pods], resourceNames: [a]}]}", ANN, "get", "/pods ns/b", false),
        ("{resources: [{resources: [pods], resourceNames: [a]}]}", ANN, "list", "/pods ns/", false),
        (
            "{resources: [{resources: [pods], resourceNames: [a]}, {resources: [pods]}]}",
            ANN,
            "get",
            "/pods ns/b",
            true,
        ),
        ("{resources: [{resources: [nodes]}, {group: apps}]}", ANN, "get", "apps/deployments ns/a", true),
        ("{resources: [{resources: [pods]}], namespaces: [ns]}", ANN, "get", "/pods other/a", false),
        ("{resources: [{resources: ['*']}]}", ANN, "get", "path /api", false),
        ("{nonResourceURLs: [/metrics]}", ANN, "get", "path /metrics", true),
        ("{nonResourceURLs: [/metrics]}", ANN, "get", "path /metrics/slis", false),
        ("{nonResourceURLs: ['/healthz*']}", ANN, "get", "path /healthz", true),
        ("{nonResourceURLs: ['/healthz*']}", ANN, "get", "path /healthz/ping", true),
        ("{nonResourceURLs: ['/healthz*']}", ANN, "get", "path /livez", false),
        ("{nonResourceURLs: ['/api/*']}", ANN, "get", "path /api", false),
        ("{nonResourceURLs: ['*']}", ANN, "get", "path /anything", true),
        ("{nonResourceURLs: ['*']}", ANN, "get", "/pods ns/a", false),
        ("{nonResourceURLs: [/version, /metrics], verbs: [get]}", ANN, "post", "path /version", false),
    ];
    for (rule, who, verb, what, matches) in rows {
        let rule = rule.strip_prefix('{').expect("a rule in braces");
        let comma = if rule == "}" { "" } else { ", " };
        let policy = policy(&format!("rules: [{{level: Metadata{comma}{rule}]"));
        let decided = decide(&policy, who, verb, what).level == Level::Metadata;
        assert_eq!(decided, *matches, "{{{rule}: {who} {verb} {what}");
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = policy(
        "rules:
        - {level: None, users: ['system:kube-proxy'], verbs: [watch]}
        - {level: Metadata, resources: [{resources: [pods/log, pods/status]}]}
        - {level: None, resources: [{resources: [configmaps], resourceNames: [controller-leader]}]}
        - {level: Request, resources: [{resources: [configmaps]}], namespaces: [kube-system]}
        - {level: RequestResponse, resources: [{group: ''}, {group: apps}]}
        - {level: None, nonResourceURLs: ['/healthz*', /version]}
        - {level: Metadata}",
    );
    for (who, verb, what, level) in [
        ("system:kube-proxy|", "watch", "/services /", Level::None),
        (ANN, "get", "/pods/log ns/a", Level::Metadata),
        (ANN, "update", "/configmaps ns/controller-leader", Level::None),
        (ANN, "update", "/configmaps kube-system/a", Level::Request),
        (ANN, "update", "/configmaps ns/a", Level::RequestResponse),
        (ANN, "update", "apps/deployments ns/a", Level::RequestResponse),
        (ANN, "update", "batch/jobs ns/a", Level::Metadata),
        (ANN, "get", "path /healthz/etcd", Level::None),
        (ANN, "get", "path /apis", Level::Metadata),
        ("nobody", "get", "path /apis", Level::Metadata),
    ] {
        assert_eq!(decide(&policy, who, verb, what).level, level, "{who} {verb} {what}");
    }
}

#[test]
fn what_no_rule_is_about_is_not_written_down() {
    let policy = policy("rules: [{level: Request, users: [bob]}]");
    assert_eq!(decide(&policy, ANN, "get", "/pods ns/a").level, Level::None);
}

#[test]
fn stages_are_left_out_by_the_policy_and_by_the_rule() {
    let policy = policy(
        "omitStages: [RequestReceived]\nrules: [{level: Metadata, users: [ann], omitStages: [ResponseStarted]}, {level: Metadata}]",
    );
    let omitted = |who: &str| {
        let stages = decide(&policy, who, "get", "/pods ns/a").omit_stages;
        Stage::ALL.iter().filter(|(_, stage)| stages.has(*stage)).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    assert_eq!(omitted(ANN), ["RequestReceived", "ResponseStarted"]);
    assert_eq!(omitted("bob|"), ["RequestReceived"]);
}

#[test]
fn a_rule_overrides_the_policy_on_managed_fields() {
    let policy = policy(
        "omitManagedFields: true
rules:
- {level: Request, users: [ann], omitManagedFields: false}
- {level: Request}",
    );
    assert!(!decide(&policy, ANN, "get", "/pods ns/a").omit_managed_fields);
    assert!(decide(&policy, "bob|", "get", "/pods ns/a").omit_managed_fields);
}

#[test]
fn what_secrets_and_tokens_hold_is_written_down_only_where_a_rule_names_them() {
    for (rule, what, level) in [
        ("", "/secrets ns/a", Level::Metadata),
        (", resources: [{}]", "/secrets ns/a", Level::Metadata),
        (", resources: [{resources: ['*']}]", "/secrets ns/", Level::Metadata),
        (", resources: [{resources: ['secrets/*']}]", "/secrets ns/a", Level::Metadata),
        (", resources: [{resources: [pods, secrets]}]", "/secrets ns/a", Level::RequestResponse),
        (", resources: [{resources: ['*', secrets]}]", "/secrets ns/a", Level::RequestResponse),
        ("", "/serviceaccounts/token ns/a", Level::Metadata),
        (", resources: [{resources: [serviceaccounts]}, {}]", "/serviceaccounts/token ns/a", Level::Metadata),
        (", resources: [{resources: ['*/token']}]", "/serviceaccounts/token ns/a", Level::Metadata),
        (
            ", resources: [{resources: [serviceaccounts/token]}]",
            "/serviceaccounts/token ns/a",
            Level::RequestResponse,
        ),
        ("", "/serviceaccounts ns/a", Level::RequestResponse),
        ("", "authentication.k8s.io/tokenreviews /", Level::Metadata),
        (
            ", resources: [{group: authentication.k8s.io}]",
            "authentication.k8s.io/tokenreviews /",
            Level::Metadata,
        ),
        (
            ", resources: [{group: authentication.k8s.io, resources: [tokenreviews]}]",
            "authentication.k8s.io/tokenreviews /",
            Level::RequestResponse,
        ),
        ("", "authentication.k8s.io/selfsubjectreviews /", Level::RequestResponse),
        ("", "/configmaps ns/a", Level::RequestResponse),
        ("", "example.com/secrets ns/a", Level::RequestResponse),
    ] {
        let policy = policy(&format!("rules: [{{level: RequestResponse{rule}}}]"));
        let decision = decide(&policy, ANN, "create", what);
        assert_eq!(decision.level, level, "{rule}: {what}");
        assert_eq!(decision.is_withheld, level == Level::Metadata, "{rule}: {what}");
    }
}

#[test]
fn what_is_wrong_with_a_policy_is_named() {
    for (text, expected) in [
        ("rules: []", "rules: Required value: a policy without rules writes nothing down"),
        ("kinds: []\nrules: [{level: None}]", "kinds: Forbidden: there is no such field"),
        ("rules: {}", "rules: Invalid value: must be a list"),
        ("rules: [none]", "rules[0]: Invalid value: must be an object"),
        ("rules: [{}]", "rules[0].level: Required value"),
        (
            "rules: [{level: None}, {level: Everything}]",
            "rules[1].level: Unsupported value: \"Everything\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\"",
        ),
        ("rules: [{level: None, user: [a]}]", "rules[0].user: Forbidden: there is no such field"),
        ("rules: [{level: None, users: a}]", "rules[0].users: Invalid value: must be a list of strings"),
        ("rules: [{level: None, verbs: [1]}]", "rules[0].verbs[0]: Invalid value: must be a string"),
        (
            "rules: [{level: None, nonResourceURLs: [healthz]}]",
            "rules[0].nonResourceURLs[0]: Invalid value: \"healthz\": non-resource URL rules must begin with a '/' character",
        ),
        (
            "rules: [{level: None, nonResourceURLs: ['/a*b']}]",
            "rules[0].nonResourceURLs[0]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule",
        ),
        (
            "rules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]",
            "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs",
        ),
        (
            "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
            "rules[0].resources[0].resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource",
        ),
        (
            "rules: [{level: None, resources: [{group: '*'}]}]",
            "rules[0].resources[0].group: Invalid value: \"*\"",
        ),
        (
            "rules: [{level: None, resources: [{group: A_B}]}]",
            "rules[0].resources[0].group: Invalid value: \"A_B\"",
        ),
        ("rules: [{level: None, resources: [{kind: a}]}]", "rules[0].resources[0].kind: Forbidden"),
        (
            "rules: [{level: None, omitStages: [Later]}]",
            "rules[0].omitStages[0]: Invalid value: \"Later\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic",
        ),
        (
            "omitManagedFields: 1\nrules: [{level: None}]",
            "omitManagedFields: Invalid value: must be true or false",
        ),
        ("rules: [{level: None, level: None}]", "level"),
    ] {
        let found = faults(text);
        assert!(found.contains(expected), "{text}\n  found: {found}\n  expected: {expected}");
    }
    let other = Policy::parse(b"apiVersion: audit.k8s.io/v1beta1\nkind: Rules\nrules: [{level: None}]");
    let found = other.expect_err("another version and kind").to_string();
    assert!(found.contains("apiVersion: ") && found.contains("kind: "), "{found}");
    assert!(matches!(Policy::parse(b"\tnot yaml: ["), Err(PolicyError::Unreadable(_))));
    assert!(Policy::parse(b"").is_err());
}
