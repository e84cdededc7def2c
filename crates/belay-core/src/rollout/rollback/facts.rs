//! The known facts about a rollout that failed.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::kept_hold::KeptHold;
use super::{NoRollbackTarget, RollbackTarget};
use crate::manifest::{Manifest, ObjectKey};
use crate::rollout::{Commit, Companion, FailurePolicy, Reason, Wanted};

/// The known facts about a rollout that failed. A fact that is `None` is not known yet.
#[derive(Clone, Debug)]
pub struct RollbackFacts<'a> {
    /// The manifest that failed.
    pub wanted: &'a Wanted,
    /// The source that it belongs to.
    pub source: &'a str,
    /// The reason of the failure.
    pub reason: Reason,
    /// The live object; null if it was deleted meanwhile: then it is created again.
    pub live: &'a Value,
    /// True when the rollout was of another pod template, and not of the number of pods alone.
    pub changes_template: bool,
    /// The source's policy, for objects without one.
    pub policy: FailurePolicy,
    /// The object that failed, if this one only goes back with it.
    pub culprit: Option<Companion>,
    /// The workloads that read a ConfigMap or Secret.
    pub readers: Vec<Companion>,
    /// The present moment.
    pub now: Timestamp,
    /// The hold of the same manifest if it has failed before and the cluster has lost the hold: it goes back to the same target.
    pub kept: Option<KeptHold>,
    /// The rollback target.
    pub target: Option<Result<RollbackTarget, NoRollbackTarget>>,
    /// The server's version of the pod template that is to be sent, or its words if it refuses that.
    pub trial: Option<Result<Value, String>>,
    /// The ConfigMaps and Secrets that its pod template names, and that its commit changed too.
    pub configuration: Option<Vec<ChangedConfiguration>>,
    /// The manifest before the commit of an object without a pod template; `Some(None)` if there was none.
    pub former: Option<Option<FormerManifest>>,
}

/// A ConfigMap or Secret that the failed commit changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedConfiguration {
    /// Its manifest since.
    pub manifest: Manifest,
    /// The other workloads that name it and have not failed by the same commit.
    pub needed_by: Vec<ObjectKey>,
}

/// The manifest of an object before a commit changed it.
#[derive(Clone, Debug, PartialEq)]
pub struct FormerManifest {
    /// The manifest.
    pub manifest: Manifest,
    /// The commit that made it so.
    pub commit: Arc<Commit>,
}
