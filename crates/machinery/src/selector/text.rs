//! The text of a label selector, as it stands in a query: words first, then requirements. Linear in its length.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError};
use crate::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    In,
    NotIn,
    Word,
}

const SYMBOLS: [(&str, Token); 9] = [
    // The longer ones come first, so that they are not taken for two.
    ("==", Token::DoubleEquals),
    ("!=", Token::NotEquals),
    ("=", Token::Equals),
    ("!", Token::Not),
    ("(", Token::Open),
    (")", Token::Close),
    (",", Token::Comma),
    (">", Token::Greater),
    ("<", Token::Less),
];

/// Reads the requirements in the order they are written.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut words = Words { rest: text };
    let mut requirements = vec![];
    loop {
        match words.peek() {
            (Token::End, _) => return Ok(requirements),
            (Token::Not | Token::Word, _) => {}
            (_, found) => return expected(found, "!, identifier, or 'end of string'"),
        }
        let requirement = words.requirement();
        requirements.push(
            requirement
                .map_err(|error| SelectorError(format!("unable to parse requirement: {}", error.0)))?,
        );
        match words.take() {
            (Token::End, _) => return Ok(requirements),
            (Token::Comma, _) => {
                if let (token, found) = words.peek()
                    && !matches!(token, Token::Not | Token::Word)
                {
                    return expected(found, "identifier after ','");
                }
            }
            (_, found) => return expected(found, "',' or 'end of string'"),
        }
    }
}

fn expected<T>(found: &str, what: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{found}', expected: {what}")))
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The next word where `in` and `notin` are nothing special: keys and values.
    fn take(&mut self) -> (Token, &'a str) {
        match self.take_any() {
            (Token::In | Token::NotIn, text) => (Token::Word, text),
            other => other,
        }
    }

    fn peek(&mut self) -> (Token, &'a str) {
        Words { rest: self.rest }.take()
    }

    fn take_any(&mut self) -> (Token, &'a str) {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let symbol = SYMBOLS.iter().find(|(symbol, _)| text.starts_with(symbol));
        let (token, len) = match symbol {
            Some((symbol, token)) => (*token, symbol.len()),
            None if text.is_empty() => (Token::End, 0),
            None => {
                let is_end =
                    |c| matches!(c, ' ' | '\t' | '\r' | '\n' | '=' | '!' | '(' | ')' | ',' | '>' | '<');
                (Token::Word, text.find(is_end).unwrap_or(text.len()))
            }
        };
        let (word, rest) = text.split_at(len);
        self.rest = rest;
        match (token, word) {
            (Token::Word, "in") => (Token::In, word),
            (Token::Word, "notin") => (Token::NotIn, word),
            _ => (token, word),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut key) = self.take();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take();
        }
        if token != Token::Word {
            return expected(key, "identifier");
        }
        let faults = names::qualified(key);
        if !faults.is_empty() {
            return Err(SelectorError(format!("<nil>: Invalid value: {key:?}: {}", faults.join("; "))));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, vec![]);
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, vec![]);
        }
        let operator = match self.take_any() {
            (Token::In, _) => Operator::In,
            (Token::NotIn, _) => Operator::NotIn,
            (Token::Equals, _) => Operator::Equals,
            (Token::DoubleEquals, _) => Operator::DoubleEquals,
            (Token::NotEquals, _) => Operator::NotEquals,
            (Token::Greater, _) => Operator::GreaterThan,
            (Token::Less, _) => Operator::LessThan,
            (_, found) => return expected(found, "in, notin, =, ==, !=, gt, lt"),
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?.to_owned()],
        };
        Requirement::new(key, operator, values)
    }

    /// The value after `=`, which may be missing.
    fn value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok("");
        }
        match self.take() {
            (Token::Word, value) => Ok(value),
            (_, found) => expected(found, "identifier"),
        }
    }

    /// The values in parentheses, any of which may be missing, as a sorted set.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        let (token, found) = self.take();
        if token != Token::Open {
            return Err(SelectorError(format!("found '{found}' expected: '('")));
        }
        match self.peek() {
            (Token::Word | Token::Comma | Token::Close, _) => {}
            (_, found) => return expected(found, "',', ')' or identifier"),
        }
        let mut values = BTreeSet::new();
        let mut value = "";
        loop {
            match self.take() {
                (Token::Word, word) => {
                    value = word;
                    if let (token, found) = self.peek()
                        && !matches!(token, Token::Comma | Token::Close)
                    {
                        return expected(found, "',' or ')'");
                    }
                }
                (Token::Comma, _) => {
                    values.insert(std::mem::take(&mut value).to_owned());
                }
                (Token::Close, _) => {
                    values.insert(value.to_owned());
                    return Ok(values.into_iter().collect());
                }
                (_, found) => return expected(found, "',', or identifier"),
            }
        }
    }
}
