//! Storage: the default class, protection of what is in use, and growing claims.

use async_trait::async_trait;
use serde_json::Value;
use windlass_machinery::{
    object::{self, Object},
    quantity::Quantity,
};

use super::{Operation, Plugin, Request, ingress::default_class};
use crate::status::Outcome;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Gives claims that name no class the default one.
pub(super) struct DefaultStorageClass;

#[async_trait]
impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let new = request.operation == Operation::Create && request.is("", "persistentvolumeclaims");
        // An empty name is a choice: no class at all.
        if !new || class_name(&request.object).is_some() {
            return Ok(());
        }
        let marks = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        if let Some(class) = default_class(request.view, "storage.k8s.io", "storageclasses", &marks) {
            let name = object::name(&class).into();
            object::set_at(&mut request.object, &["spec", "storageClassName"], Some(name));
        }
        Ok(())
    }
}

fn class_name(claim: &Object) -> Option<&str> {
    let annotated = object::str_at(claim, &["metadata", "annotations", CLASS_ANNOTATION]);
    annotated.or_else(|| object::str_at(claim, &["spec", "storageClassName"]))
}

/// Keeps claims and volumes from being removed while they are in use.
pub(super) struct StorageObjectInUseProtection;

#[async_trait]
impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let finalizer = match request.operation {
            Operation::Create if request.is("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
            Operation::Create if request.is("", "persistentvolumes") => "kubernetes.io/pv-protection",
            Operation::Create if request.is("storage.k8s.io", "volumeattributesclasses") => {
                "kubernetes.io/vac-protection"
            }
            _ => return Ok(()),
        };
        let mut finalizers = object::list_at(&request.object, &["metadata", "finalizers"]).to_vec();
        if !finalizers.iter().any(|present| present == finalizer) {
            finalizers.push(finalizer.into());
            object::set_at(&mut request.object, &["metadata", "finalizers"], Some(finalizers.into()));
        }
        Ok(())
    }
}

/// Lets claims grow only where their class can.
pub(super) struct PersistentVolumeClaimResize;

#[async_trait]
impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let Some(old) = request.old else { return Ok(()) };
        if request.operation != Operation::Update || !request.is("", "persistentvolumeclaims") {
            return Ok(());
        }
        let (Some(size), Some(old_size)) = (size(&request.object), size(old)) else { return Ok(()) };
        if size <= old_size {
            return Ok(());
        }
        if object::str_at(old, &["status", "phase"]) != Some("Bound") {
            return Err(request.refuse("Only bound persistent volume claims can be expanded"));
        }
        let class =
            class_name(&request.object).filter(|name| !name.is_empty() && class_name(old) == Some(name));
        let class = class.and_then(|name| request.view.get("storage.k8s.io", "storageclasses", "", name));
        let expands =
            class.is_some_and(|(class, _)| object::bool_at(&class, &["allowVolumeExpansion"]) == Some(true));
        match expands {
            true => Ok(()),
            false => Err(request.refuse(
                "only dynamically provisioned pvc can be resized and \
                 the storageclass that provisions the pvc must support resize",
            )),
        }
    }
}

fn size(claim: &Object) -> Option<Quantity> {
    let size: &Value = object::at(claim, &["spec", "resources", "requests", "storage"])?;
    Quantity::from_value(size).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::{World, admit};

    fn class(name: &str, default: &str, expands: bool) -> (&'static str, &'static str, Value) {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": default});
        let metadata = json!({"name": name, "annotations": annotations});
        ("storage.k8s.io", "storageclasses", json!({"metadata": metadata, "allowVolumeExpansion": expands}))
    }

    #[tokio::test]
    async fn a_claim_that_names_no_class_gets_the_default() {
        let world = World::new(&[class("fast", "true", true), class("slow", "false", false)]).await;
        let annotated = json!({"metadata": {"annotations": {CLASS_ANNOTATION: "slow"}}, "spec": {}});
        for (claim, expected) in [
            (json!({"spec": {}}), Some("fast")),
            (json!({"spec": {"storageClassName": ""}}), Some("")),
            (json!({"spec": {"storageClassName": "slow"}}), Some("slow")),
            (annotated, None),
        ] {
            let request = world.request("", "persistentvolumeclaims", "n", claim);
            let (claim, _) = admit(&DefaultStorageClass, request).await.unwrap();
            assert_eq!(object::str_at(&claim, &["spec", "storageClassName"]), expected);
        }
    }

    #[tokio::test]
    async fn claims_and_volumes_are_protected_from_their_creation() {
        let world = World::new(&[]).await;
        for (plural, finalizer) in [
            ("persistentvolumeclaims", "kubernetes.io/pvc-protection"),
            ("persistentvolumes", "kubernetes.io/pv-protection"),
        ] {
            for given in [json!({}), json!({"finalizers": [finalizer]})] {
                let request = world.request("", plural, "", json!({"metadata": given}));
                let (object, _) = admit(&StorageObjectInUseProtection, request).await.unwrap();
                assert_eq!(object["metadata"]["finalizers"], json!([finalizer]));
            }
        }
    }

    #[tokio::test]
    async fn a_claim_grows_only_where_its_class_can() {
        let world = World::new(&[class("grows", "false", true), class("rigid", "false", false)]).await;
        let claim = |class: &str, size: &str, phase: &str| {
            json!({"metadata": {"name": "c"}, "status": {"phase": phase},
                   "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}})
        };
        for (class, size, phase, accepted) in [
            ("grows", "2Gi", "Bound", true),
            ("grows", "2Gi", "Pending", false),
            ("rigid", "2Gi", "Bound", false),
            ("rigid", "1024Mi", "Bound", true),
            ("absent", "2Gi", "Bound", false),
        ] {
            let old = World::object(claim(class, "1Gi", phase));
            let new = claim(class, size, phase);
            let request = world.update("", "persistentvolumeclaims", "n", &old, new);
            let outcome = admit(&PersistentVolumeClaimResize, request).await;
            assert_eq!(outcome.is_ok(), accepted, "{class} {size} {phase}");
        }
    }
}
