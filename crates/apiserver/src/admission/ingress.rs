//! Ingresses: the default class.

use async_trait::async_trait;
use windlass_machinery::object::{self, Object};

use super::{Operation, Plugin, Request, View};
use crate::status::Outcome;

pub(super) struct DefaultIngressClass;

#[async_trait]
impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation != Operation::Create || !request.is("networking.k8s.io", "ingresses") {
            return Ok(());
        }
        let object = &mut request.object;
        let chosen = object::at(object, &["spec", "ingressClassName"]).is_some_and(|class| !class.is_null())
            || object::at(object, &["metadata", "annotations", "kubernetes.io/ingress.class"]).is_some();
        if chosen {
            return Ok(());
        }
        let marks = ["ingressclass.kubernetes.io/is-default-class"];
        if let Some(class) = default_class(request.view, "networking.k8s.io", "ingressclasses", &marks) {
            object::set_at(object, &["spec", "ingressClassName"], Some(object::name(&class).into()));
        }
        Ok(())
    }
}

/// The class that one of the annotations marks as the default: the newest, then the first by name.
pub(super) fn default_class(view: &View, group: &str, plural: &str, marks: &[&str]) -> Option<Object> {
    let marked = |class: &Object| {
        let says = |mark: &&str| object::str_at(class, &["metadata", "annotations", mark]) == Some("true");
        marks.iter().any(says)
    };
    let created =
        |class: &Object| object::str_at(class, &["metadata", "creationTimestamp"]).map(ToOwned::to_owned);
    let classes = view.list(group, plural, "").into_iter().map(|(class, _)| class);
    // Names come in ascending order, and of equal ones the last would win.
    classes.rev().filter(marked).max_by_key(created)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::{World, admit};

    #[tokio::test]
    async fn an_ingress_without_a_class_gets_the_newest_default() {
        let class = |name: &str, year: &str, default: &str| {
            let annotations = json!({"ingressclass.kubernetes.io/is-default-class": default});
            let created = format!("{year}-01-01T00:00:00Z");
            let metadata = json!({"name": name, "creationTimestamp": created, "annotations": annotations});
            ("networking.k8s.io", "ingressclasses", json!({"metadata": metadata}))
        };
        let classes = [
            class("a", "2020", "true"),
            class("b", "2021", "true"),
            class("c", "2021", "true"),
            class("d", "2022", "false"),
        ];
        let world = World::new(&classes).await;
        let cases = [
            (json!({"spec": {}}), json!("b")),
            (json!({"spec": {"ingressClassName": "x"}}), json!("x")),
            (
                json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "y"}}, "spec": {}}),
                json!(null),
            ),
        ];
        for (ingress, class) in cases {
            let request = world.request("networking.k8s.io", "ingresses", "n", ingress);
            let (object, _) = admit(&DefaultIngressClass, request).await.unwrap();
            assert_eq!(*object::at(&object, &["spec", "ingressClassName"]).unwrap_or(&json!(null)), class);
        }
    }
}
