//! Strings and bytes as they are written: prefixes, quotes and escapes.

use crate::lexer::Token;

const QUOTES: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];

/// The string or bytes at the beginning of a text, and the length of the token; `None` when there is none.
pub(crate) fn quoted(text: &str) -> Result<Option<(Token, usize)>, String> {
    let (mut raw, mut bytes, mut start) = (false, false, 0);
    for byte in text.bytes().take(2) {
        match byte {
            b'r' | b'R' if !raw => raw = true,
            b'b' | b'B' if !bytes && !raw => bytes = true,
            _ => break,
        }
        start += 1;
    }
    let Some(quote) = QUOTES.iter().find(|quote| text[start..].starts_with(**quote)) else {
        return Ok(None);
    };
    let inner = &text[start + quote.len()..];
    let end = find_end(inner, quote, raw).ok_or("Syntax error: unterminated string literal")?;
    let len = start + end + 2 * quote.len();
    let inner = &inner[..end];
    let token = match (bytes, raw) {
        (false, true) => Token::String(inner.into()),
        (true, true) => Token::Bytes(inner.as_bytes().into()),
        (false, false) => Token::String(unescape_string(inner)?.into()),
        (true, false) => Token::Bytes(unescape_bytes(inner)?.into()),
    };
    Ok(Some((token, len)))
}

/// Where the closing quote is.
fn find_end(inner: &str, quote: &str, raw: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &inner[at..];
        if rest.starts_with(quote) {
            return Some(at);
        }
        let first = rest.chars().next()?;
        if quote.len() == 1 && matches!(first, '\n' | '\r') {
            return None;
        }
        at += first.len_utf8();
        if first == '\\' && !raw {
            at += inner[at..].chars().next()?.len_utf8();
        }
    }
}

/// What an escape stands for.
enum Escape {
    /// A code point, or a byte where bytes are written.
    Number(u32),
    /// A code point only.
    CodePoint(u32),
}

/// The escape after a backslash, and its length.
fn escape(rest: &str) -> Result<(Escape, usize), String> {
    let invalid = || "unable to unescape string".to_owned();
    let number = |from: usize, len: usize, radix: u32| {
        let digits = rest.get(from..from + len).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        digits.and_then(|digits| u32::from_str_radix(digits, radix).ok()).ok_or_else(invalid)
    };
    let first = rest.chars().next().ok_or_else(invalid)?;
    let simple = match first {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => first as u32,
        'x' | 'X' => return Ok((Escape::Number(number(1, 2, 16)?), 3)),
        'u' => return Ok((Escape::CodePoint(number(1, 4, 16)?), 5)),
        'U' => return Ok((Escape::CodePoint(number(1, 8, 16)?), 9)),
        '0'..='3' => return Ok((Escape::Number(number(0, 3, 8)?), 3)),
        _ => return Err(invalid()),
    };
    Ok((Escape::Number(simple), 1))
}

fn unescape_string(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let (escape, len) = escape(&rest[at + 1..])?;
        let (Escape::Number(code) | Escape::CodePoint(code)) = escape;
        plain.push(char::from_u32(code).ok_or("invalid unicode code point")?);
        rest = &rest[at + 1 + len..];
    }
    plain.push_str(rest);
    Ok(plain)
}

fn unescape_bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.extend_from_slice(&rest.as_bytes()[..at]);
        let (escape, len) = escape(&rest[at + 1..])?;
        match escape {
            Escape::Number(byte) => plain.push(byte as u8),
            Escape::CodePoint(_) => return Err("\\u is not allowed in bytes".to_owned()),
        }
        rest = &rest[at + 1 + len..];
    }
    plain.extend_from_slice(rest.as_bytes());
    Ok(plain)
}
