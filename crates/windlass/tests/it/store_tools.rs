//! `windlass store`: what an operator sees and relies on.

use std::{fs, path::Path, process::Stdio};

use tempfile::TempDir;
use windlass_store::{Embedded, Expect, OpenError, Read, ReadError, Retention, Revision, Store, Txn};

use crate::support::{fill, open, stderr, stdout, windlass};

fn closed_store(n_keys: usize) -> (TempDir, u64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let head = fill(&open(&directory.path().join("windlass-data")), n_keys, "one");
    (directory, head)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(future)
}

#[test]
fn help_shows_examples_and_version_is_printed() {
    let here = tempfile::tempdir().expect("a temporary directory");
    assert!(stdout(windlass(here.path()).arg("--help"), 0).contains("windlass store snapshot"));
    assert!(stdout(windlass(here.path()).args(["store", "restore", "--help"]), 0).contains("Example"));
    assert!(stdout(windlass(here.path()).arg("--version"), 0).starts_with("windlass "));
}

#[test]
fn a_bad_flag_exits_with_64_and_is_named() {
    let here = tempfile::tempdir().expect("a temporary directory");
    assert!(
        stderr(windlass(here.path()).args(["store", "stats", "--dta-dir", "x"]), 64).contains("--dta-dir")
    );
    assert!(stderr(windlass(here.path()).args(["store", "frobnicate"]), 64).contains("frobnicate"));
    assert!(
        stderr(windlass(here.path()).args(["store", "stats"]), 64).contains("--data-dir ./windlass-data")
    );
    assert!(
        stderr(windlass(here.path()).args(["store", "restore", "no-such.snap"]), 64).contains("no-such.snap")
    );
}

#[test]
fn stats_and_check_tell_what_is_there() {
    let (directory, head) = closed_store(100);
    let stats = stdout(windlass(directory.path()).args(["store", "stats"]), 0);
    assert!(stats.contains("keys           100") && stats.contains(&head.to_string()), "{stats}");
    let check = stdout(windlass(directory.path()).args(["store", "check"]), 0);
    assert!(check.contains("ok: every record of") && check.contains("100 keys"), "{check}");
}

#[test]
fn check_finds_a_flipped_bit_and_names_file_and_place() {
    let (directory, _) = closed_store(100);
    let store = directory.path().join("windlass-data/store");
    let segment = first_file(&store, "log-");
    let mut bytes = fs::read(store.join(&segment)).expect("a segment");
    bytes[20_000] ^= 4;
    fs::write(store.join(&segment), bytes).expect("a segment");
    let output = windlass(directory.path()).args(["store", "check"]).output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(printed.contains(&segment) && printed.contains("at byte 19968"), "{printed}");
    assert!(printed.contains("windlass store restore FILE"), "{printed}");
}

fn first_file(directory: &Path, prefix: &str) -> String {
    let names = fs::read_dir(directory).expect("a directory").map(|file| file.expect("a file").file_name());
    names
        .map(|name| name.into_string().expect("text"))
        .filter(|name| name.starts_with(prefix))
        .min()
        .expect("a file")
}

#[test]
fn check_is_refused_while_the_store_is_in_use_and_stats_is_not() {
    let (directory, _) = closed_store(10);
    let store = open(&directory.path().join("windlass-data"));
    let refused = stderr(windlass(directory.path()).args(["store", "check"]), 1);
    assert!(
        refused.contains("in use by another process") && refused.contains(&std::process::id().to_string())
    );
    stdout(windlass(directory.path()).args(["store", "stats"]), 0);
    drop(store);
    stdout(windlass(directory.path()).args(["store", "check"]), 0);
}

#[test]
fn a_directory_of_a_newer_format_is_refused_with_both_versions() {
    let (directory, _) = closed_store(1);
    let manifest = directory.path().join("windlass-data/store/MANIFEST");
    let mut bytes = fs::read(&manifest).expect("a manifest");
    bytes[8] = 2;
    fs::write(&manifest, with_header_checksum(bytes)).expect("a manifest");
    let refused = stderr(windlass(directory.path()).args(["store", "stats"]), 1);
    assert!(refused.contains("MANIFEST has format 2, this version reads up to format 1"), "{refused}");
}

/// The same file with the checksum of its header made right again.
fn with_header_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum =
        xxhash_rust::xxh3::xxh3_64_with_seed(&[], xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..504], 0));
    bytes[504..512].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_snapshot_taken_under_load_is_of_one_revision_and_misses_nothing_acknowledged() {
    let (directory, _) = closed_store(50);
    let store = std::sync::Arc::new(open(&directory.path().join("windlass-data")));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // Both keys always change together: a snapshot in which they differ is of no revision.
    let writer = {
        let store = store.clone();
        runtime.spawn(async move {
            for round in 0.. {
                let value = format!("{round:0>3000}");
                let txn = Txn::new().put("a", value.clone(), Expect::Any).put("z", value, Expect::Any);
                if store.commit(txn).await.is_err() {
                    return;
                }
            }
        })
    };
    for idx in 0..5 {
        let acknowledged = store.window().head;
        let name = format!("backup-{idx}.snap");
        stdout(windlass(directory.path()).args(["store", "snapshot", &name]), 0);
        let other = directory.path().join(format!("other-{idx}"));
        let other_arg = other.to_str().expect("text").to_owned();
        let told =
            stdout(windlass(directory.path()).args(["store", "restore", &name, "--data-dir", &other_arg]), 0);
        let restored = open(&other);
        let snapshot = block_on(restored.snapshot(Read::Latest)).expect("readable");
        let values: Vec<_> =
            [&b"a"[..], b"z"].map(|key| snapshot.get(key).map(|entry| entry.value.clone())).into();
        assert_eq!(values[0], values[1], "the snapshot is torn");
        let newest = snapshot.iter(b"", None).map(|entry| entry.revision).max().expect("keys");
        assert!(newest >= acknowledged, "the snapshot misses acknowledged writes: {told}");
        assert!(snapshot.revision() > newest);
    }
    block_on(store.close());
    runtime.block_on(writer).expect("the writer ends");
}

#[test]
fn a_restored_store_goes_on_above_every_revision_ever_given_out() {
    let (directory, at_snapshot) = closed_store(20);
    stdout(windlass(directory.path()).args(["store", "snapshot", "backup.snap"]), 0);
    let data_dir = directory.path().join("windlass-data");
    let newest = fill(&open(&data_dir), 30, "two");
    let told = stdout(windlass(directory.path()).args(["store", "restore", "backup.snap"]), 0);
    assert!(told.contains("restored 20 keys") && told.contains("before-restore-1"), "{told}");
    assert!(directory.path().join("windlass-data/store.before-restore-1/MANIFEST").is_file());

    let store = open(&data_dir);
    assert!(store.window().floor.get() > newest, "old watchers must be told that history is gone");
    for old in [at_snapshot, newest] {
        let refused = block_on(store.watch(b"", Revision::new(old))).expect_err("history is gone");
        assert!(matches!(refused, ReadError::Compacted { .. }), "{refused}");
    }
    let snapshot = block_on(store.snapshot(Read::Latest)).expect("readable");
    assert_eq!(snapshot.count(b"pods/"), 20);
    assert_eq!(snapshot.get(b"pods/default/pod-0003").map(|entry| entry.value.clone()), Some("one".into()));
    assert!(fill(&store, 1, "three") > store.window().floor.get());
}

#[test]
fn a_damaged_snapshot_is_refused_and_the_store_stays_as_it_was() {
    let (directory, head) = closed_store(20);
    stdout(windlass(directory.path()).args(["store", "snapshot", "backup.snap"]), 0);
    let file = directory.path().join("backup.snap");
    let mut bytes = fs::read(&file).expect("a snapshot");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("a snapshot");
    let refused = stderr(windlass(directory.path()).args(["store", "restore", "backup.snap"]), 64);
    assert!(refused.contains("backup.snap is damaged at byte"), "{refused}");
    assert_eq!(open(&directory.path().join("windlass-data")).window().head.get(), head);
    let again = stderr(windlass(directory.path()).args(["store", "snapshot", "backup.snap"]), 64);
    assert!(again.contains("there is such a file already"), "{again}");
}

#[test]
fn restoring_the_same_snapshot_again_repeats_no_revision() {
    let (directory, _) = closed_store(5);
    stdout(windlass(directory.path()).args(["store", "snapshot", "backup.snap"]), 0);
    let data_dir = directory.path().join("windlass-data");
    let mut newest = 0;
    for _ in 0..2 {
        // Gone, so that only the snapshot can tell how far it had come.
        fs::remove_dir_all(data_dir.join("store")).expect("it was there");
        stdout(windlass(directory.path()).args(["store", "restore", "backup.snap"]), 0);
        let store = open(&data_dir);
        assert!(store.window().head.get() > newest, "revisions are given out again");
        newest = fill(&store, 10, "more");
        // Restores are told apart by the second in which they happen.
        let second =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        while std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_secs()
            == second
        {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_snapshot_that_claims_the_last_revision_is_refused() {
    let (directory, head) = closed_store(5);
    stdout(windlass(directory.path()).args(["store", "snapshot", "backup.snap"]), 0);
    let file = directory.path().join("backup.snap");
    let mut bytes = fs::read(&file).expect("a snapshot");
    bytes[36..44].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    fs::write(&file, with_header_checksum(bytes)).expect("a snapshot");
    let refused = stderr(windlass(directory.path()).args(["store", "restore", "backup.snap"]), 64);
    assert!(refused.contains("leaves no room"), "{refused}");
    assert_eq!(open(&directory.path().join("windlass-data")).window().head.get(), head);
}

#[test]
fn removing_the_lock_file_lets_nobody_in() {
    let (directory, _) = closed_store(5);
    let data_dir = directory.path().join("windlass-data");
    let store = open(&data_dir);
    fs::remove_file(data_dir.join("store/LOCK")).expect("it says who has the store");
    let refused = Embedded::open(&data_dir.join("store"), Retention::default());
    assert!(matches!(refused, Err(OpenError::InUse { .. })));
    stderr(windlass(directory.path()).args(["store", "check"]), 1);
    stderr(windlass(directory.path()).args(["store", "restore", "--help-me"]), 64);
    drop(store);
}

#[test]
fn check_changes_nothing() {
    let (directory, _) = closed_store(5);
    let store = directory.path().join("windlass-data/store");
    let contents = || {
        let names = fs::read_dir(&store).expect("a directory").map(|file| file.expect("a file").path());
        let mut files: Vec<_> = names.map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect();
        files.sort();
        files
    };
    let before = contents();
    stdout(windlass(directory.path()).args(["store", "check"]), 0);
    assert_eq!(contents(), before);
}

#[test]
fn a_snapshot_overwrites_nothing() {
    let (directory, _) = closed_store(5);
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").expect("a file");
    for name in ["b.snap", "b.snap.new"] {
        std::os::unix::fs::symlink(&victim, directory.path().join(name)).expect("a link");
        let output =
            windlass(directory.path()).args(["store", "snapshot", "b.snap"]).output().expect("it starts");
        assert!(!output.status.success());
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
        fs::remove_file(directory.path().join(name)).expect("a link");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_and_a_full_disk_is() {
    let (directory, _) = closed_store(5);
    let mut child = windlass(directory.path())
        .args(["store", "stats"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let full = fs::File::options().write(true).open("/dev/full").expect("there is one");
    let status =
        windlass(directory.path()).args(["store", "stats"]).stdout(full).stderr(Stdio::null()).status();
    assert_eq!(status.expect("it ends").code(), Some(1));
}
