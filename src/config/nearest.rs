//! The place of an error in the file, and the known word that is nearest to a wrong one.

/// Returns the line and column of an error.
pub(super) fn position(text: &str, error: &toml::de::Error) -> Option<(usize, usize)> {
    let before = text.get(..error.span()?.start)?;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Some((line, column))
}

/// Returns ``unknown field `brunch`, expected one of `name`, `branch` …`` with the nearest one named, or all of them if
/// none is near.
pub(super) fn with_nearest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(wrong) = quoted.next().filter(|_| message.starts_with("unknown field")) else { return message.to_owned() };
    let known: Vec<&str> = quoted.collect();
    match nearest(wrong, known.iter().copied()) {
        Some(known) => format!("unknown key {wrong:?}; did you mean {known:?}?"),
        None if known.is_empty() => format!("unknown key {wrong:?}"),
        None => format!("unknown key {wrong:?}; the keys here are {}", known.join(", ")),
    }
}

/// Returns the known word that was most likely meant.
pub(super) fn nearest<'k>(wrong: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let (distance, known) = known.map(|known| (distance(wrong, known), known)).min()?;
    (distance <= 2.max(known.len() / 3)).then_some(known)
}

/// Returns how many letters must be changed, added or taken away (Levenshtein).
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
