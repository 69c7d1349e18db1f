//! JSONPath as kubectl and printer columns write it: `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Fields, keys in quotes, indices, slices, unions, wildcards, filters and recursive descent are understood.
//! Where the object is not as the path expects, there is nothing to find; that is never an error.

mod parse;

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::object::Object;

/// Most values that are followed at a time. Columns show the first of them, so that this only stops paths that
/// fan out again and again.
const FOUND_MOST: usize = 10_000;

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Box<[Step]>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(Box<str>),
    Wildcard,
    /// All that is below, and the value itself.
    Descent,
    Slice(Slice),
    Union(Box<[JsonPath]>),
    Filter(Box<Filter>),
}

/// Some entries of a list, counted from its end where negative.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    from: i64,
    /// `None`: to the end.
    to: Option<i64>,
    step: usize,
    /// Whether it is about one entry.
    is_index: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    /// `None`: the left side must only be there.
    right: Option<(Operator, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    Path(JsonPath),
}

impl JsonPath {
    /// Reads a path, in braces or not.
    pub fn compile(text: &str) -> Result<Self, String> {
        parse::path(text)
    }

    /// What is found in an object, in the order it is there.
    pub fn find<'a>(&self, object: &'a Object) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.follow(Spot::Root(object)).into_iter().filter_map(|spot| match spot {
            Spot::Root(_) => None,
            Spot::Value(value) => Some(value),
        })
    }

    fn follow<'a>(&self, from: Spot<'a>) -> Vec<Spot<'a>> {
        let mut spots = vec![from];
        for step in &*self.steps {
            let mut next = vec![];
            for spot in spots {
                step.take(spot, &mut next);
                if next.len() > FOUND_MOST {
                    next.truncate(FOUND_MOST);
                    break;
                }
            }
            spots = next;
        }
        spots
    }
}

/// Where a path has led to.
#[derive(Clone, Copy)]
enum Spot<'a> {
    Root(&'a Object),
    Value(&'a Value),
}

impl<'a> Spot<'a> {
    fn map(self) -> Option<&'a Object> {
        match self {
            Spot::Root(map) => Some(map),
            Spot::Value(value) => value.as_object(),
        }
    }

    fn list(self) -> Option<&'a [Value]> {
        match self {
            Spot::Root(_) => None,
            Spot::Value(value) => value.as_array().map(Vec::as_slice),
        }
    }

    fn below(self) -> impl Iterator<Item = &'a Value> {
        let values = self.map().into_iter().flat_map(Object::values);
        values.chain(self.list().into_iter().flatten())
    }

    /// Adds all maps and lists from here on.
    fn descend(self, found: &mut Vec<Spot<'a>>) {
        if found.len() > FOUND_MOST || self.map().is_none() && self.list().is_none() {
            return;
        }
        found.push(self);
        self.below().for_each(|value| Spot::Value(value).descend(found));
    }
}

impl Step {
    fn take<'a>(&self, spot: Spot<'a>, found: &mut Vec<Spot<'a>>) {
        match self {
            Step::Field(name) => {
                found.extend(spot.map().and_then(|map| map.get(&**name)).map(Spot::Value));
            }
            Step::Wildcard => found.extend(spot.below().take(FOUND_MOST).map(Spot::Value)),
            Step::Descent => spot.descend(found),
            Step::Slice(slice) => {
                found.extend(spot.list().into_iter().flat_map(|list| slice.of(list)).map(Spot::Value));
            }
            Step::Union(paths) => found.extend(paths.iter().flat_map(|path| path.follow(spot))),
            Step::Filter(filter) => {
                let entries = spot.list().into_iter().flatten();
                found.extend(entries.filter(|entry| filter.takes(entry)).map(Spot::Value));
            }
        }
    }
}

impl Slice {
    fn of<'a>(&self, list: &'a [Value]) -> impl Iterator<Item = &'a Value> + use<'a> {
        let len = i64::try_from(list.len()).unwrap_or(i64::MAX);
        let from_start = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
        let from = from_start(self.from);
        let to = match (self.is_index, self.to) {
            (true, _) => from.saturating_add(1),
            (false, to) => to.map_or(len, from_start).min(len),
        };
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        let end = usize::try_from(to).unwrap_or(0);
        list.get(start..end.min(list.len())).unwrap_or_default().iter().step_by(self.step)
    }
}

impl Filter {
    fn takes(&self, entry: &Value) -> bool {
        let left = self.left.follow(Spot::Value(entry));
        let Some((operator, operand)) = &self.right else { return !left.is_empty() };
        let [Spot::Value(left)] = left[..] else { return false };
        match operand {
            Operand::Literal(right) => operator.holds(left, right),
            Operand::Path(path) => match path.follow(Spot::Value(entry))[..] {
                [Spot::Value(right)] => operator.holds(left, right),
                _ => false,
            },
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => compare(left, right),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) if left == right => Some(Ordering::Equal),
            (Value::Bool(_), Value::Bool(_)) => return self == Operator::NotEqual,
            _ => None,
        };
        let Some(order) = order else { return false };
        match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// The names in a path that is only fields, such as `.spec.replicas`: what the paths of a scale subresource and of
/// selectable fields are. `None` if it does not begin with a dot, or has an empty name.
pub fn fields(path: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = path.strip_prefix('.')?.split('.').collect();
    names.iter().all(|name| !name.is_empty() && !name.contains(['[', ']'])).then_some(names)
}

#[cfg(test)]
mod tests;
