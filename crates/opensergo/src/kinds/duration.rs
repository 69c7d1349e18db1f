//! How long: a number and a unit, such as `500ms`, and what is sent of it.

use crate::proto::common::v1::TimeUnit;

/// What a duration looks like that may be none.
pub(crate) const PATTERN: &str = r"^\d+(s|ms|m|min|minute|h|d)$";

/// What one looks like that may not.
pub(crate) const POSITIVE: &str = r"^[1-9]\d*(s|ms|m|min|minute|h|d)$";

/// What is said to whoever wrote something else.
pub(crate) const EXPECTED: &str = "a duration such as 500ms, 5s, 1m, 2h or 1d";

/// The same, where none is not enough.
pub(crate) const EXPECTED_POSITIVE: &str = "a duration of 1ms or more, such as 500ms, 5s, 1m, 2h or 1d";

/// Units by what they are called, and how many milliseconds they have.
const UNITS: &[(&str, i64)] = &[
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("min", 60_000),
    ("minute", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Units by what they are on the wire, the smallest first.
const SENT: &[(TimeUnit, i64)] = &[
    (TimeUnit::Millisecond, 1),
    (TimeUnit::Second, 1000),
    (TimeUnit::Minute, 60_000),
    (TimeUnit::Hour, 3_600_000),
    (TimeUnit::Day, 86_400_000),
];

/// Reads a duration, as milliseconds.
pub(crate) fn millis(text: &str) -> Option<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<i64>().ok()?.checked_mul(*factor)
}

/// Reads one of at least a millisecond.
pub(crate) fn positive_millis(text: &str) -> Option<i64> {
    millis(text).filter(|millis| *millis > 0)
}

/// What is sent where there is little room: the smallest unit in which it fits, a part of one counting as a whole.
pub(crate) fn in_32_bits(millis: i64) -> Option<(i32, TimeUnit)> {
    SENT.iter().find_map(|(unit, factor)| {
        let whole = millis / factor + i64::from(millis % factor > 0);
        Some((i32::try_from(whole).ok()?, *unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_understood() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("20ms", Some(20)),
            ("60s", Some(60_000)),
            ("5m", Some(300_000)),
            ("5min", Some(300_000)),
            ("5minute", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("2d", Some(172_800_000)),
            ("", None),
            ("5", None),
            ("ms", None),
            ("-5s", None),
            ("5 s", None),
            ("1.5s", None),
            ("5S", None),
            ("٣s", None),
            ("99999999999999999999s", None),
            ("9223372036854775807d", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
        assert_eq!(positive_millis("0ms"), None);
    }

    #[test]
    fn long_ones_are_sent_in_larger_units() {
        for (millis, expected) in [
            (1, (1, TimeUnit::Millisecond)),
            (i64::from(i32::MAX), (i32::MAX, TimeUnit::Millisecond)),
            (i64::from(i32::MAX) + 1, (2_147_484, TimeUnit::Second)),
            (25 * 86_400_000, (2_160_000, TimeUnit::Second)),
            (30_000 * 86_400_000, (43_200_000, TimeUnit::Minute)),
            (2_000_000 * 86_400_000, (48_000_000, TimeUnit::Hour)),
        ] {
            assert_eq!(in_32_bits(millis), Some(expected), "{millis}");
        }
        assert_eq!(in_32_bits(i64::MAX), None);
    }
}
