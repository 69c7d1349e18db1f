//! Splits an expression into tokens.

use std::sync::Arc;

use crate::{error::CompileError, literal};

/// The longest expression that is read. Kubernetes' own fields allow no more in practice, and every later
/// step is bounded by it.
pub(crate) const MOST_BYTES: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Ident(Box<str>),
    /// The digits of an integer; the sign is the parser's.
    Int(u64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Symbol(&'static str),
    End,
}

/// The longer symbols come first, so that the first that fits is right.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

/// The tokens with the byte each begins at; the last is [`Token::End`].
pub(crate) fn tokens(source: &str) -> Result<Vec<(Token, u32)>, CompileError> {
    if source.len() > MOST_BYTES {
        let message =
            format!("expression code size exceeds limit: size: {}, limit {MOST_BYTES}", source.len());
        return Err(CompileError::new(source, 0, message));
    }
    let mut tokens = vec![];
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if matches!(first, ' ' | '\t' | '\n' | '\r' | '\x0c') {
            at += 1;
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (token, len) =
            token(rest, first).map_err(|message| CompileError::new(source, at as u32, message))?;
        tokens.push((token, at as u32));
        at += len;
    }
    tokens.push((Token::End, source.len() as u32));
    Ok(tokens)
}

/// The token at the beginning of a text, and its length.
fn token(rest: &str, first: char) -> Result<(Token, usize), String> {
    if let Some((quoted, len)) = literal::quoted(rest)? {
        return Ok((quoted, len));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        return Ok((Token::Ident(rest[..len].into()), len));
    }
    let second = rest.as_bytes().get(1).copied().unwrap_or(0);
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        return number(rest);
    }
    SYMBOLS
        .iter()
        .find(|symbol| rest.starts_with(**symbol))
        .map(|symbol| (Token::Symbol(symbol), symbol.len()))
        .ok_or_else(|| format!("Syntax error: token recognition error at: '{first}'"))
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let bytes = rest.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    if rest.starts_with("0x") || rest.starts_with("0X") {
        let len = 2 + bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        return integer(&rest[2..len], 16, rest, len);
    }
    let mut len = digits(0);
    let mut double = false;
    if bytes.get(len) == Some(&b'.') && digits(len + 1) > 0 {
        len += 1 + digits(len + 1);
        double = true;
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent = if len + 1 + sign <= bytes.len() { digits(len + 1 + sign) } else { 0 };
        if exponent > 0 {
            len += 1 + sign + exponent;
            double = true;
        }
    }
    if !double {
        return integer(&rest[..len], 10, rest, len);
    }
    match rest[..len].parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Token::Double(value), len)),
        _ => Err("invalid double literal".to_owned()),
    }
}

/// An integer of `len` bytes, or one more when it is marked as unsigned.
fn integer(digits: &str, radix: u32, rest: &str, len: usize) -> Result<(Token, usize), String> {
    let unsigned = matches!(rest.as_bytes().get(len), Some(b'u' | b'U'));
    match (u64::from_str_radix(digits, radix), unsigned) {
        (Ok(value), true) => Ok((Token::Uint(value), len + 1)),
        (Ok(value), false) => Ok((Token::Int(value), len)),
        (Err(_), true) => Err("invalid uint literal".to_owned()),
        (Err(_), false) => Err("invalid int literal".to_owned()),
    }
}
