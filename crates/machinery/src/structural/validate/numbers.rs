//! Numbers: limits and multiples. Integers are compared exactly, however large they are.

use std::cmp::Ordering;

use serde_json::Number;

use super::{Walk, said};
use crate::{field::Fault, structural::place::Place};

impl Walk<'_> {
    pub(super) fn maximum(&mut self, number: &Number, limit: f64, exclusive: bool, place: &Place<'_>) {
        let (fits, words) = match exclusive {
            true => (compare(number, limit) == Ordering::Less, "less than"),
            false => (compare(number, limit) != Ordering::Greater, "less than or equal to"),
        };
        self.limit(fits, words, number, limit, place);
    }

    pub(super) fn minimum(&mut self, number: &Number, limit: f64, exclusive: bool, place: &Place<'_>) {
        let (fits, words) = match exclusive {
            true => (compare(number, limit) == Ordering::Greater, "greater than"),
            false => (compare(number, limit) != Ordering::Less, "greater than or equal to"),
        };
        self.limit(fits, words, number, limit, place);
    }

    fn limit(&mut self, fits: bool, words: &str, number: &Number, limit: f64, place: &Place<'_>) {
        self.hold(fits, Fault::Invalid, place, || {
            (number.to_string(), said(place, format_args!("should be {words} {limit}")))
        });
    }

    pub(super) fn multiple(&mut self, number: &Number, factor: f64, place: &Place<'_>) {
        if factor <= 0.0 {
            let detail = || format!("factor MultipleOf declared for {place} must be positive: {factor}");
            self.fault(Fault::Invalid, place, &factor.to_string(), detail);
            return;
        }
        self.hold(is_multiple(number, factor), Fault::Invalid, place, || {
            (number.to_string(), said(place, format_args!("should be a multiple of {factor}")))
        });
    }
}

/// Whether a number is an integer, however it is written.
pub(super) fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Whether two numbers are the same, however they are written.
pub(super) fn is_same(one: &Number, other: &Number) -> bool {
    one == other
        || other.is_f64() && other.as_f64().is_some_and(|other| compare(one, other).is_eq())
        || one.is_f64() && one.as_f64().is_some_and(|one| compare(other, one).is_eq())
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare(number: &Number, limit: f64) -> Ordering {
    match whole(number) {
        // Within the range of integers, cutting off the fraction is exact.
        Some(whole) if limit.abs() < 1e20 => {
            let fraction = 0.0_f64.partial_cmp(&limit.fract()).unwrap_or(Ordering::Equal);
            whole.cmp(&(limit.trunc() as i128)).then(fraction)
        }
        _ => number.as_f64().and_then(|float| float.partial_cmp(&limit)).unwrap_or(Ordering::Equal),
    }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    if let Some(whole) = whole(number)
        && factor.fract() == 0.0
        && factor < 1e20
    {
        return whole % (factor as i128) == 0;
    }
    let float = number.as_f64().unwrap_or_default();
    let ratio = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
    // A ratio is not exact, such as that of 0.3 to 0.1.
    (ratio - ratio.round()).abs() <= 1e-9 * ratio.abs().max(1.0)
}
