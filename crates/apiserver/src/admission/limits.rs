//! LimitRanger: what containers get when they say nothing, and how much is allowed, by the LimitRanges of the
//! namespace.
//!
//! Defaults are written into new pods before they are validated; the bounds are checked on what came out of it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::{Map, Value};
use windlass_machinery::{
    object::{Object, at, child_mut, list_at, metadata, metadata_mut, str_at},
    quantity::Quantity,
};

use super::{
    Operation, Plugin, Request,
    pods::{self, Amounts, Needs, amounts},
};
use crate::status::Outcome;

/// Where a pod says what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The lists of containers that defaults and bounds are for, and how messages call what is in them.
const LISTS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// The admission plugin.
pub(crate) struct LimitRanger;

#[async_trait]
impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if !is_pod(request) {
            return Ok(());
        }
        for range in ranges(request) {
            fill_in(&mut request.object, &range);
        }
        Ok(())
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let check = match (is_pod(request), is_claim(request)) {
            (true, _) => pod_faults as fn(&Object, &Object) -> Vec<String>,
            (_, true) => claim_faults,
            _ => return Ok(()),
        };
        for range in ranges(request) {
            let mut faults = Vec::new();
            for limit in limits(&range) {
                faults.extend(check(&request.object, limit));
            }
            if let Some(text) = listed(faults) {
                return Err(request.refuse(&text));
            }
        }
        Ok(())
    }
}

/// New pods, and pods whose resources are changed: nothing else can change what they ask for.
fn is_pod(request: &Request<'_>) -> bool {
    let resizes = request.operation == Operation::Update && request.part == Some("resize");
    let creates = request.operation == Operation::Create && request.part.is_none();
    request.resource.group.is_empty() && request.resource.plural == "pods" && (creates || resizes)
}

fn is_claim(request: &Request<'_>) -> bool {
    let ends = request.old.is_some_and(|old| metadata(old).contains_key("deletionTimestamp"));
    request.is("", "persistentvolumeclaims") && request.operation != Operation::Delete && !ends
}

fn ranges(request: &Request<'_>) -> Vec<Object> {
    request.view.list("", "limitranges", request.namespace).into_iter().map(|(range, _)| range).collect()
}

fn limits(range: &Object) -> impl Iterator<Item = &Object> {
    list_at(range, &["spec", "limits"]).iter().filter_map(Value::as_object)
}

/// One fault as it is, several in brackets; each only once.
fn listed(faults: Vec<String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let faults: Vec<String> = faults.into_iter().filter(|fault| seen.insert(fault.clone())).collect();
    match faults.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Gives the containers of a pod what a LimitRange says and they do not.
fn fill_in(pod: &mut Object, range: &Object) {
    let (mut requests, mut most) = (Map::new(), Map::new());
    for limit in limits(range).filter(|limit| str_at(limit, &["type"]) == Some("Container")) {
        for (field, defaults) in [("defaultRequest", &mut requests), ("default", &mut most)] {
            let given = limit.get(field).and_then(Value::as_object).into_iter().flatten();
            defaults.extend(given.map(|(name, amount)| (name.clone(), amount.clone())));
        }
    }
    if requests.is_empty() && most.is_empty() {
        return;
    }
    let mut filled = Vec::new();
    for (list, called) in LISTS {
        let found = pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in found.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = str_at(container, &["name"]).unwrap_or_default().to_owned();
            for (field, word, defaults) in [("requests", "request", &requests), ("limits", "limit", &most)] {
                let set = add_missing(container, field, defaults);
                if !set.is_empty() {
                    filled.push(format!("{} {word} for {called} {name}", set.join(", ")));
                }
            }
        }
    }
    if !filled.is_empty() {
        let text = format!("LimitRanger plugin set: {}", filled.join("; "));
        child_mut(metadata_mut(pod), "annotations").insert(ANNOTATION.to_owned(), text.into());
    }
}

/// Adds what is not there; says what it was, in order.
fn add_missing(container: &mut Object, field: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let have = at(container, &["resources", field]);
    let missing = defaults.iter().filter(|(name, _)| have.is_none_or(|have| have.get(*name).is_none()));
    let missing: Vec<(String, Value)> =
        missing.map(|(name, amount)| (name.clone(), amount.clone())).collect();
    let mut names: Vec<String> = missing.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    if !missing.is_empty() {
        child_mut(child_mut(container, "resources"), field).extend(missing);
    }
    names
}

/// What one entry of a LimitRange finds wrong with a pod.
fn pod_faults(pod: &Object, limit: &Object) -> Vec<String> {
    match str_at(limit, &["type"]) {
        Some("Container") => {
            let containers = LISTS.iter().flat_map(|(list, _)| pods::containers(pod, list));
            containers
                .flat_map(|container| bound_faults("Container", limit, &pods::of_container(container)))
                .collect()
        }
        Some("Pod") => bound_faults("Pod", limit, &pods::of_pod(pod, false)),
        _ => vec![],
    }
}

/// What one entry of a LimitRange finds wrong with a claim.
fn claim_faults(claim: &Object, limit: &Object) -> Vec<String> {
    const KIND: &str = "PersistentVolumeClaim";
    if str_at(limit, &["type"]) != Some(KIND) {
        return vec![];
    }
    let requests = amounts(at(claim, &["spec", "resources", "requests"]));
    let needs = Needs { requests, limits: Amounts::new() };
    let least = amounts(limit.get("min")).into_iter().filter_map(|(name, bound)| {
        let (request, limit) = (needs.requests.get(&name), needs.limits.get(&name));
        too_little(request, limit).explain(&name, KIND, bound)
    });
    let most = amounts(limit.get("max")).into_iter().filter_map(|(name, bound)| {
        let fault = match needs.requests.get(&name) {
            None => Bound::missing("maximum", "request"),
            request => Bound::of("maximum", vec![("request", request.copied())]),
        };
        fault.explain(&name, KIND, bound)
    });
    least.chain(most).collect()
}

/// A bound, and the amounts that must keep it.
struct Bound {
    word: &'static str,
    missing: Option<&'static str>,
    amounts: Vec<(&'static str, Option<Quantity>)>,
}

impl Bound {
    fn missing(word: &'static str, what: &'static str) -> Self {
        Bound { word, missing: Some(what), amounts: vec![] }
    }

    fn of(word: &'static str, amounts: Vec<(&'static str, Option<Quantity>)>) -> Self {
        Bound { word, missing: None, amounts }
    }

    /// What is wrong, if anything is.
    fn explain(&self, name: &str, kind: &str, bound: Quantity) -> Option<String> {
        let begin = format!("{} {name} usage per {kind} is {bound}", self.word);
        if let Some(what) = self.missing {
            return Some(format!("{begin}.  No {what} is specified"));
        }
        let broken = |amount: Quantity| if self.word == "minimum" { amount < bound } else { amount > bound };
        let (what, amount) = self.amounts.iter().find_map(|(what, amount)| {
            let amount = (*amount)?;
            broken(amount).then_some((what, amount))
        })?;
        Some(format!("{begin}, but {what} is {amount}"))
    }
}

fn too_little(request: Option<&Quantity>, limit: Option<&Quantity>) -> Bound {
    match request {
        None => Bound::missing("minimum", "request"),
        request => Bound::of("minimum", vec![("request", request.copied()), ("limit", limit.copied())]),
    }
}

fn too_much(request: Option<&Quantity>, limit: Option<&Quantity>) -> Bound {
    match limit {
        None => Bound::missing("maximum", "limit"),
        limit => Bound::of("maximum", vec![("limit", limit.copied()), ("request", request.copied())]),
    }
}

fn bound_faults(kind: &str, limit: &Object, needs: &Needs) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, bound) in amounts(limit.get("min")) {
        faults.extend(
            too_little(needs.requests.get(&name), needs.limits.get(&name)).explain(&name, kind, bound),
        );
    }
    for (name, bound) in amounts(limit.get("max")) {
        faults
            .extend(too_much(needs.requests.get(&name), needs.limits.get(&name)).explain(&name, kind, bound));
    }
    for (name, bound) in amounts(limit.get("maxLimitRequestRatio")) {
        let (request, limit) = (needs.requests.get(&name), needs.limits.get(&name));
        faults.extend(ratio_fault(&name, kind, bound, request, limit));
    }
    faults
}

fn ratio_fault(
    name: &str,
    kind: &str,
    bound: Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let begin = format!("{name} max limit to request ratio per {kind} is {bound}, but");
    let set = |amount: Option<&Quantity>| amount.copied().filter(|amount| !amount.is_zero());
    let Some(request) = set(request) else {
        return Some(format!("{begin} no request is specified or request is 0"));
    };
    let Some(limit) = set(limit) else {
        return Some(format!("{begin} no limit is specified or limit is 0"));
    };
    let ratio = limit.as_f64() / request.as_f64();
    (ratio * 1000.0 > bound.as_f64() * 1000.0).then(|| format!("{begin} provided ratio is {ratio:.6}"))
}

#[cfg(test)]
mod tests;
