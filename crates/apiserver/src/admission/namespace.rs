//! Namespaces: nothing is created in one that is not there or is going away, and three of them stay.

use async_trait::async_trait;
use windlass_machinery::stored::Stored;
use windlass_store::Expect;

use super::{Operation, Plugin, Request};
use crate::status::{Outcome, Status};

/// Namespaces the cluster cannot do without.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

pub(super) struct NamespaceLifecycle;

#[async_trait]
impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        match request.operation {
            Operation::Delete if request.is("", "namespaces") && IMMORTAL.contains(&request.name) => {
                Err(request.refuse("this namespace may not be deleted"))
            }
            Operation::Create if request.resource.namespaced => enter(request),
            _ => Ok(()),
        }
    }
}

/// Lets an object into its namespace, and makes sure that the namespace is still the same when it is committed.
fn enter(request: &mut Request<'_>) -> Outcome<()> {
    let (view, namespace) = (request.view, request.namespace);
    let Some(row) = view.catalog.get("", "namespaces") else { return Ok(()) };
    let key = row.key("", namespace);
    let Some(entry) = view.snapshot.get(key.as_bytes()) else {
        return Err(Status::not_found(row, namespace));
    };
    if is_terminating(&entry.value) {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        let status = request.refuse(why);
        return Err(status.cause_at("NamespaceTerminating", &message, "metadata.namespace"));
    }
    let revision = entry.revision;
    request.effects.require(key, Expect::At(revision));
    Ok(())
}

/// Whether a stored namespace is on its way out. Most are not, and do not even hold the words.
fn is_terminating(value: &[u8]) -> bool {
    let says = |word: &[u8]| memchr::memmem::find(value, word).is_some();
    (says(b"deletionTimestamp") || says(b"Terminating"))
        && Stored::new(value).is_some_and(|stored| {
            stored.peek(&["metadata", "deletionTimestamp"]).is_some()
                || stored.peek(&["status", "phase"]).as_deref() == Some("Terminating")
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::World;

    async fn create_in(world: &World, namespace: &str) -> Outcome<usize> {
        let mut request = world.request("", "configmaps", namespace, json!({"metadata": {"name": "c"}}));
        NamespaceLifecycle.mutate(&mut request).await?;
        Ok(request.effects.requires.len())
    }

    #[tokio::test]
    async fn objects_enter_only_namespaces_that_are_there_to_stay() {
        let world = World::new(&[
            ("", "namespaces", json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}})),
            ("", "namespaces", json!({"metadata": {"name": "b"}, "status": {"phase": "Terminating"}})),
            (
                "",
                "namespaces",
                json!({"metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ),
        ])
        .await;
        assert_eq!(create_in(&world, "a").await.unwrap(), 1);
        let absent = create_in(&world, "x").await.unwrap_err();
        assert_eq!((absent.code, absent.message.as_str()), (404, "namespaces \"x\" not found"));
        for namespace in ["b", "c"] {
            let status = create_in(&world, namespace).await.unwrap_err();
            let why = format!(
                "configmaps \"c\" is forbidden: unable to create new content in namespace {namespace} \
                 because it is being terminated"
            );
            assert_eq!((status.code, status.message.clone()), (403, why));
            assert_eq!(status.to_json()["details"]["causes"][0]["reason"], "NamespaceTerminating");
        }
    }

    #[tokio::test]
    async fn three_namespaces_may_not_be_deleted() {
        let world = World::new(&[]).await;
        for (name, refused) in
            [("default", true), ("kube-system", true), ("kube-public", true), ("mine", false)]
        {
            let old = World::object(json!({"metadata": {"name": name}}));
            let mut request = world.deletion("", "namespaces", "", &old);
            let outcome = NamespaceLifecycle.mutate(&mut request).await;
            assert_eq!(outcome.is_err(), refused, "{name}");
        }
    }
}
