//! The objects that have left the repository: those that a new head took away, those that were being deleted when belay
//! stopped, and live ones that no manifest mentions any more. The last are searched for among the watched kinds
//! whenever they change, and once after each start among all kinds of the cluster: the repository may not even have
//! their kind any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use serde_json::Value;
use tracing::{info, warn};

use super::cleanup::Pruning;
use super::context::Context;
use super::head_change::{Charged, HeadChange};
use super::prepared::Prepared;
use super::state::Source;
use crate::cluster::{Backoff, ClusterError, Served};
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{
    Commit, CommitId, Outcome, PlanStep, Planned, Prunable, Record, Trigger, Wanted, allowed_by_trailer, marks,
    prunable,
};

/// The number of kinds that are listed at once.
const AT_ONCE: usize = 8;
/// The number of tries for a kind. One that belay can't read, because a webhook that converts it is down, must not keep
/// everything else waiting.
const TRIES: u32 = 3;

/// The objects that may have to be deleted.
pub(super) struct Candidates {
    /// Each with the commit that took it away.
    pub objects: BTreeMap<ObjectKey, Charged>,
    /// Live objects that the repository does not mention, until it is read who is charged with them.
    orphans: Vec<Orphan>,
    /// Those that a new head took away: where deleting them is refused, each gets a record that says so.
    pub new: BTreeSet<ObjectKey>,
    /// The most that the new head's own commits allow to be deleted.
    trailer: Option<usize>,
    /// The commit that is charged with orphans for which no other commit is known.
    head: Option<CommitId>,
    search: Option<CandidateSearch>,
}

/// A live object that the repository does not mention.
struct Orphan {
    key: ObjectKey,
    api_version: String,
    /// The commit that took it away, if that is known.
    by: Option<CommitId>,
}

/// A search through all kinds of the cluster.
struct CandidateSearch {
    /// The commit that is charged with the found objects: the one that took them away is not known any more.
    head: CommitId,
    /// The objects that were being deleted when belay stopped, with the commit that took them away.
    resumed: BTreeMap<ObjectKey, CommitId>,
}

impl Source {
    /// Returns the objects that a new head has taken away, and those that are left from before. `None` if the source
    /// deletes nothing.
    pub(super) fn prune_candidates(&self, news: Option<&HeadChange>) -> Option<Candidates> {
        let objects = news.map(|news| news.removed.clone()).unwrap_or_default();
        if !self.context.config.prune {
            if !objects.is_empty() {
                info!(objects = objects.len(), "left the repository and stay: prune is off");
            }
            return None;
        }
        // A repository that is to be read again mentions nothing.
        if self.state.fetch.is_away || self.desired().at.is_none() {
            return None;
        }
        let new: BTreeSet<ObjectKey> = objects.keys().cloned().collect();
        let unreadable: Vec<String> = self.desired().unreadable().map(ToString::to_string).collect();
        if !unreadable.is_empty() {
            // An object that was only in such a file is not known to have left; it is an orphan until the file is
            // mended.
            if !objects.is_empty() {
                let names = unreadable.join(", ");
                let message =
                    format!("nothing is deleted while {names} can't be read: what has left may have moved there");
                warn!(message, "refused to delete");
                self.context.status.trouble("prune", Some(message));
            }
            return None;
        }
        let orphans = self.orphans().into_iter().filter(|key| !new.contains(key));
        let orphans = orphans.filter_map(|key| self.orphan(key)).collect();
        let trailer = news.and_then(|news| allowed_by_trailer(&news.commits));
        // The head that was planned last, or, before the first plan, the one that was read.
        let head = self.state.planning.planned.clone().or_else(|| self.desired().at.clone());
        // No commit waits for a search through all kinds.
        let search = if news.is_some() { None } else { self.search(head.clone()) };
        Some(Candidates { objects, orphans, new, trailer, head, search })
    }

    /// Returns live objects of this source that the repository does not mention.
    fn orphans(&self) -> Vec<ObjectKey> {
        let desired = self.desired();
        self.state
            .live
            .keys()
            .filter(|key| !desired.mentions(key) && !self.state.rollouts.under_way.contains_key(key))
            .cloned()
            .collect()
    }

    fn orphan(&self, key: ObjectKey) -> Option<Orphan> {
        let api_version = self.watches.watched.serving_group(&key.group, &key.kind)?.api_version();
        let by = self.state.rollouts.resumed.get(&key).map(|record| record.commit.clone());
        Some(Orphan { key, api_version, by })
    }

    /// Returns the search among all kinds, unless it was done.
    fn search(&self, head: Option<CommitId>) -> Option<CandidateSearch> {
        let head = head?;
        if self.state.pruned.searched {
            return None;
        }
        let desired = self.desired();
        let gone = self.state.rollouts.resumed.iter().filter(|(key, _)| !desired.mentions(key));
        let resumed = gone.map(|(key, record)| (key.clone(), record.commit.clone())).collect();
        Some(CandidateSearch { head, resumed })
    }

    /// Returns true when a record that was open at the start is of a deletion that goes on: the new head did not take
    /// the object away just now, and had no manifest of it before either. While a file can't be read nothing is
    /// deleted: a seemingly missing object may be in it.
    pub(super) fn is_being_deleted(
        &self,
        key: &ObjectKey,
        record: &Record,
        removed: &BTreeMap<ObjectKey, Charged>,
    ) -> bool {
        let desired = self.desired();
        let gone = !removed.contains_key(key) && !desired.mentions(key) && desired.unreadable().next().is_none();
        self.context.config.prune && gone && !record.rolls_out
    }

    /// Discards the results of the search and begins a new one.
    pub(super) fn search_again(&mut self) {
        self.state.pruned.searched = false;
    }
}

impl Candidates {
    /// Reads who is charged with the orphans.
    pub(super) async fn charge_orphans(&mut self, context: &Arc<Context>) {
        let (orphans, head, reader) = (std::mem::take(&mut self.orphans), self.head.clone(), Arc::clone(context));
        if orphans.is_empty() {
            return;
        }
        let read = move || {
            let head = head.and_then(|head| reader.commit(&head));
            let charge = |Orphan { key, api_version, by }: Orphan| {
                let by = by.or_else(|| reader.orphaned_by(&key));
                let commit = by.and_then(|by| reader.commit(&by)).or_else(|| head.clone())?;
                Some((key.clone(), charged(key, api_version, commit)))
            };
            orphans.into_iter().filter_map(charge).collect::<Vec<_>>()
        };
        for (key, charged) in context.repository.blocking_pool.run(read).await {
            self.objects.entry(key).or_insert(charged);
        }
    }

    /// Returns the most that may be deleted.
    pub(super) fn limit(&self, context: &Context) -> usize {
        let count = context.repository.desired().keys().count() + self.objects.len();
        match context.cleanup.pruning {
            Pruning::Unlimited => usize::MAX,
            Pruning::Limited => context.config.prune_limit(count).max(self.trailer.unwrap_or_default()),
        }
    }

    /// Looks through all kinds of the cluster, if that has not been done. Returns the objects that were being deleted
    /// already, for which no check is needed, and true if all kinds could be searched.
    pub(super) async fn search(&mut self, context: &Arc<Context>) -> (Vec<Prepared>, Option<bool>) {
        let nothing = (Vec::new(), None);
        let Some(CandidateSearch { head, resumed }) = self.search.take() else { return nothing };
        let reader = Arc::clone(context);
        let read = move || {
            let head = reader.commit(&head)?;
            let whose = |id: CommitId| reader.commit(&id).unwrap_or_else(|| Arc::clone(&head));
            let resumed: BTreeMap<ObjectKey, Arc<Commit>> =
                resumed.into_iter().map(|(key, id)| (key, whose(id))).collect();
            Some((Arc::clone(&head), resumed))
        };
        let Some((head, resumed)) = context.repository.blocking_pool.run(read).await else { return nothing };
        let say = |error: &ClusterError| context.status.trouble("cluster", Some(error.to_string()));
        let kinds = Backoff::until_answered(say, || context.cluster.all_kinds()).await;
        context.status.trouble("cluster", None);
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
        let left = found.iter().flat_map(|(_, found)| found.objects()).filter(|key| !desired.mentions(key));
        let by = context.orphaned_by_commits(left.cloned().collect()).await;
        for (served, found) in &found {
            match found {
                SearchResult::Objects(objects) => {
                    for key in objects.iter().filter(|key| !desired.mentions(key)) {
                        let commit = resumed.get(key).or_else(|| by.get(key)).unwrap_or(&head);
                        let charge = || charged(key.clone(), served.api_version(), Arc::clone(commit));
                        self.objects.entry(key.clone()).or_insert_with(charge);
                    }
                }
                SearchResult::Away => complete = false,
            }
        }
        let serving = |key: &ObjectKey| {
            let serves = |(served, _): &&(Served, SearchResult)| served.kind == key.kind && served.group == key.group;
            found.iter().find(serves).map(|(served, _)| served.clone())
        };
        let go_on = |(key, commit): (ObjectKey, Arc<Commit>)| {
            self.objects.remove(&key);
            let served = serving(&key);
            let api_version = served.as_ref().map(Served::api_version).unwrap_or_default();
            prune_step(charged(key, api_version, commit), served, PlanStep::Prune, Trigger::Commit)
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

impl SearchResult {
    fn objects(&self) -> &[ObjectKey] {
        match self {
            SearchResult::Objects(objects) => objects,
            SearchResult::Away => &[],
        }
    }
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

    /// Returns the same of several, read beside the loop.
    async fn orphaned_by_commits(self: &Arc<Context>, keys: Vec<ObjectKey>) -> BTreeMap<ObjectKey, Arc<Commit>> {
        let reader = Arc::clone(self);
        let read = move || {
            let of = |key: ObjectKey| Some((reader.commit(&reader.orphaned_by(&key)?)?, key));
            keys.into_iter().filter_map(of).map(|(commit, key)| (key, commit)).collect()
        };
        self.repository.blocking_pool.run(read).await
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

fn charged(key: ObjectKey, api_version: String, commit: Arc<Commit>) -> Charged {
    Charged { manifest: Manifest::of_nothing_but(key, api_version), commit }
}

/// Returns the plan for an object; if its kind is not served any more, it is gone.
pub(super) fn prune_step(charged: Charged, served: Option<Served>, step: PlanStep, trigger: Trigger) -> Prepared {
    let wanted = Wanted::of(charged.manifest, charged.commit, trigger);
    Prepared { served, ..Prepared::of(Planned { wanted, step }) }
}
