//! Time, as a value that tests can set.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where the store gets the time from. It decides how long history is kept and nothing else: no revision and
/// no order ever depends on it.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_millis(&self) -> u64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_millis(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
    }
}
