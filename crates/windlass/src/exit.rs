//! How a run ends: the exit code, and the one line that says why.
//!
//! Exit codes: 0 done, 1 it failed, 64 the command line or a file named on it is wrong.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::args::Usage;

/// The command line, or a file named on it, is wrong (as sysexits.h has it).
const EX_USAGE: u8 = 64;

/// Ends a run whose command line was not understood, or only asked for help.
pub(crate) fn not_understood(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { EX_USAGE } else { 0 })
}

/// Ends a run, saying what went wrong if anything did.
pub(crate) fn code(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {}", chain(&error));
            ExitCode::from(if error.is::<Usage>() { EX_USAGE } else { 1 })
        }
    }
}

/// Whether whoever read our output has seen enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The error and its causes on one line, without those that the one before already says.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !line.contains(&text) {
            let separator = if line.is_empty() { "" } else { ": " };
            line = format!("{line}{separator}{text}");
        }
    }
    line
}
