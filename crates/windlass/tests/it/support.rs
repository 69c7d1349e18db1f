//! Running the binary, and stores for it to work on.

use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use windlass_store::{Embedded, Expect, Retention, Store, Txn};

/// The binary under test, in `directory`.
pub(crate) fn windlass(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(directory);
    command
}

/// What it printed to stdout; fails the test when the exit code is another.
#[track_caller]
pub(crate) fn stdout(command: &mut Command, code: i32) -> String {
    text(&finish(command, code).stdout)
}

/// What it printed to stderr; fails the test when the exit code is another.
#[track_caller]
pub(crate) fn stderr(command: &mut Command, code: i32) -> String {
    text(&finish(command, code).stderr)
}

#[track_caller]
fn finish(command: &mut Command, code: i32) -> Output {
    let output = command.output().expect("the binary starts");
    let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{command:?} printed:\n{printed}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Opens the embedded store where the binary looks for it.
pub(crate) fn open(data_dir: &Path) -> Embedded {
    std::fs::create_dir_all(data_dir).expect("a directory");
    std::fs::set_permissions(data_dir, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    Embedded::open(&data_dir.join("store"), Retention::default()).expect("the store opens")
}

/// Writes `n_keys` values and returns the revision afterwards.
pub(crate) fn fill(store: &Embedded, n_keys: usize, value: &str) -> u64 {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for idx in 0..n_keys {
            let txn = Txn::new().put(format!("pods/default/pod-{idx:04}"), value.to_owned(), Expect::Any);
            store.commit(txn).await.expect("a healthy disk");
        }
    });
    store.window().head.get()
}
