//! Who may come in, and what they may do.
//!
//! A request goes through here in this order: [`Access::authenticate`] says who asks, [`Access::authorize`] whether
//! they may, and [`fairness`] when. A verb takes an [`Allowed`], which only authorisation gives out, so no route is answered
//! without having been asked about; and [`Route::wanted`] says of every route what a role has to name to allow it.

mod accounts;
mod authentication;
mod bearers;
pub(crate) mod bootstrap;
pub(crate) mod fairness;
mod impersonation;
pub(crate) mod issuers;
#[cfg(test)]
mod matrix;
mod permit;
mod review;
mod rights;

use std::sync::Arc;

use jiff::Timestamp;
use windlass_access::{
    Attributes, KubectlRules, User, Wanted,
    authn::{Authenticator, Certificates, Chain, Identity, Refusal, Shown},
    issuers::Issuers,
    localhost::Localhost,
    rbac::Grant,
};
use windlass_store::Store;

pub use self::authentication::{AccountIssuer, Authentication};
pub(crate) use self::{accounts::Accounts, permit::Permit, rights::Rights};
use crate::{
    http::{Route, Target},
    metrics::Metrics,
    resources::Catalog,
    server::{Call, StartError},
    status::{Outcome, Status},
};

/// A route that whoever asked for it may have.
#[derive(Debug)]
pub(crate) struct Allowed {
    route: Route,
    grant: Grant,
}

impl Allowed {
    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    pub(crate) fn into_route(self) -> Route {
        self.route
    }

    /// Why they may.
    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }
}

/// Everything that decides about access.
pub(crate) struct Access {
    chain: Chain,
    issuers: Arc<Issuers>,
    rights: Arc<Rights>,
    /// Those who come with tokens that are made here.
    pub(crate) accounts: Arc<Accounts>,
    kubectl: KubectlRules,
}

impl Access {
    /// `issuers` are trusted with tokens of their own.
    pub(crate) fn new(
        config: &Authentication,
        issuers: &Arc<Issuers>,
        store: &Arc<dyn Store>,
        catalog: &Arc<Catalog>,
        rights: &Arc<Rights>,
    ) -> Result<Self, StartError> {
        let accounts = Arc::new(Accounts::new(config, store, catalog)?);
        let mut authenticators: Vec<Arc<dyn Authenticator>> = vec![Arc::new(Certificates(Timestamp::now))];
        authenticators.extend(bearers::of_files(config));
        authenticators.push(Arc::clone(&accounts) as _);
        authenticators.push(Arc::clone(issuers) as _);
        authenticators.extend(bearers::of_secrets(config, store, catalog));
        authenticators.push(Arc::new(Localhost));
        let (chain, issuers, rights) = (Chain::new(authenticators), Arc::clone(issuers), Arc::clone(rights));
        Ok(Access { chain, issuers, rights, accounts, kubectl: config.kubectl })
    }

    /// Who has which roles.
    pub(crate) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Who asks for a path.
    pub(crate) async fn authenticate(
        &self,
        shown: Shown<'_>,
        path: &str,
        metrics: &Metrics,
    ) -> Outcome<Identity> {
        let identity = self.identify(shown, path).await.inspect_err(|_| metrics.unknown("kubectl"))?;
        let identity = identity.map_err(|refusal| {
            tracing::debug!(%refusal, "credentials refused");
            metrics.unknown(refusal.by);
            Status::unauthorized()
        })?;
        tracing::debug!(by = identity.by, user = identity.user.name, "credentials accepted");
        metrics.known(identity.by, &identity.user.name);
        Ok(identity)
    }

    /// Puts whomever the request is to be made for in the place of whoever asks, if they may do that.
    pub(crate) fn impersonate(&self, call: &mut Call) -> Outcome<()> {
        if let Some(user) = impersonation::impersonated(&self.rights, &call.user, &call.headers)? {
            let own = std::mem::replace(&mut call.user, user);
            tracing::debug!(user = own.name, impersonated = call.user.name, "impersonation");
            call.impersonator = Some(own);
        }
        Ok(())
    }

    /// Who asks, unless they may not ask this way.
    async fn identify(&self, shown: Shown<'_>, path: &str) -> Outcome<Result<Identity, Refusal>> {
        self.kubectl.check(shown).map_err(Status::unauthorized_because)?;
        let identity = self.chain.authenticate(shown).await;
        if let Ok(identity) = &identity {
            let outcome = self.kubectl.check_identity(shown, identity, Timestamp::now());
            outcome.map_err(Status::unauthorized_because)?;
            if identity.user.is_anonymous() && !self.issuers.admits_anonymous(path) {
                return Ok(Err(Refusal { by: identity.by, why: "nobody is let in here unknown".to_owned() }));
            }
        }
        Ok(identity)
    }

    /// Whether whoever asks may have this route.
    pub(crate) fn authorize(&self, call: &Call, route: Route) -> Outcome<Allowed> {
        let grant = self.require(&call.user, &route.wanted(call))?;
        Ok(Allowed { route, grant })
    }

    /// Whether a path that nothing is served at may be asked for.
    pub(crate) fn authorize_path(&self, call: &Call) -> Outcome<Grant> {
        self.require(&call.user, &Attributes { verb: call.method_verb(), wanted: Wanted::Path(&call.path) })
    }

    /// Whether whoever asks may also create what they ask to change, where it is not there.
    pub(crate) fn authorize_creation(&self, call: &Call, target: &Target) -> Outcome<()> {
        self.require(&call.user, &Attributes { verb: "create", ..target.wanted(call) }).map(drop)
    }

    /// Goes the whole way once more for someone who was let in before.
    async fn ask(&self, shown: Shown<'_>, path: &str, attributes: &Attributes<'_>) -> Outcome<()> {
        let identity = self.identify(shown, path).await?;
        let user = identity.map_err(|_| Status::unauthorized())?.user;
        let user = impersonation::impersonated(&self.rights, &user, shown.headers)?.unwrap_or(user);
        self.require(&user, attributes).map(drop)
    }

    fn require(&self, user: &User, attributes: &Attributes<'_>) -> Outcome<Grant> {
        self.rights.grant(user, attributes).ok_or_else(|| forbidden(&user.name, attributes))
    }
}

impl Route {
    /// What a role has to name to allow this route.
    pub(crate) fn wanted<'a>(&'a self, call: &'a Call) -> Attributes<'a> {
        match self {
            Route::Resource(target) => target.wanted(call),
            Route::CoreVersions
            | Route::Groups
            | Route::Group(_)
            | Route::Version(..)
            | Route::OpenApiV2
            | Route::OpenApiIndex
            | Route::OpenApi(_)
            | Route::Health(..)
            | Route::Issuer
            | Route::IssuerKeys
            | Route::Metrics
            | Route::ServerVersion
            | Route::Paths => Attributes { verb: call.method_verb(), wanted: Wanted::Path(&call.path) },
        }
    }
}

impl Target {
    /// What a role has to name to allow this.
    pub(crate) fn wanted<'a>(&'a self, call: &'a Call) -> Attributes<'a> {
        let verb = call.verb(self);
        let own = self.name.as_deref().unwrap_or_default();
        let is_namespace = self.resource.group.is_empty() && self.resource.plural == "namespaces";
        let is_seen = own.is_empty() && matches!(verb, "list" | "watch");
        let name = if is_seen { selected_name(call.query.get("fieldSelector")) } else { own };
        Attributes {
            verb,
            wanted: Wanted::Resource {
                group: &self.resource.group,
                version: &self.version,
                resource: &self.resource.plural,
                subresource: self.sub.as_deref().unwrap_or_default(),
                namespace: if is_namespace { own } else { &self.namespace },
                name,
            },
        }
    }
}

/// The one object that a field selector chooses, if it does: who may see that one may list it so.
fn selected_name(selector: &str) -> &str {
    let named = selector.split(',').find_map(|part| part.trim().strip_prefix("metadata.name="));
    let name = named.map(|name| name.strip_prefix('=').unwrap_or(name)).unwrap_or_default();
    let is_name = windlass_machinery::names::path_segment(name, false).is_none() && !name.contains('\\');
    if is_name { name } else { "" }
}

/// 403, in the words of Kubernetes.
fn forbidden(user: &str, attributes: &Attributes<'_>) -> Box<Status> {
    let verb = attributes.verb;
    let (group, resource, subresource, namespace, name) = match attributes.wanted {
        Wanted::Path(path) => {
            return Status::not_allowed(format!("forbidden: User {user:?} cannot {verb} path {path:?}"));
        }
        Wanted::Resource { group, resource, subresource, namespace, name, .. } => {
            (group, resource, subresource, namespace, name)
        }
    };
    let whole = match subresource {
        "" => resource.to_owned(),
        sub => format!("{resource}/{sub}"),
    };
    let scope = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!("User {user:?} cannot {verb} resource {whole:?} in API group {group:?} {scope}");
    Status::forbidden_on(group, resource, name, &why)
}
