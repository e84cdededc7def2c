//! The rendered units of a working copy, and the kustomization that is edited in a manifest's stead.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::Worktree;
use super::disk_tree::DiskTree;
use super::edit_op::{Op, at, key};
use super::units::FolderUnits;
use crate::cli::commands::set::Change;
use crate::cli::session::configured::Reading;
use crate::render::{ContentId, Node, Renderer, Tree, Unit, UnitKind, below, folders_above, kustomization_in};
use belay_core::manifest::edit::{self, New, Step};
use belay_core::manifest::{File, HOOK_RUN, Manifest, ObjectKey, Scopes, join};

mod chart_values;
mod fields;

/// The field of a kustomization that sets the same as a field of its workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum KustomizationField {
    /// `images`
    Images,
    /// `replicas`
    Replicas,
}

/// The renderings of a folder's units.
pub(in crate::cli) struct RenderedFolder {
    units: FolderUnits<DiskTree>,
    scopes: Scopes,
    /// By the paths of the units; without those that others are built on.
    files: BTreeMap<String, File>,
    reading: Reading,
}

/// The new text of a kustomization, or of a file with a chart's values.
pub(in crate::cli) struct EditedUnit {
    pub path: String,
    pub text: String,
    /// The workloads that have the same image name, and change with it.
    pub others: Vec<ObjectKey>,
}

/// Objects by their names.
type Objects = BTreeMap<ObjectKey, Value>;

impl RenderedFolder {
    /// Returns the units of a folder, rendered.
    pub(in crate::cli) fn below(folder: &Path, namespace: &str, reading: Reading) -> anyhow::Result<RenderedFolder> {
        let (tree, folder) =
            DiskTree::around(folder).with_context(|| format!("failed to read the folder {}", folder.display()))?;
        let units = FolderUnits::planned(tree, &folder, &reading);
        let bases: BTreeSet<&str> = units.plan.rolled_out_twice().iter().map(|twice| &*twice.base.path).collect();
        let followed: Vec<&Unit> = units.plan.units.values().filter(|unit| !bases.contains(&*unit.path)).collect();
        units.prepare(&followed);
        let scopes = Scopes::new(namespace);
        let read = |unit: &&Unit| (unit.path.to_string(), units.read(unit, &scopes, |path| path.into()));
        let files = followed.iter().map(read).collect();
        Ok(RenderedFolder { units, scopes, files, reading })
    }

    /// Returns true when the file at a path is no manifest that is rolled out as it is.
    pub(in crate::cli) fn covers(&self, path: &str) -> bool {
        self.units.plan.covers(path)
    }

    /// Returns all manifests, each with the path of its unit.
    pub(in crate::cli) fn manifests(&self) -> impl Iterator<Item = (&String, &Manifest)> {
        self.files.iter().flat_map(|(path, file)| file.manifests.iter().map(move |manifest| (path, manifest)))
    }

    /// Returns why a unit is not rendered, if one is not.
    pub(in crate::cli) fn failure(&self) -> Option<String> {
        let failed = self.files.values().find(|file| file.manifests.is_empty() && !file.complaints.is_empty())?;
        let complaint = failed.complaints.first()?;
        let hint = complaint.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        Some(format!("{} is not rendered: {}: {}{hint}", failed.path, complaint.place, complaint.message))
    }

    /// Returns the files that may be edited: kustomizations, and those with the values of charts.
    pub(in crate::cli) fn editable(&self) -> impl Iterator<Item = String> {
        self.units.plan.units.values().flat_map(|unit| match unit.kind {
            UnitKind::Kustomize { .. } => vec![unit.path.to_string()],
            UnitKind::Helm(_) => self.values_files(unit),
        })
    }

    /// Returns the existing files with a chart's values; a later one takes precedence.
    fn values_files(&self, unit: &Unit) -> Vec<String> {
        let mut files = unit.values_files();
        files.retain(|path| matches!(self.units.tree.node(path), Ok(Some(Node::File(_)))));
        files
    }

    /// Returns true when this is the path of a unit.
    pub(in crate::cli) fn is_unit(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Refuses a manifest that a unit above the folder is made from.
    pub(in crate::cli) fn refuse_part(&self, path: &str) -> anyhow::Result<()> {
        for folder in std::iter::once("").chain(folders_above(path)) {
            let is_there = |name: &str| matches!(self.units.tree.node(&below(folder, name)), Ok(Some(Node::File(_))));
            let Ok(kustomization) = kustomization_in(&self.units.tree, folder);
            if kustomization.is_none() && !is_there("Chart.yaml") {
                continue;
            }
            let Ok(plan) = renderer(&self.reading).plan(&self.units.tree, folder);
            let is_part = |unit: &&Unit| match unit.kind {
                UnitKind::Kustomize { .. } => unit.files.iter().any(|file| file == path),
                UnitKind::Helm(_) => *unit.folder == *folder,
            };
            if let Some(unit) = plan.units.values().find(is_part) {
                bail!("{path} is rendered by {}: say --dir with its folder, {}", unit.path, unit.shown());
            }
        }
        Ok(())
    }

    /// Writes a change of one workload into the text of the kustomization that renders it, or into the one value of its chart
    /// that does it, and proves by rendering it that nothing else changes. `text` returns the present text of a file.
    /// `None` if the workload is so already.
    ///
    /// # Errors
    /// Fails when that is not certain; the error names the file to edit.
    pub(in crate::cli) fn edit(
        &self,
        path: &str,
        text: impl Fn(&str) -> anyhow::Result<String>,
        manifest: &Manifest,
        change: &impl Change,
    ) -> anyhow::Result<Option<EditedUnit>> {
        let object = &manifest.key;
        let unit = self.units.plan.units.get(path).with_context(|| format!("failed to find {path}"))?;
        if matches!(unit.kind, UnitKind::Helm(_)) {
            return self.edit_values(unit, text, manifest, change);
        }
        let text = &*text(path)?;
        let Some(field) = change.field() else {
            bail!(
                "{object} is rendered by {path}: change it with a patch (patches: in {path}), or where it comes from, {}",
                manifest.place.path
            );
        };
        let before = self.render(unit, &[(path, text)])?;
        let there = before.get(object).with_context(|| format!("{object} is not rendered by {path} any more"))?;
        let ops = change.ops(object, there)?;
        if ops.is_empty() {
            return Ok(None);
        }
        let by_hand = || format!("edit {} in {path} by hand", field.name());
        let new = match field {
            KustomizationField::Images => self.with_images(unit, text, object, &ops),
            KustomizationField::Replicas => fields::with_replicas(text, object, &ops),
        };
        let new = new.with_context(by_hand)?;
        let after = self.render(unit, &[(path, &new)]).with_context(by_hand)?;
        let others = changed_with(field, &before, &after, (object, &ops)).with_context(by_hand)?;
        Ok(Some(EditedUnit { path: path.to_owned(), text: new, others }))
    }

    /// Returns a unit's rendering with other texts of files.
    fn render(&self, unit: &Unit, texts: &[(&str, &str)]) -> anyhow::Result<Objects> {
        let files = texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let tree = EditedTree { tree: &self.units.tree, files };
        rendered(&tree, &unit.folder, |other| *other.path == *unit.path, (&self.scopes, &self.reading))
    }

    /// The names of the images that `images` is about are those of the workload without it.
    fn with_images(&self, unit: &Unit, text: &str, object: &ObjectKey, ops: &[Op]) -> anyhow::Result<String> {
        let without = match fields::read(text)?.get("images") {
            Some(_) => edit::remove_entry(text, 0, &[], "images")?,
            None => text.to_owned(),
        };
        let source = self.render(unit, &[(&unit.path, &without)])?;
        let source = source.get(object).context("without images: it is called otherwise")?;
        let mut text = text.to_owned();
        for op in ops {
            let Op::Set(path, New::Text(image)) = op else { bail!("a container has no image yet") };
            let named = at(source, path).as_str().context("a container has no image without it")?;
            text = fields::with_image(&text, named, image)?;
        }
        Ok(text)
    }
}

impl KustomizationField {
    fn name(self) -> &'static str {
        match self {
            KustomizationField::Images => "images:",
            KustomizationField::Replicas => "replicas:",
        }
    }
}

fn renderer(reading: &Reading) -> Renderer {
    Renderer::new(reading.options.clone(), reading.tools.clone(), None)
}

/// Returns the rendering of the unit of a folder.
fn rendered<T: Tree<Error = Infallible>>(
    tree: &T,
    folder: &str,
    is_meant: impl Fn(&Unit) -> bool,
    (scopes, reading): (&Scopes, &Reading),
) -> anyhow::Result<Objects> {
    // One for each rendering: its cache is keyed by ids that do not change with an edit of a file on the disk.
    let renderer = renderer(reading);
    let Ok(plan) = renderer.plan(tree, folder);
    let unit = plan.units.values().find(|unit| is_meant(unit));
    let unit = unit.with_context(|| format!("{folder} is no kustomization that is rolled out"))?;
    let Ok(file) = renderer.file(tree, unit, scopes);
    // A fault in one object is no reason not to change another.
    if let Some(complaint) = file.complaints.first().filter(|_| file.manifests.is_empty()) {
        bail!("{}: {}", complaint.place, complaint.message);
    }
    let objects = file.manifests.into_iter().map(|manifest| {
        let mut value = manifest.value();
        // It changes with any change of the chart.
        if let Some(annotations) = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove(HOOK_RUN);
        }
        (manifest.key, value)
    });
    Ok(objects.collect())
}

/// Returns the other objects that change, which may be those with the same image name.
///
/// # Errors
/// Fails when the workload is not as it was wanted, or something else changes.
fn changed_with(
    field: KustomizationField,
    before: &Objects,
    after: &Objects,
    (object, ops): (&ObjectKey, &[Op]),
) -> anyhow::Result<Vec<ObjectKey>> {
    let mut wanted = before.get(object).cloned().unwrap_or_default();
    ops.iter().for_each(|op| fields::apply(&mut wanted, op));
    match after.get(object) {
        Some(now) if *now == wanted => {}
        Some(now)
            if without_images(object, now) == without_images(object, &wanted)
                && field == KustomizationField::Images =>
        {
            bail!("other images of {object} would change, or these not as wanted");
        }
        _ => bail!("{object} would not be as wanted, or more of it would change"),
    }
    let mut others = Vec::new();
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (Some(old), Some(new)) = (before.get(name), after.get(name)) else {
            bail!("{name} would come or go with it");
        };
        if name == object || old == new {
            continue;
        }
        if field != KustomizationField::Images || without_images(name, old) != without_images(name, new) {
            bail!("{name} would change, too");
        }
        others.push(name.clone());
    }
    Ok(others)
}

fn without_images(object: &ObjectKey, value: &Value) -> Value {
    let mut value = value.clone();
    let Some(spec) = super::edit_op::pod_spec(object) else { return value };
    let lists = ["containers", "initContainers"].map(|list| [spec.clone(), vec![key(list)]].concat());
    for list in lists {
        let containers = fields::at_mut(&mut value, &list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.remove("image");
        }
    }
    value
}

/// Returns the kustomization that a new manifest belongs to, the nearest above it, with the manifest among its
/// resources. `None` if there is none, or it names the manifest already.
///
/// # Errors
/// Fails when the text can't be changed so, or does not render to the same and the new objects.
pub(in crate::cli) fn with_resource(
    worktree: &mut Worktree,
    folder: &Path,
    (namespace, reading): (&str, &Reading),
    (path, text): (&str, &str),
) -> anyhow::Result<Option<(String, String)>> {
    let (tree, _) =
        DiskTree::around(folder).with_context(|| format!("failed to read the folder {}", folder.display()))?;
    let mut folders: Vec<&str> = std::iter::once("").chain(folders_above(path)).collect();
    folders.reverse();
    let nearest = folders.into_iter().find_map(|folder| {
        let Ok(found) = kustomization_in(&tree, folder);
        found.map(|file| (folder, file))
    });
    let Some((folder, file)) = nearest else { return Ok(None) };
    let named = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/');
    let by_hand = || format!("add {named} to resources: in {file} by hand");
    worktree.load(&file)?;
    let before = worktree.text(&file)?;
    let value = fields::read(before).with_context(by_hand)?;
    let listed = value["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if listed.into_iter().any(|there| join(folder, there).as_deref() == Some(path)) {
        return Ok(None);
    }
    worktree.check(&file)?;
    let item = New::Text(named.to_owned());
    let after = match value.get("resources") {
        None => edit::add_entry(before, 0, &[], "resources", &New::List(vec![item])),
        Some(_) => edit::add_item(before, 0, &[Step::Key("resources".to_owned())], &item),
    };
    let after = after.with_context(by_hand)?;
    let scopes = Scopes::new(namespace);
    // If it does not render as it is, a tool is missing or something else is wrong, which `belay check` reports.
    let reading = (&scopes, reading);
    let is_meant = |unit: &Unit| *unit.folder == *folder;
    if let Ok(old) = rendered(&tree, folder, is_meant, reading) {
        let files = BTreeMap::from([(file.clone(), after.clone()), (path.to_owned(), text.to_owned())]);
        let tree = EditedTree { tree: &tree, files };
        let new = rendered(&tree, folder, is_meant, reading).with_context(by_hand)?;
        if let Some((name, _)) = old.iter().find(|(name, value)| new.get(name) != Some(value)) {
            return Err(anyhow::anyhow!("{name} would change, too")).with_context(by_hand);
        }
    }
    Ok(Some((file, after)))
}

/// The files of a folder on this machine, some of them with other texts.
struct EditedTree<'t> {
    tree: &'t DiskTree,
    files: BTreeMap<String, String>,
}

impl Tree for EditedTree<'_> {
    type Error = Infallible;

    fn node(&self, path: &str) -> Result<Option<Node>, Infallible> {
        match self.files.get(path) {
            Some(text) => Ok(Some(Node::File(ContentId::of(text.as_bytes())))),
            None => self.tree.node(path),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, Node)>, Infallible> {
        let mut listed: BTreeMap<String, Node> = self.tree.list(folder)?.into_iter().collect();
        for (path, text) in &self.files {
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            if above == folder {
                listed.insert(name.to_owned(), Node::File(ContentId::of(text.as_bytes())));
            }
        }
        Ok(listed.into_iter().collect())
    }

    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Infallible> {
        match self.files.get(path) {
            Some(text) => Ok(Some(text.clone().into_bytes()).filter(|bytes| bytes.len() as u64 <= limit)),
            None => self.tree.read(path, limit),
        }
    }
}
