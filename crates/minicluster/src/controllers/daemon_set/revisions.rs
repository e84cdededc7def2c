//! The revisions of a DaemonSet.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use kube::api::{DeleteParams, Patch};
use serde_json::json;

use super::DaemonSets;
use super::fit::REVISION_LABEL;
use super::plan::ByNode;
use crate::controllers::error::Error;
use crate::controllers::history::{self, History, number};
use crate::controllers::key::{Key, label, name_of, uid_of};
use crate::controllers::pod::Pod;
use crate::controllers::requests::{Ignored, Written};
use crate::controllers::selector::Selector;
use crate::controllers::template::CanonicalTemplate;

/// A set's revisions.
pub struct DaemonSetVersions {
    /// The hash of the present one.
    pub hash: String,
    /// All others, the lowest number first.
    pub old: Vec<Arc<ControllerRevision>>,
}

impl DaemonSets {
    /// Finds the set's revisions, and makes or renumbers the one that its template asks for.
    pub async fn versions(&self, set: &DaemonSet, selector: &Selector) -> Result<DaemonSetVersions, Error> {
        let history = History::of::<DaemonSet>(&self.context, &set.metadata);
        let all = history.claim::<DaemonSet>(selector).await?.objects;
        let data = history::data_of(&set.spec.template)?;
        let (present, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|revision| revision.data.0 == data);
        let next = old.iter().map(|revision| number(revision)).max().unwrap_or(0).saturating_add(1);
        let current = if present.is_empty() {
            self.snapshot(set, &history, &data, next).await?
        } else {
            let kept = self.keep_one(set, &present).await?;
            if number(&kept) < next { Arc::new(history.renumber(&kept, next).await?) } else { kept }
        };
        let hash = label(&current.metadata, REVISION_LABEL).unwrap_or_else(|| name_of(&current.metadata)).to_owned();
        Ok(DaemonSetVersions { hash, old })
    }

    async fn snapshot(
        &self,
        set: &DaemonSet,
        history: &History<'_>,
        data: &serde_json::Value,
        next: i64,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let collisions = set.status.as_ref().and_then(|status| status.collision_count);
        let hash = CanonicalTemplate::of(&set.spec.template).hash(collisions);
        let draft = history.draft(&set.spec.template, data, &hash, REVISION_LABEL, next);
        match history.create(&draft).await {
            Ok(made) => Ok(Arc::new(made)),
            Err(error) if error.is_already_exists() => {
                // The name is taken by something else: the next try gets another, unless one was counted already.
                let mut live: DaemonSet = history.live().await?;
                let status = live.status.get_or_insert_default();
                if status.collision_count == collisions {
                    status.collision_count = Some(collisions.unwrap_or(0).saturating_add(1));
                    let _: Ignored = self.context.requests.replace_status(&live).await?;
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps the highest of several equal revisions: pods of the others become its own, and the others go.
    async fn keep_one(
        &self,
        set: &DaemonSet,
        equal: &[Arc<ControllerRevision>],
    ) -> Result<Arc<ControllerRevision>, Error> {
        let Some((kept, others)) = equal.split_last() else {
            let why = "it has no revision".to_owned();
            return Err(Error::Unusable { what: format!("the daemon set {}", name_of(&set.metadata)), why });
        };
        let hash = label(&kept.metadata, REVISION_LABEL).unwrap_or_default();
        for other in others {
            for pod in self.context.informers.pods.controlled_by(uid_of(&set.metadata)) {
                if label(&pod.metadata, REVISION_LABEL) != label(&other.metadata, REVISION_LABEL) {
                    continue;
                }
                let labels = json!({ "metadata": { "labels": { REVISION_LABEL: hash } } });
                let patch = Patch::Strategic(labels);
                self.context.requests.patch::<Pod, _, Written>(&Key::of(&pod.metadata), &patch).await?;
            }
            self.forget(other).await?;
        }
        Ok(kept.clone())
    }

    /// Deletes old revisions beyond the history's limit, the lowest first, but none that a pod has.
    pub async fn forget_old(&self, set: &DaemonSet, versions: &DaemonSetVersions, pods: &ByNode) -> Result<(), Error> {
        let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
        let excess = versions.old.len().saturating_sub(limit);
        let hashes = pods.values().flatten().filter_map(|pod| label(&pod.metadata, REVISION_LABEL));
        let used: BTreeSet<&str> = hashes.collect();
        let is_used = |revision: &ControllerRevision| {
            label(&revision.metadata, REVISION_LABEL).is_some_and(|hash| used.contains(hash))
        };
        for revision in versions.old.iter().filter(|revision| !is_used(revision)).take(excess) {
            self.forget(revision).await?;
        }
        Ok(())
    }

    async fn forget(&self, revision: &ControllerRevision) -> Result<(), Error> {
        let key = Key::of(&revision.metadata);
        match self.context.requests.delete::<ControllerRevision>(&key, &DeleteParams::default()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
