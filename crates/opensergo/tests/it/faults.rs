//! Clients that behave as badly as they can, beside others that do not.

use std::{fs, net::SocketAddr, time::Duration};

use futures_util::future::join_all;
use prost::Message;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use windlass_opensergo::plane::Settings;

use crate::{
    sdk::{Push, Sdk, answer, request},
    world::{World, eventually, large, quick},
};

const LIMIT: &str = "RateLimitStrategy";
const RULE: &str = "FaultToleranceRule";

/// How many behave well, and of how many changes they are told at least.
const GOOD: usize = 50;
const ROUNDS: i64 = 20;

/// How long a change may take until everybody has it, on a machine that runs all other tests as well.
const LATEST: Duration = Duration::from_secs(10);

/// What may be added while all this goes on. Other tests run in this process, so it is much.
const MOST_GROWTH: u64 = 400 << 20;

/// How many bytes of memory the process has.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says how large it is");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

/// Subscribes to much, and reads none of it.
async fn never_reads(address: SocketAddr) {
    loop {
        let client = Sdk::connect(address).await;
        for idx in 0..8 {
            let _ =
                client.try_send(request("default", &format!("large-{idx}"), &[RULE]).encode_to_vec()).await;
        }
        sleep(Duration::from_secs(3)).await;
    }
}

/// Reads and says nothing, or says that it is all wrong.
async fn never_accepts(address: SocketAddr, answers: bool) {
    let mut client = Sdk::connect(address).await;
    client.subscribe("shop", &[LIMIT]).await;
    while let Ok(Some(response)) = client.any_response().await {
        if answers {
            client.send(answer("NACK", 4000, &"no".repeat(1_000), &response.response_id)).await;
        }
    }
}

/// Goes in the middle of what it is sent.
async fn drops(address: SocketAddr, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    loop {
        let mut client = Sdk::connect(address).await;
        for idx in 0..4 {
            client.subscribe(&format!("large-{idx}"), &[RULE]).await;
        }
        let _ = timeout(Duration::from_millis(rng.u64(..150)), client.any_response()).await;
    }
}

/// Sends what is no message, and what is not even HTTP.
async fn sends_garbage(address: SocketAddr, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    loop {
        let mut client = Sdk::connect(address).await;
        for _ in 0..50 {
            let n_bytes = rng.usize(1..2_000);
            let bytes = std::iter::repeat_with(|| rng.u8(..)).take(n_bytes).collect();
            if !client.try_send(bytes).await {
                break;
            }
        }
        // Some of it is answered, and some of that is read.
        for _ in 0..rng.usize(..20) {
            let _ = timeout(Duration::from_millis(20), client.any_response()).await;
        }
        let mut socket = TcpStream::connect(address).await.expect("somebody listens");
        let n_bytes = rng.usize(1..2_000);
        let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(n_bytes).collect();
        let _ = socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let _ = socket.write_all(&bytes).await;
        sleep(Duration::from_millis(100)).await;
    }
}

/// Subscribes to ten thousand topics; returns how many it was told of, and how many it was refused.
async fn wants_everything(address: SocketAddr) -> (usize, usize) {
    let mut client = Sdk::connect(address).await;
    let (mut told, mut refused, mut sent) = (0, 0, 0);
    while told + refused < 10_000 {
        // Whoever asks for more than it reads is sent away.
        while sent < 10_000 && sent < told + refused + 100 {
            client.send(request("default", &format!("app-{sent}"), &[LIMIT])).await;
            sent += 1;
        }
        let response = client.response().await.expect("the stream goes on").expect("a message");
        match &*response.ack {
            "" => told += 1,
            _ => {
                assert_eq!(response.status.map(|status| status.code), Some(4004));
                refused += 1;
            }
        }
    }
    (told, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_others_do_good_clients_are_told_of_every_change() {
    let world = World::start().await;
    let running = world.plane_with(Settings { send_timeout: Duration::from_secs(1), ..quick() }).await;
    let address = running.address;
    for idx in 0..8 {
        world.apply(RULE, &format!("large-{idx}"), &format!("large-{idx}"), large()).await;
    }
    world.limit("a", "shop", 0).await;
    let mut good = join_all((0..GOOD).map(|_| async {
        let mut client = Sdk::connect(address).await;
        client.subscribe("shop", &[LIMIT]).await;
        client.accept().await;
        client
    }))
    .await;
    let mut bad = JoinSet::new();
    for seed in 0..4 {
        bad.spawn(never_reads(address));
        bad.spawn(never_accepts(address, seed % 2 == 0));
        bad.spawn(drops(address, seed));
        bad.spawn(sends_garbage(address, seed));
    }
    let greedy = tokio::spawn(wants_everything(address));
    let (mut slowest, mut before, mut round) = (Duration::ZERO, 0, 0);
    while round < ROUNDS || !greedy.is_finished() {
        round += 1;
        world.limit("a", "shop", round).await;
        let begun = Instant::now();
        let is_it = |push: &Push| push.is(&[("a", round)]);
        let told = join_all(good.iter_mut().map(|client| client.accept_until(is_it)));
        timeout(LATEST, told).await.expect("everyone is told in time");
        slowest = slowest.max(begun.elapsed());
        if round == ROUNDS / 4 {
            before = resident();
        }
        sleep(Duration::from_millis(50)).await;
    }
    let growth = resident().saturating_sub(before);
    assert!(growth < MOST_GROWTH, "{} MiB more, and {slowest:?}", growth >> 20);
    let (told, refused) = greedy.await.expect("it is answered");
    assert_eq!((told, refused), (1_000, 9_000));
    let ended = bad.try_join_next();
    assert!(ended.is_none(), "one has stopped: {ended:?}");
    bad.shutdown().await;
    eventually("only the good ones are left", async || running.plane.streams().len() == GOOD).await;
    world.limit("a", "shop", round + 1).await;
    for client in &mut good {
        assert!(client.accept().await.is(&[("a", round + 1)]));
    }
}
