//! Little that becomes much.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client};

/// Longer than any of these may take, on a slow machine.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn cve_2019_11253_a_bomb_of_aliases_is_refused_before_it_goes_off() {
    let client = Client::new().await;
    let mut laughs = String::from(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: &a [x, x, x, x, x, x, x, x, x]\n",
    );
    for (own, other) in
        [('b', 'a'), ('c', 'b'), ('d', 'c'), ('e', 'd'), ('f', 'e'), ('g', 'f'), ('h', 'g'), ('i', 'h')]
    {
        let aliases = vec![format!("*{other}"); 9].join(", ");
        laughs.push_str(&format!("  {own}: &{own} [{aliases}]\n"));
    }
    let quadratic = format!(
        "apiVersion: v1\nkind: ConfigMap\na: &a {}\nb: [{}]\n",
        "x".repeat(500_000),
        vec!["*a"; 100_000].join(",")
    );
    for (what, bomb) in [("exponential", laughs), ("quadratic", quadratic)] {
        for (method, path, media) in [
            ("POST", CONFIG_MAPS.to_owned(), "application/yaml"),
            ("PATCH", format!("{CONFIG_MAPS}/a?fieldManager=m"), "application/apply-patch+yaml"),
        ] {
            let begun = Instant::now();
            let answer = client.send(method, &path, &[("content-type", media)], bomb.clone()).await;
            assert!(matches!(answer.code, 400 | 413), "{what} {method}: {} {}", answer.code, answer.text());
            assert!(begun.elapsed() < SOON, "{what} {method}: {:?}", begun.elapsed());
        }
    }
}

#[tokio::test]
async fn cve_2019_11254_what_is_deep_or_long_is_refused_and_nothing_falls_over() {
    let client = Client::new().await;
    for (media, body) in [
        ("application/json", "[".repeat(2_000_000)),
        ("application/json", format!("{{\"data\":{}", "{\"a\":".repeat(400_000))),
        ("application/yaml", format!("a: {}", "[".repeat(1_000_000))),
        ("application/yaml", "- ".repeat(1_000_000)),
        ("application/yaml", format!("a: {}", "{a: ".repeat(500_000))),
        ("application/json", " ".repeat(4 << 20)),
        ("application/json", format!("{{\"a\":{}}}", "9".repeat(3_000_000))),
    ] {
        let begun = Instant::now();
        let answer = client.send("POST", CONFIG_MAPS, &[("content-type", media)], body).await;
        assert!(matches!(answer.code, 400 | 413), "{media}: {}", answer.code);
        assert!(begun.elapsed() < SOON, "{media}: {:?}", begun.elapsed());
    }
    assert_eq!(client.panics().await, 0);
}

#[tokio::test]
async fn cve_2019_1002100_a_patch_that_copies_is_refused_before_it_is_large() {
    let client = Client::new().await;
    client.config_map("a", json!({"k": "v".repeat(1_000)})).await;
    let one = format!("{CONFIG_MAPS}/a");
    let mut doubling: Vec<Value> =
        vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"a": "x".repeat(1_000)}})];
    doubling.extend(
        (0..60).map(|n| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/m{n}")})),
    );
    let many: Vec<Value> =
        (0..10_001).map(|n| json!({"op": "add", "path": format!("/data/k{n}"), "value": "x"})).collect();
    let flat: Vec<Value> =
        (0..9_000).map(|n| json!({"op": "copy", "from": "/data/k", "path": format!("/data/c{n}")})).collect();
    for (what, patch) in [("doubling", doubling), ("many", many), ("flat", flat)] {
        let begun = Instant::now();
        let answer = client.patch("json", &one, patch.into()).await;
        answer.refused(413, "RequestEntityTooLarge");
        assert!(begun.elapsed() < SOON, "{what}: {:?}", begun.elapsed());
    }
    let left = client.get(&one).await.ok();
    assert_eq!(left["data"].as_object().map(|data| data.len()), Some(1));
}
