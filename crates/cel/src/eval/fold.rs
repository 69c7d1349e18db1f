//! Macros that go through lists and maps.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Evaluator, Local};
use crate::{
    ast::FoldKind,
    error::EvalError,
    library::{Outcome, lists},
    node::FoldNode,
    types::Type,
    value::{Key, List, Map, Text, Value, from_json},
};

/// Goes through a range without holding more than one element.
enum Entries<'a> {
    List(List<'a>, usize),
    Json(serde_json::map::Iter<'a>, &'a Type),
    Shared(Arc<Vec<(Key<'a>, Value<'a>)>>, usize),
}

impl<'a> Entries<'a> {
    fn new(range: Value<'a>) -> Result<Self, EvalError> {
        Ok(match range {
            Value::List(list) => Entries::List(list, 0),
            Value::Map(Map::Json(map, ty)) => Entries::Json(map.iter(), ty),
            Value::Map(Map::Shared(entries)) => Entries::Shared(entries, 0),
            other => {
                let name = other.type_name();
                return Err(EvalError::failed(format!("got '{name}', expected iterable type")));
            }
        })
    }

    /// The next key or index, and the next value where it is wanted. Lists have values only, unless both are
    /// wanted; maps have keys only.
    fn next(&mut self, two: bool) -> Result<Option<(Value<'a>, Option<Value<'a>>)>, EvalError> {
        Ok(match self {
            Entries::List(list, next) => {
                if *next >= list.len() {
                    return Ok(None);
                }
                let value = list.get(*next)?;
                let index = Value::Int(*next as i64);
                *next += 1;
                Some(if two { (index, Some(value)) } else { (value, None) })
            }
            Entries::Json(iter, ty) => match next_known(iter, ty) {
                Some((key, json)) => {
                    let value = if two { Some(from_json(json, ty.value_of(key))?) } else { None };
                    Some((Value::String(Text::Borrowed(key)), value))
                }
                None => None,
            },
            Entries::Shared(entries, next) => match entries.get(*next) {
                Some((key, value)) => {
                    *next += 1;
                    Some((key.clone().into_value(), two.then(|| value.clone())))
                }
                None => None,
            },
        })
    }
}

/// The next entry; of an object with known fields, those that are known and set.
fn next_known<'a>(iter: &mut serde_json::map::Iter<'a>, ty: &'a Type) -> Option<(&'a str, &'a Json)> {
    let Type::Struct(structure) = ty else { return iter.next().map(|(key, json)| (&**key, json)) };
    iter.find_map(|(name, json)| {
        let (escaped, _) = structure.field_by_json(name).filter(|_| !json.is_null())?;
        Some((escaped, json))
    })
}

impl<'a> Evaluator<'a, '_> {
    pub(super) fn fold(&mut self, node: &'a FoldNode) -> Outcome<'a> {
        let range = self.eval(&node.range)?;
        self.charge(node.what.price().once)?;
        match node.what {
            FoldKind::All => self.decide(node, range, false),
            FoldKind::Exists => self.decide(node, range, true),
            FoldKind::ExistsOne => self.exists_one(node, range),
            FoldKind::Map | FoldKind::Filter => self.collect(node, range),
            FoldKind::SortBy => self.sort_by(node, range),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => self.transform(node, range),
        }
    }

    /// Calls `step` for each element, with its variables set, until it says that it is enough.
    fn each(
        &mut self,
        node: &'a FoldNode,
        range: Value<'a>,
        mut step: impl FnMut(&mut Self, &Value<'a>) -> Result<bool, EvalError>,
    ) -> Result<(), EvalError> {
        let each = node.what.price().each;
        let mut entries = Entries::new(range)?;
        let height = self.locals.len();
        while let Some((first, second)) = entries.next(node.two)? {
            self.charge(each)?;
            let first = self.noticed(first)?;
            self.locals.push(Local::Value(first.clone()));
            if let Some(second) = second {
                let second = self.noticed(second)?;
                self.locals.push(Local::Value(second));
            }
            let taken = match &node.filter {
                Some(filter) => self.is_true(filter),
                None => Ok(true),
            };
            let enough = match taken {
                Ok(true) => step(self, &first),
                Ok(false) => Ok(false),
                Err(error) => Err(error),
            };
            self.locals.truncate(height);
            if enough? {
                break;
            }
        }
        Ok(())
    }

    fn is_true(&mut self, node: &'a crate::node::Node) -> Result<bool, EvalError> {
        match self.eval(node)? {
            Value::Bool(value) => Ok(value),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// `all` and `exists`: one element that decides is enough, even when others fail.
    fn decide(&mut self, node: &'a FoldNode, range: Value<'a>, decides: bool) -> Outcome<'a> {
        let (mut decided, mut failed) = (false, None);
        self.each(node, range, |this, _| {
            match this.is_true(&node.body) {
                Ok(value) => decided = value == decides,
                Err(error) if error.is_budget() => return Err(error),
                Err(error) => failed = failed.take().or(Some(error)),
            }
            Ok(decided)
        })?;
        match failed {
            Some(error) if !decided => Err(error),
            _ => Ok(Value::Bool(decided == decides)),
        }
    }

    fn exists_one(&mut self, node: &'a FoldNode, range: Value<'a>) -> Outcome<'a> {
        let mut count = 0u64;
        self.each(node, range, |this, _| {
            if this.is_true(&node.body)? {
                this.charge(FoldKind::ExistsOne.price().taken)?;
                count += 1;
            }
            Ok(false)
        })?;
        Ok(Value::Bool(count == 1))
    }

    fn collect(&mut self, node: &'a FoldNode, range: Value<'a>) -> Outcome<'a> {
        let taken = node.what.price().taken;
        let mut values = vec![];
        self.each(node, range, |this, item| {
            match node.what {
                FoldKind::Filter => {
                    if this.is_true(&node.body)? {
                        this.charge(taken)?;
                        values.push(item.clone());
                    }
                }
                _ => {
                    this.charge(taken)?;
                    values.push(this.eval(&node.body)?);
                }
            }
            Ok(false)
        })?;
        Ok(Value::list(values))
    }

    fn sort_by(&mut self, node: &'a FoldNode, range: Value<'a>) -> Outcome<'a> {
        let mut keyed = vec![];
        self.each(node, range, |this, item| {
            this.charge(FoldKind::SortBy.price().taken)?;
            keyed.push((this.eval(&node.body)?, item.clone()));
            Ok(false)
        })?;
        lists::sorted(keyed, &mut self.tools)
    }

    fn transform(&mut self, node: &'a FoldNode, range: Value<'a>) -> Outcome<'a> {
        let taken = node.what.price().taken;
        let mut entries: Vec<(Key<'a>, Value<'a>)> = vec![];
        self.each(node, range, |this, key| {
            this.charge(taken)?;
            let value = this.eval(&node.body)?;
            match (node.what, value) {
                (FoldKind::TransformMap, value) => {
                    let key = Key::from_value(key).ok_or_else(EvalError::no_such_overload)?;
                    entries.push((key, value));
                }
                (_, Value::Map(map)) => {
                    this.charge(map.len() as u64)?;
                    for (key, value) in crate::value::entries(&map) {
                        entries.push((key, value?));
                    }
                }
                _ => return Err(EvalError::no_such_overload()),
            }
            Ok(false)
        })?;
        Ok(Value::Map(Map::from_entries(entries)?))
    }
}
