//! The forms of answers: tables, metadata alone, compressed, and what is asked for in vain.

use std::io::Read;

use serde_json::{Value, json};

use windlass_machinery::decode::decode_yaml;

use super::client::{Answer, CONFIG_MAPS, Client, PODS, pod};

#[tokio::test]
async fn a_client_that_prefers_protobuf_gets_json() {
    let client = Client::new().await;
    let answer =
        client.send("GET", CONFIG_MAPS, &[("accept", "application/vnd.kubernetes.protobuf, */*")], "").await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.ok()["kind"], "ConfigMapList");
}

#[tokio::test]
async fn tables_have_columns_and_rows() {
    let client = Client::new().await;
    client
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
        .await
        .created();
    client.post(PODS, pod("p")).await.created();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    for path in [PODS.to_owned(), format!("{PODS}/p")] {
        let table = client.send("GET", &path, &[("accept", accept)], "").await.ok();
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
        let columns: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(columns[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
        let row = &table["rows"][0];
        assert_eq!(
            row["cells"].as_array().map(|cells| cells[..3].to_vec()),
            Some(vec![json!("p"), json!("0/1"), json!("Pending")])
        );
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    }
    for (include, kind) in [("Object", json!("Pod")), ("None", Value::Null)] {
        let path = format!("{PODS}?includeObject={include}");
        let table = client.send("GET", &path, &[("accept", accept)], "").await.ok();
        assert_eq!(table["rows"][0]["object"]["kind"], kind, "{include}");
    }
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let client = Client::new().await;
    client.config_map("a", json!({"k": "v"})).await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = client.send("GET", CONFIG_MAPS, &[("accept", accept)], "").await.ok();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert!(list["items"][0].get("data").is_none());
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let one = client.send("GET", &format!("{CONFIG_MAPS}/a"), &[("accept", accept)], "").await.ok();
    assert_eq!(one["kind"], "PartialObjectMetadata");
}

/// The text and what it says, as YAML.
fn yaml(answer: &Answer) -> Value {
    assert_eq!(answer.header("content-type"), "application/yaml", "{}", answer.text());
    let decoded = decode_yaml(&answer.body).unwrap_or_else(|error| panic!("{error:?}: {}", answer.text()));
    Value::Object(decoded.object)
}

#[tokio::test]
async fn whoever_wants_yaml_gets_it() {
    let client = Client::new().await;
    let text = "#!/bin/sh\necho \"yes\"\n";
    client.config_map("a", json!({"n": "1", "yes": "no", "script": text, "empty": ""})).await;
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for path in [
        format!("{CONFIG_MAPS}/a"),
        CONFIG_MAPS.to_owned(),
        format!("{CONFIG_MAPS}/nothing"),
        "/api".to_owned(),
        "/apis".to_owned(),
        "/apis/apps".to_owned(),
        "/api/v1".to_owned(),
        "/nothing".to_owned(),
        definition.to_owned(),
    ] {
        let json = client.get(&path).await;
        let answer = client.send("GET", &path, &[("accept", "application/yaml")], "").await;
        assert_eq!(answer.code, json.code, "{path}");
        assert_eq!(yaml(&answer), json.json(), "{path}");
    }
    for form in ["Table", "PartialObjectMetadataList"] {
        let accept = |media: &str| format!("{media};as={form};g=meta.k8s.io;v=v1");
        let json = client.send("GET", CONFIG_MAPS, &[("accept", &accept("application/json"))], "").await;
        let answer = client.send("GET", CONFIG_MAPS, &[("accept", &accept("application/yaml"))], "").await;
        let (mut shown, mut expected) = (yaml(&answer), json.ok());
        // Ages may have changed in between.
        for table in [&mut shown, &mut expected] {
            table.pointer_mut("/rows/0/cells/2").map(Value::take);
        }
        assert_eq!(shown, expected);
    }
    let sent = "metadata: {name: b}";
    let headers = [("accept", "application/yaml"), ("content-type", "application/yaml")];
    let created = client.send("POST", CONFIG_MAPS, &headers, sent).await;
    assert_eq!((created.code, &yaml(&created)["metadata"]["name"]), (201, &json!("b")));
    // There is no end to a document.
    let watch = client.send("GET", &format!("{CONFIG_MAPS}?watch=1"), &headers[..1], "").await;
    assert_eq!((watch.code, &yaml(&watch)["reason"]), (406, &json!("NotAcceptable")));
}

#[tokio::test]
async fn long_lists_are_printed_as_they_are_sent() {
    let client = Client::new().await;
    for number in 0..40 {
        client.config_map(&format!("m{number}"), json!({"k": "v \"ü\"\n".repeat(1000)})).await;
    }
    let plain = client.get(CONFIG_MAPS).await;
    let expected = serde_json::to_string_pretty(&plain.ok()).expect("JSON");
    let headers = [("accept-encoding", "gzip"), ("user-agent", "curl/8.5.0")];
    let indented = client.send("GET", CONFIG_MAPS, &headers, "").await;
    assert_eq!(indented.header("content-encoding"), "");
    assert_eq!(indented.text().lines().count(), expected.lines().count());
    assert_eq!(indented.ok(), plain.ok());
    let answer = client.send("GET", CONFIG_MAPS, &[("accept", "application/yaml")], "").await;
    assert_eq!(yaml(&answer), plain.ok());
}

#[tokio::test]
async fn people_get_answers_that_are_indented() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    let object = format!("{CONFIG_MAPS}/a");
    for (path, headers, is_indented) in [
        (object.clone(), vec![], false),
        (object.clone(), vec![("user-agent", "kubectl/v1.37.1")], false),
        (object.clone(), vec![("user-agent", "curl/8.5.0")], true),
        (format!("{object}?pretty=true"), vec![], true),
        (format!("{object}?pretty=0"), vec![("user-agent", "curl/8.5.0")], false),
        (format!("{CONFIG_MAPS}/nothing?pretty=1"), vec![], true),
        ("/api?pretty=1".to_owned(), vec![], true),
        ("/api/v1?pretty=1".to_owned(), vec![], true),
        ("/version".to_owned(), vec![], true),
        ("/".to_owned(), vec![], true),
    ] {
        let answer = client.send("GET", &path, &headers, "").await;
        let text = answer.text();
        assert_eq!(text.starts_with("{\n  \""), is_indented, "{path} {headers:?}: {text}");
        assert_eq!(answer.header("content-type"), "application/json");
        answer.json();
    }
    let mut watch =
        client.watch(&format!("{CONFIG_MAPS}?watch=1&pretty=1"), &[("user-agent", "curl/8")]).await;
    assert_eq!(watch.step().await, ("ADDED".to_owned(), "a".to_owned()), "each line is an event");
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_take_it() {
    let client = Client::new().await;
    for number in 0..40 {
        client.config_map(&format!("m{number}"), json!({"k": "v".repeat(8000)})).await;
    }
    let plain = client.get(CONFIG_MAPS).await;
    assert_eq!(plain.header("content-encoding"), "");
    let small =
        client.send("GET", &format!("{CONFIG_MAPS}?limit=1"), &[("accept-encoding", "gzip")], "").await;
    assert_eq!(small.header("content-encoding"), "", "small answers are not worth it");
    let answer = client.send("GET", CONFIG_MAPS, &[("accept-encoding", "deflate, gzip;q=0.5")], "").await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert!(answer.body.len() * 10 < plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).expect("gzip");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), plain.ok());
    let refused = client.send("GET", CONFIG_MAPS, &[("accept-encoding", "gzip;q=0")], "").await;
    assert_eq!(refused.header("content-encoding"), "");
}

#[tokio::test]
async fn a_head_is_answered_as_a_get_would_be() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    assert_eq!(client.send("HEAD", &format!("{CONFIG_MAPS}/a"), &[], "").await.code, 200);
    assert_eq!(client.send("HEAD", &format!("{CONFIG_MAPS}/b"), &[], "").await.code, 404);
}

#[tokio::test]
async fn what_is_only_asked_or_done_has_no_table() {
    let client = Client::new().await;
    client.post("/api/v1/namespaces/default/pods", pod("p")).await.created();
    client.post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "s"}})).await;
    let about = json!({"nonResourceAttributes": {"verb": "get", "path": "/"}});
    let local = json!({"user": "u", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}});
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    let access = |kind: &str| format!("/apis/authorization.k8s.io/v1/{kind}");
    let mut subject = about.clone();
    subject["user"] = "u".into();
    for (path, body) in [
        (access("selfsubjectaccessreviews"), json!({"spec": about})),
        (access("selfsubjectrulesreviews"), json!({"spec": {"namespace": "default"}})),
        (access("subjectaccessreviews"), json!({"spec": subject})),
        (access("namespaces/default/localsubjectaccessreviews"), json!({"spec": local})),
        ("/apis/authentication.k8s.io/v1/tokenreviews".to_owned(), json!({"spec": {"token": "x"}})),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned(), json!({})),
        ("/api/v1/namespaces/default/serviceaccounts/s/token".to_owned(), json!({"spec": {}})),
        ("/api/v1/namespaces/default/pods/p/eviction".to_owned(), json!({"metadata": {"name": "p"}})),
        ("/api/v1/namespaces/default/pods/p/binding".to_owned(), binding.clone()),
        ("/api/v1/namespaces/default/bindings".to_owned(), binding),
    ] {
        let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let send = |accept: String| {
            let (client, path, body) = (client.clone(), path.clone(), body.to_string());
            async move {
                let headers = [("accept", accept.as_str()), ("content-type", "application/json")];
                client.send("POST", &path, &headers, body).await
            }
        };
        send(table.to_owned()).await.refused(406, "NotAcceptable");
        if !path.contains("/pods/p") && !path.ends_with("/bindings") {
            // Whoever takes something else as well gets that.
            send(format!("{table},application/json")).await.created();
        }
    }
    client.get("/api/v1/namespaces/default/pods/p").await.ok();
}
