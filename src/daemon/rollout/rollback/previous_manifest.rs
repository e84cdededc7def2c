//! The former manifest in Git: an object as it was before a commit changed it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;

use crate::config::OnFailure;
use crate::daemon::repository::head_reading::HeadReading;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::repository::units::Content;
use crate::daemon::shared::context::Context;
use crate::git::GitError;
use crate::history::Query;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::rollback::FormerManifest;
use belay_core::rollout::{CommitId, Outcome, Record, RecordId, Trigger};

/// The most versions of one object that are searched.
const VERSIONS: usize = 20;
/// The most commits that are searched for the one that brought the present version.
const COMMITS: usize = 1000;
/// The number of records of an object that are searched for its fate since one of them.
const RECORDS: u32 = 20;

impl Repository {
    /// Returns an object as it was before `commit` changed it. `None` if the commit did not change it, made it, or took
    /// it away, or if it has no parent. For a merge, the first parent counts.
    pub fn change_by(&self, key: &ObjectKey, commit: &CommitId) -> Result<Option<FormerManifest>, GitError> {
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
        Ok(Some(FormerManifest { manifest, commit }))
    }

    /// Returns the manifest of an object as `commit` made it. For a merge, the first parent counts.
    pub fn brought_by(&self, commit: &CommitId, key: &ObjectKey) -> Result<Option<Manifest>, GitError> {
        let parent = self.mirror.commit(commit)?.parents.into_iter().next();
        let scopes = self.desired().scopes.clone();
        for change in self.changes(parent.as_ref(), commit)?.changes.iter().filter(|change| change.is_manifest) {
            let Some(content) = Content::readable(change.after.as_ref()) else { continue };
            let file = self.read_lately(&change.path, content, &scopes)?;
            if let Some(manifest) = file.manifests.iter().find(|manifest| manifest.key == *key) {
                return Ok(Some(manifest.clone()));
            }
        }
        Ok(None)
    }

    /// Returns true when a commit changed an object that existed before.
    pub fn has_changed(&self, key: &ObjectKey, commit: &CommitId) -> Result<bool, GitError> {
        Ok(self.change_by(key, commit)?.is_some())
    }

    /// Returns the commit that made the present manifest of an object.
    fn brought(&self, key: &ObjectKey) -> Result<Option<CommitId>, GitError> {
        let desired = self.desired();
        let (Some(located), Some(at)) = (desired.locate(key), desired.at.clone()) else { return Ok(None) };
        let mut reading = HeadReading::new(self, &desired.scopes, &at);
        let commit = if *located.file != *located.place.path {
            reading.charge_unit(&located.file, Some(key), &at)?
        } else {
            let paths = [located.file.to_string()];
            let chains = self.mirror.attribution(None, &at, &self.folder, &paths, COMMITS)?;
            let now = BTreeMap::from([(key.clone(), Some(located.hash))]);
            let mut charged = reading.charge(&located.file, now, chains.get(&paths[0]))?;
            let Some(commit) = charged.remove(key) else { return Ok(None) };
            commit
        };
        Ok(Some(commit.id.clone()))
    }

    /// Returns the newest version of an object before `commit` that has not `failed`; the commit that replaced a version
    /// is told with it.
    pub fn good_before(
        &self,
        key: &ObjectKey,
        commit: &CommitId,
        failed: impl Fn(&FormerManifest, &CommitId) -> bool,
    ) -> Result<Option<FormerManifest>, GitError> {
        let mut at = commit.clone();
        for _ in 0..VERSIONS {
            let Some(former) = self.change_by(key, &at)? else { return Ok(None) };
            if !failed(&former, &at) {
                return Ok(Some(former));
            }
            at = former.commit.id.clone();
        }
        Ok(None)
    }
}

impl Context {
    /// Returns an object's last good manifest: its newest version before the present one that no failed commit brought.
    pub async fn good_former(self: &Arc<Context>, key: &ObjectKey) -> Option<FormerManifest> {
        let (context, key) = (Arc::clone(self), key.clone());
        self.ask_git(move |repository| {
            let Some(brought) = repository.brought(&key)? else { return Ok(None) };
            repository.good_before(&key, &brought, |former, replaced_by| {
                context.has_failed_with(&key, &former.commit.id, Some(replaced_by))
            })
        })
        .await
    }

    /// Returns true when the present version of an object was brought by this commit, or by an earlier one that failed.
    pub async fn is_of_failed(self: &Arc<Context>, key: &ObjectKey, commit: &CommitId) -> bool {
        let (context, key, commit) = (Arc::clone(self), key.clone(), commit.clone());
        let asked = self.ask_git(move |repository| {
            let Some(brought) = repository.brought(&key)? else { return Ok(None) };
            let failed = brought == commit || context.has_failed_with(&key, &brought, None);
            Ok((failed && repository.change_by(&key, &brought)?.is_some()).then_some(()))
        });
        asked.await.is_some()
    }

    /// Returns true when a commit has failed for an object or its readers, and none of them was complete since and before
    /// belay came to the commit `until`. If whole commits go back, all objects of the commit count. It blocks.
    fn has_failed_with(&self, key: &ObjectKey, commit: &CommitId, until: Option<&CommitId>) -> bool {
        let whole = self.config.on_failure == OnFailure::RollBackCommit;
        let mut concerned = self.repository.desired().named_by(key);
        concerned.insert(key.clone());
        let records = self.records_of_commit(commit);
        let mut failed = records.iter().filter(|record| match record.outcome {
            // An object that went back with another says nothing by itself.
            _ if matches!(record.trigger, Trigger::Together(_)) => false,
            Outcome::Failed | Outcome::RolledBack | Outcome::RollbackFailed => {
                whole || concerned.contains(&record.object)
            }
            // Nobody has seen it complete.
            Outcome::Superseded => record.rolls_out && concerned.contains(&record.object),
            _ => false,
        });
        let end = until.and_then(|until| self.first_record_of(until));
        let complete_since = |failed: &Record| {
            self.records_since(failed, end, &[Outcome::Complete]).iter().any(|record| record.rolls_out)
        };
        failed.any(|failed| !complete_since(failed))
            || until.is_some_and(|until| self.was_never_complete(commit, until))
    }

    /// Returns true when whole commits go back, and belay came to the commit `until` before this one was complete: a
    /// rollout of it was superseded, and nothing but that has become of its object since. It blocks.
    pub fn was_never_complete(&self, commit: &CommitId, until: &CommitId) -> bool {
        if self.config.on_failure != OnFailure::RollBackCommit {
            return false;
        }
        let (records, end) = (self.records_of_commit(commit), self.first_record_of(until));
        let is_superseded = |record: &Record| record.outcome == Outcome::Superseded;
        let mut superseded =
            records.iter().filter(|record| is_superseded(record) && record.rolls_out && record.trigger.is_commit());
        superseded.any(|record| self.records_since(record, end, &[]).iter().all(is_superseded))
    }

    /// Returns the newest records of a record's object that are newer than it and older than `end`. It blocks.
    fn records_since(&self, record: &Record, end: Option<RecordId>, outcomes: &[Outcome]) -> Vec<Record> {
        let query = Query {
            outcomes: outcomes.iter().copied().collect(),
            older_than: end,
            limit: Some(RECORDS),
            ..Query::of(&self.config.name, &record.object)
        };
        let mut since = self.history.records(&query).unwrap_or_default();
        since.retain(|one| one.id > record.id && end.is_none_or(|end| one.id < end));
        since
    }

    /// Returns the first record of a commit. It blocks.
    fn first_record_of(&self, commit: &CommitId) -> Option<RecordId> {
        self.records_of_commit(commit).iter().map(|record| record.id).min()
    }

    /// Returns all records of a commit. It blocks.
    pub fn records_of_commit(&self, commit: &CommitId) -> Vec<Record> {
        let source = Some(self.config.name.clone());
        let query = Query { source, commit: Some(commit.to_string()), ..Query::default() };
        self.history.records(&query).unwrap_or_else(|error| {
            warn!(commit = commit.short(), %error, "failed to ask the history for the records of a commit");
            Vec::new()
        })
    }

    /// Asks the repository something, beside the loop. An error is logged and counts as missing.
    pub async fn ask_git<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Repository) -> Result<Option<T>, GitError> + Send + 'static,
    ) -> Option<T> {
        let repository = self.repository.clone();
        let blocking_pool = repository.blocking_pool.clone();
        let work = move || {
            let _attempt = repository.mirror.attempt();
            question(&repository)
        };
        blocking_pool.run_for_object(work).await.unwrap_or_else(|error| {
            warn!(%error, "failed to ask the mirror what was before");
            None
        })
    }
}
