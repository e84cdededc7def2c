//! The files that units are made from, wherever they are.

use sha2::{Digest, Sha256};

/// The content of a file, or of a folder with all that is below it, as one number: equal ids are equal contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId([u8; 32]);

impl ContentId {
    /// Returns the id of bytes that are known by nothing else.
    #[must_use]
    pub fn of(bytes: &[u8]) -> ContentId {
        ContentId(Sha256::digest(bytes).into())
    }

    /// Returns the id that Git gives a file or a folder.
    #[must_use]
    pub fn of_git(id: &[u8]) -> ContentId {
        let mut bytes = [0; 32];
        let length = id.len().min(32);
        bytes[..length].copy_from_slice(&id[..length]);
        ContentId(bytes)
    }

    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The node at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File(ContentId),
    /// A folder.
    Folder(ContentId),
    /// A symbolic link, or something that only a link leads to.
    Link,
    /// Another repository.
    Submodule,
}

/// The files of a commit, or of a folder on this machine. Paths begin at the root, which is the empty path.
pub trait Tree: Sync {
    /// The reason for which it can't be read.
    type Error: Send;

    /// Returns the node at a path. `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    fn node(&self, path: &str) -> Result<Option<Node>, Self::Error>;

    /// Returns the content of a folder, by name; nothing if there is no such folder.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    fn list(&self, folder: &str) -> Result<Vec<(String, Node)>, Self::Error>;

    /// Returns the content of a file, or the target of a link. `None` if that is more than `limit` bytes, or there
    /// is no file.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// Returns a folder and a name in it, as one path.
#[must_use]
pub fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Returns the folders that a path lies in, the outermost first, without the root.
pub fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Returns the folder that a path is in.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
