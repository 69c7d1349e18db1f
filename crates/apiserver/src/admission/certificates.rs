//! Certificates: nobody may ask for one that makes them an administrator.

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use windlass_access::{Attributes, Wanted};
use windlass_machinery::object;
use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer};

use super::{Operation, Plugin, Request};
use crate::status::Outcome;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const GROUP: &str = "system:masters";

/// Writes into a request for a certificate who asks for it, whatever the client says.
pub(super) struct CertificateRequester;

#[async_trait]
impl Plugin for CertificateRequester {
    fn name(&self) -> &'static str {
        "CertificateRequester"
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let asked = request.operation == Operation::Create
            && request.is("certificates.k8s.io", "certificatesigningrequests");
        if asked {
            let user = request.user;
            let spec = object::child_mut(&mut request.object, "spec");
            spec.insert("username".to_owned(), user.name.as_str().into());
            spec.insert("groups".to_owned(), user.groups.clone().into());
            match user.extra.is_empty() {
                true => drop(spec.remove("extra")),
                false => drop(spec.insert("extra".to_owned(), serde_json::json!(user.extra))),
            }
            match user.uid.is_empty() {
                true => drop(spec.remove("uid")),
                false => drop(spec.insert("uid".to_owned(), user.uid.as_str().into())),
            }
        }
        Ok(())
    }
}

pub(super) struct CertificateSubjectRestriction;

#[async_trait]
impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let asked = request.operation == Operation::Create
            && request.is("certificates.k8s.io", "certificatesigningrequests")
            && object::str_at(&request.object, &["spec", "signerName"]) == Some(SIGNER);
        if !asked {
            return Ok(());
        }
        let text = object::str_at(&request.object, &["spec", "request"]).unwrap_or_default();
        match organizations(text) {
            None => Err(request.refuse("failed to parse CSR")),
            Some(groups) if groups.iter().any(|group| group == GROUP) => {
                Err(request.refuse(format!("use of {SIGNER} signer with {GROUP} group is not allowed")))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Nobody approves or signs for a signer, or vouches for its certificates, without the right to.
pub(super) struct SignerRights;

#[async_trait]
impl Plugin for SignerRights {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let is_change = request.operation == Operation::Update;
        if request.resource.group != "certificates.k8s.io"
            || !(is_change || request.operation == Operation::Create)
        {
            return Ok(());
        }
        let is_same = |field: &str| {
            let old = request.old.and_then(|old| object::at(old, &["status", field]));
            object::at(&request.object, &["status", field]) == old
        };
        const APPROVE: (&str, &str) = ("approve", "approve requests with signerName");
        const SIGN: (&str, &str) = ("sign", "sign requests with signerName");
        let rights: &[(&str, &str)] = match (request.resource.plural.as_str(), request.part) {
            ("certificatesigningrequests", Some("approval")) => &[APPROVE],
            ("certificatesigningrequests", _) if is_same("certificate") && is_same("conditions") => &[],
            ("certificatesigningrequests" | "podcertificaterequests", Some("status")) => &[SIGN],
            // Where writes are not restricted to their parts, both can be done by one.
            ("certificatesigningrequests", None) => &[APPROVE, SIGN],
            ("clustertrustbundles", None) => &[("attest", "attest for signerName")],
            _ => &[],
        };
        // Who changes what a bundle vouches for must have the right of before as well.
        let signers = [request.old, Some(&request.object)].into_iter().flatten();
        let signers = signers.filter_map(|object| object::str_at(object, &["spec", "signerName"]));
        for signer in signers.filter(|signer| !signer.is_empty()) {
            if let Some((_, done)) = rights.iter().find(|(verb, _)| !may(request, verb, signer)) {
                return Err(request.refuse(format!("user not permitted to {done} {signer:?}")));
            }
        }
        Ok(())
    }
}

/// Whether the user may do this for a signer, or for all of its domain.
fn may(request: &Request<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer, &format!("{domain}/*")].into_iter().any(|name| {
        let wanted = Wanted::Resource {
            group: "certificates.k8s.io",
            version: "*",
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        request.rights.allow(request.user, &Attributes { verb, wanted })
    })
}

/// The organizations a certificate is asked for, from PEM in base64.
fn organizations(text: &str) -> Option<Vec<String>> {
    let pem = BASE64_STANDARD.decode(text).ok()?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
    let (_, asked) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &asked.certification_request_info.subject;
    // One that is not text might still be read as the group by someone else, so it is refused.
    subject.iter_organization().map(|group| Some(group.as_str().ok()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::{World, admit};

    /// Asks for `O=system:masters, CN=eve`.
    const EVE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIaU1JR0pBZ0VBTUNjeEZ6QVZCZ05WQkFvTURuTj\
        VjM1JsYlRwdFlYTjBaWEp6TVF3d0NnWURWUVFEREFObApkbVV3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3\
        TkNBQVNJd0hrNWw2TjJpbjJ5NjA4dXBpT3lrNHFTCmJLR20xUjZPbFVCMTIxQkN1WDN6ODIzTHM3d1NPcXM2N2ZQWT\
        dSbFlnaFVyT2JFUFl2NXRrZ2R6MTZ5a29BQXcKQ2dZSUtvWkl6ajBFQXdJRFNBQXdSUUlnYjN3aW10NG5Ed3FadWVV\
        c3JqaGlHd1BDYVpKSk9qWUtGdFI1WWhiagpzZ0VDSVFEMFowZVNmMlp1K1l6dS9teEhrMXd4aEZyRmx4NU92VzR1d2\
        hPVmE0KzN3QT09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
    /// Asks for `O=readers, CN=bob`.
    const BOB: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIY01JR0NBZ0VBTUNBeEVEQU9CZ05WQkFvTUIzSm\
        xZV1JsY25NeEREQUtCZ05WQkFNTUEySnZZakJaTUJNRwpCeXFHU000OUFnRUdDQ3FHU000OUF3RUhBMElBQkV0WThL\
        RE1EQklKT1RqWDUvR3hmdEs0eXdEcVdLVDVDbWJnCjFxUE9tOVl3OGg2UU94ZStqa3NWdGkxa3FFV0hBczloM0hzRF\
        FDTDJYME9KenBzRVdsYWdBREFLQmdncWhrak8KUFFRREFnTkpBREJHQWlFQW5qSHNFcDA1ZVlSNVZmQjc2S3ZGQWlP\
        d0pOYWRkV1FlSllnbFNaeTZSeHdDSVFDSApUVUMvZzVvNyt0eHNsNTN3bm1FeWlQNUxHRzBUU3NNWFpmdXpzMjk2WX\
        c9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

    #[tokio::test]
    async fn nobody_gets_a_certificate_of_an_administrator() {
        let world = World::new(&[]).await;
        for (text, signer, accepted) in [
            (EVE, SIGNER, false),
            (BOB, SIGNER, true),
            ("bm90aGluZw==", SIGNER, false),
            (EVE, "example.com/other", true),
        ] {
            let asked = json!({"metadata": {"name": "c"}, "spec": {"signerName": signer, "request": text}});
            let request = world.request("certificates.k8s.io", "certificatesigningrequests", "", asked);
            let outcome = admit(&CertificateSubjectRestriction, request).await;
            assert_eq!(outcome.is_ok(), accepted, "{signer}");
        }
    }
}
