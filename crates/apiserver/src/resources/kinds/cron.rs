//! Cron schedules: whether one can be understood. Five fields, or a word such as `@daily` or `@every 90m`.

/// What one field of a schedule may say.
struct Field {
    least: u32,
    most: u32,
    /// Names of the values from `least` on.
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { least: 0, most: 59, names: &[] },
    Field { least: 0, most: 23, names: &[] },
    Field { least: 1, most: 31, names: &[] },
    Field { least: 1, most: 12, names: &MONTHS },
    Field { least: 0, most: 6, names: &DAYS },
];

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Whether the schedule names its own time zone, as in `TZ=UTC 0 * * * *`.
pub(super) fn has_zone(schedule: &str) -> bool {
    schedule.contains("TZ=")
}

/// What is wrong with a schedule.
pub(super) fn fault(schedule: &str) -> Option<String> {
    let schedule = match has_zone(schedule) {
        true => schedule.split_once(' ').map_or("", |(_, rest)| rest.trim()),
        false => schedule,
    };
    if schedule.is_empty() {
        return Some("empty spec string".to_owned());
    }
    if schedule.starts_with('@') {
        return word_fault(schedule);
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let shown = parts.join(" ");
        return Some(format!("expected exactly 5 fields, found {}: [{shown}]", parts.len()));
    }
    FIELDS.iter().zip(parts).find_map(|(field, part)| part.split(',').find_map(|range| field.fault(range)))
}

fn word_fault(word: &str) -> Option<String> {
    if WORDS.contains(&word) {
        return None;
    }
    match word.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => None,
        Some(duration) => {
            Some(format!("failed to parse duration {word}: time: invalid duration {duration:?}"))
        }
        None => Some(format!("unrecognized descriptor: {word}")),
    }
}

/// Whether the text is a length of time such as `1h30m` or `1.5s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, after) = rest.split_at(digits);
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .into_iter()
            .filter(|unit| after.starts_with(unit))
            .max_by_key(|unit| unit.len());
        let Some(unit) = unit.filter(|_| number.parse::<f64>().is_ok()) else { return false };
        rest = &after[unit.len()..];
        any = true;
    }
    any
}

impl Field {
    /// What is wrong with `*`, `5`, `1-5`, `*/10` or `1-30/2`.
    fn fault(&self, range: &str) -> Option<String> {
        let (span, step) = match range.split_once('/') {
            None => (range, None),
            Some((_, step)) if step.contains('/') => return Some(format!("too many slashes: {range}")),
            Some((span, step)) => (span, Some(step)),
        };
        let (from, to) = match span.split_once('-') {
            _ if span == "*" || span == "?" => (Ok(self.least), Ok(self.most)),
            Some((_, to)) if to.contains('-') => return Some(format!("too many hyphens: {range}")),
            Some((from, to)) => (self.value(from), self.value(to)),
            None if step.is_some() => (self.value(span), Ok(self.most)),
            None => (self.value(span), self.value(span)),
        };
        let (from, to) = match (from, to) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(fault), _) | (_, Err(fault)) => return Some(fault),
        };
        match step.map(number) {
            Some(Err(fault)) => return Some(fault),
            Some(Ok(0)) => return Some(format!("step of range should be a positive number: {range}")),
            _ => {}
        }
        if from < self.least {
            Some(format!("beginning of range ({from}) below minimum ({}): {range}", self.least))
        } else if to > self.most {
            Some(format!("end of range ({to}) above maximum ({}): {range}", self.most))
        } else if from > to {
            Some(format!("beginning of range ({from}) beyond end of range ({to}): {range}"))
        } else {
            None
        }
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().zip(self.least..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        named.map_or_else(|| number(text), |(_, value)| Ok(value))
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

/// Places that time zones are named after, and the zones that are not named after a place.
const AREAS: [&str; 18] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
    "SystemV",
    "posix",
];
const ZONES: [&str; 44] = [
    "UTC",
    "UCT",
    "GMT",
    "GMT0",
    "GMT+0",
    "GMT-0",
    "Greenwich",
    "Universal",
    "Zulu",
    "CET",
    "CST6CDT",
    "Cuba",
    "EET",
    "EST",
    "EST5EDT",
    "Egypt",
    "Eire",
    "GB",
    "GB-Eire",
    "HST",
    "Hongkong",
    "Iceland",
    "Iran",
    "Israel",
    "Jamaica",
    "Japan",
    "Kwajalein",
    "Libya",
    "MET",
    "MST",
    "MST7MDT",
    "NZ",
    "NZ-CHAT",
    "Navajo",
    "PRC",
    "PST8PDT",
    "Poland",
    "Portugal",
    "ROC",
    "ROK",
    "Singapore",
    "Turkey",
    "W-SU",
    "WET",
];

/// What is wrong with the name of a time zone. There is no list of all cities here, so those are believed.
pub(super) fn zone_fault(zone: &str) -> Option<String> {
    let known = match zone.split_once('/') {
        Some((area, place)) => {
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/');
            AREAS.contains(&area)
                && place.chars().all(good)
                && place.split('/').all(|step| step.starts_with(|c: char| c.is_ascii_uppercase()))
        }
        None => ZONES.contains(&zone),
    };
    match zone {
        "" => Some("timeZone must be nil or non-empty string".to_owned()),
        _ if zone.eq_ignore_ascii_case("local") => Some(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        ),
        _ if known => None,
        _ => Some(format!("unknown time zone {zone}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_understood_or_refused() {
        let good = [
            "* * * * *",
            "*/5 * * * *",
            "0 0 1 1 *",
            "15,45 8-18/2 * jan-mar MON-FRI",
            "0 0 ? * 6",
            "@daily",
            "@hourly",
            "@every 1h30m",
            "@every 1.5s",
            "TZ=UTC 0 * * * *",
            "5/15 * * * *",
        ];
        for schedule in good {
            assert_eq!(fault(schedule), None, "{schedule}");
        }
        for (schedule, expected) in [
            ("", "empty spec string"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("@fortnightly", "unrecognized descriptor: @fortnightly"),
            ("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\""),
        ] {
            assert_eq!(fault(schedule).as_deref(), Some(expected), "{schedule}");
        }
    }

    #[test]
    fn zones_have_names() {
        for zone in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"] {
            assert_eq!(zone_fault(zone), None, "{zone}");
        }
        for zone in ["", "Local", "Europe/", "Middle/Earth", "berlin", "Europe/../etc"] {
            assert!(zone_fault(zone).is_some(), "{zone}");
        }
    }
}
