//! Measures Windlass against yardsticks taken in the same run.
//!
//! A disk drifts by a factor of two from one minute to the next and machines differ by more, so no number here
//! is judged by itself: each is divided by what the bare disk, the bare map or another store does in the same
//! minute, and goals are set on the quotient. Nothing here is part of what ships. Start at `store/mod.rs`,
//! `apiserver/mod.rs`, `runtime/mod.rs` and `opensergo/mod.rs`.

mod apiserver;
mod args;
mod machine;
mod opensergo;
mod process;
mod report;
mod runtime;
mod stats;
mod store;

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use clap::Parser;

use crate::args::{Args, Command};

/// The command line is wrong (as sysexits.h has it).
const EX_USAGE: u8 = 64;

/// The program, whichever allocator it runs over. A goal that is missed is a result, not a failure.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EX_USAGE } else { 0 });
        }
    };
    match run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        match command {
            Command::Store(args) => tokio::select! {
                outcome = store::run(&args) => outcome,
                _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            },
            Command::Apiserver(args) => tokio::select! {
                outcome = apiserver::run(&args) => outcome,
                _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            },
            Command::Runtime(args) => tokio::select! {
                outcome = runtime::run(&args) => outcome,
                _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            },
            Command::Opensergo(args) => tokio::select! {
                outcome = opensergo::run(&args) => outcome,
                _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            },
            Command::Keep(args) => runtime::keep(&args).await,
            Command::Bare(args) => apiserver::bare(&args).await,
            Command::Hold(args) => store::hold(&args).await,
            Command::Churn(args) => store::churn(&args).await,
        }
    })
}

/// Says what is being done, to whoever waits.
fn say(progress: &str) {
    eprintln!("{progress}");
}

/// Prints results. Whoever has stopped reading them does not want the rest measured.
fn print(results: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{results}").context("printing the results")
}
