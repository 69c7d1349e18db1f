//! What people are told to write is what the example has, letter by letter. The example has a test of its own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The blocks of a document that name a file, by that name.
fn blocks(document: &str) -> BTreeMap<String, String> {
    let (mut blocks, mut current) = (BTreeMap::new(), None);
    for line in document.lines() {
        match (line.strip_prefix("```"), &current) {
            (Some(language), None) => {
                current = Some(language.split_once(' ').map(|(_, name)| name.to_owned()));
            }
            (Some(_), Some(_)) => current = None,
            (None, Some(Some(name))) => {
                let text: &mut String = blocks.entry(name.clone()).or_default();
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn the_document_shows_the_files_of_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/adding-a-reconciler.md")).expect("the document");
    let (example, mut found) = (root.join("examples/greeter"), vec![]);
    files(&example, &mut found);
    let files: BTreeMap<String, String> = found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&example).expect("it is in there").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("text"))
        })
        .collect();
    let blocks = blocks(&text);
    assert_eq!(blocks.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>());
    for (name, text) in &files {
        assert!(
            blocks[name] == *text,
            "docs/adding-a-reconciler.md shows another {name} than examples/greeter"
        );
    }
    let n_lines = files["src/lib.rs"].lines().count();
    assert!(n_lines <= 60, "a controller that people copy is short, and not {n_lines} lines");
}
