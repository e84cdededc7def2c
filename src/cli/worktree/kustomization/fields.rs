//! `images` and `replicas` in the text of a kustomization.

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::cli::worktree::edit_op::{Op, key};
use crate::cli::worktree::pick::write_in;
use belay_core::manifest::ObjectKey;
use belay_core::manifest::edit::{New, Step};
use belay_core::manifest::yaml::documents;

/// Returns the content of a kustomization.
///
/// # Errors
/// Fails when it is not one document, or can't be read.
pub(super) fn read(text: &str) -> anyhow::Result<Value> {
    let (documents, complaints) = documents(text);
    let ([document], true) = (&documents[..], complaints.is_empty()) else { bail!("it is not one document") };
    let value = document.read().0.context("it can't be read")?.into_value();
    if value.is_object() { Ok(value) } else { bail!("it is no mapping") }
}

/// An image's name, and its tag or digest.
#[derive(Debug, PartialEq, Eq)]
struct Image<'i> {
    name: &'i str,
    tag: Option<&'i str>,
    digest: Option<&'i str>,
}

impl Image<'_> {
    fn of(text: &str) -> Image<'_> {
        let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
        // The colon of a port stands before the last part.
        match rest.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
            Some((name, tag)) => Image { name, tag: Some(tag), digest },
            None => Image { name: rest, tag: None, digest },
        }
    }
}

/// Has `images` make one image of another.
pub(super) fn with_image(text: &str, from: &str, to: &str) -> anyhow::Result<String> {
    let (from, to) = (Image::of(from), Image::of(to));
    if to.tag.is_none() && to.digest.is_none() && (from.tag.is_some() || from.digest.is_some()) {
        bail!("images: can't take the tag away that an image has; say which tag or digest it is to have");
    }
    let fields =
        [("newName", Some(to.name).filter(|name| *name != from.name)), ("newTag", to.tag), ("digest", to.digest)];
    let value = read(text)?;
    let Some((at, entry)) = only(&value["images"], &[from.name])? else {
        let written = fields.into_iter().filter_map(|(name, value)| Some((name, New::Text(value?.to_owned()))));
        return add(text, &value, "images", from.name, written.collect());
    };
    let path = vec![key("images"), Step::Item(at)];
    let (mut ops, mut gone) = (Vec::new(), Vec::new());
    for (name, wanted) in fields {
        match (wanted, entry.get(name)) {
            (Some(wanted), Some(there)) if there == wanted => {}
            (Some(wanted), Some(_)) => {
                ops.push(Op::Set([path.clone(), vec![key(name)]].concat(), New::Text(wanted.to_owned())));
            }
            (Some(wanted), None) => {
                ops.push(Op::AddEntry(path.clone(), name.to_owned(), New::Text(wanted.to_owned())));
            }
            (None, Some(_)) => gone.push(Op::RemoveEntry(path.clone(), name.to_owned())),
            (None, None) => {}
        }
    }
    ops.append(&mut gone);
    Ok(write_in(text, 0, None, &ops)?)
}

/// Has `replicas` give a workload so many.
pub(super) fn with_replicas(text: &str, object: &ObjectKey, ops: &[Op]) -> anyhow::Result<String> {
    let Some(Op::Set(_, count) | Op::AddEntry(_, _, count)) = ops.first() else {
        bail!("there is no number to set");
    };
    let value = read(text)?;
    // kustomize knows a workload by the name that it had before this kustomization gave it another, too.
    let affix = |field: &str| value[field].as_str().unwrap_or_default();
    let bare = object.name.strip_prefix(affix("namePrefix")).unwrap_or(&object.name);
    let bare = bare.strip_suffix(affix("nameSuffix")).unwrap_or(bare);
    let Some((at, entry)) = only(&value["replicas"], &[bare, &object.name])? else {
        return add(text, &value, "replicas", bare, vec![("count", count.clone())]);
    };
    let path = vec![key("replicas"), Step::Item(at)];
    let op = match entry.get("count") {
        Some(_) => Op::Set([path, vec![key("count")]].concat(), count.clone()),
        None => Op::AddEntry(path, "count".to_owned(), count.clone()),
    };
    Ok(write_in(text, 0, None, &[op])?)
}

/// Returns the item of a list that has one of these names.
fn only<'v>(list: &'v Value, names: &[&str]) -> anyhow::Result<Option<(usize, &'v Value)>> {
    let all = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let named = |item: &Value| item["name"].as_str().is_some_and(|name| names.contains(&name));
    let mut found = all.iter().enumerate().filter(|(_, item)| named(item));
    let first = found.next();
    match found.next() {
        None => Ok(first),
        Some(_) => bail!("several entries there are about {}", names[0]),
    }
}

fn add(text: &str, value: &Value, list: &str, name: &str, fields: Vec<(&str, New)>) -> anyhow::Result<String> {
    let named = ("name".to_owned(), New::Text(name.to_owned()));
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    let item = New::Mapping(std::iter::once(named).chain(fields).collect());
    let op = match value.get(list) {
        Some(_) => Op::AddItem(vec![key(list)], item),
        None => Op::AddEntry(Vec::new(), list.to_owned(), New::List(vec![item])),
    };
    Ok(write_in(text, 0, None, &[op])?)
}

/// Returns the value at a path.
pub(super) fn at_mut<'v>(value: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(name) => value.get_mut(name),
        Step::Item(index) => value.get_mut(index),
    })
}

/// Applies a change of images or replicas.
pub(super) fn apply(object: &mut Value, op: &Op) {
    match op {
        Op::Set(path, new) => {
            if let Some(there) = at_mut(object, path) {
                *there = new.to_value();
            }
        }
        Op::AddEntry(path, name, new) => {
            if let Some(there) = at_mut(object, path).and_then(Value::as_object_mut) {
                there.insert(name.clone(), new.to_value());
            }
        }
        Op::AddItem(..) | Op::RemoveEntry(..) | Op::RemoveItem(..) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_name_a_tag_and_a_digest() {
        let image = |name, tag, digest| Image { name, tag, digest };
        assert_eq!(Image::of("web"), image("web", None, None));
        assert_eq!(Image::of("web:1"), image("web", Some("1"), None));
        assert_eq!(Image::of("host:5000/a/web"), image("host:5000/a/web", None, None));
        assert_eq!(Image::of("host:5000/web:1@sha256:ab"), image("host:5000/web", Some("1"), Some("sha256:ab")));
    }

    #[test]
    fn images_are_written_as_they_stand() {
        for (before, from, to, after) in [
            ("resources: [a]\n", "web:1", "web:1.10", "resources: [a]\nimages:\n- name: web\n  newTag: \"1.10\"\n"),
            (
                "# top\nimages: # all\n- name: web # it\n  newTag: '1' # tag\n",
                "web",
                "web:2",
                "# top\nimages: # all\n- name: web # it\n  newTag: '2' # tag\n",
            ),
            (
                "images:\n- name: web\n  newName: old\n  newTag: v1\n",
                "web",
                "r/web@sha256:ab",
                "images:\n- name: web\n  newName: r/web\n  digest: sha256:ab\n",
            ),
            (
                "images: [{name: web, newTag: v1}]\n",
                "api",
                "api:v2",
                "images: [{name: web, newTag: v1}, {name: api, newTag: v2}]\n",
            ),
        ] {
            assert_eq!(with_image(before, from, to).unwrap(), after, "{before}");
        }
        let twice = "images: [{name: web, newTag: v1}, {name: web, newTag: v2}]\n";
        assert!(with_image(twice, "web", "web:3").unwrap_err().to_string().contains("several"));
        assert!(with_image("a: b\n", "web:1", "web").is_err());
        assert!(with_image("a: b\n---\na: b\n", "web:1", "web:2").is_err());
    }
}
