//! Takes the watches' events about live objects: which facts stay, and how the state changes.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use super::state::{Event, Source};
use super::task_result::TaskResult;
use crate::cluster::{ClusterError, Seen, Served};
use crate::daemon::live::in_sync::LiveText;
use crate::daemon::publish::canary_plan::CanaryPlan;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::related_object::RelatedObject;
use crate::daemon::publish::status::{SourceStatus, put_or_remove};
use crate::daemon::rollout::kinds::driver::WorkloadDriver;
use crate::daemon::rollout::kinds::job_runs::has_ended;
use crate::daemon::rollout::rollout_task::InSync;
use crate::daemon::shared::live::{digest, forget_reporters};
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::{Hold, LiveWorkload, ObjectState, Outcome, Workload};

impl Source {
    /// Takes the observations of the watches.
    pub fn saw(&mut self, seen: Seen) {
        match self.state.desired().under_its_name(seen) {
            Seen::Live(key, text) => {
                self.context.status.trouble(&Obstacle::Size(key.clone()), None);
                let mut live = text.read();
                self.on(Event::Seen(key.clone()));
                if self.state.may_be_orphan_again(&key) {
                    self.context.tell_orphan_again(self.state.desired(), &key);
                }
                self.note(&key, &live);
                match self.handles.get(&key) {
                    Some(rollout) => {
                        forget_reporters(&mut live);
                        rollout.live.send_replace(Some(Compact::of(&live)));
                    }
                    None => {
                        let well = self.watches.deferred.told(&key);
                        self.compare_with_manifest(&key, (&live, text), well);
                    }
                }
            }
            Seen::TooLarge(key, error) => self.saw_too_large(&key, &error),
            Seen::Gone(key) => {
                self.context.status.trouble(&Obstacle::Size(key.clone()), None);
                self.context.orphan_is_gone(&key);
                self.context.status.change(|source| source.forget_object(&key));
                if let Some(handle) = self.handles.get(&key) {
                    // A Job that has ended does not begin again by going: its end is still to be heard.
                    handle.live.send_if_modified(|live| {
                        let ended = live.as_ref().is_some_and(|live| has_ended(&key, &live.read()));
                        !ended && live.take().is_some()
                    });
                }
                self.on(Event::Gone(key));
            }
            Seen::Synced(served) => {
                self.watches.deferred.told_all(&served);
                self.watches.unlisted.remove(&served);
                self.on(Event::Listed { group: served.group, kind: served.kind });
            }
            Seen::Slow(list, message) => {
                let said = message.or_else(|| self.watches.fault_of_list(&list));
                self.context.status.trouble(&Obstacle::listing(&list), said);
            }
            Seen::Trouble(watch, error) => {
                let outage = self.watches.in_trouble(&watch, error);
                let fault = self.watches.fault_of_list(&watch);
                // A list that the cluster can't serve is the trouble of that list.
                self.context.status.trouble(&Obstacle::listing(&watch), fault);
                self.context.status.trouble(&Obstacle::Cluster, outage);
            }
            Seen::Denied(served, message) => {
                if message.is_some() {
                    self.watches.unlisted.remove(&served);
                }
                let fault = self.watches.fault_of_list(&served.address());
                self.context.note_denied(&served, message, fault);
            }
        }
    }

    /// An object is too large to be read. It is as it is: nothing of it is compared or put right.
    fn saw_too_large(&self, key: &ObjectKey, error: &ClusterError) {
        warn!(object = %key, %error, "not read");
        if self.state.desired().mentions(key) {
            self.context.status.trouble(&Obstacle::Size(key.clone()), Some(error.to_string()));
        }
    }

    /// Hears of the cluster's autoscalers. An object that is scaled from now on, or no longer, is compared again.
    pub fn saw_autoscaler(&mut self, seen: Seen) {
        let rescaled = self.context.autoscalers.saw(seen);
        self.on(Event::Rescaled(rescaled));
    }

    /// Keeps the necessary facts about a live object, and publishes its hold.
    fn note(&mut self, key: &ObjectKey, live: &Value) {
        let hold = Hold::on(live);
        if let Some(hold) = &hold {
            self.note_undo(key, live, hold);
        }
        if WorkloadDriver::of_object(key).replaces_pods() {
            self.note_rolling_update(key, live);
        }
        self.context.holds.saw(key, live);
        let context = &self.context;
        let rolls_back =
            |source: &SourceStatus| source.under_way.get(key).is_some_and(|way| way.outcome == Outcome::RollingBack);
        let goes_back = || context.status.read(rolls_back).unwrap_or_default();
        let is_lost = || context.holds.of(key).is_some();
        let released = if hold.is_none() { self.state.released_hold(key, goes_back, is_lost) } else { None };
        let change = self.state.note_live(key, live, (hold.as_ref(), released), Instant::now());
        if change.is_released {
            self.on(Event::Released(key.clone()));
        }
        if change.is_suspension {
            let planned = self.state.planning().planned();
            self.context.note_suspension(self.state.desired(), planned, key, live);
        }
        if change.is_resumed {
            self.on(Event::SuspensionOver(key.clone()));
            self.take_up_revisions(key, live);
            self.resumed(key);
        }
        if Workload::of(key).is_some() {
            let told = LiveWorkload::of(key, live);
            self.on(Event::StandingSeen { key: key.clone(), standing: told.standing });
            let canary = CanaryPlan::of(live, told.counters.desired);
            self.context.status.change(|source| {
                put_or_remove(&mut source.workloads, key, Some(told)) | put_or_remove(&mut source.canaries, key, canary)
            });
            self.note_restart(key, live);
            self.note_scaling(key, live);
        }
        if RelatedObject::is_of_kind(key) {
            let related = RelatedObject::of(key, live);
            self.context.status.change(|source| put_or_remove(&mut source.related, key, related));
        }
        if change.is_completed {
            self.tell_recovered(key, live);
            self.recheck_dependents(key);
        }
        self.on(Event::Changed { key: key.clone(), change });
        self.context.publish_hold(self.state.desired(), key, hold);
    }

    /// Takes the revisions of a workload up again, beside the loop.
    fn take_up_revisions(&mut self, key: &ObjectKey, live: &Value) {
        if Workload::of(key) != Some(Workload::Deployment) {
            return;
        }
        let (context, key, live) = (Arc::clone(&self.context), key.clone(), live.clone());
        self.tasks.spawn(async move {
            context.take_up_revisions(&key, &live).await;
            TaskResult::Told
        });
    }

    /// Tells of a workload that has just become complete, if it is said to have failed; or corrects the verdict on its way back.
    fn tell_recovered(&mut self, key: &ObjectKey, live: &Value) {
        if self.state.rollouts().is_under_way(key) {
            return;
        }
        let context = Arc::clone(&self.context);
        if let Some(hold) = Hold::on(live) {
            let (key, live) = (key.clone(), live.clone());
            self.tasks.spawn(async move {
                let is_back = context.correct_way_back(&key, live, hold).await;
                if is_back { TaskResult::Recovered(key) } else { TaskResult::Told }
            });
            return;
        }
        let failed = |source: &SourceStatus| source.ended.get(key).is_some_and(|one| one.state == ObjectState::Failed);
        if !self.context.status.read(failed).unwrap_or_default() {
            return;
        }
        let (key, live, desired) = (key.clone(), live.clone(), self.desired());
        self.tasks.spawn(async move {
            let has_recovered = context.tell_recovered(desired, &key, live).await;
            if has_recovered { TaskResult::Recovered(key) } else { TaskResult::Told }
        });
    }

    /// Notes that the live object is as in the head: the status does not go on calling it failed.
    pub fn recovered(&mut self, key: &ObjectKey) {
        if !self.state.rollouts().is_under_way(key) {
            self.context.note_standing(key, None);
        }
    }

    /// Looks at a live object whose rollout has ended. It need not read the manifest again where the rollout saw just that.
    pub fn compare_with_manifest(
        &mut self,
        key: &ObjectKey,
        (live, text): (&Value, impl Into<LiveText>),
        well: Option<InSync>,
    ) {
        match well.filter(|well| self.context.is_still_in_sync(self.state.desired(), key, live, well)) {
            Some(well) => self.on(Event::InSync { key: key.clone(), digest: well.digest }),
            None => self.look_at(key, live, text.into()),
        }
    }

    /// Compares a live object without a rollout with its manifest, beside the loop, if it is not known that it still is as it
    /// should be.
    fn look_at(&mut self, key: &ObjectKey, live: &Value, text: LiveText) {
        let digest = digest(live);
        if let Some(effects) = self.state.seen_at_rest(key, digest, Instant::now()) {
            return effects.into_iter().for_each(|effect| self.perform(effect));
        }
        let is_complete = self.state.live().get(key).is_some_and(|facts| facts.complete);
        let is_through = is_complete || Hold::on(live).is_some();
        let (context, key, desired) = (Arc::clone(&self.context), key.clone(), self.desired());
        self.tasks.spawn(async move {
            let in_sync = context.compare(desired, &key, text, is_through).await;
            TaskResult::Compared(key, digest, in_sync)
        });
    }

    /// Compares a finished object that no watch has reported, when it is seen.
    pub fn compare_when_seen(&mut self, key: &ObjectKey, well: Option<InSync>) {
        if !self.watches.deferred.has(&key.group, &key.kind) {
            self.on(Event::MayDiffer(key.clone()));
        } else if let Some(well) = well {
            self.watches.deferred.through.insert(key.clone(), well);
        }
    }

    /// Inspects the pods of workloads whose time has come, beside the loop.
    pub fn look_at_pods(&mut self) {
        let due = self.state.take_due_pod_looks(Instant::now());
        let served = |key: ObjectKey| Some((self.watches.watched.serving_group(&key.group, &key.kind)?, key));
        let due: Vec<(Served, ObjectKey)> = due.into_iter().filter_map(served).collect();
        if due.is_empty() {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move { TaskResult::PodsInspected(context.inspect_pods(due).await) });
    }
}
