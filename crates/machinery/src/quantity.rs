//! Quantities: amounts of a resource such as `500m`, `1Gi` or `2e3`, exact to a billionth.
//!
//! What is finer than that is rounded up, as Kubernetes does: who asks for some gets some. What is too large is
//! capped ([`Quantity::MAX`]), so no input can overflow. Two quantities are equal when their amounts are,
//! however they are written. Start at [`Quantity::parse`].

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use serde_json::Value;

/// Parts of one unit that are told apart.
const NANO: i128 = 1_000_000_000;
/// The largest amount: far above any real one, and its double still fits.
const MOST: i128 = 80_000_000_000_000_000_000_000_000_000 * NANO;
/// The largest amount with a binary suffix.
const MOST_BINARY: i128 = i64::MAX as i128 * NANO;
/// Digits of a number that are looked at; the rest can only round up.
const DIGITS: u128 = 10u128.pow(33);

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The suffixes of the powers of a thousand, from 10⁻⁹ on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// How an amount was written, and is written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of a thousand by letter: `500m`, `2G`.
    #[default]
    Decimal,
    /// Powers of 1024: `2Gi`.
    Binary,
    /// Powers of ten by number: `2e9`.
    Exponent,
}

/// An amount of a resource.
///
/// ```
/// use windlass_machinery::quantity::Quantity;
/// let half = Quantity::parse("0.5").expect("well formed");
/// assert_eq!(half.to_string(), "500m");
/// assert_eq!((half + half).to_string(), "1");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not look like a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// What comes before the suffix is not a number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// There is no such suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::Decimal };
    /// The largest amount there is.
    pub const MAX: Quantity = Quantity { nanos: MOST, format: Format::Decimal };

    /// A number of whole units.
    pub const fn from_int(units: i64) -> Self {
        Quantity { nanos: units as i128 * NANO, format: Format::Decimal }
    }

    /// A number of thousandths.
    pub const fn from_milli(thousandths: i64) -> Self {
        Quantity { nanos: thousandths as i128 * (NANO / 1000), format: Format::Decimal }
    }

    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(QuantityError::Format),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        if number.is_empty() || !is_suffix(suffix) {
            return Err(QuantityError::Format);
        }
        let number = Number::read(number).ok_or(QuantityError::Numeric)?;
        let (nanos, format) = if let Some(at) = BINARY.iter().skip(1).position(|name| *name == suffix) {
            (number.times_1024(at as u32 + 1).min(MOST_BINARY), Format::Binary)
        } else if let Some(at) = DECIMAL.iter().position(|name| *name == suffix) {
            (number.times_10(3 * at as i64 - 9), Format::Decimal)
        } else {
            let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
            let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            (number.times_10(exponent), Format::Exponent)
        };
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// Reads a quantity from a field: a string or a number; null is zero.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Null => Ok(Self::ZERO),
            _ => Err(QuantityError::Format),
        }
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether it is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }

    /// How it was written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The same amount, written in another way.
    pub fn with_format(self, format: Format) -> Self {
        Quantity { format, ..self }
    }

    /// Thousandths, rounded away from zero.
    pub fn milli(&self) -> i128 {
        divide_up(self.nanos, NANO / 1000)
    }

    /// Whole units, rounded away from zero, capped at what fits.
    pub fn value(&self) -> i64 {
        let units = divide_up(self.nanos, NANO);
        i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
    }

    /// Whole units and thousandths as a float, for weighing one against another.
    pub fn as_f64(&self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// The amount times a whole number.
    pub fn times(self, factor: i64) -> Self {
        self.with_nanos(self.nanos.saturating_mul(i128::from(factor)))
    }

    fn with_nanos(self, nanos: i128) -> Self {
        Quantity { nanos: nanos.clamp(-MOST, MOST), ..self }
    }

    /// The format of a sum: that of the first that is not zero.
    fn summed(self, other: Self, nanos: i128) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity { format, ..self.with_nanos(nanos) }
    }
}

/// Letters, then a sign, then digits, each of which may be missing.
fn is_suffix(text: &str) -> bool {
    let rest = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    digits.bytes().all(|b| b.is_ascii_digit())
}

fn divide_up(amount: i128, by: i128) -> i128 {
    let rest = amount % by;
    amount / by + rest.signum()
}

/// A number without a sign: `mantissa` × 10^`exponent`, and a little more when `more`.
struct Number {
    mantissa: u128,
    exponent: i64,
    more: bool,
}

impl Number {
    fn read(text: &str) -> Option<Number> {
        let mut number = Number { mantissa: 0, exponent: 0, more: false };
        let mut fraction = false;
        let mut digits = 0usize;
        for byte in text.bytes() {
            if byte == b'.' {
                if std::mem::replace(&mut fraction, true) {
                    return None;
                }
                continue;
            }
            digits += 1;
            let digit = u128::from(byte.wrapping_sub(b'0'));
            if number.mantissa < DIGITS {
                number.mantissa = number.mantissa * 10 + digit;
                number.exponent -= i64::from(fraction);
            } else {
                number.more |= digit != 0;
                number.exponent += i64::from(!fraction);
            }
        }
        // A lone dot is no number.
        (digits > 0).then_some(number)
    }

    /// Billionths of the number times a power of ten.
    fn times_10(&self, power: i64) -> i128 {
        if self.mantissa == 0 {
            return 0;
        }
        let power = self.exponent.saturating_add(power).saturating_add(9);
        let scale = u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10u128.checked_pow(power));
        let nanos = match scale {
            Some(scale) if power >= 0 => self.mantissa.checked_mul(scale),
            None if power >= 0 => None,
            Some(scale) => {
                let rest = !self.mantissa.is_multiple_of(scale) || self.more;
                Some(self.mantissa / scale + u128::from(rest))
            }
            None => Some(1),
        };
        capped(nanos)
    }

    /// Billionths of the number times a power of 1024.
    fn times_1024(&self, power: u32) -> i128 {
        let scale = match u32::try_from(-self.exponent.min(0)) {
            // So many places and no more digits than are looked at: it is below a billionth of anything.
            Ok(places) if places <= 60 => places,
            _ => return i128::from(self.mantissa != 0),
        };
        let whole_scale = 10u128.saturating_pow(self.exponent.clamp(0, 40) as u32);
        let (mut whole, mut rest, scale) = match 10u128.checked_pow(scale) {
            Some(scale) if scale <= DIGITS * 10 => {
                (Some((self.mantissa / scale).saturating_mul(whole_scale)), self.mantissa % scale, scale)
            }
            // Digits below the thirty-fourth place cannot be kept apart; they round up.
            _ => {
                let kept = DIGITS * 10;
                let drop = 10u128.saturating_pow(scale - 34);
                (Some(0), (self.mantissa / drop).max(1), kept)
            }
        };
        for _ in 0..power {
            rest *= 1024;
            whole = whole.and_then(|whole| whole.checked_mul(1024)?.checked_add(rest / scale));
            rest %= scale;
        }
        let mut nanos = 0;
        for _ in 0..3 {
            rest *= 1000;
            nanos = nanos * 1000 + rest / scale;
            rest %= scale;
        }
        let up = u128::from(rest != 0 || self.more);
        capped(whole.and_then(|whole| whole.checked_mul(NANO as u128)?.checked_add(nanos + up)))
    }
}

fn capped(nanos: Option<u128>) -> i128 {
    nanos.and_then(|nanos| i128::try_from(nanos).ok()).map_or(MOST, |nanos| nanos.min(MOST))
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.summed(other, self.nanos + other.nanos)
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.summed(other, self.nanos - other.nanos)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Quantity { nanos: -self.nanos, ..self }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, Add::add)
    }
}

/// Takes factors of `base` out of a number that is not zero, at most `most` times.
fn reduce(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number % base == 0 {
        number /= base;
        times += 1;
    }
    (number, times)
}

/// The canonical form: no fraction, and the largest suffix that leaves none.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // Below 1024 a binary suffix could not be used anyway; a fraction has none at all.
        let binary =
            self.format == Format::Binary && self.is_whole() && (self.nanos / NANO).unsigned_abs() >= 1024;
        if binary {
            let (number, times) = reduce(self.nanos / NANO, 1024, BINARY.len() - 1);
            return write!(f, "{number}{}", BINARY[times]);
        }
        match self.format {
            Format::Exponent => {
                let (number, times) = reduce(self.nanos, 1000, usize::MAX);
                match 3 * times as i64 - 9 {
                    0 => write!(f, "{number}"),
                    exponent => write!(f, "{number}e{exponent}"),
                }
            }
            Format::Decimal | Format::Binary => {
                let (number, times) = reduce(self.nanos, 1000, DECIMAL.len() - 1);
                write!(f, "{number}{}", DECIMAL[times])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_canonical_form_is_printed() {
        for (text, printed) in [
            ("0", "0"),
            ("0.0", "0"),
            ("-0", "0"),
            ("00", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("1.", "1"),
            (".5", "500m"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("100", "100"),
            ("1000", "1k"),
            ("1100", "1100"),
            ("1000000", "1M"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1e0", "1"),
            ("1.5e3", "1500"),
            ("12e6", "12e6"),
            ("1e-3", "1e-3"),
            ("1e4", "10e3"),
            ("5E", "5E"),
            ("1Ki", "1Ki"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("1.1Ki", "1126400m"),
            ("100Mi", "100Mi"),
            ("1025Ki", "1025Ki"),
            ("128974848", "128974848"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1000n", "1u"),
            ("100u", "100u"),
            ("1000E", "1000E"),
            ("8Ei", "9223372036854775807"),
            ("9999999Ei", "9223372036854775807"),
        ] {
            assert_eq!(quantity(text).to_string(), printed, "{text}");
            assert_eq!(quantity(printed), quantity(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        use QuantityError::*;
        for (text, error) in [
            ("", Format),
            ("a", Format),
            ("1 ", Format),
            (" 1", Format),
            ("1x", Format),
            ("Gi", Format),
            ("-", Format),
            ("1e3x", Format),
            ("1é", Format),
            ("1e--3", Format),
            (".", Numeric),
            ("1.2.3", Numeric),
            ("1e", Suffix),
            ("1K", Suffix),
            ("1gi", Format),
            ("1mm", Suffix),
            ("1Gi3", Suffix),
            ("1e99999999999999999999", Suffix),
        ] {
            assert_eq!(Quantity::parse(text).err(), Some(error), "{text}");
        }
    }

    #[test]
    fn amounts_are_compared_exactly_however_they_are_written() {
        assert_eq!(quantity("1Gi"), quantity("1073741824"));
        assert_eq!(quantity("0.1"), quantity("100m"));
        assert_eq!(quantity("1e3"), quantity("1k"));
        assert!(quantity("999m") < quantity("1"));
        assert!(quantity("1G") < quantity("1Gi"));
        assert!(quantity("-1") < quantity("0"));
        assert!(quantity("9007199254740993") > quantity("9007199254740992"));
    }

    #[test]
    fn sums_keep_the_format_of_the_first() {
        assert_eq!((quantity("1Gi") + quantity("512Mi")).to_string(), "1536Mi");
        assert_eq!((quantity("0") + quantity("1Gi")).to_string(), "1Gi");
        assert_eq!((quantity("1") - quantity("250m")).to_string(), "750m");
        assert_eq!((quantity("250m") - quantity("1")).to_string(), "-750m");
        assert_eq!([quantity("100m"), quantity("900m")].into_iter().sum::<Quantity>().to_string(), "1");
    }

    #[test]
    fn numbers_are_rounded_away_from_zero() {
        for (text, value, milli) in [
            ("1", 1, 1000),
            ("1001m", 2, 1001),
            ("1u", 1, 1),
            ("-1001m", -2, -1001),
            ("2Ki", 2048, 2_048_000),
        ] {
            assert_eq!((quantity(text).value(), quantity(text).milli()), (value, milli), "{text}");
        }
        assert_eq!(quantity("1000E").value(), i64::MAX);
        assert_eq!(quantity("-1000E").value(), i64::MIN);
    }

    #[test]
    fn no_input_overflows() {
        let long = format!("{}.{}", "9".repeat(500), "9".repeat(500));
        let small = format!("0.{}1", "0".repeat(500));
        for suffix in ["", "n", "E", "Ki", "Ei", "e9223372036854775807", "e-9223372036854775808"] {
            for number in [&long, &small, "1", "0", "0.000000000000000000000000000000000000000000000001"] {
                let one = quantity(&format!("{number}{suffix}"));
                let two = quantity(&format!("-{number}{suffix}"));
                assert_eq!(one + two, Quantity::ZERO);
                assert!(one + one >= one && two + two <= two);
                assert_eq!((one.times(i64::MAX).to_string().is_empty(), one.milli() >= 0), (false, true));
            }
        }
        assert_eq!(quantity(&small).to_string(), "1n");
        assert_eq!(quantity("0.0000000000000000000000000000000000000001Gi").to_string(), "1n");
        assert_eq!(quantity("1e30"), Quantity::MAX);
    }

    #[test]
    fn fields_may_be_strings_or_numbers() {
        for (value, printed) in [
            (serde_json::json!("1Gi"), "1Gi"),
            (serde_json::json!(2), "2"),
            (serde_json::json!(0.25), "250m"),
            (serde_json::json!(null), "0"),
        ] {
            assert_eq!(Quantity::from_value(&value).map(|q| q.to_string()).as_deref(), Ok(printed));
        }
        assert!(Quantity::from_value(&serde_json::json!([])).is_err());
    }
}
