//! The formats of strings that Kubernetes knows. Others mean nothing.

use std::{net::IpAddr, sync::LazyLock};

use regex_automata::meta::Regex;

use super::{Kind, Uri};
use crate::quantity::Quantity;

/// What a string, or a number, must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it, and `Format::name` is how they are written")]
pub enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    Quantity,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Int32,
    Int64,
    Float,
    Double,
}

/// How it is written, which it is, and what has it.
type TextFormat = (&'static str, Format, fn(&str) -> bool);

const TEXT_FORMATS: &[TextFormat] = &[
    ("bsonobjectid", Format::BsonObjectId, |text| text.len() == 24 && all(text, u8::is_ascii_hexdigit)),
    ("byte", Format::Byte, is_base64),
    ("cidr", Format::Cidr, is_cidr),
    ("creditcard", Format::CreditCard, is_credit_card),
    ("date", Format::Date, is_date),
    ("date-time", Format::DateTime, is_date_time),
    ("duration", Format::Duration, is_duration),
    ("email", Format::Email, is_email),
    ("hexcolor", Format::HexColor, is_hex_color),
    ("hostname", Format::Hostname, is_hostname),
    ("ipv4", Format::Ipv4, |text| ip(text).is_some() && text.contains('.')),
    ("ipv6", Format::Ipv6, |text| ip(text).is_some() && text.contains(':')),
    ("isbn", Format::Isbn, |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", Format::Isbn10, is_isbn10),
    ("isbn13", Format::Isbn13, is_isbn13),
    ("k8s-long-name", Format::LongName, |text| text.len() <= 253 && text.split('.').all(is_label)),
    ("k8s-short-name", Format::ShortName, |text| text.len() <= 63 && is_label(text)),
    ("mac", Format::Mac, is_mac),
    ("password", Format::Password, |_| true),
    ("quantity", Format::Quantity, |text| Quantity::parse(text).is_ok()),
    ("rgbcolor", Format::RgbColor, is_rgb_color),
    ("ssn", Format::Ssn, |text| text.len() == 11 && is_ssn(text)),
    ("uri", Format::Uri, |text| Uri::request(text).is_ok()),
    ("uuid", Format::Uuid, |text| uuid(text).is_some()),
    ("uuid3", Format::Uuid3, |text| uuid(text).is_some_and(|digits| digits[12] == b'3')),
    ("uuid4", Format::Uuid4, |text| uuid(text).is_some_and(|digits| is_random_uuid(&digits, b'4'))),
    ("uuid5", Format::Uuid5, |text| uuid(text).is_some_and(|digits| is_random_uuid(&digits, b'5'))),
];

const NUMBER_FORMATS: &[(&str, Kind, Format)] = &[
    ("int32", Kind::Integer, Format::Int32),
    ("int64", Kind::Integer, Format::Int64),
    ("float", Kind::Number, Format::Float),
    ("double", Kind::Number, Format::Double),
];

impl Format {
    /// The format of this name, if it means something for a value of this type.
    pub(super) fn of(kind: Kind, name: &str) -> Option<Format> {
        match kind {
            Kind::Any | Kind::String | Kind::IntOrString => {
                let plain = |name: &str| name.replace('-', "");
                let name = plain(name);
                TEXT_FORMATS.iter().find(|(known, ..)| plain(known) == name).map(|(_, format, _)| *format)
            }
            _ => NUMBER_FORMATS
                .iter()
                .find(|(known, of, _)| *known == name && *of == kind)
                .map(|(.., format)| *format),
        }
    }

    /// How it is written in a schema.
    pub fn name(self) -> &'static str {
        let texts = TEXT_FORMATS.iter().map(|(name, format, _)| (*name, *format));
        let numbers = NUMBER_FORMATS.iter().map(|(name, _, format)| (*name, *format));
        texts.chain(numbers).find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// Whether a text has this format. Formats of numbers say nothing about texts.
    pub fn fits(self, text: &str) -> bool {
        TEXT_FORMATS.iter().find(|(_, format, _)| *format == self).is_none_or(|(.., fits)| fits(text))
    }
}

fn all(text: &str, fits: fn(&u8) -> bool) -> bool {
    text.as_bytes().iter().all(fits)
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && all(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && all(digits, |byte| byte.is_ascii_alphanumeric() || b"+/".contains(byte))
}

/// An address. Zeros before the numbers of an IPv4 address are let through, as in Kubernetes.
fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| {
        let (before, v4) = match text.rfind(':') {
            Some(colon) => text.split_at(colon + 1),
            None => ("", text),
        };
        let parts: Vec<String> = v4
            .split('.')
            .map(|part| part.parse::<u8>().ok().filter(|_| all(part, u8::is_ascii_digit)))
            .map(|part| part.map(|part| part.to_string()))
            .collect::<Option<_>>()?;
        format!("{before}{}", parts.join(".")).parse().ok()
    })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    all(bits, u8::is_ascii_digit) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_luhn(digits: &[u8]) -> bool {
    let worth = |(at, digit): (usize, &u8)| match u32::from(digit - b'0') {
        digit if at % 2 == 0 => digit,
        digit => digit * 2 / 10 + digit * 2 % 10,
    };
    digits.iter().rev().enumerate().map(worth).sum::<u32>().is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).take(20).collect();
    let begins = |from: u32, to: u32, n_digits: usize| {
        let begin = digits.iter().take(n_digits).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        digits.len() > n_digits && (from..=to).contains(&begin)
    };
    let is_known = match digits.len() {
        13 => begins(4, 4, 1),
        14 => begins(300, 305, 3) || begins(36, 36, 2) || begins(38, 38, 2),
        15 => begins(34, 34, 2) || begins(37, 37, 2) || begins(2131, 2131, 4) || begins(1800, 1800, 4),
        16 => {
            begins(4, 4, 1)
                || begins(51, 55, 2)
                || begins(6011, 6011, 4)
                || begins(650, 659, 3)
                || begins(35, 35, 2)
        }
        _ => false,
    };
    is_known && is_luhn(&digits)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-' && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['t', 'T']) else { return false };
    let clock = |time: &[u8]| match time {
        [h1, h2, b':', m1, m2, b':', s1, s2, ..] => {
            [h1, h2, m1, m2, s1, s2].iter().all(|byte| byte.is_ascii_digit())
                && (*h1, *h2) <= (b'2', b'3')
                && *m1 <= b'5'
                && *s1 <= b'5'
        }
        _ => false,
    };
    if !is_date(date) || !clock(time.as_bytes()) {
        return false;
    }
    let rest = &time.as_bytes()[8..];
    let zone = match rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count() {
        // The sign before a fraction may be any, as long as a zone follows the digits.
        n_digits if n_digits > 0 && !rest.first().is_some_and(|byte| b"+-".contains(byte)) => {
            &rest[1 + n_digits..]
        }
        _ => rest,
    };
    match zone {
        [b'z' | b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// As Go writes durations, or as in `3 days 2 hours`.
fn is_duration(text: &str) -> bool {
    is_go_duration(text) || is_spelled_duration(text)
}

fn is_go_duration(text: &str) -> bool {
    const UNITS: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        if number.matches('.').count() > 1 || !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return false;
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        if !UNITS.contains(&&after[..end]) {
            return false;
        }
        rest = &after[end..];
    }
    true
}

fn is_spelled_duration(text: &str) -> bool {
    const UNITS: &[&str] = &["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const BEGINNINGS: &[&str] = &["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let (mut rest, mut is_known) = (text.trim(), false);
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &rest[..rest.len() - after.len()];
        let unit_on = after.trim_start();
        let after = unit_on.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
        let unit = unit_on[..unit_on.len() - after.len()].to_lowercase();
        if number.parse::<i64>().is_err() || unit.is_empty() {
            return false;
        }
        is_known |= UNITS.contains(&unit.as_str()) || BEGINNINGS.iter().any(|begin| unit.starts_with(begin));
        rest = after.trim_start();
    }
    is_known
}

/// An address of RFC 5322, with a name before it or not.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => is_phrase(name.trim()) && is_address(address),
        None => is_address(text),
    }
}

fn is_phrase(text: &str) -> bool {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => is_quoted(quoted),
        None => {
            text.split_whitespace().all(|word| word.split('.').all(|part| part.is_empty() || is_atom(part)))
        }
    }
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_local = match local.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => !quoted.is_empty() && is_quoted(quoted),
        None => local.split('.').all(is_atom),
    };
    let is_domain = match domain.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(literal) => literal.strip_prefix("IPv6:").unwrap_or(literal).parse::<IpAddr>().is_ok(),
        None => domain.split('.').all(is_atom),
    };
    is_local && is_domain
}

fn is_atom(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c))
}

fn is_quoted(text: &str) -> bool {
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return false,
            c if c.is_control() && c != '\t' => return false,
            _ => escaped = false,
        }
    }
    !escaped
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    [3, 6].contains(&digits.len()) && all(digits, u8::is_ascii_hexdigit)
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else {
        return false;
    };
    let is_channel = |part: &str| {
        let part = part.trim_matches([' ', '\t', '\n', '\r', '\x0c']);
        part.parse::<u8>().is_ok() && all(part, u8::is_ascii_digit) && (part == "0" || !part.starts_with('0'))
    };
    inside.split(',').count() == 3 && inside.split(',').all(is_channel)
}

/// Letters and symbols beyond ASCII, which names of hosts can have.
static WIDE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{S}\p{L}]*$").ok());

/// The names of hosts that Kubernetes takes: of a single label, a dash can only be its second character.
fn is_hostname(text: &str) -> bool {
    let is_letter = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "$+<=>^`|~".contains(c);
    let wide: String = text.chars().filter(|c| !c.is_ascii()).collect();
    if text.len() > 255 || !wide.is_empty() && !WIDE.as_ref().is_some_and(|known| known.is_match(&wide)) {
        return false;
    }
    let labels: Vec<&str> = text.split('.').collect();
    if labels.iter().any(|label| label.is_empty() || label.len() > 63) {
        return false;
    }
    let is_inner = |label: &str| {
        label.chars().all(|c| is_letter(c) || c == '-') && !label.starts_with('-') && !label.ends_with('-')
    };
    let (last, others) = labels.split_last().unwrap_or((&"", &[]));
    match others.is_empty() {
        true => {
            let mut chars = last.chars();
            let rest = chars.next().filter(|first| is_letter(*first)).map(|_| chars.as_str());
            rest.is_some_and(|rest| rest.strip_prefix('-').unwrap_or(rest).chars().all(is_letter))
        }
        false => {
            others.iter().all(|label| is_inner(label))
                && is_inner(last)
                && !last.contains("--")
                && last.chars().filter(|c| *c != '-').count() >= 2
        }
    }
}

fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'-').take(14).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let worth = |(at, digit): (usize, &u8)| match digit {
        b'0'..=b'9' => Some((at as u32 + 1) * u32::from(digit - b'0')),
        b'X' if at == 9 => Some(100),
        _ => None,
    };
    let sum: Option<u32> = digits.iter().enumerate().map(worth).sum();
    digits.len() == 10 && sum.is_some_and(|sum| sum.is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let worth =
        |(at, digit): (usize, &u8)| digit.is_ascii_digit().then(|| [1, 3][at % 2] * u32::from(digit - b'0'));
    let sum: Option<u32> = digits.iter().enumerate().map(worth).sum();
    digits.len() == 13 && sum.is_some_and(|sum| sum.is_multiple_of(10))
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, n_digits: usize| -> Option<usize> {
        let parts: Vec<&str> = text.split(separator).take(21).collect();
        let fits = parts.iter().all(|part| part.len() == n_digits && all(part, u8::is_ascii_hexdigit));
        fits.then_some(parts.len() * n_digits / 2)
    };
    let bytes = groups(':', 2).or_else(|| groups('-', 2)).or_else(|| groups('.', 4));
    bytes.is_some_and(|bytes| [6, 8, 20].contains(&bytes))
}

fn is_ssn(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        3 | 6 => b"- ".contains(&byte),
        _ => byte.is_ascii_digit(),
    })
}

/// The digits of a UUID in lower case. Dashes may be left out, each by itself.
fn uuid(text: &str) -> Option<[u8; 32]> {
    let mut digits = [0; 32];
    let mut n_digits = 0;
    let mut after_dash = false;
    for byte in text.bytes() {
        match byte {
            b'-' if [8, 12, 16, 20].contains(&n_digits) && !after_dash => after_dash = true,
            byte if byte.is_ascii_hexdigit() => {
                *digits.get_mut(n_digits)? = byte.to_ascii_lowercase();
                n_digits += 1;
                after_dash = false;
            }
            _ => return None,
        }
    }
    (n_digits == 32).then_some(digits)
}

fn is_random_uuid(digits: &[u8; 32], version: u8) -> bool {
    digits[12] == version && b"89ab".contains(&digits[16])
}
