//! What a user wants to do.

/// What a user wants to do, as roles name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `create`, …; for paths, the method in small letters.
    pub verb: &'a str,
    /// What it is to be done to.
    pub wanted: Wanted<'a>,
}

/// What something is to be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Objects of a resource.
    Resource {
        /// The API group; empty for the core.
        group: &'a str,
        /// The version.
        version: &'a str,
        /// The plural.
        resource: &'a str,
        /// The subresource, if any.
        subresource: &'a str,
        /// The namespace; empty for all of them, and for what is in none. A namespace is in itself.
        namespace: &'a str,
        /// The object; empty for all of them, and for those to be created.
        name: &'a str,
    },
    /// A path that is not about objects.
    Path(&'a str),
}
