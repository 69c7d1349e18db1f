//! How much is measured, and for how long.

use std::time::Duration;

/// The sizes of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Objects of a large cluster: what starting and memory are measured with.
    pub(crate) objects: usize,
    /// Objects that are listed, read and changed.
    pub(crate) listed: usize,
    /// Objects of one page.
    pub(crate) page: usize,
    /// How often ours and the yardstick take turns.
    pub(crate) turns: usize,
    /// How long each turn takes.
    pub(crate) turn: Duration,
    /// Clients that create at once.
    pub(crate) clients: &'static [usize],
    /// Watchers of one namespace.
    pub(crate) watchers: usize,
    /// Changes that each of them sees.
    pub(crate) changes: usize,
    /// Custom kinds.
    pub(crate) definitions: usize,
}

impl Scale {
    /// Some four minutes.
    pub(crate) fn full() -> Self {
        Scale {
            objects: 100_000,
            listed: 10_000,
            page: 500,
            turns: 5,
            turn: Duration::from_millis(1500),
            clients: &[1, 16, 64, 256],
            watchers: 1_000,
            changes: 200,
            definitions: 1_000,
        }
    }

    /// Somewhat more than a minute.
    pub(crate) fn quick() -> Self {
        Scale { objects: 20_000, turns: 3, turn: Duration::from_millis(500), ..Scale::full() }
    }

    /// Some seconds without optimisation: shows that everything works, and measures nothing.
    pub(crate) fn tiny() -> Self {
        Scale {
            objects: 200,
            listed: 150,
            page: 50,
            turns: 1,
            turn: Duration::from_millis(50),
            clients: &[1, 64],
            watchers: 20,
            changes: 10,
            definitions: 20,
        }
    }
}
