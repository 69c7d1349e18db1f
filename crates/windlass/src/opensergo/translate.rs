//! `windlass opensergo translate`: rules in, messages out, for people and for checks before anything is applied.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::bail;
use clap::ValueEnum;
use kube::{ResourceExt, api::DynamicObject};
use windlass_opensergo::{documents::rules_in, kinds::Kind, text};

use crate::{args::Usage, exit::chain};

/// More than any file of rules has.
const MOST_BYTES: u64 = 64 << 20;

/// What stands for the standard input.
const STDIN: &str = "-";

/// Which rules, and how they are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct TranslateArgs {
    /// A file with rules as YAML or JSON, "-" for the standard input; may be given again
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// How messages are shown
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// How messages are shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// In the text form of protobuf
    Text,
    /// As JSON, one value for each rule
    Json,
}

/// A rule, and where it was found.
struct Found {
    object: DynamicObject,
    kind: &'static Kind,
    file: String,
}

impl Found {
    fn title(&self) -> String {
        let namespace = self.object.namespace().map_or(String::new(), |namespace| format!("{namespace}/"));
        format!("{} {namespace}{}", self.kind.kind, self.object.name_any())
    }
}

/// Prints the messages of all rules that have one; fails if any has none.
pub(crate) fn run(args: &TranslateArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut rules = vec![];
    for file in &args.files {
        let name = file.display().to_string();
        let found = read(file).and_then(|text| Ok(rules_in(&text)?));
        let found = found.map_err(|error| Usage(format!("{name}: {}", chain(&error))))?;
        if found.is_empty() {
            // A check of a file that turned out to be empty has checked nothing.
            return Err(Usage(format!("{name}: there are no rules in it")).into());
        }
        let found = found.into_iter();
        rules.extend(found.map(|(kind, object)| Found { object, kind: kind.kind(), file: name.clone() }));
    }
    let mut n_wrong = 0;
    for rule in &rules {
        let place = format!("{}: {}", rule.file, rule.title());
        for warning in (rule.kind.warnings)(&rule.object) {
            eprintln!("warning: {place}: {warning}");
        }
        match (rule.kind.translate)(&rule.object) {
            Ok(message) => match args.output {
                Output::Text => write!(out, "# {}\n{}", rule.title(), text::text(&message)?)?,
                Output::Json => writeln!(out, "{:#}", text::json(&message)?)?,
            },
            Err(error) => {
                n_wrong += 1;
                error.0.iter().for_each(|problem| eprintln!("{place}: {problem}"));
            }
        }
    }
    out.flush()?;
    match n_wrong {
        0 => Ok(()),
        _ => bail!("{n_wrong} of {} rules cannot be sent", rules.len()),
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = if file.as_os_str() == STDIN {
        io::stdin().lock().take(MOST_BYTES + 1).read_to_string(&mut text)?
    } else {
        File::open(file)?.take(MOST_BYTES + 1).read_to_string(&mut text)?
    };
    if read as u64 > MOST_BYTES {
        bail!("expected at most {MOST_BYTES} bytes");
    }
    Ok(text)
}
