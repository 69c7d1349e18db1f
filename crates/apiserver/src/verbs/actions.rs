//! What can be done to one object besides reading and writing it: binding and eviction of pods.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{self, Object, child_mut, int_at, list_at, metadata_mut, set_at, str_at},
    selector::LabelSelector,
    stored, time,
};
use windlass_store::Expect;

use super::{author, decode, json as answer_json, manager};
use crate::{
    admission::Operation,
    http::{Body, Target, is_dry_run},
    registry::DeleteOptions,
    resources::Resource,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// What only a kubelet could do.
pub(crate) async fn kubelet(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    sub: &str,
) -> Outcome<Response<Body>> {
    let name = target.name.as_deref().unwrap_or_default();
    server.registry.get(&target.resource, &target.namespace, name, None).await?;
    if let Some(sent) = connection(call, target, sub) {
        let api_version = target.resource.api_version(&target.version);
        let mut author = author(call, "", &api_version)?;
        server.registry.ask(target, Operation::Connect, sent, &mut author).await?;
        let warnings = author.warnings;
        call.warnings.extend(warnings);
    }
    Err(Status::not_implemented(format!(
        "{} of {} {name:?} needs a kubelet, and this server has none: see the limits in its README",
        sub, target.resource.plural
    )))
}

/// The options of a connection, as they are in the query; none where nothing is connected.
fn connection(call: &Call, target: &Target, sub: &str) -> Option<Object> {
    let kind = match sub {
        "exec" => "PodExecOptions".to_owned(),
        "attach" => "PodAttachOptions".to_owned(),
        "portforward" => "PodPortForwardOptions".to_owned(),
        "proxy" => format!("{}ProxyOptions", target.resource.kind),
        _ => return None,
    };
    let mut options = Object::new();
    options.insert("kind".to_owned(), kind.into());
    options.insert("apiVersion".to_owned(), "v1".into());
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if call.query.has(flag) {
            options.insert(flag.to_owned(), call.query.flag(flag).into());
        }
    }
    for text in ["container", "path"] {
        if call.query.has(text) {
            options.insert(text.to_owned(), call.query.get(text).into());
        }
    }
    let command: Vec<Value> = call.query.all("command").map(Value::from).collect();
    if !command.is_empty() {
        options.insert("command".to_owned(), command.into());
    }
    let ports: Vec<Value> =
        call.query.all("ports").filter_map(|port| port.parse::<u16>().ok()).map(Value::from).collect();
    if !ports.is_empty() {
        options.insert("ports".to_owned(), ports.into());
    }
    Some(options)
}

/// `POST pods/NAME/binding`.
pub(crate) async fn bind(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let binding = decode::extra(call, body, &decode::BINDING)?;
    bind_pod(server, call, target, target.name.as_deref().unwrap_or_default(), &binding).await
}

/// `POST bindings`.
pub(crate) async fn bind_object(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    binding: Object,
) -> Outcome<Response<Body>> {
    let name = object::name(&binding).to_owned();
    bind_pod(server, call, target, &name, &binding).await
}

async fn bind_pod(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    name: &str,
    binding: &Object,
) -> Outcome<Response<Body>> {
    let manager = manager(call)?;
    let api_version = target.resource.api_version(&target.version);
    let mut author = author(call, &manager, &api_version)?;
    let binding = &server.registry.ask(target, Operation::Create, binding.clone(), &mut author).await?;
    let mut warnings = std::mem::take(&mut author.warnings);
    let catalog = server.registry.catalog.load_full();
    let pods = catalog.get("", "pods").ok_or_else(Status::no_such_path)?;
    let node = str_at(binding, &["target", "name"]).unwrap_or_default();
    let kind = str_at(binding, &["target", "kind"]).unwrap_or_default();
    let mut errors = Errors::new();
    if !matches!(kind, "" | "Node") {
        errors.not_supported("target.kind", kind, &["Node", "<empty>"]);
    }
    if node.is_empty() {
        errors.required("target.name", "");
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "Binding", name, &errors));
    }
    let (uid, annotations) =
        (object::uid(binding).to_owned(), object::metadata(binding).get("annotations").cloned());
    let change = |pod: &Object| place(pods, pod, name, node, &uid, annotations.as_ref());
    let part = crate::resources::Part {
        name: "binding",
        writes: &["spec.nodeName", "status.conditions"],
        reserved: false,
        metadata: true,
        put_only: false,
    };
    author.api_version = "v1";
    server.registry.update(pods, &target.namespace, name, Some(&part), &change, &mut author).await?;
    warnings.append(&mut author.warnings);
    call.warnings.extend(warnings);
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(answer_json(StatusCode::CREATED, Status::line(&done)))
}

/// The pod once it is on the node.
fn place(
    pods: &Resource,
    pod: &Object,
    name: &str,
    node: &str,
    uid: &str,
    annotations: Option<&Value>,
) -> Outcome<Object> {
    let own = object::uid(pod);
    if !uid.is_empty() && uid != own {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
        return Err(Status::conflict(pods, name, &why));
    }
    if object::metadata(pod).contains_key("deletionTimestamp") {
        return Err(Status::conflict(
            pods,
            name,
            &format!("pod {name} is being deleted, cannot be assigned to a host"),
        ));
    }
    match str_at(pod, &["spec", "nodeName"]).unwrap_or_default() {
        "" => {}
        taken => {
            let why = format!("pod {name} is already assigned to node {taken:?}");
            return Err(Status::conflict(pods, name, &why));
        }
    }
    if !list_at(pod, &["spec", "schedulingGates"]).is_empty() {
        return Err(Status::conflict(pods, name, &format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let mut new = pod.clone();
    set_at(&mut new, &["spec", "nodeName"], Some(node.into()));
    if let Some(Value::Object(annotations)) = annotations {
        child_mut(metadata_mut(&mut new), "annotations").extend(annotations.clone());
    }
    let mut conditions: Vec<Value> = list_at(&new, &["status", "conditions"]).to_vec();
    conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some("PodScheduled"));
    conditions.push(json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": time::rfc3339(Timestamp::now()),
    }));
    set_at(&mut new, &["status", "conditions"], Some(Value::Array(conditions)));
    Ok(new)
}

/// `POST pods/NAME/eviction`.
pub(crate) async fn evict(
    server: &Arc<ApiServer>,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let manager = manager(call)?;
    let mut eviction = decode::extra(call, body, &decode::EVICTION)?;
    let name = target.name.as_deref().unwrap_or_default();
    let given = object::name(&eviction);
    if !given.is_empty() && given != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut author = author(call, &manager, "v1")?;
    author.dry_run |= is_dry_run(asked_dry_runs(&eviction), &mut Errors::new());
    eviction = server.registry.ask(target, Operation::Create, eviction, &mut author).await?;
    let mut warnings = std::mem::take(&mut author.warnings);
    let options = DeleteOptions {
        grace: int_at(&eviction, &["deleteOptions", "gracePeriodSeconds"]),
        uid: str_at(&eviction, &["deleteOptions", "preconditions", "uid"]).map(str::to_owned),
        revision: str_at(&eviction, &["deleteOptions", "preconditions", "resourceVersion"])
            .map(str::to_owned),
        propagation: None,
    };
    let mut errors = Errors::new();
    let dry_run = is_dry_run(asked_dry_runs(&eviction), &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid_options("DeleteOptions", &errors));
    }
    let dry_run = dry_run || super::dry_run(call)?;
    spend_budget(server, target, name, dry_run).await?;
    author.dry_run = dry_run;
    author.through = "eviction";
    server.registry.delete(&target.resource, &target.namespace, name, &options, &mut author).await?;
    warnings.append(&mut author.warnings);
    call.warnings.extend(warnings);
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(answer_json(StatusCode::CREATED, Status::line(&done)))
}

fn asked_dry_runs(eviction: &Object) -> impl Iterator<Item = &str> {
    list_at(eviction, &["deleteOptions", "dryRun"]).iter().filter_map(Value::as_str)
}

/// How often a budget that others spend from is tried.
const ATTEMPTS: usize = 16;

/// Takes one disruption from the budget of the pod, if it has one.
async fn spend_budget(server: &ApiServer, target: &Target, name: &str, dry_run: bool) -> Outcome<()> {
    for _ in 0..ATTEMPTS {
        let view = server.registry.view().await?;
        let Some((pod, _)) = view.get("", "pods", &target.namespace, name) else {
            return Err(Status::not_found(&target.resource, name));
        };
        let phase = str_at(&pod, &["status", "phase"]).unwrap_or_default();
        let is_deleting = object::metadata(&pod).contains_key("deletionTimestamp");
        if matches!(phase, "Succeeded" | "Failed" | "Pending") || is_deleting {
            return Ok(());
        }
        let labels =
            object::metadata(&pod).get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut budgets = view.list("policy", "poddisruptionbudgets", &target.namespace);
        budgets.retain(|(budget, _)| {
            let selector = budget.get("spec").and_then(|spec| spec.get("selector"));
            let selector = selector.and_then(|selector| LabelSelector::from_object(selector).ok());
            selector.is_some_and(|selector| selector.matches(|key| labels.get(key).and_then(Value::as_str)))
        });
        let (mut budget, revision) = match budgets.len() {
            0 => return Ok(()),
            1 => budgets.remove(0),
            _ => {
                return Err(Status::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let ready = list_at(&pod, &["status", "conditions"]).iter().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some("Ready")
                && condition.get("status").and_then(Value::as_str) == Some("True")
        });
        let always = str_at(&budget, &["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow");
        if !ready && always {
            return Ok(());
        }
        let number = |path: &str| int_at(&budget, &["status", path]).unwrap_or(0);
        if !ready && number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0 {
            return Ok(());
        }
        let left = number("disruptionsAllowed");
        let stale = number("observedGeneration") < int_at(&budget, &["metadata", "generation"]).unwrap_or(0);
        if left <= 0 || stale {
            return Err(refuse(&budget, stale));
        }
        if dry_run {
            return Ok(());
        }
        set_at(&mut budget, &["status", "disruptionsAllowed"], Some((left - 1).into()));
        let now = time::rfc3339(Timestamp::now());
        set_at(&mut budget, &["status", "disruptedPods", name], Some(now.into()));
        let Some(row) = view.catalog.get("policy", "poddisruptionbudgets") else { return Ok(()) };
        let key = row.key(&target.namespace, object::name(&budget));
        let value = stored::encode(&budget).into();
        if server.registry.put(key, value, Expect::At(revision)).await? {
            return Ok(());
        }
    }
    Err(Status::too_many_requests("the disruption budget is being changed by many, try again", 1))
}

fn refuse(budget: &Object, stale: bool) -> Box<Status> {
    let name = object::name(budget);
    let why = match stale {
        true => format!("The disruption budget {name} is still being processed by the server."),
        false => format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            int_at(budget, &["status", "desiredHealthy"]).unwrap_or(0),
            int_at(budget, &["status", "currentHealthy"]).unwrap_or(0)
        ),
    };
    let retry = if stale { 10 } else { 0 };
    Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", retry)
        .cause("DisruptionBudget", &why)
}
