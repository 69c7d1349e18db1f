//! Checking of macros that bind variables.

use super::{Checked, Checker, LIST_COST, Local, MAP_COST, MOST_NESTED, declared_size};
use crate::{
    ast::{Expr, Fold, FoldKind},
    cost::Size,
    node::{FoldNode, Node, OptMapNode},
    types::{Declared, Type},
};

/// What a macro costs beyond what its parts cost. Kubernetes arrives at these numbers by expanding macros
/// into loops; we have no such loops, but the same prices.
#[derive(Clone, Copy)]
pub(crate) struct Price {
    /// Once, and by the estimate alone: the empty list or map to begin with, which is made only once.
    pub(crate) begin: u64,
    /// Once.
    pub(crate) once: u64,
    /// For each element.
    pub(crate) each: u64,
    /// For each element that is taken.
    pub(crate) taken: u64,
}

impl FoldKind {
    pub(crate) const fn price(self) -> Price {
        match self {
            FoldKind::All => Price { begin: 0, once: 1, each: 3, taken: 0 },
            FoldKind::Exists => Price { begin: 0, once: 1, each: 4, taken: 0 },
            FoldKind::ExistsOne => Price { begin: 1, once: 1, each: 1, taken: 1 },
            FoldKind::Map => Price { begin: LIST_COST, once: 1, each: 1, taken: 11 },
            FoldKind::Filter => Price { begin: LIST_COST, once: 1, each: 1, taken: 12 },
            FoldKind::SortBy => Price { begin: LIST_COST, once: 1, each: 1, taken: 11 },
            FoldKind::TransformMap => Price { begin: MAP_COST, once: 1, each: 1, taken: 2 },
            FoldKind::TransformMapEntry => Price { begin: MAP_COST, once: 1, each: 1, taken: 2 },
        }
    }
}

impl Checker<'_> {
    fn with_locals<T>(
        &mut self,
        at: u32,
        locals: impl IntoIterator<Item = Local>,
        check: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        if self.nested == MOST_NESTED {
            self.fault(at, format!("comprehensions are nested more than {MOST_NESTED} deep"));
            return None;
        }
        let before = self.locals.len();
        self.locals.extend(locals);
        self.nested += 1;
        let outcome = check(self);
        self.nested -= 1;
        self.locals.truncate(before);
        Some(outcome)
    }

    /// What a range has: the type and size of its keys or indexes, and of its values.
    fn entries_of(&mut self, at: u32, range: &Type) -> Option<[(Type, Size); 2]> {
        let dynamic = (Type::Dyn, Size::UNKNOWN);
        Some(match self.unknowns.shallow(range) {
            Type::List(list) => {
                [(Type::Int, Size::exactly(1)), (list.item.ty.clone(), declared_size(&list.item))]
            }
            Type::Map(map) => {
                // The length of keys is not weighed, as no schema bounds it.
                [(map.key.clone(), Size::at_most(0)), (map.value.ty.clone(), declared_size(&map.value))]
            }
            unknown @ Type::Unknown(_) => {
                self.unknowns.assignable(&unknown, &Type::Dyn);
                [dynamic.clone(), dynamic]
            }
            Type::Dyn => [dynamic.clone(), dynamic],
            Type::Error => return None,
            other => {
                let other = self.unknowns.apply(&other, true);
                let rest = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.fault(at, format!("expression of type '{other}' {rest}"));
                return None;
            }
        })
    }

    pub(super) fn fold(&mut self, at: u32, fold: &Fold) -> Checked {
        let range = self.check(&fold.range);
        let Some([key, value]) = self.entries_of(fold.range.at, &range.ty) else {
            return Checked::error();
        };
        let is_map = matches!(self.unknowns.shallow(&range.ty), Type::Map(_));
        let local =
            |name: &str, (ty, size): &(Type, Size)| Local { name: name.into(), ty: ty.clone(), size: *size };
        let locals = match &fold.second {
            Some(second) => vec![local(&fold.first, &key), local(second, &value)],
            // With one variable, maps are gone through by key.
            None => vec![local(&fold.first, if is_map { &key } else { &value })],
        };
        let item = locals.last().map(|local| (local.ty.clone(), local.size)).unwrap_or(value);
        let parts = self.with_locals(at, locals, |checker| {
            let filter = fold.filter.as_ref().map(|filter| checker.predicate(filter));
            let body = match fold.what {
                FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter => {
                    checker.predicate(&fold.body)
                }
                _ => checker.check(&fold.body),
            };
            (filter, body)
        });
        let Some((filter, body)) = parts else { return Checked::error() };
        let Some((ty, size)) = self.fold_type(fold, &range, &key.0, &item, &body) else {
            return Checked::error();
        };
        let price = fold.what.price();
        let filter_cost = filter.as_ref().map_or(0, |filter| filter.cost);
        let each = body.cost.saturating_add(filter_cost).saturating_add(price.each + price.taken);
        let cost = range
            .size
            .most
            .saturating_mul(each)
            .saturating_add(range.cost)
            .saturating_add(price.begin + price.once);
        let node = FoldNode {
            what: fold.what,
            range: range.node,
            two: fold.second.is_some(),
            filter: filter.map(|filter| filter.node),
            body: body.node,
        };
        Checked { node: Node::Fold(Box::new(node)), ty, size, cost }
    }

    /// The type and size of what a macro comes to.
    fn fold_type(
        &mut self,
        fold: &Fold,
        range: &Checked,
        key: &Type,
        item: &(Type, Size),
        body: &Checked,
    ) -> Option<(Type, Size)> {
        let size = Size::at_most(range.size.most);
        let of = |ty: &Type, size: Size| Declared { most: size.most, ..Declared::from(ty.clone()) };
        Some(match fold.what {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => (Type::Bool, Size::exactly(1)),
            FoldKind::Map => (Type::list(of(&body.ty, body.size)), size),
            FoldKind::Filter => (Type::list(of(&item.0, item.1)), size),
            FoldKind::TransformMap => (Type::map(key.clone(), of(&body.ty, body.size)), size),
            FoldKind::TransformMapEntry => match self.unknowns.shallow(&body.ty) {
                map @ Type::Map(_) => (map, size),
                Type::Dyn => (Type::Dyn, size),
                Type::Error => return None,
                other => {
                    let expected = Type::map(Type::Dyn, Type::Dyn);
                    self.mismatch(fold.body.at, &expected, &other);
                    return None;
                }
            },
            FoldKind::SortBy => match self.unknowns.shallow(&range.ty) {
                Type::List(_) | Type::Dyn => (range.ty.clone(), size),
                other => {
                    self.mismatch(fold.range.at, &Type::list(Type::Dyn), &other);
                    return None;
                }
            },
        })
    }

    pub(super) fn predicate(&mut self, expr: &Expr) -> Checked {
        let checked = self.check(expr);
        if !self.unknowns.assignable(&Type::Bool, &checked.ty) {
            return self.mismatch(expr.at, &Type::Bool, &checked.ty);
        }
        checked
    }

    pub(super) fn bind(&mut self, at: u32, variable: &str, init: &Expr, body: &Expr) -> Checked {
        let init = self.check(init);
        let local = Local { name: variable.into(), ty: init.ty.clone(), size: init.size };
        let Some(body) = self.with_locals(at, [local], |checker| checker.check(body)) else {
            return Checked::error();
        };
        // The empty list that the macro goes through in Kubernetes.
        let cost = init.cost.saturating_add(body.cost).saturating_add(LIST_COST);
        Checked { node: Node::Bind(Box::new([init.node, body.node])), ty: body.ty, size: body.size, cost }
    }

    pub(super) fn opt_map(
        &mut self,
        at: u32,
        target: &Expr,
        variable: &str,
        body: &Expr,
        flat: bool,
    ) -> Checked {
        let target_at = target.at;
        let target = self.check(target);
        let inner = self.inner_of(target_at, &target.ty);
        let local = Local { name: variable.into(), ty: inner, size: target.size };
        let body_at = body.at;
        let Some(body) = self.with_locals(at, [local], |checker| checker.check(body)) else {
            return Checked::error();
        };
        let ty = match flat {
            false => Type::optional(body.ty),
            true => {
                let inner = self.inner_of(body_at, &body.ty);
                Type::optional(inner)
            }
        };
        let cost = target.cost.saturating_add(body.cost).saturating_add(LIST_COST + 2);
        let node = Node::OptMap(Box::new(OptMapNode { target: target.node, body: body.node, flat }));
        Checked { node, ty, size: body.size, cost }
    }
}
