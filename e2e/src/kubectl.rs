//! kubectl, with a home, a cache and a configuration of its own.

use std::{
    env,
    ffi::OsString,
    io::Write,
    process::{Command, Stdio},
};

use crate::{process::Running, server::Server, words};

/// Names another kubectl than the one on the PATH.
const CHOSEN: &str = "WINDLASS_KUBECTL";

const HINT: &str = "run ./test, which installs kubectl, or put version 1.27 or newer on the PATH";

/// Variables of whoever runs the tests that would change what kubectl does.
const NOT_OURS: &[&str] = &["KUBE_EDITOR", "EDITOR", "KUBECTL_EXTERNAL_DIFF", "KUBERC", "POD_NAMESPACE"];

/// One run of kubectl, not started yet.
#[derive(Debug)]
#[must_use]
pub struct Kubectl {
    command: Command,
    stdin: String,
}

impl Kubectl {
    pub(crate) fn new(server: &Server, line: &str) -> Self {
        let program = env::var_os(CHOSEN).filter(|path| !path.is_empty());
        let mut command = Command::new(program.unwrap_or_else(|| OsString::from("kubectl")));
        for name in NOT_OURS {
            command.env_remove(name);
        }
        command
            .args(words::split(line))
            .current_dir(server.directory())
            .env("KUBECONFIG", server.kubeconfig())
            .env("KUBECACHEDIR", server.directory().join("cache"))
            .env("HOME", server.directory())
            .env("TMPDIR", server.directory());
        Self { command, stdin: String::new() }
    }

    /// The objects it reads from standard input, for `-f -`, in YAML.
    pub fn yaml(mut self, text: &str) -> Self {
        self.stdin = yaml(text);
        self
    }

    /// An environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it to its end, which must be a success, and returns what it printed.
    #[track_caller]
    pub fn ok(self) -> String {
        let line = format!("{:?}", self.command);
        let ran = self.run();
        assert_eq!(ran.code, 0, "{line} printed:\n{}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Runs it to its end, which must be a failure, and returns what it said.
    #[track_caller]
    pub fn fails(self) -> String {
        let line = format!("{:?}", self.command);
        let ran = self.run();
        assert_ne!(ran.code, 0, "{line} did not fail and printed:\n{}{}", ran.stdout, ran.stderr);
        ran.stderr
    }

    /// Runs it to its end, whatever that is.
    #[track_caller]
    pub fn run(mut self) -> Ran {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = self.command.spawn();
        let mut child = started.unwrap_or_else(|error| panic!("kubectl does not start: {error}: {HINT}"));
        // Dropped at the end of the statement, so that it sees the end of its input. It may have ended without reading.
        let _ = child.stdin.take().expect("a pipe").write_all(self.stdin.as_bytes());
        let output = child.wait_with_output().expect("our child");
        let text = |bytes| String::from_utf8(bytes).expect("kubectl prints text");
        Ran {
            code: output.status.code().expect("nobody killed it"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Starts it and goes on; for watches and proxies.
    #[track_caller]
    pub fn spawn(mut self) -> Running {
        Running::spawn(&mut self.command, HINT)
    }
}

/// What a run of kubectl came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// Text that kubectl takes for YAML even when it begins with a brace, as JSON does.
pub(crate) fn yaml(text: &str) -> String {
    format!("# YAML\n{text}")
}
