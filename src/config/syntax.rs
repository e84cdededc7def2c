//! What the reader of TOML refuses: where, and with the nearest key that there is.

/// The line and column of what the reader of TOML refuses.
pub(super) fn position(text: &str, error: &toml::de::Error) -> Option<(usize, usize)> {
    let before = text.get(..error.span()?.start)?;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Some((line, column))
}

/// ``unknown field `brunch`, expected one of `name`, `branch` …`` with the nearest one named.
pub(super) fn with_nearest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(wrong) = quoted.next().filter(|_| message.starts_with("unknown field")) else { return message.to_owned() };
    let nearest = quoted.map(|known| (distance(wrong, known), known)).min();
    match nearest {
        Some((distance, known)) if distance <= 2.max(known.len() / 3) => {
            format!("unknown key {wrong:?}; did you mean {known:?}?")
        }
        _ => format!("unknown key {wrong:?}"),
    }
}

/// How many letters must be changed, added or taken away (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let cost = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
