//! Times as they are written in objects, and ages as people read them.
//!
//! Nothing here reads a clock.

use jiff::Timestamp;

/// The time to the second, as `metadata.creationTimestamp` has it.
pub fn rfc3339(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// The time to the microsecond, as leases and events have it.
pub fn rfc3339_micro(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// Reads a time of RFC 3339; `None` when it is not one.
pub fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let (date, rest) = bytes.split_at_checked("2006-01-02T15:04:05".len())?;
    // The reader behind this takes more forms than RFC 3339 has.
    let shaped = date.iter().enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        10 => *byte == b'T',
        13 | 16 => *byte == b':',
        17 => (b'0'..=b'5').contains(byte),
        _ => byte.is_ascii_digit(),
    });
    let zone = match rest.strip_prefix(b".") {
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            &fraction[digits..]
        }
        None => rest,
    };
    let zoned = match zone {
        b"Z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    if !shaped || !zoned {
        return None;
    }
    text.parse().ok()
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// An age as `kubectl get` shows it: two or three digits that matter.
pub fn human_duration(seconds: i64) -> String {
    match seconds {
        // A clock that is a second behind is not worth a complaint.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds, (MINUTE, "m"), (1, "s")),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds, (HOUR, "h"), (MINUTE, "m")),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds, (DAY, "d"), (HOUR, "h")),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds, (YEAR, "y"), (DAY, "d")),
        252_288_000.. => format!("{}y", seconds / YEAR),
    }
}

fn pair(seconds: i64, (large, large_name): (i64, &str), (small, small_name): (i64, &str)) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_as_kubectl_shows_them() {
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_300, "3h25m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (183_700, "2d3h"),
            (691_200, "8d"),
            (45 * 86_400, "45d"),
            (729 * 86_400, "729d"),
            (730 * 86_400, "2y"),
            (740 * 86_400, "2y10d"),
            (8 * 365 * 86_400, "8y"),
            (i64::MAX, "292471208677y"),
            (i64::MIN, "<invalid>"),
        ] {
            assert_eq!(human_duration(seconds), shown, "{seconds}");
        }
    }

    #[test]
    fn times_are_written_with_the_digits_their_fields_have() {
        let time = Timestamp::new(1_700_000_000, 123_456_789).expect("in range");
        assert_eq!(rfc3339(time), "2023-11-14T22:13:20Z");
        assert_eq!(rfc3339_micro(time), "2023-11-14T22:13:20.123456Z");
        let whole = Timestamp::new(1_700_000_000, 0).expect("in range");
        assert_eq!(rfc3339_micro(whole), "2023-11-14T22:13:20.000000Z");
        assert_eq!(rfc3339(Timestamp::new(0, -1).expect("in range")), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn only_rfc_3339_is_read() {
        for text in [
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20.000Z",
            "2023-11-14T23:13:20+01:00",
            "2023-11-14T20:13:20-02:00",
        ] {
            assert_eq!(parse(text).map(rfc3339).as_deref(), Some("2023-11-14T22:13:20Z"), "{text}");
        }
        for text in [
            "",
            "2023-11-14",
            "2023-11-14 22:13:20Z",
            "2023-11-14t22:13:20Z",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:60Z",
            "2023-02-30T00:00:00Z",
            "2023-11-14T22:13:20Z[UTC]",
            "2023-11-14T22:13:20+0100",
            "20231114T221320Z",
            "2023-11-14T22:13:2é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
