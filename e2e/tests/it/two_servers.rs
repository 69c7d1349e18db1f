//! Two servers on one etcd: both answer, and the controllers of one of them act.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;
use windlass_e2e::{Server, eventually};

use crate::objects::{config, create, field, is_gone};

/// An etcd of a test's own.
struct Etcd {
    process: Child,
    url: String,
    _directory: TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Etcd {
    fn start() -> Self {
        let program = env::var_os("WINDLASS_ETCD").expect("run ./test, or name an etcd in WINDLASS_ETCD");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [client, peer] = [free(), free()];
        let (url, peers) = (format!("http://{client}"), format!("http://{peer}"));
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(directory.path());
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}")]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("an etcd");
        eventually(|| TcpStream::connect(&client).map_err(|error| error.to_string()));
        Etcd { process, url, _directory: directory }
    }
}

fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// How a controller is, as people are told.
fn state(server: &Server, controller: &str) -> String {
    let status = server.windlass("status");
    let line = status.lines().find(|line| line.starts_with(controller)).unwrap_or_default();
    line.trim_start_matches(controller).trim().to_owned()
}

#[test]
fn the_controllers_of_one_act_and_when_it_is_killed_those_of_the_other() {
    let etcd = Etcd::start();
    let quick = tempfile::NamedTempFile::new().expect("a file");
    let election =
        "leader-election: {enabled: true, lease-duration: 4s, renew-deadline: 2s, retry-period: 500ms}";
    fs::write(quick.path(), election).expect("the file is ours");
    let config_path = quick.path().to_string_lossy();
    let flags = ["--etcd-servers", &etcd.url, "--hub-config", &config_path];
    let mut first = Server::start_with(&flags);
    let becomes = |server: &Server, expected: &str| {
        eventually(|| match state(server, "namespace-controller") {
            state if state.starts_with(expected) => Ok(()),
            state => Err(state),
        });
    };
    becomes(&first, "working");
    let second = Server::start_with(&flags);
    becomes(&second, "waiting to lead");
    let fill_and_delete = |name: &str| {
        create(&second, &format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
        second.kubectl(&format!("create -n {name} -f -")).yaml(&config("content")).ok();
        second.kubectl(&format!("delete ns {name} --wait=false")).ok();
        is_gone(&second, &format!("ns {name}"));
    };
    fill_and_delete("before");
    let holder = |server: &Server| field(server, "lease -n kube-system", ".items[0].spec.holderIdentity");
    let leader = holder(&second);
    first.kill();
    fill_and_delete("after");
    assert_ne!(holder(&second), leader);
}
