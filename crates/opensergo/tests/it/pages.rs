//! What a control plane shows of itself.

use bytes::Bytes;
use http::{Method, Response, Uri};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use windlass_opensergo::{access::Access, view::Pages};

use crate::{
    line::Line,
    sdk::Sdk,
    world::{Running, World, eventually, quick},
};

const LIMIT: &str = "RateLimitStrategy";

/// Asks for a page; what is in it, and the code.
async fn get(pages: &Pages, path: &str) -> (u16, String) {
    let uri: Uri = path.parse().expect("a path");
    let answer: Response<Full<Bytes>> = pages.answer(&Method::GET, &uri);
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    (code, String::from_utf8(body.into()).expect("text"))
}

/// The number of a metric.
fn metric(text: &str, name: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().expect("a number")
}

#[tokio::test]
async fn pages_say_who_is_there_and_how_often_it_was_told() {
    let (world, line) = (World::start().await, Line::new(false));
    let running = Running::start(line.client(&world.client), quick(), Access::open(), false).await;
    let pages = Pages::new(running.plane.clone(), running.source.clone());
    assert_eq!(get(&pages, "/livez").await.0, 200);
    assert_eq!(get(&pages, "/readyz").await.0, 503, "it has seen nothing yet");
    line.mend();
    eventually("it is ready", async || get(&pages, "/readyz").await.0 == 200).await;
    world.limit("a", "shop", 1).await;
    let (mut good, mut bad) = (Sdk::connect(running.address).await, Sdk::connect(running.address).await);
    good.subscribe("shop", &[LIMIT]).await;
    bad.subscribe("other", &[LIMIT]).await;
    good.accept().await;
    let push = bad.push().await;
    bad.reject_as_go(&push).await;
    let kind = format!("{{kind=\"{LIMIT}\"}}");
    let answered = |result: &str| format!("opensergo_answers_total{{kind=\"{LIMIT}\",result=\"{result}\"}}");
    eventually("both are counted", async || {
        let (_, text) = get(&pages, "/metrics").await;
        [answered("accepted"), answered("rejected")].iter().all(|name| text.contains(&format!("{name} 1\n")))
    })
    .await;
    let (_, text) = get(&pages, "/metrics").await;
    let expected = [
        ("opensergo_streams".to_owned(), 2.0),
        (format!("opensergo_subscriptions{kind}"), 2.0),
        (format!("opensergo_pushes_total{kind}"), 2.0),
        (format!("opensergo_rules{kind}"), 1.0),
        ("opensergo_bad_requests_total".to_owned(), 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(metric(&text, &name), value, "{name}");
    }
    let of = async |path: &str| -> Value {
        let (code, text) = get(&pages, path).await;
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    };
    let all = of("/subscribers").await;
    assert_eq!((&all["streams"], &all["matching"]), (&2.into(), &2.into()));
    let shop = of("/subscribers?namespace=default&app=shop").await;
    assert_eq!((&shop["streams"], &shop["matching"]), (&2.into(), &1.into()));
    let told = &shop["subscribers"][0]["subscriptions"][0];
    assert_eq!((&told["inSync"], &told["kind"]), (&true.into(), &LIMIT.into()));
    let other = of("/subscribers?app=other").await;
    let told = &other["subscribers"][0]["subscriptions"][0];
    assert!(told["lastError"].as_str().is_some_and(|why| why.contains("4007")), "{told}");
    drop((good, bad));
    eventually("nobody is there", async || {
        let (_, text) = get(&pages, "/metrics").await;
        metric(&text, "opensergo_streams") == 0.0
            && metric(&text, &format!("opensergo_subscriptions{kind}")) == 0.0
    })
    .await;
    assert_eq!(get(&pages, "/other").await.0, 404);
    assert_eq!(pages.answer(&Method::POST, &Uri::from_static("/metrics")).status(), 405);
}
