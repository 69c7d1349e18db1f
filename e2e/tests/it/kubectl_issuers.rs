//! Users of an issuer, as `kubectl` shows their tokens.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::runtime::Runtime;
use windlass_e2e::{Server, eventually};

use crate::{
    objects::contains,
    provider::{AUDIENCE, Provider, configuration, key, sign},
};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().expect("a runtime")
}

fn write(path: &Path, configuration: &Value) {
    fs::write(path, configuration.to_string()).expect("our directory");
}

/// kubectl with a token and nothing else. The administrator's certificate would come first.
fn whoami(server: &Server, token: &str) -> Result<Value, String> {
    let certificate = "certificate-authority-data";
    let kubeconfig = fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
    let authority = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(&format!("{certificate}: ")));
    let bare = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {
            "server": format!("https://{}", server.address()), certificate: authority.expect("an authority"),
        }}],
        "users": [], "contexts": [{"name": "it", "context": {"cluster": "it", "user": ""}}],
    });
    server.write("bare.kubeconfig", &bare.to_string());
    let ran =
        server.kubectl(&format!("auth whoami -o json --kubeconfig bare.kubeconfig --token {token}")).run();
    match ran.code {
        0 => Ok(serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["status"]["userInfo"].clone()),
        _ => Err(ran.stderr),
    }
}

#[test]
fn a_user_of_an_issuer_is_who_the_configuration_says() {
    let runtime = runtime();
    let provider = runtime.block_on(Provider::start());
    let key = key();
    provider.publish(&[&key]);
    let mut trusted = provider.trusted();
    trusted["claimMappings"]["username"] = json!({"expression": "claims.sub + '@example.com'"});
    trusted["userValidationRules"] =
        json!([{"expression": "!user.username.startsWith('system:')", "message": "reserved"}]);
    let directory = tempdir().expect("a directory");
    let file = directory.path().join("authentication.json");
    write(&file, &configuration(&[trusted.clone()]));
    let server = Server::start_with(&["--authentication-config", file.to_str().expect("text")]);

    let token = sign(&key, &provider.claims());
    let user = whoami(&server, &token).expect("a user");
    assert_eq!(user["username"], "ann@example.com");
    assert_eq!(user["groups"], json!(["devs", "system:authenticated"]));
    let mut claims = provider.claims();
    claims["sub"] = json!("system:admin");
    contains(&whoami(&server, &sign(&key, &claims)).expect_err("reserved"), &["Unauthorized"]);
    claims["exp"] = json!(1);
    contains(&whoami(&server, &sign(&key, &claims)).expect_err("expired"), &["Unauthorized"]);

    trusted["claimMappings"]["username"] = json!({"claim": "sub", "prefix": "staff:"});
    write(&file, &configuration(&[trusted]));
    eventually(|| match whoami(&server, &token) {
        Ok(user) if user["username"] == "staff:ann" => Ok(()),
        other => Err(format!("the new configuration is not in force: {other:?}")),
    });
}

#[test]
fn classic_flags_trust_one_issuer() {
    let runtime = runtime();
    let provider = runtime.block_on(Provider::start());
    let key = key();
    provider.publish(&[&key]);
    let directory = tempdir().expect("a directory");
    let authority = directory.path().join("ca.pem");
    let trusted = provider.trusted();
    fs::write(&authority, trusted["issuer"]["certificateAuthority"].as_str().expect("PEM"))
        .expect("our directory");
    let server = Server::start_with(&[
        "--oidc-issuer-url",
        &provider.url,
        "--oidc-client-id",
        AUDIENCE,
        "--oidc-groups-claim",
        "groups",
        "--oidc-ca-file",
        authority.to_str().expect("text"),
        "--oidc-signing-algs",
        "ES256",
    ]);
    let user = whoami(&server, &sign(&key, &provider.claims())).expect("a user");
    assert_eq!(user["username"], format!("{}#ann", provider.url));
}
