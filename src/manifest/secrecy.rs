//! How much of a text complaints may show. In doubt less.

use std::cell::OnceCell;

use serde_json::Value;

use super::report::Showing;

/// A text, and whether it may hold a Secret; found out at most once.
pub(super) struct Doubt<'t> {
    text: &'t str,
    showing: OnceCell<Showing>,
}

impl Doubt<'_> {
    pub(super) fn of(text: &str) -> Doubt<'_> {
        Doubt { text, showing: OnceCell::new() }
    }

    /// How much may be shown where it can't be read: nothing, if it may hold a Secret.
    pub(super) fn showing(&self) -> Showing {
        *self.showing.get_or_init(|| of_text(self.text))
    }
}

/// Of an object that could be read. `doubt` is about its document, for where it doesn't say what it is.
pub(super) fn of_object(object: &Value, doubt: &Doubt<'_>) -> Showing {
    let Some(kind) = object["kind"].as_str().filter(|kind| !kind.is_empty()) else {
        return match doubt.showing() {
            Showing::Everything => Showing::Everything,
            Showing::Keys | Showing::Nothing => Showing::Keys,
        };
    };
    let items = object["items"].as_array().filter(|_| kind.ends_with("List")).into_iter().flatten();
    let secret = items.into_iter().any(|item| {
        let kind = item["kind"].as_str().unwrap_or_default();
        of_kind(kind, item) != Showing::Everything
    });
    if secret { Showing::Keys } else { of_kind(kind, object) }
}

/// Of an object of a kind. What only looks like a Secret is taken for one: it may be one whose kind is misspelt.
pub(super) fn of_kind(kind: &str, object: &Value) -> Showing {
    let data = object.get("data").is_some() && !matches!(kind, "ConfigMap" | "ControllerRevision");
    let secret = kind.to_lowercase().contains("secret") || object.get("stringData").is_some() || data;
    if secret { Showing::Keys } else { Showing::Everything }
}

fn of_text(text: &str) -> Showing {
    let word = |at: usize, length: usize| {
        let around = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !around(text[..at].chars().next_back()) && !around(text[at + length..].chars().next())
    };
    let says = |wanted: &str| text.match_indices(wanted).any(|(at, found)| word(at, found.len()));
    let secret = text.match_indices("ecret").any(|(at, _)| !is_reference(text, at)) || says("stringData");
    if secret || (says("data") && !says("ConfigMap")) { Showing::Nothing } else { Showing::Everything }
}

/// Words that name a Secret without being one.
const REFERENCES: [&str; 6] =
    ["secretRef", "secretKeyRef", "secretName", "imagePullSecrets", "secrets", "secretProviderClass"];

/// Whether the word around a place in a text only refers to Secrets. Any other word with a secret in it may be a kind that is
/// misspelt.
fn is_reference(text: &str, at: usize) -> bool {
    let begins = text[..at]
        .rfind(|c: char| !c.is_alphanumeric())
        .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
    let ends = text[at..].find(|c: char| !c.is_alphanumeric()).map_or(text.len(), |after| at + after);
    REFERENCES.contains(&&text[begins..ends])
}
