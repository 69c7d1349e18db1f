//! Answers for people: JSON that is indented, and YAML.
//!
//! Everything is made as compact JSON; this turns it into another form while it is sent, token by token. So a long list
//! takes no more memory here than in its compact form, and whoever does not ask for it pays nothing. Start at [`Style`].

use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Body as _;

use super::{Body, Encoding, Query, Route, accepted};
use crate::verbs::without_blocking;

#[cfg(test)]
mod tests;

/// How the names of programs begin that people look through.
const PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// What may stand in YAML without quotes, besides letters and digits.
const PLAIN: &[u8] = b"_-./:@+=,();%$ ";

/// Words that YAML takes for something else than text.
const RESERVED: [&str; 10] = ["y", "yes", "n", "no", "true", "false", "on", "off", "null", "nan"];

/// The longest key that readers of YAML must recognise before its colon.
const MAX_SIMPLE_KEY: usize = 128;

/// A form of answers for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// JSON, indented.
    Indented,
    /// YAML.
    Yaml,
}

impl Style {
    /// How what is asked for is answered: objects and discovery as the client wants them, other documents as they are.
    pub(crate) fn for_route(route: Option<&Route>, headers: &HeaderMap, query: &Query) -> Option<Self> {
        match route {
            Some(Route::Resource(_) | Route::CoreVersions | Route::Groups) => Self::of(headers, query),
            Some(Route::Group(_) | Route::Version(..)) | None => Self::of(headers, query),
            Some(Route::ServerVersion | Route::Paths) => Some(Style::Indented),
            Some(_) => None,
        }
    }

    /// What a client wants to read: by what it accepts, by the query, and by what it is, as kube-apiserver has it.
    pub(crate) fn of(headers: &HeaderMap, query: &Query) -> Option<Self> {
        let accepted = accepted(headers);
        if accepted.as_ref().is_some_and(|accepted| accepted.encoding == Encoding::Yaml) {
            return Some(Style::Yaml);
        }
        let agent = headers.get(header::USER_AGENT).map_or(&b""[..], HeaderValue::as_bytes);
        let is_person = || PEOPLE.iter().any(|name| agent.starts_with(name.as_bytes()));
        let is_pretty = match query.get("pretty") {
            "" => is_person(),
            told => matches!(told, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        };
        (is_pretty || accepted.is_some_and(|accepted| accepted.is_pretty)).then_some(Style::Indented)
    }

    /// An answer in this form, if it is in JSON.
    pub(crate) fn apply(self, response: Response<Body>) -> Response<Body> {
        let headers = response.headers();
        let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|media| media == "application/json");
        if !is_json || headers.contains_key(header::CONTENT_ENCODING) {
            return response;
        }
        let mut response = response.map(|body| self.print(body));
        if self == Style::Yaml {
            let media = HeaderValue::from_static("application/yaml");
            response.headers_mut().insert(header::CONTENT_TYPE, media);
        }
        response
    }

    fn print(self, body: Body) -> Body {
        let mut printer = Printer::new(self);
        let Some(pieces) = body.known() else { return Body::stream(printed(body, printer)) };
        let n_bytes = pieces.iter().map(Bytes::len).sum();
        let whole = without_blocking(n_bytes, || {
            let mut out = Vec::with_capacity(n_bytes * 2);
            pieces.iter().for_each(|piece| printer.push(piece, &mut out));
            printer.end(&mut out);
            out
        });
        Body::whole(whole).holding(body)
    }
}

/// A body that is printed as it is read.
fn printed(body: Body, printer: Printer) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(Some((body, printer)), |state| async move {
        let (mut body, mut printer) = state?;
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let mut out = vec![];
        let data = frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
        let rest = match data {
            Some(data) => {
                printer.push(&data, &mut out);
                Some((body, printer))
            }
            None => {
                printer.end(&mut out);
                None
            }
        };
        Some((out.into(), rest))
    })
}

/// Reads compact JSON, piece by piece, and writes it in another form.
struct Printer {
    style: Style,
    open: Vec<Open>,
    /// What has come of a word: a text with its quotes, a number, `true`, `false` or `null`.
    word: Vec<u8>,
    reading: Reading,
    /// What the next value belongs to.
    place: Place,
}

/// What is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Between,
    Word,
    Text { escaped: bool },
}

/// An object or a list that has begun.
struct Open {
    is_list: bool,
    is_empty: bool,
    /// Whether the next text is a key.
    wants_key: bool,
    indent: usize,
    place: Place,
}

/// Where a value stands in YAML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    AfterKey,
    AfterDash,
}

impl Printer {
    fn new(style: Style) -> Self {
        Printer { style, open: vec![], word: vec![], reading: Reading::Between, place: Place::Top }
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            match self.reading {
                Reading::Text { escaped: true } => {
                    self.word.push(byte);
                    self.reading = Reading::Text { escaped: false };
                }
                Reading::Text { escaped: false } => {
                    self.word.push(byte);
                    match byte {
                        b'\\' => self.reading = Reading::Text { escaped: true },
                        b'"' => self.end_word(out),
                        _ => {}
                    }
                }
                Reading::Word if !matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') => {
                    self.word.push(byte);
                }
                Reading::Word => {
                    self.end_word(out);
                    self.mark(byte, out);
                }
                Reading::Between => self.mark(byte, out),
            }
        }
    }

    /// The document is over.
    fn end(&mut self, out: &mut Vec<u8>) {
        if self.reading == Reading::Word {
            self.end_word(out);
        }
    }

    /// Takes a byte between words.
    fn mark(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'{' | b'[' => self.begin(byte == b'[', out),
            b'}' | b']' => self.close(out),
            b',' => {
                if let Some(open) = self.open.last_mut() {
                    open.wants_key = !open.is_list;
                }
            }
            b'"' => (self.reading, self.word) = (Reading::Text { escaped: false }, vec![byte]),
            b':' | b' ' | b'\n' | b'\r' | b'\t' => {}
            other => (self.reading, self.word) = (Reading::Word, vec![other]),
        }
    }

    fn end_word(&mut self, out: &mut Vec<u8>) {
        self.reading = Reading::Between;
        let word = std::mem::take(&mut self.word);
        match self.open.last_mut() {
            Some(open) if open.wants_key => {
                open.wants_key = false;
                self.item(out);
                self.key(&word, out);
            }
            _ => {
                self.value(out);
                self.scalar(&word, out);
            }
        }
    }

    /// Begins one more key or item on a line of its own.
    fn item(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.last_mut() else { return };
        let is_first = std::mem::take(&mut open.is_empty);
        match self.style {
            Style::Indented => out.extend_from_slice(if is_first { b"\n" } else { b",\n" }),
            Style::Yaml if is_first && open.place == Place::AfterKey => out.push(b'\n'),
            Style::Yaml => {}
        }
        // What is first behind a dash stands there already.
        if self.style == Style::Indented || !is_first || open.place != Place::AfterDash {
            out.resize(out.len() + open.indent, b' ');
        }
    }

    /// A value comes.
    fn value(&mut self, out: &mut Vec<u8>) {
        if self.open.last().is_some_and(|open| open.is_list) {
            self.item(out);
            self.place = Place::AfterDash;
            if self.style == Style::Yaml {
                out.extend_from_slice(b"- ");
            }
        }
    }

    fn begin(&mut self, is_list: bool, out: &mut Vec<u8>) {
        self.value(out);
        let place = self.place;
        let indent = match (self.style, self.open.last()) {
            (Style::Indented, outer) => outer.map_or(0, |outer| outer.indent) + 2,
            (Style::Yaml, None) => 0,
            // Lists of a key stand below it.
            (Style::Yaml, Some(outer)) if is_list && place == Place::AfterKey => outer.indent,
            (Style::Yaml, Some(outer)) => outer.indent + 2,
        };
        if self.style == Style::Indented {
            out.push(if is_list { b'[' } else { b'{' });
        }
        self.open.push(Open { is_list, is_empty: true, wants_key: !is_list, indent, place });
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.pop() else { return };
        let (both, last): (&[u8], u8) = if open.is_list { (b"[]", b']') } else { (b"{}", b'}') };
        match self.style {
            Style::Indented => {
                if !open.is_empty {
                    out.push(b'\n');
                    out.resize(out.len() + open.indent - 2, b' ');
                }
                out.push(last);
            }
            Style::Yaml if open.is_empty => {
                if open.place == Place::AfterKey {
                    out.push(b' ');
                }
                out.extend_from_slice(both);
                out.push(b'\n');
            }
            Style::Yaml => {}
        }
    }

    fn key(&mut self, word: &[u8], out: &mut Vec<u8>) {
        self.place = Place::AfterKey;
        if self.style == Style::Indented {
            out.extend_from_slice(word);
            return out.extend_from_slice(b": ");
        }
        let indent = self.open.last().map_or(0, |open| open.indent);
        let text = quoted(&read_text(word));
        if text.len() > MAX_SIMPLE_KEY {
            out.extend_from_slice(b"? ");
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
            out.resize(out.len() + indent, b' ');
        } else {
            out.extend_from_slice(text.as_bytes());
        }
        out.push(b':');
    }

    fn scalar(&mut self, word: &[u8], out: &mut Vec<u8>) {
        if self.style == Style::Indented {
            return out.extend_from_slice(word);
        }
        if self.place == Place::AfterKey {
            out.push(b' ');
        }
        if !word.starts_with(b"\"") {
            write_number(word, out);
            return out.push(b'\n');
        }
        let text = read_text(word);
        let indent = self.open.last().map_or(0, |open| open.indent) + 2;
        match is_block(&text) {
            true => write_block(&text, indent, out),
            false => {
                out.extend_from_slice(quoted(&text).as_bytes());
                out.push(b'\n');
            }
        }
    }
}

fn read_text(word: &[u8]) -> String {
    serde_json::from_slice(word).unwrap_or_default()
}

/// A text as YAML has it: as it is where that can be nothing else, in quotes otherwise.
fn quoted(text: &str) -> String {
    let begins_well =
        text.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '_' | '/'));
    let is_plain = begins_well
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte))
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_plain {
        return text.to_owned();
    }
    // Texts of JSON are texts of YAML, but for what YAML does not print or takes for the end of a line.
    let json = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match is_printed(c) {
            true => out.push(c),
            false => out.push_str(&format!("\\u{:04x}", c as u32)),
        }
    }
    out
}

/// Whether YAML lets a character stand for itself. Those it does not have four digits at most.
fn is_printed(c: char) -> bool {
    !matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text of several lines can be shown line by line.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(|c| is_printed(c) && (!c.is_control() || matches!(c, '\n' | '\t')))
}

fn write_block(text: &str, indent: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(if text.ends_with('\n') { b"|\n" } else { b"|-\n" });
    for line in text.lines() {
        if !line.is_empty() {
            out.resize(out.len() + indent, b' ');
            out.extend_from_slice(line.as_bytes());
        }
        out.push(b'\n');
    }
}

/// A number, or another word that both have. Readers of YAML want a point before an exponent, and a sign in it.
fn write_number(word: &[u8], out: &mut Vec<u8>) {
    let is_number = word.first().is_some_and(|first| first.is_ascii_digit() || *first == b'-');
    let exponent = word.iter().position(|byte| matches!(byte, b'e' | b'E')).filter(|_| is_number);
    let Some(at) = exponent else { return out.extend_from_slice(word) };
    let (mantissa, exponent) = (&word[..at], &word[at + 1..]);
    out.extend_from_slice(mantissa);
    if !mantissa.contains(&b'.') {
        out.extend_from_slice(b".0");
    }
    out.push(b'e');
    if !exponent.starts_with(b"-") && !exponent.starts_with(b"+") {
        out.push(b'+');
    }
    out.extend_from_slice(exponent);
}
