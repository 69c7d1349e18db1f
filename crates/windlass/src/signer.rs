//! The authority as a signer of requests for client certificates.
//!
//! A certificate is written out here byte by byte, because the subject and the key have to be those of the request,
//! whatever they are: the crate that makes the server's own certificates keeps only one organisation of a subject, and
//! those are the groups of a user. Nothing else of a request is taken over.

use std::{fmt, path::Path, time::Duration};

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use rcgen::{KeyPair, SigningKey};
use windlass_apiserver::{Asked, Signer};
use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::ParsedExtension,
    pem::parse_x509_pem,
    prelude::{FromDer, X509Certificate},
};

use crate::pki::pem_block;

#[cfg(test)]
mod tests;

/// Clocks of clients are a little behind at times.
const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// Years from here on need four digits.
const LONG_YEARS: i64 = 2_524_608_000;

/// `ecdsa-with-SHA256`, as an algorithm.
const ECDSA_SHA256: [u8; 12] = [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// `id-kp-clientAuth`.
const CLIENT_AUTH: [u8; 10] = [0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// Numbers of the extensions below `id-ce`.
const KEY_USAGE: u8 = 15;
const BASIC_CONSTRAINTS: u8 = 19;
const AUTHORITY_KEY: u8 = 35;
const EXTENDED_KEY_USAGE: u8 = 37;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;

/// Signs with the key of the authority.
pub(crate) struct Authority {
    key: KeyPair,
    /// Its name, as it stands in its certificate.
    name: Vec<u8>,
    /// What its key is called, if it has a name.
    key_id: Option<Vec<u8>>,
    not_after: i64,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// Reads the authority that is in `folder`; nothing if its key is of a kind that is not signed with here.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Option<Self>> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let key = KeyPair::from_pem(&read("ca.key")?).context("the authority's key is damaged")?;
        if key.algorithm() != &rcgen::PKCS_ECDSA_P256_SHA256 {
            tracing::warn!("the authority's key is not on P-256: requests for certificates are not signed");
            return Ok(None);
        }
        let pem = read("ca.crt")?;
        let (_, pem) = parse_x509_pem(pem.as_bytes()).context("the authority's certificate is damaged")?;
        let (_, cert) =
            X509Certificate::from_der(&pem.contents).context("the authority's certificate is damaged")?;
        let key_id = cert.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        Ok(Some(Authority {
            name: cert.subject().as_raw().to_vec(),
            key_id,
            not_after: cert.validity().not_after.timestamp(),
            key,
        }))
    }

    fn certify(&self, asked: &Asked<'_>) -> anyhow::Result<String> {
        let (_, pem) = parse_x509_pem(asked.request).map_err(|_| anyhow!("the request is not PEM"))?;
        let (_, request) = X509CertificationRequest::from_der(&pem.contents)
            .map_err(|_| anyhow!("the request is not a request for a certificate"))?;
        request.verify_signature().map_err(|_| anyhow!("the request is not signed with its own key"))?;
        let info = &request.certification_request_info;
        if info.subject.iter_common_name().next().is_none() {
            return Err(anyhow!("the request has no common name, which would be the user"));
        }
        let not_before = asked.now.as_second() - CLOCK_SKEW.as_secs() as i64;
        let not_after = (asked.now.as_second() + asked.lasts.as_secs() as i64).min(self.not_after);
        let to_be_signed = der(
            SEQUENCE,
            &[
                &[0xa0, 3, INTEGER, 1, 2],
                &serial(),
                &ECDSA_SHA256,
                &self.name,
                &der(SEQUENCE, &[&time(not_before)?, &time(not_after)?]),
                info.subject.as_raw(),
                info.subject_pki.raw,
                &der(0xa3, &[&der(SEQUENCE, &[&self.extensions(asked.usages)])]),
            ],
        );
        let signature = self.key.sign(&to_be_signed).context("cannot sign")?;
        let certificate =
            der(SEQUENCE, &[&to_be_signed, &ECDSA_SHA256, &der(BIT_STRING, &[&[0], &signature])]);
        Ok(pem_block("CERTIFICATE", &certificate))
    }

    fn extensions(&self, (signs, enciphers): (bool, bool)) -> Vec<u8> {
        let (signs, enciphers) = (if signs { 0x80 } else { 0 }, if enciphers { 0x20 } else { 0 });
        // Unused bits at the end are counted, and left out.
        let usage = match signs | enciphers {
            0x80 => [BIT_STRING, 2, 7, 0x80],
            bits => [BIT_STRING, 2, 5, bits],
        };
        let mut all = vec![extension(BASIC_CONSTRAINTS, true, &der(SEQUENCE, &[]))];
        if usage[3] != 0 {
            all.push(extension(KEY_USAGE, true, &usage));
        }
        all.push(extension(EXTENDED_KEY_USAGE, false, &der(SEQUENCE, &[&CLIENT_AUTH])));
        if let Some(id) = &self.key_id {
            all.push(extension(AUTHORITY_KEY, false, &der(SEQUENCE, &[&der(0x80, &[id])])));
        }
        all.concat()
    }
}

impl Signer for Authority {
    fn sign(&self, asked: &Asked<'_>) -> Result<String, String> {
        self.certify(asked).map_err(|error| crate::exit::chain(&error))
    }
}

/// A value with its tag and its length.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
            out.push(0x80 | bytes.len() as u8);
            out.extend(bytes);
        }
    }
    parts.iter().for_each(|part| out.extend(*part));
    out
}

fn extension(number: u8, is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if is_critical { &[0x01, 1, 0xff] } else { &[] };
    der(SEQUENCE, &[&[0x06, 3, 0x55, 0x1d, number], critical, &der(OCTET_STRING, &[value])])
}

/// A number that no other certificate has: random, and positive.
fn serial() -> Vec<u8> {
    let mut bytes = *uuid::Uuid::new_v4().as_bytes();
    bytes[0] = bytes[0] & 0x7f | 0x40;
    der(INTEGER, &[&bytes])
}

fn time(second: i64) -> anyhow::Result<Vec<u8>> {
    let moment = Timestamp::from_second(second).context("there is no such time")?;
    Ok(match second < LONG_YEARS {
        true => der(UTC_TIME, &[moment.strftime("%y%m%d%H%M%SZ").to_string().as_bytes()]),
        false => der(GENERALIZED_TIME, &[moment.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes()]),
    })
}
