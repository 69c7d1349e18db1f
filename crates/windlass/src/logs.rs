//! Logs go to stderr; stdout is for what a person asked for.

use std::io::{self, IsTerminal};

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    prelude::*,
    registry,
};

use crate::args::LogFormat;

/// Starts logging. Warnings and errors are always shown.
pub(crate) fn init(verbose: u8, format: LogFormat) {
    let lines = fmt::layer().with_writer(io::stderr);
    match format {
        LogFormat::Text => {
            registry().with(lines.with_ansi(io::stderr().is_terminal()).with_filter(filter(verbose))).init();
        }
        LogFormat::Json => registry().with(lines.json().with_filter(filter(verbose))).init(),
    }
}

/// What is worth a line. Libraries are held back one step: their details drown ours.
fn filter(verbose: u8) -> Targets {
    let (own, others) = match verbose {
        0 => (LevelFilter::WARN, LevelFilter::WARN),
        1 => (LevelFilter::INFO, LevelFilter::INFO),
        2 => (LevelFilter::DEBUG, LevelFilter::INFO),
        3 => (LevelFilter::TRACE, LevelFilter::DEBUG),
        _ => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    // It tells of every try, which whoever tries does, too.
    let kube = if verbose == 0 { LevelFilter::OFF } else { others };
    Targets::new().with_default(others).with_target("kube_client", kube).with_target("windlass", own)
}
