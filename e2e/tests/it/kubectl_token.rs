//! Tokens as people get and show them: `kubectl create token`, `kubectl --token`, a token file that changes under a
//! running server, and `windlass token`.

use std::{
    fs,
    time::{Duration, Instant},
};

use windlass_e2e::{Server, eventually};

use crate::objects::contains;

const UNAUTHORIZED: &str = "You must be logged in to the server";

/// kubectl with nothing to show but a token.
fn with_token(server: &Server, token: &str, line: &str) -> windlass_e2e::Ran {
    let kubeconfig = server.kubeconfig_with_token(token.trim());
    server.kubectl(line).env("KUBECONFIG", kubeconfig.to_str().expect("text")).run()
}

/// Who the server says that whoever shows this is not allowed to do.
fn known_as(server: &Server, token: &str) -> String {
    with_token(server, token, "get secrets").stderr
}

#[test]
fn create_token_gives_a_token_that_ends_with_what_it_is_bound_to() {
    let server = Server::start();
    server.kubectl("create serviceaccount robot").ok();
    server.kubectl("create secret generic drawer").ok();
    let plain = server.kubectl("create token robot --duration 20m").ok();
    contains(&known_as(&server, &plain), &["Forbidden", "system:serviceaccount:default:robot"]);
    let bound =
        server.kubectl("create token robot --bound-object-kind Secret --bound-object-name drawer").ok();
    contains(&known_as(&server, &bound), &["Forbidden"]);
    let elsewhere = server.kubectl("create token robot --audience vault").ok();
    contains(&known_as(&server, &elsewhere), &[UNAUTHORIZED]);
    contains(&server.kubectl("create token robot --duration 5m").fails(), &["10 minutes"]);
    contains(&server.kubectl("create token nobody").fails(), &["not found"]);

    server.kubectl("delete secret drawer").ok();
    contains(&known_as(&server, &bound), &[UNAUTHORIZED]);
    contains(&known_as(&server, &plain), &["Forbidden"]);
    server.kubectl("delete serviceaccount robot").ok();
    contains(&known_as(&server, &plain), &[UNAUTHORIZED]);
}

#[test]
fn tokens_of_service_accounts_outlive_a_restart() {
    let mut server = Server::start();
    server.kubectl("create serviceaccount robot").ok();
    let token = server.kubectl("create token robot").ok();
    server.restart();
    contains(&known_as(&server, &token), &["system:serviceaccount:default:robot"]);
    let keys = server.kubectl("get --raw /openid/v1/jwks").ok();
    contains(&keys, &["\"kty\":\"EC\"", "\"alg\":\"ES256\""]);
    contains(&server.kubectl("get --raw /.well-known/openid-configuration").ok(), &["jwks_uri", "ES256"]);
}

#[test]
fn a_token_file_is_taken_up_while_the_server_runs() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("tokens.csv");
    fs::write(&file, "canary-one,jane,7,system:masters\n").expect("the folder is ours");
    let server = Server::start_with(&["--token-auth-file", file.to_str().expect("text"), "-v"]);
    assert_eq!(with_token(&server, "canary-one", "get ns default -o name").stdout, "namespace/default\n");
    // With the administrator's kubeconfig as well, kubectl shows both, and the certificate goes first.
    server.kubectl("get ns --token nonsense").ok();

    fs::write(&file, "canary-one,jane,7,system:masters\ncanary-two,joe\n").expect("the folder is ours");
    eventually(|| match server.logged().contains("the last good one stays") {
        true => Ok(()),
        false => Err("the server has not looked at the file".to_owned()),
    });
    contains(
        &server.logged(),
        &["must have at least 3 columns (token, user name, user uid), found 2", "line=2"],
    );
    assert_eq!(with_token(&server, "canary-one", "get ns default").code, 0);

    fs::write(&file, "canary-two,joe,8,\"devs,system:masters\"\n").expect("the folder is ours");
    eventually(|| match with_token(&server, "canary-two", "get ns default").code {
        0 => Ok(()),
        code => Err(format!("the new token is not taken: {code}")),
    });
    contains(&with_token(&server, "canary-one", "get ns").stderr, &[UNAUTHORIZED]);
    assert!(!server.logged().contains("canary"), "{}", server.logged());
}

#[test]
fn windlass_makes_tokens_and_takes_them_back() {
    let server = Server::start();
    let jane = server.windlass("token create --user jane --group system:masters --allow-system --ttl 10m");
    let jim = server.windlass("token create --user jim --group devs");
    eventually(|| match with_token(&server, &jane, "get ns default").code {
        0 => Ok(()),
        code => Err(format!("the token is not taken: {code}")),
    });
    contains(&known_as(&server, &jim), &["Forbidden", "User \"jim\""]);
    let gone = |token: &str| match known_as(&server, token) {
        said if said.contains(UNAUTHORIZED) => Ok(()),
        said => Err(format!("the token is still good: {said}")),
    };
    assert_eq!(server.windlass(&format!("token revoke {}", jane.trim())), "");
    eventually(|| gone(&jane));
    contains(&known_as(&server, &jim), &["Forbidden"]);
    fs::remove_file(server.directory().join("data/pki/token.key")).expect("it was made");
    eventually(|| gone(&jim));

    server.kubectl("create serviceaccount robot").ok();
    let robot = server.windlass("token create --service-account default/robot");
    contains(&known_as(&server, &robot), &["system:serviceaccount:default:robot"]);
    let elsewhere = server.windlass("token create --service-account default/robot --audience vault");
    contains(&known_as(&server, &elsewhere), &[UNAUTHORIZED]);
}

#[test]
fn kubectl_can_be_kept_out_or_made_to_bring_a_token_that_ends_soon() {
    let server = Server::start_with(&["--kubectl-disabled"]);
    // As long as kubectl does not know what is served, it keeps to itself what it was told.
    let refused = "the server has asked for the client to provide credentials";
    contains(&server.kubectl("get ns").fails(), &[refused]);
    drop(server);
    let server = Server::start_with(&["--kubectl-ephemeral-token", "--kubectl-ephemeral-duration", "20m"]);
    contains(&server.kubectl("get ns").fails(), &[refused]);
    let make = |life: &str| {
        server
            .windlass(&format!("token create --user jane --group system:masters --allow-system --ttl {life}"))
    };
    let (short, long) = (make("15m"), make("30m"));
    eventually(|| match with_token(&server, &short, "get ns default").code {
        0 => Ok(()),
        code => Err(format!("the token is not taken: {code}")),
    });
    let told = with_token(&server, &long, "get ns").stderr;
    contains(&told, &["kubectl needs an ephemeral token, and this one expires too late"]);
}

#[test]
fn a_watch_ends_soon_after_its_token_has_expired() {
    /// How long the token lasts, how far clocks may differ, and how often it is looked at.
    const MOST: Duration = Duration::from_secs(5 + 5 + 4);
    let server = Server::start();
    let create = "token create --user jane --group system:masters --allow-system";
    let lasting = server.windlass(create);
    eventually(|| match with_token(&server, &lasting, "get ns") {
        ran if ran.code == 0 => Ok(()),
        ran => Err(format!("the server does not know the key yet: {}", ran.stderr)),
    });
    let token = server.windlass(&format!("{create} --ttl 5s"));
    let begun = Instant::now();
    let kubeconfig = server.kubeconfig_with_token(token.trim());
    let watch = server.kubectl("get ns --watch").env("KUBECONFIG", kubeconfig.to_str().expect("text"));
    let (shown, _) = watch.spawn().finish();
    let took = begun.elapsed();
    contains(&shown, &["kube-system"]);
    // A busy machine takes its time to see it.
    assert!(took < MOST + Duration::from_secs(8), "it took {took:?}");
}
