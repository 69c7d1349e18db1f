//! What the guard of the localhost rule lets pass, and what the one it lets pass is called.

use http::Request;

use super::*;
use crate::{MASTERS, authn::Peer};

fn guard() -> Guard {
    Guard::new(SocketAddr::from(([127, 0, 0, 1], 8080))).expect("loopback")
}

fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

fn code(head: &Parts) -> Option<u16> {
    guard().check(SocketAddr::from(([127, 0, 0, 1], 40000)), head).err().map(|suspicion| suspicion.code())
}

#[test]
fn a_plain_request_passes_by_every_name_of_this_machine() {
    for name in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080"] {
        assert_eq!(code(&head("GET", "/api", &[("host", name), ("sec-fetch-site", "none")])), None, "{name}");
        let absolute = format!("http://{name}/api");
        assert_eq!(code(&head("GET", &absolute, &[("host", name)])), None, "{absolute}");
    }
}

#[test]
fn the_port_may_be_missing_only_where_it_is_the_usual_one() {
    let usual = Guard::new(SocketAddr::from(([127, 0, 0, 1], 80))).expect("loopback");
    assert!(usual.is_own("localhost") && usual.is_own("localhost:80"));
    for name in ["localhost", "localhost:", "localhost:08080", "localhost:8081", "localhost:80800", ""] {
        assert!(!guard().is_own(name), "{name}");
    }
}

#[test]
fn only_the_two_addresses_of_loopback_can_be_trusted() {
    for (address, may) in [
        ("127.0.0.1:1", true),
        ("[::1]:1", true),
        ("127.0.0.2:1", false),
        ("0.0.0.0:1", false),
        ("[::]:1", false),
        ("[::ffff:127.0.0.1]:1", false),
        ("10.0.0.1:1", false),
    ] {
        assert_eq!(Guard::new(address.parse().expect(address)).is_some(), may, "{address}");
    }
}

#[test]
fn a_peer_that_is_another_machine_never_passes() {
    let head = head("GET", "/api", &[("host", "localhost:8080")]);
    for peer in ["10.0.0.1:1", "[fe80::1]:1", "0.0.0.0:1", "169.254.1.1:1", "[::ffff:10.0.0.1]:1"] {
        assert_eq!(guard().check(peer.parse().expect(peer), &head), Err(Suspicion::Remote), "{peer}");
    }
}

#[test]
fn every_body_of_an_object_or_a_patch_passes_and_no_other() {
    for media in BODIES {
        let with_charset = format!("{media}; charset=utf-8");
        let own = ("host", "localhost:8080");
        assert_eq!(code(&head("PATCH", "/api", &[own, ("content-type", &with_charset)])), None, "{media}");
    }
}

async fn identity(peer: Peer, headers: HeaderMap) -> Option<Identity> {
    Localhost.authenticate(Shown { peer: &peer, headers: &headers }).await.expect("it never refuses")
}

#[tokio::test]
async fn whoever_passes_is_a_user_with_a_name_and_no_power() {
    let vouched = Peer { vouched: Some(Vouched(())), ..Peer::default() };
    let known = identity(vouched.clone(), HeaderMap::new()).await.expect("it passed");
    assert_eq!((known.user.name.as_str(), known.by), (LOCALHOST, "localhost"));
    assert!(known.user.is_in(LOCAL_GROUP) && !known.user.is_in(MASTERS) && !known.user.is_anonymous());
    let shown = HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer x".parse().expect("a value"))]);
    assert_eq!(
        identity(vouched, shown).await,
        None,
        "whoever shows something is known by that or not at all"
    );
    assert_eq!(identity(Peer::default(), HeaderMap::new()).await, None);
}
