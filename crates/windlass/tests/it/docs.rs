//! Every command in the documents is run, in order, in a directory with a small store in it.

use std::{fs, path::Path, process::Command};

use crate::support::{fill, open};

/// Run by the build and by `.ci/run` themselves; running them from in here would never end.
const RUN_ELSEWHERE: &[&str] = &["cargo ", "./test", "WINDLASS_"];

#[test]
fn every_command_in_the_documents_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents =
        vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("ARCHITECTURE.md")];
    documents
        .extend(fs::read_dir(root.join("docs")).expect("docs/").map(|file| file.expect("a file").path()));
    let mut n_commands = 0;
    for document in documents.iter().filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
        let text = fs::read_to_string(document).expect("text");
        let commands = commands(&text);
        n_commands += commands.len();
        run(&commands, document);
    }
    assert!(n_commands > 0, "no document has a command in it");
}

/// The lines of `console` blocks that begin with a prompt.
fn commands(text: &str) -> Vec<&str> {
    let mut in_console = false;
    let mut found = vec![];
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            in_console = language == "console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_console)
            && !RUN_ELSEWHERE.iter().any(|elsewhere| command.starts_with(elsewhere))
        {
            found.push(command);
        }
    }
    found
}

fn run(commands: &[&str], document: &Path) {
    if commands.is_empty() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    fill(&open(&directory.path().join("windlass-data")), 25, "value");
    let binary = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let folder = binary.parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", &commands.join("\n")])
        .current_dir(directory.path())
        .env("PATH", path)
        .output()
        .expect("bash starts");
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "a command in {} failed:\n{printed}", document.display());
}
