//! Asking in the name of another.

use serde_json::{Value, json};

use super::rule;
use crate::client::{Answer, Client};

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn who(client: &Client, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    client.send("POST", SELF, &all, "{}").await
}

async fn known_as(client: &Client, headers: &[(&str, &str)]) -> Value {
    who(client, headers).await.created()["status"]["userInfo"].clone()
}

#[tokio::test]
async fn an_administrator_can_be_anyone() {
    let admin = Client::new().await;
    let all = [
        ("Impersonate-User", "ann"),
        ("IMPERSONATE-GROUP", "a"),
        ("impersonate-group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-acme.com%2Fproject", "one"),
        ("Impersonate-Extra-acme.com%2fproject", "two"),
    ];
    assert_eq!(
        known_as(&admin, &all).await,
        json!({
            "username": "ann", "uid": "7", "groups": ["a", "b", "system:authenticated"],
            "extra": {"acme.com/project": ["one", "two"]},
        })
    );
    assert_eq!(
        known_as(&admin, &[("Impersonate-User", "system:serviceaccount:n:robot")]).await["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"])
    );
    // It is the rights of the other that count.
    let headers = [("Impersonate-User", "ann")];
    admin.send("GET", "/api/v1/secrets", &headers, "").await.refused(403, "Forbidden");
    let nobody = [("Impersonate-User", "system:anonymous")];
    admin.send("GET", "/api", &nobody, "").await.refused(403, "Forbidden");
    assert_eq!(admin.send("GET", "/version", &nobody, "").await.code, 200);
}

#[tokio::test]
async fn each_part_of_another_is_a_right_of_its_own() {
    let admin = Client::new().await;
    let mut users = rule("impersonate", "", "users");
    users["resourceNames"] = json!(["bob"]);
    let mut groups = rule("impersonate", "", "groups");
    groups["resourceNames"] = json!(["staff"]);
    let mut extras = rule("impersonate", "authentication.k8s.io", "userextras/scopes");
    extras["resourceNames"] = json!(["read"]);
    let mut uids = rule("impersonate", "authentication.k8s.io", "uids");
    uids["resourceNames"] = json!(["7"]);
    let ann = admin.with_rules("ann", json!([users, groups, extras, uids])).await;
    let robots =
        admin.with_rules_in("default", "carl", json!([rule("impersonate", "", "serviceaccounts")])).await;
    let bob = ("Impersonate-User", "bob");
    let good: [&[(&str, &str)]; 4] = [
        &[bob],
        &[bob, ("Impersonate-Group", "staff")],
        &[bob, ("Impersonate-Extra-Scopes", "read")],
        &[bob, ("Impersonate-Uid", "7")],
    ];
    for headers in good {
        assert_eq!(known_as(&ann, headers).await["username"], "bob", "{headers:?}");
    }
    let bad: [(&[(&str, &str)], &str); 7] = [
        (
            &[("Impersonate-User", "root")],
            "users \"root\" is forbidden: User \"ann\" cannot impersonate resource \"users\" \
          in API group \"\" at the cluster scope",
        ),
        (
            &[bob, ("Impersonate-Group", "system:masters")],
            "groups \"system:masters\" is forbidden: User \"ann\" cannot \
          impersonate resource \"groups\" in API group \"\" at the cluster scope",
        ),
        (&[bob, ("Impersonate-Group", "staff"), ("Impersonate-Group", "other")], "groups \"other\""),
        (&[bob, ("Impersonate-Extra-Scopes", "write")], "userextras.authentication.k8s.io \"write\""),
        (&[bob, ("Impersonate-Extra-Other", "read")], "resource \"userextras/other\""),
        (&[bob, ("Impersonate-Uid", "8")], "uids.authentication.k8s.io \"8\""),
        (&[("Impersonate-User", "system:serviceaccount:default:robot")], "serviceaccounts \"robot\""),
    ];
    for (headers, words) in bad {
        let refused = who(&ann, headers).await.refused(403, "Forbidden");
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(words)), "{refused}");
    }
    let robot = known_as(&robots, &[("Impersonate-User", "system:serviceaccount:default:robot")]).await;
    assert_eq!(robot["username"], "system:serviceaccount:default:robot");
    who(&robots, &[("Impersonate-User", "system:serviceaccount:other:robot")])
        .await
        .refused(403, "Forbidden");
    // Nobody gets further as themselves for having tried.
    let anonymous = admin.anonymous();
    who(&anonymous, &[bob]).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn nobody_in_particular_cannot_have_groups() {
    let admin = Client::new().await;
    for header in ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"] {
        who(&admin, &[(header, "x")]).await.refused(400, "BadRequest");
        who(&admin, &[("Impersonate-User", ""), (header, "x")]).await.refused(400, "BadRequest");
    }
    who(&admin, &[("Impersonate-User", "a"), ("Impersonate-User", "b")]).await.refused(400, "BadRequest");
    let odd = who(&admin, &[("Impersonate-User", "a"), ("Impersonate-Group", "\u{e4}")]).await;
    assert_eq!(odd.created()["status"]["userInfo"]["groups"][0], "\u{e4}");
}
