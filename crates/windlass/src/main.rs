//! The binary: flags in, services out. Everything else is in the crates.
//!
//! Exit codes: 0 done, 1 it failed, 64 the command line or a file named on it is wrong.

mod args;
mod store;
mod table;

use std::process::ExitCode;

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
    let outcome = match args.command {
        Some(Command::Store(command)) => store::run(command),
        None => Args::command().print_help().map_err(Into::into),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            ExitCode::from(if error.is::<args::Usage>() { EX_USAGE } else { 1 })
        }
    }
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
