//! The benchmark runs from end to end, at sizes that measure nothing.

use std::process::Command;

const PARTS: [&str; 7] = [
    "## Durable writes\n",
    "## Durable writes, beside etcd\n",
    "## Reads\n",
    "## Start\n",
    "## Memory\n",
    "## Watchers\n",
    "## Space and stalls\n",
];

#[test]
fn every_part_is_measured_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let markdown = folder.path().join("benchmarks.md");
    let output = Command::new(env!("CARGO_BIN_EXE_windlass-bench"))
        .args(["store", "--tiny", "--directory"])
        .arg(folder.path())
        .arg("--markdown")
        .arg(&markdown)
        .output()
        .expect("the benchmark starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&markdown).expect("the markdown is written");
    // etcd may not be installed, and then the benchmark says so.
    let has_etcd = !said.contains("etcd is not installed");
    for part in PARTS.into_iter().filter(|part| has_etcd || !part.contains("etcd")) {
        assert!(text.contains(part), "{part:?} is missing from:\n{text}");
    }
    assert!(text.contains("mimalloc"), "the other allocator was not measured:\n{text}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "only the report is left: {left:?}");
}

#[test]
fn a_wrong_flag_is_told_apart_from_a_failure() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_windlass-bench")).args(["store", "--no-such-flag"]).output();
    assert_eq!(output.expect("the benchmark starts").status.code(), Some(64));
}
