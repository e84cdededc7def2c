//! The files of a folder on this machine, as rendering reads them.

use std::convert::Infallible;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::regular_file::read_regular;
use crate::render::{ContentId, Node, Tree, below, folders_above};

/// The files of a folder on this machine. A file that can't be read counts as missing. Nothing is kept by the ids of
/// its files, so they only identify the paths.
pub(in crate::cli) struct DiskTree {
    root: PathBuf,
}

impl DiskTree {
    /// Returns the repository that a folder lies in, else the present folder where it lies in that, else the folder
    /// itself; and the folder's path in it.
    pub(in crate::cli) fn around(folder: &Path) -> std::io::Result<(DiskTree, String)> {
        let folder = folder.canonicalize()?;
        let present = std::env::current_dir().and_then(|present| present.canonicalize()).ok();
        let present = present.as_deref().filter(|present| folder.starts_with(present));
        let repository = folder.ancestors().find(|ancestor| ancestor.join(".git").exists());
        let root = repository.or(present).unwrap_or(&folder);
        let below = folder.strip_prefix(root).unwrap_or(Path::new("")).to_string_lossy().into_owned();
        Ok((DiskTree { root: root.to_owned() }, below))
    }

    /// Returns its root on this machine.
    pub(in crate::cli) fn root(&self) -> &Path {
        &self.root
    }

    fn look(&self, path: &str) -> Option<Node> {
        let kind = fs::symlink_metadata(self.root.join(path)).ok()?.file_type();
        let id = ContentId::of(path.as_bytes());
        match () {
            () if kind.is_symlink() => Some(Node::Link),
            () if kind.is_dir() => Some(Node::Folder(id)),
            () if kind.is_file() => Some(Node::File(id)),
            () => None,
        }
    }
}

impl Tree for DiskTree {
    type Error = Infallible;

    fn node(&self, path: &str) -> Result<Option<Node>, Infallible> {
        for folder in folders_above(path) {
            match self.look(folder) {
                Some(Node::Folder(_)) => {}
                other => return Ok(other.filter(|node| *node == Node::Link)),
            }
        }
        Ok(self.look(path))
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, Node)>, Infallible> {
        let Ok(entries) = fs::read_dir(self.root.join(folder)) else { return Ok(Vec::new()) };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut listed: Vec<(String, Node)> =
            names.filter_map(|name| Some((name.clone(), self.look(&below(folder, &name))?))).collect();
        listed.retain(|(name, _)| name != ".git");
        listed.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(listed)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Infallible> {
        let path = self.root.join(path);
        let Ok(data) = fs::symlink_metadata(&path) else { return Ok(None) };
        if data.is_symlink() {
            return Ok(fs::read_link(&path).ok().map(|target| target.as_os_str().as_bytes().to_vec()));
        }
        Ok(read_regular(&path, limit).ok())
    }
}
