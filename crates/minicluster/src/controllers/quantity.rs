//! Amounts of resources: `500m`, `1Gi`, `2e3`.

/// Billionths in one unit.
const NANO: i128 = 1_000_000_000;

/// The notation of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// `k`, `M`, `G`; also for plain numbers.
    Decimal,
    /// `Ki`, `Mi`, `Gi`.
    Binary,
    /// `e3`.
    Exponent,
}

/// An amount, exact to a billionth; more digits round up, as on a real cluster.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl Quantity {
    /// None of it, written in decimal.
    pub const ZERO: Quantity = Quantity { nanos: 0, notation: Notation::Decimal };

    /// Returns a whole number of units.
    pub fn of(units: i64) -> Quantity {
        Quantity { nanos: i128::from(units) * NANO, notation: Notation::Decimal }
    }

    /// Reads an amount; `None` if it is none, or beyond all bounds.
    pub fn parse(text: &str) -> Option<Quantity> {
        let (sign, text) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 40 {
            return None;
        }
        let (notation, scale, power) = suffix_of(suffix)?;
        // The number times 10^power times scale, in billionths: digits first, then the point.
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let power = power + 9 - i32::try_from(fraction.len()).ok()?;
        let scaled = digits.checked_mul(scale)?;
        let nanos = if power >= 0 {
            scaled.checked_mul(10_i128.checked_pow(power.unsigned_abs())?)?
        } else {
            match 10_i128.checked_pow(power.unsigned_abs()) {
                Some(divisor) => scaled / divisor + i128::from(scaled % divisor != 0),
                None => i128::from(scaled != 0),
            }
        };
        Some(Quantity { nanos: sign * nanos, notation })
    }

    /// Returns both together, written like this one.
    pub fn plus(self, other: Quantity) -> Quantity {
        let notation = if self.nanos == 0 { other.notation } else { self.notation };
        Quantity { nanos: self.nanos.saturating_add(other.nanos), notation }
    }

    /// Returns the larger of both.
    pub fn max(self, other: Quantity) -> Quantity {
        if other.nanos > self.nanos { other } else { self }
    }

    /// Returns the amount in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }
}

impl std::fmt::Display for Quantity {
    /// Returns the canonical form: no fraction, and the largest suffix that allows that.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANO == 0;
        if self.notation == Notation::Binary && whole && (self.nanos / NANO).abs() >= 1024 {
            let mut number = self.nanos / NANO;
            let mut step = 0;
            while number % 1024 == 0 && step < BINARY.len() - 1 {
                number /= 1024;
                step += 1;
            }
            return write!(f, "{number}{}", BINARY[step]);
        }
        let mut number = self.nanos;
        let mut step = 0;
        while number % 1000 == 0 && step < DECIMAL.len() - 1 {
            number /= 1000;
            step += 1;
        }
        if self.notation == Notation::Exponent {
            let power = i32::try_from(step).unwrap_or(0) * 3 - 9;
            return if power == 0 { write!(f, "{number}") } else { write!(f, "{number}e{power}") };
        }
        write!(f, "{number}{}", DECIMAL[step])
    }
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From billionths upwards, by the thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// Returns the meaning of a suffix: the notation, a factor, and a power of ten.
fn suffix_of(suffix: &str) -> Option<(Notation, i128, i32)> {
    if let Some(step) = BINARY.iter().position(|known| *known == suffix).filter(|step| *step > 0) {
        return Some((Notation::Binary, 1_i128 << (10 * step), 0));
    }
    if let Some(step) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((Notation::Decimal, 1, i32::try_from(step).ok()? * 3 - 9));
    }
    let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (power.abs() <= 30).then_some((Notation::Exponent, 1, power))
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn amounts_are_the_same_however_they_are_written() {
        for same in [&["1", "1000m", "1.0", "1e0", "+1"][..], &["1Ki", "1024", "1.024k"], &["0", "0m", "0Gi"]] {
            for text in same {
                assert_eq!(Quantity::parse(text), Quantity::parse(same[0]), "{text}");
            }
        }
        assert_eq!(Quantity::parse("0.1n").unwrap().nanos(), 1);
        for wrong in ["", "m", "1 Gi", "1.2.3", "x1", "1e", "1e99"] {
            assert!(Quantity::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_canonical_form_has_no_fraction() {
        for (text, canonical) in [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("2048Ki", "2Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("100000", "100k"),
            ("1e3", "1e3"),
            ("500Ki", "500Ki"),
            ("100", "100"),
            ("0Gi", "0"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), canonical, "{text}");
        }
    }
}
