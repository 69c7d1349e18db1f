//! Types that are still being looked for, and which type may stand for which.

use std::sync::Arc;

use crate::types::{Declared, ListType, MapType, Type, Unknown};

/// What was found out so far. Attempts can be taken back.
#[derive(Default)]
pub(super) struct Unknowns {
    found: Vec<Option<Type>>,
    /// What was there before each change.
    trail: Vec<(u32, Option<Type>)>,
}

/// A point to go back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    trail: usize,
    found: usize,
}

impl Unknowns {
    /// New unknowns; the number of the first.
    pub(super) fn fresh(&mut self, count: u32) -> u32 {
        let first = self.found.len() as u32;
        self.found.resize(self.found.len() + count as usize, None);
        first
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { trail: self.trail.len(), found: self.found.len() }
    }

    /// Forgets what was found since.
    pub(super) fn back(&mut self, mark: Mark) {
        while self.trail.len() > mark.trail {
            if let Some((number, before)) = self.trail.pop() {
                self.found[number as usize] = before;
            }
        }
        // Nothing that is left refers to those that came since.
        self.found.truncate(mark.found);
    }

    fn bind(&mut self, number: u32, ty: Type) {
        let before = self.found[number as usize].replace(ty);
        self.trail.push((number, before));
    }

    /// What a type is known to be, without looking inside.
    pub(super) fn shallow(&self, ty: &Type) -> Type {
        let mut ty = ty;
        while let Type::Unknown(Unknown(number)) = ty {
            match &self.found[*number as usize] {
                Some(found) => ty = found,
                None => break,
            }
        }
        ty.clone()
    }

    /// The type with everything known filled in; what is not becomes dynamic when `finish` is set.
    pub(super) fn apply(&self, ty: &Type, finish: bool) -> Type {
        if !has_unknown(ty) {
            return ty.clone();
        }
        match ty {
            Type::Unknown(_) => match self.shallow(ty) {
                Type::Unknown(_) if finish => Type::Dyn,
                unknown @ Type::Unknown(_) => unknown,
                found => self.apply(&found, finish),
            },
            Type::List(list) => {
                let item = Declared { ty: self.apply(&list.item.ty, finish), ..list.item.clone() };
                Type::List(Arc::new(ListType { item, kind: list.kind.clone() }))
            }
            Type::Map(map) => {
                let value = Declared { ty: self.apply(&map.value.ty, finish), ..map.value.clone() };
                Type::Map(Arc::new(MapType { key: self.apply(&map.key, finish), value }))
            }
            Type::Optional(of) => Type::optional(self.apply(of, finish)),
            Type::Type(of) => Type::Type(Arc::new(self.apply(of, finish))),
            other => other.clone(),
        }
    }

    /// Whether `from` may stand where `to` is asked for. What this takes is remembered.
    pub(super) fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        if let Type::Unknown(Unknown(number)) = to
            && let Some(found) = self.found[*number as usize].clone()
            && !matches!(found, Type::Unknown(_))
        {
            // Something dynamic makes all of it dynamic.
            let dynamic = self.shallow(from) == Type::Dyn && found != Type::Dyn;
            if dynamic {
                self.bind(*number, Type::Dyn);
                return true;
            }
            return self.assignable(&found, from);
        }
        match (self.shallow(to), self.shallow(from)) {
            (Type::Unknown(one), Type::Unknown(two)) if one == two => true,
            (Type::Unknown(Unknown(number)), other) | (other, Type::Unknown(Unknown(number))) => {
                let fits = !self.contains(&other, number);
                if fits {
                    self.bind(number, other);
                }
                fits
            }
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::List(one), Type::List(two)) => self.assignable(&one.item.ty, &two.item.ty),
            (Type::Map(one), Type::Map(two)) => {
                self.assignable(&one.key, &two.key) && self.assignable(&one.value.ty, &two.value.ty)
            }
            (Type::Optional(one), Type::Optional(two)) => self.assignable(&one, &two),
            // Types of all types can be compared.
            (Type::Type(_), Type::Type(_)) => true,
            (one, two) => one == two,
        }
    }

    /// Whether an unknown is a part of a type, so that it cannot stand for it.
    fn contains(&self, ty: &Type, number: u32) -> bool {
        match self.shallow(ty) {
            Type::Unknown(Unknown(other)) => other == number,
            Type::List(list) => self.contains(&list.item.ty, number),
            Type::Map(map) => self.contains(&map.key, number) || self.contains(&map.value.ty, number),
            Type::Optional(of) | Type::Type(of) => self.contains(&of, number),
            _ => false,
        }
    }
}

fn has_unknown(ty: &Type) -> bool {
    match ty {
        Type::Unknown(_) => true,
        Type::List(list) => has_unknown(&list.item.ty),
        Type::Map(map) => has_unknown(&map.key) || has_unknown(&map.value.ty),
        Type::Optional(of) | Type::Type(of) => has_unknown(of),
        _ => false,
    }
}

/// A type of a signature, with its parameters numbered from `first`.
pub(super) fn instantiate(ty: &Type, first: u32) -> Type {
    if !has_unknown(ty) {
        return ty.clone();
    }
    match ty {
        Type::Unknown(Unknown(number)) => Type::Unknown(Unknown(first + number)),
        Type::List(list) => Type::list(instantiate(&list.item.ty, first)),
        Type::Map(map) => Type::map(instantiate(&map.key, first), instantiate(&map.value.ty, first)),
        Type::Optional(of) => Type::optional(instantiate(of, first)),
        Type::Type(of) => Type::Type(Arc::new(instantiate(of, first))),
        other => other.clone(),
    }
}
