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

impl Rule for TrafficRouter {
    type Message = RouteConfiguration;

    fn message(subject: &Subject<'_>) -> RouteConfiguration {
        let spec = subject.spec();
        let name = subject.name();
        warn(subject, &spec);
        let hosts = Hosts { namespace: subject.namespace() };
        let routes: Vec<Route> =
            spec.field("http").objects().iter().flat_map(|http| routes(http, &hosts)).collect();
        let mut domains = BTreeSet::new();
        let mut virtual_hosts = vec![];
        for (given, domain) in served(&spec, &hosts, &name) {
            // A service may be named in two ways, but only once on the wire.
            if domains.insert(domain.clone()) {
                // Subscribers take the name of the service from the name, up to the first dot.
                virtual_hosts.push(VirtualHost {
                    name: given,
                    domains: vec![domain],
                    routes: routes.clone(),
                });
            }
        }
        RouteConfiguration { name, virtual_hosts }
    }
}

/// The services whose requests are routed: as they were named, and in full. Without any, it is the one that is called as
/// the object is.
fn served(spec: &Node<'_>, hosts: &Hosts<'_>, name: &str) -> Vec<(String, String)> {
    let listed = spec.field("hosts").items();
    if listed.is_empty() {
        return vec![(name.to_owned(), hosts.full(name))];
    }
    listed.iter().map(|host| (host.text().to_owned(), hosts.domain(host))).collect()
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

/// One route for each sort of requests: either of them is enough.
fn routes(http: &Node<'_>, hosts: &Hosts<'_>) -> Vec<Route> {
    for name in ["fault", "delegate"] {
        http.field(name).refuse_if_there(UNKNOWN_TO_SUBSCRIBERS);
    }
    let route = action::route(http, hosts);
    let matches = http.field("match").objects();
    let all = [None];
    let sorts: Vec<Option<&Node<'_>>> =
        if matches.is_empty() { all.to_vec() } else { matches.iter().map(Some).collect() };
    let one = |sort: Option<&Node<'_>>| {
        let label = |node: &Node<'_>| node.field("name").optional_text().map(str::to_owned);
        let names: Vec<String> = [label(http), sort.and_then(label)].into_iter().flatten().collect();
        let prefix = sort.and_then(|sort| sort.field("statPrefix").optional_text());
        Route {
            name: names.join("."),
            r#match: Some(matching::matching(sort)),
            stat_prefix: prefix.unwrap_or_default().to_owned(),
            ..route.clone()
        }
    };
    sorts.into_iter().map(one).collect()
}
