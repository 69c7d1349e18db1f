//! Clients that are programs of their own: client-go, Python, fabric8 and kubectl. They print what they are told.

use serde_json::Value;
use windlass_e2e::{Running, Server};

use crate::changes::{END, Script, Told, check_exactly_once, listed};

/// Lets the client get its first state, makes the changes, and checks what it printed of them.
///
/// Returns what it asked of the server.
async fn check(server: &mut Server, start: impl FnOnce(&Server) -> Running) -> Vec<String> {
    let script = Script::begin(server).await;
    let mut client = start(server);
    client.line_with("SYNCED");
    let first_state = lines(client.seen(), &["ADDED"]).len();
    assert_eq!(first_state, listed(server).await.len(), "the first state: {}", client.seen());

    let made = script.play(server).await;
    let (printed, status) = client.finish();
    assert!(status.success(), "it ended with {status} and printed:\n{printed}");
    let (_, after) = printed.split_once("SYNCED\n").expect("it was there");
    let told: Vec<Told> = lines(after, &["ADDED", "MODIFIED", "DELETED", "LOST"])
        .into_iter()
        .map(|words| Told::new(words[0], words[1], words[2]))
        .collect();
    check_exactly_once(&made, &told);
    let stored: Vec<String> =
        lines(after, &["STORE"]).into_iter().map(|words| words[1..].join(" ")).collect();
    assert_eq!(stored, listed(server).await, "what it holds is what there is");
    lines(&printed, &["REQUEST"]).into_iter().map(|words| words[1..].join(" ")).collect()
}

fn lines<'a>(printed: &'a str, first_words: &[&str]) -> Vec<Vec<&'a str>> {
    let words = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| first_words.contains(&words[0])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_of_client_go_is_told_of_every_change_once_over_a_restart() {
    let mut server = Server::start();
    let requests = check(&mut server, |server| server.informer("default", END, false)).await;
    let n_asked = |what: &str| requests.iter().filter(|request| *request == what).count();
    assert_eq!((n_asked("list 200"), n_asked("stream 200")), (1, 0), "it never lists again: {requests:?}");
    assert!(n_asked("watch 200") >= 2, "it watches again: {requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_that_streams_its_list_is_told_of_every_change_once_over_a_restart() {
    let mut server = Server::start();
    let requests = check(&mut server, |server| server.informer("default", END, true)).await;
    let n_asked = |what: &str| requests.iter().filter(|request| *request == what).count();
    assert_eq!((n_asked("list 200"), n_asked("stream 200")), (0, 1), "it never lists again: {requests:?}");
    assert!(n_asked("watch 200") >= 1, "it watches again: {requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_the_python_client_goes_on_over_a_restart() {
    let mut server = Server::start();
    let requests = check(&mut server, |server| server.python("watch", &["default", END])).await;
    assert_eq!(requests, ["list 200"], "nothing is refused");
}

#[test]
fn the_python_client_creates_patches_pages_and_deletes() {
    let server = Server::start();
    let (printed, status) = server.python("pages", &["default"]).finish();
    assert!(status.success(), "it ended with {status}");
    assert_eq!(printed, "PAGES 25 1\n", "25 objects, all pages of one revision");
}

/// Answers to watches with this code, since the server was started.
async fn n_watches_answered(server: &Server, code: u16) -> u64 {
    let metrics = server.kubectl("get --raw /metrics").ok();
    let is_wanted = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && [
                "verb=\"WATCH\"",
                "resource=\"configmaps\"",
                "scope=\"namespace\"",
                &format!("code=\"{code}\""),
            ]
            .iter()
            .all(|label| line.contains(label))
    };
    let lines = metrics.lines().filter(is_wanted);
    lines.map(|line| line.rsplit_once(' ').expect("a value").1.parse::<u64>().expect("a number")).sum()
}

/// fabric8's client watches over WebSocket unless it is told otherwise.
async fn fabric8_is_told_of_every_change_once(what: &str) {
    let mut server = Server::start();
    check(&mut server, |server| server.fabric8(what, &["default", END])).await;
    let (switched, plain) = (n_watches_answered(&server, 101).await, n_watches_answered(&server, 200).await);
    assert!(switched >= 1 && plain == 0, "{switched} watches over WebSocket, {plain} over HTTP");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_watch_of_fabric8_goes_on_over_a_restart() {
    fabric8_is_told_of_every_change_once("watch").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_of_fabric8_is_told_of_every_change_once_over_a_restart() {
    fabric8_is_told_of_every_change_once("inform").await;
}

#[test]
fn candidates_of_fabric8_lead_one_after_the_other() {
    let server = Server::start();
    let stand = || {
        let mut candidate = server.fabric8("lead", &["default", "election"]);
        candidate.line_with("STANDING");
        candidate
    };
    let mut first = stand();
    first.line_with("LEADING");
    let mut second = stand();
    let holder = || server.kubectl("get lease election -o jsonpath={.spec.holderIdentity}").ok();
    let led = holder();
    assert!(first.seen().contains(&led), "{led} leads, but not by what it says: {}", first.seen());
    assert!(!second.seen().contains("LEADING"), "{}", second.seen());
    first.hang_up();
    first.line_with("STOPPED");
    second.line_with("LEADING");
    assert!(second.seen().contains(&holder()), "{}", second.seen());
    second.hang_up();
    let (printed, status) = second.finish();
    assert!(status.success(), "it ended with {status}: {printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_is_told_of_every_change_once_and_lists_again_after_a_restart() {
    let mut server = Server::start();
    let script = Script::begin(&server).await;
    let first_state = listed(&server).await;
    let mut watch = server.kubectl("get cm -w --output-watch-events -o json").spawn();
    for _ in &first_state {
        watch.line_with("\"type\"");
    }
    let made = script.play(&mut server).await;

    // It ends when the server does: what it has printed until then is the beginning of what was made.
    let (printed, _) = watch.finish();
    let told: Vec<Told> = events(&printed).skip(first_state.len()).collect();
    assert!(!told.is_empty() && told.len() < made.len(), "the restart was in the middle: {printed}");
    check_exactly_once(&made[..told.len()], &told);

    let mut watch = server.kubectl("get cm -w --output-watch-events -o json").spawn();
    for _ in listed(&server).await {
        assert!(watch.line_with("\"type\"").contains("ADDED"), "{}", watch.seen());
    }
}

/// The events in what `kubectl get -w --output-watch-events -o json` prints.
fn events(printed: &str) -> impl Iterator<Item = Told> {
    let events = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
    events.map(|event| {
        let event = event.expect("kubectl prints whole events");
        let word = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).expect(pointer);
        Told::new(word("/type"), word("/object/metadata/name"), word("/object/metadata/resourceVersion"))
    })
}
