//! Custom resources: what a schema and its rules cost, and what a thousand definitions cost.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use anyhow::Context;
use http::{HeaderValue, Method, header};

use super::{
    Bench,
    client::{Asked, Endpoint},
    drive::{Limit, drive},
    objects::{self, JSON, OBJECT_BYTES, collection},
    target::{Server, Target},
    turn::{Turn, known_time, middle},
};
use crate::{
    args::ApiPart,
    report::{Goal, Outcome, Section, Table},
    say,
    stats::{count, median, rate, time},
};

/// Clients whose speed is judged.
const CLIENTS: usize = 64;

/// Properties of the schema.
const PROPERTIES: usize = 100;

/// Properties that an object sets; the rest is filler.
const SET: usize = 40;

/// How long a server gets to give back what it no longer needs.
const SETTLE: Duration = Duration::from_millis(500);

/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How aggregated discovery is asked for.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Rules of the schema, of the kinds that operators write.
const RULES: [&str; 5] = [
    "self.text0.size() < 100",
    "self.number1 >= 0 && self.number1 <= 1000000",
    "!has(self.text4) || self.text4.startsWith('v')",
    "!has(self.number5) || self.number5 != self.number1 + 1",
    "self.text0 == oldSelf.text0 || self.number1 > 0",
];

/// A definition with so many properties and rules.
fn definition(plural: &str, kind: &str, properties: usize, rules: &[&str]) -> String {
    let mut fields = String::from("\"filler\":{\"type\":\"string\"}");
    for n in 0..properties {
        let field = match n % 4 {
            0 => format!("\"text{n}\":{{\"type\":\"string\",\"maxLength\":63}}"),
            1 => format!("\"number{n}\":{{\"type\":\"integer\",\"minimum\":0}}"),
            2 => format!("\"flag{n}\":{{\"type\":\"boolean\",\"default\":false}}"),
            _ => format!(
                "\"list{n}\":{{\"type\":\"array\",\"maxItems\":10,\"items\":{{\"type\":\"string\",\"maxLength\":63}}}}"
            ),
        };
        let _ = write!(fields, ",{field}");
    }
    let rules: Vec<String> =
        rules.iter().map(|rule| format!("{{\"rule\":{}}}", serde_json::json!(rule))).collect();
    format!(
        "{{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\
         \"metadata\":{{\"name\":\"{plural}.bench.example.com\"}},\"spec\":{{\"group\":\"bench.example.com\",\
         \"scope\":\"Namespaced\",\"names\":{{\"plural\":\"{plural}\",\"kind\":\"{kind}\"}},\"versions\":[{{\
         \"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{{\"openAPIV3Schema\":{{\"type\":\"object\",\
         \"properties\":{{\"spec\":{{\"type\":\"object\",\"x-kubernetes-validations\":[{}],\
         \"properties\":{{{fields}}}}}}}}}}}}}]}}}}",
        rules.join(",")
    )
}

/// A custom object of [`OBJECT_BYTES`] as it is sent.
fn object(name: &str) -> Vec<u8> {
    let mut text = format!(
        "{{\"apiVersion\":\"bench.example.com/v1\",\"kind\":\"Sample\",\"metadata\":{{\"name\":\"{name}\",\
         \"labels\":{{\"app\":\"bench\"}}}},\"spec\":{{"
    );
    for n in 0..SET {
        let _ = match n % 4 {
            0 => write!(text, "\"text{n}\":\"v{n}\","),
            1 => write!(text, "\"number{n}\":{n},"),
            2 => write!(text, "\"flag{n}\":true,"),
            _ => write!(text, "\"list{n}\":[\"a\"],"),
        };
    }
    text.push_str("\"filler\":\"");
    let end = "\"}}";
    let mut text = text.into_bytes();
    text.resize((OBJECT_BYTES - end.len()).max(text.len()), b'x');
    text.extend_from_slice(end.as_bytes());
    text
}

async fn define(endpoint: &Endpoint, definition: String) -> anyhow::Result<()> {
    let mut connection = endpoint.connect().await?;
    connection.fetch(endpoint.ask(Method::POST, DEFINITIONS, JSON, definition)).await?;
    Ok(())
}

/// Creating custom objects beside ConfigMaps of the same size.
pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let target = bench.target(ApiPart::Custom).await?;
    define(&target.endpoint, definition("samples", "Sample", PROPERTIES, &RULES)).await?;
    let (mut custom, mut plain) = (vec![], vec![]);
    for turn in 1..=bench.scale.turns {
        say(&format!("custom: measuring {CLIENTS} clients, turn {turn} of {}…", bench.scale.turns));
        custom.push(creates(bench, &target, turn, true).await?);
        plain.push(creates(bench, &target, turn, false).await?);
    }
    let mut connection = target.endpoint.connect().await?;
    let path = format!("{DEFINITIONS}/samples.bench.example.com");
    connection.fetch(target.endpoint.ask(Method::DELETE, &path, "", "")).await?;
    target.end().await?;
    let mut section = Section::new("Creating custom objects");
    let mut table = Table::new(&["what", "creates/s", "p50", "p99", "CPU each"]);
    for (what, turns) in [("custom objects", &custom), ("ConfigMaps", &plain)] {
        table.row([
            what.into(),
            rate(middle(turns, |turn| turn.rate)),
            time(middle(turns, |turn| turn.p50)),
            time(middle(turns, |turn| turn.p99)),
            known_time(middle(turns, |turn| turn.processor)),
        ]);
    }
    section.tables.push(table);
    let (ours, theirs) = (middle(&custom, |turn| turn.rate), middle(&plain, |turn| turn.rate));
    let cost = median(custom.iter().zip(&plain).map(|(custom, plain)| plain.rate / custom.rate));
    section.outcomes.push(Outcome {
        what: format!("cost of a custom object, of a ConfigMap's, by {CLIENTS}"),
        ours: rate(ours),
        yardstick: rate(theirs),
        measured: cost,
        unit: " ×",
        goal: Goal::AtMost(1.5),
    });
    section.notes.push(format!(
        "Objects of {OBJECT_BYTES} bytes as sent, by {CLIENTS} clients. The schema of the custom ones has {PROPERTIES} \
         properties, of which they set {SET}, and {} rules in CEL.",
        RULES.len()
    ));
    Ok(section)
}

async fn creates(bench: &Bench, target: &Target, turn: usize, custom: bool) -> anyhow::Result<Turn> {
    let (maker, namespace) = (target.endpoint.clone(), target.namespace.clone());
    let ran = drive(&target.endpoint, CLIENTS, Limit::time(bench.scale.turn), move |client, nth, _| {
        let name = format!("created-{turn}-{client}-{nth}");
        match custom {
            true => {
                let path = format!("/apis/bench.example.com/v1/namespaces/{namespace}/samples");
                maker.ask(Method::POST, &path, JSON, object(&name))
            }
            false => objects::create(&maker, &collection(&namespace), &name, client),
        }
    })
    .await?;
    Ok(Turn::of(ran))
}

/// What many definitions cost: to create, to start with, to hold, and to tell clients about.
pub(crate) async fn measure_many(bench: &Bench) -> anyhow::Result<Section> {
    let n_definitions = bench.scale.definitions;
    let data = bench.folder("definitions")?;
    let (server, _) = Server::start(&bench.server, &data).await?;
    // What is made once is there before it counts.
    define(&server.endpoint, numbered(0)).await?;
    discover(&server.endpoint).await?;
    tokio::time::sleep(SETTLE).await;
    let before = server.resident_bytes()? as f64;
    say(&format!("definitions: creating {}…", count(n_definitions as u64)));
    let begun = Instant::now();
    let mut connection = server.endpoint.connect().await?;
    for n in 1..=n_definitions {
        connection.fetch(server.endpoint.ask(Method::POST, DEFINITIONS, JSON, numbered(n))).await?;
    }
    let created = begun.elapsed();
    let first = discover(&server.endpoint).await?;
    let mut again = vec![];
    for _ in 0..20 {
        again.push(discover(&server.endpoint).await?.as_nanos() as f64);
    }
    tokio::time::sleep(SETTLE).await;
    let each = (server.resident_bytes()? as f64 - before).max(0.0) / n_definitions as f64;
    server.end()?;
    let mut ready = vec![];
    for turn in 1..=bench.scale.turns {
        say(&format!("definitions: starting anew, turn {turn} of {}…", bench.scale.turns));
        let (server, took) = Server::start(&bench.server, &data).await?;
        ready.push(took.as_nanos() as f64);
        server.end()?;
    }
    let (ready, again) = (median(ready), median(again));
    let mut section = Section::new("Many definitions");
    let mut table = Table::new(&[
        "definitions",
        "created in",
        "ready after",
        "memory each",
        "discovery, first",
        "discovery",
    ]);
    table.row([
        count(n_definitions as u64),
        time(created.as_nanos() as f64),
        time(ready),
        format!("{:.1} KiB", each / 1024.0),
        time(first.as_nanos() as f64),
        time(again),
    ]);
    section.tables.push(table);
    let mut judge = |what: &str, ours: String, measured: f64, unit, bound| {
        let what = format!("{what}, {} definitions", count(n_definitions as u64));
        let goal = Goal::AtMost(bound);
        section.outcomes.push(Outcome { what, ours, yardstick: String::new(), measured, unit, goal });
    };
    judge("created", time(created.as_nanos() as f64), created.as_secs_f64(), " s", 30.0);
    judge("ready", time(ready), ready / 1e9, " s", 2.0);
    judge("memory for each", format!("{:.1} KiB", each / 1024.0), each / 1024.0, " KiB", 60.0);
    judge("discovery", time(first.as_nanos() as f64), first.as_secs_f64() * 1e3, " ms", 50.0);
    section.notes.push(
        "Created one after the other by one client, each served before the next one is sent; their schemas have 20 \
         properties. Memory is what the server occupies more than with one of them. Discovery is the aggregated \
         document of all groups: the first time after the last definition, and then again."
            .into(),
    );
    Ok(section)
}

fn numbered(n: usize) -> String {
    definition(&format!("kind{n}s"), &format!("Kind{n}"), 20, &[])
}

/// Asks for everything that is served; returns how long that took.
async fn discover(endpoint: &Endpoint) -> anyhow::Result<Duration> {
    let mut connection = endpoint.connect().await?;
    let mut request: Asked = endpoint.get("/apis");
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(AGGREGATED));
    let begun = Instant::now();
    connection.fetch(request).await.context("asking for the groups")?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_the_size_of_its_yardstick() {
        let text = object("created-1-63-99999");
        assert_eq!(text.len(), OBJECT_BYTES);
        let object: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(object["spec"].as_object().map(serde_json::Map::len), Some(SET + 1));
        let definition = definition("samples", "Sample", PROPERTIES, &RULES);
        let definition: serde_json::Value = serde_json::from_str(&definition).expect("JSON");
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(schema["properties"].as_object().map(serde_json::Map::len), Some(PROPERTIES + 1));
    }
}
