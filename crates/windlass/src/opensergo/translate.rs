//! `windlass opensergo translate`: rules in, messages out, for people and for checks before anything is applied.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::ValueEnum;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Map, Value};
use windlass_machinery::decode::decode_yaml;
use windlass_opensergo::{
    kinds::{KINDS, Kind},
    text,
};

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
        let found = read(file).and_then(|text| rules_in(&text, &name));
        rules.extend(found.map_err(|error| Usage(format!("{name}: {}", chain(&error))))?);
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

/// All rules in a text, in lists, too.
fn rules_in(text: &str, file: &str) -> anyhow::Result<Vec<Found>> {
    let mut rules = vec![];
    for document in documents(text) {
        let decoded = decode_yaml(document.as_bytes())?;
        if let Some(path) = decoded.duplicates.first() {
            bail!("{path} is given twice");
        }
        let objects = match decoded.object.get("items") {
            Some(Value::Array(items)) => items.clone(),
            _ => vec![Value::Object(decoded.object)],
        };
        for object in objects {
            rules.push(rule(object, file)?);
        }
    }
    Ok(rules)
}

fn rule(mut object: Value, file: &str) -> anyhow::Result<Found> {
    let word = |object: &Value, name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (word(&object, "apiVersion"), word(&object, "kind"));
    let id = format!("{version}/{kind}");
    let Some(kind) = Kind::find(&id) else {
        let known: Vec<String> = KINDS.iter().map(Kind::id).collect();
        bail!("{id}: expected one of these kinds:\n  {}", known.join("\n  "));
    };
    // What is wrong with the rest is said by the translation, with its path.
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_else(|| Value::Object(Map::new()));
    let metadata = serde_json::from_value(metadata).with_context(|| format!("{id}: metadata"))?;
    Ok(Found { object: DynamicObject { types: None, metadata, data: object }, kind, file: file.to_owned() })
}

/// The documents of a text that say anything. Each begins in the line that it has in the text, so that errors name it.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for (idx, line) in text.lines().enumerate() {
        let after = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if after.is_some() {
            documents.push("\n".repeat(idx));
        }
        if let Some(document) = documents.last_mut() {
            document.push_str(after.unwrap_or(line));
            document.push('\n');
        }
    }
    let says = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    documents.retain(|document| document.lines().any(says));
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_apart_and_keep_their_lines() {
        for (text, expected) in [
            ("", vec![]),
            ("# nothing\n---\n \n", vec![]),
            ("a: 1", vec!["a: 1\n"]),
            ("a: 1\n---\nb: 2\n", vec!["a: 1\n", "\n\nb: 2\n"]),
            ("---\na: |\n  ---\n---  {b: 2}\n", vec!["\na: |\n  ---\n", "\n\n\n  {b: 2}\n"]),
            ("---a: 1\n", vec!["---a: 1\n"]),
        ] {
            let found = documents(text);
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn lists_have_rules_in_them() {
        let text = "kind: List\nitems:\n- {apiVersion: fault-tolerance.opensergo.io/v1alpha1, \
            kind: RateLimitStrategy, metadata: {name: a, namespace: b}}\n";
        let rules = rules_in(text, "-").expect("rules");
        assert_eq!(rules.iter().map(Found::title).collect::<Vec<_>>(), ["RateLimitStrategy b/a"]);
    }

    #[test]
    fn other_kinds_are_refused_with_those_there_are() {
        let error = rules_in("apiVersion: v1\nkind: Pod\n", "-").err().expect("no rule");
        let text = error.to_string();
        assert!(text.starts_with("v1/Pod: expected one of"), "{text}");
        assert!(text.contains("fault-tolerance.opensergo.io/v1alpha1/FaultToleranceRule"), "{text}");
    }
}
