//! What runs pods: sets, deployments and jobs.

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::{self, Object},
    table::{Cell, Column, between, find},
    time,
};

use super::{
    age, boolean, integer, name, path, string, with,
    words::{field, int_at, is_deleted, is_true, labels, resource_name, selector, selector_or_none},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    let [containers, images] = template("spec.template.spec.containers");
    Some(match (group, kind) {
        ("", "ReplicationController") => {
            replicas([containers, images, with("Selector", |rc, _| labels(find(rc, "spec.selector")).into())])
        }
        ("apps", "ReplicaSet") => replicas([containers, images, with("Selector", spec_selector)]),
        ("apps", "Deployment") => vec![
            name(),
            with("Ready", ready),
            string("Up-to-date", Cell::Int("status.updatedReplicas")),
            string("Available", Cell::Int("status.availableReplicas")),
            age(),
            containers.wide(),
            images.wide(),
            with("Selector", deployment_selector).wide(),
        ],
        ("apps", "StatefulSet") => {
            vec![name(), with("Ready", ready), age(), containers.wide(), images.wide()]
        }
        ("apps", "DaemonSet") => vec![
            name(),
            integer("Desired", Cell::Int("status.desiredNumberScheduled")),
            integer("Current", Cell::Int("status.currentNumberScheduled")),
            integer("Ready", Cell::Int("status.numberReady")),
            integer("Up-to-date", Cell::Int("status.updatedNumberScheduled")),
            integer("Available", Cell::Int("status.numberAvailable")),
            with("Node Selector", |set, _| labels(find(set, "spec.template.spec.nodeSelector")).into()),
            age(),
            containers.wide(),
            images.wide(),
            with("Selector", spec_selector).wide(),
        ],
        ("apps", "ControllerRevision") => {
            vec![name(), with("Controller", controller), string("Revision", Cell::Int("revision")), age()]
        }
        ("batch", "Job") => vec![
            name(),
            with("Status", job_status),
            with("Completions", completions),
            with("Duration", duration),
            age(),
            containers.wide(),
            images.wide(),
            with("Selector", spec_selector).wide(),
        ],
        ("batch", "CronJob") => cron_job(),
        _ => return None,
    })
}

fn replicas([containers, images, selector]: [Column; 3]) -> Vec<Column> {
    vec![
        name(),
        integer("Desired", Cell::Int("spec.replicas")),
        integer("Current", Cell::Int("status.replicas")),
        integer("Ready", Cell::Int("status.readyReplicas")),
        age(),
        containers.wide(),
        images.wide(),
        selector.wide(),
    ]
}

fn cron_job() -> Vec<Column> {
    let [containers, images] = template("spec.jobTemplate.spec.template.spec.containers");
    vec![
        name(),
        path("Schedule", "spec.schedule"),
        string("Timezone", Cell::Text("spec.timeZone", "<none>")),
        boolean("Suspend", Cell::With(suspend)),
        integer("Active", Cell::Count(&["status.active"])),
        string("Last Schedule", Cell::Since("status.lastScheduleTime", "<none>")),
        age(),
        containers.wide(),
        images.wide(),
        with("Selector", |job, _| selector_or_none(find(job, "spec.jobTemplate.spec.selector")).into())
            .wide(),
    ]
}

fn template(containers: &'static str) -> [Column; 2] {
    [
        string("Containers", Cell::Joined(containers, "name", "")),
        string("Images", Cell::Joined(containers, "image", "")),
    ]
}

fn ready(object: &Object, _: Timestamp) -> Value {
    format!("{}/{}", int_at(object, "status.readyReplicas"), int_at(object, "spec.replicas")).into()
}

fn spec_selector(object: &Object, _: Timestamp) -> Value {
    selector_or_none(find(object, "spec.selector")).into()
}

fn deployment_selector(deployment: &Object, _: Timestamp) -> Value {
    selector(find(deployment, "spec.selector")).unwrap_or_else(|| "<invalid>".to_owned()).into()
}

fn controller(revision: &Object, _: Timestamp) -> Value {
    let owners = object::list_at(revision, &["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true))) else {
        return "<none>".into();
    };
    let group = field(owner, "apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    format!("{}/{}", resource_name(field(owner, "kind"), group), field(owner, "name")).into()
}

fn job_status(job: &Object, _: Timestamp) -> Value {
    let is = |kind: &&str| is_true(job, kind);
    let ended = ["Complete", "Failed"].into_iter().find(is);
    let deleted = is_deleted(job).then_some("Terminating");
    let current = ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(is);
    ended.or(deleted).or(current).unwrap_or("Running").into()
}

fn completions(job: &Object, _: Timestamp) -> Value {
    let succeeded = int_at(job, "status.succeeded");
    match (find(job, "spec.completions").and_then(Value::as_i64), int_at(job, "spec.parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}").into(),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}").into(),
        (None, _) => format!("{succeeded}/1").into(),
    }
}

fn duration(job: &Object, now: Timestamp) -> Value {
    let moment = |path| find(job, path).and_then(Value::as_str).and_then(time::parse);
    match moment("status.startTime") {
        Some(start) => between(start, moment("status.completionTime").unwrap_or(now)).into(),
        None => "".into(),
    }
}

fn suspend(job: &Object, _: Timestamp) -> Value {
    match find(job, "spec.suspend").and_then(Value::as_bool) {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    }
}
