//! Informers on a server that takes and refuses lists and watches as a test likes.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{future::join_all, stream::BoxStream};
use http::Response;
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{
    Informer, Scope,
    informer::Reach,
    testing::{eventually, within},
};

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// It is taken: a list has nothing, and nothing happens in a watch.
    Taken,
    Refused(u16),
    Lost,
    /// Nobody ever answers.
    Ignored,
    /// It is answered, and what is answered never comes.
    Begun,
}

/// What a server is asked, and answers.
#[derive(Clone)]
struct Server {
    lists: Arc<Mutex<Answer>>,
    watches: Arc<Mutex<Answer>>,
    n_lists: Arc<AtomicUsize>,
    n_watches: Arc<AtomicUsize>,
}

type Told = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

fn response(code: u16, body: BoxStream<'static, Result<Frame<Bytes>, Infallible>>) -> Response<Told> {
    Response::builder().status(code).body(StreamBody::new(body)).expect("an answer")
}

fn said(code: u16, what: &Value) -> Response<Told> {
    let frame = Frame::data(Bytes::from(what.to_string()));
    response(code, stream::iter([Ok(frame)]).boxed())
}

impl Server {
    fn new(lists: Answer, watches: Answer) -> Self {
        Server {
            lists: Arc::new(Mutex::new(lists)),
            watches: Arc::new(Mutex::new(watches)),
            n_lists: Arc::default(),
            n_watches: Arc::default(),
        }
    }

    fn informer(&self) -> Informer<ConfigMap> {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(watch_from(&request).is_some());
            async move {
                match answer {
                    Some(answer) => answer,
                    None => pending().await,
                }
            }
        });
        let client = Client::new(service, "default");
        Informer::start(&client, Api::all, &Scope::all(), None)
    }

    fn answer(&self, is_watch: bool) -> Option<std::io::Result<Response<Told>>> {
        let (answer, count) = match is_watch {
            true => (*self.watches.lock(), &self.n_watches),
            false => (*self.lists.lock(), &self.n_lists),
        };
        count.fetch_add(1, SeqCst);
        let nothing = json!({"kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": {"resourceVersion": "7"}, "items": []});
        let answer = match answer {
            Answer::Ignored => return None,
            Answer::Lost => Err(std::io::Error::other("lost")),
            Answer::Taken if !is_watch => Ok(said(200, &nothing)),
            Answer::Taken | Answer::Begun => Ok(response(200, stream::pending().boxed())),
            Answer::Refused(code) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "no", "reason": "No", "code": code});
                Ok(said(code, &status))
            }
        };
        Some(answer)
    }

    fn n_watches(&self) -> usize {
        self.n_watches.load(SeqCst)
    }

    fn n_lists(&self) -> usize {
        self.n_lists.load(SeqCst)
    }
}

fn failing(informer: &Informer<ConfigMap>) -> bool {
    matches!(informer.reach(), Reach::Failing(_))
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_taken_again_is_well_although_nothing_happens() {
    for bad in [Answer::Refused(500), Answer::Refused(403), Answer::Lost] {
        let server = Server::new(Answer::Taken, bad);
        let informer = server.informer();
        eventually("it fails", || failing(&informer)).await;
        sleep(Duration::from_secs(60)).await;
        assert!(failing(&informer), "{bad:?}");
        *server.watches.lock() = Answer::Taken;
        within(Duration::from_secs(20), "it is well", || informer.reach() == Reach::Synced).await;
        assert_eq!(server.n_lists(), 1, "{bad:?}: what it knows is still so");
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_listed_once_more_for_all_who_ask_meanwhile() {
    let server = Server::new(Answer::Taken, Answer::Taken);
    let informer = server.informer();
    informer.catch_up().await;
    assert_eq!(informer.cache().revision(), 7, "the revision of the list is known");
    let before = server.n_lists();
    let all = (0..100).map(|_| informer.catch_up());
    join_all(all).await;
    assert_eq!(server.n_lists() - before, 1, "they share a list");
    informer.catch_up().await;
    assert_eq!(server.n_lists() - before, 2, "one that began before is not enough");
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_everything_waits_until_the_server_answers() {
    let server = Server::new(Answer::Taken, Answer::Taken);
    let informer = server.informer();
    informer.synced().await;
    *server.lists.lock() = Answer::Lost;
    assert!(timeout(Duration::from_secs(60), informer.catch_up()).await.is_err(), "nobody has answered");
    *server.lists.lock() = Answer::Taken;
    timeout(Duration::from_secs(60), informer.catch_up()).await.expect("somebody has");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_between_list_and_watch_is_listed_again_when_it_is_back() {
    let server = Server::new(Answer::Taken, Answer::Refused(404));
    let informer = server.informer();
    eventually("it is missing", || informer.reach() == Reach::Missing).await;
    *server.watches.lock() = Answer::Taken;
    within(Duration::from_secs(2), "it is back", || informer.reach() == Reach::Synced).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((server.n_lists(), informer.reach()), (2, Reach::Synced));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_not_known_is_not_asked_for_again() {
    for code in [410, 400, 504] {
        let server = Server::new(Answer::Taken, Answer::Refused(code));
        let informer = server.informer();
        eventually("it is listed again", || server.n_lists() > 2).await;
        *server.watches.lock() = Answer::Taken;
        within(Duration::from_secs(20), "it is well", || informer.reach() == Reach::Synced).await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_refused_asks_ever_less_often() {
    for (lists, watches) in [
        (Answer::Refused(503), Answer::Taken),
        (Answer::Taken, Answer::Refused(410)),
        (Answer::Lost, Answer::Lost),
    ] {
        let server = Server::new(lists, watches);
        let _informer = server.informer();
        sleep(Duration::from_secs(600)).await;
        let n_lists = server.n_lists();
        assert!((30..80).contains(&n_lists), "{n_lists} lists of {lists:?}, {watches:?} in ten minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_is_found_out_and_one_that_wakes_up_is_well() {
    for silent in [Answer::Ignored, Answer::Begun] {
        let server = Server::new(silent, Answer::Taken);
        let informer = server.informer();
        within(Duration::from_secs(60), "the first list fails", || failing(&informer)).await;
        *server.lists.lock() = Answer::Taken;
        within(Duration::from_secs(60), "it is well", || informer.reach() == Reach::Synced).await;

        *server.lists.lock() = silent;
        let waiting = tokio::spawn({
            let informer = informer.clone();
            async move { informer.catch_up().await }
        });
        within(Duration::from_secs(60), "another list fails", || failing(&informer)).await;
        assert!(!waiting.is_finished());
        *server.lists.lock() = Answer::Taken;
        timeout(Duration::from_secs(120), waiting).await.expect("it goes on").expect("no panic");
        assert_eq!(informer.reach(), Reach::Synced);

        *server.watches.lock() = Answer::Ignored;
        within(Duration::from_secs(150), "a watch that hangs fails", || failing(&informer)).await;
        *server.watches.lock() = Answer::Taken;
        within(Duration::from_secs(60), "it is well again", || informer.reach() == Reach::Synced).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_which_nothing_happens_is_begun_again_without_a_list() {
    let server = Server::new(Answer::Taken, Answer::Taken);
    let informer = server.informer();
    informer.synced().await;
    let reach = informer.watch_reach();
    sleep(Duration::from_secs(600)).await;
    assert!((6..10).contains(&server.n_watches()), "{} watches in ten minutes", server.n_watches());
    assert_eq!((server.n_lists(), reach.has_changed().ok()), (1, Some(false)), "nobody has noticed");
}
