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

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_millis(100);
    const MOST: Duration = Duration::from_secs(1);

    fn debounce() -> Debounce {
        Debounce::new(Pace { quiet: QUIET, most: MOST })
    }

    fn app(name: &str) -> App {
        App::new("default", name)
    }

    fn kinds() -> (KindId, KindId) {
        let mut all = KindId::all();
        (all.next().expect("a kind"), all.next().expect("another"))
    }

    #[test]
    fn an_app_waits_as_a_whole() {
        let (now, (one, two), mut debounce) = (Instant::now(), kinds(), debounce());
        assert_eq!(debounce.next(), None);
        assert!(debounce.touch(&app("a"), one, now));
        let later = now + QUIET / 2;
        assert!(debounce.touch(&app("a"), two, later), "it is the only one");
        assert!(!debounce.touch(&app("b"), one, later + QUIET / 4), "another is due before");
        assert_eq!(debounce.next(), Some(later + QUIET));
        assert!(debounce.due(later + QUIET - Duration::from_nanos(1)).is_empty());
        assert_eq!(debounce.due(later + QUIET), [(app("a"), BTreeSet::from([one, two]), now)]);
        assert_eq!((debounce.len(), debounce.is_empty()), (1, false));
        assert_eq!(debounce.due(now + MOST).len(), 1);
        assert_eq!((debounce.next(), debounce.is_empty()), (None, true));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (now, (kind, _), mut debounce) = (Instant::now(), kinds(), debounce());
        let mut at = now;
        while at < now + MOST {
            debounce.touch(&app("a"), kind, at);
            assert!(debounce.next().is_some_and(|due| due <= now + MOST && due <= at + QUIET));
            assert!(debounce.due(at).is_empty());
            at += QUIET / 3;
        }
        assert_eq!(debounce.due(now + MOST).len(), 1);
    }

    #[test]
    fn in_whatever_order_they_change_each_is_due_once() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut now, (kind, _), mut debounce) = (Instant::now(), kinds(), debounce());
        let mut first: HashMap<App, Instant> = HashMap::new();
        for _ in 0..5_000 {
            let app = app(&rng.u8(..20).to_string());
            debounce.touch(&app, kind, now);
            first.entry(app).or_insert(now);
            now += Duration::from_millis(rng.u64(..30));
            for (app, _, since) in debounce.due(now) {
                assert_eq!(first.remove(&app), Some(since), "{app}");
            }
            assert_eq!(
                (debounce.len(), debounce.order.values().flatten().count()),
                (first.len(), first.len())
            );
            assert!(first.values().all(|since| *since + MOST > now), "it is overdue");
        }
    }
}
