//! Values of the Kubernetes libraries.

use std::net::IpAddr;

use ipnet::IpNet;
use windlass_machinery::quantity::Quantity;

use crate::{
    authorizer::{Authorizer, Decision, PathCheck, ResourceCheck},
    library::{formats::Format, urls::Url},
    types::ExtensionType,
};

/// A value of the Kubernetes libraries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Extension<'a> {
    /// An amount.
    Quantity(Quantity),
    /// An IP address.
    Ip(IpAddr),
    /// A range of IP addresses; the address need not be the first of it.
    Cidr(IpNet),
    /// A URL.
    Url(Box<Url>),
    /// A semantic version.
    Semver(Box<semver::Version>),
    /// A named format.
    Format(&'static Format),
    /// Who may do what; for a service account when there is one.
    Authorizer(Asked<'a>),
    /// A check of a path.
    PathCheck(Asked<'a>, PathCheck),
    /// A check within an API group.
    GroupCheck(Asked<'a>, String),
    /// A check of a resource.
    ResourceCheck(Asked<'a>, Box<ResourceCheck>),
    /// The outcome of a check.
    Decision(Decision),
}

/// Who is asked, and about whom.
#[derive(Clone)]
pub struct Asked<'a> {
    /// Who decides.
    pub authorizer: &'a dyn Authorizer,
    /// Namespace and name of the service account that is asked about, instead of the user of the request.
    pub service_account: Option<(String, String)>,
}

impl std::fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("service_account", &self.service_account).finish_non_exhaustive()
    }
}

impl Extension<'_> {
    /// Its type.
    pub fn ty(&self) -> ExtensionType {
        match self {
            Extension::Quantity(_) => ExtensionType::Quantity,
            Extension::Ip(_) => ExtensionType::Ip,
            Extension::Cidr(_) => ExtensionType::Cidr,
            Extension::Url(_) => ExtensionType::Url,
            Extension::Semver(_) => ExtensionType::Semver,
            Extension::Format(_) => ExtensionType::Format,
            Extension::Authorizer(_) => ExtensionType::Authorizer,
            Extension::PathCheck(..) => ExtensionType::PathCheck,
            Extension::GroupCheck(..) => ExtensionType::GroupCheck,
            Extension::ResourceCheck(..) => ExtensionType::ResourceCheck,
            Extension::Decision(_) => ExtensionType::Decision,
        }
    }

    /// The same value without a borrow; `None` for what asks an authorizer.
    pub(crate) fn detached(&self) -> Option<Extension<'static>> {
        Some(match self {
            Extension::Quantity(value) => Extension::Quantity(*value),
            Extension::Ip(value) => Extension::Ip(*value),
            Extension::Cidr(value) => Extension::Cidr(*value),
            Extension::Url(value) => Extension::Url(value.clone()),
            Extension::Semver(value) => Extension::Semver(value.clone()),
            Extension::Format(value) => Extension::Format(value),
            _ => return None,
        })
    }
}

/// Checks are never equal, as what they would say may differ.
impl PartialEq for Extension<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Extension::Quantity(one), Extension::Quantity(two)) => one == two,
            (Extension::Ip(one), Extension::Ip(two)) => one == two,
            (Extension::Cidr(one), Extension::Cidr(two)) => one == two,
            (Extension::Url(one), Extension::Url(two)) => one == two,
            (Extension::Semver(one), Extension::Semver(two)) => one.cmp_precedence(two).is_eq(),
            (Extension::Format(one), Extension::Format(two)) => one.name == two.name,
            (Extension::Decision(one), Extension::Decision(two)) => one == two,
            _ => false,
        }
    }
}
