//! Patterns: regular expressions as Go reads them, matched in time that is linear in the text.
//!
//! Schemas keep the text only, because a compiled expression takes thousands of bytes. Compiled ones are kept for as
//! long as they are among those used last.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use regex_automata::{
    meta::{Config, Regex},
    nfa::thompson::WhichCaptures,
    util::syntax,
};

/// Most bytes of an expression.
const TEXT_MOST: usize = 64 << 10;
/// Most bytes of a compiled expression. Those in use mostly have a few thousand, but `\pL{1,63}` has three million.
const COMPILED_MOST: usize = 8 << 20;
/// Most bytes of all the compiled expressions that are kept.
const KEPT_MOST: usize = 32 << 20;
/// Most times that a part can be said to repeat, as in Go.
const REPEAT_MOST: u32 = 1000;

/// The classes of characters that have names.
const CLASSES: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// How many steps a byte of text is worth.
    weight: u64,
}

impl Pattern {
    /// Whether some part of a text matches.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// How many steps it takes to search a text.
    pub(crate) fn cost(&self, text: &str) -> u64 {
        1 + (text.len() as u64).saturating_mul(self.weight)
    }

    /// How many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.regex.memory_usage()
    }
}

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// The expression in its compiled form, if it is kept.
pub(crate) fn kept(expression: &str) -> Option<Arc<Pattern>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(expression)
}

/// The expression in its compiled form. Making it takes time in proportion to its size.
pub(crate) fn compile(expression: &str) -> Result<Arc<Pattern>, String> {
    if let Some(known) = kept(expression) {
        return Ok(known);
    }
    let pattern = Arc::new(build(expression)?);
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).put(expression, &pattern, KEPT_MOST);
    Ok(pattern)
}

fn build(expression: &str) -> Result<Pattern, String> {
    if expression.len() > TEXT_MOST {
        return Err(format!("it has more than {TEXT_MOST} bytes"));
    }
    let translated = Translation::of(expression)?;
    let config = Config::new()
        .nfa_size_limit(Some(COMPILED_MOST))
        .onepass(false)
        .dfa(false)
        .hybrid_cache_capacity(256 << 10)
        .which_captures(WhichCaptures::None);
    // The text is UTF-8 whatever the expression can match.
    let syntax = syntax::Config::new().utf8(false).nest_limit(200);
    let regex =
        Regex::builder().configure(config).syntax(syntax).build(&translated).map_err(|error| match error
            .size_limit()
        {
            Some(_) => "it is too large when it is compiled".to_owned(),
            None => one_line(&error),
        })?;
    let weight = 1 + regex.memory_usage() as u64 / (4 << 10);
    Ok(Pattern { regex, weight })
}

/// The last line of the messages of an error: the others draw a picture.
fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    last.trim().trim_start_matches("error: ").to_owned()
}

/// Compiled expressions, and when each was last used.
#[derive(Default)]
pub(super) struct Kept {
    known: HashMap<Box<str>, (Arc<Pattern>, u64)>,
    bytes: usize,
    uses: u64,
}

impl Kept {
    pub(super) fn get(&mut self, expression: &str) -> Option<Arc<Pattern>> {
        self.uses += 1;
        let (pattern, used) = self.known.get_mut(expression)?;
        *used = self.uses;
        Some(Arc::clone(pattern))
    }

    /// Keeps one more, and drops those that were not used for longest if they have more bytes than that together.
    pub(super) fn put(&mut self, expression: &str, pattern: &Arc<Pattern>, most: usize) {
        if self.known.insert(expression.into(), (Arc::clone(pattern), self.uses)).is_none() {
            self.bytes += expression.len() + pattern.size();
        }
        while self.bytes > most && self.known.len() > 1 {
            let oldest = self.known.iter().min_by_key(|(_, (_, used))| *used).map(|(text, _)| text.clone());
            let Some((text, (pattern, _))) = oldest.and_then(|text| self.known.remove_entry(&text)) else {
                return;
            };
            self.bytes -= text.len() + pattern.size();
        }
    }
}

/// From the syntax of Go to that of the engine.
struct Translation<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    out: String,
}

/// Something in a class of characters.
enum Member {
    One(char),
    /// Many, as they are written for the engine.
    Many(String),
}

impl<'a> Translation<'a> {
    fn of(expression: &'a str) -> Result<String, String> {
        let out = String::with_capacity(expression.len());
        let mut translation = Translation { rest: expression.chars().peekable(), out };
        while let Some(c) = translation.rest.next() {
            translation.element(c)?;
        }
        Ok(translation.out)
    }

    fn element(&mut self, c: char) -> Result<(), String> {
        match c {
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => self.group()?,
            '{' => self.repetition()?,
            '}' | ']' => self.literal(c),
            c => self.out.push(c),
        }
        Ok(())
    }

    fn literal(&mut self, c: char) {
        match c.is_ascii_alphanumeric() || !c.is_ascii() {
            true => self.out.push(c),
            false => write!(self.out, "\\x{{{:X}}}", u32::from(c)).expect("writing to memory cannot fail"),
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.rest.peek() {
            Some('Q') => {
                self.rest.next();
                self.quoted();
            }
            Some('b') => self.boundary(r"(?-u:\b)"),
            Some('B') => self.boundary(r"(?-u:\B)"),
            Some('A') => self.boundary(r"\A"),
            Some('z') => self.boundary(r"\z"),
            _ => match self.escaped()? {
                Member::One(c) => self.literal(c),
                Member::Many(many) => {
                    self.out.push('[');
                    self.out.push_str(&many);
                    self.out.push(']');
                }
            },
        }
        Ok(())
    }

    fn boundary(&mut self, written: &str) {
        self.rest.next();
        self.out.push_str(written);
    }

    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return;
            }
            self.literal(c);
        }
    }

    /// What stands after a backslash, in a class or not.
    fn escaped(&mut self) -> Result<Member, String> {
        let Some(c) = self.rest.next() else {
            return Err("trailing backslash at end of expression".to_owned());
        };
        Ok(match c {
            'd' => Member::Many("0-9".to_owned()),
            'D' => Member::Many("[^0-9]".to_owned()),
            's' => Member::Many(r"\t\n\f\r\x20".to_owned()),
            'S' => Member::Many(r"[^\t\n\f\r\x20]".to_owned()),
            'w' => Member::Many("0-9A-Za-z_".to_owned()),
            'W' => Member::Many("[^0-9A-Za-z_]".to_owned()),
            'p' | 'P' => Member::Many(self.category(c)?),
            'a' => Member::One('\x07'),
            'f' => Member::One('\x0c'),
            'n' => Member::One('\n'),
            'r' => Member::One('\r'),
            't' => Member::One('\t'),
            'v' => Member::One('\x0b'),
            'x' => Member::One(self.hexadecimal()?),
            '0'..='7' => Member::One(self.octal(c)?),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Member::One(c),
            c => return Err(format!("invalid escape sequence: `\\{c}`")),
        })
    }

    fn category(&mut self, p: char) -> Result<String, String> {
        let mut written = format!("\\{p}");
        match self.rest.next() {
            Some('{') => {
                written.push('{');
                loop {
                    match self.rest.next() {
                        Some('}') => break,
                        Some(c) if c.is_ascii_alphanumeric() || "_^".contains(c) => written.push(c),
                        _ => return Err("invalid character class range".to_owned()),
                    }
                }
                written.push('}');
            }
            Some(c) if c.is_ascii_alphabetic() => written.push(c),
            _ => return Err("invalid character class range".to_owned()),
        }
        Ok(written)
    }

    fn hexadecimal(&mut self) -> Result<char, String> {
        let wrong = || "invalid escape sequence: `\\x`".to_owned();
        let is_braced = self.rest.next_if_eq(&'{').is_some();
        let mut digits = String::new();
        let most = if is_braced { 8 } else { 2 };
        while digits.len() < most
            && let Some(c) = self.rest.next_if(char::is_ascii_hexdigit)
        {
            digits.push(c);
        }
        if digits.is_empty() || is_braced && self.rest.next() != Some('}') || !is_braced && digits.len() < 2 {
            return Err(wrong());
        }
        u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).ok_or_else(wrong)
    }

    fn octal(&mut self, first: char) -> Result<char, String> {
        let is_octal = |c: &char| ('0'..='7').contains(c);
        // A digit by itself would refer to a group.
        if first != '0' && !self.rest.peek().is_some_and(is_octal) {
            return Err(format!("invalid escape sequence: `\\{first}`"));
        }
        let mut number = first.to_digit(8).unwrap_or_default();
        for _ in 0..2 {
            let Some(digit) = self.rest.next_if(is_octal) else { break };
            number = number * 8 + digit.to_digit(8).unwrap_or_default();
        }
        char::from_u32(number).ok_or_else(|| "invalid escape sequence".to_owned())
    }

    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(c) = self.rest.next() else { return Err("missing closing ]".to_owned()) };
            if c == ']' && !is_first {
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            match self.member(c)? {
                Member::Many(many) => self.out.push_str(&many),
                Member::One(from) => self.range(from)?,
            }
        }
    }

    fn member(&mut self, c: char) -> Result<Member, String> {
        match c {
            '\\' => self.escaped(),
            '[' if self.rest.peek() == Some(&':') => {
                let ahead: String = self.rest.clone().skip(1).take_while(|c| *c != ':').take(20).collect();
                let name = ahead.strip_prefix('^').unwrap_or(&ahead);
                let is_closed = self.rest.clone().skip(2 + ahead.chars().count()).take(1).eq([']']);
                if !is_closed {
                    return Ok(Member::One('['));
                }
                if !CLASSES.contains(&name) {
                    return Err(format!("invalid character class range: `[:{ahead}:]`"));
                }
                self.rest.nth(2 + ahead.len());
                Ok(Member::Many(format!("[:{ahead}:]")))
            }
            c => Ok(Member::One(c)),
        }
    }

    fn range(&mut self, from: char) -> Result<(), String> {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || ahead.next().is_none_or(|c| c == ']') {
            self.literal(from);
            return Ok(());
        }
        self.rest.next();
        let wrong = || "invalid character class range".to_owned();
        let next = self.rest.next().ok_or_else(wrong)?;
        match if next == '\\' { self.escaped()? } else { Member::One(next) } {
            Member::One(to) if from <= to => {
                self.literal(from);
                self.out.push('-');
                self.literal(to);
                Ok(())
            }
            _ => Err(wrong()),
        }
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('P'), Some('<')) => {
                self.rest.next();
                self.out.push_str("?P");
            }
            (Some('<'), Some(c)) if c != '=' && c != '!' => self.out.push_str("?P"),
            _ => {
                self.out.push('?');
                let mut flags = String::new();
                loop {
                    match self.rest.next() {
                        Some(c @ ('i' | 'm' | 's' | 'U' | '-')) => flags.push(c),
                        Some(c @ (':' | ')')) => {
                            flags.push(c);
                            break;
                        }
                        other => {
                            flags.extend(other);
                            return Err(format!("invalid or unsupported Perl syntax: `(?{flags}`"));
                        }
                    }
                }
                self.out.push_str(&flags);
            }
        }
        Ok(())
    }

    /// A count of repetitions; what does not look like one is meant as it is.
    fn repetition(&mut self) -> Result<(), String> {
        let inside: String = self.rest.clone().take_while(|c| *c != '}').take(12).collect();
        let is_closed = self.rest.clone().nth(inside.len()) == Some('}');
        let (least, most) = inside.split_once(',').unwrap_or((&inside, &inside));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_closed || !is_number(least) || !(most.is_empty() || is_number(most)) {
            self.literal('{');
            return Ok(());
        }
        for number in [least, most] {
            if !number.is_empty() && !number.parse::<u32>().is_ok_and(|number| number <= REPEAT_MOST) {
                return Err(format!("invalid repeat count: `{{{inside}}}`"));
            }
        }
        self.rest.nth(inside.len());
        write!(self.out, "{{{inside}}}").expect("writing to memory cannot fail");
        Ok(())
    }
}
