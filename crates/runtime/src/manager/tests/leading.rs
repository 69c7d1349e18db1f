//! What becomes of work when a manager may no longer do it.

use super::*;

/// Adds a controller whose reconciles take some time, and tells for each whether it might act when it began.
fn add_slow(manager: &Manager, informer: &Informer<ConfigMap>, takes: Duration) -> Arc<Mutex<Vec<bool>>> {
    let (begun, informer) = (Arc::new(Mutex::new(vec![])), informer.clone());
    let all = Arc::clone(&begun);
    let build = move |context: &Context| {
        let (begun, context2) = (Arc::clone(&begun), context.clone());
        let slow = move |_: Key| {
            begun.lock().push(context2.fence().is_ok() && crate::controller::may_act());
            async move {
                sleep(takes).await;
                Ok(Action::Done)
            }
        };
        Ok(context.controller(slow).reconciles(&informer).grace(Duration::from_secs(60)))
    };
    manager.add("slow", build).expect("a new name");
    all
}

/// A network that can be cut.
fn fragile(server: &Server) -> (Client, Arc<AtomicBool>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let forecast: Forecast = {
        let is_cut = Arc::clone(&is_cut);
        Arc::new(move |_, _| Weather { is_lost: is_cut.load(SeqCst), ..Weather::default() })
    };
    (server.client_in(forecast), is_cut)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_asleep_begins_nothing_when_it_wakes_up() {
    let (server, (own, feed)) = (Server::default(), Feed::new());
    let manager = Manager::new(server.client());
    elect(&manager, server.client());
    let begun = add_slow(&manager, &own, Duration::from_millis(100));
    let running = Running::new(&manager);
    feed.list((0..1000).map(|n| map(&n.to_string(), n)));
    for n in 1..10 {
        let wanted = n * 20;
        eventually("it works", || begun.lock().len() > wanted).await;
        // The whole process stands still, and others may lead by now.
        tokio::time::advance(Duration::from_secs(60)).await;
        sleep(Duration::from_millis(50)).await;
        assert!(begun.lock().iter().all(|might| *might), "nothing begins that may not");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_dropped_when_the_leadership_is_over() {
    let (server, (own, feed)) = (Server::default(), Feed::new());
    let (client, is_cut) = fragile(&server);
    let manager = manager();
    elect(&manager, client);
    let begun = add_slow(&manager, &own, Duration::from_millis(100));
    let running = Running::new(&manager);
    feed.list((0..1000).map(|n| map(&n.to_string(), n)));
    eventually("it works", || begun.lock().len() > 20).await;
    is_cut.store(true, SeqCst);
    eventually("it stops", || !running.status("slow").running).await;
    let n_begun = begun.lock().len();
    sleep(Duration::from_secs(5)).await;
    let all = begun.lock().clone();
    assert!(all.len() == n_begun && all.iter().all(|might| *might), "{n_begun} of {}", all.len());
    running.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn who_loses_its_lease_while_it_stops_has_no_more_time() {
    let (server, (own, feed)) = (Server::default(), Feed::new());
    let (client, is_cut) = fragile(&server);
    let manager = manager();
    elect(&manager, client);
    let begun = add_slow(&manager, &own, Duration::from_secs(3600));
    let running = Running::new(&manager);
    feed.list([map("a", 1)]);
    eventually("it works", || begun.lock().len() == 1).await;
    is_cut.store(true, SeqCst);
    running.stop.cancel();
    let stopped = Instant::now();
    eventually("it stops", || running.status("slow").state == "stopping").await;
    eventually("it is cut off", || running.status("slow").state != "stopping").await;
    let most = Durations::default().lease;
    assert!(stopped.elapsed() < most, "another could lead, {:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_dropped_when_its_kind_is_gone() {
    let ((own, feed), manager) = (Feed::new(), manager());
    let begun = add_slow(&manager, &own, Duration::from_secs(1));
    let running = Running::new(&manager);
    feed.list((0..10).map(|n| map(&n.to_string(), n)));
    eventually("it works", || begun.lock().len() == 1).await;
    feed.fail(404);
    eventually("it waits", || running.status("slow").state == "waiting for a kind that does not exist").await;
    assert_eq!(begun.lock().len(), 1, "its objects may be there, and nobody can say");
    assert_eq!(own.cache().len(), 10);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_is_not_given_back_while_something_cannot_be_stopped() {
    let (server, (own, feed)) = (Server::default(), Feed::new());
    let manager = Manager::new(server.client());
    elect(&manager, server.client());
    let (free_tx, free_rx) = std::sync::mpsc::channel::<()>();
    let free_rx = Arc::new(Mutex::new(free_rx));
    let is_busy = Arc::new(AtomicBool::new(false));
    let build = {
        let is_busy = Arc::clone(&is_busy);
        move |context: &Context| {
            let (free_rx, is_busy) = (Arc::clone(&free_rx), Arc::clone(&is_busy));
            let blocks = move |_: Key| {
                let (free_rx, is_busy) = (Arc::clone(&free_rx), Arc::clone(&is_busy));
                async move {
                    is_busy.store(true, SeqCst);
                    // It holds on to its thread, and others get another.
                    let free = || free_rx.lock().recv_timeout(Duration::from_secs(30)).is_ok();
                    tokio::task::block_in_place(free);
                    Ok(Action::Done)
                }
            };
            Ok(context.controller(blocks).reconciles(&own).grace(Duration::from_millis(50)))
        }
    };
    manager.add("blocks", build).expect("a new name");
    let running = Running::new(&manager);
    feed.list([map("a", 1)]);
    eventually("it blocks", || is_busy.load(SeqCst)).await;
    timeout(Duration::from_secs(10), running.stop()).await.expect("it does not wait for ever");
    let holder = server.get(LEASE).expect("a lease")["spec"]["holderIdentity"].clone();
    assert_ne!(holder, "", "somebody still acts");
    free_tx.send(()).expect("it waits");
}
