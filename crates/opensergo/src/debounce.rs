//! Waits until no more changes come, but not for ever. Pure: the time comes in.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use crate::topic::{App, KindId};

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// This long without a change, and it is told.
    pub quiet: Duration,
    /// Never longer than this.
    pub most: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { quiet: Duration::from_millis(100), most: Duration::from_secs(10) }
    }
}

/// An app whose rules have changed.
#[derive(Debug)]
struct Changed {
    first: Instant,
    due: Instant,
    kinds: BTreeSet<KindId>,
}

/// The apps whose rules have changed and of which nobody has been told yet.
///
/// They wait as a whole: rules and what they name change together, and are told of together.
#[derive(Debug, Default)]
pub struct Debounce {
    pace: Pace,
    apps: HashMap<App, Changed>,
    order: BTreeMap<Instant, BTreeSet<App>>,
}

impl Debounce {
    /// Nothing has changed yet.
    pub fn new(pace: Pace) -> Self {
        Debounce { pace, ..Debounce::default() }
    }

    /// The rules of an app have changed. Returns whether it is the first to be due.
    pub fn touch(&mut self, app: &App, kind: KindId, now: Instant) -> bool {
        let Pace { quiet, most } = self.pace;
        let changed = self.apps.entry(app.clone()).or_insert_with(|| Changed {
            first: now,
            due: now + most,
            kinds: BTreeSet::new(),
        });
        changed.kinds.insert(kind);
        let (before, due) = (changed.due, (now + quiet).min(changed.first + most));
        changed.due = due;
        if let Some(apps) = self.order.get_mut(&before) {
            apps.remove(app);
            if apps.is_empty() {
                self.order.remove(&before);
            }
        }
        self.order.entry(due).or_default().insert(app.clone());
        self.next() == Some(due)
    }

    /// When something is due.
    pub fn next(&self) -> Option<Instant> {
        self.order.keys().next().copied()
    }

    /// What is due, with what has changed, and since when.
    pub fn due(&mut self, now: Instant) -> Vec<(App, BTreeSet<KindId>, Instant)> {
        let later = self.order.split_off(&(now + Duration::from_nanos(1)));
        let due = std::mem::replace(&mut self.order, later);
        let apps = due.into_values().flatten();
        apps.filter_map(|app| {
            let Changed { kinds, first, .. } = self.apps.remove(&app)?;
            Some((app, kinds, first))
        })
        .collect()
    }

    /// How many apps wait.
    pub fn len(&self) -> usize {
        self.apps.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }
}
