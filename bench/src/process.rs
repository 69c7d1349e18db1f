//! Other processes, ended when we are done with them, and what a process takes of the machine.

use std::{
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(60);

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts `command`. What it prints to its standard output is lost.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        Ok(Process { child, output: None })
    }

    /// Starts `command`, with what it prints to be read line by line.
    pub(crate) fn spawn_to_read(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().map(BufReader::new);
        Ok(Process { child, output })
    }

    /// Waits for the next line it prints.
    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let output = self.output.as_mut().context("nothing is read from the process")?;
        if output.read_line(&mut line)? == 0 {
            bail!("process {} ended early", self.child.id());
        }
        Ok(line.trim().to_owned())
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        let id =
            i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a process has a number")?;
        kill_process(id, Signal::TERM)?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > END_LIMIT {
                bail!("process {} does not end", self.child.id());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills it, without giving it time to finish anything.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This benchmark, or its twin over another allocator, as a program that can be started.
pub(crate) fn program(name: &str) -> io::Result<PathBuf> {
    let us = std::env::current_exe()?;
    Ok(us.parent().unwrap_or(Path::new("")).join(name))
}

/// Bytes of memory this process occupies.
pub(crate) fn resident_bytes() -> anyhow::Result<u64> {
    resident_bytes_of("self")
}

/// Bytes of memory the process of this number occupies.
pub(crate) fn resident_bytes_of(process: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("there is no VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is not a number")?;
    Ok(kibibytes << 10)
}

/// Nanoseconds this process has had a processor for, all its threads that are still there together.
///
/// Unlike a time by the clock it hardly grows when others want the processors too.
pub(crate) fn processor_nanos() -> anyhow::Result<u64> {
    processor_nanos_of("self")
}

/// The same for the process of this number.
pub(crate) fn processor_nanos_of(process: &str) -> anyhow::Result<u64> {
    let mut nanos = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread that has ended since has no such file.
        let stat = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += stat.split(' ').next().and_then(|ran| ran.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos)
}
