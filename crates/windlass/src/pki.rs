//! Certificates: an authority of our own, and what it signs for the server and the administrator.
//!
//! Made at the first start and kept. The authority lasts ten years; what it signs lasts one and is made anew when
//! thirty days are left, when the server gets a name that its certificate lacks, or when a file is gone. A file
//! that is there but damaged is never replaced: someone has to look. Start at [`prepare`].

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    net::IpAddr,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context, anyhow, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::{
    datadir::{create_folder, make_private, write_file},
    tls::certificates,
    values::San,
};

#[cfg(test)]
mod tests;

const DAY: u64 = 24 * 60 * 60;

/// Replacing the authority means replacing every kubeconfig, so rarely.
const CA_LIFE: u64 = 3650 * DAY;

/// What a stolen key is good for at most, since nothing is ever revoked.
const LEAF_LIFE: u64 = 365 * DAY;

/// Enough for a server that is restarted once a month; a running one looks more often.
const RENEW_BEFORE: u64 = 30 * DAY;

/// Clocks of clients are a little behind at times.
const CLOCK_SKEW: u64 = 300;

/// Members of this group may do everything.
const MASTERS: &str = "system:masters";

/// Everything the server and its administrator need, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pki {
    /// The authority's certificate.
    pub(crate) ca: String,
    /// What the server shows.
    pub(crate) server: Identity,
    /// What the administrator shows.
    pub(crate) admin: Identity,
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The certificate.
    pub(crate) cert: String,
    /// Its key. Never printed.
    pub(crate) key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("cert", &self.cert).finish_non_exhaustive()
    }
}

/// Reads what is in `folder`, making whatever is missing, about to expire, or not for all of `names`.
pub(crate) fn prepare(folder: &Path, names: &BTreeSet<San>, now: SystemTime) -> anyhow::Result<Pki> {
    create_folder(folder)?;
    make_private(folder)?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?.as_secs();
    let authority = Authority::prepare(folder, now)?;
    let server = Leaf {
        name: "apiserver",
        subject: &[(DnType::CommonName, "windlass-apiserver")],
        names: Some(names),
    };
    let admin = Leaf {
        name: "admin",
        subject: &[(DnType::OrganizationName, MASTERS), (DnType::CommonName, "admin")],
        names: None,
    };
    Ok(Pki {
        server: server.prepare(folder, &authority, now)?,
        admin: admin.prepare(folder, &authority, now)?,
        ca: authority.pem,
    })
}

/// The name by which a client that connects to `address` has to know the server that shows this certificate, if that
/// is another.
pub(crate) fn name_for(pem: &str, address: IpAddr) -> Option<String> {
    let der = parse_pem(Path::new("the server's certificate"), pem).ok()?;
    let names = names(&X509Certificate::from_der(&der).ok()?.1);
    if names.contains(&San::Ip(address)) {
        return None;
    }
    let name = names.iter().find(|name| matches!(name, San::Dns(_))).or(names.first())?.to_string();
    // Any name will do where any name fits.
    Some(match name.strip_prefix("*.") {
        Some(rest) => format!("windlass.{rest}"),
        None => name,
    })
}

/// The key of an identity as all clients read it: PKCS#8 as it is made here, put into the form of SEC 1
/// (`BEGIN EC PRIVATE KEY`), which is what the field's kubeconfigs hold. Other keys stay as they are.
pub(crate) fn sec1(pem: &str) -> String {
    // Both forms of a key on P-256 have fixed lengths: the scalar, and behind it the public key.
    const PKCS8: &[u8] =
        b"\x30\x81\x87\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\
                           \x03\x01\x07\x04\x6d\x30\x6b\x02\x01\x01\x04\x20";
    const SEC1: &[u8] = b"\x30\x77\x02\x01\x01\x04\x20";
    const CURVE: &[u8] = b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    let Ok(PrivateKeyDer::Pkcs8(key)) = PrivateKeyDer::from_pem_slice(pem.as_bytes()) else {
        return pem.to_owned();
    };
    match key.secret_pkcs8_der().strip_prefix(PKCS8).and_then(|rest| rest.split_at_checked(32)) {
        Some((scalar, public)) if public.len() == 70 => {
            let der = [SEC1, scalar, CURVE, public].concat();
            pem_block("EC PRIVATE KEY", &der)
        }
        _ => pem.to_owned(),
    }
}

/// What is between two lines of dashes.
pub(crate) fn pem_block(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Who signs.
struct Authority {
    pem: String,
    der: Vec<u8>,
    not_after: u64,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn prepare(folder: &Path, now: u64) -> anyhow::Result<Self> {
        let (cert_path, key_path) = (folder.join("ca.crt"), folder.join("ca.key"));
        let key = match read_key(&key_path)? {
            Some((_, key)) => key,
            None if cert_path.exists() => bail!(
                "{} is missing, yet there is {}\nhint: put it back, or remove the folder to make a new authority; \
                 every kubeconfig made so far stops working then",
                key_path.display(),
                cert_path.display()
            ),
            None => {
                let key = KeyPair::generate().context("cannot make a key")?;
                write_file(&key_path, key.serialize_pem().as_bytes(), 0o600)?;
                key
            }
        };
        // The key comes first: after a crash in between, the certificate is made for it.
        let pem = match read(&cert_path)? {
            Some(pem) => pem,
            None => {
                let cert = authority_params(now).self_signed(&key).context("cannot make a certificate")?;
                write_file(&cert_path, cert.pem().as_bytes(), 0o644)?;
                cert.pem()
            }
        };
        let der = parse_pem(&cert_path, &pem)?;
        let not_after = {
            let cert = parse(&cert_path, &der)?;
            if cert.public_key().raw != key.subject_public_key_info() {
                bail!("{} does not belong to {}", key_path.display(), cert_path.display());
            }
            if !cert.is_ca() {
                bail!("{} is not the certificate of an authority", cert_path.display());
            }
            not_after(&cert)
        };
        if not_after <= now {
            bail!("{} has expired\nhint: remove its folder to make a new authority", cert_path.display());
        }
        if not_after - now < LEAF_LIFE {
            tracing::warn!(file = %cert_path.display(), days = (not_after - now) / DAY, "the authority expires soon");
        }
        let issuer = Issuer::from_ca_cert_der(&der.as_slice().into(), key)
            .map_err(|error| damaged(&cert_path, error))?;
        Ok(Authority { pem, der, not_after, issuer })
    }
}

/// A certificate that the authority signs.
struct Leaf<'a> {
    name: &'static str,
    subject: &'a [(DnType, &'static str)],
    /// What a server is called; nothing for a client.
    names: Option<&'a BTreeSet<San>>,
}

impl Leaf<'_> {
    fn prepare(&self, folder: &Path, authority: &Authority, now: u64) -> anyhow::Result<Identity> {
        let cert_path = folder.join(format!("{}.crt", self.name));
        let key_path = folder.join(format!("{}.key", self.name));
        if let (Some(cert), Some((key, pair))) = (read(&cert_path)?, read_key(&key_path)?) {
            let der = parse_pem(&cert_path, &cert)?;
            match self.unfit(&parse(&cert_path, &der)?, &pair, authority, now) {
                None => return Ok(Identity { cert, key }),
                Some(why) => tracing::info!(file = %cert_path.display(), why, "making a new certificate"),
            }
        }
        let key = KeyPair::generate().context("cannot make a key")?;
        let cert = self.params(authority, now)?.signed_by(&key, &authority.issuer);
        let cert = cert.with_context(|| format!("cannot sign {}", cert_path.display()))?.pem();
        let key = key.serialize_pem();
        // A crash in between leaves two that do not belong together, and both are made anew.
        write_file(&key_path, key.as_bytes(), 0o600)?;
        write_file(&cert_path, cert.as_bytes(), 0o644)?;
        Ok(Identity { cert, key })
    }

    /// Why a new one is needed, if one is.
    fn unfit(&self, cert: &X509Certificate<'_>, key: &KeyPair, by: &Authority, now: u64) -> Option<String> {
        let authority = X509Certificate::from_der(&by.der).ok()?.1;
        if cert.public_key().raw != key.subject_public_key_info() {
            return Some("the key is of another certificate".into());
        }
        if cert.verify_signature(Some(authority.public_key())).is_err() {
            return Some("another authority has signed it".into());
        }
        if not_after(cert) < (now + RENEW_BEFORE).min(by.not_after) {
            return Some("it expires within thirty days, or has".into());
        }
        if not_before(cert) > now {
            return Some("it is not valid yet".into());
        }
        let present = names(cert);
        let missing = self.names.into_iter().flatten().find(|name| !present.contains(name));
        missing.map(|name| format!("it is not for {name}"))
    }

    fn params(&self, authority: &Authority, now: u64) -> anyhow::Result<CertificateParams> {
        let mut params = params(now, (now + LEAF_LIFE).min(authority.not_after), self.subject);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match self.names {
            Some(_) => ExtendedKeyUsagePurpose::ServerAuth,
            None => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        for name in self.names.into_iter().flatten() {
            params.subject_alt_names.push(match name {
                San::Ip(address) => SanType::IpAddress(*address),
                San::Dns(name) => {
                    let text = name.as_str().try_into();
                    SanType::DnsName(text.with_context(|| format!("{name} cannot be in a certificate"))?)
                }
            });
        }
        Ok(params)
    }
}

fn authority_params(now: u64) -> CertificateParams {
    let mut params = params(now, now + CA_LIFE, &[(DnType::CommonName, "windlass-ca")]);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(now: u64, not_after: u64, subject: &[(DnType, &str)]) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch + Duration::from_secs(now.saturating_sub(CLOCK_SKEW));
    params.not_after = epoch + Duration::from_secs(not_after);
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params
}

fn not_after(cert: &X509Certificate<'_>) -> u64 {
    cert.validity().not_after.timestamp().try_into().unwrap_or(0)
}

fn not_before(cert: &X509Certificate<'_>) -> u64 {
    cert.validity().not_before.timestamp().try_into().unwrap_or(0)
}

/// What a certificate is for.
fn names(cert: &X509Certificate<'_>) -> BTreeSet<San> {
    let found = cert.subject_alternative_name().ok().flatten();
    let names = found.iter().flat_map(|extension| &extension.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(San::Dns((*name).to_owned())),
            GeneralName::IPAddress(bytes) => {
                let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok().map(San::Ip)
            }
            _ => None,
        })
        .collect()
}

/// The text of a file; nothing if there is none.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8(bytes).map_err(|error| damaged(path, error))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn read_key(path: &Path) -> anyhow::Result<Option<(String, KeyPair)>> {
    let Some(pem) = read(path)? else { return Ok(None) };
    let key = KeyPair::from_pem(&pem).map_err(|error| damaged(path, error))?;
    make_private(path)?;
    Ok(Some((pem, key)))
}

/// The first certificate in the text, in DER.
fn parse_pem(path: &Path, pem: &str) -> anyhow::Result<Vec<u8>> {
    let certs = certificates(pem).map_err(|error| damaged(path, crate::exit::chain(&error)))?;
    let first = certs.first().ok_or_else(|| damaged(path, "there is no certificate in it"))?;
    Ok(first.to_vec())
}

fn parse<'a>(path: &Path, der: &'a [u8]) -> anyhow::Result<X509Certificate<'a>> {
    X509Certificate::from_der(der).map(|(_, cert)| cert).map_err(|error| damaged(path, error))
}

fn damaged(path: &Path, why: impl fmt::Display) -> anyhow::Error {
    anyhow!(
        "{} is damaged: {why}\nhint: put a copy back; what the authority signed can also be removed to be made anew",
        path.display()
    )
}
