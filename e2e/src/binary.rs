//! Finding the binary under test, and building it when that has not happened.
//!
//! `cargo test --workspace` has built it before any test runs; a test of this crate alone has not. Building it here in
//! every case would compile it a second time with the features of one package instead of the workspace's, so it is
//! only built when it is missing or older than its sources.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Names another binary to test, for instance a released one.
const CHOSEN: &str = "WINDLASS_BIN";

/// The binary under test.
pub(crate) fn windlass() -> &'static Path {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| env::var_os(CHOSEN).map_or_else(built, |path| Ok(path.into())));
    found.as_ref().unwrap_or_else(|problem| panic!("{problem}"))
}

fn built() -> Result<PathBuf, String> {
    let test = env::current_exe().expect("a test is a file");
    // TARGET/PROFILE/deps/TEST
    let profile = test.ancestors().nth(2).expect("cargo's folders");
    let binary = profile.join("windlass");
    if !is_fresh(&binary) {
        build(profile)?;
    }
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!("cargo built no {}: name the binary in {CHOSEN}", binary.display())),
    }
}

/// Whether it is newer than every source that cargo says went into it.
fn is_fresh(binary: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let (Some(built), Ok(sources)) = (modified(binary), fs::read_to_string(binary.with_extension("d")))
    else {
        return false;
    };
    let sources = sources.split_once(": ").map_or("", |(_, sources)| sources);
    sources.split_whitespace().all(|source| modified(Path::new(source)).is_some_and(|at| at <= built))
}

fn build(profile: &Path) -> Result<(), String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "windlass"]);
    command.arg("--target-dir").arg(profile.parent().expect("cargo's target folder"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the binary under test does not build".to_owned()),
        Err(error) => Err(format!("cargo does not start: {error}: name a binary in {CHOSEN}")),
    }
}
