//! From many measurements to one number, and from a number to text.

use std::time::Duration;

/// How long things took, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    nanos: Vec<u64>,
    is_sorted: bool,
}

impl Latencies {
    pub(crate) fn push(&mut self, took: Duration) {
        self.nanos.push(took.as_nanos() as u64);
        self.is_sorted = false;
    }

    pub(crate) fn merge(&mut self, mut other: Latencies) {
        self.nanos.append(&mut other.nanos);
        self.is_sorted = false;
    }

    pub(crate) fn len(&self) -> usize {
        self.nanos.len()
    }

    /// The time that this share of all were not slower than; zero when there are none.
    pub(crate) fn quantile(&mut self, share: f64) -> f64 {
        if !self.is_sorted {
            self.nanos.sort_unstable();
            self.is_sorted = true;
        }
        let last = self.nanos.len().saturating_sub(1);
        self.nanos.get((last as f64 * share).round() as usize).map_or(0.0, |&nanos| nanos as f64)
    }
}

/// The middle one; the mean of the two in the middle when they are even in number; zero when there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    match (values.len() / 2, values.len() % 2) {
        (0, 0) => 0.0,
        (half, 0) => (values[half - 1] + values[half]) / 2.0,
        (half, _) => values[half],
    }
}

/// A time, in the unit in which it has two or three digits before the point.
pub(crate) fn time(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e4 => format!("{:.2} µs", n / 1e3),
        n if n < 1e6 => format!("{:.0} µs", n / 1e3),
        n if n < 1e7 => format!("{:.2} ms", n / 1e6),
        n if n < 1e9 => format!("{:.0} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// So many a second.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", count(per_second.round() as u64))
}

/// A size in mebibytes.
pub(crate) fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// A number with its digits in groups of three.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), 0.0);
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn quantiles_reach_from_the_fastest_to_the_slowest() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), 0.0);
        (0..=100).rev().for_each(|nanos| latencies.push(Duration::from_nanos(nanos)));
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|share| latencies.quantile(share));
        assert_eq!(quantiles, [0.0, 50.0, 99.0, 100.0]);
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            [7.0, 1e3, 68_000.0, 2.5e6, 1.2e9].map(time),
            ["7 ns", "1.00 µs", "68 µs", "2.50 ms", "1.20 s"]
        );
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
