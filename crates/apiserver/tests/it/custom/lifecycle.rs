//! Definitions come, change and go, and so do their resources.

use serde_json::{Value, json};

use super::{
    super::client::names, DEFINITIONS, WIDGETS, condition, definition, eventually, redefine, serving, widget,
    widgets, with,
};
use crate::client::Client;

#[tokio::test]
async fn a_kind_is_served_as_soon_as_its_definition_is_created() {
    let client = Client::new().await;
    client.get(WIDGETS).await.refused(404, "NotFound");
    client.post(DEFINITIONS, widgets()).await.created();
    assert_eq!(client.get(WIDGETS).await.ok()["kind"], "WidgetList");
    client.post(WIDGETS, widget("a", 1)).await.created();
    assert_eq!(names(&client.get(WIDGETS).await.ok()), ["a"]);
}

#[tokio::test]
async fn a_definition_says_what_it_was_given() {
    let client = serving(widgets()).await;
    let stored = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(
        stored["status"]["acceptedNames"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"})
    );
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    let shown = |kind| {
        condition(&stored, kind).map(|(status, reason, message)| format!("{status} {reason}: {message}"))
    };
    assert_eq!(shown("NamesAccepted").as_deref(), Some("True NoConflicts: no conflicts found"));
    assert_eq!(
        shown("Established").as_deref(),
        Some("True InitialNamesAccepted: the initial names have been accepted")
    );
    assert_eq!(stored["metadata"]["generation"], 1);
    assert_eq!(stored["spec"]["conversion"], json!({"strategy": "None"}));
}

#[tokio::test]
async fn a_new_definition_has_no_status_but_its_stored_version() {
    let client = Client::new().await;
    let mut wanted = widgets();
    wanted["status"] = json!({"storedVersions": ["v9"], "acceptedNames": {"plural": "x", "kind": "X"}});
    let created = client.post(DEFINITIONS, wanted).await.created();
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(created["status"]["conditions"], Value::Null);
}

#[tokio::test]
async fn whoever_asks_for_a_name_in_use_is_not_served_until_it_is_free() {
    let client = serving(widgets()).await;
    let gadgets = with(definition("gadgets", "Widget", json!({"type": "object"})), |spec| {
        spec["names"]["listKind"] = "GadgetList".into();
    });
    client.post(DEFINITIONS, gadgets).await.created();
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let stored = client.get(&path).await.ok();
    assert_eq!(
        condition(&stored, "NamesAccepted"),
        Some(("False".into(), "KindConflict".into(), "\"Widget\" is already in use".into()))
    );
    assert_eq!(
        condition(&stored, "Established"),
        Some(("False".into(), "NotAccepted".into(), "not all names are accepted".into()))
    );
    assert_eq!(stored["status"]["acceptedNames"]["kind"], "");
    client.get("/apis/example.com/v1/gadgets").await.refused(404, "NotFound");
    client.delete(&format!("{DEFINITIONS}/widgets.example.com"), Value::Null).await.ok();
    eventually("the name is given on", async || client.get("/apis/example.com/v1/gadgets").await.code == 200)
        .await;
    assert_eq!(
        condition(&client.get(&path).await.ok(), "NamesAccepted").map(|found| found.0),
        Some("True".into())
    );
}

#[tokio::test]
async fn a_conflict_of_short_names_names_all_of_them() {
    let short = |names: &[&str], made: Value| with(made, |spec| spec["names"]["shortNames"] = json!(names));
    let client = serving(short(&["wd", "wdg"], widgets())).await;
    let gadgets = definition("gadgets", "Gadget", json!({"type": "object"}));
    client.post(DEFINITIONS, short(&["wdg", "wd", "gd"], gadgets)).await.created();
    let stored = client.get(&format!("{DEFINITIONS}/gadgets.example.com")).await.ok();
    let message = "[\"wdg\" is already in use, \"wd\" is already in use]";
    assert_eq!(
        condition(&stored, "NamesAccepted"),
        Some(("False".into(), "ShortNamesConflict".into(), message.into()))
    );
    redefine(&client, "gadgets.example.com", |spec| spec["names"]["shortNames"] = json!(["gd"])).await.ok();
    assert_eq!(client.get("/apis/example.com/v1/gadgets").await.code, 200);
}

#[tokio::test]
async fn a_name_that_is_given_up_is_given_on() {
    let short = |name: &str, made: Value| with(made, |spec| spec["names"]["shortNames"] = json!([name]));
    let client = serving(short("wd", widgets())).await;
    let gadgets = definition("gadgets", "Gadget", json!({"type": "object"}));
    client.post(DEFINITIONS, short("wd", gadgets)).await.created();
    let path = "/apis/example.com/v1/gadgets";
    client.get(path).await.refused(404, "NotFound");
    redefine(&client, "widgets.example.com", |spec| spec["names"]["shortNames"] = json!(["wdg"])).await.ok();
    eventually("the name is given on", async || client.get(path).await.code == 200).await;
}

#[tokio::test]
async fn names_are_taken_per_group() {
    let client = serving(widgets()).await;
    let mut other = widgets();
    other["metadata"]["name"] = "widgets.example.org".into();
    other["spec"]["group"] = "example.org".into();
    client.post(DEFINITIONS, other).await.created();
    assert_eq!(client.get("/apis/example.org/v1/widgets").await.code, 200);
}

#[tokio::test]
async fn an_established_kind_stays_when_it_asks_for_a_name_in_use() {
    let client = serving(widgets()).await;
    let gadgets = with(definition("gadgets", "Gadget", json!({"type": "object"})), |spec| {
        spec["names"]["shortNames"] = json!(["gd"]);
    });
    client.post(DEFINITIONS, gadgets).await.created();
    redefine(&client, "widgets.example.com", |spec| spec["names"]["shortNames"] = json!(["gd"])).await.ok();
    let stored = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(condition(&stored, "NamesAccepted").map(|found| found.0), Some("False".into()));
    assert_eq!(condition(&stored, "Established").map(|found| found.0), Some("True".into()));
    assert_eq!(client.get(WIDGETS).await.code, 200);
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects() {
    let client = serving(widgets()).await;
    for name in ["a", "b", "c"] {
        client.post(WIDGETS, widget(name, 1)).await.created();
    }
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let marked = client.delete(&path, Value::Null).await.ok();
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let terminating = condition(&marked, "Terminating").expect("a condition");
    assert_eq!((terminating.0.as_str(), terminating.1.as_str()), ("True", "InstanceDeletionPending"));
    eventually("the definition goes", async || client.get(&path).await.code == 404).await;
    eventually("the kind goes", async || client.get(WIDGETS).await.code == 404).await;
    client.post(DEFINITIONS, widgets()).await.created();
    assert_eq!(names(&client.get(WIDGETS).await.ok()), [""; 0]);
}

#[tokio::test]
async fn a_definition_waits_for_the_finalizers_of_its_objects() {
    let client = serving(widgets()).await;
    let mut held = widget("held", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(WIDGETS, held).await.created();
    client.post(WIDGETS, widget("free", 1)).await.created();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    client.delete(&path, Value::Null).await.ok();
    eventually("what is free goes", async || names(&client.get(WIDGETS).await.ok()) == ["held"]).await;
    eventually("the definition says why it waits", async || {
        let reason = condition(&client.get(&path).await.ok(), "Terminating").map(|found| found.1);
        reason.as_deref() == Some("InstanceDeletionInProgress")
    })
    .await;
    let held = format!("{WIDGETS}/held");
    assert!(client.get(&held).await.ok()["metadata"]["deletionTimestamp"].is_string());
    let refused = client.post(WIDGETS, widget("late", 1)).await.refused(405, "MethodNotAllowed");
    assert_eq!(refused["message"], "create not allowed while custom resource definition is terminating");
    client.patch("merge", &held, json!({"metadata": {"finalizers": null}})).await.ok();
    eventually("the definition goes", async || client.get(&path).await.code == 404).await;
}

#[tokio::test]
async fn a_definition_that_was_never_established_just_goes() {
    let client = serving(widgets()).await;
    let same = definition("gadgets", "Widget", json!({"type": "object"}));
    client.post(DEFINITIONS, same).await.created();
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    client.delete(&path, Value::Null).await.ok();
    eventually("the definition goes", async || client.get(&path).await.code == 404).await;
    assert_eq!(client.get(WIDGETS).await.code, 200);
}

#[tokio::test]
async fn finalizers_of_others_keep_a_definition_that_is_empty() {
    let mut kept = widgets();
    kept["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let client = serving(kept).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    client.delete(&path, Value::Null).await.ok();
    eventually("only the finalizer of others is left", async || {
        client.get(&path).await.ok()["metadata"]["finalizers"] == json!(["example.com/hold"])
    })
    .await;
    let stored = client.get(&path).await.ok();
    assert_eq!(
        condition(&stored, "Terminating"),
        Some(("False".into(), "InstanceDeletionCompleted".into(), "removed all instances".into()))
    );
    client.post(WIDGETS, widget("late", 1)).await.refused(405, "MethodNotAllowed");
    client.patch("merge", &path, json!({"metadata": {"finalizers": null}})).await.ok();
    eventually("the definition goes", async || client.get(&path).await.code == 404).await;
}

#[tokio::test]
async fn watches_on_a_removed_kind_tell_of_the_last_object_and_end() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true"), &[]).await;
    assert_eq!(watch.step().await, ("ADDED".into(), "a".into()));
    client.delete(&format!("{DEFINITIONS}/widgets.example.com"), Value::Null).await.ok();
    assert_eq!(watch.step().await, ("DELETED".into(), "a".into()));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn watches_end_when_the_rules_change_and_can_go_on() {
    let client = serving(widgets()).await;
    let created = client.post(WIDGETS, widget("a", 1)).await.created();
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true&allowWatchBookmarks=true"), &[]).await;
    assert_eq!(watch.step().await.0, "ADDED");
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["new"] =
            json!({"type": "string", "default": "x"});
    })
    .await
    .ok();
    let bookmark = watch.next().await.expect("a last word");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(watch.next().await, None);
    client.post(WIDGETS, widget("b", 1)).await.created();
    let after = created["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true&resourceVersion={after}"), &[]).await;
    assert_eq!(watch.step().await, ("ADDED".into(), "b".into()));
}

#[tokio::test]
async fn a_status_change_of_the_definition_ends_no_watch() {
    let client = serving(widgets()).await;
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true"), &[]).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    client.patch("merge", &path, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    client
        .patch("merge", &format!("{path}/status"), json!({"status": {"storedVersions": ["v1"]}}))
        .await
        .ok();
    client.post(WIDGETS, widget("a", 1)).await.created();
    assert_eq!(watch.step().await, ("ADDED".into(), "a".into()));
}

#[tokio::test]
async fn new_rules_hold_for_the_next_request() {
    let client = serving(widgets()).await;
    for round in 0..20 {
        let least = 10 + round;
        redefine(&client, "widgets.example.com", |spec| {
            spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["minimum"] =
                least.into();
        })
        .await
        .ok();
        client.post(WIDGETS, widget(&format!("small-{round}"), least - 1)).await.refused(422, "Invalid");
        client.post(WIDGETS, widget(&format!("large-{round}"), least)).await.created();
    }
}

/// Lets a field `extra` into the schema of widgets, or takes it out again.
async fn let_extra_in(client: &Client, knows: bool) {
    let redefined = redefine(client, "widgets.example.com", |spec| {
        let properties =
            &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        match knows {
            true => properties["extra"] = json!({"type": "integer"}),
            false => drop(properties.as_object_mut().and_then(|properties| properties.remove("extra"))),
        }
    });
    redefined.await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_during_redefinitions_neither_fail_nor_escape_the_rules() {
    let client = serving(widgets()).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let client = client.clone();
        writers.spawn(async move {
            for n in 0..100 {
                let mut made = widget(&format!("w{writer}-{n}"), 5);
                made["spec"]["extra"] = n.into();
                client.post(WIDGETS, made).await.created();
            }
        });
    }
    let mut knows = false;
    while !writers.is_empty() {
        knows = !knows;
        let_extra_in(&client, knows).await;
        while let Some(ended) = writers.try_join_next() {
            ended.expect("every write succeeds");
        }
    }
    let_extra_in(&client, false).await;
    // Were they stored by rules that let it in, they would show it now that it is let in again.
    let written_last = client.post(WIDGETS, widget("last", 1)).await.created();
    assert_eq!(written_last["spec"]["extra"], Value::Null);
    let items = client.get(WIDGETS).await.ok()["items"].as_array().cloned().expect("items");
    assert_eq!(items.len(), 401);
    assert!(
        items.iter().all(|item| item["spec"]["extra"].is_null()),
        "what is not in the schema is not shown"
    );
}

#[tokio::test]
async fn a_dry_run_defines_nothing() {
    let client = Client::new().await;
    client.post(&format!("{DEFINITIONS}?dryRun=All"), widgets()).await.created();
    client.get(WIDGETS).await.refused(404, "NotFound");
    client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn kinds_are_there_after_a_restart() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let again = client.restarted().await;
    assert_eq!(names(&again.get(WIDGETS).await.ok()), ["a"]);
    again.post(WIDGETS, widget("b", 0)).await.refused(422, "Invalid");
    again.post(WIDGETS, widget("b", 1)).await.created();
}

#[tokio::test]
async fn a_deletion_goes_on_after_a_restart() {
    let client = serving(widgets()).await;
    let mut held = widget("held", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(WIDGETS, held).await.created();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    client.delete(&path, Value::Null).await.ok();
    let again = client.restarted().await;
    again.patch("merge", &format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}})).await.ok();
    eventually("the definition goes", async || again.get(&path).await.code == 404).await;
}

#[tokio::test]
async fn a_version_that_is_no_longer_served_is_gone() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    redefine(&client, "widgets.example.com", |spec| spec["versions"][0]["served"] = false.into()).await.ok();
    client.get(WIDGETS).await.refused(404, "NotFound");
    client.get("/apis/example.com").await.refused(404, "NotFound");
    redefine(&client, "widgets.example.com", |spec| spec["versions"][0]["served"] = true.into()).await.ok();
    assert_eq!(names(&client.get(WIDGETS).await.ok()), ["a"]);
}

#[tokio::test]
async fn many_definitions_at_once_are_all_served() {
    let client = Client::new().await;
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                let made = definition(&format!("kind{n}s"), &format!("Kind{n}"), json!({"type": "object"}));
                client.post(DEFINITIONS, made).await.created();
                client.get(&format!("/apis/example.com/v1/kind{n}s")).await.ok();
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("served");
    }
    let list = client.get("/apis/example.com/v1").await.ok();
    assert_eq!(list["resources"].as_array().map(Vec::len), Some(50));
}

#[tokio::test]
async fn a_definition_cannot_take_the_place_of_a_built_in_kind() {
    let client = Client::new().await;
    let mut own = definition("ingresses", "Ingress", json!({"type": "object"}));
    own["metadata"] = json!({
        "name": "ingresses.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1111"},
    });
    own["spec"]["group"] = "networking.k8s.io".into();
    client.post(DEFINITIONS, own).await.created();
    let stored = client.get(&format!("{DEFINITIONS}/ingresses.networking.k8s.io")).await.ok();
    assert_eq!(condition(&stored, "NamesAccepted").map(|found| found.0), Some("False".into()));
    let ingress = json!({"metadata": {"name": "a"}, "spec": {"defaultBackend": {"service": {"name": "b", "port": {"number": 80}}}}});
    client.post("/apis/networking.k8s.io/v1/namespaces/default/ingresses", ingress).await.created();
}
