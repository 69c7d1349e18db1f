//! What evaluation may cost, and what it has cost.
//!
//! Costs are counted as Kubernetes counts them: one for a step, a tenth for a character or an element that is
//! gone through. What Kubernetes does not count but a processor notices (deep comparisons, the compilation of
//! a regular expression) is counted too. Everything that is built is paid for before it is built, so the
//! budget also bounds memory.

use crate::error::{EvalError, Limit};

/// What one expression may cost.
pub const EXPRESSION_LIMIT: u64 = 1_000_000;
/// What all expressions for one object may cost.
pub const OBJECT_LIMIT: u64 = 10_000_000;

/// What is left to spend.
///
/// One is made for each object that is checked, and handed to every expression that concerns it.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Left for the running expression; what it may cost at most is already taken from `rest`.
    left: u64,
    /// Left for the expressions after it.
    rest: u64,
    /// The limit of one expression.
    expression: u64,
    spent: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(EXPRESSION_LIMIT, OBJECT_LIMIT)
    }
}

impl Budget {
    /// A budget with the given limits for one expression and for all of them.
    pub fn new(expression: u64, object: u64) -> Self {
        Budget { left: 0, rest: object, expression, spent: 0 }
    }

    /// What was spent so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// What is left for all expressions together.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// Takes what an expression may cost, before it is run.
    pub(crate) fn begin(&mut self) {
        self.left = self.expression.min(self.rest);
        self.rest -= self.left;
    }

    /// Gives back what an expression did not cost.
    pub(crate) fn end(&mut self) {
        self.rest += self.left;
        self.left = 0;
    }

    /// Pays for what is about to be done.
    #[inline]
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                self.spent += cost;
                Ok(())
            }
            None => Err(self.exceeded()),
        }
    }

    #[cold]
    fn exceeded(&mut self) -> EvalError {
        self.spent += self.left;
        self.left = 0;
        EvalError::Budget(if self.rest == 0 { Limit::Object } else { Limit::Expression })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_expression_cannot_spend_what_is_for_all() {
        let mut budget = Budget::new(10, 25);
        for _ in 0..2 {
            budget.begin();
            assert_eq!(budget.charge(10), Ok(()));
            assert_eq!(budget.charge(1), Err(EvalError::Budget(Limit::Expression)));
            budget.end();
        }
        assert_eq!((budget.rest(), budget.spent()), (5, 20));
        budget.begin();
        assert_eq!(budget.charge(3), Ok(()));
        budget.end();
        assert_eq!(budget.rest(), 2);
        budget.begin();
        assert_eq!(budget.charge(3), Err(EvalError::Budget(Limit::Object)));
        budget.end();
        assert_eq!((budget.rest(), budget.spent()), (0, 25));
    }
}
