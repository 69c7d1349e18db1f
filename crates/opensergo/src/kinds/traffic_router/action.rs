//! What is done with requests: where they go, and what is changed on the way.

use std::collections::BTreeMap;

use super::{
    super::{any_of, read::Node},
    UNKNOWN_TO_SUBSCRIBERS,
    host::Hosts,
    matching, reply,
};
use crate::proto::{
    envoy::{
        config::{
            core::v3::{
                HeaderValue, HeaderValueOption, RuntimeFractionalPercent, TypedExtensionConfig,
                header_value_option::HeaderAppendAction,
            },
            route::v3::{
                ClusterSpecifierPlugin, CorsPolicy, RetryPolicy, Route, RouteAction, WeightedCluster,
                route::Action,
                route_action::{ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy},
                weighted_cluster::ClusterWeight,
            },
        },
        r#type::{
            matcher::v3::{RegexMatchAndSubstitute, string_matcher::MatchPattern},
            v3::{FractionalPercent, fractional_percent::DenominatorType},
        },
    },
    router::v1::ClusterFallbackConfigClusterConfig,
};

/// What subscribers look for where there is somewhere else to go.
const FALLBACK: &str = "envoy.router.cluster_specifier_plugin.cluster_fallback";

/// What is tried again unless something is said: what did not reach anybody, or was not meant to last.
const RETRY_ON: &str = "connect-failure,refused-stream,unavailable,cancelled,503";

/// What only concerns requests that go somewhere.
const OF_FORWARDING: &[&str] =
    &["rewrite", "timeout", "retries", "mirror", "mirrorPercentage", "mirrorPercent", "corsPolicy"];

/// Stands for all status codes that are listed.
const LISTED_CODES: &str = "retriable-status-codes";

/// How many parts of a million one percent has.
const PER_PERCENT: f64 = 10_000.0;

/// Which headers are changed.
#[derive(Default)]
struct Headers {
    request_add: Vec<HeaderValueOption>,
    request_remove: Vec<String>,
    response_add: Vec<HeaderValueOption>,
    response_remove: Vec<String>,
}

/// A route without the requests that it is for.
pub(super) fn route(http: &Node<'_>, hosts: &Hosts<'_>) -> Route {
    let mut headers = headers(&http.field("headers"));
    let destinations = http.field("route").objects();
    let redirect = http.field("redirect");
    let response = http.field("directResponse");
    let given = [!destinations.is_empty(), redirect.is_there(), response.is_there()];
    if given.iter().filter(|given| **given).count() != 1 {
        http.refuse("one of route, redirect and directResponse");
    }
    if destinations.is_empty() {
        let useless = OF_FORWARDING.iter().map(|name| http.field(name)).filter(Node::is_there);
        useless.for_each(|field| field.warn("it has no effect where requests go nowhere"));
    }
    let action = if redirect.is_there() {
        Action::Redirect(reply::redirect(&redirect))
    } else if response.is_there() {
        Action::DirectResponse(reply::direct_response(&response))
    } else {
        if let [one] = &destinations[..] {
            headers.extend(self::headers(&one.field("headers")));
        }
        Action::Route(Box::new(forward(http, &destinations, hosts)))
    };
    Route {
        action: Some(action),
        request_headers_to_add: headers.request_add,
        request_headers_to_remove: headers.request_remove,
        response_headers_to_add: headers.response_add,
        response_headers_to_remove: headers.response_remove,
        ..Route::default()
    }
}

fn forward(http: &Node<'_>, destinations: &[Node<'_>], hosts: &Hosts<'_>) -> RouteAction {
    let rewrite = http.field("rewrite");
    let authority = rewrite.field("authority").optional_text();
    let regex = rewrite.field("uriRegexRewrite");
    if regex.is_there() && rewrite.field("uri").is_there() {
        rewrite.refuse("either uri or uriRegexRewrite");
    }
    RouteAction {
        cluster_specifier: Some(clusters(http, destinations, hosts)),
        prefix_rewrite: rewrite.field("uri").optional_text().unwrap_or_default().to_owned(),
        regex_rewrite: regex.is_there().then(|| RegexMatchAndSubstitute {
            pattern: Some(matching::regex(regex.field("match").text())),
            substitution: regex.field("rewrite").optional_text().unwrap_or_default().to_owned(),
        }),
        host_rewrite_specifier: authority
            .map(|authority| HostRewriteSpecifier::HostRewriteLiteral(authority.to_owned())),
        timeout: reply::optional_duration(&http.field("timeout")),
        retry_policy: retries(&http.field("retries")),
        cors: cors(&http.field("corsPolicy")),
        request_mirror_policies: mirror(http, hosts).into_iter().collect(),
    }
}

/// Where requests go. One destination is named as such; of several, each has its weight.
fn clusters(http: &Node<'_>, destinations: &[Node<'_>], hosts: &Hosts<'_>) -> ClusterSpecifier {
    let [one] = destinations else {
        return ClusterSpecifier::WeightedClusters(weighted(http, destinations, hosts));
    };
    let destination = one.field("destination");
    let cluster = hosts.cluster(&destination);
    // Whatever it is, all requests go there; but it has to be a weight.
    let _: Option<u32> = weight(one);
    match hosts.fallback(&destination) {
        None => ClusterSpecifier::Cluster(cluster),
        Some(fallback) => ClusterSpecifier::InlineClusterSpecifierPlugin(ClusterSpecifierPlugin {
            extension: Some(TypedExtensionConfig {
                name: FALLBACK.to_owned(),
                typed_config: Some(any_of(&or_else(cluster, fallback))),
            }),
            is_optional: false,
        }),
    }
}

fn or_else(cluster: String, fallback: String) -> ClusterFallbackConfigClusterConfig {
    ClusterFallbackConfigClusterConfig { routing_cluster: cluster, fallback_cluster: fallback }
}

fn weight(destined: &Node<'_>) -> Option<u32> {
    destined.field("weight").optional_whole(0..=i64::from(i32::MAX))
}

/// Several destinations. There is no place for where else to go in what Envoy has, so that it is said beside the weight,
/// where those who do not know of it leave it alone.
fn weighted(http: &Node<'_>, destinations: &[Node<'_>], hosts: &Hosts<'_>) -> WeightedCluster {
    let one = |destined: &Node<'_>| {
        let destination = destined.field("destination");
        let name = hosts.cluster(&destination);
        let fallback = hosts.fallback(&destination).map(|fallback| or_else(name.clone(), fallback));
        let headers = headers(&destined.field("headers"));
        ClusterWeight {
            weight: Some(weight(destined).unwrap_or_default()),
            request_headers_to_add: headers.request_add,
            request_headers_to_remove: headers.request_remove,
            response_headers_to_add: headers.response_add,
            response_headers_to_remove: headers.response_remove,
            typed_per_filter_config: fallback
                .map(|fallback| BTreeMap::from([(FALLBACK.to_owned(), any_of(&fallback))]))
                .unwrap_or_default(),
            name,
        }
    };
    let clusters: Vec<ClusterWeight> = destinations.iter().map(one).collect();
    let sum: u64 = clusters.iter().filter_map(|one| one.weight.map(u64::from)).sum();
    if !clusters.is_empty() && !(1..=u64::from(u32::MAX)).contains(&sum) {
        let most = u32::MAX;
        http.field("route").refuse(format_args!("weights of which the sum is from 1 to {most}"));
    }
    WeightedCluster { clusters }
}

fn headers(changes: &Node<'_>) -> Headers {
    let add = |operations: &Node<'_>| {
        let sorts = [
            ("set", HeaderAppendAction::OverwriteIfExistsOrAdd),
            ("add", HeaderAppendAction::AppendIfExistsOrAdd),
        ];
        let of = |(field, action): (&str, HeaderAppendAction)| {
            let one = move |(key, value): (&str, Node<'_>)| {
                let value = value.optional_text().unwrap_or_default().to_owned();
                HeaderValueOption {
                    keep_empty_value: value.is_empty(),
                    header: Some(HeaderValue { key: key.to_owned(), value }),
                    append_action: action.into(),
                }
            };
            operations.field(field).entries().into_iter().map(one).collect::<Vec<_>>()
        };
        sorts.into_iter().flat_map(of).collect()
    };
    let (request, response) = (changes.field("request"), changes.field("response"));
    Headers {
        request_add: add(&request),
        request_remove: request.field("remove").texts(),
        response_add: add(&response),
        response_remove: response.field("remove").texts(),
    }
}

impl Headers {
    fn extend(&mut self, other: Headers) {
        self.request_add.extend(other.request_add);
        self.request_remove.extend(other.request_remove);
        self.response_add.extend(other.response_add);
        self.response_remove.extend(other.response_remove);
    }
}

fn retries(retries: &Node<'_>) -> Option<RetryPolicy> {
    if !retries.is_there() {
        return None;
    }
    let remote = retries.field("retryRemoteLocalities");
    if remote.flag() == Some(true) {
        remote.refuse_if_there(UNKNOWN_TO_SUBSCRIBERS);
    }
    let on = retries.field("retryOn").optional_text().unwrap_or(RETRY_ON);
    let mut conditions: Vec<&str> = vec![];
    let mut codes: Vec<u32> = vec![];
    for word in on.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word.parse() {
            Ok(code) => codes.push(code),
            Err(_) => conditions.push(word),
        }
    }
    if !codes.is_empty() && !conditions.contains(&LISTED_CODES) {
        conditions.push(LISTED_CODES);
    }
    Some(RetryPolicy {
        retry_on: conditions.join(","),
        num_retries: retries.field("attempts").optional_whole(0..=i64::from(i32::MAX)),
        per_try_timeout: reply::optional_duration(&retries.field("perTryTimeout")),
        retriable_status_codes: codes,
    })
}

fn mirror(http: &Node<'_>, hosts: &Hosts<'_>) -> Option<RequestMirrorPolicy> {
    let mirror = http.field("mirror");
    let exact = http.field("mirrorPercentage");
    let percentage = exact.field("value");
    let whole = http.field("mirrorPercent").optional_whole::<i32>(0..=100);
    // Where a share is given but not its value, none is meant.
    let none = exact.is_there().then_some(0.0);
    let percents = percentage.optional_number().or(none).or(whole.map(f64::from)).unwrap_or(100.0);
    if !(0.0..=100.0).contains(&percents) {
        percentage.refuse("a number from 0 to 100");
    }
    if !mirror.is_there() || percents == 0.0 {
        return None;
    }
    let percent = FractionalPercent {
        numerator: (percents.clamp(0.0, 100.0) * PER_PERCENT).round() as u32,
        denominator: DenominatorType::Million.into(),
    };
    let fraction = RuntimeFractionalPercent { default_value: Some(percent), runtime_key: String::new() };
    Some(RequestMirrorPolicy { cluster: hosts.cluster(&mirror), runtime_fraction: Some(fraction) })
}

fn cors(cors: &Node<'_>) -> Option<CorsPolicy> {
    if !cors.is_there() {
        return None;
    }
    let exactly = cors.field("allowOrigin").texts().into_iter().map(MatchPattern::Exact);
    let alike = cors.field("allowOrigins").objects();
    let alike = alike.iter().filter_map(matching::pattern);
    let age = reply::optional_duration(&cors.field("maxAge"));
    Some(CorsPolicy {
        allow_origin_string_match: exactly.chain(alike).map(matching::string_matcher).collect(),
        allow_methods: cors.field("allowMethods").texts().join(","),
        allow_headers: cors.field("allowHeaders").texts().join(","),
        expose_headers: cors.field("exposeHeaders").texts().join(","),
        max_age: age.map(|age| age.seconds.to_string()).unwrap_or_default(),
        allow_credentials: cors.field("allowCredentials").flag(),
    })
}
