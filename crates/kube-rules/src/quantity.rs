//! Amounts: `500m`, `1.5Gi`, `1e3`. Read and written as the real server does, so that `1000m` is stored as `1`.

use std::cmp::Ordering;

/// An amount: a whole number times a power of ten.
#[derive(Clone, Debug)]
pub struct Quantity {
    mantissa: i128,
    exponent: i32,
    notation: Notation,
    /// The text as it was written, if that is kept.
    spelled: Option<String>,
}

/// The family of suffixes in which an amount was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `k`, `M`, `m`
    Decimal,
    /// `Ki`, `Mi`
    Binary,
    /// `e3`
    Exponent,
}

/// The complaint about a text that is no amount at all.
pub const NOT_AN_AMOUNT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const UNKNOWN_SUFFIX: &str = "unable to parse quantity's suffix";
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const NANO: i32 = -9;
/// Amounts in binary notation end here.
const MOST: i128 = i64::MAX as i128;
/// More digits than this are rounded.
const DIGITS: usize = 36;

impl PartialEq for Quantity {
    /// Returns true for the same amount, however it is written.
    fn eq(&self, other: &Quantity) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl std::fmt::Display for Quantity {
    /// Writes the one way of writing it.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.canonical())
    }
}

impl Quantity {
    /// None of it, written in decimal.
    pub const ZERO: Quantity = Quantity { mantissa: 0, exponent: 0, notation: Notation::Decimal, spelled: None };

    /// Reads an amount.
    ///
    /// # Errors
    /// Fails with the real server's complaint.
    pub fn parse(text: &str) -> Result<Quantity, &'static str> {
        let parts = QuantityParts::split(text)?;
        let (notation, suffix_exponent, power_of_two) = interpret(parts.suffix).ok_or(UNKNOWN_SUFFIX)?;
        let (mut mantissa, dropped) = whole(parts.whole, parts.fraction);
        let mut exponent = suffix_exponent.saturating_add(dropped).saturating_sub(parts.fraction.len() as i32);
        let mut notation = notation;
        let reduced = if notation == Notation::Binary { mantissa % 1024 != 0 } else { !parts.whole.ends_with("000") };
        let plain = parts.fraction.is_empty() && suffix_exponent % 3 == 0;
        let spelled = (plain && reduced && mantissa != 0).then(|| text.to_owned());
        if notation == Notation::Binary {
            (mantissa, exponent) = times_power_of_two(mantissa, exponent, power_of_two);
        }
        let mut quantity = Quantity { mantissa, exponent, notation, spelled: None };
        quantity.round_up(NANO);
        if notation == Notation::Binary {
            let one = Quantity { mantissa: 1, exponent: 0, notation, spelled: None };
            let most = Quantity { mantissa: MOST, ..one.clone() };
            if quantity.compare(&most) == Ordering::Greater {
                quantity = most;
            } else if quantity.compare(&one) == Ordering::Less {
                notation = Notation::Decimal;
            }
            quantity.notation = notation;
        }
        let unchanged = (quantity.mantissa, quantity.exponent) == (mantissa, exponent);
        quantity.spelled = spelled.filter(|_| unchanged);
        if parts.negative {
            quantity.mantissa = -quantity.mantissa;
        }
        Ok(quantity)
    }

    /// Returns a whole number.
    #[must_use]
    pub fn from_whole(number: i64) -> Quantity {
        Quantity { mantissa: i128::from(number), exponent: 0, notation: Notation::Decimal, spelled: None }
    }

    /// Returns the one way of writing it.
    #[must_use]
    pub fn canonical(&self) -> String {
        if self.mantissa == 0 {
            return "0".to_owned();
        }
        if let Some(spelled) = &self.spelled {
            return spelled.clone();
        }
        match self.notation {
            Notation::Binary => self.binary().unwrap_or_else(|| self.decimal(Notation::Decimal)),
            notation => self.decimal(notation),
        }
    }

    /// Rounds away from zero to whole multiples of `10^exponent`.
    pub fn round_up(&mut self, exponent: i32) {
        if self.exponent >= exponent {
            return;
        }
        let divisor = 10_i128.checked_pow(exponent.abs_diff(self.exponent));
        self.mantissa = match divisor {
            Some(divisor) => {
                let (quotient, rest) = (self.mantissa / divisor, self.mantissa % divisor);
                quotient + rest.signum()
            }
            None => self.mantissa.signum(),
        };
        self.exponent = exponent;
        self.spelled = None;
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// Returns true when it is a whole number.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let (mantissa, exponent) = without_zeros(self.mantissa, self.exponent);
        mantissa == 0 || exponent >= 0
    }

    /// Returns its rounded-up thousandths; the largest number where they do not fit.
    #[must_use]
    pub fn thousandths(&self) -> i64 {
        self.scaled(-3)
    }

    /// Returns its rounded-up whole; the largest number where it does not fit.
    #[must_use]
    pub fn whole(&self) -> i64 {
        self.scaled(0)
    }

    /// Returns the sum, in the notation of this one, or of the other where this one is nothing. The largest number
    /// where it does not fit.
    #[must_use]
    pub fn plus(&self, other: &Quantity) -> Quantity {
        if self.mantissa == 0 {
            return other.clone();
        }
        let exponent = self.exponent.min(other.exponent);
        let lowered = |amount: &Quantity| {
            let factor = 10_i128.checked_pow(amount.exponent.abs_diff(exponent))?;
            amount.mantissa.checked_mul(factor)
        };
        let sum = lowered(self).zip(lowered(other)).and_then(|(one, other)| one.checked_add(other));
        Quantity { mantissa: sum.unwrap_or(MOST), exponent, notation: self.notation, spelled: None }
    }

    /// Returns the difference.
    #[must_use]
    pub fn minus(&self, other: &Quantity) -> Quantity {
        self.plus(&Quantity { mantissa: -other.mantissa, spelled: None, ..other.clone() })
    }

    /// Returns true when it is less than another.
    #[must_use]
    pub fn is_less(&self, other: &Quantity) -> bool {
        self.compare(other) == Ordering::Less
    }

    /// Returns true when it is more than another.
    #[must_use]
    pub fn is_more(&self, other: &Quantity) -> bool {
        self.compare(other) == Ordering::Greater
    }

    /// Returns its rounded-up multiple of `10^exponent`; the largest number where it does not fit.
    #[must_use]
    pub fn in_units_of(&self, exponent: i32) -> i128 {
        let mut rounded = self.clone();
        rounded.round_up(exponent);
        let factor = 10_i128.checked_pow(rounded.exponent.abs_diff(exponent));
        factor.and_then(|factor| rounded.mantissa.checked_mul(factor)).unwrap_or(i128::MAX)
    }

    fn scaled(&self, exponent: i32) -> i64 {
        i64::try_from(self.in_units_of(exponent)).unwrap_or(i64::MAX)
    }

    /// Compares two amounts.
    #[must_use]
    pub fn compare(&self, other: &Quantity) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        if signs != Ordering::Equal || self.mantissa == 0 {
            return signs;
        }
        let distance = self.exponent.abs_diff(other.exponent);
        let raise = |mantissa: i128| 10_i128.checked_pow(distance).and_then(|factor| mantissa.checked_mul(factor));
        let negative = self.mantissa < 0;
        let beyond = |larger: Ordering| if negative { larger.reverse() } else { larger };
        if self.exponent >= other.exponent {
            raise(self.mantissa).map_or(beyond(Ordering::Greater), |own| own.cmp(&other.mantissa))
        } else {
            raise(other.mantissa).map_or(beyond(Ordering::Less), |other| self.mantissa.cmp(&other))
        }
    }

    fn decimal(&self, notation: Notation) -> String {
        let (mut mantissa, mut exponent) = without_zeros(self.mantissa, self.exponent);
        while exponent.rem_euclid(3) != 0 {
            let Some(raised) = mantissa.checked_mul(10) else { break };
            mantissa = raised;
            exponent -= 1;
        }
        let suffix = DECIMAL.iter().find(|(_, power)| notation == Notation::Decimal && *power == exponent);
        match suffix {
            Some((suffix, _)) => format!("{mantissa}{suffix}"),
            None if exponent == 0 => mantissa.to_string(),
            None => format!("{mantissa}e{exponent}"),
        }
    }

    fn binary(&self) -> Option<String> {
        let (mantissa, exponent) = without_zeros(self.mantissa, self.exponent);
        let factor = 10_i128.checked_pow(u32::try_from(exponent).ok()?)?;
        let mut whole = mantissa.checked_mul(factor)?;
        if whole.abs() < 1024 {
            return None;
        }
        let mut suffix = "";
        for next in BINARY {
            if whole % 1024 != 0 {
                break;
            }
            whole /= 1024;
            suffix = next;
        }
        Some(format!("{whole}{suffix}"))
    }
}

fn without_zeros(mut mantissa: i128, mut exponent: i32) -> (i128, i32) {
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    (mantissa, exponent)
}

/// Returns the digits as one number, and how many of them were too many for it; their value is rounded up.
fn whole(whole: &str, fraction: &str) -> (i128, i32) {
    let digits: String = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let kept = digits.len().min(DIGITS);
    let mut mantissa: i128 = digits[..kept].parse().unwrap_or_default();
    if digits[kept..].bytes().any(|digit| digit != b'0') {
        mantissa += 1;
    }
    (mantissa, (digits.len() - kept) as i32)
}

fn times_power_of_two(mut mantissa: i128, mut exponent: i32, power: u32) -> (i128, i32) {
    loop {
        if let Some(product) = mantissa.checked_mul(1_i128 << power) {
            return (product, exponent);
        }
        mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
        exponent += 1;
    }
}

/// Returns the notation of a suffix, its power of ten and its power of two.
fn interpret(suffix: &str) -> Option<(Notation, i32, u32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Notation::Decimal, *power, 0));
    }
    if let Some(index) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Notation::Binary, 0, 10 * (index as u32 + 1)));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((Notation::Exponent, exponent.parse().ok()?, 0))
}

/// An amount's text, taken apart.
struct QuantityParts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl QuantityParts<'_> {
    fn split(text: &str) -> Result<QuantityParts<'_>, &'static str> {
        if text.is_empty() {
            return Err(NOT_AN_AMOUNT);
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = unsigned.split_at(digits(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if exponent.bytes().any(|byte| !byte.is_ascii_digit()) {
            return Err(NOT_AN_AMOUNT);
        }
        Ok(QuantityParts { negative: text.starts_with('-'), whole, fraction, suffix })
    }
}

#[cfg(test)]
mod tests {
    use super::{NOT_AN_AMOUNT, Quantity, UNKNOWN_SUFFIX};

    #[test]
    fn amounts_are_written_as_the_reference_writes_them() {
        // Seen on the reference, 1.36.3.
        let cases = "+1Ki=+1Ki 01Ki=01Ki 1.Ki=1.Ki +100m=+100m 01000=1k 1E0=1E0 1e03=1e03 1e+3=1e+3 +0.5=500m \
                     100.0=100 1.50=1500m +1024Ki=1Mi +1500Ki=+1500Ki 1n=1n 0.1n=1n 1500n=1500n 1e-12=1e-9 1e-9=1e-9 \
                     15e-10=2e-9 1.1Gi=1181116006400m 1.0000000001Gi=1073741824107374183n 0.0000000001=1n \
                     0.1Ki=102400m 0.5Ki=512 1.5Ki=1536 +1.5Ki=1536 1.25Gi=1280Mi .=0 -=0 -0=0 1000e-3=1 1000n=1u \
                     123456789.123456789123=123456789123456790n 0.00000000010Gi=107374183n \
                     9999999999999999999m=9999999999999999999m 99999999999999999999999999999999999999999999=\
                     99999999999999999999999999999999999999999999 1e100=10e99 1e2000000000=100e1999999998 1Pi=1Pi \
                     8191Pi=8191Pi 8192Pi=9223372036854775807 7Ei=7Ei 1024n=1024n 0.001Ki=1024m 1000m=1 \
                     1024=1024 1024Ki=1Mi 5e1=50 1.5e3=1500 Ki=0 0Gi=0 00=0 1000Ki=1000Ki 2000Mi=2000Mi \
                     128974848000m=128974848 -1.5Gi=-1536Mi 1000=1k 1500=1500 999999999999999999999Ki=9223372036854775807";
        for case in cases.split_whitespace() {
            let (text, canonical) = case.split_once('=').unwrap();
            assert_eq!(Quantity::parse(text).unwrap().canonical(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "abc", "1.2.3", "1 Gi", "1_0", "0x10", "1e2m", "1e3Ki"] {
            assert_eq!(Quantity::parse(text).unwrap_err(), NOT_AN_AMOUNT, "{text}");
        }
        for text in ["1ki", "1K", "1Kii", "1e", "1Mi1"] {
            assert_eq!(Quantity::parse(text).unwrap_err(), UNKNOWN_SUFFIX, "{text}");
        }
    }

    #[test]
    fn amounts_compare_across_notations() {
        let order = ["-1", "0", "1n", "1m", "0.5", "1000m", "1.5", "1k", "1Ki", "1e4", "1Ei", "1e100"];
        let parsed: Vec<Quantity> = order.iter().map(|text| Quantity::parse(text).unwrap()).collect();
        for (index, one) in parsed.iter().enumerate() {
            for (other_index, other) in parsed.iter().enumerate() {
                assert_eq!(one.compare(other), index.cmp(&other_index), "{} {}", order[index], order[other_index]);
            }
        }
    }

    #[test]
    fn amounts_become_thousandths() {
        for (text, thousandths) in [("1", 1000), ("1500u", 2), ("0.1", 100), ("2k", 2_000_000), ("1e100", i64::MAX)] {
            assert_eq!(Quantity::parse(text).unwrap().thousandths(), thousandths, "{text}");
        }
    }
}
