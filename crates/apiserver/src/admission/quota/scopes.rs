//! Scopes: which objects a quota is about.
//!
//! A quota without scopes is about everything it has a bound for; one with scopes only about objects that fit
//! all of them, and only pods and claims can.

use serde_json::Value;
use windlass_machinery::{
    object::{Object, at, int_at, list_at, str_at},
    quantity::Quantity,
};

use crate::{
    admission::pods::{containers, of_container, of_pod_level},
    resources::Resource,
};

/// One condition on the objects of a quota.
#[derive(Debug)]
pub(super) struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

/// The conditions of a quota: its scopes, and those of its selector.
pub(super) fn of(quota: &Object) -> Vec<Scope> {
    let plain = list_at(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let plain =
        plain.map(|name| Scope { name: name.to_owned(), operator: "Exists".to_owned(), values: vec![] });
    let selected = list_at(quota, &["spec", "scopeSelector", "matchExpressions"]).iter();
    let selected = selected.filter_map(Value::as_object).map(|expression| Scope {
        name: str_at(expression, &["scopeName"]).unwrap_or_default().to_owned(),
        operator: str_at(expression, &["operator"]).unwrap_or_default().to_owned(),
        values: list_at(expression, &["values"])
            .iter()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect(),
    });
    plain.chain(selected).collect()
}

/// Whether an object fits all of them.
pub(super) fn fit(scopes: &[Scope], resource: &Resource, object: &Object) -> bool {
    scopes.iter().all(|scope| match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => scope.fits_pod(object),
        ("", "persistentvolumeclaims") => scope.fits_claim(object),
        _ => false,
    })
}

impl Scope {
    fn fits_pod(&self, pod: &Object) -> bool {
        match self.name.as_str() {
            "Terminating" => ends_itself(pod),
            "NotTerminating" => !ends_itself(pod),
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => !is_best_effort(pod),
            "PriorityClass" => {
                let class = str_at(pod, &["spec", "priorityClassName"]).filter(|class| !class.is_empty());
                self.selects(class)
            }
            "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
            _ => false,
        }
    }

    fn fits_claim(&self, claim: &Object) -> bool {
        const CLASSES: [&[&str]; 3] = [
            &["spec", "volumeAttributesClassName"],
            &["status", "currentVolumeAttributesClassName"],
            &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
        ];
        if self.name != "VolumeAttributesClass" {
            return false;
        }
        let classes: Vec<&str> = CLASSES
            .into_iter()
            .filter_map(|path| str_at(claim, path))
            .filter(|class| !class.is_empty())
            .collect();
        match classes.is_empty() {
            true => self.selects(None),
            false => classes.into_iter().any(|class| self.selects(Some(class))),
        }
    }

    fn selects(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.iter().any(|listed| listed == value));
        match self.operator.as_str() {
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    }
}

fn ends_itself(pod: &Object) -> bool {
    int_at(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

/// Nothing is asked for and nothing limited.
fn is_best_effort(pod: &Object) -> bool {
    let all = ["containers", "initContainers"].into_iter().flat_map(|list| containers(pod, list));
    let needs = all.map(of_container).chain([of_pod_level(pod)]);
    !needs
        .flat_map(|needs| needs.requests.into_iter().chain(needs.limits))
        .any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && amount > Quantity::ZERO)
}

fn looks_into_other_namespaces(pod: &Object) -> bool {
    ["podAffinity", "podAntiAffinity"].into_iter().any(|side| {
        let terms = |field: &str| list_at(pod, &["spec", "affinity", side, field]);
        let required = terms("requiredDuringSchedulingIgnoredDuringExecution").iter();
        let preferred = terms("preferredDuringSchedulingIgnoredDuringExecution").iter();
        let preferred = preferred.filter_map(|weighted| weighted.get("podAffinityTerm"));
        required.chain(preferred).filter_map(Value::as_object).any(|term| {
            !list_at(term, &["namespaces"]).is_empty()
                || at(term, &["namespaceSelector"]).is_some_and(|selector| !selector.is_null())
        })
    })
}
