//! Housekeeping under a manager, and several who keep one server tidy.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kube::{Client, api::PropagationPolicy::Background};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_housekeeping::{Options, add_to};
use windlass_runtime::{
    ConfigError, Manager,
    election::{Durations, Election},
};

use crate::{
    house::{House, owner, until},
    meddler::{Fate, meddled},
};

/// Who keeps a server tidy while they lead.
struct Keeper {
    manager: Manager,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Keeper {
    fn new(client: &Client, name: &str) -> Self {
        let manager = Manager::new(client.clone());
        add_to(&manager, &Options::default()).expect("nothing is wrong with it");
        let election =
            Election::new(client.clone(), "kube-system", "housekeeping", name, Durations::default());
        manager.elect(election.expect("an election"));
        let (stop, running) = (CancellationToken::new(), manager.clone());
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { running.run(stop).await }
        });
        Keeper { manager, stop, running }
    }

    fn leads(&self) -> bool {
        self.manager.is_leader() == Some(true)
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.expect("it does not panic");
    }
}

async fn something_is_collected(house: &House) {
    let uid = house.map("o", json!([])).await;
    house.map("d", json!([owner("o", &uid)])).await;
    house.delete("o", Background).await;
    house.gone("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_knows_all_controllers_by_the_names_they_have_in_kubernetes() {
    let house = House::untidy().await;
    let manager = Manager::new(house.client.clone());
    let options = Options { root_ca: Some("a certificate".into()), ..Options::default() };
    add_to(&manager, &options).expect("nothing is wrong with it");
    assert!(matches!(add_to(&manager, &options), Err(ConfigError::Twice(_))));
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (manager, stop) = (manager.clone(), stop.clone());
        async move { manager.run(stop).await }
    });
    let names = until("all of them work", || async {
        let status = manager.status();
        let is_working = status.iter().all(|status| status.running && status.synced);
        is_working.then(|| status.into_iter().map(|status| status.name).collect::<Vec<_>>())
    })
    .await;
    assert_eq!(
        names,
        [
            "certificatesigningrequest-cleaner-controller",
            "garbage-collector-controller",
            "namespace-controller",
            "persistentvolume-protection-controller",
            "persistentvolumeclaim-protection-controller",
            "resourcequota-controller",
            "root-ca-certificate-publisher-controller",
            "serviceaccount-controller",
            "token-cleaner-controller",
            "volumeattributesclass-protection-controller",
        ]
    );
    // One that is switched off and on again begins anew, and knows what happened meanwhile.
    let uid = house.map("a", json!([])).await;
    house.map("b", json!([owner("a", &uid)])).await;
    manager.enable("garbage-collector-controller", false).expect("it is there");
    until("it is off", || async {
        manager.status().iter().any(|status| status.state == "disabled").then_some(())
    })
    .await;
    house.delete("a", Background).await;
    manager.enable("garbage-collector-controller", true).expect("it is there");
    house.gone("b").await;
    stop.cancel();
    running.await.expect("it does not panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_keepers_one_keeps_and_the_other_follows() {
    let house = House::untidy().await;
    let keepers = ["a", "b"].map(|name| Keeper::new(&house.client, name));
    until("one leads", || async { keepers.iter().any(Keeper::leads).then_some(()) }).await;
    something_is_collected(&house).await;
    let [a, b] = keepers;
    assert!(a.leads() != b.leads(), "one of them leads");
    let (first, second) = if a.leads() { (a, b) } else { (b, a) };
    let works = |keeper: &Keeper| keeper.manager.status().iter().any(|status| status.running);
    assert!(works(&first) && !works(&second));
    first.stop().await;
    until("the other leads", || async { second.leads().then_some(()) }).await;
    something_is_collected(&house).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_keepers_without_an_election_do_no_harm() {
    let mut house = House::new().await;
    let first = house.client.clone();
    house.tidy_as(first, Options::default());
    for _ in 0..20 {
        something_is_collected(&house).await;
    }
    let all = house.maps().list(&Default::default()).await.expect("a list");
    assert!(all.items.is_empty(), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_panics_begins_again() {
    let mut house = House::untidy().await;
    let n_watches = Arc::new(AtomicUsize::new(0));
    let (client, _) = meddled(&house.client, {
        let n_watches = Arc::clone(&n_watches);
        move |asked| {
            let n_watches = Arc::clone(&n_watches);
            async move {
                let is_ours = asked.path == "/api/v1/configmaps" && asked.is_watch();
                assert!(!is_ours || n_watches.fetch_add(1, Ordering::SeqCst) > 0, "as was intended");
                Fate::Passes
            }
        }
    });
    house.tidy_as(client, Options::default());
    until("it has panicked", || async { (n_watches.load(Ordering::SeqCst) > 0).then_some(()) }).await;
    something_is_collected(&house).await;
}
