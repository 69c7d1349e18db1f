//! One turn of a load, with what it cost, and medians over many.

use crate::{
    apiserver::drive::Ran,
    stats::{median, time},
};

/// What one turn showed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) rate: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Nanoseconds of the server's processor for each answer; zero where that is not known.
    pub(crate) processor: f64,
    /// Bytes of one answer.
    pub(crate) bytes: f64,
    pub(crate) refused: u64,
}

impl Turn {
    /// Sums up what clients did.
    pub(crate) fn of(mut ran: Ran) -> Self {
        let answers = ran.latencies.len().max(1) as f64;
        Turn {
            rate: ran.rate(),
            p50: ran.latencies.quantile(0.5),
            p99: ran.latencies.quantile(0.99),
            processor: ran.processor as f64 / answers,
            bytes: ran.bytes as f64 / answers,
            refused: ran.refused,
        }
    }
}

/// The median of one field.
pub(crate) fn middle<'a>(turns: impl IntoIterator<Item = &'a Turn>, field: fn(&Turn) -> f64) -> f64 {
    median(turns.into_iter().map(field))
}

/// A time that may not be known.
pub(crate) fn known_time(nanos: f64) -> String {
    if nanos > 0.0 { time(nanos) } else { "unknown".to_owned() }
}
