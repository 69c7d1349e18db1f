//! What is answered instead of asking anybody, and how long it may take to ask.

use base64::{Engine, prelude::BASE64_STANDARD};
use prost_types::Duration;

use super::{super::read::Node, UNKNOWN_TO_SUBSCRIBERS};
use crate::proto::envoy::config::{
    core::v3::{DataSource, data_source::Specifier},
    route::v3::{
        DirectResponseAction, RedirectAction,
        redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier},
    },
};

/// What a redirect may say.
const CODES: &[(i64, RedirectResponseCode)] = &[
    (301, RedirectResponseCode::MovedPermanently),
    (302, RedirectResponseCode::Found),
    (303, RedirectResponseCode::SeeOther),
    (307, RedirectResponseCode::TemporaryRedirect),
    (308, RedirectResponseCode::PermanentRedirect),
];

/// The port is that of the scheme, as it is without a word.
const USUAL_PORT: &str = "FROM_PROTOCOL_DEFAULT";

/// Units of time, and how many nanoseconds they have.
const UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// A hundred years, more than which is a mistake.
const LONGEST: f64 = 100.0 * 366.0 * 86_400.0 * 1e9;

/// Sends a client elsewhere.
pub(super) fn redirect(redirect: &Node<'_>) -> RedirectAction {
    let derived = redirect.field("derivePort");
    if derived.optional_text() != Some(USUAL_PORT) {
        derived.refuse_if_there(UNKNOWN_TO_SUBSCRIBERS);
    }
    let code = redirect.field("redirectCode");
    let given: Option<i64> = code.optional_whole(0..=i64::from(i32::MAX));
    let meant = CODES.iter().find(|(number, _)| Some(*number) == given).map(|(_, meaning)| *meaning);
    if given.is_some() && meant.is_none() {
        code.refuse("301, 302, 303, 307 or 308");
    }
    let text = |name: &str| redirect.field(name).optional_text().map(str::to_owned);
    let port: Option<u32> = redirect.field("port").optional_whole(1..=65535);
    RedirectAction {
        host_redirect: text("authority").unwrap_or_default(),
        port_redirect: port.unwrap_or_default(),
        response_code: meant.unwrap_or_default().into(),
        path_rewrite_specifier: text("uri").map(PathRewriteSpecifier::PathRedirect),
        scheme_rewrite_specifier: text("scheme").map(SchemeRewriteSpecifier::SchemeRedirect),
    }
}

/// Answers at once.
pub(super) fn direct_response(response: &Node<'_>) -> DirectResponseAction {
    let body = response.field("body");
    let text = body.field("string").optional_text().map(str::to_owned);
    let bytes = body.field("bytes");
    let bytes = bytes.is_there().then(|| bytes.parsed("Base64", |text| BASE64_STANDARD.decode(text).ok()));
    let specifier = text.map(Specifier::InlineString).or(bytes.map(Specifier::InlineBytes));
    DirectResponseAction {
        status: response.field("status").whole(200..=599),
        body: specifier.map(|specifier| DataSource { specifier: Some(specifier) }),
    }
}

/// How long, if anything is said of it.
pub(super) fn optional_duration(node: &Node<'_>) -> Option<Duration> {
    node.is_there().then(|| node.parsed("a duration such as 500ms, 1.5s or 1m30s", duration))
}

/// Reads a duration as Go writes it: numbers, each with its unit.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        let unit = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanos += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    let nanos = nanos.round();
    let is_right = !text.is_empty() && nanos <= LONGEST;
    is_right.then_some(Duration { seconds: (nanos / 1e9) as i64, nanos: (nanos % 1e9) as i32 })
}
