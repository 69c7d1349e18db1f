//! `windlass up`: what scripts and people rely on when it starts and when it ends.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    server::{Kubeconfig, Server, kubeconfig},
    support::{stderr, stdout, windlass},
};

const READY: &str = "HTTP/1.0 200 OK";

fn here() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|_| panic!("no {}", path.display())).permissions().mode() & 0o777
}

#[test]
fn when_it_is_ready_everything_is_in_the_directory_and_private() {
    let here = here();
    let server = Server::start(here.path(), &["up"]);
    let data_dir = here.path().join("windlass-data");
    for (name, expected) in [
        ("", 0o700),
        ("pki", 0o700),
        ("store", 0o700),
        ("admin.kubeconfig", 0o600),
        ("endpoints.json", 0o600),
        ("pki/ca.key", 0o600),
        ("pki/apiserver.key", 0o600),
        ("pki/admin.key", 0o600),
        ("pki/encryption.yaml", 0o600),
        ("pki/ca.crt", 0o644),
        ("pki/apiserver.crt", 0o644),
        ("pki/admin.crt", 0o644),
    ] {
        assert_eq!(mode(&data_dir.join(name)), expected, "{name}");
    }
    assert_eq!(
        server.endpoints.keys().collect::<Vec<_>>(),
        ["apiserver", "controllers", "opensergo", "opensergo-status"]
    );
    assert!(server.endpoints["apiserver"].starts_with("https://127.0.0.1:"), "{:?}", server.endpoints);
}

#[test]
fn the_banner_says_where_it_is_and_what_to_type() {
    let here = here();
    let server = Server::start(here.path(), &["up"]);
    for expected in [
        server.endpoints["apiserver"].as_str(),
        "./windlass-data",
        "kubectl --kubeconfig ./windlass-data/admin.kubeconfig get ns",
    ] {
        assert!(server.banner.contains(expected), "{}", server.banner);
    }
}

#[test]
fn without_a_command_it_is_up() {
    let here = here();
    assert!(Server::start(here.path(), &[]).banner.contains("is ready"));
    assert!(Server::start(here.path(), &["-v", "--without", "console,gateway"]).banner.contains("is ready"));
}

#[test]
fn the_api_server_alone_keeps_the_same_contract() {
    let here = here();
    let server = Server::start(here.path(), &["apiserver"]);
    let admin = Kubeconfig::read(here.path());
    assert_eq!(admin.server, server.endpoints["apiserver"]);
    assert_eq!(admin.get(server.address(), "127.0.0.1", "/readyz").expect("an answer"), READY);
    assert_eq!(server.end(Signal::TERM), Some(0));
}

#[test]
fn bad_flags_exit_with_64_and_are_named() {
    let here = here();
    for (flags, named, expected) in [
        ("up --request-timeout soon", "--request-timeout", "such as 60s"),
        ("up --without kitchen", "--without", "console"),
        ("up --with kitchen", "--with", "samples"),
        ("up --with samples,kitchen", "--with", "samples"),
        ("up --secure-port none", "--secure-port", "invalid digit"),
        ("apiserver --bind-address localhost", "--bind-address", "expected an IP address"),
        ("up --bind-address 192.0.2.1", "--bind-address 192.0.2.1", "an address of this machine"),
        ("up --backend etcd", "--backend etcd", "--etcd-servers"),
        ("--log-format yaml", "--log-format", "json"),
        ("up --hub-config none.yaml", "--hub-config none.yaml", "No such file"),
        ("hub --config none.yaml", "--config none.yaml", "No such file"),
        ("hub --kubeconfig none", "--kubeconfig none", "failed to read kubeconfig"),
        ("reconciler bar", "bar: expected one of", "redis-migration"),
        ("reconciler foo --graph", "foo", "no phases"),
        ("reconciler redis-migration --graph png", "--graph", "mermaid, dot"),
        ("--frobnicate", "--frobnicate", "Usage"),
        (
            "up --etcd-servers https://a --etcd-cafile none.pem",
            "--etcd-cafile none.pem",
            "expected a PEM file",
        ),
    ] {
        let told = stderr(windlass(here.path()).args(flags.split(' ')), 64);
        assert!(told.contains(named) && told.contains(expected), "{flags}: {told}");
    }
    fs::write(here.path().join("file"), "").expect("written");
    let told = stderr(windlass(here.path()).args(["--data-dir", "file"]), 64);
    assert!(told.contains("--data-dir file: expected a directory"), "{told}");
}

#[test]
fn a_second_process_is_refused_and_told_who_has_the_directory() {
    let here = here();
    let server = Server::start(here.path(), &["up"]);
    let told = stderr(windlass(here.path()).args(["up", "--secure-port", "0"]), 1);
    assert!(told.contains("./windlass-data is in use by another process"), "{told}");
    assert!(told.contains(&format!("process {}", server.pid())), "{told}");
    assert!(here.path().join("windlass-data/endpoints.json").exists(), "the first one is still ready");
    let admin = Kubeconfig::read(here.path());
    assert_eq!(admin.get(server.address(), "127.0.0.1", "/readyz").expect("an answer"), READY);
}

#[test]
fn a_port_in_use_is_named_with_the_flag_to_change() {
    let here = here();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let told = stderr(windlass(here.path()).args(["up", "--secure-port", &port]), 1);
    assert!(told.contains(&format!("127.0.0.1:{port}: address already in use")), "{told}");
    assert!(told.contains("--secure-port"), "{told}");
}

#[test]
fn a_signal_ends_it_with_0_and_lets_go_of_everything() {
    let here = here();
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(here.path(), &["up"]);
        assert_eq!(server.end(signal), Some(0));
        assert!(!here.path().join("windlass-data/endpoints.json").exists(), "nothing is ready any more");
        stdout(windlass(here.path()).args(["store", "check"]), 0);
    }
}

#[test]
fn a_killed_one_is_no_obstacle_to_the_next() {
    let here = here();
    assert_eq!(Server::start(here.path(), &["up"]).end(Signal::KILL), None);
    let told = stderr(windlass(here.path()).arg("status"), 1);
    assert!(told.contains("no answer from https://127.0.0.1:"), "{told}");
    assert_eq!(Server::start(here.path(), &["up"]).end(Signal::TERM), Some(0));
}

#[test]
fn a_restart_keeps_the_authority_and_every_kubeconfig() {
    let here = here();
    Server::start(here.path(), &["up"]).end(Signal::TERM);
    let from_before = Kubeconfig::read(here.path());
    let ca = fs::read(here.path().join("windlass-data/pki/ca.crt")).expect("a certificate");
    let server = Server::start(here.path(), &["up"]);
    assert_eq!(fs::read(here.path().join("windlass-data/pki/ca.crt")).expect("a certificate"), ca);
    assert_eq!(from_before.get(server.address(), "localhost", "/readyz").expect("an answer"), READY);
}

#[test]
fn a_new_name_renews_the_servers_certificate() {
    let here = here();
    let server = Server::start(here.path(), &["up"]);
    let admin = Kubeconfig::read(here.path());
    let refused = admin.get(server.address(), "api.example.org", "/readyz").expect_err("not its name");
    assert!(refused.contains("not valid for name"), "{refused}");
    assert_eq!(server.end(Signal::TERM), Some(0));
    let server = Server::start(here.path(), &["up", "--tls-san", "api.example.org,10.1.2.3"]);
    for name in ["api.example.org", "10.1.2.3", "kubernetes.default.svc", "::1"] {
        assert_eq!(admin.get(server.address(), name, "/readyz").expect(name), READY);
    }
}

#[test]
fn client_certificates_are_optional_but_must_be_ours() {
    let (here, elsewhere) = (here(), here());
    let server = Server::start(here.path(), &["up"]);
    Server::start(elsewhere.path(), &["up"]).end(Signal::TERM);
    let admin = Kubeconfig::read(here.path());
    assert_eq!(admin.get_as_nobody(server.address(), "localhost", "/readyz").expect("an answer"), READY);
    let stranger = admin.with_certificate_of(&Kubeconfig::read(elsewhere.path()));
    assert_eq!(admin.get(server.address(), "localhost", "/readyz").expect("an answer"), READY);
    // What the client sees is an alert or, if the connection is gone before it reads that, a reset.
    stranger.get(server.address(), "localhost", "/readyz").expect_err("another authority has signed it");
}

#[test]
fn a_server_on_every_address_is_reached_on_loopback() {
    let here = here();
    let server = Server::start(here.path(), &["up", "--bind-address", "0.0.0.0"]);
    assert!(server.endpoints["apiserver"].starts_with("https://127.0.0.1:"), "{:?}", server.endpoints);
    assert_eq!(Kubeconfig::read(here.path()).server, server.endpoints["apiserver"]);
}

#[test]
fn a_damaged_authority_is_named_and_nothing_is_replaced() {
    let here = here();
    Server::start(here.path(), &["up"]).end(Signal::TERM);
    let path = here.path().join("windlass-data/pki/ca.crt");
    fs::write(&path, "rubbish").expect("written");
    let told = stderr(windlass(here.path()).args(["up", "--secure-port", "0"]), 1);
    assert!(told.contains("pki/ca.crt is damaged"), "{told}");
    assert_eq!(fs::read(&path).expect("a file"), b"rubbish");
}

#[test]
fn status_and_kubeconfig_tell_what_there_is() {
    let here = here();
    for command in ["status", "kubeconfig"] {
        let told = windlass(here.path()).arg(command).output().expect("the binary starts");
        assert_ne!(told.status.code(), Some(0), "nothing has been started");
    }
    let server = Server::start(here.path(), &["up"]);
    let told = stdout(windlass(here.path()).arg("status"), 0);
    assert!(told.contains(&server.endpoints["apiserver"]) && told.ends_with("ready\n"), "{told}");
    let printed = stdout(windlass(here.path()).arg("kubeconfig"), 0);
    assert_eq!(printed, fs::read_to_string(kubeconfig(here.path())).expect("a kubeconfig"));
    let path = stdout(windlass(here.path()).args(["kubeconfig", "--path"]), 0);
    assert_eq!(Path::new(path.trim_end()), kubeconfig(here.path()).canonicalize().expect("it is there"));
    assert_eq!(server.end(Signal::TERM), Some(0));
    let told = stderr(windlass(here.path()).arg("status"), 1);
    assert!(told.contains("windlass up --data-dir ./windlass-data"), "{told}");
}

#[test]
fn help_shows_how_to_begin() {
    let here = here();
    let told = stdout(windlass(here.path()).arg("--help"), 0);
    assert!(told.contains("up ") && told.contains("apiserver") && told.contains("windlass status"), "{told}");
    let told = stdout(windlass(here.path()).args(["up", "--help"]), 0);
    for flag in
        ["--data-dir", "--secure-port", "--etcd-servers", "--request-timeout", "--without", "Examples:"]
    {
        assert!(told.contains(flag), "{flag} is not in {told}");
    }
}

#[test]
fn a_configuration_of_the_hub_that_is_wrong_exits_with_64_and_the_field_is_named() {
    let here = here();
    for (text, expected) in [
        ("reconcilers: {foo: {worker: 4}}", "unknown field `worker`"),
        ("reconcilers: {bar: {}}", "there is no reconciler \"bar\""),
        ("leader-election: {enabled: true, lease-duration: 1s}", "lease"),
        ("reconcilers: {}\nreconcilers: {}", "twice"),
        ("[]", "expected"),
        ("reconcilers: {foo: {timeout: soon}}", "expected a duration"),
    ] {
        fs::write(here.path().join("hub.yaml"), text).expect("written");
        let flags = ["up", "--secure-port", "0", "--hub-config", "hub.yaml", "--with", "samples"];
        let told = stderr(windlass(here.path()).args(flags), 64);
        assert!(told.contains("hub.yaml") && told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn a_configuration_of_samples_that_do_not_run_is_refused_with_the_flag_that_runs_them() {
    let here = here();
    fs::write(here.path().join("hub.yaml"), "reconcilers: {foo: {workers: 4}}").expect("written");
    let flags = ["up", "--secure-port", "0", "--hub-config", "hub.yaml"];
    let told = stderr(windlass(here.path()).args(flags), 64);
    assert!(told.contains("foo") && told.contains("--with samples"), "{told}");
}

#[test]
fn the_kinds_and_the_phases_that_are_bundled_are_printed() {
    let here = here();
    let kinds = stdout(windlass(here.path()).arg("crds"), 0);
    let rules = windlass_opensergo::kinds::KINDS.iter().map(|kind| format!("{}.{}", kind.plural, kind.group));
    let samples = ["foos.samplecontroller.k8s.io", "networks.samplecrd.k8s.io", "ats.demo.wukong.com"];
    for name in samples.map(str::to_owned).into_iter().chain(rules) {
        assert!(kinds.contains(&format!("name: {name}")), "{kinds}");
    }
    let graph = ["reconciler", "redis-migration", "--graph"];
    let mermaid = stdout(windlass(here.path()).args(graph), 0);
    assert!(mermaid.starts_with("stateDiagram-v2") && mermaid.contains("Precheck --> Migrate"), "{mermaid}");
    let dot = stdout(windlass(here.path()).args(graph).arg("dot"), 0);
    assert!(dot.starts_with("digraph"), "{dot}");
}
