//! The benchmark runs from end to end, at sizes that measure nothing.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// Titles of what is found of the store.
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

/// Titles of what is found of the API server.
const API_PARTS: [&str; 9] = [
    "## Creating objects\n",
    "## Reading objects\n",
    "## Changing objects\n",
    "## Watching\n",
    "## Creating custom objects\n",
    "## Many definitions\n",
    "## Fairness\n",
    "## Start and memory of the server\n",
    "## For orientation\n",
];

/// The server that is built beside the benchmark.
fn server() -> std::path::PathBuf {
    let server = std::path::Path::new(env!("CARGO_BIN_EXE_windlass-bench")).with_file_name("windlass");
    assert!(server.is_file(), "there is no server beside the benchmark: run `cargo build -p windlass` first");
    server
}

#[test]
fn every_part_of_the_server_is_measured_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let markdown = folder.path().join("benchmarks.md");
    std::fs::write(&markdown, "# By hand\n").expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_windlass-bench"))
        .args(["apiserver", "--tiny", "--directory"])
        .arg(folder.path())
        .arg("--server")
        .arg(server())
        .arg("--markdown")
        .arg(&markdown)
        .output()
        .expect("the benchmark starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&markdown).expect("the markdown is written");
    assert!(text.starts_with("# By hand\n"), "{text}");
    for part in API_PARTS {
        assert!(text.contains(part), "{part:?} is missing from:\n{text}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "only the report is left: {left:?}");
}

/// Titles of what is found of the OpenSergo control plane.
const OPENSERGO_PARTS: [&str; 4] =
    ["## Idle subscribers\n", "## One change to many subscribers\n", "## Many changes\n", "## Restart\n"];

#[test]
fn every_part_of_the_control_plane_is_measured_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let markdown = folder.path().join("benchmarks.md");
    let output = Command::new(env!("CARGO_BIN_EXE_windlass-bench"))
        .args(["opensergo", "--tiny", "--directory"])
        .arg(folder.path())
        .arg("--server")
        .arg(server())
        .arg("--markdown")
        .arg(&markdown)
        .output()
        .expect("the benchmark starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&markdown).expect("the markdown is written");
    for part in OPENSERGO_PARTS {
        assert!(text.contains(part), "{part:?} is missing from:\n{text}");
    }
}

/// A server that is not the benchmark's, killed when this is dropped.
struct Other(std::process::Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_server_is_measured_and_left_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    let mut command = Command::new(server());
    command.arg("up").arg("--data-dir").arg(&data).args(["--secure-port", "0", "--opensergo-port", "0"]);
    let mut other = Other(command.stdout(Stdio::piped()).spawn().expect("the server starts"));
    let mut said = BufReader::new(other.0.stdout.take().expect("its output")).lines();
    assert!(said.any(|line| line.expect("text").contains("is ready")), "it does not become ready");
    let output = Command::new(env!("CARGO_BIN_EXE_windlass-bench"))
        .args(["apiserver", "--tiny", "--only", "updates", "--only", "start", "--directory"])
        .arg(folder.path())
        .arg("--kubeconfig")
        .arg(data.join("admin.kubeconfig"))
        .output()
        .expect("the benchmark starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("not ours to start"), "{said}");
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(found.contains("merge patch") && !found.contains("resident"), "{found}");
}

#[test]
fn a_wrong_flag_is_told_apart_from_a_failure() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_windlass-bench")).args(["store", "--no-such-flag"]).output();
    assert_eq!(output.expect("the benchmark starts").status.code(), Some(64));
}
