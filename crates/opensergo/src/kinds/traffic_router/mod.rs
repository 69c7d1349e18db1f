//! Routes: which instances of a service requests go to. They are sent as Envoy has them.
//!
//! What a route says about requests is sent or refused: to leave a part out would let other requests through than were
//! meant. Only what says who else may see it is told of and left out. Start at [`TrafficRouter`]'s `message`.

mod action;
mod host;
mod matching;
mod reply;
mod spec;

use std::collections::BTreeSet;

use prost::Message;

use super::{
    Rule,
    read::{Node, Subject},
};
use crate::proto::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};

use self::host::Hosts;

pub use self::spec::{TrafficRouter, TrafficRouterSpec};

/// Why something is refused.
const UNKNOWN_TO_SUBSCRIBERS: &str =
    "subscribers cannot be told of this, and without it the route would mean something else";

/// What is left out, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("gateways", "it has no effect, there are no gateways"),
    ("exportTo", "it has no effect, the namespace and the label app say who is told"),
    ("tls", "it has no effect, only HTTP is routed"),
    ("tcp", "it has no effect, only HTTP is routed"),
];

/// The most destinations that a message may have. All of them are written for each host and each sort of requests, so
/// that a small object may ask for a message that fits nowhere.
const MOST_WRITTEN: usize = 20_000;

impl Rule for TrafficRouter {
    type Message = RouteConfiguration;

    fn message(subject: &Subject<'_>) -> RouteConfiguration {
        let spec = subject.spec();
        let name = subject.name();
        warn(subject, &spec);
        if !may_be_written(&spec) {
            return RouteConfiguration::default();
        }
        let hosts = Hosts { namespace: subject.namespace() };
        let entries: Vec<Entry> =
            spec.field("http").objects().iter().map(|http| Entry::new(http, &hosts)).collect();
        let served = served(&spec, &hosts, &name);
        let n_bytes = entries.iter().map(Entry::n_bytes).fold(0, usize::saturating_add);
        if !subject.may_have(n_bytes.saturating_mul(served.len())) {
            return RouteConfiguration::default();
        }
        let routes: Vec<Route> = entries.iter().flat_map(Entry::routes).collect();
        // Subscribers take the name of the service from the name, up to the first dot.
        let one = |(name, domain)| VirtualHost { name, domains: vec![domain], routes: routes.clone() };
        RouteConfiguration { name, virtual_hosts: served.into_iter().map(one).collect() }
    }
}

/// Whether there are few enough destinations, each counted as often as it is written; makes a note if not. It is only
/// counted here: afterwards would be too late.
fn may_be_written(spec: &Node<'_>) -> bool {
    let http = spec.field("http");
    let written = |http: &Node<'_>| {
        let [matches, destinations] = ["match", "route"].map(|name| http.field(name).n_items().max(1));
        matches.saturating_mul(destinations)
    };
    let of_one = http.items().iter().map(written).fold(0, usize::saturating_add);
    let n_hosts = spec.field("hosts").n_items().max(1);
    let n_written = of_one.max(1).saturating_mul(n_hosts);
    if n_written > MOST_WRITTEN {
        let expected = format_args!(
            "at most {MOST_WRITTEN} destinations, each counted once for every match and each of the {n_hosts} hosts"
        );
        http.refuse_found(expected, n_written);
    }
    n_written <= MOST_WRITTEN
}

/// The services whose requests are routed: as they were named, and in full. Without any, it is the one that is called as
/// the object is.
fn served(spec: &Node<'_>, hosts: &Hosts<'_>, name: &str) -> Vec<(String, String)> {
    let listed = spec.field("hosts").items();
    if listed.is_empty() {
        return vec![(name.to_owned(), hosts.full(name))];
    }
    let mut domains = BTreeSet::new();
    let all = listed.iter().map(|host| (host.text().to_owned(), hosts.domain(host)));
    // A service may be named in two ways, but only once on the wire.
    all.filter(|(_, domain)| domains.insert(domain.clone())).collect()
}

fn warn(subject: &Subject<'_>, spec: &Node<'_>) {
    for (name, why) in LEFT_OUT {
        let field = spec.field(name);
        if !field.items().is_empty() {
            field.warn(why);
        }
    }
    let selected = spec.field("selector").field("app");
    if selected.optional_text().is_some_and(|app| Some(app) != subject.app()) {
        selected.warn("it has no effect, the label app says whom the rule is for");
    }
}

/// What is said at one place of `http`.
struct Entry {
    /// What all its routes have.
    common: Route,
    /// What each has for itself: one for each sort of requests, as either of them is enough.
    sorts: Vec<Route>,
}

impl Entry {
    fn new(http: &Node<'_>, hosts: &Hosts<'_>) -> Self {
        for name in ["fault", "delegate"] {
            http.field(name).refuse_if_there(UNKNOWN_TO_SUBSCRIBERS);
        }
        let common = Route { name: label(http), ..action::route(http, hosts) };
        let matches = http.field("match").objects();
        let sorts =
            if matches.is_empty() { vec![sort(None)] } else { matches.iter().map(Some).map(sort).collect() };
        Entry { common, sorts }
    }

    /// How many bytes its routes have at least: what is around each of them is not counted.
    fn n_bytes(&self) -> usize {
        let common = self.common.encoded_len();
        self.sorts.iter().map(|sort| common + sort.encoded_len()).fold(0, usize::saturating_add)
    }

    fn routes(&self) -> impl Iterator<Item = Route> {
        self.sorts.iter().map(|sort| {
            let names: Vec<&str> =
                [&*self.common.name, &*sort.name].into_iter().filter(|name| !name.is_empty()).collect();
            Route {
                name: names.join("."),
                r#match: sort.r#match.clone(),
                stat_prefix: sort.stat_prefix.clone(),
                ..self.common.clone()
            }
        })
    }
}

/// A route without what is done with the requests that it is for.
fn sort(node: Option<&Node<'_>>) -> Route {
    let prefix = node.and_then(|node| node.field("statPrefix").optional_text());
    Route {
        name: node.map(label).unwrap_or_default(),
        r#match: Some(matching::matching(node)),
        stat_prefix: prefix.unwrap_or_default().to_owned(),
        ..Route::default()
    }
}

fn label(node: &Node<'_>) -> String {
    node.field("name").optional_text().unwrap_or_default().to_owned()
}
