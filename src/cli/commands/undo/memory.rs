//! The facts about a workload beside the cluster: in the daemon's history, and in its mirror of the repository. Either
//! may be missing: an undo by revision needs neither.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;
use serde_json::Value;

use crate::cli::Globals;
use crate::cli::args::target::Target;
use crate::daemon::CommitTree;
use crate::git::{EntryKind, Limits, Mirror, ResolvedRevision as InGit};
use crate::history::{History, HistoryError, Query, Resolved};
use crate::render::{Options, find};
use belay_core::manifest::{ObjectKey, Scopes, is_manifest, read_file};
use belay_core::rollout::{
    Commit, CommitId, Hold, Outcome, Record, configuration_hash, marks, named_configuration, template,
    without_controllers_labels,
};

/// The most bytes of a file that are read, as in the daemon.
const FILE_LIMIT: u64 = 3 << 20;
/// The number of records of a workload that are searched for its newest manifest.
const RECORDS: u32 = 100;

/// The daemon's state folder, as far as there is one.
pub(super) struct UndoHistory {
    history: Option<History>,
    state: PathBuf,
}

/// The newest manifest of a workload, for a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub commit: CommitId,
    pub manifest: String,
    pub config: Option<String>,
}

impl UndoHistory {
    /// Opens the existing history, for reading. A history that is there and can't be read is an error: without it an
    /// undo could not be held.
    pub(super) fn open(globals: &Globals) -> anyhow::Result<UndoHistory> {
        let location = globals.history_to_look_at()?;
        let history = match location.read() {
            Ok(history) => Some(history),
            Err(HistoryError::Missing { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(UndoHistory { history, state: location.folder().to_owned() })
    }

    /// Returns the newest manifest of a workload that the daemon took up.
    pub(super) fn head(&self, source: &str, target: &Target) -> anyhow::Result<Option<Head>> {
        let Some(newest) = self.newest(source, &target.key)? else { return Ok(None) };
        let Some(manifest) = newest.manifest_hash else { return Ok(None) };
        let config = match Hold::on(&target.live) {
            // The live template may name other configuration than the held manifest.
            Some(hold) if hold.manifest == manifest => hold.config,
            _ => self.configuration(source, target)?,
        };
        Ok(Some(Head { commit: newest.commit, manifest, config }))
    }

    /// Returns the newest record of an object that has its manifest.
    fn newest(&self, source: &str, key: &ObjectKey) -> anyhow::Result<Option<Record>> {
        let mut of_it = self.records(source, key)?.into_iter();
        Ok(of_it.find(|record| record.manifest_hash.is_some() || record.outcome == Outcome::Pruned))
    }

    /// Returns the newest records of an object.
    fn records(&self, source: &str, key: &ObjectKey) -> anyhow::Result<Vec<Record>> {
        let Some(history) = &self.history else { return Ok(Vec::new()) };
        let query = Query { limit: Some(RECORDS), ..Query::of(source, key) };
        let records = history.records(&query)?;
        Ok(records.into_iter().filter(|record| record.object == *key).collect())
    }

    /// Returns the newest commit before the present one of a workload that was seen complete and has not failed since.
    pub(super) fn good_before(&self, source: &str, target: &Target) -> anyhow::Result<Option<CommitId>> {
        let present = marks::annotation(&target.live, marks::COMMIT).unwrap_or_default();
        let mut failed = BTreeSet::new();
        for record in self.records(source, &target.key)? {
            match record.outcome {
                Outcome::Failed | Outcome::RolledBack | Outcome::RollbackFailed => {
                    failed.insert(record.commit);
                }
                Outcome::Complete
                    if record.rolls_out && record.commit.as_str() != present && !failed.contains(&record.commit) =>
                {
                    return Ok(Some(record.commit));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the hash of the ConfigMaps and Secrets of the source that the live template names, as the daemon makes
    /// it.
    fn configuration(&self, source: &str, target: &Target) -> anyhow::Result<Option<String>> {
        let Some(template) = template(&target.live) else { return Ok(None) };
        let mut known = Vec::new();
        for key in named_configuration(template, target.key.namespace.as_deref()) {
            if let Some(hash) = self.newest(source, &key)?.and_then(|record| record.manifest_hash) {
                known.push((key, hash));
            }
        }
        Ok(configuration_hash(known.iter().map(|(key, hash)| (key, hash.as_str()))))
    }

    /// Returns the pod template that a workload had at a commit, from the history, else from the mirror.
    pub(super) fn template_of(
        &self,
        source: &str,
        target: &Target,
        digits: &str,
    ) -> anyhow::Result<Option<(Commit, Value)>> {
        if source.is_empty() {
            return Ok(None);
        }
        if let Some(history) = &self.history {
            match history.resolve(digits)? {
                Resolved::One(id) => {
                    let kept = history.template(source, &target.key, &id)?;
                    if let Some((commit, template)) = history.commit(&id)?.zip(kept) {
                        return Ok(Some((commit, without_controllers_labels(&template))));
                    }
                }
                Resolved::Several(ids) => bail!("{digits:?} is the beginning of several commits: {}", listed(&ids)),
                Resolved::None => {}
            }
        }
        self.template_in_git(source, target, digits)
    }

    fn template_in_git(&self, source: &str, target: &Target, digits: &str) -> anyhow::Result<Option<(Commit, Value)>> {
        let folder = self.state.join("sources").join(source);
        let Some(mirror) = Mirror::kept(&folder, Limits::default())? else { return Ok(None) };
        let id = match mirror.resolve(digits)? {
            InGit::One(id) => id,
            InGit::Several(ids) => bail!("{digits:?} is the beginning of several commits: {}", listed(&ids)),
            InGit::None => return Ok(None),
        };
        // The file that has the manifest now most likely had it then; otherwise every file is read.
        let place = self.newest(source, &target.key)?.and_then(|record| record.place);
        let namespace = target.key.namespace.as_deref().unwrap_or("default");
        // A rendered manifest was never applied as it is written.
        let units = find(&CommitTree::new(&mirror, &id), "", &Options::default())?;
        let mut files = mirror.files(&id, "")?.files;
        files.retain(|(path, _)| !units.covers(path));
        files.sort_by_key(|(path, _)| place.as_ref().is_none_or(|place| *place.path != **path));
        for (path, entry) in files {
            if entry.kind != EntryKind::File || !is_manifest(&path) {
                continue;
            }
            let Ok(bytes) = mirror.read(entry.blob, FILE_LIMIT) else { continue };
            let file = read_file(&path, &bytes, &Scopes::new(namespace));
            if let Some(manifest) = file.manifests.iter().find(|manifest| manifest.key == target.key) {
                let Some(template) = template(&manifest.value()).cloned() else { return Ok(None) };
                return Ok(Some((mirror.commit(&id)?, template)));
            }
        }
        Ok(None)
    }
}

fn listed(ids: &[CommitId]) -> String {
    ids.iter().map(|id| &id.as_str()[..12]).collect::<Vec<_>>().join(", ")
}
