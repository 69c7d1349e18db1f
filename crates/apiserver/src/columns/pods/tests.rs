//! What the table says about pods in every state they get into.

use serde_json::json;
use windlass_machinery::table::cells;

use super::*;

fn row(pod: &Value) -> Vec<Value> {
    let now = "2026-03-01T12:00:00Z".parse().expect("a time");
    let pod = pod.as_object().expect("an object");
    cells(&of("", "Pod").expect("pods have columns"), pod, now)
}

/// Ready, status and restarts.
#[track_caller]
fn check(pod: Value, ready: &str, status: &str, restarts: &str) {
    assert_eq!(row(&pod)[1..4], [ready, status, restarts], "{pod:#}");
}

fn running(ready: bool) -> Value {
    json!({"ready": ready, "state": {"running": {}}})
}

fn waiting(reason: &str) -> Value {
    json!({"state": {"waiting": {"reason": reason}}})
}

fn ended(code: i64, reason: &str) -> Value {
    json!({"state": {"terminated": {"exitCode": code, "reason": reason}}})
}

fn restarted(times: i64, at: &str, mut status: Value) -> Value {
    status["restartCount"] = json!(times);
    status["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": at}});
    status
}

/// A pod whose containers have these statuses.
fn pod(phase: &str, statuses: &[Value]) -> Value {
    let containers: Vec<Value> = statuses.iter().map(|_| json!({"name": "c"})).collect();
    json!({"spec": {"containers": containers}, "status": {"phase": phase, "containerStatuses": statuses}})
}

/// A pod with one container that waits for init containers with these names, policies and statuses.
fn starting(init: &[(&str, bool, Value)]) -> Value {
    let mut pod = pod("Pending", &[waiting("PodInitializing")]);
    for (name, is_sidecar, status) in init {
        let mut container = json!({"name": name});
        if *is_sidecar {
            container["restartPolicy"] = json!("Always");
        }
        let mut status = status.clone();
        status["name"] = json!(name);
        for (path, value) in
            [(["spec", "initContainers"], container), (["status", "initContainerStatuses"], status)]
        {
            let list = &mut pod[path[0]][path[1]];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().expect("a list").push(value);
        }
    }
    pod
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    if pod.pointer(parent).is_none() {
        pod[&parent[1..]] = json!({});
    }
    pod.pointer_mut(parent).expect("it was made")[field] = value;
    pod
}

const DELETED: &str = "/metadata/deletionTimestamp";
const CONDITIONS: &str = "/status/conditions";

#[test]
fn running_pods() {
    check(pod("Pending", &[]), "0/0", "Pending", "0");
    check(pod("Pending", &[waiting("ContainerCreating")]), "0/1", "ContainerCreating", "0");
    check(pod("Running", &[running(true), running(false)]), "1/2", "Running", "0");
    check(pod("Running", &[waiting("CrashLoopBackOff"), running(true)]), "1/2", "CrashLoopBackOff", "0");
    check(pod("Pending", &[waiting("ImagePullBackOff")]), "0/1", "ImagePullBackOff", "0");
    let failing = [waiting("ErrImagePull"), waiting("CrashLoopBackOff")];
    check(pod("Pending", &failing), "0/2", "ErrImagePull", "0");
}

#[test]
fn finished_pods() {
    check(pod("Succeeded", &[ended(0, "Completed")]), "0/1", "Completed", "0");
    check(pod("Failed", &[ended(1, "Error")]), "0/1", "Error", "0");
    check(pod("Failed", &[ended(137, "OOMKilled")]), "0/1", "OOMKilled", "0");
    check(pod("Failed", &[ended(3, "")]), "0/1", "ExitCode:3", "0");
    check(
        pod("Failed", &[json!({"state": {"terminated": {"exitCode": 9, "signal": 9}}})]),
        "0/1",
        "Signal:9",
        "0",
    );
    check(with(pod("Failed", &[]), "/status/reason", json!("Evicted")), "0/0", "Evicted", "0");
    // What failed is told even if a container before it ended well.
    check(pod("Failed", &[ended(0, "Completed"), ended(1, "Error")]), "0/2", "Error", "0");
}

#[test]
fn partly_finished_pods() {
    let statuses = [ended(0, "Completed"), running(true)];
    check(pod("Running", &statuses), "1/2", "NotReady", "0");
    let ready = json!([{"type": "Ready", "status": "True"}]);
    check(with(pod("Running", &statuses), CONDITIONS, ready), "1/2", "Running", "0");
}

#[test]
fn deleted_pods() {
    let at = || json!("2026-03-01T11:59:59Z");
    check(with(pod("Running", &[running(true)]), DELETED, at()), "1/1", "Terminating", "0");
    check(with(pod("Succeeded", &[ended(0, "Completed")]), DELETED, at()), "0/1", "Completed", "0");
    let lost =
        with(with(pod("Running", &[running(true)]), DELETED, at()), "/status/reason", json!("NodeLost"));
    check(lost, "1/1", "Unknown", "0");
}

#[test]
fn gated_pods() {
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    check(with(pod("Pending", &[]), CONDITIONS, gated), "0/0", "SchedulingGated", "0");
}

#[test]
fn initializing_pods() {
    let done = || ended(0, "Completed");
    check(
        starting(&[("a", false, waiting("PodInitializing")), ("b", false, json!({}))]),
        "0/1",
        "Init:0/2",
        "0",
    );
    check(starting(&[("a", false, done()), ("b", false, running(false))]), "0/1", "Init:1/2", "0");
    check(starting(&[("a", false, waiting("CrashLoopBackOff"))]), "0/1", "Init:CrashLoopBackOff", "0");
    check(starting(&[("a", false, ended(1, "Error"))]), "0/1", "Init:Error", "0");
    check(starting(&[("a", false, ended(2, ""))]), "0/1", "Init:ExitCode:2", "0");
    check(
        starting(&[("a", false, json!({"state": {"terminated": {"exitCode": 1, "signal": 15}}}))]),
        "0/1",
        "Init:Signal:15",
        "0",
    );
    check(starting(&[("a", false, done())]), "0/1", "PodInitializing", "0");
    let again = restarted(2, "2026-03-01T11:59:00Z", waiting("CrashLoopBackOff"));
    check(starting(&[("a", false, again)]), "0/1", "Init:CrashLoopBackOff", "2 (60s ago)");
}

#[test]
fn sidecars_count_as_containers() {
    let started = |ready: bool| json!({"started": true, "ready": ready, "state": {"running": {}}});
    check(starting(&[("s", true, started(true))]), "1/2", "PodInitializing", "0");
    check(starting(&[("s", true, started(false)), ("a", false, running(false))]), "0/2", "Init:1/2", "0");
    check(
        starting(&[("s", true, json!({"started": false, "state": {"running": {}}}))]),
        "0/2",
        "Init:0/1",
        "0",
    );
    // Restarts of sidecars are told as long as the pod lives, those of other init containers while they run.
    let sidecar = restarted(3, "2026-03-01T11:00:00Z", started(true));
    let init = restarted(5, "2026-03-01T11:30:00Z", ended(0, "Completed"));
    check(starting(&[("s", true, sidecar), ("a", false, init)]), "1/2", "PodInitializing", "3 (60m ago)");
    // A sidecar that broke after the pod was initialized hides nothing.
    let broken = starting(&[("s", true, waiting("CrashLoopBackOff"))]);
    let initialized = with(broken, CONDITIONS, json!([{"type": "Initialized", "status": "True"}]));
    let running = with(initialized, "/status/containerStatuses", json!([running(true)]));
    check(running, "1/2", "Init:CrashLoopBackOff", "0");
}

#[test]
fn restarts_tell_when_the_last_was() {
    let first = restarted(1, "2026-03-01T11:55:00Z", running(true));
    let second = restarted(2, "2026-03-01T10:00:00Z", running(true));
    check(pod("Running", &[first, second]), "2/2", "Running", "3 (5m ago)");
    let mut unknown = running(true);
    unknown["restartCount"] = json!(4);
    check(pod("Running", &[unknown]), "1/1", "Running", "4");
}

#[test]
fn wide_columns() {
    let bare = json!({"metadata": {"name": "p"}});
    assert_eq!(row(&bare)[4..], ["<unknown>", "<none>", "<none>", "<none>", "<none>"]);
    let full = json!({
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]},
        "status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "nominatedNodeName": "n2",
            "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]},
    });
    assert_eq!(row(&full)[5..], ["10.0.0.1", "n1", "n2", "1/3"]);
}
