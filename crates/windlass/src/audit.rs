//! The audit log: its flags, its files, and the policy that is read anew when it changes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::anyhow;
use clap::ValueEnum;
use tokio::task::JoinHandle;
use windlass_apiserver::audit::{Audit, Destination, Files, Mode, Policy};

use crate::args::Usage;

/// How often to see whether the policy has changed.
const LOOK: Duration = Duration::from_secs(5);

/// Largest policy file.
const MOST_BYTES: u64 = 1024 * 1024;

/// What is written down about requests, and where.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// What is written down about requests: an audit.k8s.io/v1 Policy; without it, nothing is
    #[arg(long, value_name = "FILE", requires = "audit_log_path", help_heading = "Audit")]
    audit_policy_file: Option<PathBuf>,
    /// Where it is written, a JSON object a line; - is the standard output
    #[arg(long, value_name = "FILE", help_heading = "Audit")]
    audit_log_path: Option<PathBuf>,
    /// How large that file becomes before it is put aside, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Audit")]
    audit_log_maxsize: u64,
    /// How many files that were put aside are kept; 0 is all
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Audit")]
    audit_log_maxbackup: usize,
    /// How many days they are kept; 0 is forever
    #[arg(long, value_name = "DAYS", default_value_t = 0, help_heading = "Audit")]
    audit_log_maxage: u32,
    /// Whether requests wait until their lines are written, or lines that come too fast are lost
    #[arg(long, value_name = "MODE", default_value = "blocking", help_heading = "Audit")]
    audit_log_mode: ModeName,
    /// Refuse requests that cannot be written down
    #[arg(long, requires = "audit_log_path", help_heading = "Audit")]
    audit_strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Requests wait until their lines are written
    Blocking,
    /// Requests wait, and are refused when their lines cannot be written; as --audit-strict
    BlockingStrict,
    /// Requests never wait
    Batch,
}

impl AuditArgs {
    /// Checks what one flag alone cannot show to be wrong.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        match self.audit_strict && self.audit_log_mode == ModeName::Batch {
            true => {
                let text = "--audit-strict: expected --audit-log-mode blocking beside it, found batch";
                Err(Usage(text.to_owned()))
            }
            false => Ok(()),
        }
    }

    /// Reads the policy and opens the log; `None` where nothing is to be written down.
    pub(crate) fn open(&self) -> anyhow::Result<Option<AuditLog>> {
        let Some(path) = &self.audit_log_path else { return Ok(None) };
        let Some(policy_file) = &self.audit_policy_file else {
            tracing::warn!("nothing is written to --audit-log-path without --audit-policy-file");
            return Ok(None);
        };
        let text = read(policy_file).map_err(Usage)?;
        let policy = parse(policy_file, &text).map_err(Usage)?;
        let is_strict = self.audit_strict || self.audit_log_mode == ModeName::BlockingStrict;
        let mode = match self.audit_log_mode {
            ModeName::Batch => Mode::Batch,
            _ if is_strict => Mode::Strict,
            _ => Mode::Blocking,
        };
        let audit = Audit::open(policy, self.destination(path), mode)
            .map_err(|error| anyhow!(Usage(format!("--audit-log-path {}: {error}", path.display()))))?;
        let following = tokio::spawn(follow(Arc::clone(&audit), policy_file.clone(), text));
        Ok(Some(AuditLog { audit, following }))
    }

    fn destination(&self, path: &Path) -> Destination {
        if path == Path::new("-") {
            return Destination::Stdout;
        }
        Destination::Files(Files {
            path: path.to_owned(),
            max_bytes: self.audit_log_maxsize.saturating_mul(1024 * 1024),
            max_backups: self.audit_log_maxbackup,
            max_age: Duration::from_secs(u64::from(self.audit_log_maxage) * 24 * 60 * 60),
        })
    }
}

/// The audit log of a running server.
pub(crate) struct AuditLog {
    /// What the server writes to.
    pub(crate) audit: Arc<Audit>,
    following: JoinHandle<()>,
}

impl AuditLog {
    /// Writes what is left.
    pub(crate) async fn close(self) {
        self.following.abort();
        self.audit.close().await;
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let named = |why: &dyn std::fmt::Display| format!("--audit-policy-file {}: {why}", path.display());
    let n_bytes = fs::metadata(path).map_err(|error| named(&error))?.len();
    if n_bytes > MOST_BYTES {
        return Err(named(&format!("expected at most {MOST_BYTES} bytes, found {n_bytes}")));
    }
    fs::read(path).map_err(|error| named(&error))
}

fn parse(path: &Path, text: &[u8]) -> Result<Policy, String> {
    Policy::parse(text).map_err(|error| format!("--audit-policy-file {}: {error}", path.display()))
}

/// Goes by what the file says, as long as the server runs. While it says nothing sensible, what it said last holds.
async fn follow(audit: Arc<Audit>, path: PathBuf, mut known: Vec<u8>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let own = path.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || read(&own)).await else { return };
        match found {
            Ok(text) if text == known => {}
            Ok(text) => {
                match parse(&path, &text) {
                    Ok(policy) => {
                        audit.replace(policy);
                        tracing::info!(path = %path.display(), "the audit policy has changed");
                    }
                    Err(error) => tracing::error!(error, "the audit policy stays as it was"),
                }
                known = text;
            }
            Err(error) => tracing::warn!(error, "the audit policy stays as it was"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        audit: AuditArgs,
    }

    fn args(flags: &str) -> Result<AuditArgs, String> {
        let line = Line::try_parse_from(["windlass"].into_iter().chain(flags.split_whitespace()));
        line.map(|line| line.audit).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_that_do_not_go_together_are_named() {
        for (flags, named) in [
            ("--audit-policy-file p", "--audit-log-path"),
            ("--audit-strict", "--audit-log-path"),
            ("--audit-log-path l --audit-log-maxsize 0", "--audit-log-maxsize"),
            ("--audit-log-path l --audit-log-mode later", "blocking, blocking-strict, batch"),
        ] {
            let error = args(flags).expect_err(flags);
            assert!(error.contains(named), "{flags}: {error}");
        }
        let both = args("--audit-log-path l --audit-strict --audit-log-mode batch").expect("flags");
        assert!(both.check().is_err());
    }

    #[tokio::test]
    async fn a_policy_that_is_none_is_told_with_the_field() {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = folder.path().join("policy.yaml");
        let flags = format!(
            "--audit-policy-file {} --audit-log-path {}",
            policy.display(),
            folder.path().join("audit.log").display()
        );
        let open = || args(&flags).expect("flags").open();
        let said = |outcome: anyhow::Result<Option<AuditLog>>| {
            let error = outcome.err().expect("refused");
            assert!(error.is::<Usage>(), "{error:?}");
            error.to_string()
        };
        assert!(said(open()).contains("--audit-policy-file"), "there is no file");
        fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]")
            .expect("a file");
        assert!(said(open()).contains("rules[0].level: Unsupported value"));
        fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]")
            .expect("a file");
        let log = open().expect("good files").expect("a log");
        log.close().await;
        assert!(args("--audit-log-path l").expect("flags").open().expect("a warning").is_none());
    }
}
