//! `allOf`, `anyOf`, `oneOf` and `not`.

use super::{Subject, Walk};
use crate::{
    field::Fault,
    structural::{
        Shape,
        compact::{Id, Span},
        place::Place,
    },
};

/// What came of trying an alternative.
struct Outcome {
    n_faults: usize,
    n_fits: usize,
}

impl Walk<'_> {
    pub(super) fn all_of(
        &mut self,
        shape: Shape<'_>,
        all: Span,
        subject: Subject<'_>,
        old: Option<Subject<'_>>,
        place: &Place<'_>,
    ) {
        let (mut n_valid, ids) = (0, Self::ids(shape, all));
        for id in ids {
            let before = self.n_faults;
            self.subject(shape.at(*id), subject, old, place);
            n_valid += usize::from(self.n_faults == before);
        }
        if n_valid < ids.len() {
            let none = if n_valid == 0 { ". None validated" } else { "" };
            self.fault(Fault::Invalid, place, "\"\"", || {
                format!("{:?} must validate all the schemas (allOf){none}", place.to_string())
            });
        }
    }

    pub(super) fn any_of(&mut self, shape: Shape<'_>, any: Span, subject: Subject<'_>, place: &Place<'_>) {
        let mut best: Option<(Id, Outcome)> = None;
        for id in Self::ids(shape, any) {
            let outcome = self.attempt(shape.at(*id), subject, place);
            if outcome.n_faults == 0 {
                self.n_fits += outcome.n_fits;
                return;
            }
            if best.as_ref().is_none_or(|(_, best)| outcome.n_fits > best.n_fits) {
                best = Some((*id, outcome));
            }
        }
        self.fault(Fault::Invalid, place, "\"\"", || {
            format!("{:?} must validate at least one schema (anyOf)", place.to_string())
        });
        self.tell_best(shape, best, subject, place);
    }

    pub(super) fn one_of(&mut self, shape: Shape<'_>, one: Span, subject: Subject<'_>, place: &Place<'_>) {
        let (mut n_valid, mut best): (usize, Option<(Id, Outcome)>) = (0, None);
        for id in Self::ids(shape, one) {
            let outcome = self.attempt(shape.at(*id), subject, place);
            if outcome.n_faults == 0 {
                n_valid += 1;
                self.n_fits += outcome.n_fits;
            } else if best.as_ref().is_none_or(|(_, best)| outcome.n_fits > best.n_fits) {
                best = Some((*id, outcome));
            }
        }
        if n_valid == 1 {
            return;
        }
        self.fault(Fault::Invalid, place, "\"\"", || {
            let found = match n_valid {
                0 => "Found none valid".to_owned(),
                n_valid => format!("Found {n_valid} valid alternatives"),
            };
            format!("{:?} must validate one and only one schema (oneOf). {found}", place.to_string())
        });
        self.tell_best(shape, best.filter(|_| n_valid == 0), subject, place);
    }

    pub(super) fn not(&mut self, shape: Shape<'_>, not: Id, subject: Subject<'_>, place: &Place<'_>) {
        let outcome = self.attempt(shape.at(not), subject, place);
        match outcome.n_faults {
            0 => self.fault(Fault::Invalid, place, "\"\"", || {
                format!("{:?} must not validate the schema (not)", place.to_string())
            }),
            _ => self.n_fits += 1,
        }
    }

    /// Holds what a place has against an alternative without telling anyone.
    fn attempt(&mut self, shape: Shape<'_>, subject: Subject<'_>, place: &Place<'_>) -> Outcome {
        let (was_silent, n_faults, n_fits) = (self.is_silent, self.n_faults, self.n_fits);
        self.is_silent = true;
        self.subject(shape, subject, None, place);
        let outcome = Outcome { n_faults: self.n_faults - n_faults, n_fits: self.n_fits - n_fits };
        (self.is_silent, self.n_faults, self.n_fits) = (was_silent, n_faults, n_fits);
        outcome
    }

    /// Tells why the alternative that fits best does not.
    fn tell_best(
        &mut self,
        shape: Shape<'_>,
        best: Option<(Id, Outcome)>,
        subject: Subject<'_>,
        place: &Place<'_>,
    ) {
        if let Some((id, _)) = best.filter(|_| !self.is_silent) {
            self.subject(shape.at(id), subject, None, place);
        }
    }
}
