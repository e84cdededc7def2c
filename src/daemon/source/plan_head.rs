//! Turns a new head and the rollouts under way into a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::state::{Event, Source};
use super::task_result::{FinishedPlan, FoundKinds, HeadPlan, TaskResult};
use crate::cluster::{Backoff, ClusterError};
use crate::daemon::planning::config_rollout::{ConfigurationHead, changed_configuration};
use crate::daemon::planning::plan_parts::PATIENCE;
use crate::daemon::planning::plan_request::{PlanRequest, PlanRequests};
use crate::daemon::planning::planner;
use crate::daemon::planning::prune_candidates::Candidates;
use crate::daemon::publish::status::{SourceStatus, set};
use crate::daemon::records::rebuild;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::{Charged, HeadChange};
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::deferred_kinds::DeferredKinds;
use crate::daemon::rollout::prune;
use crate::daemon::shared::autoscalers::{API_VERSION, KIND};
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, CommitId, Outcome, PlanStep, Reason, ReasonCode, Record, RecordId, Workload};

impl Source {
    /// Waits, beside the loop, until a head may be planned. A wait for an older head is given up.
    pub fn await_turn(&mut self, number: u64, head: CommitId) {
        let was_planned = self.state.planning().planned() == Some(&head);
        self.context.status.change(|source| set(&mut source.head, Some(head)));
        self.watch_awaiting();
        self.wait_task.take().inspect(AbortHandle::abort);
        let context = Arc::clone(&self.context);
        self.wait_task = Some(self.tasks.spawn(async move {
            let let_through = context.until_turn(was_planned).await;
            TaskResult::Awaited(number, let_through)
        }));
    }

    /// Watches the workloads of a head that waits, if none was planned before: they are live, and are shown.
    fn watch_awaiting(&mut self) {
        let awaiting = self.state.planning().awaiting().filter(|_| self.state.planning().planned().is_none());
        let Some(news) = awaiting else { return };
        let group =
            |api_version: &str| api_version.split_once('/').map_or_else(String::new, |(group, _)| group.to_owned());
        let mut kinds = news.desired.kinds();
        kinds.retain(|(api_version, kind)| Workload::named(&group(api_version), kind).is_some());
        self.ask_for(kinds, Duration::ZERO);
    }

    /// Hears of a new head: takes it up, and begins to plan it. A plan that is being made for an older head is given up.
    pub fn plan_new_head(&mut self, mut news: HeadChange) {
        let head = news.head.id.clone();
        self.context.status.change(|source| set(&mut source.head, Some(head.clone())));
        self.on(Event::HeadTaken(Arc::clone(&news.desired)));
        let live = self.state.live();
        self.context.withdraw_old_holds(self.state.desired(), |key| live.hold(key));
        let renamed = self.take_renamed(&mut news.removed);
        let objects = self.desired().keys().count();
        let mut warnings = std::mem::take(&mut news.warnings);
        let desired = self.desired();
        warnings.extend(desired.unknown_analyses(&self.context.config.known_analyses));
        self.context.status.change(|source| {
            let told = source.ended.iter_mut().map(|(key, ended)| set(&mut ended.in_head, desired.has(key)));
            // Each of them is set.
            let news = told.fold(false, |news, one| news | one);
            news | set(&mut source.objects, objects) | set(&mut source.obstacles.warnings, warnings)
        });
        self.watches.in_namespaces(self.fetching.repository.namespaces());
        let contradicted = contradicted(&self.desired());
        let changed = changed_configuration(&news);
        let mut requests: PlanRequests = std::mem::take(&mut news.changed)
            .into_iter()
            .filter(|charged| !contradicted.contains_key(&charged.manifest.key))
            .map(|charged| (charged.manifest.key.clone(), PlanRequest::changed(charged)))
            .collect();
        if self.state.planning().planned().is_none() {
            self.watches.deferred = DeferredKinds::of(requests.keys());
        }
        self.request_no_longer_contradicted(&mut requests, contradicted, &news.head);
        let config_head = ConfigurationHead {
            desired: self.state.desired(),
            commits: &news.commits,
            is_change: self.state.planning().planned().is_some(),
            contradicted: self.state.planning().contradicted(),
        };
        self.context.request_readers(&mut requests, changed, config_head);
        self.request_resumed(&mut requests, &news);
        self.forget_superseded_waits();
        self.request_held_with_new_configuration(&mut requests, &news.head);
        for (owner, key) in self.state.give_claims_up() {
            self.context.give_claim_up(&owner, &key);
        }
        let prune_candidates = self.prune_candidates(Some(&news));
        // An object that stays, though its manifest has left, is not left half-way: its rollout comes to its end.
        let stays = |key: &&ObjectKey| !self.context.config.prune && self.is_applied(key);
        let removed = news.removed.keys().filter(|key| !stays(key));
        let charged = |key: &ObjectKey| requests.get(key).and_then(PlanRequest::charged_to).unwrap_or(&head).clone();
        let superseded_by: BTreeMap<ObjectKey, CommitId> =
            requests.keys().chain(removed).chain(&renamed).map(|key| (key.clone(), charged(key))).collect();
        let keys: BTreeSet<ObjectKey> = superseded_by.keys().cloned().collect();
        info!(commit = head.short(), objects = keys.len(), "planning");
        self.on(Event::TriesOver(keys.clone()));
        let ended: Vec<CancellationToken> = self
            .handles
            .iter()
            .filter(|(key, _)| keys.contains(*key))
            .map(|(_, handle)| handle.ended.clone())
            .collect();
        self.on(Event::Superseded { by: superseded_by });
        self.plan_task.take().inspect(AbortHandle::abort);
        self.on(Event::PlanBegun);
        self.ask_for_kinds();
        let (number, context) = (self.state.planning().newest(), Arc::clone(&self.context));
        let (desired, open) = (Arc::clone(&news.desired), self.state.rollouts().resumed_ids());
        let planning = self.tasks.spawn(async move {
            for ended in ended {
                ended.cancelled().await;
            }
            let plan = make_plan(&context, &desired, requests, prune_candidates, open).await;
            TaskResult::Planned(number, Box::new(FinishedPlan { news, plan }))
        });
        self.plan_task = Some(planning);
    }

    /// Takes those out of what has left that the new head has under another name. Returns their former names.
    fn take_renamed(&mut self, removed: &mut BTreeMap<ObjectKey, Charged>) -> BTreeSet<ObjectKey> {
        let watched = &self.watches.watched;
        let namespaced = |key: &ObjectKey| watched.serving_group(&key.group, &key.kind).map(|served| served.namespaced);
        let renamed = self.state.take_renamed(removed, namespaced);
        for (before, now) in &renamed {
            info!(object = %before, now = %now, "the same object under another name");
        }
        renamed.into_iter().map(|(before, _)| before).collect()
    }

    /// Returns true when the manifest of a rollout that an earlier run left open was applied, and has left since: it comes
    /// to its end like one that is under way.
    fn is_orphan_under_way(&self, record: &Record) -> bool {
        let is_applied = record.outcome.is_applied();
        let has_left = !self.desired().mentions(&record.object) && self.desired().unreadable().next().is_none();
        !self.context.config.prune && record.rolls_out && is_applied && has_left
    }

    /// Returns true when the rollout of a workload is under way, and its manifest applied.
    fn is_applied(&self, key: &ObjectKey) -> bool {
        let followed = |source: &SourceStatus| {
            let way = source.under_way.get(key);
            way.is_some_and(|way| way.outcome.is_applied())
        };
        self.context.status.read(followed).unwrap_or_default()
    }

    /// Requests objects whose manifests were wrong only because of another manifest that has changed.
    fn request_no_longer_contradicted(
        &mut self,
        requests: &mut PlanRequests,
        contradicted: BTreeMap<ObjectKey, String>,
        head: &Arc<Commit>,
    ) {
        for key in self.state.contradict(contradicted) {
            requests.entry(key.clone()).or_insert_with(|| PlanRequest::read(&key, Arc::clone(head)));
        }
    }

    /// Requests the objects that were under way when the daemon stopped, as far as the head still has the same
    /// manifests.
    fn request_resumed(&mut self, requests: &mut PlanRequests, news: &HeadChange) {
        let head = &news.head.id;
        let resumed: Vec<(ObjectKey, Record)> =
            self.state.rollouts().all_resumed().iter().map(|(key, record)| (key.clone(), record.clone())).collect();
        let mut ended: BTreeSet<ObjectKey> = BTreeSet::new();
        for (key, record) in resumed {
            if let Some(message) = self.state.planning().contradicted().get(&key) {
                let reason = Reason::new(ReasonCode::InvalidManifest, message.clone());
                self.state.take_resumed(&key);
                self.finish(record.id, Outcome::Rejected, Some(&reason));
                ended.insert(key);
                continue;
            }
            if self.state.is_being_deleted(&key, &record, &news.removed) {
                continue;
            }
            if self.is_orphan_under_way(&record) {
                requests.insert(key, PlanRequest::of_orphan(&record));
                continue;
            }
            let same = self.desired().hash(&key).is_some_and(|hash| Some(hash.to_string()) == record.manifest_hash);
            if !same || requests.contains_key(&key) && record.commit != *head {
                self.state.take_resumed(&key);
                let by = requests.get(&key).and_then(PlanRequest::charged_to).unwrap_or(head);
                self.supersede(record.id, Some(by));
                ended.insert(key.clone());
                if record.rolls_out {
                    self.on(Event::Interrupted { key, is_judged: true });
                } else if self.context.was_scaling(&record) {
                    self.on(Event::Interrupted { key, is_judged: false });
                }
                continue;
            }
            if self.state.retries().cause(&key).is_some() && !requests.contains_key(&key) {
                // It is tried again by itself: the new head says the same, and does not wait for it.
                continue;
            }
            let manifest = requests.remove(&key).and_then(|request| request.manifest);
            requests.insert(key, PlanRequest::recorded(&record, manifest));
        }
        // A try under one of these records may be under way: its result counts no more.
        self.on(Event::TriesOver(ended));
    }

    /// Requests the objects whose hold is released: a ConfigMap or Secret that the held template names has changed in
    /// Git, or another object that went back with it.
    fn request_held_with_new_configuration(&self, requests: &mut PlanRequests, head: &Arc<Commit>) {
        // At the head that was planned last nothing has changed, also if it is read again after a start.
        if self.state.planning().planned() == Some(&head.id) {
            return;
        }
        let desired = self.desired();
        let hash = |key: &ObjectKey| desired.hash(key).map(|hash| hash.to_string());
        for (key, facts) in self.state.live().iter() {
            let Some(hold) = facts.hold.as_ref().filter(|_| !requests.contains_key(key)) else { continue };
            if hash(key).as_ref() != Some(&hold.manifest) {
                continue;
            }
            if !hold.keeps_companions(hash) || desired.configuration_of(key) != hold.config {
                requests.insert(key.clone(), PlanRequest::read(key, Arc::clone(head)));
            }
        }
    }

    /// Asks the cluster which resources serve the repository's kinds, so that they can be watched.
    fn ask_for_kinds(&mut self) {
        let kinds = self.desired().kinds();
        self.watches.asked_for = Some(self.state.planning().newest());
        self.ask_for(kinds, Duration::ZERO);
    }

    /// Asks for these kinds after a while. Kinds that can't be served now are asked for again.
    pub fn ask_for(&mut self, kinds: BTreeSet<(String, String)>, after: Duration) {
        let (context, number) = (Arc::clone(&self.context), self.state.planning().newest());
        self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            let mut found = FoundKinds { number, ..FoundKinds::default() };
            for (api_version, kind) in kinds {
                match Backoff::until_answered(|_| {}, || context.cluster.served(&api_version, &kind)).await {
                    Ok(served) => found.served.push(served),
                    Err(error) if error.is_the_worlds() && !matches!(error, ClusterError::Missing { .. }) => {
                        found.missed.insert((api_version, kind));
                    }
                    // A kind that is not there yet is asked for again when one of its objects is planned.
                    Err(_) => {}
                }
            }
            found.autoscalers =
                Backoff::until_answered(|_| {}, || context.cluster.served(API_VERSION, KIND)).await.ok();
            TaskResult::Served(found)
        });
    }
}

/// Plans a head: the requested objects, and the deletion of those that have left. `open` has the records to be taken up.
async fn make_plan(
    context: &Arc<Context>,
    desired: &Arc<DesiredState>,
    requests: PlanRequests,
    prune_candidates: Option<Candidates>,
    open: BTreeMap<ObjectKey, RecordId>,
) -> HeadPlan {
    rebuild::if_forgotten(context).await;
    let (reader, known) = (Arc::clone(context), Arc::clone(desired));
    let read = move || reader.read_requests(&known, requests.into_values());
    let (wanted, mut unread) = context.repository.blocking_pool.run(read).await;
    let mut prepared = planner::plan(context, wanted, Some(PATIENCE)).await;
    unread.extend(take_out_orphans(&mut prepared, desired));
    let pruned = prune::plan(context, prune_candidates).await;
    prepared.extend(pruned.prepared);
    let prepared = context.with_recorded_facts(prepared, open).await;
    HeadPlan { prepared, searched: pruned.searched, suspended: pruned.suspended, unread }
}

/// Returns the objects whose manifests are wrong because of another one, with the complaint.
fn contradicted(desired: &DesiredState) -> BTreeMap<ObjectKey, String> {
    let complaints = desired.contradictions().into_iter();
    complaints.filter_map(|complaint| Some((complaint.object.clone()?, complaint.to_string()))).collect()
}

/// Takes out the objects whose manifests have left, and that are gone: nothing of their rollouts is left to finish.
fn take_out_orphans(prepared: &mut Vec<Prepared>, desired: &DesiredState) -> Vec<ObjectKey> {
    let creates = |one: &Prepared| matches!(&one.planned.step, PlanStep::Apply(apply) if apply.creates);
    let is_gone = |one: &mut Prepared| creates(one) && !desired.mentions(&one.planned.wanted.key);
    prepared.extract_if(.., is_gone).map(|one| one.planned.wanted.key).collect()
}
