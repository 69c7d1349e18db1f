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
        for (language, run) in [("console", run_on_a_store as Run), ("console server", run_with_a_server)] {
            let commands = commands(&text, language);
            n_commands += commands.len();
            if !commands.is_empty() {
                run(&commands, document);
            }
        }
    }
    assert!(n_commands > 0, "no document has a command in it");
}

type Run = fn(&[&str], &Path);

/// The lines of blocks in this language that begin with a prompt.
fn commands<'a>(text: &'a str, wanted: &str) -> Vec<&'a str> {
    let mut in_block = false;
    let mut found = vec![];
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            in_block = language == wanted;
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block)
            && !RUN_ELSEWHERE.iter().any(|elsewhere| command.starts_with(elsewhere))
        {
            found.push(command);
        }
    }
    found
}

fn run_on_a_store(commands: &[&str], document: &Path) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fill(&open(&directory.path().join("windlass-data")), 25, "value");
    run(&commands.join("\n"), directory.path(), document);
}

/// Begins with a server that is ready, and ends it however the commands end.
const SERVER: &str = "windlass up --secure-port 0 --opensergo-port 0 >/dev/null &
server=$!
trap 'kill $server; wait $server' EXIT
until [ -e windlass-data/endpoints.json ]; do kill -0 $server; sleep 0.05; done";

fn run_with_a_server(commands: &[&str], document: &Path) {
    if Command::new("kubectl").arg("version").arg("--client").output().is_err() {
        eprintln!("not run: the commands of {} need kubectl, which ./test installs", document.display());
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    run(&format!("{SERVER}\n{}", commands.join("\n")), directory.path(), document);
}

fn run(script: &str, directory: &Path, document: &Path) {
    let binary = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let folder = binary.parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", script])
        .current_dir(directory)
        .env("PATH", path)
        .output()
        .expect("bash starts");
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "a command in {} failed:\n{printed}", document.display());
}
