//! `windlass token`, without a server.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{stderr, stdout, windlass};

/// A directory in which a server has been.
fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pki = directory.path().join("windlass-data/pki");
    fs::create_dir_all(&pki).expect("the directory is ours");
    (directory, pki)
}

/// What a line prints that works.
#[track_caller]
fn printed(directory: &Path, line: &str) -> String {
    stdout(windlass(directory).arg("token").args(line.split(' ')), 0)
}

/// What is said about a line that is wrong.
#[track_caller]
fn refused(directory: &Path, line: &str) -> String {
    stderr(windlass(directory).arg("token").args(line.split(' ')), 64)
}

/// A part of a token: 0 is the header, 1 what it says.
fn part(token: &str, idx: usize) -> Value {
    let part = token.split('.').nth(idx).expect("three parts");
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
}

#[test]
fn a_token_of_a_user_is_made_with_a_key_that_only_the_owner_can_read() {
    let (directory, pki) = place();
    let jane = printed(directory.path(), "create --user jane --group devs --group ops --ttl 90m");
    assert_eq!(jane.lines().count(), 1, "{jane}");
    let said = part(jane.trim(), 1);
    assert_eq!((&said["sub"], &said["groups"]), (&json!("jane"), &json!(["devs", "ops"])));
    assert_eq!((&said["iss"], &said["aud"]), (&json!("windlass"), &json!(["windlass"])));
    let second = |name: &str| said[name].as_i64().expect("a time");
    assert_eq!(second("exp") - second("iat"), 90 * 60);
    let mode = fs::metadata(pki.join("token.key")).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let joe = printed(directory.path(), "create --user joe");
    assert_eq!(part(&joe, 0), part(&jane, 0), "the key stays");
    assert_ne!(part(&joe, 1)["jti"], said["jti"]);
    fs::remove_file(pki.join("token.key")).expect("it is there");
    let jim = printed(directory.path(), "create --user jim");
    assert_ne!(part(&jim, 0), part(&jane, 0), "a key that is gone is not made again");
}

#[test]
fn names_of_the_system_are_given_away_only_on_purpose() {
    let (directory, _) = place();
    for line in ["create --user system:admin", "create --user jane --group system:masters"] {
        let said = refused(directory.path(), line);
        assert!(said.contains("--allow-system"), "{said}");
        printed(directory.path(), &format!("{line} --allow-system"));
    }
}

#[test]
fn lines_that_make_no_sense_are_refused() {
    let (directory, pki) = place();
    for (line, why) in [
        ("create", "--user"),
        ("create --user jane --ttl 0s", "--ttl"),
        ("create --user jane --ttl 9000h", "--ttl"),
        ("create --user jane --ttl soon", "--ttl"),
        ("create --user jane --service-account a/b", "--service-account"),
        ("create --service-account robot", "NAMESPACE/NAME"),
        ("create --service-account a/../b", "NAMESPACE/NAME"),
        ("create --user jane --data-dir elsewhere", "--data-dir elsewhere"),
        ("revoke #", "id"),
        ("revoke e30.e30.", "id"),
        ("revoke a-token-of-a-file", "--token-auth-file"),
        ("create --user jane --ttl -1h", "--ttl"),
    ] {
        let said = refused(directory.path(), line);
        assert!(said.contains(why), "{line}: {said}");
    }
    assert!(!pki.join("token.key").exists() && !pki.join("revoked-tokens").exists());
    let said = stderr(windlass(directory.path()).args(["token", "create", "--service-account", "a/b"]), 1);
    assert!(said.contains("nothing is ready"), "{said}");
}

/// Or somebody would believe that it is.
#[test]
fn a_token_that_cannot_be_listed_is_not_called_revoked() {
    let (directory, pki) = place();
    let jane = printed(directory.path(), "create --user jane");
    let list = fs::File::create(pki.join("revoked-tokens")).expect("a list");
    list.set_len(64 << 20).expect("a long list");
    let told = stderr(windlass(directory.path()).args(["token", "revoke", jane.trim()]), 1);
    assert!(told.contains("the token is NOT revoked") && told.contains("revoked-tokens is full"), "{told}");
}

#[test]
fn revoked_tokens_are_listed_by_id() {
    let (directory, pki) = place();
    let jane = printed(directory.path(), "create --user jane");
    assert_eq!(printed(directory.path(), &format!("revoke {}", jane.trim())), "");
    let other = "0b6a9a1e-6f9c-4a7e-9d0e-0b1f2c3d4e5f";
    assert_eq!(printed(directory.path(), &format!("revoke {other}")), "");
    let listed = fs::read_to_string(pki.join("revoked-tokens")).expect("a list");
    assert_eq!(listed, format!("{}\n{other}\n", part(&jane, 1)["jti"].as_str().expect("an id")));
}
