//! `windlass opensergo translate`: what scripts rely on.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::support::{stderr, stdout, windlass};

const RIGHT: &str = "apiVersion: fault-tolerance.opensergo.io/v1alpha1
kind: ThrottlingStrategy
metadata: {name: pace, namespace: shop, labels: {app: orders}}
spec: {minIntervalOfRequests: 20ms, queueTimeout: 5s}
";

const WRONG: &str = "apiVersion: fault-tolerance.opensergo.io/v1alpha1
kind: ThrottlingStrategy
metadata: {name: wrong, labels: {app: orders}}
spec: {minIntervalOfRequests: often, queueTimeout: 5s, queue: long}
";

fn here(files: &[(&str, &str)]) -> TempDir {
    let here = tempfile::tempdir().expect("a temporary directory");
    for (name, text) in files {
        fs::write(here.path().join(name), text).expect("the directory is ours");
    }
    here
}

fn translate(here: &Path, line: &str) -> Command {
    let mut command = windlass(here);
    command.args(["opensergo", "translate"]).args(line.split(' '));
    command
}

#[test]
fn rules_of_several_files_are_printed_in_order() {
    let both = format!("# two\n---\n{RIGHT}---\n{}", RIGHT.replace("name: pace", "name: hurry"));
    let here = here(&[("one.yaml", RIGHT), ("two.yaml", &both)]);
    let printed = stdout(&mut translate(here.path(), "-f one.yaml -f two.yaml"), 0);
    let title = |name: &str| format!("# ThrottlingStrategy shop/{name}\n");
    let message = |name: &str| {
        format!(
            "[type.googleapis.com/io.opensergo.proto.fault_tolerance.v1.ThrottlingStrategy] {{
  name: \"{name}\"
  min_interval_millis_of_requests: 20
  queue_timeout_millis: 5000
}}
"
        )
    };
    let expected: String = ["pace", "pace", "hurry"].map(|name| title(name) + &message(name)).concat();
    assert_eq!(printed, expected);
}

#[test]
fn json_comes_from_the_standard_input() {
    let here = here(&[]);
    let mut command = translate(here.path(), "-f - -o json");
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary starts");
    running.stdin.take().expect("a pipe").write_all(RIGHT.as_bytes()).expect("it reads");
    let output = running.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["minIntervalMillisOfRequests"], "20");
    assert_eq!(
        printed["@type"],
        "type.googleapis.com/io.opensergo.proto.fault_tolerance.v1.ThrottlingStrategy"
    );
}

#[test]
fn a_rule_that_is_wrong_exits_with_1_and_the_others_are_printed() {
    let here = here(&[("both.yaml", &format!("{WRONG}---\n{RIGHT}"))]);
    let mut command = translate(here.path(), "-f both.yaml");
    let told = stderr(&mut command, 1);
    for line in [
        "warning: both.yaml: ThrottlingStrategy wrong: spec.queue: unknown field",
        "both.yaml: ThrottlingStrategy wrong: spec.minIntervalOfRequests: expected a duration",
        "error: 1 of 2 rules cannot be sent",
    ] {
        assert!(told.contains(line), "{line} is not in {told}");
    }
    assert!(stdout(&mut command, 1).starts_with("# ThrottlingStrategy shop/pace\n"));
}

#[test]
fn what_cannot_be_read_exits_with_64_and_is_named() {
    let here = here(&[
        ("pod.yaml", "apiVersion: v1\nkind: Pod\n"),
        ("empty.yaml", "# nothing\n---\n"),
        ("torn.yaml", "---\nkind: [\n"),
        ("twice.yaml", "kind: a\nkind: b\n"),
        ("named.yaml", &RIGHT.replace("name: pace", "name: [pace]")),
    ]);
    for (line, expected) in [
        ("-f none.yaml", "none.yaml: No such file"),
        ("-f empty.yaml", "empty.yaml: there are no rules in it"),
        ("-f pod.yaml", "pod.yaml: v1/Pod: expected one of these kinds"),
        ("-f torn.yaml", "torn.yaml: error converting YAML to JSON: yaml: line 2"),
        ("-f twice.yaml", "twice.yaml: kind is given twice"),
        ("-f named.yaml", "metadata: "),
        ("-o json", "--filename"),
        ("-f pod.yaml -o xml", "--output"),
    ] {
        let told = stderr(&mut translate(here.path(), line), 64);
        assert!(told.contains(expected), "{line}: {expected} is not in {told}");
    }
}

#[test]
fn what_is_wrong_with_a_control_plane_exits_with_64_and_is_named() {
    let here = here(&[("file", "")]);
    for (line, expected) in [
        ("--kubeconfig none.yaml", "--kubeconfig none.yaml: "),
        ("--rules-dir none", "--rules-dir none: expected a directory"),
        ("--rules-dir file", "--rules-dir file: expected a directory"),
        ("--rules-dir . --kubeconfig file", "--kubeconfig"),
        ("--rules-dir . --opensergo-require-auth --opensergo-port 0", "--opensergo-require-auth: "),
        (
            "--opensergo-debounce 1s --opensergo-debounce-max 10ms",
            "--opensergo-debounce-max 10ms: expected no less",
        ),
        ("--opensergo-send-timeout 0", "--opensergo-send-timeout 0: expected a duration above zero"),
        ("--opensergo-identity Mine!", "--opensergo-identity \"Mine!\": expected"),
        ("--opensergo-identity a-.b", "--opensergo-identity \"a-.b\": expected"),
        ("--opensergo-tls-cert-file file", "--opensergo-tls-private-key-file"),
        (
            "--rules-dir . --opensergo-port 0 --opensergo-tls-cert-file file --opensergo-tls-private-key-file file",
            "--opensergo-tls-cert-file file, --opensergo-tls-private-key-file file: there is no certificate",
        ),
        ("--opensergo-port 70000", "--opensergo-port"),
        ("status --url foo", "--url foo: expected an address such as"),
        ("status --url https://127.0.0.1:1", "--url https://127.0.0.1:1: expected an address such as"),
    ] {
        let told = stderr(windlass(here.path()).arg("opensergo").args(line.split(' ')), 64);
        assert!(told.contains(expected), "{line}: {expected} is not in {told}");
    }
}

/// Whatever listens there, a person is told within seconds that it is not what it should be.
#[test]
fn whoever_never_ends_an_answer_is_not_waited_for() {
    let here = here(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://localhost:{}", listener.local_addr().expect("an address").port());
    let drips = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("somebody asks");
        while socket.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let told = stderr(windlass(here.path()).args(["opensergo", "status", "--url", &url]), 1);
    assert!(told.contains("it has not answered within 5 s"), "{told}");
    drips.join().expect("it ends when nobody listens");
}
