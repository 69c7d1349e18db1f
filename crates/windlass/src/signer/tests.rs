//! What the authority signs can be read and verified, and says what was asked for.

use std::{collections::BTreeSet, time::SystemTime};

use rcgen::{CertificateParams, DistinguishedName, DnType};

use super::*;

const NOW: i64 = 1_900_000_000;

fn authority() -> Authority {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW as u64);
    crate::pki::prepare(folder.path(), &BTreeSet::new(), now).expect("an authority");
    Authority::read(folder.path()).expect("it was made").expect("it signs")
}

fn request(subject: &[(DnType, &str)]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    subject.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
    let key = KeyPair::generate().expect("a key");
    params.serialize_request(&key).expect("a request").pem().expect("PEM")
}

fn asked(request: &str, lasts: u64) -> Asked<'_> {
    Asked {
        request: request.as_bytes(),
        usages: (true, false),
        now: Timestamp::from_second(NOW).expect("a moment"),
        lasts: Duration::from_secs(lasts),
    }
}

#[test]
fn a_certificate_is_of_whom_it_was_asked_for_and_for_as_long() {
    let authority = authority();
    let request = request(&[(DnType::OrganizationName, "developers"), (DnType::CommonName, "ann")]);
    let pem = authority.sign(&asked(&request, 600)).expect("a good request");
    let (_, pem) = parse_x509_pem(pem.as_bytes()).expect("PEM");
    let (rest, cert) = X509Certificate::from_der(&pem.contents).expect("a certificate");
    assert!(rest.is_empty());
    assert_eq!(cert.subject().to_string(), "O=developers, CN=ann");
    assert_eq!(cert.issuer().to_string(), "CN=windlass-ca");
    assert_eq!(cert.validity().not_after.timestamp(), NOW + 600);
    assert!(!cert.is_ca());
    assert!(cert.key_usage().expect("readable").expect("there").value.digital_signature());
    let extended = cert.extended_key_usage().expect("readable").expect("there").value;
    assert!(extended.client_auth && !extended.server_auth);
    let (_, asked_for) = parse_x509_pem(request.as_bytes()).expect("PEM");
    let (_, asked_for) = X509CertificationRequest::from_der(&asked_for.contents).expect("a request");
    assert_eq!(cert.public_key().raw, asked_for.certification_request_info.subject_pki.raw);
    let key = X509Certificate::from_der(&pem.contents).map(|(_, cert)| cert).expect("a certificate");
    let spki = rcgen::PublicKeyData::subject_public_key_info(&authority.key);
    let (_, spki) = x509_parser::x509::SubjectPublicKeyInfo::from_der(&spki).expect("a key");
    key.verify_signature(Some(&spki)).expect("the authority has signed it");
}

#[test]
fn every_organisation_of_a_request_is_kept() {
    // Made with: openssl req -new -newkey ed25519 -nodes -subj /O=a/O=b/CN=ann
    let request = request_of_two_groups();
    let pem = authority().sign(&asked(&request, 600)).expect("a good request");
    let (_, pem) = parse_x509_pem(pem.as_bytes()).expect("PEM");
    let (_, cert) = X509Certificate::from_der(&pem.contents).expect("a certificate");
    let groups: Vec<_> = cert.subject().iter_organization().filter_map(|group| group.as_str().ok()).collect();
    assert_eq!(groups, ["a", "b"]);
}

fn request_of_two_groups() -> String {
    include_str!("two_groups.csr").to_owned()
}

#[test]
fn nothing_outlives_the_authority() {
    let authority = authority();
    let request = request(&[(DnType::CommonName, "ann")]);
    let pem = authority.sign(&asked(&request, 30 * 365 * 24 * 3600)).expect("a good request");
    let (_, pem) = parse_x509_pem(pem.as_bytes()).expect("PEM");
    let (_, cert) = X509Certificate::from_der(&pem.contents).expect("a certificate");
    assert_eq!(cert.validity().not_after.timestamp(), authority.not_after);
}

#[test]
fn what_cannot_be_signed_is_told() {
    let authority = authority();
    let nameless = request(&[(DnType::OrganizationName, "developers")]);
    let other = request(&[(DnType::CommonName, "ann")]);
    // Another's request with a name of the same length: the signature is not of this.
    let forged = {
        let (_, pem) = parse_x509_pem(other.as_bytes()).expect("PEM");
        let at = pem.contents.windows(3).position(|window| window == b"ann").expect("the name is in it");
        let mut der = pem.contents.clone();
        der[at..at + 3].copy_from_slice(b"eve");
        pem_block("CERTIFICATE REQUEST", &der)
    };
    for (request, why) in
        [("hello", "not PEM"), (&*nameless, "no common name"), (&*forged, "not signed with its own key")]
    {
        let told = authority.sign(&asked(request, 600)).expect_err(why);
        assert!(told.contains(why), "{told}");
    }
}
