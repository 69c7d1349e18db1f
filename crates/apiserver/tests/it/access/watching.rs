//! Who loses a right loses the watches that were opened with it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{RBAC, rule};
use crate::client::{CONFIG_MAPS, Client};

#[tokio::test]
async fn a_watch_ends_when_its_right_is_taken() {
    let admin = Client::new().await;
    let ann = admin.with_rules("ann", json!([rule("watch", "", "configmaps")])).await;
    let bob = admin.with_rules("bob", json!([rule("watch", "", "configmaps")])).await;
    admin.with_rules("carl", json!([rule("impersonate", "", "users")])).await;
    let path = format!("{CONFIG_MAPS}?watch=true");
    let mut lost = ann.watch(&path, &[]).await;
    let mut kept = bob.watch(&path, &[]).await;
    let mut borrowed = admin.as_user("carl", &[]).watch(&path, &[("Impersonate-User", "bob")]).await;
    admin.config_map("first", json!({})).await;
    for lines in [&mut lost, &mut kept, &mut borrowed] {
        while lines.step().await.1 != "first" {}
    }
    let begun = Instant::now();
    admin.delete(&format!("{RBAC}/clusterrolebindings/ann"), json!(null)).await.ok();
    admin.delete(&format!("{RBAC}/clusterrolebindings/carl"), json!(null)).await.ok();
    for (lines, words) in [(&mut lost, "cannot watch"), (&mut borrowed, "cannot impersonate")] {
        let last = loop {
            let event = lines.next().await.expect("the last word is an error");
            if event["type"] == "ERROR" {
                break event;
            }
        };
        assert_eq!(
            (&last["object"]["code"], &last["object"]["reason"]),
            (&json!(403), &json!("Forbidden")),
            "{last}"
        );
        assert!(last["object"]["message"].as_str().is_some_and(|text| text.contains(words)), "{last}");
        assert!(lines.next().await.is_none(), "it ends");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    admin.config_map("last", json!({})).await;
    while kept.step().await.1 != "last" {}
}
