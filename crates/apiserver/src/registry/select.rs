//! Which objects a list or a watch is about.

use windlass_machinery::{
    selector::{FieldSelector, FieldTerm, LabelSelector},
    stored::Stored,
};

use crate::{
    resources::Resource,
    status::{Outcome, Status},
};

/// Which objects are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Option<LabelSelector>,
    fields: Vec<FieldTerm>,
    /// The one name that is wanted.
    pub(crate) name: Option<String>,
}

impl Selection {
    /// The beginning of the keys of everything it can take.
    pub(crate) fn range(&self, resource: &Resource, namespace: &str) -> String {
        match &self.name {
            Some(name) if !resource.namespaced || !namespace.is_empty() => resource.key(namespace, name),
            _ => resource.range(namespace),
        }
    }

    /// Reads the selectors of a request; refused when a field cannot be selected by.
    pub(crate) fn parse(
        resource: &Resource,
        labels: &str,
        fields: &str,
        name: Option<&str>,
    ) -> Outcome<Self> {
        let labels = LabelSelector::parse(labels).map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(fields).map_err(|error| Status::bad_request(error.to_string()))?;
        let mut selection = Selection {
            labels: (!labels.is_empty()).then_some(labels),
            fields: vec![],
            name: name.map(str::to_owned),
        };
        // As Kubernetes has it, kinds without fields of their own let this one pass, and speak otherwise.
        let is_lenient = resource.fields.is_empty() && resource.custom().is_none();
        for term in fields.terms {
            let known = match term.field.as_str() {
                "metadata.name" => true,
                "metadata.namespace" => resource.namespaced || is_lenient,
                field => resource.fields.iter().any(|known| known == field),
            };
            if !known {
                return Err(Status::bad_request(match is_lenient {
                    true => format!(
                        "{:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                        term.field
                    ),
                    false => format!("field label not supported: {}", term.field),
                }));
            }
            if term.field == "metadata.name" && !term.negated && selection.name.is_none() {
                selection.name = Some(term.value.clone());
            }
            selection.fields.push(term);
        }
        Ok(selection)
    }

    /// Whether every object is wanted.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty() && self.name.is_none()
    }

    /// Whether this object is wanted. `key` is what follows the resource's prefix: `namespace/name` or `name`.
    pub(crate) fn takes(&self, resource: &Resource, key: &[u8], value: &[u8]) -> bool {
        if self.is_everything() {
            return true;
        }
        // The key is looked at only where it matters: in a list it is in nobody's cache.
        let (namespace, name) = match self.name.is_some() || !self.fields.is_empty() {
            true => split_key(resource, key),
            false => (&[][..], &[][..]),
        };
        if self.name.as_deref().is_some_and(|wanted| wanted.as_bytes() != name) {
            return false;
        }
        if self.labels.is_none() && self.fields.is_empty() {
            return true;
        }
        let Some(stored) = Stored::new(value) else { return false };
        for term in &self.fields {
            let equal = match term.field.as_str() {
                "metadata.name" => term.value.as_bytes() == name,
                "metadata.namespace" => term.value.as_bytes() == namespace,
                field => field_equals(&stored, field, &term.value),
            };
            if equal == term.negated {
                return false;
            }
        }
        let Some(labels) = &self.labels else { return true };
        let pairs = stored.labels();
        labels.matches(|key| pairs.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_ref()))
    }
}

/// The namespace and the name in a key.
pub(crate) fn split_key<'a>(resource: &Resource, key: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let rest = key.strip_prefix(resource.prefix.as_bytes()).unwrap_or(key);
    match rest.iter().position(|byte| *byte == b'/') {
        Some(slash) if resource.namespaced => (&rest[..slash], &rest[slash + 1..]),
        _ => (&[], rest),
    }
}

/// Names that fields have in selectors or in other versions, and where they are stored.
const ELSEWHERE: &[(&str, &str)] = &[
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.uid", "involvedObject.uid"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
    ("reportingController", "reportingComponent"),
    ("source", "source.component"),
    ("status.successful", "status.succeeded"),
];

/// What a field that is not set counts as.
const UNSET: &[(&str, &str)] = &[
    ("spec.unschedulable", "false"),
    ("spec.hostNetwork", "false"),
    ("status.replicas", "0"),
    ("status.succeeded", "0"),
];

/// What counts in place of a field that is not set or empty.
const INSTEAD: &[(&str, &str)] = &[("source.component", "reportingComponent")];

fn field_equals(stored: &Stored<'_>, field: &str, wanted: &str) -> bool {
    let field = ELSEWHERE.iter().find(|(own, _)| *own == field).map_or(field, |(_, stored)| stored);
    let value = |field: &str| stored.peek(&field.split('.').collect::<Vec<_>>());
    let other = INSTEAD.iter().find(|(own, _)| *own == field).map(|(_, other)| *other);
    match (value(field).filter(|value| other.is_none() || !value.is_empty()), other) {
        (Some(value), _) => value == wanted,
        (None, Some(other)) => value(other).unwrap_or_default() == wanted,
        (None, None) => UNSET.iter().find(|(own, _)| *own == field).map_or("", |(_, value)| value) == wanted,
    }
}
