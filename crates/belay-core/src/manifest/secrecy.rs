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
    /// True when the object that is read leaves out parts of the text, as of a key that is written twice.
    incomplete: bool,
    left_out: OnceCell<bool>,
}

impl MaybeSecret<'_> {
    pub(super) fn of(text: &str) -> MaybeSecret<'_> {
        MaybeSecret { text, showing: OnceCell::new(), incomplete: false, left_out: OnceCell::new() }
    }

    /// Says whether the object that is read leaves out parts of the text.
    pub(super) fn incomplete(self, incomplete: bool) -> Self {
        MaybeSecret { incomplete, ..self }
    }

    /// Returns true when a part of the text may be a Secret that is not in the object that is read.
    fn leaves_out_a_secret(&self) -> bool {
        let names_one = || self.text.contains("stringData") || names_secret(self.text);
        self.incomplete && *self.left_out.get_or_init(names_one)
    }

    /// Returns the amount that may be shown of a text that can't be read: nothing, if it may hold a Secret.
    pub(super) fn showing(&self) -> Showing {
        *self.showing.get_or_init(|| of_text(self.text))
    }
}

/// Decides for an object that could be read, and for what is inside it. `maybe_secret` is about its document, in case the object
/// has no kind, or is not all of the document.
pub(super) fn of_object(object: &Value, maybe_secret: &MaybeSecret<'_>) -> Showing {
    if maybe_secret.leaves_out_a_secret() {
        return Showing::Keys;
    }
    let Some(kind) = object["kind"].as_str().filter(|kind| !kind.is_empty()) else {
        return match maybe_secret.showing() {
            Showing::Everything => Showing::Everything,
            Showing::Keys | Showing::Nothing => Showing::Keys,
        };
    };
    let is_list = kind.ends_with("List");
    let items = object["items"].as_array().filter(|_| is_list).into_iter().flatten();
    let secret = items.into_iter().filter(|item| item.is_object()).any(|item| match item["kind"].as_str() {
        None if of_kind("", item) != Showing::Everything => true,
        // An item of a `DeploymentList` may leave out its kind.
        None if kind != "List" => false,
        _ => of_object(item, maybe_secret) != Showing::Everything,
    });
    if secret { Showing::Keys } else { of_item(kind, object, maybe_secret) }
}

/// Decides for an object whose kind is known, as that of an item of a `DeploymentList` is.
pub(super) fn of_item(kind: &str, object: &Value, maybe_secret: &MaybeSecret<'_>) -> Showing {
    let within = || object.as_object().is_some_and(|fields| fields.values().any(holds_secret));
    if maybe_secret.leaves_out_a_secret() || within() { Showing::Keys } else { of_kind(kind, object) }
}

/// Decides for an object of a kind. An object that only looks like a Secret counts as one: its kind may be misspelt.
pub(super) fn of_kind(kind: &str, object: &Value) -> Showing {
    let data = object.get("data").is_some() && !matches!(kind, "ConfigMap" | "ControllerRevision");
    let secret = kind.to_lowercase().contains("secret") || object.get("stringData").is_some() || data;
    if secret { Showing::Keys } else { Showing::Everything }
}

/// Fields of a reference to an object, which hold names alone.
const REFERENCE: [&str; 13] = [
    "apiGroup",
    "apiVersion",
    "controller",
    "group",
    "key",
    "kind",
    "name",
    "namespace",
    "optional",
    "targetPath",
    "uid",
    "valuesKey",
    "version",
];

/// Returns true when a Secret stands in a value, at any depth. A reference to one is none.
pub(super) fn holds_secret(value: &Value) -> bool {
    let mut next = vec![value];
    while let Some(value) = next.pop() {
        match value {
            Value::Array(items) => next.extend(items),
            Value::Object(fields) => {
                let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_lowercase();
                // A definition has the name of its kind, too.
                let is_object = fields.contains_key("metadata") || fields.contains_key("apiVersion");
                let is_reference = || {
                    fields.iter().all(|(name, field)| {
                        REFERENCE.contains(&name.as_str()) && !field.is_object() && !field.is_array()
                    })
                };
                let names_it = (kind == "secret" || (is_object && kind.contains("secret"))) && !is_reference();
                if names_it || fields.contains_key("stringData") {
                    return true;
                }
                next.extend(fields.values());
            }
            _ => {}
        }
    }
    false
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
        let (placed, complaints) = document.read();
        match placed {
            Some(placed) if document.aliases().next().is_none() => {
                let part = text.get(range).unwrap_or(text);
                let maybe_secret = MaybeSecret::of(part).incomplete(!complaints.is_empty());
                lines.extend(of_placed(&placed, &maybe_secret, first, last));
            }
            Some(placed)
                if of_object(placed.value(), &MaybeSecret::of(text).incomplete(!complaints.is_empty()))
                    == Showing::Everything => {}
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
    if maybe_secret.leaves_out_a_secret() {
        return (first..=last).collect();
    }
    if is_kustomization(placed.value()) {
        return of_kustomization(placed, maybe_secret.text, first, last);
    }
    let is_secret = |object: &Value| of_object(object, maybe_secret) != Showing::Everything;
    if !is_secret(placed.value()) {
        return BTreeSet::new();
    }
    let kind = placed.value()["kind"].as_str().unwrap_or_default();
    let others = |(name, value): (&String, &Value)| name != "items" && holds_secret(value);
    let around = placed.value().as_object().is_some_and(|fields| fields.iter().any(others));
    let is_list = kind == "List" && placed.value()["items"].is_array() && !around;
    let Some(items) = placed.root().get("items").filter(|_| is_list) else { return (first..=last).collect() };
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
    let secret = names_secret(text) || text.contains("stringData");
    if secret || (says("data") && !says("ConfigMap")) { Showing::Nothing } else { Showing::Everything }
}

/// Returns true when a text has a word with a secret in it, other than those that only refer to Secrets.
fn names_secret(text: &str) -> bool {
    text.match_indices("ecret").any(|(at, _)| !is_reference(text, at))
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
    fn a_secret_anywhere_below_is_found_and_a_reference_is_none() {
        for (text, found) in [
            ("{kind: Template, objects: [{apiVersion: v1, kind: Secret, data: {a: b}}]}", true),
            ("{kind: List, items: {kind: Secret, data: {a: b}}}", true),
            ("{kind: List, items: {a: {b: {apiVersion: v1, kind: SealedSecret, spec: {}}}}}", true),
            ("{kind: List, items: [{kind: List, items: [{kind: Secret, x: y}]}]}", true),
            ("{kind: List, items: [{apiVersion: v1, metadata: {name: a}, stringDatas: {a: b}}]}", true),
            ("{kind: DeploymentList, items: [{data: {a: b}}]}", true),
            ("{kind: Thing, spec: {stringData: {a: b}}}", true),
            ("{kind: Secret, kind: ConfigMap, data: {a: b}}", true),
            ("{kind: List, items: [{kind: Secret, data: {}}], items: []}", true),
            ("{kind: Kustomization, secretGenerator: [{literals: [a=b]}], secretGenerator: []}", true),
            ("{kind: ConfigMap, data: {a: b}, data: {c: d}}", false),
            ("{kind: Deployment, spec: {a: {secretName: b}}, spec: {}}", false),
            ("{kind: HelmRelease, spec: {valuesFrom: [{kind: Secret, name: a, valuesKey: b}]}}", false),
            ("{kind: CustomResourceDefinition, spec: {names: {kind: ExternalSecret, plural: externalsecrets}}}", false),
            ("{kind: List, items: [{kind: ConfigMap, data: {a: b}}]}", false),
        ] {
            let documents = yaml::documents(text).0;
            let (placed, complaints) = documents[0].read();
            let maybe_secret = MaybeSecret::of(text).incomplete(!complaints.is_empty());
            let showing = of_object(placed.unwrap().value(), &maybe_secret);
            assert_eq!(showing != Showing::Everything, found, "{text}");
            assert_eq!(!secret_lines(text).is_empty(), found, "{text}");
        }
    }

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
