//! A real etcd for one test: its own ports, its own directory, and every way of mistreating it.
//!
//! The binary is the one `WINDLASS_ETCD` names. Without that, tests say so and pass: `cargo test` alone needs
//! nothing but the toolchain, and `./test` always sets it. Start at [`EtcdServer::spawn`].

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use windlass_store::EtcdConfig;

use crate::etcd_probe::Probe;

/// How long anything in these tests may take before it counts as never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a state, and fails when it does not come.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One etcd process, killed on drop.
pub(crate) struct EtcdServer {
    binary: PathBuf,
    home: TempDir,
    client_port: u16,
    peer_port: u16,
    /// Part of what makes a cluster's identity.
    cluster_token: String,
    tls: Option<ServerTls>,
    child: Option<Child>,
}

/// Certificate files for the server, which then wants a certificate from its clients too.
#[derive(Clone)]
pub(crate) struct ServerTls {
    pub(crate) ca: String,
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl EtcdServer {
    /// Starts an empty etcd; `None`, with a line that says why, when there is no binary to start.
    pub(crate) async fn spawn() -> Option<Self> {
        let Some(binary) = env::var_os("WINDLASS_ETCD").map(PathBuf::from) else {
            println!("not run: set WINDLASS_ETCD to the path of an etcd binary, or run ./test");
            return None;
        };
        let hint = "run ./test, or apt-get install etcd-server";
        assert!(binary.exists(), "WINDLASS_ETCD names {}, which does not exist: {hint}", binary.display());
        let mut server = EtcdServer {
            binary,
            home: tempfile::tempdir().unwrap(),
            client_port: free_port(),
            peer_port: free_port(),
            cluster_token: "first".into(),
            tls: None,
            child: None,
        };
        server.start().await;
        Some(server)
    }

    /// The address for clients.
    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client_port)
    }

    /// Settings for a store on this server. No compaction: the tests read all of history.
    pub(crate) fn config(&self) -> EtcdConfig {
        let mut config = EtcdConfig::new([self.endpoint()]);
        config.compaction_interval = None;
        config
    }

    /// Another way to the same data.
    pub(crate) fn probe(&self) -> Probe {
        Probe::new(self.client_port)
    }

    /// Starts the server on its directory and waits until it answers.
    pub(crate) async fn start(&mut self) {
        assert!(self.child.is_none(), "etcd is running already");
        let log_path = self.home.path().join("log");
        let log = fs::File::options().create(true).append(true).open(&log_path).unwrap();
        let child = Command::new(&self.binary)
            .args(self.args())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let probe = self.probe();
        let plain = self.tls.is_none();
        eventually("etcd to answer", async || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "etcd ended: {}", fs::read_to_string(&log_path).unwrap());
            // What speaks TLS cannot be probed, but it only listens once it is ready.
            if plain { probe.revision().await.is_some() } else { probe.connects().await }
        })
        .await;
    }

    fn args(&self) -> Vec<String> {
        let client = self.endpoint();
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let mut args = vec![
            "--name=it".into(),
            format!("--data-dir={}", self.data_dir().display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=it={peer}"),
            format!("--initial-cluster-token={}", self.cluster_token),
            "--logger=zap".into(),
            "--log-level=warn".into(),
        ];
        if let Some(ServerTls { ca, cert, key }) = &self.tls {
            for (flag, name, pem) in [
                ("--trusted-ca-file", "ca.pem", ca),
                ("--cert-file", "cert.pem", cert),
                ("--key-file", "key.pem", key),
            ] {
                let path = self.home.path().join(name);
                fs::write(&path, pem).unwrap();
                args.push(format!("{flag}={}", path.display()));
            }
            args.push("--client-cert-auth".into());
        }
        args
    }

    /// Ends it without warning, as a power cut would.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("etcd is running");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it in good order.
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        self.child.take().expect("etcd is running").wait().unwrap();
    }

    /// Freezes it: connections stay open and nothing is answered.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("etcd is running");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// From the next start on, serve clients on another port, out of reach of those that know the old one.
    /// Returns the old one.
    pub(crate) fn move_to(&mut self, client_port: Option<u16>) -> u16 {
        std::mem::replace(&mut self.client_port, client_port.unwrap_or_else(free_port))
    }

    /// From the next start on, speak TLS.
    pub(crate) fn use_tls(&mut self, tls: ServerTls) {
        self.tls = Some(tls);
    }

    /// Copies the data of a server that is not running.
    pub(crate) fn backup(&self) -> TempDir {
        assert!(self.child.is_none(), "etcd is running");
        let backup = tempfile::tempdir().unwrap();
        copy_dir(&self.data_dir(), backup.path());
        backup
    }

    /// Replaces the data of a server that is not running.
    pub(crate) fn restore(&self, backup: &TempDir) {
        self.erase();
        copy_dir(backup.path(), &self.data_dir());
    }

    /// From the next start on, be another cluster that begins from nothing.
    pub(crate) fn replace_cluster(&mut self) {
        self.erase();
        self.cluster_token = "second".into();
    }

    fn erase(&self) {
        assert!(self.child.is_none(), "etcd is running");
        fs::remove_dir_all(self.data_dir()).unwrap();
    }

    fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
