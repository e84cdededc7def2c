//! The inputs of a kustomization: the files that it names, and those that they name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::origins::asks_origin;
use super::refusal::{Refusal, shown_path};
use super::tree::{Node, Tree, below};
use super::unit::{Inputs, KUSTOMIZATIONS, Unit, UnitKind, whole};
use belay_core::manifest::yaml::{At, decode, documents};
use belay_core::manifest::{Place, join};

/// The largest kustomization that is read, in bytes.
const LARGEST: u64 = 1 << 20;
/// The most paths that are followed from one kustomization.
const PATHS: usize = 20_000;

/// The most paths that all kustomizations of a commit name together, those of a base as often as others are built on it.
const ALL_PATHS: usize = 100_000;
/// The most bytes of kustomizations of a commit that are read, those of a base likewise.
const ALL_BYTES: u64 = 32 << 20;

/// Fields whose values are paths, or text that is no path where it has several lines.
const PATH_LISTS: [&str; 6] = ["resources", "components", "bases", "crds", "configurations", "patchesStrategicMerge"];
/// Fields whose items have a path.
const ITEMS_WITH_PATHS: [&str; 3] = ["patches", "patchesJson6902", "replacements"];
/// Fields whose values are paths of files that name other files in ways of their own.
const PLUGINS: [&str; 3] = ["generators", "transformers", "validators"];
const GENERATORS: [&str; 2] = ["configMapGenerator", "secretGenerator"];
/// Fields that have kustomize run Helm.
const CHARTS: [&str; 3] = ["helmCharts", "helmChartInflationGenerator", "helmGlobals"];
/// Fields that name no files.
const WITHOUT_PATHS: [&str; 18] = [
    "apiVersion",
    "kind",
    "metadata",
    "namespace",
    "namePrefix",
    "nameSuffix",
    "commonLabels",
    "labels",
    "commonAnnotations",
    "images",
    "imageTags",
    "replicas",
    "vars",
    "generatorOptions",
    "sortOptions",
    "inventory",
    "validate",
    "$schema",
];

/// The rest of the budget for following the kustomizations of a commit. Each may be built on all others.
#[derive(Debug)]
pub(super) struct ClosureBudget {
    paths: usize,
    bytes: u64,
}

impl Default for ClosureBudget {
    fn default() -> ClosureBudget {
        ClosureBudget { paths: ALL_PATHS, bytes: ALL_BYTES }
    }
}

impl ClosureBudget {
    /// Returns what is more than belay follows, if there is nothing left.
    pub(super) fn exhausted(&self) -> Option<String> {
        let (paths, bytes) = (ALL_PATHS, ALL_BYTES >> 20);
        self.is_exhausted().then(|| {
            format!("the kustomizations name more than {paths} paths, or have more than {bytes} MiB, bases counted each time")
        })
    }

    fn is_exhausted(&self) -> bool {
        self.paths == 0 || self.bytes == 0
    }
}

/// Returns the unit of a folder with a kustomization. `None` for a component, which is only a part of others.
pub(super) fn kustomization<T: Tree>(
    tree: &T,
    budget: &mut ClosureBudget,
    folder: &str,
    name: &str,
) -> Result<Option<Unit>, T::Error> {
    let mut walk = Walk {
        tree,
        budget,
        nodes: BTreeMap::new(),
        folders: BTreeSet::new(),
        certain: true,
        reaches_out: false,
        asks_origin: false,
        is_component: false,
        refusal: None,
    };
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        if walk.budget.is_exhausted() {
            break;
        }
        if walk.folders.insert(folder.clone()) && walk.nodes.len() < PATHS {
            next.extend(walk.folder(&folder)?);
        }
    }
    if walk.is_component {
        return Ok(None);
    }
    walk.certain &= walk.nodes.len() < PATHS;
    let bases: Vec<String> = walk.folders.iter().filter(|base| *base != folder).cloned().collect();
    let kind = UnitKind::Kustomize { reaches_out: walk.reaches_out, asks_origin: walk.asks_origin };
    let named = Inputs { nodes: walk.nodes };
    let files = named.files();
    let inputs = if walk.certain { named } else { whole(tree)? };
    Ok(Some(Unit::new(below(folder, name), folder, kind, inputs, (files, bases), walk.refusal)))
}

/// Returns the path of the kustomization in a folder.
///
/// # Errors
///
/// When the tree can't be read.
pub fn kustomization_in<T: Tree>(tree: &T, folder: &str) -> Result<Option<String>, T::Error> {
    for path in KUSTOMIZATIONS.map(|name| below(folder, name)) {
        if matches!(tree.node(&path)?, Some(Node::File(_))) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

struct Walk<'t, T> {
    tree: &'t T,
    budget: &'t mut ClosureBudget,
    nodes: BTreeMap<String, Option<Node>>,
    folders: BTreeSet<String>,
    /// True when all paths that the tool may read are known.
    certain: bool,
    reaches_out: bool,
    asks_origin: bool,
    is_component: bool,
    refusal: Option<Refusal>,
}

/// One kustomization that is being read.
struct ClosureReading<'f> {
    folder: &'f str,
    file: &'f str,
    next: Vec<String>,
}

impl<T: Tree> Walk<'_, T> {
    /// Follows the kustomization of a folder. Returns the folders that it is built on.
    fn folder(&mut self, folder: &str) -> Result<Vec<String>, T::Error> {
        let mut files = Vec::new();
        for name in KUSTOMIZATIONS {
            let path = below(folder, name);
            match self.add(&path)? {
                Some(Node::File(_)) => files.push(path),
                Some(_) => self.certain = false,
                None => {}
            }
        }
        // Several of them in one folder are an error that the tool reports.
        let Some(file) = files.first() else { return Ok(Vec::new()) };
        let Some(bytes) = self.tree.read(file, LARGEST)? else {
            self.certain = false;
            return Ok(Vec::new());
        };
        self.budget.bytes = self.budget.bytes.saturating_sub(bytes.len() as u64);
        let mut reading = ClosureReading { folder, file, next: Vec::new() };
        if bytes.trim_ascii().is_empty() {
            return Ok(Vec::new());
        }
        let placed = decode(&bytes).ok().and_then(|text| {
            let (documents, complaints) = documents(&text);
            match (&documents[..], complaints.is_empty()) {
                ([document], true) => document.read().0.filter(|placed| placed.value().is_object()),
                _ => None,
            }
        });
        match placed {
            Some(placed) => {
                self.is_component |= self.folders.len() == 1 && placed.root().text("kind") == Some("Component");
                self.fields(&mut reading, placed.root())?;
            }
            None => self.certain = false,
        }
        Ok(reading.next)
    }

    fn fields(&mut self, reading: &mut ClosureReading<'_>, root: At<'_>) -> Result<(), T::Error> {
        for field in root.children() {
            let name = field.name;
            if CHARTS.contains(&name) {
                let message = format!("{name} has kustomize fetch and render a chart, which belay does not let it");
                self.refuse(
                    reading,
                    field.at,
                    message,
                    "put the chart into the repository: belay renders it as a unit of its own",
                );
            } else if PATH_LISTS.contains(&name) || PLUGINS.contains(&name) {
                self.certain &= !PLUGINS.contains(&name) || is_empty(field.at.value());
                for item in field.at.children() {
                    self.named(reading, item.at)?;
                }
            } else if ITEMS_WITH_PATHS.contains(&name) {
                for path in field.at.children().filter_map(|item| item.at.get("path")) {
                    self.named(reading, path)?;
                }
            } else if GENERATORS.contains(&name) {
                for item in field.at.children() {
                    self.generator(reading, item.at)?;
                }
            } else if name == "openapi" {
                field.at.get("path").map_or(Ok(()), |path| self.named(reading, path))?;
            } else if name == "buildMetadata" {
                // Only the first one counts, which is the unit's own.
                self.asks_origin |= self.folders.len() == 1 && asks_origin(field.at.value());
            } else if !WITHOUT_PATHS.contains(&name) {
                self.certain = false;
            }
        }
        Ok(())
    }

    /// Follows the files that a ConfigMap or Secret is generated from.
    fn generator(&mut self, reading: &mut ClosureReading<'_>, item: At<'_>) -> Result<(), T::Error> {
        let lists = ["files", "envs"].into_iter().filter_map(|name| item.get(name));
        for file in
            lists.flat_map(|list| list.children().map(|child| child.at).collect::<Vec<_>>()).chain(item.get("env"))
        {
            let Some(text) = file.value().as_str() else { continue };
            // `key=path`, or a path whose last part is the key.
            self.path(reading, file, text.split_once('=').map_or(text, |(_, path)| path))?;
        }
        Ok(())
    }

    fn named(&mut self, reading: &mut ClosureReading<'_>, at: At<'_>) -> Result<(), T::Error> {
        match at.value().as_str() {
            // A patch may be written where its path could stand.
            Some(text) if is_path(text) => self.path(reading, at, text),
            _ => Ok(()),
        }
    }

    fn path(&mut self, reading: &mut ClosureReading<'_>, at: At<'_>, path: &str) -> Result<(), T::Error> {
        if self.budget.is_exhausted() {
            return Ok(());
        }
        self.budget.paths -= 1;
        let Some(joined) = join(reading.folder, path) else {
            let message = format!("{} lies outside of the repository", shown_path(path));
            self.refuse(reading, at, message, "belay shows a tool nothing but the repository: put it there");
            return Ok(());
        };
        match self.tree.node(&joined)? {
            Some(Node::Folder(_)) => reading.next.push(joined),
            Some(Node::Link | Node::Submodule) => self.certain = false,
            None if is_remote(path) => {
                let message = format!("{} would be fetched, and belay gives a tool no network", shown_path(path));
                self.refuse(reading, at, message, "put what it names into the repository, and its path here");
            }
            Some(Node::File(_)) | None => {
                let inside = reading.folder.is_empty() || joined.starts_with(&format!("{}/", reading.folder));
                self.reaches_out |= !inside;
                self.add(&joined)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str) -> Result<Option<Node>, T::Error> {
        self.budget.paths = self.budget.paths.saturating_sub(1);
        let node = self.tree.node(path)?;
        self.nodes.insert(path.to_owned(), node);
        Ok(node)
    }

    fn refuse(&mut self, reading: &ClosureReading<'_>, at: At<'_>, message: String, hint: &str) {
        let start = at.span().start;
        let place = Place { path: reading.file.into(), line: start.line, column: start.column };
        self.refusal.get_or_insert(Refusal { place, message, hint: hint.to_owned() });
    }
}

/// Returns true when a text is a path, and no patch that stands where its path could.
fn is_path(text: &str) -> bool {
    !text.trim_end().contains('\n') && !text.contains(": ") && !text.trim_start().starts_with(['{', '['])
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns true when kustomize would fetch a missing file, rather than miss it.
fn is_remote(path: &str) -> bool {
    let host = path.split('/').next().unwrap_or_default();
    path.contains("://")
        || path.contains("::")
        || path.contains("?ref=")
        || path.contains("_git/")
        || path.contains(".git/")
        || path.ends_with(".git")
        || host.contains('@')
        || (host.contains('.') && host.contains(':'))
        || host.eq_ignore_ascii_case("github.com")
        || host.eq_ignore_ascii_case("gitlab.com")
}

#[cfg(test)]
mod tests {
    use super::super::MemoryTree;
    use super::*;

    fn tree(files: &[(&str, &str)]) -> MemoryTree {
        let mut tree = MemoryTree::default();
        files.iter().for_each(|(path, text)| tree.file(*path, *text));
        tree
    }

    fn unit(files: &[(&str, &str)]) -> Unit {
        let Ok(unit) = kustomization(&tree(files), &mut ClosureBudget::default(), "over", "kustomization.yaml");
        unit.unwrap()
    }

    /// Returns the inputs of a unit, without missing ones.
    fn inputs(unit: &Unit) -> Vec<&str> {
        unit.inputs.nodes.iter().filter(|(_, node)| node.is_some()).map(|(path, _)| path.as_str()).collect()
    }

    #[test]
    fn files_of_every_field_are_inputs() {
        let unit = unit(&[
            (
                "over/kustomization.yaml",
                "resources: [../base, d.yaml]\ncomponents: [../part]\npatches: [{path: p.yaml}, {patch: 'a: b'}]\n\
                 patchesStrategicMerge:\n- s.yaml\n- |-\n  kind: X\n  metadata: {name: y}\n\
                 configMapGenerator: [{name: c, files: [k=f.txt, g.txt], envs: [e.env]}]\n\
                 secretGenerator: [{name: s, env: s.env}]\ncrds: [crd.json]\nreplacements: [{path: r.yaml}]\n\
                 openapi: {path: o.json}\nconfigurations: [n.yaml]\nnamespace: shop\n",
            ),
            ("base/kustomization.yml", "resources: [b.yaml]\n"),
            ("base/b.yaml", "b"),
            ("base/unused.yaml", "u"),
            ("part/kustomization.yaml", "kind: Component\npatches: [{path: q.yaml}]\n"),
            ("part/q.yaml", "q"),
            ("over/d.yaml", "d"),
            ("over/p.yaml", "p"),
            ("over/s.yaml", "s"),
            ("over/f.txt", "f"),
            ("over/g.txt", "g"),
            ("over/e.env", "e"),
            ("over/s.env", "s"),
            ("over/crd.json", "{}"),
            ("over/r.yaml", "r"),
            ("over/o.json", "{}"),
            ("over/n.yaml", "n"),
            ("over/unused.yaml", "u"),
        ]);
        let mut expected: Vec<&str> =
            "base/b.yaml base/kustomization.yml over/crd.json over/d.yaml over/e.env over/f.txt \
            over/g.txt over/kustomization.yaml over/n.yaml over/o.json over/p.yaml over/r.yaml over/s.env over/s.yaml \
            part/kustomization.yaml part/q.yaml"
                .split_whitespace()
                .collect();
        expected.sort_unstable();
        assert_eq!(inputs(&unit), expected);
        assert_eq!(unit.refusal, None);
        assert_eq!(unit.bases, ["base", "part"]);
        assert_eq!(unit.kind, UnitKind::Kustomize { reaches_out: false, asks_origin: false });
    }

    #[test]
    fn what_is_not_known_for_certain_is_the_whole_repository() {
        for kustomization in
            ["transformers: [t.yaml]\n", "newField: [x]\n", "a: [", "resources: [a]\n---\nresources: [b]\n"]
        {
            let unit = unit(&[("over/kustomization.yaml", kustomization), ("over/t.yaml", "t")]);
            assert_eq!(inputs(&unit), [""], "{kustomization}");
        }
        let mut linked = tree(&[("over/kustomization.yaml", "resources: [l/x.yaml]\n"), ("real/x.yaml", "x")]);
        linked.link("over/l", "../real");
        let Ok(unit) = kustomization(&linked, &mut ClosureBudget::default(), "over", "kustomization.yaml");
        assert_eq!(inputs(&unit.unwrap()), [""]);
    }

    #[test]
    fn what_is_elsewhere_is_refused_with_its_line() {
        for (text, place, message) in [
            ("resources:\n- https://example.com/x.yaml\n", "over/kustomization.yaml:2:3", "would be fetched"),
            ("resources:\n- github.com/o/r/config?ref=v1\n", "over/kustomization.yaml:2:3", "would be fetched"),
            ("components:\n- git@example.com:o/r.git\n", "over/kustomization.yaml:2:3", "would be fetched"),
            ("namespace: x\nresources: [../../out]\n", "over/kustomization.yaml:2:13", "outside of the repository"),
            ("patches: [{path: /etc/passwd}]\n", "over/kustomization.yaml:1:18", "outside of the repository"),
            ("resources: ['https://a:b@x.y/z']\n", "over/kustomization.yaml:1:13", "https://***@x.y/z would"),
            ("helmCharts: [{name: redis}]\n", "over/kustomization.yaml:1:13", "a chart"),
        ] {
            let unit = unit(&[("over/kustomization.yaml", text)]);
            let refusal = unit.refusal.unwrap_or_else(|| panic!("{text}"));
            assert_eq!(refusal.place.to_string(), place, "{text}");
            assert!(refusal.message.contains(message), "{}", refusal.message);
        }
        let deep = unit(&[
            ("over/kustomization.yaml", "resources: [../base]\n"),
            ("base/kustomization.yaml", "resources: ['https://x.y/z']\n"),
        ]);
        assert_eq!(deep.refusal.unwrap().place.to_string(), "base/kustomization.yaml:1:13");
    }

    #[test]
    fn a_file_outside_of_its_kustomization_is_told() {
        let unit = unit(&[("over/kustomization.yaml", "patches: [{path: ../p.yaml}]\n"), ("p.yaml", "p")]);
        assert_eq!(unit.kind, UnitKind::Kustomize { reaches_out: true, asks_origin: false });
    }

    #[test]
    fn bases_in_a_circle_end() {
        let unit = unit(&[
            ("over/kustomization.yaml", "resources: [../base]\n"),
            ("base/kustomization.yaml", "resources: [../over]\n"),
        ]);
        assert_eq!(inputs(&unit).len(), 2);
    }

    #[test]
    fn what_is_missing_is_an_input_too() {
        let files = [("over/kustomization.yaml", "resources: [d.yaml, ../base]\n")];
        let before = unit(&files);
        let with = |more: (&'static str, &'static str)| unit(&[files[0], more]).id;
        assert_ne!(before.id, with(("over/d.yaml", "d")));
        assert_ne!(before.id, with(("base/kustomization.yaml", "")));
        assert_ne!(before.id, with(("over/kustomization.yml", "")));
        assert_eq!(before.id, with(("over/other.yaml", "")));
    }
}
