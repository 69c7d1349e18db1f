//! What becomes of claims.

use serde_json::{Value, json};

use super::{super::Classic, ISSUER, read, short, with};
use crate::User;

/// The user of claims, by the short configuration with something else in its issuer.
fn user(place: &str, value: Value, claims: Value) -> Result<User, String> {
    let configuration = read(&with(short(), &format!("jwt.0.{place}"), value)).expect("a configuration");
    configuration.issuers[0].mappings.user(&claims)
}

#[test]
fn claims_become_names_with_their_prefix() {
    let username = json!({"claim": "sub", "prefix": "oidc:"});
    let ann = user("claimMappings.username", username.clone(), json!({"sub": "ann"})).expect("a user");
    assert_eq!((ann.name.as_str(), ann.groups), ("oidc:ann", vec!["system:authenticated".to_owned()]));
    for claims in
        [json!({}), json!({"sub": 5}), json!({"sub": ["ann"]}), json!({"sub": null}), json!({"sub": ""})]
    {
        let refused = user("claimMappings.username", username.clone(), claims.clone());
        assert!(refused.expect_err("no name").starts_with("username: "), "{claims}");
    }
}

#[test]
fn groups_are_one_or_several() {
    let groups = json!({"claim": "roles", "prefix": "oidc:"});
    let of =
        |roles: Value| user("claimMappings.groups", groups.clone(), json!({"sub": "ann", "roles": roles}));
    assert_eq!(of(json!("dev")).expect("one").groups, ["oidc:dev", "system:authenticated"]);
    assert_eq!(
        of(json!(["dev", "ops"])).expect("two").groups,
        ["oidc:dev", "oidc:ops", "system:authenticated"]
    );
    assert_eq!(of(json!([])).expect("none").groups, ["system:authenticated"]);
    for roles in [json!(5), json!({"a": "b"}), json!(["dev", 5]), json!(null)] {
        assert!(of(roles).expect_err("no groups").contains("neither a string nor a list of strings"));
    }
    let none = user("claimMappings.groups", groups, json!({"sub": "ann"})).expect("a token without groups");
    assert_eq!(none.groups, ["system:authenticated"]);
}

#[test]
fn groups_that_are_elsewhere_are_refused() {
    let claims = json!({
        "sub": "ann",
        "_claim_names": {"roles": "src1"},
        "_claim_sources": {"src1": {"endpoint": "https://elsewhere.example.com"}},
    });
    let refused = user("claimMappings.groups", json!({"claim": "roles", "prefix": ""}), claims);
    assert_eq!(refused, Err("groups: claim \"roles\" is distributed, which is not supported".to_owned()));
}

#[test]
fn expressions_make_users() {
    let mappings = json!({
        "username": {"expression": "claims.given + '.' + claims.family"},
        "groups": {"expression": "claims.roles.split(',').map(role, 'team:' + role)"},
        "uid": {"expression": "claims.sub"},
        "extra": [
            {"key": "example.com/tenant", "valueExpression": "claims.tenant"},
            {"key": "example.com/list", "valueExpression": "['a', '', 'b']"},
            {"key": "example.com/none", "valueExpression": "claims.?none.orValue('')"},
        ],
    });
    let claims = json!({"given": "ann", "family": "lee", "roles": "dev,ops", "sub": "17", "tenant": "acme", "jti": "xyz"});
    let ann = user("claimMappings", mappings, claims).expect("a user");
    assert_eq!((ann.name.as_str(), ann.uid.as_str()), ("ann.lee", "17"));
    assert_eq!(ann.groups, ["team:dev", "team:ops", "system:authenticated"]);
    let extra: Vec<_> = ann.extra.iter().map(|(key, values)| (key.as_str(), values.join(" "))).collect();
    assert_eq!(
        extra,
        [
            ("authentication.kubernetes.io/credential-id", "JTI=xyz".to_owned()),
            ("example.com/list", "a b".to_owned()),
            ("example.com/tenant", "acme".to_owned()),
        ]
    );
}

#[test]
fn expressions_that_come_to_nothing_of_use_refuse_the_token() {
    let claims = json!({"sub": "ann", "n": 5, "list": [1], "none": null, "empty": ""});
    for (place, expression, says) in [
        ("username", "claims.missing", "no such key: missing"),
        ("username", "claims.n", "expression must return a string"),
        ("username", "claims.none", "expression must return a string"),
        ("username", "claims.empty", "username: it is empty"),
        ("uid", "claims.n", "expression must return a string"),
        ("groups", "claims.n", "a string or a list of strings"),
        ("groups", "claims.list", "a string or a list of strings"),
        ("groups", "claims.missing", "no such key: missing"),
        ("groups", "range(0, 1)", "compilation failed"),
    ] {
        let mappings = json!({"username": {"claim": "sub", "prefix": ""}});
        let mappings = with(mappings, place, json!({"expression": expression}));
        let configuration = read(&with(short(), "jwt.0.claimMappings", mappings));
        let refused = configuration.and_then(|configuration| configuration.issuers[0].mappings.user(&claims));
        let refused = refused.expect_err(expression);
        assert!(refused.contains(says), "{place} {expression}: {refused}");
    }
    let null = user("claimMappings.groups", json!({"expression": "claims.none"}), claims).expect("no groups");
    assert_eq!(null.groups, ["system:authenticated"]);
}

#[test]
fn an_expression_cannot_run_for_long() {
    let groups = "claims.list.map(a, claims.list.map(b, claims.list.map(c, 'x').size() == 0 ? '' : 'x').join('')).map(a, a)";
    let claims = json!({"sub": "ann", "list": vec![0; 500]});
    let refused = user("claimMappings.groups", json!({"expression": groups}), claims).expect_err("too long");
    assert!(refused.contains("cost limit exceeded"), "{refused}");
}

#[test]
fn rules_about_claims_must_hold() {
    let rules = json!([
        {"claim": "hd", "requiredValue": "example.com"},
        {"expression": "claims.exp - claims.nbf <= 86400", "message": "lives too long"},
    ]);
    let claims = json!({"sub": "ann", "hd": "example.com", "exp": 90000, "nbf": 10000});
    let check = |place: &str, value: Value| {
        user("claimValidationRules", rules.clone(), with(claims.clone(), place, value))
    };
    check("sub", json!("ann")).expect("all hold");
    for (place, value, says) in [
        ("hd", json!("example.org"), "required claim hd value does not match"),
        ("hd", json!(5), "required claim hd is no string"),
        ("nbf", json!(0), "validation expression 'claims.exp - claims.nbf <= 86400' failed: lives too long"),
        (
            "nbf",
            json!("x"),
            "validation expression 'claims.exp - claims.nbf <= 86400' failed: no such overload",
        ),
    ] {
        assert_eq!(check(place, value), Err(says.to_owned()));
    }
    let without = user("claimValidationRules", rules.clone(), json!({"sub": "ann", "exp": 1, "nbf": 0}));
    assert_eq!(without, Err("required claim hd not present in ID token".to_owned()));
}

#[test]
fn rules_about_users_keep_names_of_the_system_out() {
    let rules = json!([
        {"expression": "!user.username.startsWith('system:')", "message": "name is reserved"},
        {"expression": "user.groups.all(group, !group.startsWith('system:'))", "message": "group is reserved"},
    ]);
    let configuration = with(short(), "jwt.0.userValidationRules", rules);
    let groups = json!({"claim": "roles", "prefix": ""});
    let configuration =
        read(&with(configuration, "jwt.0.claimMappings.groups", groups)).expect("a configuration");
    let check = |claims: Value| configuration.issuers[0].mappings.user(&claims);
    check(json!({"sub": "ann", "roles": "dev"})).expect("an ordinary user");
    check(json!({"sub": "ann"})).expect("a user without groups");
    let refused = check(json!({"sub": "system:admin"})).expect_err("a name of the system");
    assert!(refused.ends_with("failed: name is reserved"), "{refused}");
    let refused =
        check(json!({"sub": "ann", "roles": ["dev", "system:masters"]})).expect_err("a group of the system");
    assert!(refused.ends_with("failed: group is reserved"), "{refused}");
}

#[test]
fn an_address_that_is_not_verified_is_nobody() {
    let username = json!({"claim": "email", "prefix": ""});
    let of = |claims: Value| user("claimMappings.username", username.clone(), claims);
    of(json!({"email": "ann@example.com"})).expect("nothing is said about it");
    of(json!({"email": "ann@example.com", "email_verified": true})).expect("it is verified");
    for verified in [json!(false), json!("true"), json!(null)] {
        let refused = of(json!({"email": "ann@example.com", "email_verified": verified}));
        assert_eq!(refused, Err("username: email not verified".to_owned()));
    }
}

#[test]
fn classic_flags_mean_what_they_mean_to_kube_apiserver() {
    let classic = |claim: &str, prefix: &str| Classic {
        issuer_url: ISSUER.to_owned(),
        client_id: "windlass".to_owned(),
        username_claim: claim.to_owned(),
        username_prefix: prefix.to_owned(),
        groups_claim: "roles".to_owned(),
        groups_prefix: "oidc:".to_owned(),
        required_claims: vec![("hd".to_owned(), "example.com".to_owned())],
        ..Classic::default()
    };
    let claims = json!({"sub": "ann", "email": "a@b.c", "roles": ["dev"], "hd": "example.com"});
    for (claim, prefix, name) in [
        ("", "", "https://issuer.example.com#ann"),
        ("sub", "-", "ann"),
        ("sub", "x:", "x:ann"),
        ("email", "", "a@b.c"),
        ("email", "-", "a@b.c"),
        ("email", "x:", "x:a@b.c"),
    ] {
        let configuration = classic(claim, prefix).configuration(&[]).expect("good flags");
        let user = configuration.issuers[0].mappings.user(&claims).expect("a user");
        assert_eq!((user.name.as_str(), user.groups[0].as_str()), (name, "oidc:dev"));
    }
    let configuration = classic("", "").configuration(&[]).expect("good flags");
    configuration.issuers[0].mappings.user(&json!({"sub": "ann"})).expect_err("hd is required");
}
