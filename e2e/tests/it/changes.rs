//! A known run of changes to the ConfigMaps of one namespace, with a restart in the middle, and whether a client was
//! told of each exactly once.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_e2e::{Raw, Server};

/// The object that is made last.
pub(crate) const END: &str = "the-end";

const NAMESPACE: &str = "/api/v1/namespaces/default/configmaps";

/// Objects that are there before anyone watches.
const N_EARLY: usize = 5;

/// Changes before and after the restart, each.
const N_CHANGES: usize = 60;

/// A change, as it was made or as a client was told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// ADDED, MODIFIED or DELETED.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Not known to the one who deletes.
    pub(crate) revision: Option<u64>,
}

impl Told {
    pub(crate) fn new(kind: &str, name: &str, revision: &str) -> Self {
        let revision = Some(revision.parse().expect("revisions of this server are numbers"));
        Told { kind: kind.to_owned(), name: name.to_owned(), revision }
    }
}

/// Writes, and remembers what.
pub(crate) struct Script {
    raw: Raw,
    made: Vec<Told>,
    /// What is there, with its counter.
    live: BTreeMap<String, u64>,
    rng: fastrand::Rng,
}

impl Script {
    /// Makes what is there before anyone watches.
    pub(crate) async fn begin(server: &Server) -> Self {
        let rng = fastrand::Rng::with_seed(7);
        let mut script = Script { raw: server.raw().await, made: vec![], live: BTreeMap::new(), rng };
        for idx in 0..N_EARLY {
            script.put(&format!("early-{idx}")).await;
        }
        script.made.clear();
        script
    }

    /// Makes changes, restarts the server while more are made, and makes [`END`]. Returns them all, in order.
    pub(crate) async fn play(mut self, server: &mut Server) -> Vec<Told> {
        for _ in 0..N_CHANGES {
            self.change().await;
        }
        let before = self.made.len();
        let writing = async {
            for _ in 0..N_CHANGES {
                self.change().await;
            }
        };
        // On a thread of its own, so that changes go on while the server ends and comes back.
        std::thread::scope(|scope| {
            let restarting = scope.spawn(|| server.restart());
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(writing));
            restarting.join().expect("it comes back");
        });
        assert!(self.made.len() > before, "changes were made while it restarted");
        self.put(END).await;
        let revisions: Vec<u64> = self.made.iter().filter_map(|told| told.revision).collect();
        assert!(revisions.is_sorted_by(|one, next| one < next), "revisions increase: {revisions:?}");
        self.made
    }

    async fn change(&mut self) {
        let name = format!("object-{}", self.rng.u8(0..10));
        if self.live.contains_key(&name) && self.rng.u8(0..4) == 0 {
            self.delete(&name).await;
        } else {
            self.put(&name).await;
        }
    }

    async fn put(&mut self, name: &str) {
        let n = self.live.get(name).map_or(1, |n| n + 1);
        let body = json!({"metadata": {"name": name}, "data": {"n": n.to_string()}});
        let path = format!("{NAMESPACE}/{name}");
        let (kind, method, target) = match n {
            1 => ("ADDED", Method::POST, NAMESPACE),
            _ => ("MODIFIED", Method::PUT, path.as_str()),
        };
        let found = loop {
            if let Some(answer) = self.send(method.clone(), target, &body).await {
                break answer;
            }
            // It may have happened even so; nobody else writes, so the counter shows.
            let found = self.found(&path).await;
            if found["data"]["n"] == body["data"]["n"] {
                break found;
            }
        };
        self.live.insert(name.to_owned(), n);
        let revision = found["metadata"]["resourceVersion"].as_str().expect("it was stored");
        self.made.push(Told::new(kind, name, revision));
    }

    async fn delete(&mut self, name: &str) {
        let path = format!("{NAMESPACE}/{name}");
        loop {
            if self.send(Method::DELETE, &path, &Value::Null).await.is_some()
                || self.found(&path).await.is_null()
            {
                break;
            }
        }
        self.live.remove(name);
        self.made.push(Told { kind: "DELETED".to_owned(), name: name.to_owned(), revision: None });
    }

    /// The answer, if there is one; a server that ends may break off, or say that it takes no more.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Option<Value> {
        let answer = self.raw.send(method, path, body).await.ok()?;
        if answer.code == StatusCode::SERVICE_UNAVAILABLE {
            return None;
        }
        assert!(answer.code.is_success(), "{answer:?}");
        Some(answer.body)
    }

    /// The object, once the server answers; nothing if it is not there.
    async fn found(&self, path: &str) -> Value {
        loop {
            if let Ok(answer) = self.raw.get(path).await
                && answer.code != StatusCode::SERVICE_UNAVAILABLE
            {
                return if answer.code.is_success() { answer.body } else { Value::Null };
            }
        }
    }
}

/// Fails unless `told` is `made`, change by change and in order for each object.
#[track_caller]
pub(crate) fn check_exactly_once(made: &[Told], told: &[Told]) {
    let (made, told) = (by_name(made), by_name(told));
    assert_eq!(made.keys().collect::<Vec<_>>(), told.keys().collect::<Vec<_>>(), "the objects that changed");
    for (name, made) in made {
        let told = &told[name];
        let kinds = |of: &[&Told]| of.iter().map(|told| told.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(&made), kinds(told), "{name}: made {made:?}, told {told:?}");
        for (made, told) in made.iter().zip(told) {
            assert!(
                made.revision.is_none() || made.revision == told.revision,
                "made {made:?}, told {told:?}"
            );
        }
        assert!(told.is_sorted_by(|one, next| one.revision < next.revision), "{name}: told {told:?}");
    }
}

fn by_name(all: &[Told]) -> BTreeMap<&str, Vec<&Told>> {
    let mut sorted: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
    for told in all {
        sorted.entry(&told.name).or_default().push(told);
    }
    sorted
}

/// What is there in the end, as `NAME REVISION`.
pub(crate) async fn listed(server: &Server) -> Vec<String> {
    let list = server.raw().await.get(NAMESPACE).await.expect("the server is there").body;
    let word = |item: &Value, field: &str| item["metadata"][field].as_str().expect("text").to_owned();
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|item| format!("{} {}", word(item, "name"), word(item, "resourceVersion"))).collect()
}
