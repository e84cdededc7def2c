//! The objects that have left the repository: those that a new head took away, those that were being deleted when belay
//! stopped, and live ones that no manifest mentions any more. The last are searched for among the watched kinds
//! whenever they change, and once after each start among all kinds of the cluster: the repository may not even have
//! their kind any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use serde_json::Value;
use tracing::{info, warn};

use crate::cluster::{Backoff, ClusterError, Served};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::repository::head_change::Charged;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::cleanup::Pruning;
use crate::daemon::shared::context::Context;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{
    Commit, CommitId, Outcome, PlanStep, Planned, Prunable, Trigger, UNKNOWN_MANAGER, Wanted, marks, prunable,
};

/// The number of kinds that are listed at once.
const AT_ONCE: usize = 8;
/// The number of tries for a kind. One that belay can't read, because a webhook that converts it is down, must not keep
/// everything else waiting.
const TRIES: u32 = 3;

/// The objects that may have to be deleted.
pub struct Candidates {
    pub objects: BTreeMap<ObjectKey, Candidate>,
    /// Those that a new head took away: where deleting them is refused, each gets a record that says so.
    pub new: BTreeSet<ObjectKey>,
    /// The most that the new head's own commits allow to be deleted.
    pub trailer: Option<usize>,
    /// The commit that is charged with what no other commit is known for.
    pub head: CommitId,
    /// The objects that were being deleted when belay stopped, with the commit that took them away, if a search through
    /// all kinds of the cluster is due.
    pub search: Option<BTreeMap<ObjectKey, CommitId>>,
}

/// An object that may have to be deleted.
pub struct Candidate {
    pub manifest: Manifest,
    /// The commit that took it away, if that is known already.
    pub by: Option<CommitId>,
}

/// An object whose deletion is planned.
pub struct PlannedDeletion {
    pub candidate: Candidate,
    pub served: Option<Served>,
    pub step: PlanStep,
    /// The last writer of the object other than belay.
    pub writer: Option<String>,
}

impl Candidate {
    /// Returns an object that a head took away.
    pub fn taken_away(Charged { manifest, commit }: &Charged) -> Candidate {
        Candidate { manifest: manifest.clone(), by: Some(commit.id.clone()) }
    }
}

impl Candidates {
    /// Returns the most that may be deleted.
    pub fn limit(&self, context: &Context) -> usize {
        let count = context.repository.desired().keys().count() + self.objects.len();
        match context.cleanup.pruning {
            Pruning::Unlimited => usize::MAX,
            Pruning::Limited => context.config.prune_limit(count).max(self.trailer.unwrap_or_default()),
        }
    }

    /// Looks through all kinds of the cluster, if that has not been done. Returns the objects that were being deleted
    /// already, for which no check is needed, and true if all kinds could be searched.
    pub async fn search(&mut self, context: &Arc<Context>) -> (Vec<PlannedDeletion>, Option<bool>) {
        let Some(resumed) = self.search.take() else { return (Vec::new(), None) };
        let say = |error: &ClusterError| context.status.trouble(&Obstacle::Cluster, Some(error.to_string()));
        let kinds = Backoff::until_answered(say, || context.cluster.all_kinds()).await;
        context.status.trouble(&Obstacle::Cluster, None);
        let kinds = match kinds {
            Ok(kinds) => kinds,
            Err(error) => {
                warn!(%error, "failed to ask which kinds there are: what has left is found only of those in the repository");
                return (Vec::new(), Some(false));
            }
        };
        let found: Vec<(Served, SearchResult)> = stream::iter(kinds)
            .map(|served| async {
                let found = look(context, &served).await;
                (served, found)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut complete = true;
        let desired = context.repository.desired();
        for (served, found) in &found {
            match found {
                SearchResult::Objects(objects) => {
                    for key in objects.iter().filter(|key| !desired.mentions(key)) {
                        let manifest = || Manifest::of_nothing_but(key.clone(), served.api_version());
                        let candidate = || Candidate { manifest: manifest(), by: None };
                        self.objects.entry(key.clone()).or_insert_with(candidate);
                    }
                }
                SearchResult::Away => complete = false,
            }
        }
        let serving = |key: &ObjectKey| {
            let serves = |(served, _): &&(Served, SearchResult)| served.kind == key.kind && served.group == key.group;
            found.iter().find(serves).map(|(served, _)| served.clone())
        };
        let go_on = |(key, commit): (ObjectKey, CommitId)| {
            self.objects.remove(&key);
            let served = serving(&key);
            let api_version = served.as_ref().map(Served::api_version).unwrap_or_default();
            let candidate = Candidate { manifest: Manifest::of_nothing_but(key, api_version), by: Some(commit) };
            PlannedDeletion { candidate, served, step: PlanStep::Prune, writer: None }
        };
        (resumed.into_iter().map(go_on).collect(), Some(complete))
    }
}

/// The result of listing a kind.
enum SearchResult {
    /// The objects that belay has applied for this source; none if it may not list them, and so may not delete either.
    Objects(Vec<ObjectKey>),
    /// There was no answer.
    Away,
}

impl Context {
    /// Returns the commit that took an object's manifest away, as far as the history knows: while nothing was deleted,
    /// while the object was suspended, or so that it was deleted, and somebody made it anew. It blocks.
    fn orphaned_by(&self, key: &ObjectKey) -> Option<CommitId> {
        let newest = self.newest_record(key)?;
        let has_left = match newest.outcome {
            Outcome::Orphaned | Outcome::Pruned => true,
            // Its manifest may have come with the commit, and have left with one of which there is no record.
            Outcome::Suspended if newest.trigger == Trigger::Commit => {
                self.repository.brought_by(&newest.commit, key).is_ok_and(|manifest| manifest.is_none())
            }
            _ => false,
        };
        has_left.then_some(newest.commit)
    }

    /// Charges each deletion to the commit that took the manifest away: the history knows it, or Git; if neither does, the
    /// head is charged.
    pub async fn charge(self: &Arc<Context>, leaving: Vec<PlannedDeletion>, candidates: Candidates) -> Vec<Prepared> {
        if leaving.is_empty() {
            return Vec::new();
        }
        let reader = Arc::clone(self);
        self.repository.blocking_pool.run(move || reader.charged(leaving, &candidates)).await
    }

    fn charged(&self, mut leaving: Vec<PlannedDeletion>, facts: &Candidates) -> Vec<Prepared> {
        for Candidate { manifest, by } in leaving.iter_mut().map(|one| &mut one.candidate) {
            *by = by.take().or_else(|| self.orphaned_by(&manifest.key));
        }
        let unknown = leaving.iter().map(|one| &one.candidate).filter(|candidate| candidate.by.is_none());
        let unknown: BTreeSet<ObjectKey> = unknown.map(|candidate| candidate.manifest.key.clone()).collect();
        let _attempt = (!unknown.is_empty()).then(|| self.repository.mirror.attempt());
        let took_away = self.repository.took_away(&facts.head, &unknown).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the mirror which commits took manifests away");
            BTreeMap::new()
        });
        let mut commits: BTreeMap<CommitId, Option<Arc<Commit>>> = BTreeMap::new();
        let mut commit = |id: &CommitId| commits.entry(id.clone()).or_insert_with(|| self.commit(id)).clone();
        let prepare =
            |PlannedDeletion { candidate: Candidate { manifest, by }, served, step, writer }: PlannedDeletion| {
                let by = by.as_ref().or_else(|| took_away.get(&manifest.key));
                let commit = by.and_then(&mut commit).or_else(|| commit(&facts.head))?;
                let is_new = facts.new.contains(&manifest.key);
                let trigger =
                    if is_new { Trigger::Commit } else { self.late_trigger(&manifest.key, &commit.id, writer) };
                Some(Prepared {
                    served,
                    ..Prepared::of(Planned { wanted: Wanted::of(manifest, commit, trigger), step })
                })
            };
        leaving.into_iter().filter_map(prepare).collect()
    }

    /// Returns the trigger of the deletion of an object that left earlier: its commit; if that was refused or suspended
    /// then, a second try; if it was deleted then, the one who brought it back.
    fn late_trigger(&self, key: &ObjectKey, by: &CommitId, writer: Option<String>) -> Trigger {
        let newest = self.newest_record(key);
        match newest.filter(|record| record.commit == *by).map(|record| record.outcome) {
            Some(Outcome::Pruned) => Trigger::Drift(writer.unwrap_or_else(|| UNKNOWN_MANAGER.to_owned())),
            Some(outcome) if outcome.is_final() => Trigger::Retry,
            _ => Trigger::Commit,
        }
    }
}

async fn look(context: &Context, served: &Served) -> SearchResult {
    let source = &context.config.name;
    let labels = format!("{}={source}", marks::SOURCE);
    let namespaces = context.repository.namespaces();
    let is_ours = |key: &ObjectKey, live: &Value| {
        prunable(key, live, source, context.cluster.default_namespace()) != Prunable::NotOurs
    };
    let mut backoff = Backoff::default();
    let address = served.address();
    let mut last = None;
    for _ in 0..TRIES {
        match context.cluster.labelled(served, &namespaces, &labels).await {
            Ok(objects) => {
                let ours = objects.into_iter().filter(|(key, live)| is_ours(key, live));
                return SearchResult::Objects(ours.map(|(key, _)| key).collect());
            }
            Err(error @ ClusterError::Away { .. }) => {
                tokio::time::sleep(backoff.after(&error)).await;
                last = Some(error.to_string());
            }
            Err(error) => {
                info!(kind = served.kind, address, %error, "not looked through for what has left the repository");
                return SearchResult::Objects(Vec::new());
            }
        }
    }
    warn!(
        kind = served.kind,
        address,
        error = last,
        "could not be listed: what has left the repository is looked for again later"
    );
    SearchResult::Away
}
