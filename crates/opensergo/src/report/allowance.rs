//! How often the status of one object is written.
//!
//! Clients that come and go, and processes that do not agree, could have a status written again and again. So whatever
//! the reason, each object has its allowance; what people write themselves does not count against it.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;
use windlass_runtime::Key;

use crate::topic::KindId;

/// So many may follow each other at once, and then one in this time. Where an app has hundreds of rules and clients that
/// come and go, more would be most of what its API server does; with less, a rolling restart could not be followed.
const BURST: u32 = 10;
const EVERY: Duration = Duration::from_secs(30);

/// What is left to each object: when it will have all of its allowance again, if it does not have it now.
#[derive(Debug, Default)]
pub(super) struct Allowance(HashMap<(KindId, Key), Instant>);

impl Allowance {
    /// Takes one; if there is none, says when there will be.
    pub(super) fn take(&mut self, of: &(KindId, Key), now: Instant) -> Result<(), Instant> {
        let full = self.0.get(of).copied().unwrap_or(now).max(now);
        let missing = full.saturating_duration_since(now);
        match missing.checked_sub(EVERY * (BURST - 1)) {
            Some(wait) if !wait.is_zero() => Err(now + wait),
            _ => {
                self.0.insert(of.clone(), full + EVERY);
                Ok(())
            }
        }
    }

    /// Forgets those who have all of it.
    pub(super) fn forget(&mut self, now: Instant) {
        self.0.retain(|_, full| *full > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_may_follow_each_other_and_then_few() {
        let kind = KindId::all().next().expect("a kind");
        let [one, other] = ["one", "other"].map(|name| (kind, Key::new("default", name)));
        let (mut allowance, mut now) = (Allowance::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(allowance.take(&one, now), Ok(()));
        }
        let next = now + EVERY;
        assert_eq!(allowance.take(&one, now), Err(next));
        assert_eq!(allowance.take(&other, now), Ok(()), "everyone has its own");
        now = next;
        allowance.forget(now);
        assert_eq!(allowance.take(&one, now), Ok(()));
        assert_eq!(allowance.take(&one, now), Err(now + EVERY), "one more, and no more than that");
        now += EVERY * BURST;
        allowance.forget(now);
        assert!(allowance.0.is_empty());
    }
}
