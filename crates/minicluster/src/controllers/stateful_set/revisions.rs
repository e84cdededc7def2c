//! The revisions of a StatefulSet: which one its pods have, and which one they shall have.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};

use super::StatefulSets;
use super::plan::REVISION_LABEL;
use crate::controllers::error::Error;
use crate::controllers::history::{self, History, number};
use crate::controllers::key::{label, name_of};
use crate::controllers::pod::Pod;

/// The label with a revision's hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// A set's revisions.
pub struct StatefulSetVersions {
    /// All, the lowest number first.
    pub all: Vec<Arc<ControllerRevision>>,
    /// The one that pods have that were not updated.
    pub current: Arc<ControllerRevision>,
    /// The one that pods shall have.
    pub update: Arc<ControllerRevision>,
    /// The number of times that a name was taken by something else.
    pub collisions: i32,
}

impl StatefulSets {
    /// Finds the set's revisions, and makes or renumbers the one that its template asks for.
    pub async fn versions(
        &self,
        set: &StatefulSet,
        mut all: Vec<Arc<ControllerRevision>>,
    ) -> Result<StatefulSetVersions, Error> {
        let history = History::of::<StatefulSet>(&self.context, &set.metadata);
        let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let data = history::data_of(&set.spec.template)?;
        let next = all.last().map_or(0, |last| number(last)).saturating_add(1);
        let equal = all.iter().rposition(|revision| revision.data.0 == data);
        let update = match equal {
            Some(index) if index + 1 == all.len() => all[index].clone(),
            Some(index) => {
                let renumbered = Arc::new(history.renumber(&all[index], next).await?);
                all[index] = renumbered.clone();
                history::sort(&mut all);
                renumbered
            }
            None => loop {
                let hash = history::hash_of(&data, collisions);
                let draft = history.draft(&set.spec.template, &data, &hash, HASH_LABEL, next);
                match history.create(&draft).await {
                    Ok(made) => {
                        let made = Arc::new(made);
                        all.push(made.clone());
                        break made;
                    }
                    Err(error) if error.is_already_exists() => collisions = collisions.saturating_add(1),
                    Err(error) => return Err(error),
                }
            },
        };
        let current = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
        let is_current = |revision: &&Arc<ControllerRevision>| Some(name_of(&revision.metadata)) == current;
        let current = all.iter().find(is_current).unwrap_or(&update).clone();
        Ok(StatefulSetVersions { all, current, update, collisions })
    }

    /// Deletes revisions beyond the history's limit that no pod has.
    pub async fn forget_old(
        &self,
        set: &StatefulSet,
        versions: &StatefulSetVersions,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let of_pods = pods.iter().filter_map(|pod| label(&pod.metadata, REVISION_LABEL));
        let present = [&versions.current, &versions.update].map(|revision| name_of(&revision.metadata));
        let used: BTreeSet<&str> = of_pods.chain(present).collect();
        let history = History::of::<StatefulSet>(&self.context, &set.metadata);
        let is_used = |revision: &ControllerRevision| used.contains(name_of(&revision.metadata));
        history.truncate(&versions.all, set.spec.revision_history_limit, is_used).await
    }
}
