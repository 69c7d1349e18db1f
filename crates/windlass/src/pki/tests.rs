//! What is made, what is kept, and what is refused.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn set(names: &[&str]) -> BTreeSet<San> {
    names.iter().map(|name| name.parse().expect("a name")).collect()
}

fn after_days(days: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + days * DAY)
}

fn at(folder: &Path, days: u64, names: &[&str]) -> Pki {
    prepare(folder, &set(names), after_days(days)).expect("a healthy folder")
}

fn refused(folder: &Path, days: u64) -> String {
    prepare(folder, &set(&["localhost"]), after_days(days)).expect_err("it must not be accepted").to_string()
}

/// Reads what a certificate says.
fn look<T>(pem: &str, at: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    let der = parse_pem(Path::new("test"), pem).expect("PEM");
    at(&parse(Path::new("test"), &der).expect("a certificate"))
}

#[test]
fn what_was_made_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = at(folder.path(), 0, &["localhost", "127.0.0.1", "::1"]);
    assert_eq!(at(folder.path(), 1, &["localhost"]), made);
    let modes: Vec<_> = ["ca.key", "apiserver.key", "admin.key"]
        .map(|name| fs::metadata(folder.path().join(name)).expect("a key").permissions().mode() & 0o777)
        .into();
    assert_eq!(modes, [0o600; 3]);
}

#[test]
fn certificates_say_who_and_what_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let Pki { ca, server, admin } = at(folder.path(), 0, &["localhost", "10.96.0.1"]);
    assert_eq!(look(&ca, |cert| cert.subject().to_string()), "CN=windlass-ca");
    assert_eq!(look(&admin.cert, |cert| cert.subject().to_string()), "O=system:masters, CN=admin");
    assert_eq!(look(&server.cert, names), set(&["localhost", "10.96.0.1"]));
    let uses = |pem: &str| {
        look(pem, |cert| {
            let found = cert.extended_key_usage().expect("readable").expect("there").value;
            (found.server_auth, found.client_auth)
        })
    };
    assert_eq!((uses(&server.cert), uses(&admin.cert)), ((true, false), (false, true)));
    let lasts = |pem: &str| look(pem, |cert| not_after(cert) - not_before(cert) - CLOCK_SKEW);
    assert_eq!((lasts(&ca), lasts(&server.cert)), (CA_LIFE, LEAF_LIFE));
}

#[test]
fn a_new_name_or_a_near_end_means_a_new_certificate_of_the_same_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = at(folder.path(), 0, &["localhost"]);
    let renamed = at(folder.path(), 0, &["localhost", "api.example.org"]);
    assert_ne!(renamed.server, first.server);
    assert_eq!((&renamed.ca, &renamed.admin), (&first.ca, &first.admin));
    assert_eq!(at(folder.path(), 334, &["localhost"]).server, renamed.server);
    let later = at(folder.path(), 336, &["localhost"]);
    assert_ne!((&later.server, &later.admin), (&renamed.server, &renamed.admin));
    assert_eq!(later.ca, first.ca);
}

#[test]
fn nothing_outlives_the_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    at(folder.path(), 0, &["localhost"]);
    let last = at(folder.path(), 3649, &["localhost"]);
    assert_eq!(look(&last.server.cert, not_after), look(&last.ca, not_after));
    assert_eq!(at(folder.path(), 3649, &["localhost"]), last, "renewing it again gains nothing");
    assert!(refused(folder.path(), 3651).contains("ca.crt has expired"));
}

#[test]
fn a_certificate_of_another_authority_is_made_anew() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    at(folder.path(), 0, &["localhost"]);
    let first = at(other.path(), 0, &["localhost"]);
    for name in ["ca.crt", "ca.key"] {
        fs::copy(folder.path().join(name), other.path().join(name)).expect("a copy");
    }
    assert_ne!(at(other.path(), 0, &["localhost"]).server, first.server);
}

#[test]
fn a_key_without_its_certificate_is_used_and_the_reverse_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    at(folder.path(), 0, &["localhost"]);
    let key = fs::read(folder.path().join("ca.key")).expect("a key");
    fs::remove_file(folder.path().join("ca.crt")).expect("it was there");
    at(folder.path(), 0, &["localhost"]);
    assert_eq!(fs::read(folder.path().join("ca.key")).expect("a key"), key);
    fs::remove_file(folder.path().join("ca.key")).expect("it was there");
    assert!(refused(folder.path(), 0).contains("ca.key is missing"));
}

#[test]
fn damaged_files_are_named_and_left_alone() {
    for name in ["ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key"] {
        let folder = tempfile::tempdir().expect("a folder");
        at(folder.path(), 0, &["localhost"]);
        let path = folder.path().join(name);
        for damage in
            [&b""[..], b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            fs::write(&path, damage).expect("written");
            let told = refused(folder.path(), 0);
            assert!(told.contains(&format!("{name} is damaged")), "{name}: {told}");
            assert_eq!(fs::read(&path).expect("a file"), damage);
        }
    }
}

/// fabric8 and others read no PKCS#8, whatever made it; old directories have such keys, and new ones too.
#[test]
fn keys_are_shown_in_the_form_that_all_clients_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let admin = at(folder.path(), 0, &["localhost"]).admin;
    let shown = sec1(&admin.key);
    assert!(shown.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "not SEC 1");
    let public = |pem: &str| {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
        let key =
            rustls::crypto::ring::sign::any_supported_type(&key).expect("a key of a kind that is known");
        key.public_key().expect("it has a public half").to_vec()
    };
    assert_eq!(public(&shown), public(&admin.key));
    assert_eq!(sec1(&shown), shown, "it is in that form already");
    let other = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n-----END PRIVATE KEY-----\n";
    assert_eq!(sec1(other), other, "a key that SEC 1 has no form for");
}
