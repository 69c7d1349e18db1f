//! Directories written by every released format open, with their history.

use std::{fs, path::Path};

use windlass_store::{Embedded, Read, Retention, Revision, Store};

/// A copy of a fixture that may be written to.
fn copy(fixture: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
    for file in fs::read_dir(source).expect("the fixture") {
        let file = file.expect("a file");
        fs::copy(file.path(), directory.path().join(file.file_name())).expect("a copy");
    }
    directory
}

/// The fixture holds forty transactions: number n puts `value n …` under thing n mod 12; every tenth deletes
/// that thing and puts n under the marker instead.
#[tokio::test]
async fn format_1_opens() {
    let directory = copy("format-1");
    let store = Embedded::open(directory.path(), Retention::default()).expect("the fixture opens");
    let window = store.window();
    assert_eq!((window.floor, window.head), (Revision::new(32), Revision::new(41)));
    for head in window.floor.get()..=window.head.get() {
        let snapshot = store.snapshot(Read::At(Revision::new(head))).await.expect("inside the window");
        // The first transaction made revision 2.
        for thing in 0..12 {
            let last = (1..head).rev().find(|number| number % 12 == thing).expect("each was put once");
            let key = format!("registry/things/thing-{thing:02}");
            let found = snapshot.get(key.as_bytes()).map(|entry| entry.value.clone());
            match last % 10 {
                0 => assert_eq!(found, None, "{key} at {head}"),
                _ => assert!(
                    found.expect(&key).starts_with(format!("value {last} ").as_bytes()),
                    "{key} at {head}"
                ),
            }
        }
        let marker = snapshot.get(b"registry/marker").expect("it was put").value.clone();
        assert_eq!(marker, ((head - 1) / 10 * 10).to_string());
    }
}
