//! `windlass opensergo`: the gRPC control plane, and tools for its rules.

mod translate;

use std::io::Write;

use clap::Subcommand;

use crate::args::Usage;

use self::translate::TranslateArgs;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct OpensergoArgs {
    #[command(subcommand)]
    command: Option<OpensergoCommand>,
}

/// Tools for rules.
#[derive(Debug, Subcommand)]
pub(crate) enum OpensergoCommand {
    /// Print what SDKs are told of rules
    #[command(after_help = "Examples:
  windlass opensergo translate -f rule.yaml
  kubectl get ratelimitstrategies -o yaml | windlass opensergo translate -f - -o json

What has no effect is said on stderr. Exits with 1 when a rule cannot be sent, and says which fields are wrong;
with 64 when a file cannot be read, or has other kinds in it.")]
    Translate(TranslateArgs),
}

/// Runs a tool.
pub(crate) fn run(args: OpensergoArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    match args.command {
        Some(OpensergoCommand::Translate(args)) => translate::run(&args, out),
        None => Err(Usage("expected a command: see \"windlass opensergo --help\"".to_owned()).into()),
    }
}
