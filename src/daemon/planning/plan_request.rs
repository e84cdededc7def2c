//! The input of a plan: objects by name, whose manifests and commits are read beside the loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;

use crate::blocking::blocking;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::Charged;
use crate::daemon::shared::context::Context;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{Commit, CommitId, ConfigHash, IgnoredFields, Record, Trigger, Wanted};

/// An object that is to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    pub key: ObjectKey,
    /// Its manifest at the head; `None` if it has still to be read.
    pub manifest: Option<Manifest>,
    pub charged: ChargedCommit,
    pub trigger: Trigger,
    pub config: ConfigChange,
}

/// The commit that is charged with a planned object.
#[derive(Clone, Debug, PartialEq)]
pub enum ChargedCommit {
    /// This one.
    Known(Arc<Commit>),
    /// The first of these of which anything is known.
    FirstOf(Vec<CommitId>),
    /// This one, which also has the manifest: the head has it no more.
    WithManifest(CommitId),
}

/// The facts about the configuration that an object's pods read, at the time of planning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfigChange {
    /// Nothing says that it has changed.
    #[default]
    None,
    /// It was rolled out for a change of it, or of its own template, before it was broken off.
    WasRolledOut,
    /// A new head has changed it.
    ByHead,
}

/// The planned objects by key.
pub type PlanRequests = BTreeMap<ObjectKey, PlanRequest>;

impl PlanRequest {
    /// Returns a manifest that a new head has changed.
    pub fn changed(Charged { manifest, commit }: Charged) -> PlanRequest {
        PlanRequest { manifest: Some(manifest.clone()), ..PlanRequest::read(&manifest.key, commit) }
    }

    /// Returns a manifest that is read at the head, charged to a commit that comes with it.
    pub fn read(key: &ObjectKey, commit: Arc<Commit>) -> PlanRequest {
        let (charged, config) = (ChargedCommit::Known(commit), ConfigChange::None);
        PlanRequest { key: key.clone(), manifest: None, charged, trigger: Trigger::Commit, config }
    }

    /// Returns the commit that is charged with it, if that is known already.
    pub fn charged_to(&self) -> Option<&CommitId> {
        match &self.charged {
            ChargedCommit::Known(commit) => Some(&commit.id),
            ChargedCommit::FirstOf(_) | ChargedCommit::WithManifest(_) => None,
        }
    }

    /// Returns the request that continues the record of an object whose manifest has left.
    pub fn of_orphan(record: &Record) -> PlanRequest {
        let charged = ChargedCommit::WithManifest(record.commit.clone());
        PlanRequest { charged, ..PlanRequest::recorded(record, None) }
    }

    /// Returns the request that continues a record.
    pub fn recorded(record: &Record, manifest: Option<Manifest>) -> PlanRequest {
        PlanRequest {
            key: record.object.clone(),
            manifest,
            charged: ChargedCommit::FirstOf(vec![record.commit.clone()]),
            trigger: record.trigger.clone(),
            config: if record.rolls_out { ConfigChange::WasRolledOut } else { ConfigChange::None },
        }
    }
}

impl Context {
    /// Reads the manifests of these requests. It blocks. Returns with it the objects of which the manifest or the
    /// commit can't be read.
    pub fn read_requests(
        &self,
        desired: &DesiredState,
        requests: impl IntoIterator<Item = PlanRequest>,
    ) -> (Vec<Wanted>, Vec<ObjectKey>) {
        let (mut wanted, mut unread) = (Vec::new(), Vec::new());
        for request in requests {
            let key = request.key.clone();
            match self.read_request(desired, request) {
                Some(one) => wanted.push(one),
                None => unread.push(key),
            }
        }
        (wanted, unread)
    }

    fn read_request(&self, desired: &DesiredState, request: PlanRequest) -> Option<Wanted> {
        let PlanRequest { key, manifest, charged, trigger, config } = request;
        let manifest = match &charged {
            ChargedCommit::WithManifest(commit) => self.manifest_brought_by(commit, &key),
            _ => manifest.or_else(|| self.read_manifest(desired, &key)),
        }?;
        let commit = match charged {
            ChargedCommit::Known(commit) => commit,
            ChargedCommit::FirstOf(ids) => ids.iter().find_map(|id| self.commit(id))?,
            ChargedCommit::WithManifest(id) => self.commit(&id)?,
        };
        let wanted = self.want(desired, Charged { manifest, commit }, trigger);
        let config_hash = match config {
            ConfigChange::None => wanted.config_hash,
            ConfigChange::WasRolledOut => ConfigHash { changed: true, ..wanted.config_hash },
            ConfigChange::ByHead => ConfigHash { changed: true, only: None, ..wanted.config_hash },
        };
        Some(Wanted { config_hash, ..wanted })
    }

    /// Returns a manifest with the further facts that planning needs.
    pub fn want(&self, desired: &DesiredState, charged: Charged, trigger: Trigger) -> Wanted {
        let Charged { manifest, commit } = charged;
        let config = desired.configuration(&manifest);
        let ignored_fields = self.ignored_fields(desired, &manifest.key);
        let config_hash = ConfigHash { changed: trigger == Trigger::Retry, ..self.config_hash(desired, &manifest) };
        Wanted { config, config_hash, ignored_fields, ..Wanted::of(manifest, commit, trigger) }
    }

    /// Returns the manifest of an object in a desired state. It blocks. A manifest that can't be read is logged, and
    /// treated as missing.
    pub fn read_manifest(&self, desired: &DesiredState, key: &ObjectKey) -> Option<Manifest> {
        let read = desired.manifest(key, |path, content, scopes| self.repository.read_lately(path, content, scopes));
        read.unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to read a manifest again");
            None
        })
    }

    /// Returns the manifest that a commit brought for an object. It blocks.
    fn manifest_brought_by(&self, commit: &CommitId, key: &ObjectKey) -> Option<Manifest> {
        blocking(|| self.repository.brought_by(commit, key)).unwrap_or_else(|error| {
            warn!(object = %key, commit = commit.short(), %error, "failed to read a manifest that has left");
            None
        })
    }

    /// Returns a commit, from the history or the mirror. It blocks.
    pub fn commit(&self, id: &CommitId) -> Option<Arc<Commit>> {
        let known = self.history.commit(id).ok().flatten();
        known.or_else(|| blocking(|| self.repository.mirror.commit(id)).ok()).map(Arc::new)
    }

    /// Returns the fields of an object that belay leaves alone: those of the configuration, and the number of pods that
    /// an autoscaler sets, one of the repository or of the cluster.
    pub fn ignored_fields(&self, desired: &DesiredState, key: &ObjectKey) -> IgnoredFields {
        let ignored_fields = self.config.ignored_fields(key);
        let is_scaled = self.autoscalers.scale(key) || desired.is_scaled(key);
        if is_scaled { ignored_fields.and_replicas() } else { ignored_fields }
    }
}
