//! PodSecurity: pods are held to the standard that the labels of their namespace name.
//!
//! What the namespace enforces is refused; what it warns of is told, for pods and for everything that makes
//! pods. The standards themselves are in [`controls`], the labels in [`policy`].

mod controls;
mod policy;

use std::{borrow::Cow, collections::BTreeMap};

use async_trait::async_trait;
use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    object::{self, Object, at, metadata},
    stored::Stored,
};

use self::{
    controls::{Finding, Pod, findings},
    policy::{Level, Policy, Standard},
};
use super::{Operation, Plugin, Request};
use crate::status::{Outcome, Status};

/// Most pods that are looked at when a namespace becomes stricter: more would hold up the answer.
const MOST_PODS: usize = 3000;

/// What makes pods, and where its template is.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
];

/// The admission plugin.
pub(crate) struct PodSecurity;

#[async_trait]
impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation == Operation::Delete {
            return Ok(());
        }
        if request.is("", "namespaces") {
            return namespace(request);
        }
        let resource = request.resource;
        if resource.group.is_empty() && resource.plural == "pods" {
            return pod(request);
        }
        let template = TEMPLATES.iter().find(|(group, plural, _)| request.is(group, plural));
        if let Some((_, _, path)) = template {
            template_of(request, path);
        }
        Ok(())
    }
}

type Labels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

fn labels(object: &Object) -> Labels<'_> {
    let labels = metadata(object).get("labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
}

/// Refuses labels that mean nothing, and tells which pods a stricter standard would refuse.
fn namespace(request: &mut Request<'_>) -> Outcome<()> {
    let (mut new_errors, mut old_errors) = (Errors::new(), Errors::new());
    let new = policy::read(&labels(&request.object), &mut new_errors);
    let old = request.old.map(|old| policy::read(&labels(old), &mut old_errors));
    // Labels that were wrong before do not stand in the way of other changes.
    if !new_errors.is_empty() && new_errors.list() != old_errors.list() {
        let resource = request.resource;
        let name = object::name(&request.object);
        return Err(Status::invalid(&resource.group, &resource.kind, name, &new_errors));
    }
    let (Some(old), new) = (old, new) else { return Ok(()) };
    let relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
    if new.enforce.level != Level::Privileged && !relaxed {
        let warnings = pods_against(request, new.enforce);
        request.warnings.extend(warnings);
    }
    Ok(())
}

/// What the pods of a namespace do against a standard, one line for all that do the same.
fn pods_against(request: &Request<'_>, standard: Standard) -> Vec<String> {
    let name = object::name(&request.object);
    let pods = request.view.list("", "pods", name);
    let mut warnings = Vec::new();
    if pods.len() > MOST_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MOST_PODS} of {} existing pods",
            pods.len()
        ));
    }
    let mut by_reason: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for (pod, _) in pods.iter().take(MOST_PODS) {
        let Some(spec) = pod.get("spec").and_then(Value::as_object) else { continue };
        let found = findings(standard, Pod { metadata: metadata(pod), spec });
        if !found.is_empty() {
            let reasons: Vec<&str> = found.iter().map(|finding| finding.reason).collect();
            by_reason.entry(reasons.join(", ")).or_insert((object::name(pod), 0)).1 += 1;
        }
    }
    if !by_reason.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {name:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let lines = by_reason.into_iter().map(|(reasons, (first, number))| match number {
        1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        _ => format!("{first} (and {} other pods): {reasons}", number - 1),
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    warnings.extend(lines);
    warnings
}

/// What the namespace of a request asks for.
fn policy_for(request: &Request<'_>) -> Option<Policy> {
    let resource = request.view.catalog.get("", "namespaces")?;
    let entry = request.view.snapshot.get(resource.key("", request.namespace).as_bytes())?;
    let labels = Stored::new(&entry.value)?.labels();
    Some(policy::read(&labels, &mut Errors::new()))
}

fn pod(request: &mut Request<'_>) -> Outcome<()> {
    if !matches!(request.part, None | Some("ephemeralcontainers" | "resize")) {
        return Ok(());
    }
    if request.old.is_some_and(|old| !controls::touches(old, &request.object)) {
        return Ok(());
    }
    let Some(policy) = policy_for(request) else { return Ok(()) };
    let Some(spec) = request.object.get("spec").and_then(Value::as_object) else { return Ok(()) };
    let pod = Pod { metadata: metadata(&request.object), spec };
    note(request, &policy, pod);
    let found = findings(policy.enforce, pod);
    if !found.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, told(&found));
        return Err(request.refuse(&why));
    }
    let warning = warning(policy.warn, pod);
    request.warnings.extend(warning);
    Ok(())
}

/// Templates are never refused: what comes of them is.
fn template_of(request: &mut Request<'_>, path: &[&str]) {
    let template = at(&request.object, path).and_then(Value::as_object);
    let Some(template) = template else { return };
    let Some(spec) = template.get("spec").and_then(Value::as_object) else { return };
    let Some(policy) = policy_for(request) else { return };
    let pod = Pod { metadata: metadata(template), spec };
    note(request, &policy, pod);
    let warning = warning(policy.warn, pod);
    request.warnings.extend(warning);
}

/// Tells the audit log what is enforced, and what the namespace wants to be written down.
fn note(request: &Request<'_>, policy: &Policy, pod: Pod<'_>) {
    if request.notes.is_none() {
        return;
    }
    request.note("pod-security.kubernetes.io/enforce-policy", policy.enforce.to_string());
    if let Some(found) = warning(policy.audit, pod) {
        request.note("pod-security.kubernetes.io/audit-violations", found);
    }
}

fn warning(standard: Standard, pod: Pod<'_>) -> Option<String> {
    let found = findings(standard, pod);
    (!found.is_empty()).then(|| format!("would violate PodSecurity \"{standard}\": {}", told(&found)))
}

fn told(found: &[Finding]) -> String {
    let told = found.iter().map(|finding| format!("{} ({})", finding.reason, finding.detail));
    Vec::from_iter(told).join(", ")
}

#[cfg(test)]
mod tests;
