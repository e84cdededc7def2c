//! Durations as people read them: `5m10s`, `3h`, `12d`.

use jiff::Timestamp;

use crate::api::time::parse;

/// Returns how long ago a moment in an object's text was; `<unknown>` if there is none.
#[must_use]
pub(super) fn ago(text: Option<&str>, now: Timestamp) -> String {
    match text.and_then(parse) {
        Some(moment) => human(now.duration_since(moment).as_secs()),
        None => "<unknown>".to_owned(),
    }
}

/// Returns a number of seconds in one or two units; the longer it is, the coarser.
#[must_use]
pub(super) fn human(seconds: i64) -> String {
    const DAYS_OF_YEAR: i64 = 365;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |large: i64, unit: char, small: i64, part: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 2 * DAYS_OF_YEAR => format!("{days}d"),
        _ if days < 8 * DAYS_OF_YEAR => two(days / DAYS_OF_YEAR, 'y', days % DAYS_OF_YEAR, 'd'),
        _ => format!("{}y", days / DAYS_OF_YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn durations_grow_coarser() {
        let (minute, hour, day) = (60, 3600, 86_400);
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (9 * minute + 59, "9m59s"),
            (10 * minute + 59, "10m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (47 * hour, "47h"),
            (48 * hour, "2d"),
            (7 * day + 23 * hour, "7d23h"),
            (8 * day + hour, "8d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (8 * 365 * day, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }
}
