//! Which requests a route is for.

use std::collections::BTreeMap;

use super::{super::read::Node, UNKNOWN_TO_SUBSCRIBERS};
use crate::proto::envoy::{
    config::route::v3::{
        HeaderMatcher, QueryParameterMatcher, RouteMatch, header_matcher::HeaderMatchSpecifier,
        query_parameter_matcher::QueryParameterMatchSpecifier, route_match::PathSpecifier,
    },
    r#type::matcher::v3::{
        RegexMatcher, StringMatcher,
        regex_matcher::{EngineType, GoogleRe2},
        string_matcher::MatchPattern,
    },
};

/// What every path begins with: those that say nothing of paths match all.
const ANY_PATH: &str = "/";

/// What is said of requests besides headers, and the header that it is.
const PSEUDO_HEADERS: &[(&str, &str)] =
    &[("method", ":method"), ("scheme", ":scheme"), ("authority", ":authority")];

/// What is known of connections alone.
const OF_CONNECTIONS: &[&str] = &["port", "sourceLabels", "sourceNamespace"];

/// What stands for all that ask by themselves, as subscribers do.
const MESH: &str = "mesh";

/// Which requests; all where nothing is said.
pub(super) fn matching(sort: Option<&Node<'_>>) -> RouteMatch {
    let Some(sort) = sort else {
        let path_specifier = Some(PathSpecifier::Prefix(ANY_PATH.to_owned()));
        return RouteMatch { path_specifier, ..RouteMatch::default() };
    };
    for name in OF_CONNECTIONS {
        sort.field(name).refuse_if_there(UNKNOWN_TO_SUBSCRIBERS);
    }
    let gateways = sort.field("gateways");
    if !gateways.texts().iter().any(|gateway| gateway == MESH) {
        gateways.refuse_if_there(UNKNOWN_TO_SUBSCRIBERS);
    }
    let ignores_case = sort.field("ignoreUriCase").flag().unwrap_or_default();
    let path = path(pattern(&sort.field("uri")), ignores_case);
    RouteMatch {
        // Expressions say it themselves.
        case_sensitive: (ignores_case && !matches!(path, PathSpecifier::SafeRegex(_))).then_some(false),
        path_specifier: Some(path),
        headers: headers(sort),
        query_parameters: query_parameters(sort),
    }
}

fn path(pattern: Option<MatchPattern>, ignores_case: bool) -> PathSpecifier {
    match pattern {
        Some(MatchPattern::Exact(path)) => PathSpecifier::Path(path),
        Some(MatchPattern::Prefix(prefix)) => PathSpecifier::Prefix(prefix),
        Some(MatchPattern::SafeRegex(found)) if ignores_case => {
            PathSpecifier::SafeRegex(regex(&format!("(?i){}", found.regex)))
        }
        Some(MatchPattern::SafeRegex(regex)) => PathSpecifier::SafeRegex(regex),
        _ => PathSpecifier::Prefix(ANY_PATH.to_owned()),
    }
}

fn headers(sort: &Node<'_>) -> Vec<HeaderMatcher> {
    let mut all = vec![];
    for (name, header) in PSEUDO_HEADERS {
        if let Some(pattern) = pattern(&sort.field(name)) {
            all.push(header_matcher(header, Some(pattern), false));
        }
    }
    for (field, inverts) in [("headers", false), ("withoutHeaders", true)] {
        for (name, node) in named(&sort.field(field)) {
            all.push(header_matcher(name, pattern(&node), inverts));
        }
    }
    all
}

/// Says it in the fields that every subscriber reads; newer ones read others besides.
fn header_matcher(name: &str, pattern: Option<MatchPattern>, invert_match: bool) -> HeaderMatcher {
    let specifier = match pattern {
        Some(MatchPattern::Exact(text)) => HeaderMatchSpecifier::ExactMatch(text),
        Some(MatchPattern::Prefix(text)) => HeaderMatchSpecifier::PrefixMatch(text),
        Some(MatchPattern::SafeRegex(regex)) => HeaderMatchSpecifier::SafeRegexMatch(regex),
        _ => HeaderMatchSpecifier::PresentMatch(true),
    };
    HeaderMatcher { name: name.to_owned(), invert_match, header_match_specifier: Some(specifier) }
}

fn query_parameters(sort: &Node<'_>) -> Vec<QueryParameterMatcher> {
    let one = |(name, node): (&str, Node<'_>)| QueryParameterMatcher {
        name: name.to_owned(),
        query_parameter_match_specifier: Some(match pattern(&node) {
            Some(pattern) => QueryParameterMatchSpecifier::StringMatch(string_matcher(pattern)),
            None => QueryParameterMatchSpecifier::PresentMatch(true),
        }),
    };
    named(&sort.field("queryParams")).into_iter().map(one).collect()
}

/// What is in a map, each with a name.
fn named<'a>(map: &Node<'a>) -> BTreeMap<&'a str, Node<'a>> {
    let entries = map.entries();
    if entries.contains_key("") {
        map.refuse("names that are not empty");
    }
    entries
}

/// How a text is, if anything is said of it. Of several, the first counts.
pub(super) fn pattern(node: &Node<'_>) -> Option<MatchPattern> {
    let [exact, prefix, expression] = ["exact", "prefix", "regex"].map(|name| {
        let field = node.field(name);
        let text = field.optional_text();
        if field.is_there() && text.is_none() {
            field.warn("an empty text says nothing: whatever there is fits");
        }
        text.map(str::to_owned)
    });
    if [&exact, &prefix, &expression].iter().filter(|one| one.is_some()).count() > 1 {
        node.warn("of exact, prefix and regex only the first counts");
    }
    let exact = exact.map(MatchPattern::Exact);
    let prefix = prefix.map(MatchPattern::Prefix);
    exact.or(prefix).or(expression.map(|text| MatchPattern::SafeRegex(regex(&text))))
}

/// The same as a message.
pub(super) fn string_matcher(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { ignore_case: false, match_pattern: Some(pattern) }
}

/// An expression. Proxies of some age want to be told which engine it is for.
pub(super) fn regex(regex: &str) -> RegexMatcher {
    let engine = EngineType::GoogleRe2(GoogleRe2 { max_program_size: None });
    RegexMatcher { regex: regex.to_owned(), engine_type: Some(engine) }
}
