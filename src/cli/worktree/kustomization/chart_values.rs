//! The search for the value of a chart that must change so that an object is rendered as it is wanted: by trying.

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::fields;
use super::{EditedUnit, KustomizationField, Objects, RenderedFolder, changed_with};
use crate::cli::commands::set::Change;
use crate::cli::worktree::edit_op::key;
use crate::render::{Unit, below};
use belay_core::manifest::Manifest;
use belay_core::manifest::edit::{self, New, Step};
use belay_core::manifest::yaml::documents;

/// The most values that are tried.
const TRIED: usize = 50;

/// A change of one value.
struct ValueChange {
    path: Vec<Step>,
    new: New,
}

impl RenderedFolder {
    /// Changes the one value of a chart that has a workload rendered as it is wanted, and nothing else.
    pub(super) fn edit_values(
        &self,
        unit: &Unit,
        text: impl Fn(&str) -> anyhow::Result<String>,
        manifest: &Manifest,
        change: &impl Change,
    ) -> anyhow::Result<Option<EditedUnit>> {
        let object = &manifest.key;
        let files = self.values_files(unit);
        let texts = files.iter().map(|path| Ok((path.as_str(), text(path)?))).collect::<anyhow::Result<Vec<_>>>()?;
        let with = |path: &str, new: &str| -> anyhow::Result<Objects> {
            let all = texts.iter().map(|(other, text)| (*other, if *other == path { new } else { text.as_str() }));
            self.render(unit, &all.collect::<Vec<_>>())
        };
        let before = with("", "")?;
        let there =
            before.get(object).with_context(|| format!("{object} is not rendered by {} any more", unit.path))?;
        let ops = change.ops(object, there)?;
        if ops.is_empty() {
            return Ok(None);
        }
        let mut wanted = there.clone();
        ops.iter().for_each(|op| fields::apply(&mut wanted, op));
        let field = change.field().unwrap_or(KustomizationField::Replicas);
        let mut found = Vec::new();
        for (path, text) in &texts {
            for ValueChange { path: at, new } in candidates(text, there, &wanted) {
                let Ok(new) = edit::set(text, 0, &at, &new) else { continue };
                // One that leads elsewhere is not the one.
                let Ok(after) = with(path, &new) else { continue };
                if let Ok(others) = changed_with(field, &before, &after, (object, &ops)) {
                    found.push(EditedUnit { path: (*path).to_owned(), text: new, others });
                }
            }
        }
        let place = &manifest.place.path;
        match found.len() {
            1 => Ok(found.pop()),
            0 => bail!(
                "{object} is rendered by the chart {}, and no single value there makes it so: change its values ({}, or the \
                 files that [[source.helm]] names), or its template, {place}",
                unit.shown(),
                if files.is_empty() { below(&unit.folder, "values.yaml") } else { files.join(", ") },
            ),
            several => bail!(
                "{object} is rendered by the chart {}, and {several} values there would make it so: change the right one by \
                 hand, in {}",
                unit.shown(),
                files.join(", ")
            ),
        }
    }
}

/// Returns the possible changes in the text of a file with values: each single value that contains the text to replace,
/// a whole text or the tag of an image.
fn candidates(text: &str, before: &Value, wanted: &Value) -> Vec<ValueChange> {
    let mut replaced = Vec::new();
    differing(before, wanted, &mut replaced);
    let pairs: Vec<(String, String)> = replaced.iter().flat_map(|(old, new)| said_as(old, new)).collect();
    let (documents, _) = documents(text);
    let [document] = &documents[..] else { return Vec::new() };
    let Some(values) = document.read().0.map(|placed| placed.value().clone()) else { return Vec::new() };
    let mut found = Vec::new();
    walk(&values, &mut Vec::new(), &mut |path, value| {
        let said = text_of(value);
        for (old, new) in &pairs {
            let is_tag = old.is_empty() && matches!(path.last(), Some(Step::Key(name)) if name == "tag");
            if said.as_deref() == Some(old.as_str()) && (!old.is_empty() || is_tag) && found.len() < TRIED {
                let integer = new.parse::<i64>().ok().filter(|_| value.is_number());
                let new = integer.map_or_else(|| New::Text(new.clone()), New::Integer);
                found.push(ValueChange { path: path.to_vec(), new });
            }
        }
    });
    found
}

/// Collects the single values that differ, the old with the new.
fn differing<'v>(before: &'v Value, wanted: &'v Value, found: &mut Vec<(&'v Value, &'v Value)>) {
    match (before, wanted) {
        (Value::Object(before), Value::Object(wanted)) => {
            for (name, wanted) in wanted {
                differing(before.get(name).unwrap_or(&Value::Null), wanted, found);
            }
        }
        (Value::Array(before), Value::Array(wanted)) => {
            before.iter().zip(wanted).for_each(|(before, wanted)| differing(before, wanted, found));
        }
        _ if before == wanted => {}
        _ => found.push((before, wanted)),
    }
}

/// Returns how values may contain it: as it is, or as the tag of an image. If a chart's own version is the tag, its
/// value is empty.
fn said_as(old: &Value, new: &Value) -> Vec<(String, String)> {
    let (Some(old), Some(new)) = (text_of(old), text_of(new)) else { return Vec::new() };
    let mut pairs = Vec::new();
    if let (Some((old_name, old_tag)), Some((new_name, new_tag))) = (old.rsplit_once(':'), new.rsplit_once(':'))
        && old_name == new_name
    {
        pairs.push((old_tag.to_owned(), new_tag.to_owned()));
        pairs.push((String::new(), new_tag.to_owned()));
    }
    pairs.push((old, new));
    pairs
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(said) => Some(said.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn walk(value: &Value, path: &mut Vec<Step>, tell: &mut impl FnMut(&[Step], &Value)) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                path.push(key(name));
                walk(value, path, tell);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                path.push(Step::Item(index));
                walk(value, path, tell);
                path.pop();
            }
        }
        single => tell(path, single),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(values: &str, before: &Value, wanted: &Value) -> Vec<(String, Value)> {
        let shown = |step: &Step| match step {
            Step::Key(name) => name.clone(),
            Step::Item(index) => index.to_string(),
        };
        let path = |change: &ValueChange| change.path.iter().map(shown).collect::<Vec<_>>().join(".");
        candidates(values, before, wanted).iter().map(|change| (path(change), change.new.to_value())).collect()
    }

    #[test]
    fn a_tag_a_whole_image_and_a_number_are_found() {
        let (before, wanted) = (json!({"image": "r/web:1"}), json!({"image": "r/web:2"}));
        assert_eq!(found("image: {tag: '1'}\n", &before, &wanted), [("image.tag".to_owned(), json!("2"))]);
        assert_eq!(found("all: ['r/web:1']\n", &before, &wanted), [("all.0".to_owned(), json!("r/web:2"))]);
        assert_eq!(found("tag: ''\nother: ''\n", &before, &wanted), [("tag".to_owned(), json!("2"))]);
        let (one, three) = (json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 3}}));
        let size = found("replicas: 1\nport: 1\nname: one\n", &one, &three);
        assert_eq!(
            size,
            [("port".to_owned(), json!(3)), ("replicas".to_owned(), json!(3))],
            "which one shows by trying"
        );
    }

    #[test]
    fn what_is_new_has_no_value() {
        assert_eq!(found("replicas: 1\n", &json!({}), &json!({"replicas": 1})), []);
        assert_eq!(found("a: [\n", &json!({"a": 1}), &json!({"a": 2})), []);
    }
}
