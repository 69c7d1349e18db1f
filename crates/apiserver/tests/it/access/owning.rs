//! Rights that a write takes besides its own: to owners, and to signers.

use serde_json::{Value, json};

use super::rule;
use crate::client::{CONFIG_MAPS, Client};

fn owned(name: &str, owner: &Value, blocks: bool) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }]}})
}

#[tokio::test]
async fn cve_2025_5187_owners_are_set_by_those_who_may_delete() {
    let admin = Client::new().await;
    let owner = admin.config_map("owner", json!({})).await;
    admin.config_map("c", json!({})).await;
    let write = rule("get create update patch", "", "configmaps");
    let ann = admin.with_rules("ann", json!([write])).await;
    let bob = admin.with_rules("bob", json!([write, rule("delete", "", "configmaps")])).await;
    let path = format!("{CONFIG_MAPS}/c");
    for kind in ["merge", "strategic"] {
        let refused = ann.patch(kind, &path, owned("c", &owner, false)).await.refused(403, "Forbidden");
        let words = "cannot set an ownerRef on a resource you can't delete";
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(words)), "{refused}");
    }
    ann.put(&path, owned("c", &owner, false)).await.refused(403, "Forbidden");
    ann.patch("merge", &path, json!({"data": {"a": "b"}})).await.ok();
    bob.patch("merge", &path, owned("c", &owner, false)).await.ok();
    // Who leaves the owners as they are needs no more than before; who takes them away does.
    ann.patch("merge", &path, json!({"data": {"a": "c"}})).await.ok();
    ann.patch("merge", &path, json!({"metadata": {"ownerReferences": null}})).await.refused(403, "Forbidden");
    ann.post(CONFIG_MAPS, owned("new", &owner, false)).await.created();
}

#[tokio::test]
async fn who_blocks_the_deletion_of_an_owner_may_set_its_finalizers() {
    let admin = Client::new().await;
    let owner = admin.config_map("owner", json!({})).await;
    let write = rule("get create update patch delete", "", "configmaps");
    let ann = admin.with_rules("ann", json!([write])).await;
    let bob = admin.with_rules("bob", json!([write, rule("update", "", "configmaps/finalizers")])).await;
    let refused = ann.post(CONFIG_MAPS, owned("a", &owner, true)).await.refused(403, "Forbidden");
    let words =
        "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
    assert!(refused["message"].as_str().is_some_and(|text| text.contains(words)), "{refused}");
    ann.post(CONFIG_MAPS, owned("a", &owner, false)).await.created();
    let path = format!("{CONFIG_MAPS}/a");
    ann.patch("merge", &path, owned("a", &owner, true)).await.refused(403, "Forbidden");
    bob.patch("merge", &path, owned("a", &owner, true)).await.ok();
    ann.patch("merge", &path, json!({"data": {"a": "b"}})).await.ok();
    let mut unknown = owned("b", &owner, true);
    unknown["metadata"]["ownerReferences"][0]["kind"] = "Nothing".into();
    let refused = ann.post(CONFIG_MAPS, unknown).await.refused(403, "Forbidden");
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("cannot find RESTMapping")),
        "{refused}"
    );
}

/// Asks for `CN=ann`.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHTk1FRUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFlXNXVNQ293\
    QlFZREsyVndBeUVBczQ5bDkvWXVHK0pBNnpmcQp0aWExVXFBcVNnQ2RzYmQ5SVNyK3cybHlBamlnQURBRkJnTXJaWEFEUVFDVi9HS0lxekR6WUN6UUFM\
    VTF1OFA0CkwwMEFsb2t0RWQ1RzJiUmxWUnVJa3l3QklCeFRkZVBHTHhPbksrZGV5NTJpbzF4K0ZGTkdHSkdhTXgwYzNrWUoKLS0tLS1FTkQgQ0VSVElG\
    SUNBVEUgUkVRVUVTVC0tLS0tCg==";

#[tokio::test]
async fn requests_for_certificates_are_approved_and_signed_by_those_who_may() {
    let admin = Client::new().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let made = json!({"metadata": {"name": "r"}, "spec": {
        "signerName": "example.com/signer", "usages": ["client auth"], "request": REQUEST}});
    admin.post(requests, made).await.created();
    let write = rule(
        "get update patch",
        "certificates.k8s.io",
        "certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status",
    );
    let signers = |verb: &str, name: &str| {
        let mut right = rule(verb, "certificates.k8s.io", "signers");
        right["resourceNames"] = json!([name]);
        right
    };
    let nobody = admin.with_rules("nobody", json!([write])).await;
    let other = admin
        .with_rules(
            "other",
            json!([write, signers("approve", "other.com/*"), signers("sign", "other.com/*")]),
        )
        .await;
    let approver = admin.with_rules("approver", json!([write, signers("approve", "example.com/*")])).await;
    let signer = admin.with_rules("signer", json!([write, signers("sign", "example.com/signer")])).await;
    let approval = format!("{requests}/r/approval");
    let approved = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "R", "message": "m"}]}});
    for client in [&nobody, &other, &signer] {
        let refused = client.patch("merge", &approval, approved.clone()).await.refused(403, "Forbidden");
        let words = "user not permitted to approve requests with signerName \"example.com/signer\"";
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(words)), "{refused}");
    }
    approver.patch("merge", &approval, approved).await.ok();
    let status = format!("{requests}/r/status");
    let failed = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "R", "message": "m"},
        {"type": "Failed", "status": "True", "reason": "R", "message": "m"}]}});
    for client in [&nobody, &other, &approver] {
        let refused = client.patch("merge", &status, failed.clone()).await.refused(403, "Forbidden");
        let words = "user not permitted to sign requests with signerName \"example.com/signer\"";
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(words)), "{refused}");
    }
    nobody.patch("merge", &status, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    signer.patch("merge", &status, failed).await.ok();
}
