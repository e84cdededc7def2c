//! Complaints about folders of manifests in whose place there is something else by now, as the daemon complains about
//! them. The commits of the working copy say what was in a folder.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::git::{LostFolder, WorkingCopy};
use belay_core::manifest::{Complaint, File, NotRead, ObjectKey, Scopes, is_manifest, read_file};

/// The folder as it was read, and the working copy that it is in.
pub(super) struct FolderInGit<'a> {
    pub files: &'a [File],
    /// The complaints about it until now.
    pub complaints: &'a [Complaint],
    pub scopes: &'a Scopes,
    pub copy: &'a WorkingCopy,
    /// The revision that was read; without one, the files on the disk were.
    pub revision: Option<&'a str>,
}

impl FolderInGit<'_> {
    /// Complains about each lost folder that had an object of which there is no manifest any more. `counts` says which
    /// paths of the repository are read, and `shown` how they are shown.
    pub(super) fn complaints(
        &self,
        counts: impl Fn(&str) -> bool,
        shown: impl Fn(&str) -> Arc<str>,
    ) -> anyhow::Result<Vec<Complaint>> {
        let lost = self.copy.lost_folders(self.revision, |path| is_manifest(path) && counts(path))?;
        let files = || self.files.iter();
        let manifests = files().flat_map(|file| file.manifests.iter().map(|manifest| &manifest.key));
        let mentioned: BTreeSet<&ObjectKey> = manifests.chain(files().flat_map(|file| &file.rejected)).collect();
        let known: BTreeSet<&str> = self.complaints.iter().map(|complaint| &*complaint.place.path).collect();
        let is_missed = |lost: &LostFolder| {
            lost.files.iter().any(|(path, bytes)| {
                let file = read_file(path, bytes, self.scopes);
                let mut keys = file.manifests.iter().map(|manifest| &manifest.key).chain(&file.rejected);
                file.unreadable || keys.any(|key| !mentioned.contains(key))
            })
        };
        let complaint = |(path, lost): (String, LostFolder)| {
            let path = shown(&path);
            let is_new = !is_manifest(&path) && !known.contains(&*path) && is_missed(&lost);
            is_new.then(|| NotRead::LostFolder(lost.now.replaces_folder()).complaint(&path))
        };
        Ok(lost.into_iter().filter_map(complaint).collect())
    }
}
