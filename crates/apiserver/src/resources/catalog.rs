//! Everything that is served: rows by group and plural, in maps that share what they have in common.
//!
//! A catalog is never changed. [`Catalog::with`] and [`Catalog::without`] give another one that shares all other
//! groups, so that a thousand custom resources coming one by one cost a thousand small steps. What is derived
//! from a [`Group`] can be kept for as long as the group is the same `Arc`.

use std::{collections::HashMap, sync::Arc};

use imbl::OrdMap;
use windlass_machinery::version;

use super::{Resource, Version};

/// The rows of one resource: one for a built-in kind, one for each served version of a custom kind, the
/// preferred one first. Never empty.
type Rows = Arc<[Arc<Resource>]>;

/// Everything that is served.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    groups: OrdMap<String, Arc<Group>>,
}

/// What is served in one API group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    by_plural: OrdMap<String, Rows>,
}

impl Group {
    /// All rows: of a custom kind, one for each version.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_plural.values().flat_map(|rows| rows.iter())
    }

    /// The rows of each version, the preferred version first.
    pub fn versions(&self) -> Vec<(&str, Vec<&Resource>)> {
        let mut by_version: HashMap<&str, Vec<&Resource>> = HashMap::new();
        for row in self.rows() {
            for version in &row.versions {
                by_version.entry(&version.name).or_default().push(row);
            }
        }
        let mut versions: Vec<_> = by_version.into_iter().collect();
        versions.sort_by(|one, other| version::compare(one.0, other.0));
        versions
    }
}

impl Catalog {
    /// A catalog of these rows, each a resource of its own.
    pub fn new(rows: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut groups: OrdMap<String, Group> = OrdMap::new();
        for row in rows {
            let group = groups.entry(row.group.clone()).or_default();
            group.by_plural.insert(row.plural.clone(), Arc::new([row]));
        }
        Catalog { groups: groups.into_iter().map(|(name, group)| (name, Arc::new(group))).collect() }
    }

    /// The same with these rows of one resource, in place of those it had.
    #[must_use]
    pub fn with(&self, rows: Vec<Arc<Resource>>) -> Self {
        let Some(first) = rows.first() else { return self.clone() };
        let (name, plural) = (first.group.clone(), first.plural.clone());
        let mut group = self.groups.get(&name).map(|group| Group::clone(group)).unwrap_or_default();
        group.by_plural.insert(plural, rows.into());
        Catalog { groups: self.groups.update(name, Arc::new(group)) }
    }

    /// The same without one resource.
    #[must_use]
    pub fn without(&self, group: &str, plural: &str) -> Self {
        let Some(own) = self.groups.get(group) else { return self.clone() };
        let left = Group { by_plural: own.by_plural.without(plural) };
        let groups = match left.by_plural.is_empty() {
            true => self.groups.without(group),
            false => self.groups.update(group.to_owned(), Arc::new(left)),
        };
        Catalog { groups }
    }

    /// The groups by name.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Arc<Group>)> {
        self.groups.iter().map(|(name, group)| (name.as_str(), group))
    }

    /// One group.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// Every resource once.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flat_map(|group| group.by_plural.values()).filter_map(|rows| rows.first())
    }

    fn rows(&self, group: &str, plural: &str) -> &[Arc<Resource>] {
        let rows = self.groups.get(group).and_then(|group| group.by_plural.get(plural));
        rows.map_or(&[], |rows| rows)
    }

    /// The resource of this group and plural; of a custom kind, its preferred version.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.rows(group, plural).first()
    }

    /// The versions in which the resource of this group and plural is served.
    pub fn versions(&self, group: &str, plural: &str) -> impl Iterator<Item = &Version> + use<'_> {
        self.rows(group, plural).iter().flat_map(|row| &row.versions)
    }

    /// The resource of this group and plural, as it is served in this version.
    pub fn at(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.rows(group, plural).iter().find(|row| row.version(version).is_some())
    }
}
