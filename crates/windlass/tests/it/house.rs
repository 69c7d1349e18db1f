//! The house rules that a program can check.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// The folders of crates that others may use or copy, as the workspace names them.
fn members() -> Vec<(String, PathBuf)> {
    let mut members = vec![];
    for kind in ["crates", "examples"] {
        for folder in fs::read_dir(root().join(kind)).expect("a folder of crates") {
            let folder = folder.expect("a folder").path();
            let name = folder.file_name().expect("a name").to_string_lossy();
            members.push((format!("{kind}/{name}"), folder));
        }
    }
    members
}

#[test]
fn every_file_says_what_it_is_and_is_one_idea() {
    let mut files = vec![];
    for folder in ["crates", "examples", "bench", "e2e"] {
        rust_files(&root().join(folder), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        assert!(text.starts_with("//!"), "{} does not begin with //!", file.display());
        let n_lines = text.lines().count();
        assert!(n_lines <= 800, "{} has {n_lines} lines: that is two ideas", file.display());
    }
}

/// Which crates may use which, as ARCHITECTURE.md has it: dependencies point down.
const MAY_USE: &[(&str, &[&str])] = &[
    ("machinery", &[]),
    ("cel", &["machinery"]),
    ("store", &[]),
    ("access", &["cel", "machinery"]),
    ("runtime", &[]),
    ("apiserver", &["access", "cel", "machinery", "store"]),
    ("housekeeping", &["runtime"]),
    ("opensergo", &["machinery", "runtime"]),
    ("samples", &["runtime"]),
    ("testkit", &["apiserver", "housekeeping", "store"]),
    ("greeter", &["runtime"]),
    (
        "windlass",
        &["access", "apiserver", "housekeeping", "machinery", "opensergo", "runtime", "samples", "store"],
    ),
];

#[test]
fn dependencies_point_down() {
    for (member, folder) in members() {
        let name = member.split('/').next_back().unwrap_or_default();
        let (_, may_use) = MAY_USE
            .iter()
            .find(|(own, _)| *own == name)
            .unwrap_or_else(|| panic!("no rule for the crate {name}"));
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let used: BTreeSet<&str> = dependencies
            .lines()
            .filter_map(|line| line.strip_prefix("windlass-"))
            .filter_map(|rest| rest.split(['.', ' ']).next())
            .collect();
        for other in used {
            assert!(may_use.contains(&other), "{name} must not use {other}");
        }
    }
}

#[test]
fn the_architecture_names_every_crate() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    for (member, _) in members() {
        assert!(text.contains(&format!("`{member}`")), "ARCHITECTURE.md does not name {member}");
    }
}
