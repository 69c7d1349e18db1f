//! Clients that go from one replica to another.

use std::{collections::HashSet, time::Duration};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use windlass_opensergo::access::Access;

use crate::{
    line::Line,
    sdk::{Push, Sdk, answer},
    world::{Running, World, quick},
};

const LIMIT: &str = "RateLimitStrategy";

/// How often each client moves, and how many there are.
const MOVES: usize = 50;
const CLIENTS: usize = 3;

/// What a client has seen, and may not see again.
#[derive(Default)]
struct Seen {
    ticks: i64,
    there: HashSet<i64>,
    gone: HashSet<i64>,
}

impl Seen {
    /// The rule that counts never counts back, and the other that was deleted does not come back.
    fn check(&mut self, push: &Push) {
        let limits = push.limits();
        let of = |name: &str| limits.iter().find(|(other, _)| other == name).map(|(_, threshold)| *threshold);
        let ticks = of("ticks").unwrap_or_else(|| panic!("it is always there: {push:?}"));
        assert!(ticks >= self.ticks, "{ticks} after {}", self.ticks);
        self.ticks = ticks;
        let now: HashSet<i64> = of("sometimes").into_iter().collect();
        assert!(now.is_disjoint(&self.gone), "{now:?} was gone already");
        self.gone.extend(self.there.difference(&now));
        self.there = now;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_moves_between_replicas_sees_nothing_go_back() {
    let world = World::start().await;
    world.limit("ticks", "shop", 0).await;
    let replicas = [world.plane().await, world.plane().await];
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let stop = CancellationToken::new();
    let writing = async {
        let mut ticks = 0;
        while !stop.is_cancelled() {
            ticks += 1;
            world.limit("ticks", "shop", ticks).await;
            match ticks % 3 {
                0 => drop(world.limit("sometimes", "shop", ticks).await),
                1 if ticks > 3 => world.delete(LIMIT, "sometimes").await,
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        ticks
    };
    let moving = join_all((0..CLIENTS).map(|seed| async move {
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let (mut client, mut seen) = (Sdk::connect(addresses[0]).await, Seen::default());
        for _ in 0..MOVES {
            client.move_to(addresses[rng.usize(..2)]).await;
            client.subscribe("shop", &[LIMIT]).await;
            // That versions do not go back is seen to by the client.
            for _ in 0..rng.usize(1..3) {
                seen.check(&client.accept().await);
            }
        }
        (client, seen)
    }));
    let (ticks, clients) = tokio::join!(writing, async {
        let clients = moving.await;
        stop.cancel();
        clients
    });
    // In the end everyone knows what there is.
    for (mut client, mut seen) in clients {
        client.move_to(addresses[1]).await;
        client.subscribe("shop", &[LIMIT]).await;
        let push = client.accept().await;
        seen.check(&push);
        assert_eq!(seen.ticks, ticks);
    }
}

#[tokio::test]
async fn replicas_give_the_same_content_the_same_bytes() {
    let world = World::start().await;
    for (idx, name) in ["z", "a", "m"].into_iter().enumerate() {
        world.limit(name, "shop", idx as i64).await;
    }
    let (one, two) = (world.plane().await, world.plane().await);
    let mut told = vec![];
    for running in [&one, &two] {
        let mut client = Sdk::connect(running.address).await;
        client.subscribe("shop", &[LIMIT]).await;
        told.push(client.accept().await);
    }
    assert!(told[0].is(&[("a", 1), ("m", 2), ("z", 0)]), "{:?}", told[0]);
    assert_eq!(told[0].limits(), told[1].limits());
    assert_eq!(told[0].version, told[1].version, "nothing has happened in between");
}

#[tokio::test]
async fn a_rule_deleted_while_a_replica_was_not_there_is_gone() {
    let world = World::start().await;
    world.limit("a", "shop", 1).await;
    let one = world.plane().await;
    let mut client = Sdk::connect(one.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    one.stop().await;
    world.delete(LIMIT, "a").await;
    let two = world.plane().await;
    client.move_to(two.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert_eq!(client.accept().await.len(), 0);
}

/// A replica that does not reach the API server tells what it saw last: for a client that knows nothing that is better
/// than nothing. One that knows more says so, and is told again.
#[tokio::test]
async fn whoever_knows_more_than_a_replica_is_told_once_it_knows_as_much() {
    let (world, line) = (World::start().await, Line::new(true));
    world.limit("a", "shop", 1).await;
    let one = world.plane().await;
    let two = Running::start(line.client(&world.client), quick(), Access::open(), false).await;
    let mut client = Sdk::connect(two.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    line.cut();
    world.limit("a", "shop", 2).await;
    client.move_to(one.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let newer = client.accept().await;
    assert!(newer.is(&[("a", 2)]));
    client.move_to(two.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let older = client.any_push().await;
    assert!(older.is(&[("a", 1)]) && older.version < newer.version, "{older:?}");
    client.send(answer("ACK", 4010, "", &older.response.response_id)).await;
    line.mend();
    loop {
        let again = client.any_push().await;
        if again.is(&[("a", 2)]) {
            assert!(again.version >= newer.version, "{again:?}");
            break;
        }
        client.send(answer("ACK", 4010, "", &again.response.response_id)).await;
    }
}
