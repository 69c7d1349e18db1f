//! Who may come in, and what they may do.
//!
//! A request goes through here in this order: [`Access::authenticate`] says who asks, [`Access::authorize`] whether
//! they may, and [`fairness`] when. A verb takes an [`Allowed`], which only authorisation gives out, so no route is answered
//! without having been asked about; and [`Route::wanted`] says of every route what a role has to name to allow it.

mod accounts;
mod authentication;
mod bearers;
pub(crate) mod fairness;
pub(crate) mod issuers;
mod review;

use std::sync::Arc;

use http::HeaderMap;
use jiff::Timestamp;
use windlass_access::{
    Attributes, KubectlRules, MASTERS, User, Wanted,
    authn::{Authenticator, Certificates, Chain, Identity, Peer, Refusal, Shown},
    localhost::Localhost,
};
use windlass_store::Store;

pub(crate) use self::accounts::Accounts;
pub use self::authentication::{AccountIssuer, Authentication};
use crate::{
    http::{Route, Target},
    metrics::Metrics,
    resources::Catalog,
    server::{Call, StartError},
    status::{Outcome, Status},
};

/// A route that whoever asked for it may have.
#[derive(Debug)]
pub(crate) struct Allowed(Route);

impl Allowed {
    pub(crate) fn route(&self) -> &Route {
        &self.0
    }

    pub(crate) fn into_route(self) -> Route {
        self.0
    }
}

/// Everything that decides about access.
pub(crate) struct Access {
    chain: Chain,
    /// Those who come with tokens that are made here.
    pub(crate) accounts: Arc<Accounts>,
    kubectl: KubectlRules,
}

impl Access {
    /// `issuers` are the tokens of others.
    pub(crate) fn new(
        config: &Authentication,
        issuers: Arc<dyn Authenticator>,
        store: &Arc<dyn Store>,
        catalog: &Arc<Catalog>,
    ) -> Result<Self, StartError> {
        let accounts = Arc::new(Accounts::new(config, store, catalog)?);
        let mut authenticators: Vec<Arc<dyn Authenticator>> = vec![Arc::new(Certificates)];
        authenticators.extend(bearers::of_files(config));
        authenticators.push(Arc::clone(&accounts) as _);
        authenticators.push(issuers);
        authenticators.extend(bearers::of_secrets(config, store, catalog));
        authenticators.push(Arc::new(Localhost));
        Ok(Access { chain: Chain::new(authenticators), accounts, kubectl: config.kubectl })
    }

    /// Who asks.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        metrics: &Metrics,
    ) -> Outcome<Identity> {
        let shown = Shown { peer, headers };
        let identity = self.identify(shown).await.inspect_err(|_| metrics.unknown("kubectl"))?;
        let identity = identity.map_err(|refusal| {
            tracing::debug!(%refusal, "credentials refused");
            metrics.unknown(refusal.by);
            Status::unauthorized()
        })?;
        tracing::debug!(by = identity.by, user = identity.user.name, "credentials accepted");
        metrics.known(identity.by, &identity.user.name);
        let impersonates = headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
        match impersonates {
            true => Err(Status::not_allowed("impersonation is not supported by this server")),
            false => Ok(identity),
        }
    }

    /// Who asks, unless they may not ask this way.
    async fn identify(&self, shown: Shown<'_>) -> Outcome<Result<Identity, Refusal>> {
        self.kubectl.check(shown).map_err(Status::unauthorized_because)?;
        let identity = self.chain.authenticate(shown).await;
        if let Ok(identity) = &identity {
            let outcome = self.kubectl.check_identity(shown, identity, Timestamp::now());
            outcome.map_err(Status::unauthorized_because)?;
        }
        Ok(identity)
    }

    /// Whether whoever asks may have this route.
    pub(crate) fn authorize(&self, call: &Call, route: Route) -> Outcome<Allowed> {
        let attributes = route.wanted(call);
        match self.allows(&call.user, &attributes) {
            true => Ok(Allowed(route)),
            false => Err(forbidden(call, &attributes, &route)),
        }
    }

    /// Whether a path that nothing is served at may be asked for.
    pub(crate) fn authorize_path(&self, call: &Call) -> Outcome<()> {
        let attributes = Attributes { verb: call.method_verb(), wanted: Wanted::Path(&call.path) };
        match self.allows(&call.user, &attributes) {
            true => Ok(()),
            false => Err(forbidden_path(&call.user, &attributes, &call.path)),
        }
    }

    fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let is_public = matches!(attributes.wanted, Wanted::Path(path) if is_public(path));
        is_public || user.is_in(MASTERS)
    }
}

/// What everyone may see: whether the server is well, and what it is.
fn is_public(path: &str) -> bool {
    const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];
    PUBLIC
        .iter()
        .any(|public| path.strip_prefix(public).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
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
    fn wanted<'a>(&'a self, call: &'a Call) -> Attributes<'a> {
        let name = self.name.as_deref().unwrap_or_default();
        let is_namespace = self.resource.group.is_empty() && self.resource.plural == "namespaces";
        Attributes {
            verb: call.verb(self),
            wanted: Wanted::Resource {
                group: &self.resource.group,
                version: &self.version,
                resource: &self.resource.plural,
                subresource: self.sub.as_deref().unwrap_or_default(),
                namespace: if is_namespace { name } else { &self.namespace },
                name,
            },
        }
    }
}

fn forbidden(call: &Call, attributes: &Attributes<'_>, route: &Route) -> Box<Status> {
    match route {
        Route::Resource(target) => forbidden_resource(call, target, attributes.verb),
        _ => forbidden_path(&call.user, attributes, &call.path),
    }
}

fn forbidden_path(user: &User, attributes: &Attributes<'_>, path: &str) -> Box<Status> {
    Status::not_allowed(format!("forbidden: User {:?} cannot {} path {path:?}", user.name, attributes.verb))
}

fn forbidden_resource(call: &Call, target: &Target, verb: &str) -> Box<Status> {
    let resource = &target.resource;
    let plural = match &target.sub {
        Some(sub) => format!("{}/{sub}", resource.plural),
        None => resource.plural.clone(),
    };
    let scope = match target.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {:?} cannot {verb} resource {plural:?} in API group {:?} {scope}",
        call.user.name, resource.group
    );
    Status::forbidden(resource, target.name.as_deref().unwrap_or_default(), &why)
}
