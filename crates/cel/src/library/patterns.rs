//! Regular expressions: `matches`, `find`, `findAll`.
//!
//! They are those of Go (RE2), run by an engine that takes time linear in the text. The pattern is translated
//! where the dialects differ: `\d`, `\w`, `\s` and `\b` are of ASCII, brackets within brackets are plain.
//! Compiled patterns are bounded in size; one that is not a literal costs as much as it takes to compile.

use std::iter::Peekable;
use std::str::CharIndices;

use regex::{Regex, RegexBuilder};

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::{EvalError, shown},
    value::{Text, Value},
};

pub(super) const ROWS: &[Row] = &[
    ("string::matches(string)->bool", matches, Cost::Regex, Grows::Unknown),
    ("matches(string,string)->bool", matches, Cost::Regex, Grows::Unknown),
    ("string::find(string)->string", find, Cost::Regex, Grows::Like(0)),
    ("string::findAll(string)->list(string)", find_all, Cost::Regex, Grows::Split),
    ("string::findAll(string,int)->list(string)", find_all, Cost::Regex, Grows::Split),
];

/// Bytes of a compiled pattern, such as nearly all have. Making one takes well under a millisecond.
const USUAL_SIZE: usize = 1 << 16;
/// Bytes of a large pattern, which is allowed but counts as many.
const MOST_SIZE: usize = 1 << 19;
const LARGE_WEIGHT: u32 = 10;
/// Bytes of a pattern that is not a literal, as many of them may be made.
const MOST_DYNAMIC_SIZE: usize = 1 << 15;
/// Bytes of what the engine remembers for speed.
const MOST_CACHE: usize = 1 << 17;
const MOST_NESTING: u32 = 100;
/// What the compilation of a pattern costs that is not a literal.
const COMPILATION: u64 = 4_000;
/// How many such patterns one expression keeps.
const MOST_KEPT: usize = 8;

/// The patterns compiled while an expression runs.
#[derive(Default)]
pub(crate) struct Patterns {
    kept: Vec<(Box<str>, Regex)>,
}

/// Compiles a pattern that is written in the expression; also says how many patterns it counts as.
pub(crate) fn compile(pattern: &str) -> Result<(Regex, u32), String> {
    match build(pattern, USUAL_SIZE) {
        Ok(regex) => Ok((regex, 1)),
        Err(why) if why == TOO_LARGE => Ok((build(pattern, MOST_SIZE)?, LARGE_WEIGHT)),
        Err(why) => Err(why),
    }
}

const TOO_LARGE: &str = "expression is too large";

fn build(pattern: &str, size: usize) -> Result<Regex, String> {
    let translated = translate(pattern);
    let built = RegexBuilder::new(&translated)
        .size_limit(size)
        .dfa_size_limit(MOST_CACHE)
        .nest_limit(MOST_NESTING)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => TOO_LARGE.to_owned(),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    })
}

impl Tools<'_> {
    /// A pattern that is known only now.
    fn pattern(&mut self, pattern: &str) -> Result<Regex, EvalError> {
        if let Some((_, regex)) = self.patterns.kept.iter().find(|(text, _)| **text == *pattern) {
            return Ok(regex.clone());
        }
        self.budget.charge(COMPILATION + pattern.len() as u64)?;
        let regex = build(pattern, MOST_DYNAMIC_SIZE)
            .map_err(|why| EvalError::failed(format!("error parsing regexp: {why}: `{}`", shown(pattern))))?;
        if self.patterns.kept.len() == MOST_KEPT {
            self.patterns.kept.remove(0);
        }
        self.patterns.kept.push((pattern.into(), regex.clone()));
        Ok(regex)
    }
}

fn matches<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return mismatch() };
    let regex = tools.pattern(pattern)?;
    Ok(Value::Bool(regex.is_match(text)))
}

fn find<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return mismatch() };
    Ok(found(&tools.pattern(pattern)?, text))
}

fn find_all<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return mismatch(),
    };
    let regex = tools.pattern(pattern)?;
    all_found(&regex, text, limit, tools)
}

/// The first match, or the empty text.
pub(crate) fn found<'a>(regex: &Regex, text: &Text<'a>) -> Value<'a> {
    match regex.find(text) {
        Some(found) => super::convert::slice(text, found.start(), found.end()),
        None => Value::String(Text::Borrowed("")),
    }
}

/// All matches, or as many as asked for.
pub(crate) fn all_found<'a>(
    regex: &Regex,
    text: &Text<'a>,
    limit: i64,
    tools: &mut Tools<'_>,
) -> Outcome<'a> {
    let mut all = vec![];
    for found in regex.find_iter(text).take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        tools.budget.charge(1)?;
        all.push(super::convert::slice(text, found.start(), found.end()));
    }
    Ok(Value::list(all))
}

/// A pattern of Go in the dialect of the engine.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        match character {
            '\\' => escape(pattern, &mut rest, &mut out, false),
            '[' => class(pattern, &mut rest, &mut out),
            // What is not a repetition is a brace.
            '{' if !is_repetition(&pattern[at..]) => out.push_str("\\{"),
            _ => out.push(character),
        }
    }
    out
}

fn is_repetition(text: &str) -> bool {
    let Some(end) = text.find('}') else { return false };
    let mut parts = text[1..end].splitn(2, ',');
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    parts.next().is_some_and(|least| !least.is_empty() && digits(least)) && parts.next().is_none_or(digits)
}

/// What follows a backslash.
fn escape(pattern: &str, rest: &mut Peekable<CharIndices<'_>>, out: &mut String, in_class: bool) {
    let Some((at, character)) = rest.next() else {
        out.push('\\');
        return;
    };
    match character {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'B' if !in_class => out.push_str("(?-u:\\B)"),
        '<' | '>' => out.push(character),
        'Q' => {
            let quoted = &pattern[at + 1..];
            let end = quoted.find("\\E").unwrap_or(quoted.len());
            out.push_str(&regex::escape(&quoted[..end]));
            while rest.next_if(|(next, _)| *next < at + 1 + (end + 2).min(quoted.len())).is_some() {}
        }
        _ => {
            out.push('\\');
            out.push(character);
            // The name of a class of characters, or a number.
            if matches!(character, 'p' | 'P' | 'x') && pattern[at + 1..].starts_with('{') {
                let end = at + 2 + pattern[at + 1..].find('}').unwrap_or(0);
                while let Some((_, next)) = rest.next_if(|(next, _)| *next < end) {
                    out.push(next);
                }
            }
        }
    }
}

/// A class in brackets; what has a meaning there only to the engine is escaped.
fn class(pattern: &str, rest: &mut Peekable<CharIndices<'_>>, out: &mut String) {
    out.push('[');
    if rest.next_if(|(_, next)| *next == '^').is_some() {
        out.push('^');
    }
    // A closing bracket that comes first is meant as such.
    if rest.next_if(|(_, next)| *next == ']').is_some() {
        out.push_str("\\]");
    }
    while let Some((at, character)) = rest.next() {
        match character {
            ']' => {
                out.push(']');
                return;
            }
            '\\' => escape(pattern, rest, out, true),
            '[' if pattern[at..].starts_with("[:") && pattern[at..].contains(":]") => {
                let end = at + pattern[at..].find(":]").unwrap_or(0) + 2;
                out.push_str(&pattern[at..end]);
                while rest.next_if(|(next, _)| *next < end).is_some() {}
            }
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(character);
            }
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_go() {
        for (pattern, yes, no) in [
            (r"^\d+$", "123", "١٢٣"),
            (r"^\w+$", "a_1", "é"),
            (r"^\s$", "\t", "\u{a0}"),
            (r"^\W$", "é", "a"),
            (r"\bfoo\b", "a foo b", "afoob"),
            (r"^[\d.]+$", "1.5", "1a"),
            (r"^[^\w]$", "-", "a"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[[]$", "[", "]"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[[:alpha:]]+$", "ab", "1"),
            (r"^a{2}$", "aa", "a"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^{x}$", "{x}", "x"),
            (r"^\Qa.b\E+$", "a.bb", "axb"),
            (r"^a\/b\-c$", "a/b-c", "a-b"),
            (r"^\<a\>$", "<a>", "a"),
            (r"(?i)^abc$", "ABC", "abd"),
            (r"^.$", "é", "\n"),
            (r"^\p{Greek}+$", "αβγ", "abc"),
            (r"^\x41\x{42}$", "AB", "ab"),
            ("^é$", "é", "e"),
            ("a$", "a", "a\n"),
        ] {
            let (regex, _) = compile(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert!(regex.is_match(yes), "{pattern} matches {yes}");
            assert!(!regex.is_match(no), "{pattern} does not match {no}");
        }
    }

    #[test]
    fn patterns_that_are_wrong_or_too_large_are_refused() {
        for pattern in ["(", "[", r"\", "a{1000}{1000}{1000}", "(?=a)", r"(a)\1"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
        assert!(compile(&format!("{}a{}", "(".repeat(500), ")".repeat(500))).is_err());
    }
}
