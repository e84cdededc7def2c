//! The `timeout` that a URL may give a request. Only its form counts here: everything is answered at once.

use http::Uri;

use super::ApiError;
use super::query::Query;

const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];

/// Checks it. A watch has none: its own is `timeoutSeconds`.
///
/// # Errors
/// 400 for one that is no duration.
pub(super) fn check(uri: &Uri) -> Result<(), ApiError> {
    let query = Query::new(uri.query().unwrap_or_default());
    let Some(text) = query.text("timeout") else { return Ok(()) };
    let path = uri.path();
    let lasts = query.flag("watch") == Some(true)
        || path.split('/').any(|part| part == "watch")
        || ["/log", "/exec", "/attach", "/portforward", "/proxy"].iter().any(|end| path.ends_with(end));
    if lasts {
        return Ok(());
    }
    duration(text)
        .map_err(|why| ApiError::bad_request(format!("invalid timeout specified in the request URL - time: {why}")))
}

/// Checks that a text is a duration as Go writes it, `1m5.5s`; fails with its fault otherwise.
fn duration(text: &str) -> Result<(), String> {
    let invalid = || Err(format!("invalid duration {text:?}"));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|sign: char| sign.is_ascii_digit());
        let whole = &rest[..rest.len() - after.len()];
        let fraction = after.strip_prefix('.').map(|part| part.trim_start_matches(|sign: char| sign.is_ascii_digit()));
        let digits = after.len() - fraction.map_or(after.len(), str::len);
        if (whole.is_empty() && digits <= 1) || whole.parse::<i64>().is_err() && !whole.is_empty() {
            return invalid();
        }
        rest = fraction.unwrap_or(after);
        let end = rest.find(|sign: char| sign == '.' || sign.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, next) = rest.split_at(end);
        if unit.is_empty() {
            return Err(format!("missing unit in duration {text:?}"));
        }
        if !UNITS.contains(&unit) {
            return Err(format!("unknown unit {unit:?} in duration {text:?}"));
        }
        rest = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_those_of_go() {
        for text in ["0", "+0", "1s", "-1s", "1h2m3.5s", ".5s", "5.s", "100ms", "1\u{b5}s"] {
            assert_eq!(duration(text), Ok(()), "{text}");
        }
        for (text, why) in [
            ("x", "invalid duration \"x\""),
            ("-", "invalid duration \"-\""),
            (".s", "invalid duration \".s\""),
            ("5", "missing unit in duration \"5\""),
            ("1m5", "missing unit in duration \"1m5\""),
            ("1d", "unknown unit \"d\" in duration \"1d\""),
            ("99999999999999999999h", "invalid duration \"99999999999999999999h\""),
        ] {
            assert_eq!(duration(text), Err(why.to_owned()), "{text}");
        }
    }
}
