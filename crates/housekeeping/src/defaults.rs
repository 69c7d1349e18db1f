//! What every namespace has: a service account for pods that name none, and the certificate of the API server's authority.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, PostParams},
};
use windlass_runtime::{Action, Cache, Context, Controller, Key, ReconcileError, Reconciler, Scope};

use crate::{Options, code};

const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_FIELD: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
     such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
     Kubernetes clusters.";

/// Objects of one name, one in each namespace.
fn named(name: &str) -> Scope {
    Scope { fields: Some(format!("metadata.name={name}")), ..Scope::all() }
}

/// The namespace that an object is in.
fn namespace_of<K: Resource>(object: &K) -> Vec<Key> {
    vec![Key::new("", object.meta().namespace.as_deref().unwrap_or_default())]
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(namespace.to_owned()), name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// Whether a namespace is there to stay.
fn is_active(namespaces: &Cache<Namespace>, key: &Key) -> bool {
    namespaces.get(key).is_some_and(|namespace| {
        let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
        namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
    })
}

/// What a write that others may have made came to.
fn settled<T>(outcome: Result<T, kube::Error>) -> Result<Action, ReconcileError> {
    match outcome {
        Ok(_) => Ok(Action::Done),
        // It is there already, or the namespace has gone. A watch tells of either.
        Err(error) if matches!(code(&error), 404 | 409) => Ok(Action::Done),
        Err(error) if is_terminating(&error) => Ok(Action::Done),
        Err(error) => Err(error.into()),
    }
}

fn is_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

struct Accounts {
    client: Client,
    namespaces: Cache<Namespace>,
    accounts: Cache<ServiceAccount>,
}

#[async_trait]
impl Reconciler for Accounts {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let namespace = key.name();
        if !is_active(&self.namespaces, key) || self.accounts.get(&Key::new(namespace, ACCOUNT)).is_some() {
            return Ok(Action::Done);
        }
        let account = ServiceAccount { metadata: metadata(namespace, ACCOUNT), ..ServiceAccount::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        settled(accounts.create(&PostParams::default(), &account).await)
    }
}

struct RootCas {
    client: Client,
    namespaces: Cache<Namespace>,
    maps: Cache<ConfigMap>,
    data: BTreeMap<String, String>,
}

#[async_trait]
impl Reconciler for RootCas {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let namespace = key.name();
        if !is_active(&self.namespaces, key) {
            return Ok(Action::Done);
        }
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let Some(found) = self.maps.get(&Key::new(namespace, ROOT_CA)) else {
            let map =
                self.right(ConfigMap { metadata: metadata(namespace, ROOT_CA), ..ConfigMap::default() });
            return settled(maps.create(&PostParams::default(), &map).await);
        };
        let is_described = found
            .metadata
            .annotations
            .iter()
            .flatten()
            .any(|(name, text)| name == DESCRIPTION && !text.is_empty());
        let is_right = found.data.as_ref() == Some(&self.data) && found.binary_data.is_none() && is_described;
        if is_right || found.metadata.deletion_timestamp.is_some() {
            return Ok(Action::Done);
        }
        let map = self.right(ConfigMap::clone(&found));
        settled(maps.replace(ROOT_CA, &PostParams::default(), &map).await)
    }
}

impl RootCas {
    /// What a map should be.
    fn right(&self, mut map: ConfigMap) -> ConfigMap {
        map.data = Some(self.data.clone());
        map.binary_data = None;
        let annotations = map.metadata.annotations.get_or_insert_default();
        annotations.insert(DESCRIPTION.to_owned(), ROOT_CA_DESCRIPTION.to_owned());
        map
    }
}

/// The controller of service accounts.
pub(crate) fn accounts(context: &Context, _: &Options) -> Controller {
    let namespaces = context.informers.of_cluster::<Namespace>(&Scope::all());
    let accounts = context.informers.of::<ServiceAccount>(&named(ACCOUNT));
    let reconciler = Accounts {
        client: context.client.clone(),
        namespaces: namespaces.cache().clone(),
        accounts: accounts.cache().clone(),
    };
    context.controller(reconciler).reconciles(&namespaces).watches(&accounts, namespace_of)
}

/// The controller of the authority's certificate.
pub(crate) fn root_cas(context: &Context, root_ca: &Arc<str>) -> Controller {
    let namespaces = context.informers.of_cluster::<Namespace>(&Scope::all());
    let maps = context.informers.of::<ConfigMap>(&named(ROOT_CA));
    let reconciler = RootCas {
        client: context.client.clone(),
        namespaces: namespaces.cache().clone(),
        maps: maps.cache().clone(),
        data: BTreeMap::from([(ROOT_CA_FIELD.to_owned(), root_ca.to_string())]),
    };
    context.controller(reconciler).reconciles(&namespaces).watches(&maps, namespace_of)
}
