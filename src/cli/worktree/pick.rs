//! The choice of manifests in a working copy, with their changes written into the text.

use anyhow::{anyhow, bail};

use super::Worktree;
use super::edit_op::{Op, key};
use super::kustomization::RenderedFolder;
use crate::cli::args::nearest::there_is;
use crate::cli::args::selector::Selector;
use crate::cli::args::target::{self, Meant, meant};
use crate::cli::args::workload::Named;
use belay_core::manifest::edit::{self, EditError, Step};
use belay_core::manifest::{File, Manifest, ObjectKey};

/// Writes changes of one manifest into the text of its file.
pub(in crate::cli) fn write(text: &str, manifest: &Manifest, ops: &[Op]) -> Result<String, EditError> {
    write_in(text, manifest.document, manifest.item, ops)
}

/// Writes changes into a document, or into an item of the list that it is.
pub(in crate::cli) fn write_in(
    text: &str,
    document: usize,
    item: Option<usize>,
    ops: &[Op],
) -> Result<String, EditError> {
    let whole = |path: &[Step]| -> Vec<Step> {
        let item = item.map(|item| [key("items"), Step::Item(item)]);
        item.into_iter().flatten().chain(path.iter().cloned()).collect()
    };
    let mut text = text.to_owned();
    for op in ops {
        text = match op {
            Op::Set(path, new) => edit::set(&text, document, &whole(path), new)?,
            Op::AddEntry(path, key, new) => edit::add_entry(&text, document, &whole(path), key, new)?,
            Op::AddItem(path, new) => edit::add_item(&text, document, &whole(path), new)?,
            Op::RemoveEntry(path, key) => edit::remove_entry(&text, document, &whole(path), key)?,
            Op::RemoveItem(path, at) => edit::remove_item(&text, document, &whole(path), *at)?,
        };
    }
    Ok(text)
}

/// The choice of manifests.
pub(in crate::cli) struct Pick<'a> {
    pub words: &'a [String],
    pub selector: Option<&'a str>,
    pub namespace: Option<&'a str>,
    /// The kinds that can be changed so.
    pub kinds: &'static [(&'static str, &'static str)],
    /// The message for another kind: `has no pods`.
    pub otherwise: &'static str,
}

impl Pick<'_> {
    /// Returns the manifests that are meant, each with the path of its file, or of the unit that renders it; with no
    /// word and no labels, all that can be changed so where `all` is said.
    pub(in crate::cli) fn in_worktree<'d>(
        &self,
        worktree: &'d Worktree,
        rendered: &'d RenderedFolder,
    ) -> anyhow::Result<Vec<(String, &'d Manifest)>> {
        let plain = worktree.manifests().filter(|(path, _)| !rendered.covers(path));
        let all = plain.chain(rendered.manifests()).map(|(path, manifest)| (path.clone(), manifest)).collect();
        let failure = rendered.failure();
        if let Some(failure) = failure.as_ref().filter(|_| self.selector.is_some()) {
            bail!(failure.clone());
        }
        let rejected = worktree.rejected().filter(|(path, _)| !rendered.covers(path)).map(|(_, object)| object).min();
        self.of(all).map_err(|error| match (failure, rejected) {
            (Some(failure), _) => error.context(failure),
            (None, Some(first)) => {
                error.context(format!("some manifests here can't be read, {first} among them; `belay check` says why"))
            }
            (None, None) => error,
        })
    }

    /// Returns the same of the text of one file; all where nothing is named.
    pub(in crate::cli) fn in_file<'d>(&self, file: &'d File) -> anyhow::Result<Vec<(String, &'d Manifest)>> {
        let all: Vec<(String, &Manifest)> =
            file.manifests.iter().map(|manifest| (file.path.to_string(), manifest)).collect();
        if self.words.is_empty() && self.selector.is_none() {
            let fitting: Vec<_> = all.into_iter().filter(|(_, manifest)| self.fits(&manifest.key)).collect();
            if fitting.is_empty() {
                bail!("there is no manifest on standard input that could be changed so");
            }
            return Ok(fitting);
        }
        self.of(all)
    }

    fn of<'d>(&self, all: Vec<(String, &'d Manifest)>) -> anyhow::Result<Vec<(String, &'d Manifest)>> {
        let here =
            |object: &ObjectKey| self.namespace.is_none_or(|namespace| object.namespace.as_deref() == Some(namespace));
        let all: Vec<_> = all.into_iter().filter(|(_, manifest)| here(&manifest.key)).collect();
        match meant(self.words, self.selector.is_some())? {
            Meant::Kinds(kinds, names) if names.is_empty() => {
                // All of them have no label in common.
                let labels = self.selector.filter(|labels| !labels.is_empty());
                let selector: Option<Selector> =
                    labels.map(|labels| labels.parse().map_err(|error: String| anyhow!(error))).transpose()?;
                let kind = |object: &ObjectKey| {
                    kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|(_, kind)| *kind == object.kind))
                };
                let fits = |manifest: &Manifest| self.fits(&manifest.key) && kind(&manifest.key);
                let found: Vec<_> = all
                    .into_iter()
                    .filter(|(_, manifest)| {
                        let labelled = |selector: &Selector| selector.matches(&manifest.value());
                        fits(manifest) && selector.as_ref().is_none_or(labelled)
                    })
                    .collect();
                if found.is_empty() {
                    match self.selector.unwrap_or_default() {
                        "" => bail!("no manifest here can be changed so"),
                        labels => bail!("no manifest here has the labels {labels:?} and can be changed so"),
                    }
                }
                Ok(found)
            }
            Meant::Kinds(kinds, names) => {
                let mut found = Vec::new();
                for name in &names {
                    for (api_version, kind) in kinds.iter().flatten() {
                        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
                        let named = Named { kind: Some((group, kind.clone())), name: name.clone() };
                        found.push(self.one(&all, &named)?);
                    }
                }
                Ok(found)
            }
            Meant::Each(named) => named.iter().map(|named| self.one(&all, named)).collect(),
        }
    }

    fn one<'d>(&self, all: &[(String, &'d Manifest)], named: &Named) -> anyhow::Result<(String, &'d Manifest)> {
        let mut found: Vec<_> = all.iter().filter(|(_, manifest)| named.means(&manifest.key, None)).cloned().collect();
        let (kind, name) = (named.kind.as_ref().map(|(_, kind)| kind.as_str()), &named.name);
        if found.is_empty() {
            let fitting = all.iter().filter(|(_, manifest)| self.fits(&manifest.key));
            let there = fitting.map(|(_, manifest)| (manifest.key.name.as_str(), target::named(&manifest.key)));
            let hint = there_is(name, there, 0);
            bail!("no manifest of {} {name:?} is here{hint}", kind.unwrap_or("a workload"));
        }
        let all_of_it = found.clone();
        found.retain(|(_, manifest)| self.fits(&manifest.key));
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => bail!("{} {}", all_of_it[0].1.key, self.otherwise),
            _ => {
                let places: Vec<String> =
                    found.iter().map(|(_, manifest)| format!("{} ({})", manifest.key, manifest.place)).collect();
                bail!(
                    "there are several: {}; say KIND/NAME, and the namespace with -n or the folder with --dir",
                    places.join(", ")
                )
            }
        }
    }

    fn fits(&self, object: &ObjectKey) -> bool {
        self.kinds.iter().any(|(api_version, kind)| {
            *kind == object.kind && api_version.split_once('/').map_or("", |(group, _)| group) == object.group
        })
    }
}
