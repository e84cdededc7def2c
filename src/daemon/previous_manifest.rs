//! What Git had before: the manifest of an object as it was before a commit changed it.

use tracing::warn;

use super::context::Context;
use super::head_reading::HeadReading;
use super::repository::Repository;
use super::units::Content;
use crate::git::GitError;
use belay_core::manifest::{Manifest, ManifestHash, ObjectKey};
use belay_core::rollout::CommitId;
use belay_core::rollout::rollback::FormerManifest;

/// The most versions of one object that are looked through.
const VERSIONS: usize = 20;

/// What one commit made of an object.
#[derive(Clone, Debug)]
pub(super) struct PreviousManifest {
    /// What it was before.
    pub former: FormerManifest,
    /// The hash of what it is since.
    pub now: ManifestHash,
}

impl Repository {
    /// What an object was before `commit` changed it. `None` where the commit did not change it, made it, or took it
    /// away, or where it has no parent. Of a merge, the first parent counts.
    pub(super) fn change_by(&self, key: &ObjectKey, commit: &CommitId) -> Result<Option<PreviousManifest>, GitError> {
        let Some(parent) = self.mirror.commit(commit)?.parents.into_iter().next() else { return Ok(None) };
        let scopes = self.desired().scopes.clone();
        let mut before: Option<(bool, String, Manifest)> = None;
        let mut now = None;
        let changes = self.changes(Some(&parent), commit)?.changes;
        for change in changes.iter().filter(|change| change.is_manifest) {
            let find = |content: Option<&Content>| {
                let Some(content) = Content::readable(content) else { return Ok(None) };
                let file = self.read_lately(&change.path, content, &scopes)?;
                Ok::<_, GitError>(file.manifests.iter().find(|manifest| manifest.key == *key).cloned())
            };
            if let Some(manifest) = find(change.before.as_ref())? {
                before = Some((change.is_rendered(), change.path.clone(), manifest));
            }
            now = find(change.after.as_ref())?.map(|manifest| manifest.hash).or(now);
        }
        let (Some((is_rendered, path, manifest)), Some(now)) = (before, now) else { return Ok(None) };
        if manifest.hash == now {
            return Ok(None);
        }
        let mut reading = HeadReading::new(self, &scopes, &parent);
        let commit = if is_rendered {
            reading.charge_unit(&path, Some(key), &parent)?
        } else {
            let paths = [path.clone()];
            let chains = self.mirror.attribution(None, &parent, &self.folder, &paths, VERSIONS)?;
            let now = [(key.clone(), Some(manifest.hash))].into();
            let charged = reading.charge(&path, now, chains.get(&path))?;
            charged.into_values().next().map_or_else(|| reading.commit(&parent), Ok)?
        };
        Ok(Some(PreviousManifest { former: FormerManifest { manifest, commit }, now }))
    }

    /// The newest version of an object before `commit` that has not `failed`.
    pub(super) fn good_before(
        &self,
        key: &ObjectKey,
        commit: &CommitId,
        failed: impl Fn(&str) -> bool,
    ) -> Result<Option<FormerManifest>, GitError> {
        let mut at = commit.clone();
        for _ in 0..VERSIONS {
            let Some(PreviousManifest { former, .. }) = self.change_by(key, &at)? else { return Ok(None) };
            if !failed(&former.manifest.hash.to_string()) {
                return Ok(Some(former));
            }
            at = former.commit.id.clone();
        }
        Ok(None)
    }
}

impl Context {
    /// Asks the repository something, beside the loop. What can't be read is logged, and as good as not there.
    pub(super) async fn ask_git<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Repository) -> Result<Option<T>, GitError> + Send + 'static,
    ) -> Option<T> {
        let repository = self.repository.clone();
        let blocking_pool = repository.blocking_pool.clone();
        blocking_pool.run_for_object(move || question(&repository)).await.unwrap_or_else(|error| {
            warn!(%error, "failed to ask the mirror what was before");
            None
        })
    }
}
