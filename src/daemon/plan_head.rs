//! A new head: what it says, and what is still under way, becomes a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{info, warn};

use super::autoscalers::{API_VERSION, KIND};
use super::config_rollout::changed_configuration;
use super::deferred_kinds::DeferredKinds;
use super::head_change::{Accident, Charged, HeadChange};
use super::state::Source;
use super::status::set;
use super::task_result::TaskResult;
use super::{planner, prune, rebuild};
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{Commit, CommitId, ConfigHash, Outcome, Reason, Record, Trigger, Wanted};

impl Source {
    /// Hears of a new head: takes it up, and begins to plan it. A plan that is being made for an older head is given up.
    pub(super) fn heard(&mut self, mut news: HeadChange) {
        let head = news.head.clone();
        self.context.status.change(|source| set(&mut source.head, Some(head.clone())));
        if let Some(accident) = news.accident {
            let message = self.refusal(accident, &head);
            warn!(message);
            self.fetching.refused = Some((head, message));
            return;
        }
        self.fetching.refused = None;
        self.fetching.desired.send_replace(Arc::clone(&news.desired));
        let objects = self.desired().keys().count();
        let warnings = std::mem::take(&mut news.warnings);
        self.context
            .status
            .change(|source| set(&mut source.objects, objects) | set(&mut source.obstacles.warnings, warnings));
        self.name_namespaces();
        self.ask_for_kinds();
        let contradicted: BTreeMap<ObjectKey, String> = self
            .desired()
            .contradictions()
            .into_iter()
            .filter_map(|complaint| Some((complaint.object.clone()?, complaint.to_string())))
            .collect();
        let changed = changed_configuration(&news);
        let mut wanted: BTreeMap<ObjectKey, Wanted> = BTreeMap::new();
        for charged in news.changed.drain(..).filter(|charged| !contradicted.contains_key(&charged.manifest.key)) {
            wanted.insert(charged.manifest.key.clone(), self.want(charged, Trigger::Commit));
        }
        if self.planning.planned.is_none() {
            self.watches.deferred = DeferredKinds::of(wanted.values());
        }
        let newest = news.commits.first().cloned().map(Arc::new);
        self.want_no_longer_contradicted(&mut wanted, contradicted, newest.as_ref());
        self.want_readers(&mut wanted, changed, &news.commits);
        self.want_resumed(&mut wanted, &news);
        self.forget_superseded_waits();
        self.want_held_with_new_configuration(&mut wanted, newest.as_ref());
        self.give_claims_up();
        let leavers = self.leavers(Some(&news));
        let keys: BTreeSet<ObjectKey> = wanted.keys().chain(news.removed.keys()).cloned().collect();
        info!(commit = head.short(), objects = keys.len(), "planning");
        let ended = self.replace(&keys, &head);
        if let Some((planning, _)) = self.planning.running.take() {
            planning.abort();
        }
        self.planning.plans += 1;
        let (number, context) = (self.planning.plans, Arc::clone(&self.context));
        let wanted: Vec<Wanted> = wanted.into_values().collect();
        let planning = self.tasks.spawn(async move {
            for ended in ended {
                ended.cancelled().await;
            }
            if let Some(before) = &context.before {
                before.until_complete(&context.config.name, &context.clock, &context.status).await;
            }
            rebuild::if_forgotten(&context).await;
            let mut prepared = planner::plan(&context, wanted).await;
            prepared.extend(prune::plan(&context, leavers).await);
            TaskResult::Planned(number, Box::new(news), prepared)
        });
        self.planning.running = Some((planning, number));
    }

    fn refusal(&self, accident: Accident, head: &CommitId) -> String {
        let seen = match accident {
            Accident::Emptied => {
                let folders = self.fetching.repository.paths.written().join(", ");
                format!("leaves no manifest in {folders:?}, where there were some")
            }
            Accident::Replaced => "has neither a commit nor a file in common with what was there".to_owned(),
        };
        format!(
            "commit {} {seen}: refused, in case it is an accident; nothing is changed or deleted until there is another; \
             if it is meant, say belay run --allow-prune, or push a commit with the trailer Belay-Allow-Prune: and how \
             many objects may go",
            head.short()
        )
    }

    /// A manifest with what else must be known of it.
    pub(super) fn want(&self, charged: Charged, trigger: Trigger) -> Wanted {
        let Charged { manifest, commit } = charged;
        let config = self.desired().configuration(&manifest);
        let left_alone = self.left_alone(&manifest.key);
        let config_hash = ConfigHash { changed: trigger == Trigger::Retry, ..self.config_hash(&manifest) };
        Wanted { config, config_hash, left_alone, ..Wanted::of(manifest, commit, trigger) }
    }

    /// What was wrong only for another manifest's sake is right when that one changes.
    fn want_no_longer_contradicted(
        &mut self,
        wanted: &mut BTreeMap<ObjectKey, Wanted>,
        contradicted: BTreeMap<ObjectKey, String>,
        head: Option<&Arc<Commit>>,
    ) {
        let before = std::mem::replace(&mut self.planning.contradicted, contradicted);
        let Some(head) = head else { return };
        for key in before.keys().filter(|key| !self.planning.contradicted.contains_key(key)) {
            if wanted.contains_key(key) {
                continue;
            }
            if let Some(manifest) = self.read_manifest(key) {
                let charged = Charged { manifest, commit: Arc::clone(head) };
                wanted.insert(key.clone(), self.want(charged, Trigger::Commit));
            }
        }
    }

    /// What was under way when the daemon stopped, as far as the head still says the same.
    fn want_resumed(&mut self, wanted: &mut BTreeMap<ObjectKey, Wanted>, news: &HeadChange) {
        let head = &news.head;
        let resumed: Vec<(ObjectKey, Record)> =
            self.rollouts.resumed.iter().map(|(key, record)| (key.clone(), record.clone())).collect();
        for (key, record) in resumed {
            if let Some(message) = self.planning.contradicted.get(&key) {
                let reason = Reason { code: "InvalidManifest".to_owned(), message: message.clone() };
                self.rollouts.resumed.remove(&key);
                self.finish(record.id, Outcome::Rejected, Some(&reason));
                continue;
            }
            if self.is_being_deleted(&key, &record, &news.removed) {
                continue;
            }
            let same = self.desired().hash(&key).is_some_and(|hash| Some(hash.to_string()) == record.manifest_hash);
            if !same || wanted.contains_key(&key) && record.commit != *head {
                self.rollouts.resumed.remove(&key);
                self.supersede(record.id, Some(head));
                if record.rolls_out {
                    self.planning.interrupted.insert(key);
                } else if self.was_scaling(&record) {
                    self.planning.interrupted_scaling.insert(key);
                }
                continue;
            }
            match (self.read_manifest(&key), self.commit(&record.commit)) {
                (Some(manifest), Some(commit)) => {
                    let again = self.want_as_recorded(Charged { manifest, commit }, &record);
                    wanted.insert(key, again);
                }
                _ => {
                    self.rollouts.resumed.remove(&key);
                    self.supersede(record.id, Some(head));
                }
            }
        }
    }

    /// A hold is let go when a ConfigMap or Secret that the held template names changes in Git, or what it went back
    /// with.
    fn want_held_with_new_configuration(&self, wanted: &mut BTreeMap<ObjectKey, Wanted>, head: Option<&Arc<Commit>>) {
        let Some(head) = head else { return };
        for (key, facts) in &self.watches.live {
            let Some(hold) = facts.hold.as_ref().filter(|_| !wanted.contains_key(key)) else { continue };
            if self.desired().hash(key).is_none_or(|hash| hash.to_string() != hold.manifest) {
                continue;
            }
            let desired = self.desired();
            let alone = !hold.keeps_company(|key| desired.hash(key).map(|hash| hash.to_string()));
            if !alone && desired.configuration_of(key) == hold.config {
                continue;
            }
            if let Some(manifest) = self.read_manifest(key) {
                let charged = Charged { manifest, commit: Arc::clone(head) };
                wanted.insert(key.clone(), self.want(charged, Trigger::Commit));
            }
        }
    }

    /// The manifest of an object, as the desired state's commit has it. What can't be read is logged, and treated as not there.
    pub(super) fn read_manifest(&self, key: &ObjectKey) -> Option<Manifest> {
        self.fetching.repository.manifest(key).unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to read a manifest again");
            None
        })
    }

    /// A commit, from the history or the mirror.
    pub(super) fn commit(&self, id: &CommitId) -> Option<Arc<Commit>> {
        let known = self.context.history.commit(id).ok().flatten();
        known.or_else(|| self.fetching.repository.mirror.commit(id).ok()).map(Arc::new)
    }

    /// Asks the cluster which resources serve the repository's kinds, so that they can be watched.
    fn ask_for_kinds(&mut self) {
        let kinds = self.desired().kinds();
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let mut served = Vec::new();
            for (api_version, kind) in kinds {
                let ask = || context.cluster.served(&api_version, &kind);
                // A kind that is not there yet is asked for again when one of its objects is planned.
                if let Ok(found) = crate::cluster::Backoff::insist(|_| {}, ask).await {
                    served.push(found);
                }
            }
            let ask = || context.cluster.served(API_VERSION, KIND);
            let autoscalers = crate::cluster::Backoff::insist(|_| {}, ask).await.ok();
            TaskResult::Served(served, autoscalers)
        });
    }
}
