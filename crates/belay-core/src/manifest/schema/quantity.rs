//! Checks that a text is an amount, `500m`, as an API server accepts it.

/// Returns the fault of an amount; `None` if it has none.
pub(super) fn wrong(text: &str) -> Option<&'static str> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (whole, rest) = unsigned.split_at(digits);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len()),
        None => ("", rest),
    };
    if text.is_empty() {
        return Some("is empty");
    }
    match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => None,
        _ => match exponent(suffix) {
            // Larger ones keep an API server busy until the request times out.
            Some(digits) if digits > 4 => Some("has an exponent that is too large"),
            Some(_) => None,
            None if whole.is_empty() && fraction.is_empty() => Some("is not an amount"),
            None => Some("has no unit that Kubernetes knows"),
        },
    }
}

/// Returns the number of digits of an exponent, if this is one.
fn exponent(suffix: &str) -> Option<usize> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let fine = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    fine.then(|| digits.trim_start_matches('0').len())
}

#[cfg(test)]
mod tests {
    use super::wrong;

    #[test]
    fn takes_what_an_api_server_takes() {
        for fine in
            ["1", "1 ", "+1", "-1", ".5", "5.", "1.5Gi", "1e3", "1E-3", "1e+3", "1E", "100m", "1n", "m", ".", "1e400"]
        {
            assert_eq!(wrong(fine), None, "{fine}");
        }
        for bad in ["", " ", "1K", "1e", "1i", "1mm", "0x1", "1.2.3", "1ki", "1e 3", "1_000", "1e99999999999", "abc"] {
            assert!(wrong(bad).is_some(), "{bad}");
        }
    }
}
