//! Two managers, one of which is killed: nobody writes what a later leader would have to undo.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use serde_json::json;
use tokio::time::sleep;
use windlass_runtime::{Action, Context, HubConfig, Key, Manager, ReconcileError, Scope, election::Fence};
use windlass_testkit::TestServer;

use crate::{Running, eventually};

/// The numbers of those who wrote, in the order in which they did.
type Ledger = Arc<Mutex<Vec<(usize, Fence)>>>;

/// Leaves one's number on an object, unless a later leader has: read, check, mark, and write what was read.
async fn write(client: Client, fence: &Fence) -> Result<bool, kube::Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut map = maps.get("ledger").await?;
    if !fence.allows(&map.metadata) {
        return Ok(false);
    }
    fence.mark(&mut map.metadata);
    let n = map.data.get_or_insert_default().entry("n".to_owned()).or_default();
    *n = (n.parse::<u64>().unwrap_or(0) + 1).to_string();
    maps.replace("ledger", &PostParams::default(), &map).await?;
    Ok(true)
}

fn manager(id: usize, client: Client, ledger: &Ledger) -> Manager {
    let config: HubConfig = serde_json::from_value(json!({"leader-election": {"enabled": true,
        "namespace": "default", "lease-duration": "3s", "renew-deadline": "2s", "retry-period": "1s"}}))
    .expect("a configuration");
    let manager = Manager::of(client, &[], &config).expect("it is right");
    let ledger = Arc::clone(ledger);
    let build = move |context: &Context| {
        let maps = context.informers.of::<ConfigMap>(&Scope::all());
        let (context2, ledger) = (context.clone(), Arc::clone(&ledger));
        let writes = move |_: Key| {
            let (context, ledger) = (context2.clone(), Arc::clone(&ledger));
            async move {
                let fence =
                    context.fence()?.ok_or_else(|| ReconcileError::is_final("there is no election"))?;
                if write(context.client.clone(), &fence).await? {
                    ledger.lock().expect("no panic").push((id, fence));
                }
                Ok(Action::After(Duration::from_millis(20)))
            }
        };
        Ok(context.controller(writes).reconciles(&maps).only(|key| key.name() == "ledger"))
    };
    manager.add("writer", build).expect("a new name");
    manager
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_the_other_takes_over_and_old_writes_are_refused() {
    let server = TestServer::start().await.expect("a server");
    let ledger = Ledger::default();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let metadata = ObjectMeta { name: Some("ledger".to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await.expect("created");
    let wrote = |id: usize| ledger.lock().expect("no panic").iter().filter(|(by, _)| *by == id).count();
    let first = Running::new(manager(1, server.client(), &ledger));
    eventually("the first writes", async || wrote(1) > 5).await;
    let second = Running::new(manager(2, server.client(), &ledger));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(wrote(2), 0);
    first.task.abort();
    let took = eventually("the second writes", async || wrote(2) > 0).await;
    // The lease, a try, and a busy machine.
    assert!(took < Duration::from_secs(10), "within the lease duration, and not {took:?}");
    let fences: Vec<Fence> =
        ledger.lock().expect("no panic").iter().map(|(_, fence)| fence.clone()).collect();
    assert!(fences.is_sorted_by_key(Fence::number), "{fences:?}");
    assert!(fences.first().map(Fence::number) < fences.last().map(Fence::number), "{fences:?}");
    // The first one wakes up and still believes that it leads.
    let written = write(server.client(), &fences[0]).await.expect("an answer");
    assert!(!written, "the second one has been there");
    let n_before = wrote(1);
    let third = Running::new(manager(3, server.client(), &ledger));
    eventually("the second goes on", async || wrote(2) > 50).await;
    assert_eq!(wrote(1), n_before, "nobody acts for one that was killed");
    second.stop().await;
    let took = eventually("the third writes", async || wrote(3) > 0).await;
    assert!(
        took < Duration::from_millis(2_500),
        "a lease that is given back is noticed at once, and not in {took:?}"
    );
    third.stop().await;
}
