//! Symbolic links to folders. Nothing is read through them.

use super::tree::{Node, Tree, below, parent};
use belay_core::manifest::{is_manifest, join};

/// The longest path that a link leads to.
const TARGET: u64 = 4096;

/// The most entries of a folder that are checked for manifests.
const ENTRIES: usize = 10_000;

/// Returns true when a link leads to a folder of the tree that holds manifests, so that somebody may mean these to be
/// read.
///
/// # Errors
///
/// When the tree can't be read.
pub fn leads_to_manifests<T: Tree>(tree: &T, link: &str) -> Result<bool, T::Error> {
    let Some(target) = tree.read(link, TARGET)?.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Ok(false);
    };
    let Some(folder) = join(parent(link), &target) else { return Ok(false) };
    // A link to a folder that it lies in leads back to a folder that is read already.
    if !matches!(tree.node(&folder)?, Some(Node::Folder(_)))
        || folder.is_empty()
        || link.starts_with(&format!("{folder}/"))
    {
        return Ok(false);
    }
    let (mut folders, mut seen) = (vec![folder], 0);
    while let Some(folder) = folders.pop() {
        for (name, node) in tree.list(&folder)? {
            seen += 1;
            match node {
                _ if seen > ENTRIES => return Ok(false),
                Node::File(_) if is_manifest(&name) => return Ok(true),
                Node::Folder(_) if !name.starts_with(['.', '_']) => folders.push(below(&folder, &name)),
                _ => {}
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::MemoryTree;
    use super::*;

    #[test]
    fn a_link_counts_that_leads_to_manifests() {
        let mut tree = MemoryTree::default();
        tree.file("shared/deep/cm.yaml", "");
        tree.file("docs/readme.md", "");
        tree.file("deploy/own.yaml", "");
        for (path, target, counts) in [
            ("deploy/shared", "../shared", true),
            ("deploy/deep", "../shared/deep/", true),
            ("deploy/docs", "../docs", false),
            ("deploy/readme", "../docs/readme.md", false),
            ("deploy/nowhere", "nowhere", false),
            ("deploy/out", "../../shared", false),
            ("deploy/machine", "/etc", false),
            ("deploy/self", ".", false),
            ("deploy/root", "..", false),
        ] {
            tree.link(path, target);
            let Ok(leads) = leads_to_manifests(&tree, path);
            assert_eq!(leads, counts, "{path}");
        }
    }
}
