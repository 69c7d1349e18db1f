//! Reading of fields and elements.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::Evaluator;
use crate::{
    error::EvalError,
    escape::unescape,
    library::Outcome,
    node::{FieldNode, IndexNode, Node},
    types::Type,
    value::{Key, List, Map, Value, from_json},
};

impl<'a> Evaluator<'a, '_> {
    pub(super) fn field(&mut self, node: &'a FieldNode) -> Outcome<'a> {
        if let Node::Variable(slot) = &node.operand
            && let Some(outcome) = self.deferred(*slot as usize, &node.name)
        {
            self.charge(2)?;
            return match (outcome, node.optional) {
                (Ok(value), true) => Ok(Value::some(value)),
                (outcome, _) => outcome,
            };
        }
        let operand = self.eval(&node.operand)?;
        self.charge(1)?;
        let (operand, optional) = match operand {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(value)) => (value.as_ref().clone(), true),
            value => (value, node.optional),
        };
        match (self.find_field(&operand, node)?, optional) {
            (Some(value), true) => Ok(Value::some(value)),
            (Some(value), false) => Ok(value),
            (None, true) => Ok(Value::NONE),
            (None, false) => Err(EvalError::no_such_key(&node.name)),
        }
    }

    fn find_field(
        &mut self,
        operand: &Value<'a>,
        node: &'a FieldNode,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let found = match (operand, &node.known) {
            (Value::Map(Map::Json(map, _)), Some(known)) => match map.get(&*known.json) {
                None | Some(Json::Null) => None,
                Some(json) => Some(from_json(json, &known.declared)?),
            },
            (Value::Map(map), _) => map.field(&node.name)?,
            (Value::Object(object), _) => object.get(&plain(&node.name)).cloned(),
            _ => None,
        };
        found.map(|value| self.noticed(value)).transpose()
    }

    pub(super) fn has(&mut self, node: &'a FieldNode) -> Outcome<'a> {
        if let Node::Variable(slot) = &node.operand
            && let Some(known) = self.has_deferred(*slot as usize, &node.name)
        {
            return Ok(Value::Bool(known));
        }
        let operand = match self.eval(&node.operand)? {
            Value::Optional(None) => return Ok(Value::Bool(false)),
            Value::Optional(Some(value)) => value.as_ref().clone(),
            value => value,
        };
        Ok(Value::Bool(match (&operand, &node.known) {
            (Value::Map(Map::Json(map, _)), Some(known)) => {
                map.get(&*known.json).is_some_and(|json| !json.is_null())
            }
            (Value::Map(Map::Json(map, Type::Struct(structure))), _) => structure
                .field(&node.name)
                .and_then(|field| map.get(&*field.json))
                .is_some_and(|json| !json.is_null()),
            (Value::Map(Map::Json(map, _)), _) => map.contains_key(&*node.name),
            (Value::Map(map), _) => map.field(&node.name)?.is_some(),
            (Value::Object(object), _) => object.get(&plain(&node.name)).is_some(),
            _ => false,
        }))
    }

    pub(super) fn index(&mut self, node: &'a IndexNode) -> Outcome<'a> {
        let operand = self.eval(&node.operand)?;
        let index = self.eval(&node.index)?;
        self.charge(1)?;
        let (operand, optional) = match operand {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(value)) => (value.as_ref().clone(), true),
            value => (value, node.optional),
        };
        let found = match &operand {
            Value::List(list) => at(list, &index)?,
            Value::Map(map) => {
                let key = Key::from_value(&index).ok_or_else(EvalError::no_such_overload)?;
                map.get(&key)?
            }
            _ => None,
        };
        let found = found.map(|value| self.noticed(value)).transpose()?;
        match (found, optional) {
            (Some(value), true) => Ok(Value::some(value)),
            (Some(value), false) => Ok(value),
            (None, true) => Ok(Value::NONE),
            (None, false) => Err(missing(&operand, &index)),
        }
    }
}

/// The name of a field of an object that was made, which has its fields by their plain names.
fn plain(name: &str) -> Cow<'_, str> {
    unescape(name).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// The element at an index, which may be any kind of whole number.
fn at<'a>(list: &List<'a>, index: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
    let index = match index {
        Value::Int(index) => usize::try_from(*index).ok(),
        Value::Uint(index) => usize::try_from(*index).ok(),
        Value::Double(index) if index.fract() == 0.0 && (0.0..1e15).contains(index) => Some(*index as usize),
        Value::Double(index) => {
            return Err(EvalError::failed(format!("unsupported index value {index} in list")));
        }
        _ => return Err(EvalError::no_such_overload()),
    };
    index.filter(|index| *index < list.len()).map(|index| list.get(index)).transpose()
}

fn missing(operand: &Value<'_>, index: &Value<'_>) -> EvalError {
    let shown = match index {
        Value::String(text) => crate::error::shown(text).to_owned(),
        other => Key::from_value(other).map(|key| key.to_string()).unwrap_or_default(),
    };
    match operand {
        Value::List(_) => EvalError::failed(format!("index out of bounds: {shown}")),
        _ => EvalError::no_such_key(shown),
    }
}
