//! Scopes: which objects a quota is about. One with scopes is only about what fits all of them, and only pods and claims
//! can.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodAffinityTerm, ResourceQuotaSpec};

use super::measure::amounts;

/// A condition on the objects of a quota.
struct Scope<'a> {
    name: &'a str,
    operator: &'a str,
    values: &'a [String],
}

/// All conditions of a quota: its scopes, and those of its selector.
pub(super) struct Scopes<'a>(Vec<Scope<'a>>);

impl<'a> Scopes<'a> {
    pub(super) fn of(spec: &'a ResourceQuotaSpec) -> Self {
        let plain = spec.scopes.iter().flatten();
        let plain = plain.map(|name| Scope { name, operator: "Exists", values: &[] });
        let selector = spec.scope_selector.iter();
        let selected = selector.flat_map(|selector| selector.match_expressions.iter().flatten());
        let selected = selected.map(|expression| Scope {
            name: &expression.scope_name,
            operator: &expression.operator,
            values: expression.values.as_deref().unwrap_or_default(),
        });
        Scopes(plain.chain(selected).collect())
    }

    /// Whether the quota is about everything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn fit_pod(&self, pod: &Pod) -> bool {
        self.0.iter().all(|scope| scope.fits_pod(pod))
    }

    pub(super) fn fit_claim(&self, claim: &PersistentVolumeClaim) -> bool {
        self.0.iter().all(|scope| scope.fits_claim(claim))
    }
}

impl Scope<'_> {
    fn fits_pod(&self, pod: &Pod) -> bool {
        match self.name {
            "Terminating" => ends_itself(pod),
            "NotTerminating" => !ends_itself(pod),
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => !is_best_effort(pod),
            "PriorityClass" => {
                let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
                self.selects(class.filter(|class| !class.is_empty()))
            }
            "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
            _ => false,
        }
    }

    fn fits_claim(&self, claim: &PersistentVolumeClaim) -> bool {
        let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
        let classes = [
            spec.and_then(|spec| spec.volume_attributes_class_name.as_deref()),
            status.and_then(|status| status.current_volume_attributes_class_name.as_deref()),
            status.and_then(|status| {
                status.modify_volume_status.as_ref()?.target_volume_attributes_class_name.as_deref()
            }),
        ];
        let classes: Vec<&str> = classes.into_iter().flatten().filter(|class| !class.is_empty()).collect();
        let fits = match classes.is_empty() {
            true => self.selects(None),
            false => classes.into_iter().any(|class| self.selects(Some(class))),
        };
        self.name == "VolumeAttributesClass" && fits
    }

    fn selects(&self, value: Option<&str>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.iter().any(|listed| listed == value));
        match self.operator {
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    }
}

fn ends_itself(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds).is_some_and(|seconds| seconds >= 0)
}

/// Nothing is asked for and nothing limited.
fn is_best_effort(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let resources = containers.map(|container| container.resources.as_ref()).chain([spec.resources.as_ref()]);
    !resources.flatten().any(|resources| {
        let given = resources.requests.iter().chain(&resources.limits).flatten();
        amounts(given)
            .iter()
            .any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
    })
}

fn looks_into_other_namespaces(pod: &Pod) -> bool {
    let Some(affinity) = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()) else { return false };
    let (near, far) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
    let required = [
        near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref()),
        far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref()),
    ];
    let preferred = [
        near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref()),
        far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref()),
    ];
    let preferred = preferred.into_iter().flatten().flatten().map(|weighted| &weighted.pod_affinity_term);
    required.into_iter().flatten().flatten().chain(preferred).any(|term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|named| !named.is_empty()) || term.namespace_selector.is_some()
    })
}
