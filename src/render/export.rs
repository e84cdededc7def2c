//! Writes the inputs of a unit into a private folder, for the tool to see.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

use super::tree::{Node, Tree, below, parent};
use super::unit::Inputs;
use belay_core::manifest::join;

/// The most that is written, in bytes.
const BYTES: u64 = 256 << 20;
/// The most files and folders that are written.
const ENTRIES: usize = 100_000;
/// The longest path that a link leads to.
const TARGET: u64 = 4096;

/// The reason for which it could not be written.
#[derive(Debug)]
pub(super) enum ExportError<E> {
    /// The tree can't be read.
    Tree(E),
    /// The machine does not take it.
    Machine(io::Error),
    /// It is more than belay shows a tool.
    TooMuch(String),
}

/// Writes the inputs of a unit into a folder, which is empty. Links are written only if their targets exist.
pub(super) fn export<T: Tree>(tree: &T, inputs: &Inputs, into: &Path) -> Result<(), ExportError<T::Error>> {
    let mut export = Export { tree, into, bytes: 0, entries: 0, links: Vec::new() };
    for (path, node) in &inputs.nodes {
        if let Some(node) = node {
            export.node(path, *node)?;
        }
    }
    // Last, so that nothing is ever written through one.
    for link in std::mem::take(&mut export.links) {
        export.link(&link)?;
    }
    Ok(())
}

struct Export<'a, T> {
    tree: &'a T,
    into: &'a Path,
    bytes: u64,
    entries: usize,
    links: Vec<String>,
}

impl<T: Tree> Export<'_, T> {
    fn node(&mut self, path: &str, node: Node) -> Result<(), ExportError<T::Error>> {
        let mut next = vec![(path.to_owned(), node)];
        while let Some((path, node)) = next.pop() {
            self.entries += 1;
            if self.entries > ENTRIES {
                return Err(ExportError::TooMuch(format!("more than {ENTRIES} files")));
            }
            match node {
                Node::File(_) => self.file(&path)?,
                Node::Folder(_) => {
                    self.folder(&path).map_err(ExportError::Machine)?;
                    let entries = self.tree.list(&path).map_err(ExportError::Tree)?;
                    let usable = entries.into_iter().filter(|(name, _)| is_usable(name));
                    next.extend(usable.map(|(name, node)| (below(&path, &name), node)));
                }
                Node::Link => self.links.push(path),
                Node::Submodule => {}
            }
        }
        Ok(())
    }

    fn folder(&self, path: &str) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.into.join(path))
    }

    fn file(&mut self, path: &str) -> Result<(), ExportError<T::Error>> {
        let read = self.tree.read(path, BYTES.saturating_sub(self.bytes)).map_err(ExportError::Tree)?;
        let Some(bytes) = read else {
            return Err(ExportError::TooMuch(format!("more than {} MiB", BYTES >> 20)));
        };
        self.bytes += bytes.len() as u64;
        self.folder(parent(path)).map_err(ExportError::Machine)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.into.join(path));
        file.and_then(|mut file| file.write_all(&bytes)).map_err(ExportError::Machine)
    }

    /// Writes a link, if it leads to a file or folder of the tree and by no other link.
    fn link(&self, path: &str) -> Result<(), ExportError<T::Error>> {
        let target = self.tree.read(path, TARGET).map_err(ExportError::Tree)?;
        let Some(target) = target.and_then(|bytes| String::from_utf8(bytes).ok()) else { return Ok(()) };
        // Behind another name `..` may lead anywhere.
        let climbs_later = target.split('/').skip_while(|part| *part == "..").any(|part| part == "..");
        let Some(joined) = join(parent(path), &target).filter(|_| !climbs_later) else { return Ok(()) };
        let node = self.tree.node(&joined).map_err(ExportError::Tree)?;
        if !matches!(node, Some(Node::File(_) | Node::Folder(_))) || fs::symlink_metadata(self.into.join(path)).is_ok()
        {
            return Ok(());
        }
        symlink(&target, self.into.join(path)).map_err(ExportError::Machine)
    }
}

/// Returns true when a name is one of a file in a folder, and not Git's own.
fn is_usable(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.eq_ignore_ascii_case(".git") && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::MemoryTree;
    use super::*;

    fn exported(tree: &MemoryTree) -> (tempfile::TempDir, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let Ok(root) = tree.node("");
        export(tree, &Inputs { nodes: BTreeMap::from([(String::new(), root)]) }, folder.path()).unwrap();
        let mut found = Vec::new();
        let mut folders = vec![folder.path().to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
                found.push(entry.path().strip_prefix(folder.path()).unwrap().display().to_string());
                folders.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
            }
        }
        found.sort();
        (folder, found)
    }

    #[test]
    fn links_that_lead_out_and_gits_own_folder_are_left_out() {
        let mut tree = MemoryTree::default();
        tree.file("a/b/x.yaml", "x");
        tree.file(".git/config", "secret");
        for (path, target) in [
            ("in", "a/b/x.yaml"),
            ("a/up", "../a/b"),
            ("out", "../x"),
            ("root", "/etc/passwd"),
            ("a/b/top", "../.."),
            ("a/b/over", "top/../../etc/passwd"),
            ("twice", "in"),
            ("nowhere", "a/nothing"),
        ] {
            tree.link(path, target);
        }
        let (folder, found) = exported(&tree);
        assert_eq!(found, ["a", "a/b", "a/b/top", "a/b/x.yaml", "a/up", "in"]);
        for path in found {
            let real = fs::canonicalize(folder.path().join(path)).unwrap();
            assert!(real.starts_with(fs::canonicalize(folder.path()).unwrap()), "{}", real.display());
        }
    }
}
