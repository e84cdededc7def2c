//! The folders that are units, and the inputs of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::capabilities::Capabilities;
use super::excluded::{Excluded, IGNORE_FILE};
use super::refusal::Refusal;
use super::tree::{Node, Tree, below, folders_above};
use belay_core::manifest::{Place, hex, join};

/// The most folders that an advice names.
const LISTED: usize = 8;

/// The names of a kustomization, in kustomize's order.
pub const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The options for reading a source's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// True when nothing is rendered.
    pub off: bool,
    /// The charts that are named.
    pub helm: Vec<HelmOptions>,
    /// The files that do not count, by the configuration.
    pub excluded: Excluded,
    /// The cluster's capabilities for charts; Helm's assumptions if they are not known.
    pub capabilities: Option<Arc<Capabilities>>,
}

impl Options {
    /// Returns true when a unit is a chart that is named, and so is one wherever it lies.
    #[must_use]
    pub fn names(&self, unit: &Unit) -> bool {
        matches!(unit.kind, UnitKind::Helm(_)) && self.helm.iter().any(|chart| chart.folder() == *unit.folder)
    }
}

/// The options for rendering a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelmOptions {
    /// Its folder, from the root of the repository.
    pub chart: String,
    /// The release's name; by default the folder's.
    pub release: Option<String>,
    /// The namespace of objects that name none.
    pub namespace: Option<String>,
    /// The files with values, from the chart's folder, or from the repository's root where they begin with `/`.
    pub values: Vec<String>,
    /// Single values: text, numbers, true or false.
    pub set: BTreeMap<String, Value>,
    /// The capabilities of the cluster.
    pub capabilities: Option<Arc<Capabilities>>,
}

impl HelmOptions {
    /// Returns the folder of the chart, from the root.
    pub(super) fn folder(&self) -> String {
        join("", self.chart.trim_matches('/')).unwrap_or_default()
    }

    /// Returns the name of the release.
    pub(super) fn release(&self) -> String {
        let folder = self.folder();
        let of_folder = || folder.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("release").to_owned();
        self.release.clone().unwrap_or_else(of_folder)
    }

    /// Returns the path of a file with values, from the root. `None` if it lies outside of the repository.
    pub(super) fn values_path(&self, values: &str) -> Option<String> {
        match values.strip_prefix('/') {
            Some(from_root) => join("", from_root),
            None => join(&self.folder(), values),
        }
    }
}

/// The tool for a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// A kustomization.
    Kustomize {
        /// True when a file is read from outside of its kustomization's folder.
        reaches_out: bool,
        /// True when it has the objects name their origin.
        asks_origin: bool,
    },
    /// A chart.
    Helm(HelmOptions),
}

/// The identity of a unit's inputs: equal ids render the same, and a rendering is known by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RenderId([u8; 32]);

/// The files that a unit is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The node at each path that the tool may read; `None` if there is none. A folder stands for all that is below it.
    /// The root alone, if those paths can't be determined.
    pub nodes: BTreeMap<String, Option<Node>>,
}

/// One folder that a tool renders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The path of the file that makes its folder a unit. A second release of one chart has the release's name behind
    /// it.
    pub path: Arc<str>,
    /// The folder.
    pub folder: Arc<str>,
    /// The tool that renders it.
    pub kind: UnitKind,
    /// Its inputs.
    pub inputs: Inputs,
    /// The files that it names, also if it may be made from others.
    pub files: Vec<String>,
    /// The folders of the other kustomizations that it is built on.
    pub bases: Vec<String>,
    /// The reason for which it is not rendered.
    pub refusal: Option<Refusal>,
    /// All of this in one number.
    pub id: RenderId,
}

/// The units of a source's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The units by their names.
    pub units: BTreeMap<Arc<str>, Unit>,
    /// The files that are no plain manifests.
    pub(super) covered: Covered,
}

/// The files that are no plain manifests: read by no one but a tool, or by no one at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Covered {
    pub folders: BTreeSet<String>,
    /// Files of other folders that units are made from: patches and values.
    pub files: BTreeSet<String>,
    pub excluded: Excluded,
}

/// A unit that another is built on, and that is rolled out by itself, too.
#[derive(Clone, Debug)]
pub struct RolledOutTwice<'p> {
    /// It.
    pub base: &'p Unit,
    /// The fault.
    pub message: String,
    /// The advice.
    pub advice: String,
}

/// A warning about a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitWarning {
    /// The place.
    pub place: Place,
    /// The message.
    pub message: String,
    /// The advice.
    pub advice: String,
}

impl Plan {
    /// Returns true when a path is no plain manifest's: it lies in the folder of a unit, a unit is made from it, or it
    /// does not count.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        self.covered.files.contains(path)
            || self.covered.folders.contains("")
            || folders_above(path).any(|folder| self.covered.folders.contains(folder))
            || self.covered.excluded.has(path)
    }

    /// Returns true when a chart is among them.
    #[must_use]
    pub fn has_charts(&self) -> bool {
        self.units.values().any(|unit| matches!(unit.kind, UnitKind::Helm(_)))
    }

    /// Returns true when both leave the same files to be read as plain manifests.
    #[must_use]
    pub fn leaves_the_same(&self, other: &Plan) -> bool {
        self.covered == other.covered
    }

    /// Refuses a folder because of the file with patterns of a folder above it, or of itself.
    pub(super) fn refuse(&mut self, folder: &str, file: &str, problem: &str) {
        let message = format!("the file {IGNORE_FILE} {problem}: nothing below {} is read", shown(folder));
        let hint = "write fewer patterns, or exclude = [\"…\"] in the source's configuration";
        self.refuse_at(folder, below(file, IGNORE_FILE), message, hint);
    }

    /// Returns the plan of a folder of which nothing is read, because of a kustomization in it.
    pub(super) fn refused(folder: &str, file: &str, problem: &str) -> Plan {
        let mut plan = Plan::default();
        let message = format!("{problem}: nothing below {} is read", shown(folder));
        let hint = "divide the folder into several sources, or exclude = [\"…\"] in the source's configuration";
        plan.refuse_at(folder, file.to_owned(), message, hint);
        plan
    }

    fn refuse_at(&mut self, folder: &str, path: String, message: String, hint: &str) {
        let place = Place { path: path.as_str().into(), line: 1, column: 1 };
        let hint = hint.to_owned();
        let kind = UnitKind::Kustomize { reaches_out: false, asks_origin: false };
        let refusal = Some(Refusal { place, message, hint });
        let unit = Unit::new(path, folder, kind, Inputs::default(), (Vec::new(), Vec::new()), refusal);
        self.covered.folders.insert(folder.to_owned());
        self.take(Some(unit));
    }

    pub(super) fn take(&mut self, unit: Option<Unit>) {
        let Some(unit) = unit else { return };
        self.covered.files.extend(unit.files.iter().cloned());
        self.covered.folders.extend(matches!(unit.kind, UnitKind::Helm(_)).then(|| unit.folder.to_string()));
        self.units.insert(Arc::clone(&unit.path), unit);
    }

    /// Returns the number of units and of the paths that are kept of them: what it takes in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let paths = |unit: &Unit| 1 + unit.inputs.nodes.len() + unit.files.len() + unit.bases.len();
        self.units.values().map(paths).sum::<usize>() + self.covered.folders.len() + self.covered.files.len()
    }

    /// Returns true when there are no units, and every file counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.units.is_empty() && self.covered.folders.is_empty() && self.covered.excluded.is_empty()
    }

    /// Returns the units that others are built on: objects that are written once are rolled out twice.
    #[must_use]
    pub fn rolled_out_twice(&self) -> Vec<RolledOutTwice<'_>> {
        let based_on = self.based_on();
        let all: BTreeSet<&str> = based_on.values().map(|(base, _)| &*base.folder).collect();
        let twice = |(base, others): (_, Vec<&Unit>)| RolledOutTwice {
            base,
            message: format!("this is rolled out by itself, and {} built on it", are_or_is(&others)),
            advice: without(if all.len() > LISTED { BTreeSet::from([&*base.folder]) } else { all.clone() }),
        };
        based_on.into_values().map(twice).collect()
    }

    /// Returns each unit that others are built on, with those, by its path.
    fn based_on(&self) -> BTreeMap<&str, (&Unit, Vec<&Unit>)> {
        let mut in_folder: BTreeMap<&str, Vec<&Unit>> = BTreeMap::new();
        self.units.values().for_each(|unit| in_folder.entry(&unit.folder).or_default().push(unit));
        let mut found: BTreeMap<&str, (&Unit, Vec<&Unit>)> = BTreeMap::new();
        for other in self.units.values() {
            let bases = other.bases.iter().filter_map(|folder| in_folder.get(folder.as_str())).flatten();
            for base in bases.filter(|base| base.path != other.path) {
                found.entry(&base.path).or_insert_with(|| (base, Vec::new())).1.push(other);
            }
        }
        found
    }
}

/// Returns the subject of a sentence about one folder, or several.
fn are_or_is(units: &[&Unit]) -> String {
    match units {
        [] => String::new(),
        [only] => format!("{} is", only.shown()),
        [first, others @ ..] => format!("{} and {} more are", first.shown(), others.len()),
    }
}

/// Says how bases are not rolled out by themselves. The units that are built on them read them all the same, and
/// nothing else is left out.
fn without(bases: BTreeSet<&str>) -> String {
    let patterns = bases.iter().map(|folder| format!("\"/{folder}/\"")).collect::<Vec<_>>().join(", ");
    format!("leave out what is only a base: exclude = [{patterns}]")
}

/// Returns true when a file with this name makes its folder a unit.
#[must_use]
fn makes_a_unit(name: &str) -> bool {
    name == "Chart.yaml" || KUSTOMIZATIONS.contains(&name)
}

impl Unit {
    /// Returns true when a change at these paths can make other units than there were, or other files count.
    #[must_use]
    pub fn may_change_with(path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        makes_a_unit(name) || name == IGNORE_FILE
    }

    /// Returns the files with values that a chart is rendered with, its own first, whether they are there or not. None
    /// of a kustomization.
    #[must_use]
    pub fn values_files(&self) -> Vec<String> {
        let UnitKind::Helm(options) = &self.kind else { return Vec::new() };
        let named = options.values.iter().filter_map(|values| options.values_path(values));
        std::iter::once(below(&self.folder, "values.yaml")).chain(named).collect()
    }

    /// Returns the folder's name in complaints.
    #[must_use]
    pub fn shown(&self) -> &str {
        shown(&self.folder)
    }
}

/// Returns a folder's name in complaints.
fn shown(folder: &str) -> &str {
    if folder.is_empty() { "/" } else { folder }
}

impl Inputs {
    /// Returns the single files among them.
    pub(super) fn files(&self) -> Vec<String> {
        let files = self.nodes.iter().filter(|(_, node)| matches!(node, Some(Node::File(_))));
        files.map(|(path, _)| path.clone()).collect()
    }
}

impl RenderId {
    fn of(kind: &UnitKind, folder: &str, inputs: &Inputs, refusal: Option<&Refusal>) -> RenderId {
        let mut hasher = Sha256::new();
        let mut add = |text: &str| hasher.update(Sha256::digest(text));
        add(folder);
        add(&format!("{kind:?} {refusal:?}"));
        for (path, node) in &inputs.nodes {
            add(path);
            add(&format!("{node:?}"));
        }
        RenderId(hasher.finalize().into())
    }
}

impl fmt::Display for RenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for RenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Unit {
    /// Returns a unit whose inputs are known.
    pub(super) fn new(
        path: String,
        folder: &str,
        kind: UnitKind,
        inputs: Inputs,
        (files, bases): (Vec<String>, Vec<String>),
        refusal: Option<Refusal>,
    ) -> Unit {
        let id = RenderId::of(&kind, folder, &inputs, refusal.as_ref());
        Unit { path: path.into(), folder: folder.into(), kind, inputs, files, bases, refusal, id }
    }
}

/// Returns the whole repository, for a unit whose inputs can't be determined.
pub(super) fn whole<T: Tree>(tree: &T) -> Result<Inputs, T::Error> {
    Ok(Inputs { nodes: BTreeMap::from([(String::new(), tree.node("")?)]) })
}
