//! Pods and what is said about them: templates and disruption budgets.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::Object,
    table::{Cell, Column, between, find},
    time,
};

use super::{
    age, integer, name, string, with,
    words::{condition, entries, field, is_deleted, is_true, labels, list, str_at},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("", "Pod") => vec![
            name(),
            with("Ready", ready).about("How many of its containers are ready."),
            with("Status", |pod, _| Summary::of(pod).reason.into()).about("What its containers are doing."),
            with("Restarts", restarts).about("How often its containers restarted, and when one last did."),
            age(),
            with("IP", ip).wide(),
            string("Node", Cell::Text("spec.nodeName", "<none>")).wide(),
            string("Nominated Node", Cell::Text("status.nominatedNodeName", "<none>")).wide(),
            with("Readiness Gates", readiness_gates).wide(),
        ],
        ("", "PodTemplate") => vec![
            name(),
            string("Containers", Cell::Joined("template.spec.containers", "name", "")),
            string("Images", Cell::Joined("template.spec.containers", "image", "")),
            with("Pod Labels", |template, _| labels(find(template, "template.metadata.labels")).into()),
        ],
        ("policy", "PodDisruptionBudget") => vec![
            name(),
            string("Min Available", Cell::Text("spec.minAvailable", "N/A")),
            string("Max Unavailable", Cell::Text("spec.maxUnavailable", "N/A")),
            integer("Allowed Disruptions", Cell::Int("status.disruptionsAllowed")),
            age(),
        ],
        _ => return None,
    })
}

fn ready(pod: &Object, _: Timestamp) -> Value {
    let Summary { ready, total, .. } = Summary::of(pod);
    format!("{ready}/{total}").into()
}

fn restarts(pod: &Object, now: Timestamp) -> Value {
    let Restarts { count, last } = Summary::of(pod).restarts;
    match last {
        Some(last) if count != 0 => format!("{count} ({} ago)", between(last, now)).into(),
        _ => count.to_string().into(),
    }
}

fn ip(pod: &Object, _: Timestamp) -> Value {
    let first = list(pod, "status.podIPs").first().map(|address| field(address, "ip")).unwrap_or_default();
    [first, str_at(pod, "status.podIP")].into_iter().find(|ip| !ip.is_empty()).unwrap_or("<none>").into()
}

fn readiness_gates(pod: &Object, _: Timestamp) -> Value {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates.iter().filter(|gate| is_true(pod, field(gate, "conditionType"))).count();
    format!("{open}/{}", gates.len()).into()
}

/// What the table says about a pod's containers.
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts,
}

/// How often containers restarted, and when one last did.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += status.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
        let finished = status.pointer("/lastState/terminated/finishedAt").and_then(Value::as_str);
        self.last = self.last.max(finished.and_then(time::parse));
    }
}

impl Summary {
    fn of(pod: &Object) -> Self {
        let sidecars: Vec<&str> = list(pod, "spec.initContainers")
            .iter()
            .filter(|container| field(container, "restartPolicy") == "Always")
            .map(|container| field(container, "name"))
            .collect();
        let mut summary = Summary {
            ready: 0,
            total: list(pod, "spec.containers").len() + sidecars.len(),
            reason: phase(pod).to_owned(),
            restarts: Restarts::default(),
        };
        let of_sidecars = summary.initialize(pod, &sidecars);
        if let Some(of_sidecars) = of_sidecars {
            summary.restarts = of_sidecars;
            summary.run(pod);
        }
        if is_deleted(pod) && str_at(pod, "status.reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if is_deleted(pod) && !matches!(str_at(pod, "status.phase"), "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
        summary
    }

    /// Goes through the init containers up to the first that holds the others up. Gives the restarts of the
    /// sidecars if the containers proper are to be looked at.
    fn initialize(&mut self, pod: &Object, sidecars: &[&str]) -> Option<Restarts> {
        let mut of_sidecars = Restarts::default();
        for (at, status) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            let is_sidecar = sidecars.contains(&field(status, "name"));
            self.restarts.add(status);
            if is_sidecar {
                of_sidecars.add(status);
            }
            let state = status.get("state").unwrap_or(&Value::Null);
            let waiting = state.get("waiting").map(|waiting| field(waiting, "reason")).unwrap_or_default();
            self.reason = match state.get("terminated").filter(|state| state.is_object()) {
                Some(ended) if exit_code(ended) == 0 => continue,
                _ if is_sidecar && is_set(status, "started") => {
                    self.ready += usize::from(is_set(status, "ready"));
                    continue;
                }
                Some(ended) => format!("Init:{}", end(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{at}/{}", list(pod, "spec.initContainers").len()),
            };
            return is_true(pod, "Initialized").then_some(of_sidecars);
        }
        Some(of_sidecars)
    }

    /// Goes through the containers proper. The first of them has the last word, but a container that ended well
    /// says nothing as long as another one has more to say.
    fn run(&mut self, pod: &Object) {
        let mut running = false;
        let mut failure = None;
        for status in list(pod, "status.containerStatuses").iter().rev() {
            self.restarts.add(status);
            let state = status.get("state").unwrap_or(&Value::Null);
            let is = |name: &str| state.get(name).is_some_and(Value::is_object);
            let waiting = state.get("waiting").map(|waiting| field(waiting, "reason")).unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(ended) = state.get("terminated").filter(|state| state.is_object()) {
                self.reason = end(ended);
                if exit_code(ended) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if is("running") && is_set(status, "ready") {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let is_ready = entries(find(pod, "status.conditions"))
                .iter()
                .any(|condition| field(condition, "type") == "Ready" && field(condition, "status") == "True");
            match failure {
                _ if running && is_ready => self.reason = "Running".to_owned(),
                Some(failure) => self.reason = failure,
                None if running => self.reason = "NotReady".to_owned(),
                None => {}
            }
        }
    }
}

fn phase(pod: &Object) -> &str {
    let gated = condition(pod, "PodScheduled").is_some_and(|condition| field(condition, "reason") == GATED);
    match str_at(pod, "status.reason") {
        _ if gated => GATED,
        "" => str_at(pod, "status.phase"),
        reason => reason,
    }
}

const GATED: &str = "SchedulingGated";

/// How a container ended.
fn end(terminated: &Value) -> String {
    let signal = terminated.get("signal").and_then(Value::as_i64).unwrap_or_default();
    match field(terminated, "reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", exit_code(terminated)),
        reason => reason.to_owned(),
    }
}

fn exit_code(terminated: &Value) -> i64 {
    terminated.get("exitCode").and_then(Value::as_i64).unwrap_or_default()
}

fn is_set(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}
