//! Who somebody says they are.

use crate::client::{Client, PODS};

#[tokio::test]
async fn cve_2021_29441_nothing_in_a_header_makes_a_user() {
    let client = Client::new().await;
    for headers in [
        &[("x-remote-user", "admin"), ("x-remote-group", "system:masters")][..],
        &[("X-Remote-User", "system:admin"), ("X-Remote-Extra-Scopes", "all")],
        &[("x-forwarded-for", "127.0.0.1")],
        &[("x-real-ip", "127.0.0.1"), ("forwarded", "for=127.0.0.1")],
        &[("user-agent", "Nacos-Server")],
        &[
            ("user-agent", "kube-controller-manager"),
            ("x-forwarded-client-cert", "CN=admin,O=system:masters"),
        ],
        &[("host", "localhost"), ("x-forwarded-host", "localhost")],
        &[("impersonate-user", "admin"), ("impersonate-group", "system:masters")],
        &[("x-auth-request-user", "admin"), ("x-webauth-user", "admin"), ("remote-user", "admin")],
        &[("cookie", "session=admin")],
    ] {
        let answer = client.anonymous().send("GET", PODS, headers, "").await;
        assert!(matches!(answer.code, 401 | 403), "{headers:?}: {}", answer.code);
        let told = client
            .anonymous()
            .send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", headers, "{}")
            .await;
        assert!(matches!(told.code, 401 | 403), "{headers:?}: {}", told.text());
    }
}

#[tokio::test]
async fn cve_2020_13945_no_credential_is_known_to_everyone() {
    let client = Client::new().await;
    for token in [
        "edd1c9f034335f136f87ad84b625c8f1",
        "admin",
        "nacos",
        "teleport",
        "SecretKey012345678901234567890123456789",
        "",
    ] {
        for value in [format!("Bearer {token}"), format!("Basic {token}"), token.to_owned()] {
            let answer = client.anonymous().send("GET", PODS, &[("authorization", &value)], "").await;
            assert!(matches!(answer.code, 401 | 403), "{value}: {}", answer.code);
        }
    }
    for login in ["YWRtaW46YWRtaW4=", "bmFjb3M6bmFjb3M=", "YWRtaW46dGVsZXBvcnQ="] {
        let answer =
            client.anonymous().send("GET", PODS, &[("authorization", &format!("Basic {login}"))], "").await;
        answer.refused(401, "Unauthorized");
    }
    // A credential that is no good is not the same as none.
    client
        .anonymous()
        .send("GET", "/healthz", &[("authorization", "Bearer wrong")], "")
        .await
        .refused(401, "Unauthorized");
}
