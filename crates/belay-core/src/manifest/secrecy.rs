//! The amount of a text that complaints may show. In doubt less.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use serde_json::Value;

use super::report::Showing;
use super::yaml::{self, At, Placed, Position};

/// A text, and whether it may hold a Secret; found out at most once.
pub(super) struct MaybeSecret<'t> {
    text: &'t str,
    showing: OnceCell<Showing>,
}

impl MaybeSecret<'_> {
    pub(super) fn of(text: &str) -> MaybeSecret<'_> {
        MaybeSecret { text, showing: OnceCell::new() }
    }

    /// Returns the amount that may be shown of a text that can't be read: nothing, if it may hold a Secret.
    pub(super) fn showing(&self) -> Showing {
        *self.showing.get_or_init(|| of_text(self.text))
    }
}

/// Decides for an object that could be read. `maybe_secret` is about its document, in case it has no kind.
pub(super) fn of_object(object: &Value, maybe_secret: &MaybeSecret<'_>) -> Showing {
    let Some(kind) = object["kind"].as_str().filter(|kind| !kind.is_empty()) else {
        return match maybe_secret.showing() {
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

/// Decides for an object of a kind. An object that only looks like a Secret counts as one: its kind may be misspelt.
pub(super) fn of_kind(kind: &str, object: &Value) -> Showing {
    let data = object.get("data").is_some() && !matches!(kind, "ConfigMap" | "ControllerRevision");
    let secret = kind.to_lowercase().contains("secret") || object.get("stringData").is_some() || data;
    if secret { Showing::Keys } else { Showing::Everything }
}

/// Returns the lines of a text, from 0, in which a value of a Secret may be. In doubt more lines are secret: all of an
/// unreadable text, unless it names no Secret.
#[must_use]
pub fn secret_lines(text: &str) -> BTreeSet<usize> {
    let (documents, _) = yaml::documents(text);
    let breaks: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line_of = |offset: usize| breaks.partition_point(|at| *at < offset);
    let mut lines = BTreeSet::new();
    let mut shown = 0;
    let outside = |from: usize, to: usize, lines: &mut BTreeSet<usize>| {
        let between = text.get(from..to).unwrap_or(text);
        if !between.trim().is_empty() && of_text(between) != Showing::Everything {
            lines.extend(line_of(from)..=line_of(to));
        }
    };
    for document in &documents {
        let range = document.range();
        outside(shown, range.start.max(shown), &mut lines);
        shown = range.end.max(shown);
        let (first, last) = (line_of(range.start), line_of(range.end));
        match document.read().0 {
            Some(placed) if document.aliases().next().is_none() => {
                let maybe_secret = MaybeSecret::of(text.get(range).unwrap_or(text));
                lines.extend(of_placed(&placed, &maybe_secret, first, last));
            }
            Some(placed) if of_object(placed.value(), &MaybeSecret::of(text)) == Showing::Everything => {}
            _ if of_text(text.get(range).unwrap_or(text)) == Showing::Everything => {}
            _ => lines.extend(first..=last),
        }
    }
    outside(shown, text.len(), &mut lines);
    lines
}

/// Returns the secret lines of a document from its first line to its last. In a list, only the items that are Secrets
/// count, and the lines around them.
fn of_placed(placed: &Placed, maybe_secret: &MaybeSecret<'_>, first: usize, last: usize) -> BTreeSet<usize> {
    if is_kustomization(placed.value()) {
        return of_kustomization(placed, maybe_secret.text, first, last);
    }
    let is_secret = |object: &Value| of_object(object, maybe_secret) != Showing::Everything;
    if !is_secret(placed.value()) {
        return BTreeSet::new();
    }
    let kind = placed.value()["kind"].as_str().unwrap_or_default();
    let Some(items) = placed.root().get("items").filter(|_| kind == "List") else { return (first..=last).collect() };
    let items = items.children().map(|child| (child.at, is_secret(child.at.value())));
    of_parts(&items.collect::<Vec<_>>(), first, last)
}

/// Returns the secret lines among the parts of a document, in the order of the text, with the lines around them.
fn of_parts(parts: &[(At<'_>, bool)], first: usize, last: usize) -> BTreeSet<usize> {
    let line = |position: Position| position.line.saturating_sub(1) as usize;
    let mut lines = BTreeSet::new();
    for (at, (part, is_secret)) in parts.iter().enumerate() {
        if *is_secret {
            let span = part.span();
            let before = at.checked_sub(1).map_or(first, |before| line(parts[before].0.span().end) + 1);
            let after = parts.get(at + 1).map_or(last, |(after, _)| line(after.span().start).saturating_sub(1));
            lines.extend(before.min(line(span.start))..=after.max(line(span.end)));
        }
    }
    lines
}

/// Fields of a kustomization that hold names alone.
const NAMES: [&str; 12] = [
    "apiVersion",
    "kind",
    "resources",
    "components",
    "bases",
    "crds",
    "images",
    "replicas",
    "namespace",
    "namePrefix",
    "nameSuffix",
    "buildMetadata",
];

/// Returns true when this is a kustomization, which needs not say so.
fn is_kustomization(value: &Value) -> bool {
    match value["kind"].as_str() {
        Some(kind) => matches!(kind, "Kustomization" | "Component"),
        None => NAMES[2..].iter().any(|name| value.get(name).is_some()) && value.get("metadata").is_none(),
    }
}

/// Returns the lines of a kustomization's fields that may hold a value of a Secret, as generators and patches do, with
/// the lines around them.
fn of_kustomization(placed: &Placed, text: &str, first: usize, last: usize) -> BTreeSet<usize> {
    if of_text(text) == Showing::Everything {
        return BTreeSet::new();
    }
    let fields = placed.root().children().map(|field| (field.at, !NAMES.contains(&field.name)));
    let mut fields: Vec<(At<'_>, bool)> = fields.collect();
    fields.sort_by_key(|(field, _)| field.span().start.line);
    of_parts(&fields, first, last)
}

pub(super) fn of_text(text: &str) -> Showing {
    let word = |at: usize, length: usize| {
        let around = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !around(text[..at].chars().next_back()) && !around(text[at + length..].chars().next())
    };
    let says = |wanted: &str| text.match_indices(wanted).any(|(at, found)| word(at, found.len()));
    let secret = text.match_indices("ecret").any(|(at, _)| !is_reference(text, at)) || text.contains("stringData");
    if secret || (says("data") && !says("ConfigMap")) { Showing::Nothing } else { Showing::Everything }
}

/// Words that name a Secret without being one.
const REFERENCES: [&str; 6] =
    ["secretRef", "secretKeyRef", "secretName", "imagePullSecrets", "secrets", "secretProviderClass"];

/// Returns true when the word around a place in a text only refers to Secrets. Any other word with a secret in it may
/// be a kind that is misspelt.
fn is_reference(text: &str, at: usize) -> bool {
    let begins = text[..at]
        .rfind(|c: char| !c.is_alphanumeric())
        .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
    let ends = text[at..].find(|c: char| !c.is_alphanumeric()).map_or(text.len(), |after| at + after);
    REFERENCES.contains(&&text[begins..ends])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_text_may_hold_a_secret_also_where_its_words_have_grown_together() {
        for text in [
            "kind: Secret\n",
            "kind: xSecretx\n",
            "stringData: {a: 1}\n",
            "{name: s}xstringData: {a: 1}\n",
            "data: {a: 1}\n",
        ] {
            assert_eq!(of_text(text), Showing::Nothing, "{text}");
        }
        for text in
            ["kind: Deployment\n", "kind: ConfigMap\ndata: {a: 1}\n", "secretName: a\n", "metadata: {name: a}\n"]
        {
            assert_eq!(of_text(text), Showing::Everything, "{text}");
        }
    }
}
