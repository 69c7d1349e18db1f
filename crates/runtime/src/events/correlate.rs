//! Which events become which: without waiting, and with the time as an argument.
//!
//! The rules are client-go's, in this order. Ten similar events that differ in their message only, within ten minutes of
//! each other, are one from then on, with the last message. One that is like another, message and all, counts that one up.
//! And an object may be told of 25 times at once, and then once in five minutes; what is not told is still counted.

use std::{collections::HashSet, time::Duration};

use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Time};
use tokio::time::Instant;

use super::lru::Lru;

/// How many of each sort are remembered.
const REMEMBERED: usize = 4096;

/// From how many similar events on they are one, and how long that lasts after the last of them.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// How many events of one object are written at once, and how often afterwards.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// What becomes of an event.
pub(super) enum Verdict {
    /// It is not written.
    Skip,
    /// It is written: one that is known is counted up.
    Write { event: Box<Event>, is_known: bool },
}

/// What tells one sort of events from others.
type Sort = Vec<String>;

/// Events that differ in their message only.
struct Similar {
    messages: HashSet<String>,
    last: Instant,
}

/// An event that was told before.
struct Known {
    name: Option<String>,
    first: Option<Time>,
    count: i32,
}

/// How many events of an object may still be written.
struct Bucket {
    left: f64,
    at: Instant,
}

pub(super) struct Correlator {
    similar: Lru<Sort, Similar>,
    known: Lru<Sort, Known>,
    buckets: Lru<Sort, Bucket>,
}

impl Default for Correlator {
    fn default() -> Self {
        Correlator {
            similar: Lru::new(REMEMBERED),
            known: Lru::new(REMEMBERED),
            buckets: Lru::new(REMEMBERED),
        }
    }
}

impl Correlator {
    pub(super) fn take(&mut self, mut event: Event, now: Instant) -> Verdict {
        let object = object_of(&event);
        let sort = self.combine(&mut event, &object, now);
        let is_known = self.count(&mut event, &sort);
        if self.may_write(&object, now) {
            Verdict::Write { event: Box::new(event), is_known }
        } else {
            Verdict::Skip
        }
    }

    /// Makes it one with others, if there are too many; the sort that it is of then.
    fn combine(&mut self, event: &mut Event, object: &Sort, now: Instant) -> Sort {
        let mut sort = object.clone();
        sort.extend([event.type_.clone(), event.reason.clone()].map(Option::unwrap_or_default));
        let message = event.message.clone().unwrap_or_default();
        let similar =
            self.similar.get_or_insert_with(&sort, || Similar { messages: HashSet::new(), last: now });
        if now.saturating_duration_since(similar.last) > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message.clone());
        if similar.messages.len() < SIMILAR {
            sort.push(event.involved_object.field_path.clone().unwrap_or_default());
            sort.push(message);
            return sort;
        }
        // One makes room for the next, so that there are never more than so many.
        if let Some(any) = similar.messages.iter().next().cloned() {
            similar.messages.remove(&any);
        }
        event.message = Some(format!("(combined from similar events): {message}"));
        sort
    }

    /// Counts up what was told before; whether it was.
    fn count(&mut self, event: &mut Event, sort: &Sort) -> bool {
        let (name, first) = (&event.metadata.name, &event.first_timestamp);
        let new = || Known { name: name.clone(), first: first.clone(), count: 0 };
        let known = self.known.get_or_insert_with(sort, new);
        known.count = known.count.saturating_add(1);
        let (name, first, count) = (known.name.clone(), known.first.clone(), known.count);
        event.metadata.name = name;
        event.first_timestamp = first;
        event.count = Some(count);
        count > 1
    }

    fn may_write(&mut self, object: &Sort, now: Instant) -> bool {
        let bucket = self.buckets.get_or_insert_with(object, || Bucket { left: BURST, at: now });
        let since = now.saturating_duration_since(bucket.at);
        bucket.left = (bucket.left + since.as_secs_f64() / REFILL.as_secs_f64()).min(BURST);
        bucket.at = now;
        let may = bucket.left >= 1.0;
        if may {
            bucket.left -= 1.0;
        }
        may
    }

    #[cfg(test)]
    pub(super) fn lens(&self) -> [usize; 3] {
        [self.similar.len(), self.known.len(), self.buckets.len()]
    }
}

/// What an event is about, and who tells it.
fn object_of(event: &Event) -> Sort {
    let (source, about) = (event.source.as_ref(), &event.involved_object);
    let parts = [
        source.and_then(|source| source.component.as_ref()),
        source.and_then(|source| source.host.as_ref()),
        about.kind.as_ref(),
        about.namespace.as_ref(),
        about.name.as_ref(),
        about.uid.as_ref(),
        about.api_version.as_ref(),
    ];
    parts.into_iter().map(|part| part.cloned().unwrap_or_default()).collect()
}
