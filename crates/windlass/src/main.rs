//! The binary: flags in, services out. Everything else is in the crates.
//!
//! Exit codes: 0 done, 1 it failed, 64 the command line or a file named on it is wrong.

mod args;
mod store;
mod table;

use std::{io::Write, process::ExitCode};

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};

/// The command line, or a file named on it, is wrong (as sysexits.h has it).
const EX_USAGE: u8 = 64;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EX_USAGE } else { 0 });
        }
    };
    let mut out = std::io::stdout().lock();
    let outcome = match args.command {
        Some(Command::Store(command)) => store::run(command, &mut out),
        None => write!(out, "{}", Args::command().render_help()).map_err(Into::into),
    };
    match outcome.and_then(|()| out.flush().map_err(Into::into)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", chain(&error));
            ExitCode::from(if error.is::<args::Usage>() { EX_USAGE } else { 1 })
        }
    }
}

/// Whether whoever read our output has seen enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The error and its causes on one line, without those that the one before already says.
fn chain(error: &anyhow::Error) -> String {
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
