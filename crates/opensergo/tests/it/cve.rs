//! Vulnerabilities of control planes like this one, each tried against this one. A test is named by the one it tries; those
//! of API servers are in the API server's tests.

use fastrand::Rng;
use prost::Message;
use tonic::Code;
use windlass_opensergo::{
    access::Access,
    proto::transport::v1::{SubscribeOpType, SubscribeRequest},
};

use crate::{
    sdk::{Sdk, answer, channel, request},
    world::{Running, World, eventually, quick},
};

const LIMIT: &str = "RateLimitStrategy";

/// How many messages are made of each that is right, by changing some of its bytes.
const SPOILED: usize = 150;

/// Messages of every form that a client may send, right and wrong.
fn messages() -> Vec<SubscribeRequest> {
    let right = request("default", "shop", &[LIMIT]);
    let targetless = SubscribeRequest { target: None, ..right.clone() };
    let of_many = request("default", "shop", &[LIMIT; 64]);
    let away = SubscribeRequest { op_type: SubscribeOpType::Unsubscribe.into(), ..right.clone() };
    let unknown = SubscribeRequest { op_type: i32::MIN, ..right.clone() };
    let flagged = SubscribeRequest { response_ack: "NACK".to_owned(), ..SubscribeRequest::default() };
    let answers = [answer("ACK", 1, "", "x"), answer("NACK", i32::MAX, "\u{0}", ""), flagged];
    [right, targetless, of_many, away, unknown, SubscribeRequest::default()]
        .into_iter()
        .chain(answers)
        .collect()
}

/// Its bytes, with some changed, taken away or added.
fn spoiled(rng: &mut Rng, message: &SubscribeRequest) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(..=bytes.len());
        match rng.u8(..3) {
            0 if at < bytes.len() => bytes[at] = rng.u8(..),
            1 => bytes.truncate(at),
            // A length that is not there, among others.
            _ => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x07])),
        }
    }
    bytes
}

/// One message ended the control plane of istio, and everyone could send it.
#[tokio::test]
async fn cve_2022_23635_no_message_ends_the_control_plane() {
    let world = World::start().await;
    let running = world.plane().await;
    world.limit("a", "shop", 0).await;
    let mut good = Sdk::connect(running.address).await;
    good.subscribe("shop", &[LIMIT]).await;
    assert!(good.accept().await.is(&[("a", 0)]));
    let mut rng = Rng::with_seed(23_635);
    for (round, message) in (1..).zip(messages()) {
        let mut bad = Sdk::connect(running.address).await;
        for _ in 0..SPOILED {
            bad.send_bytes(spoiled(&mut rng, &message)).await;
        }
        // Not even its own stream: it is answered, and goes on.
        bad.subscribe("marker", &[LIMIT]).await;
        while bad.response().await.expect("the stream goes on").expect("a message").app != "marker" {}
        drop(bad);
        world.limit("a", "shop", round).await;
        assert!(good.accept().await.is(&[("a", round)]), "others go on: {message:?}");
    }
    eventually("only the good one is left", async || running.plane.streams().len() == 1).await;
}

/// Where clients have to say who they are, nobody is let in who does not: their stream is refused before anything is read.
#[tokio::test]
async fn cve_2022_24726_nobody_is_let_in_without_a_token_that_somebody_knows() {
    let world = World::start().await;
    let access = Access::reviewed(world.client.clone(), None);
    let running = Running::start(world.client.clone(), quick(), access, false).await;
    for token in [None, Some(""), Some("x"), Some("eyJhbGciOiJub25lIn0.e30.")] {
        let refused = Sdk::on(channel(running.address).await, token).await.expect_err("nobody");
        assert_eq!(refused.code(), Code::Unauthenticated, "{token:?}: {refused:?}");
    }
    assert!(running.plane.streams().is_empty());
}
