//! Files held in memory: the working copy of a command, or a test's.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use sha2::{Digest, Sha256};

use super::tree::{ContentId, Node, Tree, below, folders_above};

/// Files held in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MemoryTree {
    files: BTreeMap<String, Held>,
}

#[derive(Clone, Debug)]
struct Held {
    bytes: Vec<u8>,
    is_link: bool,
}

impl MemoryTree {
    /// Puts a file at a path.
    pub fn file(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.files.insert(path.into(), Held { bytes: bytes.into(), is_link: false });
    }

    /// Puts a symbolic link at a path.
    pub fn link(&mut self, path: impl Into<String>, target: &str) {
        self.files.insert(path.into(), Held { bytes: target.into(), is_link: true });
    }

    /// Takes a file away.
    pub fn remove(&mut self, path: &str) {
        self.files.remove(path);
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    fn within<'a>(&'a self, folder: &str) -> impl Iterator<Item = (&'a str, &'a Held)> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let from = prefix.clone();
        let files = self.files.range(from..).take_while(move |(path, _)| path.starts_with(&prefix));
        files.map(|(path, held)| (path.as_str(), held))
    }
}

impl Tree for MemoryTree {
    type Error = Infallible;

    fn node(&self, path: &str) -> Result<Option<Node>, Infallible> {
        if let Some(held) = self.files.get(path) {
            return Ok(Some(if held.is_link { Node::Link } else { Node::File(ContentId::of(&held.bytes)) }));
        }
        if folders_above(path).filter_map(|folder| self.files.get(folder)).any(|held| held.is_link) {
            return Ok(Some(Node::Link));
        }
        let mut hasher = Sha256::new();
        let mut any = path.is_empty();
        for (path, held) in self.within(path) {
            any = true;
            hasher.update(Sha256::digest(path));
            hasher.update([u8::from(held.is_link)]);
            hasher.update(Sha256::digest(&held.bytes));
        }
        Ok(any.then(|| Node::Folder(ContentId::of(&hasher.finalize()))))
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, Node)>, Infallible> {
        let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let names: BTreeSet<&str> =
            self.within(folder).filter_map(|(path, _)| path[start..].split('/').next()).collect();
        let node = |name: &str| Some((name.to_owned(), self.node(&below(folder, name)).ok()??));
        Ok(names.into_iter().filter_map(node).collect())
    }

    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Infallible> {
        let held = self.files.get(path).filter(|held| held.bytes.len() as u64 <= limit);
        Ok(held.map(|held| held.bytes.clone()))
    }
}
