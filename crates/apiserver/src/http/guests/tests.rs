//! Who may stay, who has to leave, and when.

use std::{net::Ipv4Addr, task::Poll};

use http_body::Body as _;

use super::*;
use crate::http::Body;

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn ordered(guest: &Guest) -> u8 {
    guest.order.load(Ordering::Relaxed)
}

/// Looks once a second for this long.
async fn looks(guests: &Guests, long: Duration) {
    for _ in 0..long.as_secs() {
        tokio::time::advance(LOOK.0).await;
        guests.look(false);
    }
}

#[tokio::test(start_paused = true)]
async fn strangers_have_to_leave_soon_and_those_who_are_known_late() {
    let guests = Guests::new(10);
    let (stranger, known) = (guests.enter(HOME), guests.enter(HOME));
    known.know();
    looks(&guests, IDLE_STRANGER).await;
    assert_eq!((ordered(&stranger.guest), ordered(&known.guest)), (Order::Leave as u8, Order::Stay as u8));
    looks(&guests, FAREWELL + LOOK.0).await;
    assert_eq!(ordered(&stranger.guest), Order::Cut as u8, "it has not left");
    looks(&guests, IDLE - IDLE_STRANGER - FAREWELL - LOOK.0).await;
    assert_eq!(ordered(&known.guest), Order::Leave as u8);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_busy_is_not_idle() {
    let guests = Guests::new(10);
    let seat = guests.enter(HOME);
    let mut busy = seat.guest.begin(false);
    looks(&guests, 3 * IDLE_STRANGER).await;
    assert_eq!(ordered(&seat.guest), Order::Stay as u8);
    busy.done();
    drop(busy);
    looks(&guests, IDLE_STRANGER + LOOK.0).await;
    assert_eq!(ordered(&seat.guest), Order::Leave as u8);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_has_begun_has_to_end_and_a_pause_before_it_may_be_long() {
    for (is_http1, is_cut) in [(true, true), (false, false)] {
        let guests = Guests::new(10);
        let seat = guests.enter(HOME);
        seat.know();
        drop(Heard::new(tokio::io::empty(), &seat.guest, is_http1));
        looks(&guests, HEAD * 2).await;
        assert_eq!(ordered(&seat.guest), Order::Stay as u8, "nothing has begun");
        seat.guest.hear();
        looks(&guests, HEAD).await;
        assert_eq!(ordered(&seat.guest), Order::Stay as u8);
        looks(&guests, LOOK.0).await;
        assert_eq!(ordered(&seat.guest) == Order::Cut as u8, is_cut, "of HTTP/2 these may be pings");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_takes_ends_the_connection() {
    let guests = Guests::new(10);
    let seat = guests.enter(HOME);
    seat.know();
    let _body = seat.guest.track(Body::whole("small"), seat.guest.begin(false));
    looks(&guests, STALLED - LOOK.0).await;
    assert_eq!(ordered(&seat.guest), Order::Stay as u8);
    looks(&guests, LOOK.0).await;
    assert_eq!(ordered(&seat.guest), Order::Cut as u8);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_still_being_made_does_not() {
    let guests = Guests::new(10);
    let seat = guests.enter(HOME);
    seat.know();
    let body = Body::stream(futures_util::stream::pending());
    let mut body = std::pin::pin!(seat.guest.track(body, seat.guest.begin(false)));
    let polled = std::future::poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await;
    assert!(polled.is_pending());
    looks(&guests, 10 * STALLED).await;
    assert_eq!(ordered(&seat.guest), Order::Stay as u8);
}

#[tokio::test(start_paused = true)]
async fn taking_back_requests_is_counted_over_time() {
    let guests = Guests::new(10);
    let seat = guests.enter(HOME);
    for _ in 0..10 {
        (0..TAKEN_BACK.1).for_each(|_| drop(seat.guest.begin(false)));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(ordered(&seat.guest), Order::Stay as u8);
    (0..=TAKEN_BACK.0).for_each(|_| drop(seat.guest.begin(false)));
    assert_eq!(ordered(&seat.guest), Order::Cut as u8);
}

#[tokio::test]
async fn the_oldest_stranger_of_an_address_makes_room_and_nobody_else() {
    let guests = Guests::new(2);
    let other = guests.enter(Ipv4Addr::new(10, 0, 0, 1).into());
    let known = guests.enter(HOME);
    known.know();
    let seats = [guests.enter(HOME), guests.enter(HOME), guests.enter(HOME)];
    let orders: Vec<u8> =
        [&other, &known, &seats[0], &seats[1], &seats[2]].map(|seat| ordered(&seat.guest)).into();
    assert_eq!(orders, [0, 0, Order::Cut as u8, 0, 0]);
    drop(seats);
    drop((other, known));
    let present = guests.present.lock();
    assert!(present.everyone.is_empty() && present.strangers.is_empty());
}

#[test]
fn a_network_of_ipv6_is_one_place() {
    let place = |text: &str| place(text.parse().expect(text));
    assert_eq!(place("2001:db8::1"), place("2001:db8::ffff:1"));
    assert_ne!(place("2001:db8::1"), place("2001:db8:0:1::1"));
    assert_eq!(place("::ffff:10.0.0.1"), place("10.0.0.1"));
    assert_ne!(place("10.0.0.2"), place("10.0.0.1"));
}

#[tokio::test]
async fn bodies_that_are_gone_are_forgotten() {
    let guests = Guests::new(10);
    let seat = guests.enter(HOME);
    let guest = &seat.guest;
    let kept = guest.track(Body::whole("kept"), guest.begin(false));
    for _ in 0..1000 {
        let mut busy = guest.begin(false);
        busy.done();
        drop(guest.track(Body::whole("gone"), busy));
    }
    assert!(guest.bodies.lock().len() <= 2 * BODIES);
    assert_eq!(guest.bodies.lock().iter().filter(|body| body.strong_count() > 0).count(), 1);
    drop(kept);
    assert!(!guest.is_busy());
}
