//! The message of a tool that has failed, as complaints show it: without the private folder that it was run in, and
//! without values that may be secret.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::child::ChildFailure;
use super::tree::{Node, Tree, below};
use super::unit::{HelmOptions, KUSTOMIZATIONS, Unit, UnitKind};
use belay_core::manifest::{ChartTemplates, FileContent, NamedFiles, Place, Redaction, files_of_kustomization, join};

/// The most of a unit's files that is searched for values that may be secret, in bytes.
const BYTES: u64 = 8 << 20;
/// The most of its files and folders.
const ENTRIES: usize = 20_000;
/// The most words of a tool that are tried as places.
const PLACES: usize = 64;

/// Returns a tool's words without the folder that it was shown the repository in, which is there no more.
pub(super) fn without_folder(failure: ChildFailure, exported: &Path) -> ChildFailure {
    let real = fs::canonicalize(exported).unwrap_or_else(|_| exported.to_owned());
    let shorten = |message: String| {
        let mut message = message;
        for folder in [real.as_path(), exported] {
            let folder = folder.display().to_string();
            message = message.replace(&format!("{folder}/"), "").replace(&folder, "/");
        }
        message
    };
    match failure {
        ChildFailure::Said(message) => ChildFailure::Said(shorten(message)),
        ChildFailure::Bounds(message) => ChildFailure::Bounds(shorten(message)),
        ChildFailure::Machine(message) => ChildFailure::Machine(shorten(message)),
        ChildFailure::GivenUp => ChildFailure::GivenUp,
    }
}

/// Returns a tool's words without the values that the Secrets, generators, patches, values and environment files of its
/// unit hold. Nothing of them, if there is more than is searched.
pub(super) fn without_values<T: Tree>(tree: &T, unit: &Unit, message: &str) -> Result<String, T::Error> {
    let mut search = Search { tree, redaction: Redaction::of(message), bytes: BYTES, entries: ENTRIES };
    let complete = match &unit.kind {
        UnitKind::Kustomize { .. } => search.kustomization(unit)?,
        UnitKind::Helm(options) => search.chart(unit, options)?,
    };
    if !complete {
        let limit = BYTES >> 20;
        return Ok(format!(
            "failed; its words are not shown, for they may hold values of Secrets: the unit has more than {limit} MiB or \
             {ENTRIES} files to look for these in"
        ));
    }
    let mut left = PLACES;
    let mut read = Ok(());
    let shown = search.redaction.finish(|word| {
        let places = [join(&unit.folder, word), join("", word), in_chart(word, &unit.folder)];
        left = left.saturating_sub(1);
        left > 0
            && places.into_iter().flatten().any(|path| match tree.node(&path) {
                Ok(node) => matches!(node, Some(Node::File(_) | Node::Folder(_))),
                Err(error) => {
                    read = Err(error);
                    false
                }
            })
    });
    read.map(|()| shown)
}

/// Returns the path of a file that Helm names: with the chart's name in the place of its folder.
fn in_chart(word: &str, folder: &str) -> Option<String> {
    join(folder, word.split_once('/')?.1)
}

/// The files of a unit that are searched.
struct Search<'t, T> {
    tree: &'t T,
    redaction: Redaction,
    bytes: u64,
    entries: usize,
}

impl<T: Tree> Search<'_, T> {
    /// Looks through the files of a kustomization. Returns whether that was all of them.
    fn kustomization(&mut self, unit: &Unit) -> Result<bool, T::Error> {
        let Some(files) = self.files(unit)? else { return Ok(false) };
        let mut named = NamedFiles::new();
        for path in files.iter().filter(|path| is_kustomization(path)) {
            let Some(bytes) = self.read(path)? else { return Ok(false) };
            self.redaction.hide_file(FileContent::Kustomization, &bytes);
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            named.extend(files_of_kustomization(folder, &bytes));
        }
        for path in files.iter().filter(|path| !is_kustomization(path)) {
            let Some(bytes) = self.read(path)? else { return Ok(false) };
            // kustomize reads a resource whatever its name ends with.
            self.redaction.hide_file(FileContent::Manifests, &bytes);
            if let Some(content) = named.get(path) {
                self.redaction.hide_file(*content, &bytes);
            }
        }
        Ok(true)
    }

    /// Looks through the files of a chart, as [`kustomization`](Search::kustomization) does.
    fn chart(&mut self, unit: &Unit, options: &HelmOptions) -> Result<bool, T::Error> {
        options.set.iter().for_each(|(name, value)| self.redaction.hide_values(name, value));
        let Some(files) = self.files(unit)? else { return Ok(false) };
        let (values, mut templates) = (unit.values_files(), ChartTemplates::default());
        options.set.values().for_each(|value| templates.note_values(&value.to_string()));
        let in_unit = |path: &str| Some(path.strip_prefix(&*unit.folder)?.trim_start_matches('/').to_owned());
        let is_template =
            |path: &String| !values.contains(path) && in_unit(path).is_some_and(|path| is_within(&path, "templates"));
        for path in files.iter().filter(|path| is_template(path)) {
            let Some(bytes) = self.read(path)? else { return Ok(false) };
            self.redaction.hide_file(FileContent::Template, &bytes);
            templates.note(&String::from_utf8_lossy(&bytes));
        }
        for path in files.iter().filter(|path| !is_template(path)) {
            let by_name = || content_in_chart(&in_unit(path)?, &templates);
            let content = if values.contains(path) { Some(FileContent::Values) } else { by_name() };
            let Some(content) = content else { continue };
            let Some(bytes) = self.read(path)? else { return Ok(false) };
            self.redaction.hide_file(content, &bytes);
            if content == FileContent::Values {
                templates.note_values(&String::from_utf8_lossy(&bytes));
            }
        }
        self.redaction.hide_included(&templates);
        Ok(true)
    }

    /// Returns the files that a unit is made from; `None` if there are too many.
    fn files(&mut self, unit: &Unit) -> Result<Option<BTreeSet<String>>, T::Error> {
        let mut files = BTreeSet::new();
        let mut next: Vec<(String, Node)> = Vec::new();
        next.extend(unit.inputs.nodes.iter().filter_map(|(path, node)| Some((path.clone(), (*node)?))));
        while let Some((path, node)) = next.pop() {
            let Some(left) = self.entries.checked_sub(1) else { return Ok(None) };
            self.entries = left;
            match node {
                Node::File(_) => drop(files.insert(path)),
                Node::Folder(_) => {
                    let entries = self.tree.list(&path)?;
                    next.extend(entries.into_iter().map(|(name, node)| (below(&path, &name), node)));
                }
                Node::Link | Node::Submodule => {}
            }
        }
        Ok(Some(files))
    }

    /// Returns the content of a file; `None` if that is larger than the rest of the budget.
    fn read(&mut self, path: &str) -> Result<Option<Vec<u8>>, T::Error> {
        let bytes = self.tree.read(path, self.bytes)?;
        self.bytes = self.bytes.saturating_sub(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
        Ok(bytes)
    }
}

fn is_kustomization(path: &str) -> bool {
    KUSTOMIZATIONS.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// Returns true when one of the folders of a path has this name.
fn is_within(path: &str, wanted: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(folder, _)| folder.split('/').any(|part| part == wanted))
}

/// Returns the kind of a chart's file that is no template, by its path in the chart; `None` if no value of it can be printed.
fn content_in_chart(path: &str, templates: &ChartTemplates) -> Option<FileContent> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    // In the chart itself, or in one that it depends on.
    let at_the_top = folder.is_empty() || folder.rsplit('/').nth(1) == Some("charts");
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match name {
        "Chart.yaml" | "Chart.lock" | "requirements.yaml" | "requirements.lock" => Some(FileContent::Chart),
        "values.schema.json" if at_the_top => Some(FileContent::Schema),
        _ if ending == "tgz" => None,
        _ if is_within(path, "crds") => Some(FileContent::Manifests),
        _ if matches!(ending, "yaml" | "yml" | "json") => Some(FileContent::Values),
        // Every line of a text for people would hide words of the tool: it is one only where a template may read it.
        _ if ending == "md" || matches!(name, "LICENSE" | ".helmignore") => {
            let in_dependency = path.rsplit_once("charts/").and_then(|(_, below)| Some(below.split_once('/')?.1));
            let read = templates.may_read(path) || in_dependency.is_some_and(|path| templates.may_read(path));
            read.then_some(FileContent::Environment)
        }
        _ => Some(FileContent::Environment),
    }
}

/// Returns the place in a chart that Helm names: `web/templates/a.yaml:3:14`, where `web` is the chart's name.
pub(super) fn place_in(message: &str, folder: &str) -> Option<Place> {
    let words = message.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '<' | '>'));
    words.filter(|word| word.contains("/templates/") || word.contains("/charts/")).find_map(|word| {
        let mut parts = word.split(':');
        let path = in_chart(parts.next()?, folder)?;
        let line = parts.next()?.parse().ok()?;
        let column = parts.next().and_then(|column| column.parse().ok()).unwrap_or(1);
        Some(Place { path: path.into(), line, column })
    })
}
