//! Admission: an ordered list of plugins that may change or refuse a write before it is committed.
//!
//! A plugin sees one [`Request`], reads other objects from its consistent [`View`], and may add writes to
//! other keys that are committed together with the request, or not at all ([`Effects`]).
//!
//! The plugins are stateless: what they know is their configuration and the view. `chain` puts them in order.

mod certificates;
mod escalation;
pub(crate) mod expressions;
mod external_ips;
mod ingress;
mod kept;
mod limits;
mod matching;
mod namespace;
mod owners;
mod pod_security;
mod pods;
mod policies;
mod quota;
#[cfg(test)]
mod rehearsal;
mod scheduling;
mod service_account;
mod services;
mod signing;
mod storage;
mod subject;
#[cfg(test)]
mod testing;
mod webhooks;

pub(crate) use self::policies::check_expressions;
pub use self::signing::{Asked, Signer};

use std::{ops::RangeInclusive, sync::Arc};

use async_trait::async_trait;
pub use windlass_access::User;
use windlass_cel::Budget;
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
    stored::{self, Stored},
};
use windlass_store::{Expect, Revision, Snapshot};

use crate::{
    access::Rights,
    audit::Notes,
    registry::DeleteOptions,
    resources::{Catalog, Resource},
    status::{Outcome, Status},
    webhook::Webhooks,
};

/// What the plugins need to be told.
#[derive(Clone, Debug)]
pub(crate) struct AdmissionConfig {
    /// Where the addresses of services come from; the family of the first is the default.
    pub(crate) service_cidrs: Vec<ipnet::IpNet>,
    /// Where the node ports of services come from.
    pub(crate) node_ports: RangeInclusive<u16>,
    /// Where the external addresses of services may be.
    pub(crate) external_ips: Vec<ipnet::IpNet>,
    /// Who signs certificates of clients, if anyone does.
    pub(crate) signer: Option<Arc<dyn Signer>>,
}

/// The plugins in the order they run. Webhooks are called through `webhooks`.
pub(crate) fn chain(config: &AdmissionConfig, webhooks: &Arc<Webhooks>) -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(namespace::NamespaceLifecycle),
        Arc::new(limits::LimitRanger),
        Arc::new(service_account::ServiceAccount),
        Arc::new(scheduling::TaintNodesByCondition),
        Arc::new(scheduling::Priority),
        Arc::new(scheduling::DefaultTolerationSeconds),
        Arc::new(pod_security::PodSecurity),
        Arc::new(storage::StorageObjectInUseProtection),
        Arc::new(storage::PersistentVolumeClaimResize),
        Arc::new(scheduling::RuntimeClass),
        Arc::new(certificates::CertificateRequester),
        Arc::new(certificates::CertificateSubjectRestriction),
        Arc::new(ingress::DefaultIngressClass),
        Arc::new(storage::DefaultStorageClass),
        // Those that people bring see what all others have made of the object.
        Arc::new(policies::MutatingPolicies::new(webhooks)),
        Arc::new(webhooks::MutatingWebhooks::new(webhooks)),
        // Late, so that nothing is allocated for what another plugin still changes.
        Arc::new(services::ServiceAllocation::new(config)),
        Arc::new(external_ips::ExternalIps { allowed: config.external_ips.clone() }),
        Arc::new(policies::TypeChecking),
        // Before anyone outside is asked: they see what the user may have.
        Arc::new(escalation::NoEscalation),
        Arc::new(owners::OwnerReferencesPermissionEnforcement),
        Arc::new(certificates::SignerRights),
        Arc::new(policies::ValidatingPolicies::new(webhooks)),
        Arc::new(webhooks::ValidatingWebhooks::new(webhooks)),
        // Last: it counts what is left.
        Arc::new(quota::ResourceQuota),
        // And after the last who could refuse.
        Arc::new(signing::CertificateSigning(config.signer.clone())),
    ]
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object, or of a part of it.
    Update,
    /// A deletion, or what begins one.
    Delete,
    /// A connection to what an object stands for, such as a process in a pod.
    Connect,
}

impl Operation {
    /// As rules write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// The store at one revision, as objects.
#[derive(Clone, Debug)]
pub struct View {
    /// The keys and values.
    pub snapshot: Snapshot,
    /// What is served.
    pub catalog: Arc<Catalog>,
}

impl View {
    /// One object, in the version it is stored in, and the revision it was last written at.
    pub fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<(Object, Revision)> {
        let resource = self.catalog.get(group, plural)?;
        let entry = self.snapshot.get(resource.key(namespace, name).as_bytes())?;
        let object = Stored::new(&entry.value)?.object(entry.revision.get())?;
        Some((object, entry.revision))
    }

    /// Whether an object exists.
    pub fn has(&self, group: &str, plural: &str, namespace: &str, name: &str) -> bool {
        let resource = self.catalog.get(group, plural);
        resource.is_some_and(|resource| self.snapshot.get(resource.key(namespace, name).as_bytes()).is_some())
    }

    /// All objects of a resource in a namespace (empty: in all), in the version they are stored in.
    pub fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<(Object, Revision)> {
        let Some(resource) = self.catalog.get(group, plural) else { return vec![] };
        let range = resource.range(namespace);
        let entries = self.snapshot.iter(range.as_bytes(), None);
        entries
            .filter_map(|entry| {
                Some((Stored::new(&entry.value)?.object(entry.revision.get())?, entry.revision))
            })
            .collect()
    }
}

/// Writes to other keys that happen together with the request, or not at all.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) writes: Vec<Effect>,
    /// Keys that must be as expected, though nothing is written to them.
    pub(crate) requires: Vec<(String, Expect)>,
}

/// One write to another key; without a value it deletes.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) key: String,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) expect: Expect,
}

impl Effects {
    /// Goes ahead only if the key is as expected, without writing to it.
    pub fn require(&mut self, key: String, expect: Expect) {
        self.requires.push((key, expect));
    }

    /// Creates or changes another object, which must be as expected.
    pub fn put(&mut self, resource: &Resource, object: &Object, expect: Expect) {
        let key = resource.key(object::namespace(object), object::name(object));
        self.put_raw(key, stored::encode(object), expect);
    }

    /// Deletes another object if it is as expected.
    pub fn delete(&mut self, resource: &Resource, namespace: &str, name: &str, expect: Expect) {
        self.delete_raw(resource.key(namespace, name), expect);
    }

    /// Writes a key that is no object's, such as a reservation.
    pub fn put_raw(&mut self, key: String, value: Vec<u8>, expect: Expect) {
        self.writes.push(Effect { key, value: Some(value), expect });
    }

    /// Deletes a key that is no object's.
    pub fn delete_raw(&mut self, key: String, expect: Expect) {
        self.writes.push(Effect { key, value: None, expect });
    }
}

/// One write on its way to the store.
#[derive(Debug)]
pub struct Request<'a> {
    /// What is being done.
    pub operation: Operation,
    /// To which resource.
    pub resource: &'a Resource,
    /// Through which part, such as `status`.
    pub part: Option<&'a str>,
    /// In which namespace; empty for cluster-wide resources.
    pub namespace: &'a str,
    /// The name; empty while it is yet to be generated.
    pub name: &'a str,
    /// By whom.
    pub user: &'a User,
    /// The `apiVersion` in which the client speaks.
    pub api_version: &'a str,
    /// The subresource it came through, where that is no part of the object, such as `scale`.
    pub through: &'a str,
    /// The name under which the written fields are recorded.
    pub manager: &'a str,
    /// How to delete; `None` where the deletion follows from another request.
    pub(crate) deletion: Option<&'a DeleteOptions>,
    /// Nothing will be committed.
    pub dry_run: bool,
    /// The object as it shall be, in the version it is stored in; empty for a deletion.
    pub object: Object,
    /// The object as it is; `None` for a creation.
    pub old: Option<&'a Object>,
    /// The moment of the request.
    pub now: jiff::Timestamp,
    /// Everything else, as it is.
    pub view: &'a View,
    /// Who has which roles.
    pub(crate) rights: &'a Arc<Rights>,
    /// What else is to be written.
    pub effects: Effects,
    /// Advice for the client.
    pub warnings: Vec<String>,
    /// Where to say something for the audit log.
    pub(crate) notes: Option<&'a Notes>,
    /// What webhooks and policies have come to so far.
    pub(crate) outside: Outside,
}

/// What webhooks and policies have come to in one request.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Whether one of them has changed the object.
    pub(crate) changed: bool,
    /// Whether the object goes round once more.
    pub(crate) is_again: bool,
    /// Whether one of them has changed what others have seen, so that it should.
    pub(crate) again: bool,
    policies: Round,
    webhooks: Round,
    /// What their expressions may still cost.
    pub(crate) budget: Budget,
}

/// Who of those that want to be asked again was asked, and is to be.
#[derive(Debug, Default)]
struct Round {
    asked: Vec<String>,
    due: Vec<String>,
    /// The object as the last of them left it.
    left: Option<Object>,
}

impl Round {
    /// Begins to ask; someone else may have changed the object since.
    fn begin(&mut self, object: &Object) {
        if self.left.as_ref().is_some_and(|left| left != object) {
            self.due.clone_from(&self.asked);
        }
    }

    /// Notes that one was asked: whether it has changed the object, and whether it wants to be asked again.
    fn note(&mut self, who: &str, changed: bool, object: &Object, reinvoked: bool) {
        if changed {
            self.due.clone_from(&self.asked);
        }
        if reinvoked && !self.asked.iter().any(|one| one == who) {
            self.asked.push(who.to_owned());
        }
        if !self.asked.is_empty() {
            self.left = Some(object.clone());
        }
    }

    fn is_due(&self, who: &str) -> bool {
        self.due.iter().any(|one| one == who)
    }
}

impl Request<'_> {
    /// Whether this is the object itself of this group and plural, not a part of it.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.part.is_none() && self.resource.group == group && self.resource.plural == plural
    }

    /// What messages call the object, even while its name is yet to be generated.
    pub(crate) fn called(&self) -> &str {
        let generated = object::str_at(&self.object, &["metadata", "generateName"]).unwrap_or_default();
        let names = [self.name, object::name(&self.object), generated, "Unknown"];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
    }

    /// Says something for the audit log.
    pub(crate) fn note(&self, key: impl Into<String>, text: impl Into<String>) {
        if let Some(notes) = self.notes {
            notes.leave(key, text);
        }
    }

    /// 403: a plugin refuses this request.
    pub(crate) fn refuse(&self, why: impl AsRef<str>) -> Box<Status> {
        Status::forbidden(self.resource, self.called(), why.as_ref())
    }

    /// 422: a plugin finds faults in the object.
    pub(crate) fn invalid(&self, errors: &Errors) -> Box<Status> {
        Status::invalid(&self.resource.group, &self.resource.kind, self.called(), errors)
    }
}

/// One step of the chain.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// Its name, for messages and metrics.
    fn name(&self) -> &'static str;

    /// Whether it looks again at an object that webhooks or policies have changed after it.
    fn looks_again(&self) -> bool {
        false
    }

    /// Whether people bring it, so that it is also asked about what is done to an object besides writing it.
    fn is_outside(&self) -> bool {
        false
    }

    /// May change the object or refuse it.
    async fn mutate(&self, _request: &mut Request<'_>) -> Outcome<()> {
        Ok(())
    }

    /// May refuse the object, once it is as it shall be, and add effects.
    async fn validate(&self, _request: &mut Request<'_>) -> Outcome<()> {
        Ok(())
    }
}
