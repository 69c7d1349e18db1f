//! Tokens of issuers, from real HTTPS servers to who is let in.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use windlass_access::jwt::SigningKey;
use windlass_apiserver::{Config, IssuerConfig, Pace};

use crate::{
    client::{Client, DEADLINE},
    hooks::Reply,
    provider::{Provider, configuration, key, now, sign, slow},
};

/// Everything at once, so that nobody waits in tests.
const PACE: Pace = Pace {
    poll: Duration::from_millis(20),
    rest: Duration::from_millis(50),
    refresh: Duration::from_secs(3600),
    retry: Duration::from_millis(100),
    fetch: Duration::from_millis(500),
};

const DISCOVERY: &str = "/.well-known/openid-configuration";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A server that trusts an issuer, and the file that says so.
struct Setting {
    client: Client,
    file: NamedTempFile,
}

impl Setting {
    async fn trusting(issuers: &[Value]) -> Self {
        Self::with(issuers, PACE).await
    }

    async fn with(issuers: &[Value], pace: Pace) -> Self {
        let file = NamedTempFile::new().expect("a file");
        fs::write(file.path(), configuration(issuers).to_string()).expect("our file");
        let mut issuers = IssuerConfig::from_file(file.path(), &[]).expect("a configuration");
        issuers.pace = pace;
        let client = Client::with(Config { issuers: Some(issuers), ..Config::default() }).await;
        Setting { client, file }
    }

    fn write(&self, configuration: &Value) {
        fs::write(self.file.path(), configuration.to_string()).expect("our file");
    }

    /// Who one is with a token; the code when one is nobody.
    async fn whoami(&self, token: &str) -> Result<Value, u16> {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let nobody = self.client.anonymous();
        let answer = nobody.send("POST", WHOAMI, &headers, "{}").await;
        assert!(token.is_empty() || !answer.text().contains(token), "a token is told");
        match answer.code {
            201 => Ok(answer.json()["status"]["userInfo"].clone()),
            code => Err(code),
        }
    }

    async fn name(&self, token: &str) -> Result<String, u16> {
        self.whoami(token).await.map(|user| user["username"].as_str().unwrap_or_default().to_owned())
    }

    async fn metric(&self, status: &str) -> u64 {
        let metrics = self.client.get("/metrics").await.text();
        let name = "apiserver_authentication_config_controller_automatic_reloads_total";
        let line =
            metrics.lines().find_map(|line| line.strip_prefix(&format!("{name}{{status=\"{status}\"}} ")));
        line.expect("changes are counted").trim().parse().expect("a number")
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

#[tokio::test]
async fn a_token_of_a_trusted_issuer_names_its_user() {
    let provider = Provider::start().await;
    let rsa = include_bytes!("../../../access/src/jwt/vectors/rsa.pem");
    let keys = [key(), SigningKey::from_pem(rsa).expect("a key")];
    provider.publish(&[&keys[0], &keys[1]]);
    let setting = Setting::trusting(&[provider.trusted()]).await;
    for key in &keys {
        let user = setting.whoami(&sign(key, &provider.claims())).await.expect("a user");
        assert_eq!(user["username"], "oidc:ann");
        assert_eq!(user["groups"], json!(["devs", "system:authenticated"]));
    }
    assert_eq!(provider.asked(), [DISCOVERY, "/keys"], "the keys are kept");
}

#[tokio::test]
async fn a_token_that_is_not_good_is_nobodys() {
    let (provider, other) = (Provider::start().await, Provider::start().await);
    let (own, foreign) = (key(), key());
    provider.publish(&[&own]);
    other.publish(&[&foreign]);
    let setting = Setting::trusting(&[provider.trusted(), other.trusted()]).await;
    setting.whoami(&sign(&own, &provider.claims())).await.expect("a good token");
    let with = |name: &str, value: Value| {
        let mut claims = provider.claims();
        claims[name] = value;
        sign(&own, &claims)
    };
    for (what, token) in [
        ("another audience", with("aud", json!("others"))),
        ("no audience", with("aud", json!([]))),
        ("expired", with("exp", json!(now() - 1))),
        ("never expires", with("exp", Value::Null)),
        ("not yet", with("nbf", json!(now() + 3600))),
        ("an issuer that is not trusted", with("iss", json!("https://127.0.0.1:1"))),
        ("the key of another issuer", sign(&foreign, &provider.claims())),
        ("the name of another issuer", sign(&own, &other.claims())),
        ("a key that nobody knows", sign(&key(), &provider.claims())),
        ("groups that are none", with("groups", json!(5))),
        ("no token", "garbage".to_owned()),
        ("three parts of nothing", "a.b.c".to_owned()),
        ("a tail", format!("{}.x", sign(&own, &provider.claims()))),
    ] {
        assert_eq!(setting.whoami(&token).await, Err(401), "{what}");
    }
}

#[tokio::test]
async fn groups_may_be_one_text() {
    let provider = Provider::start().await;
    let key = key();
    provider.publish(&[&key]);
    let setting = Setting::trusting(&[provider.trusted()]).await;
    let mut claims = provider.claims();
    claims["groups"] = json!("devs");
    let user = setting.whoami(&sign(&key, &claims)).await.expect("a user");
    assert_eq!(user["groups"], json!(["devs", "system:authenticated"]));
}

#[tokio::test]
async fn a_rule_keeps_names_of_the_system_out() {
    let provider = Provider::start().await;
    let key = key();
    provider.publish(&[&key]);
    let mut trusted = provider.trusted();
    trusted["claimMappings"]["username"] = json!({"expression": "claims.sub"});
    trusted["userValidationRules"] = json!([{"expression": "!user.username.startsWith('system:')"}]);
    let setting = Setting::trusting(&[trusted]).await;
    let mut claims = provider.claims();
    assert_eq!(setting.name(&sign(&key, &claims)).await.as_deref(), Ok("ann"));
    claims["sub"] = json!("system:admin");
    assert_eq!(setting.name(&sign(&key, &claims)).await, Err(401));
}

#[tokio::test]
async fn a_new_key_is_found_and_a_flood_of_unknown_ones_costs_one_load() {
    let provider = Provider::start().await;
    let (old, new) = (key(), key());
    provider.publish(&[&old]);
    let unhurried = Pace { rest: Duration::from_millis(300), ..PACE };
    let setting = Setting::with(&[provider.trusted()], unhurried).await;
    setting.whoami(&sign(&old, &provider.claims())).await.expect("the first key");
    provider.publish(&[&new]);
    let token = sign(&new, &provider.claims());
    eventually("the new key is known", async || setting.whoami(&token).await.is_ok()).await;
    assert_eq!(setting.name(&sign(&old, &provider.claims())).await, Err(401), "the old one is taken back");
    let before = provider.asked().len();
    let stranger = key();
    for _ in 0..200 {
        assert_eq!(setting.name(&sign(&stranger, &provider.claims())).await, Err(401));
    }
    let loads = (provider.asked().len() - before) / 2;
    assert!(loads <= 2, "{loads} loads for one flood");
    setting.whoami(&token).await.expect("the good key is as good as before");
}

#[tokio::test]
async fn keys_are_good_while_the_issuer_is_down() {
    let provider = Provider::start().await;
    let known = key();
    provider.publish(&[&known]);
    let setting = Setting::trusting(&[provider.trusted()]).await;
    let token = sign(&known, &provider.claims());
    setting.whoami(&token).await.expect("a good token");
    provider.say(DISCOVERY, Reply { code: 503, ..Reply::ok("out of order") });
    let later = key();
    let before = provider.asked().len();
    eventually("the issuer is asked in vain", async || {
        assert_eq!(setting.name(&sign(&later, &provider.claims())).await, Err(401));
        provider.asked().len() > before
    })
    .await;
    setting.whoami(&token).await.expect("its keys are kept");
    provider.publish(&[&known, &later]);
    provider.recover();
    let token = sign(&later, &provider.claims());
    eventually("the issuer is back", async || setting.whoami(&token).await.is_ok()).await;
}

#[tokio::test]
async fn an_issuer_that_gives_no_keys_lets_nobody_in_and_holds_nobody_up() {
    let huge = "x".repeat(2 << 20);
    let elsewhere = Provider::start().await;
    let redirect =
        Reply { code: 302, location: Some(format!("{}{DISCOVERY}", elsewhere.url)), ..Reply::ok("") };
    let other_issuer = json!({"issuer": "https://other", "jwks_uri": "https://other/keys"}).to_string();
    for (what, path, reply) in [
        ("slow", DISCOVERY, slow()),
        ("slow keys", "/keys", slow()),
        ("redirecting", DISCOVERY, redirect.clone()),
        ("redirecting keys", "/keys", redirect),
        ("huge", DISCOVERY, Reply::ok(huge.clone())),
        ("huge keys", "/keys", Reply::ok(huge)),
        ("garbage", DISCOVERY, Reply::ok("<html>")),
        ("garbage keys", "/keys", Reply::ok("<html>")),
        ("of another", DISCOVERY, Reply::ok(other_issuer)),
        ("failing", "/keys", Reply { code: 500, ..Reply::ok("") }),
    ] {
        let provider = Provider::start().await;
        let key = key();
        provider.publish(&[&key]);
        provider.say(path, reply);
        let setting = Setting::trusting(&[provider.trusted()]).await;
        setting.client.get("/readyz").await;
        let token = sign(&key, &provider.claims());
        assert_eq!(setting.name(&token).await, Err(401), "{what}");
        provider.recover();
        eventually(what, async || setting.name(&token).await.is_ok()).await;
    }
    assert!(elsewhere.asked().is_empty(), "a redirect was followed");
}

#[tokio::test]
async fn an_issuer_is_trusted_only_by_its_authority() {
    let (provider, other) = (Provider::start().await, Provider::start().await);
    let key = key();
    provider.publish(&[&key]);
    let mut trusted = provider.trusted();
    trusted["issuer"]["certificateAuthority"] = other.trusted()["issuer"]["certificateAuthority"].clone();
    let setting = Setting::trusting(&[trusted.clone()]).await;
    assert_eq!(setting.name(&sign(&key, &provider.claims())).await, Err(401));
    // The system does not know it either.
    trusted["issuer"]["certificateAuthority"] = json!("");
    let setting = Setting::trusting(&[trusted]).await;
    assert_eq!(setting.name(&sign(&key, &provider.claims())).await, Err(401));
    assert!(provider.asked().is_empty());
}

#[tokio::test]
async fn a_server_is_ready_without_its_issuer() {
    let address = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address")
    };
    let provider = Provider::start().await;
    let mut absent = provider.trusted();
    absent["issuer"]["url"] = json!(format!("https://{address}"));
    let setting = Setting::trusting(&[absent]).await;
    let mut claims = provider.claims();
    claims["iss"] = json!(format!("https://{address}"));
    assert_eq!(setting.name(&sign(&key(), &claims)).await, Err(401));
    assert_eq!(setting.client.get("/readyz").await.code, 200, "the server is ready without it");
}

#[tokio::test]
async fn the_file_is_read_anew_and_a_bad_one_changes_nothing() {
    let provider = Provider::start().await;
    let key = key();
    provider.publish(&[&key]);
    let setting = Setting::trusting(&[provider.trusted()]).await;
    let token = sign(&key, &provider.claims());
    assert_eq!(setting.name(&token).await.as_deref(), Ok("oidc:ann"));
    assert_eq!((setting.metric("success").await, setting.metric("failure").await), (0, 0));

    let mut renamed = provider.trusted();
    renamed["claimMappings"]["username"]["prefix"] = json!("new:");
    setting.write(&configuration(&[renamed.clone()]));
    eventually("the new rules hold", async || setting.name(&token).await.as_deref() == Ok("new:ann")).await;
    assert_eq!(setting.metric("success").await, 1);

    renamed["claimMappings"]["username"] = json!({"expression": "claims."});
    setting.write(&configuration(&[renamed]));
    eventually("the bad file is noticed", async || setting.metric("failure").await == 1).await;
    assert_eq!(setting.name(&token).await.as_deref(), Ok("new:ann"), "the last good one stays");

    setting.write(&configuration(&[]));
    eventually("nobody is trusted", async || setting.name(&token).await == Err(401)).await;
    assert_eq!((setting.metric("success").await, setting.metric("failure").await), (2, 1));
    assert_eq!(provider.asked().len(), 2, "the issuer stayed where it was, so its keys stayed too");
}

#[tokio::test]
async fn anonymous_is_let_in_where_the_file_says() {
    let provider = Provider::start().await;
    let setting = Setting::trusting(&[provider.trusted()]).await;
    let nobody = setting.client.anonymous();
    let codes = async || {
        [nobody.get("/livez").await.code, nobody.get("/version").await.code, nobody.get("/api").await.code]
    };
    assert_eq!(codes().await, [200, 200, 403]);
    let mut file = configuration(&[]);
    file["anonymous"] = json!({"enabled": true, "conditions": [{"path": "/livez"}]});
    setting.write(&file);
    eventually("only health is open", async || codes().await == [200, 401, 401]).await;
    file["anonymous"] = json!({"enabled": false});
    setting.write(&file);
    eventually("nothing is open", async || codes().await == [401, 401, 401]).await;
    assert_eq!(setting.client.get("/livez").await.code, 200, "who is known may still look");
}
