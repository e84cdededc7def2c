//! Finding the units of a folder, from the top down.

use super::closure::{self, ClosureBudget};
use super::excluded::{IGNORE_FILE, ignoring_above};
use super::helm;
use super::tree::{Node, Tree, below};
use super::unit::{HelmOptions, KUSTOMIZATIONS, Options, Plan};

/// The most folders that are searched for units.
const FOLDERS: usize = 100_000;

/// The depth to which folders may lie within each other.
const DEPTH: usize = 100;

/// Returns the units of a folder, from the top down: a folder with a kustomization or a chart is one, and nothing below
/// it is read by itself. Charts that the options name are units wherever they lie. Names that begin with `.` or `_` are
/// passed over, and excluded ones.
///
/// # Errors
///
/// When the tree can't be read.
pub fn find<T: Tree>(tree: &T, folder: &str, options: &Options) -> Result<Plan, T::Error> {
    let mut plan = Plan::default();
    let for_cluster = |chart: HelmOptions| HelmOptions { capabilities: options.capabilities.clone(), ..chart };
    let folder = folder.trim_matches('/');
    plan.covered.excluded = options.excluded.clone();
    // The patterns of the folders above it count, too; its own are read with it.
    for above in ignoring_above(folder) {
        if let Some(problem) = plan.covered.excluded.read(tree, above)? {
            plan.refuse(folder, above, &problem);
            return Ok(plan);
        }
    }
    let mut folders = vec![(folder.to_owned(), 0)];
    let (mut seen, mut budget) = (0, ClosureBudget::default());
    let top = folder;
    while let Some((folder, depth)) = folders.pop() {
        seen += 1;
        if seen > FOLDERS || depth > DEPTH {
            continue;
        }
        let entries = tree.list(&folder)?;
        let is_there = |name: &str| entries.iter().any(|(other, node)| other == name && matches!(node, Node::File(_)));
        if is_there(IGNORE_FILE)
            && let Some(problem) = plan.covered.excluded.read(tree, &folder)?
        {
            plan.refuse(&folder, &folder, &problem);
            continue;
        }
        let excluded = &plan.covered.excluded;
        let file = |name: &str| !options.off && is_there(name) && !excluded.has(&below(&folder, name));
        if let Some(name) = KUSTOMIZATIONS.iter().find(|name| file(name)) {
            plan.take(closure::kustomization(tree, &mut budget, &folder, name)?);
            if let Some(problem) = budget.exhausted() {
                return Ok(Plan::refused(top, &below(&folder, name), &problem));
            }
            plan.covered.folders.insert(folder);
        } else if file("Chart.yaml") {
            let named = options.helm.iter().any(|chart| chart.folder() == folder);
            if !named {
                plan.take(helm::chart(
                    tree,
                    &for_cluster(HelmOptions { chart: folder.clone(), ..HelmOptions::default() }),
                )?);
            }
            plan.covered.folders.insert(folder);
        } else {
            let below = |(name, node): &(String, Node)| {
                let path = below(&folder, name);
                let counts =
                    matches!(node, Node::Folder(_)) && !name.starts_with(['.', '_']) && !excluded.has_folder(&path);
                counts.then_some((path, depth + 1))
            };
            folders.extend(entries.iter().filter_map(below));
        }
    }
    for chart in options.helm.iter().filter(|_| !options.off) {
        let Some(mut unit) = helm::chart(tree, &for_cluster(chart.clone()))? else { continue };
        if plan.units.contains_key(&unit.path) {
            unit.path = format!("{} ({})", unit.path, chart.release()).into();
        }
        plan.take(Some(unit));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::super::{Excluded, MemoryTree};
    use super::*;

    fn tree(files: &[(&str, &str)]) -> MemoryTree {
        let mut tree = MemoryTree::default();
        files.iter().for_each(|(path, text)| tree.file(*path, *text));
        tree
    }

    #[test]
    fn units_are_found_from_the_top() {
        let tree = tree(&[
            ("env/a/kustomization.yaml", "resources: [sub]\ncomponents: [../part]\n"),
            ("env/a/sub/kustomization.yaml", ""),
            ("env/b/deep/Kustomization", ""),
            ("env/chart/Chart.yaml", "name: c\nversion: 1.0.0\n"),
            ("env/chart/charts/d/Chart.yaml", "name: d\nversion: 1.0.0\n"),
            ("env/plain/a.yaml", ""),
            ("env/part/kustomization.yaml", "kind: Component\npatches: [{path: ../patches/p.yaml}]\n"),
            ("env/part/p.yaml", ""),
            ("env/patches/p.yaml", ""),
            ("env/library/Chart.yaml", "name: l\ntype: library\n"),
            ("env/_hidden/kustomization.yaml", ""),
            ("base/kustomization.yaml", ""),
        ]);
        let Ok(plan) = find(&tree, "env", &Options::default());
        let paths: Vec<&str> = plan.units.keys().map(|path| &**path).collect();
        assert_eq!(paths, ["env/a/kustomization.yaml", "env/b/deep/Kustomization", "env/chart/Chart.yaml"]);
        assert!(plan.covers("env/a/sub/x.yaml") && plan.covers("env/chart/values.yaml"));
        assert!(
            plan.covers("env/part/p.yaml")
                && plan.covers("env/patches/p.yaml")
                && plan.covers("env/library/values.yaml")
        );
        assert!(!plan.covers("env/plain/a.yaml") && !plan.covers("env/ab/x.yaml"));
        let Ok(off) = find(&tree, "env", &Options { off: true, ..Options::default() });
        assert!(off.is_empty());
    }

    /// The excluded files are not known then: nothing of the folder is read, and nothing of it is deleted.
    #[test]
    fn a_folder_with_too_many_patterns_is_refused() {
        let mut tree =
            tree(&[("a/x.yaml", ""), ("b/kustomization.yaml", ""), ("b/x/.belayignore", ""), ("c/x.yaml", "")]);
        tree.file("a/.belayignore", "x\n".repeat(20_000));
        let Ok(plan) = find(&tree, "", &Options::default());
        let refused = plan.units["a/.belayignore"].refusal.clone().unwrap();
        assert!(
            refused.message.contains(".belayignore has") && refused.message.contains("10000 patterns"),
            "{refused:?}"
        );
        assert!(plan.covers("a/x.yaml") && !plan.covers("c/x.yaml") && plan.units.contains_key("b/kustomization.yaml"));
        let Ok(below) = find(&tree, "a/deep", &Options::default());
        assert!(below.covers("a/deep/x.yaml") && below.units.contains_key("a/.belayignore"));
    }

    #[test]
    fn a_base_that_is_rolled_out_by_itself_is_told() {
        let tree = tree(&[("base/kustomization.yaml", ""), ("over/kustomization.yaml", "resources: [../base]\n")]);
        let Ok(plan) = find(&tree, "", &Options::default());
        let twice = plan.rolled_out_twice();
        let told: Vec<_> = twice.iter().map(|twice| (&*twice.base.path, &*twice.message, &*twice.advice)).collect();
        let wanted = (
            "base/kustomization.yaml",
            "this is rolled out by itself, and over is built on it",
            "leave out what is only a base: exclude = [\"/base/\"]",
        );
        assert_eq!(told, [wanted]);
        // Its advice leaves nothing else out: plain files beside the units stay.
        let excluded = Excluded::of(&[], &["/base/".to_owned()]);
        let Ok(plan) = find(&tree, "", &Options { excluded, ..Options::default() });
        let units: Vec<&str> = plan.units.keys().map(|path| &**path).collect();
        assert_eq!(units, ["over/kustomization.yaml"]);
        assert!(plan.rolled_out_twice().is_empty() && !plan.covers("plain/a.yaml"));
    }

    /// Counts how often a tree is asked.
    struct Counted<'t>(&'t MemoryTree, std::sync::atomic::AtomicUsize);

    impl Counted<'_> {
        fn ask(&self) {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    impl Tree for Counted<'_> {
        type Error = std::convert::Infallible;

        fn node(&self, path: &str) -> Result<Option<Node>, Self::Error> {
            self.ask();
            self.0.node(path)
        }

        fn list(&self, folder: &str) -> Result<Vec<(String, Node)>, Self::Error> {
            self.ask();
            self.0.list(folder)
        }

        fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Self::Error> {
            self.ask();
            self.0.read(path, limit)
        }
    }

    /// Returns kustomizations of which each is built on all others, and the steps in which their units were found.
    fn built_on_each_other(number: usize, text: &str) -> (Plan, usize) {
        let mut tree = MemoryTree::default();
        let all: String = (0..number).map(|other| format!("- ../k{other}\n")).collect();
        for one in 0..number {
            tree.file(format!("all/k{one}/kustomization.yaml"), format!("# {text}\nresources:\n{all}"));
        }
        let counted = Counted(&tree, std::sync::atomic::AtomicUsize::new(0));
        let Ok(plan) = find(&counted, "all", &Options::default());
        (plan, counted.1.into_inner())
    }

    #[test]
    fn kustomizations_that_are_built_on_each_other_cost_a_bounded_number_of_steps() {
        let (plan, steps) = built_on_each_other(20, "");
        assert!(plan.units.len() == 20 && plan.units.values().all(|unit| unit.refusal.is_none()), "{steps}");
        let (plan, steps) = built_on_each_other(120, "");
        assert!(steps < 120_000, "{steps} steps");
        let [unit] = plan.units.values().collect::<Vec<_>>()[..] else { panic!("{:?}", plan.units.keys()) };
        let refusal = unit.refusal.as_ref().unwrap();
        assert!(refusal.message.contains("more than 100000 paths"), "{}", refusal.message);
        assert!(refusal.message.ends_with("nothing below all is read"), "{}", refusal.message);
        assert!(plan.covers("all/plain.yaml") && plan.weight() < 10, "{}", plan.weight());
        // The same of long ones.
        let (plan, steps) = built_on_each_other(40, &"x".repeat(100_000));
        assert!(steps < 120_000 && plan.units.len() == 1, "{steps} steps, {} units", plan.units.len());
    }
}
