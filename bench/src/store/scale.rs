//! How much is measured, and for how long.

use std::time::Duration;

/// The sizes of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Keys of a large store.
    pub(crate) keys: usize,
    /// Keys that writers update while their speed is measured.
    pub(crate) hot_keys: usize,
    /// How often ours and the yardstick take turns. The median of fewer than five is at the mercy of one stall.
    pub(crate) pairs: usize,
    /// How long each turn of writing takes.
    pub(crate) turn: Duration,
    /// Tasks that write at once.
    pub(crate) writers: &'static [usize],
    /// Watchers of one prefix.
    pub(crate) watchers: &'static [usize],
    /// Watchers of the crowd that deliveries are judged by.
    pub(crate) crowd: usize,
    /// Commits timed in one turn beside watchers that do not read.
    pub(crate) watched_commits: usize,
    /// How long the endless updates take at most.
    pub(crate) space_time: Duration,
    /// How often the endless updates write the live data anew at most.
    pub(crate) space_turnover: u64,
    /// The file that bare writes go to.
    pub(crate) bare_bytes: u64,
}

impl Scale {
    /// Under six minutes.
    pub(crate) fn full() -> Self {
        Scale {
            keys: 100_000,
            hot_keys: 10_000,
            pairs: 5,
            turn: Duration::from_millis(1000),
            writers: &[1, 16, 64, 256],
            watchers: &[1, 100, 1_000, 10_000],
            crowd: 1_000,
            watched_commits: 20_000,
            space_time: Duration::from_secs(60),
            space_turnover: 10,
            bare_bytes: 64 << 20,
        }
    }

    /// Under a minute.
    pub(crate) fn quick() -> Self {
        Scale {
            keys: 30_000,
            pairs: 3,
            turn: Duration::from_millis(250),
            watchers: &[1, 100, 1_000],
            watched_commits: 5_000,
            space_time: Duration::from_secs(10),
            space_turnover: 5,
            ..Scale::full()
        }
    }

    /// Some seconds without optimisation: shows that everything works, and measures nothing.
    pub(crate) fn tiny() -> Self {
        Scale {
            keys: 600,
            hot_keys: 100,
            pairs: 1,
            turn: Duration::from_millis(20),
            writers: &[1, 64],
            watchers: &[1, 20],
            crowd: 20,
            watched_commits: 100,
            space_time: Duration::from_millis(600),
            space_turnover: 2,
            bare_bytes: 1 << 20,
        }
    }
}
