//! The kinds that the API server serves, as discovery tells of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Debug,
    sync::Arc,
};

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, PartialObjectMeta},
};
use serde::de::DeserializeOwned;

/// Most objects of one page.
const PAGE: u32 = 500;

/// What is asked for of objects of any kind: only this is sent.
pub(crate) type Metadata = PartialObjectMeta<DynamicObject>;

/// A kind in one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) is_namespaced: bool,
    verbs: Vec<String>,
}

impl Kind {
    /// Whether all of this can be done to its objects.
    pub(crate) fn can(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|own| own == verb))
    }

    /// Its objects, wherever they are.
    pub(crate) fn everywhere(&self, client: &Client) -> Api<Metadata> {
        Api::all_with(client.clone(), &self.resource)
    }

    /// Its objects in a namespace, or those in none where the kind has none. `None` where the namespace is not known:
    /// who forgets it does not mean all of them.
    pub(crate) fn within(&self, client: &Client, namespace: &str) -> Option<Api<Metadata>> {
        match (self.is_namespaced, namespace) {
            (true, "") => None,
            (true, namespace) => Some(Api::namespaced_with(client.clone(), namespace, &self.resource)),
            (false, _) => Some(self.everywhere(client)),
        }
    }
}

/// Shows all objects that are there, in pages.
pub(crate) async fn each<K>(objects: &Api<K>, mut see: impl FnMut(K)) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = objects.list(&page).await?;
        list.items.into_iter().for_each(&mut see);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// All kinds.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// Every kind once, in the version that its group prefers.
    pub(crate) preferred: Vec<Arc<Kind>>,
    by_name: HashMap<String, HashMap<String, Arc<Kind>>>,
    /// The versions of groups whose kinds could not be found out, and why.
    pub(crate) unknown: BTreeMap<String, String>,
    /// What is not the name of a version of a group.
    pub(crate) malformed: Vec<String>,
}

impl Kinds {
    /// Asks the API server.
    pub(crate) async fn discover(client: &Client) -> Result<Self, kube::Error> {
        let (core, groups) = tokio::try_join!(
            client.list_core_api_versions_aggregated(),
            client.list_api_groups_aggregated()
        )?;
        let mut kinds = Kinds::default();
        for group in core.items.into_iter().chain(groups.items) {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            let mut seen = HashSet::new();
            for version in group.versions {
                let stale = version.freshness.as_deref() == Some("Stale");
                let (version, resources) = (version.version.unwrap_or_default(), version.resources);
                let api_version = if name.is_empty() { version.clone() } else { format!("{name}/{version}") };
                if version.is_empty() || version.contains('/') || name.contains('/') {
                    kinds.malformed.push(api_version);
                    continue;
                }
                if stale {
                    let why = format!("stale GroupVersion discovery: {api_version}");
                    kinds.unknown.insert(api_version.clone(), why);
                }
                for found in resources {
                    let (Some(plural), Some(kind)) =
                        (found.resource, found.response_kind.and_then(|kind| kind.kind))
                    else {
                        continue;
                    };
                    let is_first = seen.insert(plural.clone());
                    let resource = ApiResource {
                        group: name.clone(),
                        version: version.clone(),
                        api_version: api_version.clone(),
                        kind,
                        plural,
                    };
                    let is_namespaced = found.scope.as_deref() == Some("Namespaced");
                    kinds.add(Kind { resource, is_namespaced, verbs: found.verbs }, is_first);
                }
            }
        }
        Ok(kinds)
    }

    fn add(&mut self, kind: Kind, is_preferred: bool) {
        let kind = Arc::new(kind);
        let of_version = self.by_name.entry(kind.resource.api_version.clone()).or_default();
        // What is only acted upon, such as a review, may share its kind with what is stored.
        let known = of_version.get(&kind.resource.kind);
        if known.is_none_or(|known| !known.can(&["get"])) {
            of_version.insert(kind.resource.kind.clone(), Arc::clone(&kind));
        }
        if is_preferred {
            self.preferred.push(kind);
        }
    }

    /// The kind of this name in this version, if that is served.
    pub(crate) fn get(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.by_name.get(api_version)?.get(kind)
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn who_forgets_the_namespace_does_not_mean_all_of_them() {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, kube::Error>>()
        });
        let client = Client::new(silent, "default");
        let resource = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
        };
        let of = |is_namespaced: bool, namespace: &str| {
            let kind = Kind { resource: resource.clone(), is_namespaced, verbs: vec![] };
            kind.within(&client, namespace).map(|api| api.resource_url().to_owned())
        };
        assert_eq!(of(true, ""), None);
        assert_eq!(of(true, "a").as_deref(), Some("/api/v1/namespaces/a/things"));
        assert_eq!(of(false, "").as_deref(), Some("/api/v1/things"));
        assert_eq!(of(false, "a").as_deref(), Some("/api/v1/things"));
    }
}
