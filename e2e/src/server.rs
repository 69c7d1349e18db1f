//! A server of a test's own: `windlass up` in a directory that goes away with it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    binary,
    kubectl::{Kubectl, yaml},
    process::Running,
    words,
};

/// A running server. When dropped it is told to end, and must do so with exit code 0.
#[derive(Debug)]
pub struct Server {
    directory: TempDir,
    flags: Vec<String>,
    address: String,
    opensergo: String,
    running: Option<Running>,
}

impl Server {
    /// Starts `windlass up` on a free port and waits until it says that it is ready.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more flags.
    #[must_use]
    #[track_caller]
    pub fn start_with(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let (address, opensergo) = ("127.0.0.1:0".to_owned(), "127.0.0.1:0".to_owned());
        let mut server = Self { directory, flags, address, opensergo, running: None };
        server.spawn();
        server
    }

    /// Ends it and starts it again on the same data and the same port.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.spawn();
    }

    /// Starts one that was ended, on the same data and the same port.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.spawn();
    }

    /// Takes these flags from the next start on.
    pub fn set_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    }

    /// Runs the binary with these words, in the server's directory, until it ends.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(binary::windlass());
        command.args(words).current_dir(self.directory.path());
        command.output().expect("the binary under test")
    }

    /// Starts the binary with these words, in the server's directory, and goes on. What it logs is in `LOG`.
    #[track_caller]
    pub fn start_beside(&self, line: &str, log: &str) -> Running {
        let log = File::options().create(true).append(true).open(self.directory.path().join(log));
        let mut command = Command::new(binary::windlass());
        command.args(words::split(line)).current_dir(self.directory.path());
        Running::spawn(command.stderr(log.expect("the directory is ours")), "the binary under test")
    }

    /// Kills it without a warning and starts it again on the same data and the same port.
    #[track_caller]
    pub fn crash(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Kills it without a warning.
    #[track_caller]
    pub fn kill(&mut self) {
        drop(self.running.take().expect("it runs"));
    }

    /// Ends it as an operator does, which must succeed.
    #[track_caller]
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.signal(Signal::TERM);
        let status = running.end();
        assert_eq!(status.code(), Some(0), "the server ended with {status}; {}", self.log());
    }

    /// Where it listens, for instance `127.0.0.1:6443`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where SDKs reach the OpenSergo control plane; it stays there over restarts.
    pub fn opensergo(&self) -> &str {
        &self.opensergo
    }

    /// Where one of its services is, if it runs.
    ///
    /// # Panics
    /// When the server has not been ready yet.
    #[must_use]
    pub fn endpoint(&self, service: &str) -> Option<String> {
        let endpoints = self.directory.path().join("data/endpoints.json");
        let endpoints = fs::read_to_string(endpoints).expect("a ready server has said what is where");
        let endpoints: serde_json::Value = serde_json::from_str(&endpoints).expect("JSON");
        endpoints[service].as_str().map(str::to_owned)
    }

    /// The memory it occupies, in KiB.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// How many sockets it has open.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn n_sockets(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs");
        let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    fn pid(&self) -> u32 {
        self.running.as_ref().expect("it runs").pid()
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("data/admin.kubeconfig")
    }

    /// A kubeconfig with nothing to show but a token.
    #[must_use]
    pub fn kubeconfig_with_token(&self, token: &str) -> PathBuf {
        let authority = self.directory.path().join("data/pki/ca.crt");
        let text = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}", self.address), "certificate-authority": authority,
            }}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        let file = tempfile::Builder::new().suffix(".kubeconfig").tempfile_in(self.directory.path());
        let (_, path) = file.expect("the directory is ours").keep().expect("a file");
        fs::write(&path, text.to_string()).expect("the directory is ours");
        path
    }

    /// Runs the binary itself on the data of this server, which must succeed, and returns what it printed.
    #[track_caller]
    pub fn windlass(&self, line: &str) -> String {
        self.windlass_alone(&format!("{line} --data-dir data"))
    }

    /// The same for what needs no data.
    #[track_caller]
    pub fn windlass_alone(&self, line: &str) -> String {
        let output = self.run(&words::split(line).iter().map(String::as_str).collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "windlass {line} ended with {}: {said}", output.status);
        String::from_utf8(output.stdout).expect("text")
    }

    /// What it has logged so far.
    #[must_use]
    pub fn logged(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The directory that clients run in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file into that directory. What is named `.yaml` is marked as such, so that it may begin with a brace.
    pub fn write(&self, name: &str, text: &str) {
        let text = if name.ends_with(".yaml") { yaml(text) } else { text.to_owned() };
        fs::write(self.directory.path().join(name), text).expect("the directory is ours");
    }

    /// kubectl as the administrator. Words are separated by blanks and may be in single quotes.
    pub fn kubectl(&self, line: &str) -> Kubectl {
        Kubectl::new(self, line)
    }

    #[track_caller]
    fn spawn(&mut self) {
        let port_of = |address: &str| address.rsplit_once(':').expect("an address has a port").1.to_owned();
        let (port, opensergo) = (port_of(&self.address), port_of(&self.opensergo));
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("the directory is ours");
        let mut command = Command::new(binary::windlass());
        command.args(["up", "--data-dir", "data", "--secure-port", &port]);
        command.args(["--opensergo-port", &opensergo]).args(&self.flags);
        command.current_dir(self.directory.path()).stderr(log);
        let mut running = Running::spawn(&mut command, "the binary under test");
        running.line_with("Ctrl-C");
        if let Some(address) = self.endpoint("opensergo") {
            self.opensergo = address;
        }
        let url = self.endpoint("apiserver").expect("the API server is among them");
        self.address = url.strip_prefix("https://").expect("TLS").to_owned();
        self.running = Some(running);
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }

    /// The end of what it logged.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(40)..];
        format!("the end of its log:\n{}", last.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the server at {}; {}", self.address, self.log());
        } else if self.running.is_some() {
            self.stop();
        }
    }
}
