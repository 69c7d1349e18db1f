//! Which files are taken, and what is told of those that are not.

use rcgen::{CertificateParams, KeyPair};

use super::*;

fn identity(name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

fn refused(files: &TlsFiles) -> String {
    files.read().expect_err("it cannot be used").to_string()
}

#[test]
fn files_that_cannot_be_used_are_named_with_their_flag() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let ((cert, key), (_, other_key)) = (identity("a.example.org"), identity("b.example.org"));
    for (name, text) in
        [("cert", &*cert), ("key", &*key), ("other", &*other_key), ("empty", ""), ("text", "hello")]
    {
        fs::write(path(name), text).expect("written");
    }
    let server =
        |cert: &str, key: &str| TlsFiles { server: Some((path(cert), path(key))), ..TlsFiles::default() };
    let given = server("cert", "key").read().expect("they belong together");
    assert_eq!(given.server.map(|identity| identity.cert), Some(cert));
    for (files, flag, why) in [
        (server("none", "key"), "--tls-cert-file", "expected a PEM file"),
        (server("cert", "none"), "--tls-private-key-file", "expected a PEM file"),
        (server("empty", "key"), "--tls-cert-file", "no certificate"),
        (server("cert", "text"), "--tls-private-key-file", "damaged"),
        (server("cert", "other"), "--tls-private-key-file", "another certificate"),
        (
            TlsFiles { client_ca: Some(path("text")), ..TlsFiles::default() },
            "--client-ca-file",
            "no certificate",
        ),
        (
            TlsFiles { client_ca: Some(path("none")), ..TlsFiles::default() },
            "--client-ca-file",
            "expected a PEM file",
        ),
    ] {
        let told = refused(&files);
        assert!(told.contains(flag) && told.contains(why), "{files:?}: {told}");
        assert!(!told.contains("PRIVATE"), "{told}");
    }
}
