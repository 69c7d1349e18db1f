//! curl over HTTP/2 and HTTP/1.1: it gives up on a stream that is reset while it sends, and so shows which answers do not
//! arrive.

use std::{env, fs, process::Command};

use windlass_e2e::Server;

const HINT: &str = "run ./test, which installs curl, or name one that speaks HTTP/2 in WINDLASS_CURL";

/// What curl shows to be known as the administrator.
const ADMIN: &[&str] = &["--cert", "data/pki/admin.crt", "--key", "data/pki/admin.key"];

/// What no server is to read to its end.
const LARGE: &str = "large";

/// The version of HTTP and the code of the answer, which must have come as a whole.
fn curl(server: &Server, path: &str, arguments: &[&str]) -> String {
    let program = env::var_os("WINDLASS_CURL").filter(|path| !path.is_empty());
    let mut command = Command::new(program.unwrap_or_else(|| "curl".into()));
    command.current_dir(server.directory()).args(["-sS", "--max-time", "30", "--cacert", "data/pki/ca.crt"]);
    command.args(["-o", "/dev/null", "-w", "%{http_version} %{http_code}"]).args(arguments);
    command.arg(format!("https://{}{path}", server.address()));
    let output = command.output().unwrap_or_else(|error| panic!("curl does not start: {error}: {HINT}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path} {arguments:?}: {}: {said}: {HINT}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn early_answers_reach_curl_whatever_it_sends() {
    let server = super::alone();
    for (name, n_bytes) in [(LARGE, 4 << 20), ("taken", 2 << 20)] {
        fs::write(server.directory().join(name), vec![b'x'; n_bytes]).expect("the directory is ours");
    }
    let namespaces = "/api/v1/namespaces";
    let json = "content-type: application/json";
    for (who, path, header, body, code) in [
        (ADMIN, namespaces, json, LARGE, 413),
        (ADMIN, "/nothing", json, LARGE, 404),
        (ADMIN, "/version", json, LARGE, 405),
        (ADMIN, namespaces, "content-type: text/plain", "taken", 415),
        (ADMIN, namespaces, json, "taken", 400),
        (&[][..], namespaces, json, LARGE, 403),
        (&[], "/nothing", json, LARGE, 403),
        (&["-H", "authorization: Bearer nobody"], namespaces, json, LARGE, 401),
    ] {
        for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
            // With an empty one, curl does not wait to be asked for what it sends.
            for expect in ["Expect:", "Expect: 100-continue"] {
                let data = format!("@{body}");
                let sends = [flag, "-X", "POST", "-H", header, "-H", expect, "--data-binary", &data];
                let answer = curl(&server, path, &[who, &sends].concat());
                assert_eq!(answer, format!("{version} {code}"), "{path} {who:?} {expect}");
            }
        }
    }
}

#[test]
fn curl_is_answered_without_a_body_where_it_asks_for_none() {
    let server = super::alone();
    for (path, code) in
        [("/healthz", 200), ("/livez/ping", 200), ("/version", 200), ("/api", 200), ("/nothing", 404)]
    {
        for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
            let answer = curl(&server, path, &[ADMIN, &[flag, "-I"]].concat());
            assert_eq!(answer, format!("{version} {code}"), "{path}");
        }
    }
}
