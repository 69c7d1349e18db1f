//! What lies on the disk: no key that others can read, and no Secret in the clear, over changes of the keys too.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

use windlass_e2e::{Server, eventually};

use crate::objects::{contains, create};

/// What is planted: as it is typed and as it is stored.
const PLANTED: [&str; 4] = ["hush-string-data-1", "hush-data-2", "hush-token-3", "hush-replaced-4"];

const SECRETS: &str = "
apiVersion: v1
kind: Secret
metadata: {name: typed}
stringData: {password: hush-string-data-1}
---
apiVersion: v1
kind: Secret
metadata: {name: encoded}
data: {password: aHVzaC1kYXRhLTI=}
---
apiVersion: v1
kind: Secret
metadata: {name: token, annotations: {kubernetes.io/service-account.name: default}}
type: kubernetes.io/service-account-token
stringData: {token: hush-token-3}
";

fn data(server: &Server) -> PathBuf {
    server.directory().join("data")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Where a planted value stands in the clear, or in base64.
fn shown(folder: &Path) -> Vec<String> {
    let encoded = ["aHVzaC1zdHJpbmctZGF0YS0x", "aHVzaC1kYXRhLTI", "aHVzaC10b2tlbi0z", "aHVzaC1yZXBsYWNlZC00"];
    let mut found = vec![];
    for file in files(folder).into_iter().filter(|path| path.is_file()) {
        let bytes = fs::read(&file).expect("a file of ours");
        for value in PLANTED.iter().chain(&encoded) {
            if bytes.windows(value.len()).any(|window| window == value.as_bytes()) {
                found.push(format!("{value} in {}", file.display()));
            }
        }
    }
    found
}

fn password(server: &Server, name: &str) -> String {
    server.kubectl(&format!("get secret {name} -o jsonpath={{.data.password}}")).ok()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until everything is encrypted with the current key.
fn resealed(server: &Server) {
    eventually(|| {
        let metrics = server.kubectl("get --raw /metrics").ok();
        match metrics.contains("windlass_store_to_reseal 0") {
            true => Ok(()),
            false => Err("not everything is sealed with the current key".to_owned()),
        }
    });
}

#[test]
fn a_fresh_directory_shows_no_secret_and_no_key_to_others() {
    let mut server = Server::start();
    server.kubectl("create -f -").yaml(SECRETS).ok();
    server
        .kubectl("patch secret typed --type merge -p '{\"stringData\":{\"password\":\"hush-replaced-4\"}}'")
        .ok();
    let taken = server.run(&["store", "snapshot", "backup.snap", "--data-dir", "data"]);
    assert!(taken.status.success(), "{}", stderr(&taken));
    server.stop();
    assert_eq!(shown(&data(&server)), Vec::<String>::new());
    fs::create_dir(server.directory().join("snap")).expect("a folder");
    fs::rename(server.directory().join("backup.snap"), server.directory().join("snap/backup.snap"))
        .expect("a file");
    assert_eq!(shown(&server.directory().join("snap")), Vec::<String>::new());
    for path in
        files(&data(&server)).into_iter().chain(files(&server.directory().join("snap")).into_iter().skip(1))
    {
        let mode = fs::metadata(&path).expect("a file of ours").permissions().mode() & 0o777;
        // Certificates are for everyone; the folder around them is not.
        let allowed = if path.extension().is_some_and(|kind| kind == "crt") { 0o644 } else { 0o700 };
        assert_eq!(mode & !allowed, 0, "{} has mode {mode:03o}", path.display());
    }
    // The snapshot brings everything back, with the key.
    let restored = server.run(&["store", "restore", "snap/backup.snap", "--data-dir", "data"]);
    assert!(restored.status.success(), "{}", stderr(&restored));
    assert_eq!(shown(&data(&server)), Vec::<String>::new());
    server.start_again();
    assert_eq!(password(&server, "typed"), "aHVzaC1yZXBsYWNlZC00");
    assert_eq!(password(&server, "encoded"), "aHVzaC1kYXRhLTI=");
}

#[test]
fn keys_can_be_changed_and_old_ones_taken_away() {
    let mut server = Server::start();
    create(
        &server,
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: aHVzaC1kYXRhLTI=}}",
    );
    server.stop();
    let own = data(&server).join("pki/encryption.yaml");
    let first = fs::read_to_string(&own).expect("the server has made it");
    let new = "      - name: new\n        secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n";
    let both = first.replacen("      - name:", &format!("{new}      - name:"), 1);
    fs::write(&own, both).expect("a file of ours");
    server.start_again();
    resealed(&server);
    assert_eq!(password(&server, "s"), "aHVzaC1kYXRhLTI=");
    server.stop();
    let old = first.find("      - name:").expect("a key");
    let end = first.find("  - identity").expect("a provider");
    let only = format!("{}{new}{}", &first[..old], &first[end..]);
    fs::write(&own, only).expect("a file of ours");
    server.start_again();
    assert_eq!(password(&server, "s"), "aHVzaC1kYXRhLTI=");
    assert_eq!(shown(&data(&server).join("store")), Vec::<String>::new());
    server.stop();
    // Now the first key is of no use any more, and no file at all is not made up for.
    fs::write(&own, first).expect("a file of ours");
    let refused = server.run(&["up", "--data-dir", "data", "--secure-port", "0"]);
    assert_eq!(refused.status.code(), Some(1));
    contains(
        &stderr(&refused),
        &[
            "the value of secrets/default/s cannot be opened",
            "xchacha20poly1305, key \"new\"",
            "put a copy of data/pki/encryption.yaml back",
        ],
    );
    fs::remove_file(&own).expect("a file of ours");
    let refused = server.run(&["up", "--data-dir", "data", "--secure-port", "0"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!own.exists(), "a new key would stand in the way of the right one");
}

#[test]
fn a_configuration_chooses_resources_and_providers() {
    let mut server = Server::start();
    let config = "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, configmaps]
  providers:
  - PROVIDER:
      keys: [{name: k, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]
";
    let given = server.directory().join("encryption.yaml");
    let write = |text: &str| {
        fs::write(&given, text).expect("a directory of ours");
        fs::set_permissions(&given, fs::Permissions::from_mode(0o600)).expect("a file of ours");
    };
    server.stop();
    fs::remove_dir_all(data(&server)).expect("a directory of ours");
    server.set_flags(&["--encryption-provider-config", "encryption.yaml"]);
    write(&config.replace("PROVIDER", "aesgcm"));
    server.start_again();
    create(&server, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {key: hush-data-2}}");
    server.stop();
    assert!(!data(&server).join("pki/encryption.yaml").exists(), "a key was given");
    assert_eq!(shown(&data(&server)), Vec::<String>::new());
    for (text, told) in [
        (
            config.replace("PROVIDER", "kms"),
            "resources[0].providers[0].kms: key management services are not supported",
        ),
        (config.replace("MDEyMzQ1", ""), "resources[0].providers[0].PROVIDER: unknown field"),
        (
            config.replace("PROVIDER", "secretbox").replace("MDEyMzQ1", ""),
            "keys[0].secret: secret is not of the expected length, got 26, expected one of [32]",
        ),
    ] {
        write(&text);
        let refused = server.run(&[
            "up",
            "--data-dir",
            "data",
            "--secure-port",
            "0",
            "--encryption-provider-config",
            "encryption.yaml",
        ]);
        assert_eq!(refused.status.code(), Some(64), "{}", stderr(&refused));
        contains(&stderr(&refused), &["--encryption-provider-config encryption.yaml", told]);
    }
}

#[test]
fn cve_2020_15113_what_others_can_read_is_for_the_owner_alone_after_a_start() {
    let mut server = Server::start();
    server.stop();
    let opened = [
        ("data", 0o755),
        ("data/pki", 0o750),
        ("data/pki/ca.key", 0o640),
        ("data/pki/encryption.yaml", 0o604),
    ];
    for (path, mode) in opened {
        let full = server.directory().join(path);
        fs::set_permissions(&full, fs::Permissions::from_mode(mode)).expect("a file of ours");
    }
    server.start_again();
    for (path, _) in opened {
        let mode = fs::metadata(server.directory().join(path)).expect("a file of ours").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path}: {mode:o}");
    }
}
