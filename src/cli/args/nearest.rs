//! Suggestions: the names that are most like the typed one.

use std::collections::BTreeSet;

/// The number of suggestions.
const MOST: usize = 3;

/// Returns `; there is deployment.apps/web` for those of `there` (a name and its full form) that are most alike, or
/// nothing. `least` is how alike they must be, of 1000.
pub(in crate::cli) fn there_is<'a>(
    typed: &str,
    there: impl IntoIterator<Item = (&'a str, String)>,
    least: u16,
) -> String {
    let mut by_distance: BTreeSet<(u16, String)> = BTreeSet::new();
    for (name, named) in there {
        let ratio = similar::TextDiff::from_chars(typed, name).ratio();
        // Most alike first; a thousandth is near enough.
        let alike = (ratio * 1000.0).round() as u16;
        if alike >= least {
            by_distance.insert((1000 - alike.min(1000), named));
        }
    }
    let names: Vec<String> = by_distance.into_iter().take(MOST).map(|(_, named)| named).collect();
    if names.is_empty() { String::new() } else { format!("; there is {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alike_comes_first() {
        let there = || ["api", "web", "web-2"].map(|name| (name, format!("pod/{name}")));
        assert_eq!(there_is("wep", there(), 600), "; there is pod/web");
        assert_eq!(there_is("wbe-2", there(), 500), "; there is pod/web-2, pod/web");
        assert_eq!(there_is("nobody", there(), 500), "");
        assert_eq!(there_is("x", [], 0), "");
    }
}
