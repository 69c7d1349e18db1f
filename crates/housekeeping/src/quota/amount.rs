//! Amounts as Kubernetes writes them: `250m`, `1Gi`, `3e2`.

use std::{fmt, ops::AddAssign, str::FromStr};

/// An amount, in billionths of one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    nanos: i128,
    /// Whether it is written in powers of 1024.
    is_binary: bool,
}

const ONE: i128 = 1_000_000_000;

const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const SMALL: [(&str, i128); 3] = [("n", 1), ("u", 1_000), ("m", 1_000_000)];

impl Amount {
    pub(super) fn from_count(count: usize) -> Self {
        Amount { nanos: count as i128 * ONE, is_binary: false }
    }

    pub(super) fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos { other } else { self }
    }

    pub(super) fn is_zero(self) -> bool {
        self.nanos == 0
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.is_binary = self.is_binary || other.is_binary;
    }
}

/// It is no amount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoAmount;

/// What a suffix stands for, in billionths, and whether it is binary.
fn unit(suffix: &str) -> Option<(i128, bool)> {
    let place =
        |suffixes: &[&str]| suffixes.iter().position(|own| *own == suffix).map(|place| place as u32 + 1);
    if suffix.is_empty() {
        return Some((ONE, false));
    }
    if let Some((_, nanos)) = SMALL.iter().find(|(own, _)| *own == suffix) {
        return Some((*nanos, false));
    }
    if let Some(place) = place(&DECIMAL) {
        return Some((ONE * 1000_i128.pow(place), false));
    }
    if let Some(place) = place(&BINARY) {
        return Some((ONE * 1024_i128.pow(place), true));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    match exponent {
        -9..0 => Some((ONE / 10_i128.pow(exponent.unsigned_abs()), false)),
        0..=18 => Some((ONE * 10_i128.pow(exponent.unsigned_abs()), false)),
        _ => None,
    }
}

impl FromStr for Amount {
    type Err = NoAmount;

    fn from_str(text: &str) -> Result<Self, NoAmount> {
        let end = text.find(|letter: char| !letter.is_ascii_digit() && !"+-.".contains(letter));
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (unit, is_binary) = unit(suffix).ok_or(NoAmount)?;
        let (is_negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.len() + part.len() == 0 || whole.len() > 18 || part.len() > 18 {
            return Err(NoAmount);
        }
        let read = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u64>() };
        let (whole, tail) = (read(whole).map_err(|_| NoAmount)?, read(part).map_err(|_| NoAmount)?);
        let scale = 10_i128.pow(part.len() as u32);
        // What is smaller than a billionth counts as one.
        let tail = i128::from(tail).checked_mul(unit).ok_or(NoAmount)?;
        let tail = tail / scale + i128::from(tail % scale != 0);
        let nanos =
            i128::from(whole).checked_mul(unit).and_then(|whole| whole.checked_add(tail)).ok_or(NoAmount)?;
        Ok(Amount { nanos: if is_negative { -nanos } else { nanos }, is_binary })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos % ONE != 0 {
            let fits = SMALL.iter().rev().find(|(_, nanos)| self.nanos % nanos == 0);
            let (suffix, nanos) = fits.copied().unwrap_or(("n", 1));
            return write!(f, "{}{suffix}", self.nanos / nanos);
        }
        let (base, suffixes) = if self.is_binary { (1024, BINARY) } else { (1000, DECIMAL) };
        let (mut whole, mut suffix) = (self.nanos / ONE, "");
        for larger in suffixes {
            if whole == 0 || whole % base != 0 {
                break;
            }
            (whole, suffix) = (whole / base, larger);
        }
        write!(f, "{whole}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_as_kubernetes_does() {
        for (text, shown) in [
            ("0", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("250m", "250m"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1Gi", "1Gi"),
            ("1024Ki", "1Mi"),
            ("3e2", "300"),
            ("1E", "1E"),
            ("1E3", "1k"),
            ("-2", "-2"),
            ("100u", "100u"),
            ("1n", "1n"),
            ("0.0000000001", "1n"),
            ("12e-3", "12m"),
            ("+4", "4"),
        ] {
            assert_eq!(
                text.parse::<Amount>().map(|amount| amount.to_string()),
                Ok(shown.to_owned()),
                "{text}"
            );
        }
        for wrong in ["", "x", "1x", "1 Gi", ".", "--1", "1e", "1.2.3"] {
            assert!(wrong.parse::<Amount>().is_err(), "{wrong}");
        }
    }
}
