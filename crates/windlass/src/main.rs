//! The binary: flags in, services out. Everything else is in the crates.
//!
//! `up.rs` joins the services, `serve.rs` starts the API server; start there.

mod args;
mod audit;
mod authn;
mod backend;
mod controllers;
mod datadir;
mod encryption;
mod exit;
mod flags;
mod hub;
mod issuers;
mod kubeconfig;
mod logs;
mod opensergo;
mod pki;
mod reload;
mod serve;
mod signals;
mod signer;
mod status;
mod store;
mod table;
mod tls;
mod token;
mod transport;
mod up;
mod values;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::args::{Args, Command};

/// A request is a hundred small allocations on whichever thread is free; the system's allocator has them wait for
/// each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match Args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => return exit::not_understood(&error),
    };
    logs::init(args.verbose, args.log_format);
    let mut out = io::stdout().lock();
    exit::code(run(args.command, &mut out).and_then(|()| Ok(out.flush()?)))
}

fn run(command: Command, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        Command::Up(args) => up::run(args.plan()?, out),
        Command::Apiserver(args) => up::run(args.plan()?, out),
        Command::Hub(args) => hub::run(&args, out),
        Command::Reconciler(args) => hub::run_one(&args, out),
        Command::Crds => hub::print_definitions(out),
        Command::Opensergo(args) => opensergo::run(args, out),
        Command::Kubeconfig { data_dir, path } => kubeconfig::run(&data_dir, path, out),
        Command::Status(data_dir) => status::run(&data_dir, out),
        Command::Store(command) => store::run(command, out),
        Command::Token(command) => token::run(command, out),
    }
}
