//! The audit log: what is written down of what people do with kubectl.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;
use windlass_e2e::Server;

const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ['/openapi*', '/api*']
- level: RequestResponse
  resources: [{resources: [configmaps, secrets]}]
  namespaces: [told]
- level: Request
";

/// A server whose audit log is in a folder that outlives it.
fn audited(more: &[&str]) -> (Server, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("logs/audit.log"));
    fs::write(&policy, POLICY).expect("a file");
    let (policy, log) = (policy.display().to_string(), log.display().to_string());
    // What controllers do is written down, too, and would be in the way.
    let quiet = ["--without", "housekeeping,hub", "--audit-policy-file", &policy, "--audit-log-path", &log];
    let flags = [&quiet[..], more].concat();
    (Server::start_with(&flags), folder)
}

/// Every line of every file, oldest first.
fn events(folder: &Path) -> Vec<Value> {
    let files = fs::read_dir(folder.join("logs")).expect("a folder");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    // A file that was put aside has its time in its name, which comes before the dot of the current one.
    files.sort();
    let lines = files.iter().flat_map(|file| {
        let text = fs::read_to_string(file).expect("text");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn about<'a>(events: &'a [Value], resource: &str, verb: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["objectRef"]["resource"] == resource && event["verb"] == verb)
        .collect()
}

#[test]
fn what_is_done_with_kubectl_is_written_down() {
    let (mut server, folder) = audited(&[]);
    server.kubectl("create namespace told").ok();
    server.kubectl("create configmap a --from-literal=k=v -n told").ok();
    server.kubectl("get configmap a -n told -o yaml").ok();
    server.kubectl("create secret generic s --from-literal=k=canary-of-the-log").ok();
    server.kubectl("create secret generic s --from-literal=k=told-on-purpose -n told").ok();
    server.kubectl("get secrets -A").ok();
    server.kubectl("delete configmap a -n told").ok();
    server.kubectl("get configmap a -n told").fails();
    server.stop();
    let events = events(folder.path());
    let created = about(&events, "configmaps", "create");
    let told: Vec<_> = created.iter().filter(|event| event["objectRef"]["namespace"] == "told").collect();
    let [created] = told[..] else { panic!("{told:?}") };
    assert_eq!(created["requestObject"]["data"]["k"], "v");
    assert_eq!(created["responseObject"]["metadata"]["name"], "a");
    assert_eq!(created["sourceIPs"], serde_json::json!(["127.0.0.1"]));
    assert!(created["userAgent"].as_str().is_some_and(|agent| agent.starts_with("kubectl")), "{created}");
    assert_eq!(created["annotations"]["authorization.k8s.io/decision"], "allow");
    let [deleted] = about(&events, "configmaps", "delete")[..] else { panic!("one was deleted") };
    assert_eq!(deleted["responseStatus"]["code"], 200);
    let missing = about(&events, "configmaps", "get");
    assert!(missing.iter().any(|event| event["responseStatus"]["code"] == 404), "{missing:?}");
    let text = Value::from(events).to_string();
    assert!(!text.contains("canary-of-the-log") && !text.contains("Y2FuYXJ5LW9mLXRoZS1sb2c"), "{text}");
    assert!(text.contains("dG9sZC1vbi1wdXJwb3Nl"), "a rule asks for it");
}

#[test]
fn a_large_log_is_put_aside_and_nothing_is_lost() {
    for mode in ["blocking", "batch"] {
        let (mut server, folder) = audited(&["--audit-log-maxsize", "1", "--audit-log-mode", mode]);
        server.write("large.txt", &"x".repeat(400_000));
        for number in 0..4 {
            server.kubectl(&format!("create configmap large-{number} --from-file=large.txt")).ok();
        }
        server.stop();
        let files = fs::read_dir(folder.path().join("logs")).expect("a folder").count();
        assert!(files >= 2, "{mode}: {files}");
        let events = events(folder.path());
        let created = about(&events, "configmaps", "create");
        let names: Vec<&str> =
            created.iter().filter_map(|event| event["objectRef"]["name"].as_str()).collect();
        assert_eq!(names, ["large-0", "large-1", "large-2", "large-3"], "{mode}");
    }
}
