//! What an expression may ask about authorisation, and who answers: the caller.

/// Decides who may do what. Given to expressions as the variable `authorizer`.
pub trait Authorizer: Send + Sync {
    /// Decides for the user of the request, or for a service account (namespace and name).
    fn check(&self, service_account: Option<(&str, &str)>, verb: &str, check: Check<'_>) -> Decision;
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub enum Check<'c> {
    /// About a path that is no resource.
    Path(&'c PathCheck),
    /// About a resource.
    Resource(&'c ResourceCheck),
}

/// A path that is no resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathCheck {
    /// The path, such as `/healthz`.
    pub path: String,
}

/// A resource; what is empty is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// The API group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// Such as `status`.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// As it was written; one that cannot be read is to be ignored.
    pub field_selector: Option<String>,
    /// As it was written; one that cannot be read is to be ignored.
    pub label_selector: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be done.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong when it was decided.
    pub error: Option<String>,
}
