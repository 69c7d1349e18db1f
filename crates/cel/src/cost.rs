//! What calls cost: when they run, and at most, before they run.
//!
//! One table serves both, so that they agree. The factors are those of Kubernetes: a tenth for a character or
//! element gone through, a quarter for a character of a regular expression.

use crate::{
    types::Type,
    value::{List, Value},
};

/// How large a value is: characters, bytes, elements or entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Size {
    pub(crate) const UNKNOWN: Size = Size { least: 0, most: u64::MAX };

    pub(crate) const fn exactly(size: u64) -> Size {
        Size { least: size, most: size }
    }

    pub(crate) const fn at_most(most: u64) -> Size {
        Size { least: 0, most }
    }

    pub(crate) fn plus(self, other: Size) -> Size {
        Size { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    /// What holds for both.
    pub(crate) fn or(self, other: Size) -> Size {
        Size { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// What is known about an argument before it is there.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) ty: Type,
    pub(crate) size: Size,
}

/// What a call costs. Numbers name arguments, the receiver being the first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    /// One step.
    One,
    /// One step, however long the text; going through a very long one is noticed when it runs.
    Scan(usize),
    /// A traversal.
    Tenth(usize),
    /// A traversal, and as much again to build the result.
    Fifth(usize),
    /// One for each element.
    Length(usize),
    /// One for each element, and a traversal of each that is a text.
    Elements(usize),
    /// A traversal of the shorter of two.
    Shorter,
    /// A traversal of both.
    Both,
    /// Looking for one text in another.
    Search,
    /// Matching a text against a regular expression.
    Regex,
    /// Putting texts together.
    Join,
    /// Each element of one list against each of another.
    Pairs,
    /// Holding a text against a format, which has a regular expression behind it.
    Validate,
    /// Comparing addresses, one of which may still have to be read.
    Net,
    /// Reading a selector.
    Selector,
    /// As many elements as the argument says.
    Range,
    /// A fixed price.
    Fixed(u64),
}

pub(crate) fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

fn regex(text: u64, pattern: u64) -> u64 {
    // An empty text does not make an expensive expression cheap.
    tenth(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// The longest regular expression behind a format.
const FORMAT_PATTERN: u64 = 128;
/// Bytes of an address, twice.
const ADDRESSES: u64 = 4;

fn selector(size: u64) -> u64 {
    // A list of requirements, each of two characters at least, with a list of values.
    10u64.saturating_add(tenth(size)).saturating_add((size / 2).saturating_mul(50))
}

impl Cost {
    /// The price of matching a text against a pattern, by their lengths.
    pub(crate) fn regex(text: u64, pattern: u64) -> u64 {
        regex(text, pattern)
    }

    /// The price of a call that is about to run.
    pub(crate) fn now(self, args: &[Value<'_>]) -> u64 {
        let size = |at: usize| args.get(at).map_or(0, Value::size);
        match self {
            Cost::One => 1,
            Cost::Scan(at) => 1 + size(at) / 1000,
            Cost::Tenth(at) => tenth(size(at)),
            Cost::Fifth(at) => tenth(size(at) * 2),
            Cost::Length(at) => size(at),
            Cost::Elements(at) => args.get(at).map_or(1, elements),
            Cost::Shorter => tenth(size(0).min(size(1))),
            Cost::Both => tenth(size(0) + size(1)),
            Cost::Search => tenth(size(0)).saturating_mul(tenth(size(1))),
            Cost::Regex => regex(size(0), size(1)),
            Cost::Join => {
                let separators = size(1).saturating_mul(size(0).saturating_sub(1));
                tenth(args.first().map_or(0, |list| elements(list) * 10).saturating_add(separators) * 2)
            }
            Cost::Pairs => size(0).saturating_mul(size(1)).saturating_add(1),
            Cost::Validate => regex(size(1), FORMAT_PATTERN),
            Cost::Net => ADDRESSES + tenth(size(1)),
            Cost::Selector => selector(size(1)),
            Cost::Range => match args.first() {
                Some(Value::Int(count)) => 10u64.saturating_add(u64::try_from(*count).unwrap_or(0)),
                _ => 1,
            },
            Cost::Fixed(cost) => cost,
        }
    }

    /// The highest price a call can have.
    pub(crate) fn most(self, args: &[Operand]) -> u64 {
        let most = |at: usize| args.get(at).map_or(0, |arg| arg.size.most);
        match self {
            Cost::One | Cost::Scan(_) => 1,
            Cost::Tenth(at) => tenth(most(at)),
            Cost::Fifth(at) => most(at).div_ceil(5),
            Cost::Length(at) => most(at),
            Cost::Elements(at) => args.get(at).map_or(1, elements_at_most),
            Cost::Shorter => tenth(most(0).min(most(1))),
            Cost::Both => tenth(most(0).saturating_add(most(1))),
            Cost::Search => tenth(most(0)).saturating_mul(tenth(most(1))),
            Cost::Regex => regex(most(0), most(1)),
            Cost::Join => tenth(joined(args).most),
            Cost::Pairs => most(0).saturating_mul(most(1)).saturating_add(1),
            Cost::Validate => tenth(most(1)).saturating_mul(FORMAT_PATTERN / 4),
            Cost::Net => {
                let text = args.get(1).is_some_and(|arg| arg.ty == Type::String);
                ADDRESSES + if text { tenth(most(1)) } else { 0 }
            }
            Cost::Selector => selector(most(1)),
            Cost::Range => 10,
            Cost::Fixed(cost) => cost,
        }
    }
}

/// One for each element, and a tenth for each byte of those that are texts.
fn elements(value: &Value<'_>) -> u64 {
    let Value::List(list) = value else { return tenth(value.size()) };
    let texts: u64 = match list {
        List::Json(items, _) => {
            items.iter().filter_map(|item| item.as_str()).map(|text| text.len() as u64).sum()
        }
        List::Shared(items) => items.iter().filter_map(Value::as_str).map(|text| text.len() as u64).sum(),
    };
    list.len() as u64 + tenth(texts)
}

fn elements_at_most(arg: &Operand) -> u64 {
    let Type::List(list) = &arg.ty else { return tenth(arg.size.most) };
    let each = match list.item.ty {
        Type::String | Type::Bytes => 1 + tenth(list.item.most),
        _ => 1,
    };
    arg.size.most.saturating_mul(each)
}

/// The size of texts put together.
fn joined(args: &[Operand]) -> Size {
    let Some(Operand { ty, size }) = args.first() else { return Size::UNKNOWN };
    let text = match ty {
        Type::List(list) => list.item.most,
        _ => u64::MAX,
    };
    let separator = args.get(1).map_or(0, |arg| arg.size.most);
    let separators = separator.saturating_mul(size.most.saturating_sub(1));
    Size::at_most(size.most.saturating_mul(text).saturating_add(separators))
}

/// How large the result of a call is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grows {
    /// Nobody knows; a scalar is of size one.
    Unknown,
    /// As large as an argument at most.
    Like(usize),
    /// As large as two together.
    Both,
    /// As many times an argument at most.
    Times(usize, u64),
    /// What replacing leaves.
    Replace,
    /// The pieces of a text.
    Split,
    /// Texts put together.
    Join,
    /// Never more than this.
    AtMost(u64),
}

impl Grows {
    pub(crate) fn size(self, args: &[Operand], result: &Type) -> Size {
        let size = |at: usize| args.get(at).map_or(Size::UNKNOWN, |arg| arg.size);
        match self {
            Grows::Unknown if result.is_scalar() => Size::exactly(1),
            Grows::Unknown => Size::UNKNOWN,
            Grows::Like(at) => Size::at_most(size(at).most),
            Grows::Both => size(0).plus(size(1)),
            Grows::Times(at, times) => Size::at_most(size(at).most.saturating_mul(times).saturating_add(2)),
            Grows::Replace => replaced(size(0), size(1), size(2)),
            Grows::Split => Size::at_most(size(0).most),
            Grows::Join => joined(args),
            Grows::AtMost(most) => Size::at_most(most),
        }
    }
}

fn replaced(text: Size, from: Size, to: Size) -> Size {
    if from.least == 0 {
        // Nothing is found everywhere: before every character, and at the end.
        let inserted = text.most.saturating_add(1).saturating_mul(to.most);
        return Size::at_most(inserted.saturating_add(text.most));
    }
    if to.most <= from.least {
        return Size::at_most(text.most);
    }
    Size::at_most(text.most.div_ceil(from.least).saturating_mul(to.most))
}
