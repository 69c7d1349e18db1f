//! Reading paths.

use serde_json::Value;

use super::{Filter, JsonPath, Operand, Operator, Slice, Step};

/// Most bytes of a path.
const TEXT_MOST: usize = 4 << 10;
/// How deep filters and unions may be nested in each other.
const DEPTH_MOST: usize = 8;

pub(super) fn path(text: &str) -> Result<JsonPath, String> {
    if text.len() > TEXT_MOST {
        return Err(format!("must have at most {TEXT_MOST} bytes"));
    }
    let text = text.trim();
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    steps(inside, 0)
}

fn steps(text: &str, depth: usize) -> Result<JsonPath, String> {
    if depth > DEPTH_MOST {
        return Err("nested too deeply".to_owned());
    }
    let mut rest = text.trim();
    rest = rest.strip_prefix(['$', '@']).unwrap_or(rest);
    let mut steps = vec![];
    while !rest.is_empty() {
        rest = if let Some(after) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Descent) {
                return Err("invalid multiple recursive descent".to_owned());
            }
            steps.push(Step::Descent);
            match after.starts_with(['[', '.']) || after.is_empty() {
                true => after,
                false => field(after, &mut steps)?,
            }
        } else if let Some(after) = rest.strip_prefix('.') {
            match after.is_empty() || after.starts_with('[') {
                true => after,
                false => field(after, &mut steps)?,
            }
        } else if let Some(after) = rest.strip_prefix("[?(") {
            filter(after, &mut steps, depth)?
        } else if let Some(after) = rest.strip_prefix('[') {
            brackets(after, &mut steps)?
        } else {
            let shown = rest.chars().next().unwrap_or_default();
            return Err(format!("unrecognized character in action: {shown:?}"));
        };
    }
    Ok(JsonPath { steps: steps.into() })
}

/// A field, up to what cannot be part of its name; a backslash makes anything part of it.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> Result<&'a str, String> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let end = loop {
        match chars.next() {
            Some((_, '\\')) => name.extend(chars.next().map(|(_, c)| c)),
            Some((at, c)) if c.is_whitespace() || ".,[]$@{}".contains(c) => break at,
            Some((_, c)) => name.push(c),
            None => break text.len(),
        }
    };
    steps.push(match name.as_str() {
        "" => return Err("a field has no name".to_owned()),
        "*" => Step::Wildcard,
        name => Step::Field(name.into()),
    });
    Ok(text[end..].trim_start())
}

/// An index, a slice, a key or several of them.
fn brackets<'a>(text: &'a str, steps: &mut Vec<Step>) -> Result<&'a str, String> {
    let (parts, after) = split_brackets(text)?;
    let mut members = parts.iter().map(|part| bracket(part.trim())).collect::<Result<Vec<Step>, String>>()?;
    match members.len() {
        1 => steps.append(&mut members),
        _ => {
            let paths = members.into_iter().map(|member| JsonPath { steps: [member].into() });
            steps.push(Step::Union(paths.collect()));
        }
    }
    Ok(after)
}

/// What is between the brackets, cut at the commas outside of quotes, and what comes after.
fn split_brackets(text: &str) -> Result<(Vec<&str>, &str), String> {
    let (mut parts, mut begin, mut quote, mut escaped) = (vec![], 0, None, false);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            (',', None) => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            (']', None) => {
                parts.push(&text[begin..at]);
                return Ok((parts, &text[at + 1..]));
            }
            _ => {}
        }
    }
    Err("unterminated array".to_owned())
}

fn bracket(text: &str) -> Result<Step, String> {
    if text == "*" {
        return Ok(Step::Wildcard);
    }
    if let Some(key) = quoted(text) {
        return Ok(Step::Field(key.into()));
    }
    let wrong = || format!("invalid array index {text}");
    let number = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<i64>().map(Some).map_err(|_| wrong()),
    };
    let parts = text.split(':').map(number).collect::<Result<Vec<Option<i64>>, String>>()?;
    let slice = match parts[..] {
        [Some(index)] => Slice { from: index, to: None, step: 1, is_index: true },
        [from, to] => Slice { from: from.unwrap_or(0), to, step: 1, is_index: false },
        [from, to, step] => {
            let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0).ok_or_else(wrong)?;
            Slice { from: from.unwrap_or(0), to, step, is_index: false }
        }
        _ => return Err(wrong()),
    };
    Ok(Step::Slice(slice))
}

/// The text in quotes, if it is in quotes.
fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| "'\"".contains(*c))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut key = String::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => key.extend(chars.next()),
            c if c == quote => return None,
            c => key.push(c),
        }
    }
    Some(key)
}

fn filter<'a>(text: &'a str, steps: &mut Vec<Step>, depth: usize) -> Result<&'a str, String> {
    let (inside, after) = split_filter(text)?;
    let after = after.strip_prefix(']').ok_or("unclosed array expect ]")?;
    let operator_at = find_outside_quotes(inside, |c| "!<>=".contains(c));
    let filter = match operator_at {
        None => Filter { left: self::steps(inside, depth + 1)?, right: None },
        Some(at) => {
            let (left, rest) = inside.split_at(at);
            let end = rest.find(|c| !"!<>=".contains(c)).unwrap_or(rest.len());
            let operator = match &rest[..end] {
                "==" => Operator::Equal,
                "!=" => Operator::NotEqual,
                "<" => Operator::Less,
                "<=" => Operator::LessOrEqual,
                ">" => Operator::Greater,
                ">=" => Operator::GreaterOrEqual,
                other => return Err(format!("unrecognized filter operator {other}")),
            };
            let right = operand(rest[end..].trim(), depth)?;
            Filter { left: self::steps(left, depth + 1)?, right: Some((operator, right)) }
        }
    };
    steps.push(Step::Filter(Box::new(filter)));
    Ok(after)
}

fn operand(text: &str, depth: usize) -> Result<Operand, String> {
    if let Some(text) = quoted(text) {
        return Ok(Operand::Literal(text.into()));
    }
    if text.starts_with(['@', '$', '.']) {
        return Ok(Operand::Path(steps(text, depth + 1)?));
    }
    match serde_json::from_str::<Value>(text.strip_prefix('+').unwrap_or(text)) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => Ok(Operand::Literal(value)),
        _ => Err(format!("cannot compare with {text}")),
    }
}

/// What is before the parenthesis that closes the filter, and what comes after it.
fn split_filter(text: &str) -> Result<(&str, &str), String> {
    let mut open = 1;
    let end = find_outside_quotes(text, |c| {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        open == 0
    });
    let end = end.ok_or("unterminated filter")?;
    Ok((&text[..end], &text[end + 1..]))
}

fn find_outside_quotes(text: &str, mut wanted: impl FnMut(char) -> bool) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            (c, None) if wanted(c) => return Some(at),
            _ => {}
        }
    }
    None
}
