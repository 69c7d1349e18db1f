//! What the numbers were taken on.

use std::{fs, path::Path, process::Command};

/// The machine, as far as it explains the numbers. What cannot be found out is "unknown".
#[derive(Debug)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    file_system: String,
    rustc: String,
    commit: String,
    command: String,
}

impl Machine {
    /// Looks around; `directory` is where the benchmark writes, `command` how it was called.
    pub(crate) fn describe(directory: &Path, command: String) -> Self {
        let unknown = || "unknown".to_owned();
        Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor().unwrap_or_else(unknown),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |release| release.trim().to_owned()),
            file_system: file_system(directory).unwrap_or_else(unknown),
            rustc: output("rustc", &["--version"]).unwrap_or_else(unknown),
            commit: output("git", &["describe", "--always", "--dirty"]).unwrap_or_else(unknown),
            command,
        }
    }

    pub(crate) fn text(&self) -> String {
        let Machine { cores, processor, kernel, file_system, rustc, commit, command } = self;
        format!(
            "{command} at {commit}\n{cores} cores ({processor}), Linux {kernel}, {file_system}, {rustc}\n"
        )
    }

    pub(crate) fn markdown(&self) -> String {
        let Machine { cores, processor, kernel, file_system, rustc, commit, command } = self;
        format!(
            "`{command}` at commit {commit}, built with {rustc}, on {cores} cores ({processor}), Linux {kernel}, \
             {file_system}. Every ratio is against a yardstick of the same run; medians of alternating \
             measurements.\n"
        )
    }

    /// Whether syncing costs nothing here, so that numbers of writes mean nothing.
    pub(crate) fn is_volatile(&self) -> bool {
        self.file_system == "tmpfs"
    }
}

fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The type of the file system that `directory` is on: that of the deepest mount point above it.
fn file_system(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let above = fields.filter(|fields| fields.len() > 2 && directory.starts_with(fields[1]));
    above.max_by_key(|fields| fields[1].len()).map(|fields| fields[2].to_owned())
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
