//! Kubernetes quantities: `100m`, `1.5Gi`, `1e3`.

/// Returns a quantity in thousandths, rounded up; `None` for an invalid one, and at most the largest number.
pub fn milli(text: &str) -> Option<i128> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 40 {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    let (base, exponent) = scale(suffix)?;
    let mut value = digits;
    if base == 1024 {
        value = value.saturating_mul(1024_i128.pow(exponent.unsigned_abs()));
    }
    // Thousandths add three places.
    let places = if base == 10 { exponent - places } else { -places } + 3;
    value = if places >= 0 {
        value.saturating_mul(10_i128.saturating_pow(places.unsigned_abs()))
    } else {
        let divisor = 10_i128.saturating_pow(places.unsigned_abs());
        value / divisor + i128::from(value % divisor != 0)
    };
    Some(if negative { -value } else { value })
}

/// Returns the base and the exponent that a suffix stands for.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (1024, 1),
        "Mi" => (1024, 2),
        "Gi" => (1024, 3),
        "Ti" => (1024, 4),
        "Pi" => (1024, 5),
        "Ei" => (1024, 6),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            (10, exponent.clamp(-60, 30))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::milli;

    #[test]
    fn quantities_in_thousandths() {
        for (text, expected) in [
            ("1", 1000),
            ("100m", 100),
            ("0.5", 500),
            (".5", 500),
            ("1.0005", 1001),
            ("1u", 1),
            ("0", 0),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("2e3", 2_000_000),
            ("2E", 2_000_000_000_000_000_000_000),
            ("-1", -1000),
        ] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
        for text in ["", "m", "1x", "1.2.3", "1 ", "e3", "--1"] {
            assert_eq!(milli(text), None, "{text}");
        }
    }
}
