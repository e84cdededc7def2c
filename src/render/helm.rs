//! The inputs of a chart: its folder, and files with values.

use serde_json::Value;

use super::refusal::Refusal;
use super::tree::{Node, Tree, below, parent};
use super::unit::{HelmOptions, Inputs, Unit, UnitKind, whole};
use belay_core::manifest::Place;
use belay_core::manifest::yaml::{decode, documents};

/// The largest `Chart.yaml` that is read, in bytes.
const LARGEST: u64 = 1 << 20;
/// The most entries of a chart's folder that are checked for links.
const ENTRIES: usize = 20_000;

/// Returns the unit of a chart. `None` for a library, which renders nothing by itself, and if there is no such folder.
pub(super) fn chart<T: Tree>(tree: &T, options: &HelmOptions) -> Result<Option<Unit>, T::Error> {
    let folder = options.folder();
    let path = below(&folder, "Chart.yaml");
    let mut inputs = Inputs::default();
    let node = tree.node(&folder)?;
    inputs.nodes.insert(folder.clone(), node);
    let mut refusal = None;
    let refuse = |place: Place, message: String, hint: &str| Refusal { place, message, hint: hint.to_owned() };
    let beginning = |path: &str| Place { path: path.into(), line: 1, column: 1 };
    let mut certain = !has_links(tree, &folder)?;
    for values in &options.values {
        let named = options.values_path(values);
        let node = named.as_deref().map(|path| tree.node(path)).transpose()?.flatten();
        match (named, node) {
            (Some(named), Some(Node::File(_))) => drop(inputs.nodes.insert(named, node)),
            (Some(_), Some(Node::Link)) => certain = false,
            _ => {
                let message = format!("the values file {values} is not in the repository");
                refusal.get_or_insert(refuse(
                    beginning(&path),
                    message,
                    "values are from the chart's folder, or from the root with a leading /",
                ));
            }
        }
    }
    let bytes = tree.read(&path, LARGEST)?.unwrap_or_default();
    let read = decode(&bytes).ok().and_then(|text| documents(&text).0.first()?.read().0);
    if let Some(read) = read {
        if read.value().get("type").and_then(Value::as_str) == Some("library") {
            return Ok(None);
        }
        for dependency in
            read.root().get("dependencies").into_iter().flat_map(|list| list.children().collect::<Vec<_>>())
        {
            let Some(name) = dependency.at.text("name") else { continue };
            if !is_vendored(tree, &folder, name)? {
                let start = dependency.at.span().start;
                let place = Place { path: path.as_str().into(), line: start.line, column: start.column };
                let message = format!("the chart {name} would be fetched, and belay gives a tool no network");
                refusal.get_or_insert(refuse(place, message, "commit it below charts/: helm dependency update"));
            }
        }
    }
    let files = inputs.files();
    let inputs = if certain { inputs } else { whole(tree)? };
    let kind = UnitKind::Helm(HelmOptions { chart: folder.clone(), ..options.clone() });
    Ok(Some(Unit::new(path, &folder, kind, inputs, (files, Vec::new()), refusal)))
}

/// Returns true when a dependency lies in the chart: as a folder, or packed.
fn is_vendored<T: Tree>(tree: &T, folder: &str, name: &str) -> Result<bool, T::Error> {
    let packed = format!("{name}-");
    let charts = tree.list(&below(folder, "charts"))?;
    let mut names = charts.iter().map(|(entry, _)| entry.as_str());
    Ok(names.any(|entry| entry == name || (entry.starts_with(&packed) && entry.ends_with(".tgz"))))
}

/// Returns true when a link lies anywhere in a folder, or the folder is too large to be searched. The target of a link
/// may lie anywhere.
fn has_links<T: Tree>(tree: &T, folder: &str) -> Result<bool, T::Error> {
    if matches!(tree.node(folder)?, Some(Node::Link)) || matches!(tree.node(parent(folder))?, Some(Node::Link)) {
        return Ok(true);
    }
    let mut folders = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for (name, node) in tree.list(&folder)? {
            seen += 1;
            match node {
                _ if seen > ENTRIES => return Ok(true),
                Node::Link => return Ok(true),
                Node::Folder(_) => folders.push(below(&folder, &name)),
                Node::File(_) | Node::Submodule => {}
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryTree, Options, find};
    use super::*;

    fn tree(chart: &str) -> MemoryTree {
        let mut tree = MemoryTree::default();
        tree.file("apps/web/Chart.yaml", chart);
        tree.file("apps/web/templates/a.yaml", "a");
        tree.file("values/production.yaml", "v");
        tree
    }

    fn unit(tree: &MemoryTree, options: &HelmOptions) -> Option<Unit> {
        let Ok(unit) = chart(tree, options);
        unit
    }

    fn options(values: &[&str]) -> HelmOptions {
        let values = values.iter().map(|path| (*path).to_owned()).collect();
        HelmOptions { chart: "apps/web".to_owned(), values, ..HelmOptions::default() }
    }

    #[test]
    fn a_chart_is_made_from_its_folder_and_its_values() {
        let mut files = tree("name: web\n");
        let named = options(&["/values/production.yaml"]);
        let before = unit(&files, &named).unwrap();
        files.file("other.yaml", "o");
        assert_eq!(unit(&files, &named).unwrap().id, before.id);
        files.file("values/production.yaml", "w");
        let values = unit(&files, &named).unwrap();
        assert_ne!(values.id, before.id);
        files.file("apps/web/files/deep/x.txt", "x");
        assert_ne!(unit(&files, &named).unwrap().id, values.id);
        files.link("apps/web/files/l", "../../../values");
        assert!(unit(&files, &named).unwrap().inputs.nodes.contains_key(""));
    }

    #[test]
    fn what_is_not_in_the_repository_is_refused() {
        let files = tree("name: web\ndependencies:\n- name: redis\n  repository: https://example.com\n");
        let refusal = unit(&files, &options(&[])).unwrap().refusal.unwrap();
        assert_eq!(refusal.place.to_string(), "apps/web/Chart.yaml:3:3");
        for vendored in ["apps/web/charts/redis-1.0.0.tgz", "apps/web/charts/redis/Chart.yaml"] {
            let mut files = files.clone();
            files.file(vendored, "");
            assert_eq!(unit(&files, &options(&[])).unwrap().refusal, None, "{vendored}");
        }
        for missing in ["nothing.yaml", "/../x.yaml", "../../../x.yaml"] {
            let refusal = unit(&tree("name: web\n"), &options(&[missing])).unwrap().refusal.unwrap();
            assert!(refusal.message.contains(missing), "{}", refusal.message);
        }
    }

    #[test]
    fn a_library_is_no_unit_and_two_releases_are_two() {
        assert_eq!(unit(&tree("name: web\ntype: library\n"), &options(&[])), None);
        let release = |name: &str| HelmOptions { release: Some(name.to_owned()), ..options(&[]) };
        let named = Options { helm: vec![release("one"), release("two")], ..Options::default() };
        let Ok(plan) = find(&tree("name: web\n"), "apps", &named);
        let paths: Vec<&str> = plan.units.keys().map(|path| &**path).collect();
        assert_eq!(paths, ["apps/web/Chart.yaml", "apps/web/Chart.yaml (two)"]);
    }
}
