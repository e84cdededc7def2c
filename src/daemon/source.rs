//! Follows one source: looks at its repository, plans what a new head says, and keeps the rollouts going.
//!
//! One loop owns everything that the source knows. Whatever takes time (the repository, planning, each rollout) runs
//! beside it and reports back, so that a newer commit is never kept waiting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::desired_state::DesiredState;
use super::health_monitor::sleep_until;
use super::in_sync::AT_ONCE;
use super::look::RepositoryLook;
use super::rollout_task::{End, Findings, RolloutEnd};
use super::state::Source;
use super::status::set;
use super::task_result::{LookEnd, Looked, TaskResult};
use crate::git::Wake;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Outcome, Trigger};

impl Source {
    /// Follows the source until it is told to stop.
    pub(super) async fn follow(mut self) {
        info!(repository = %self.fetching.repository.mirror.location(), "following");
        self.take_up();
        self.rest_after_crashes();
        loop {
            self.see_to_history();
            self.publish_settled();
            let context = Arc::clone(&self.context);
            let check_at = self.next_check();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => match done {
                    Ok(done) => self.contained(|source| source.done(done)),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => self.fault(&error),
                },
                Some(seen) = self.watches.seen.recv(), if self.drift.comparing.len() < AT_ONCE => self.contained(|source| source.saw(seen)),
                Some(seen) = self.watches.autoscalers_seen.recv() => self.contained(|source| source.saw_autoscaler(seen)),
                () = moved(self.fetching.wake.as_deref()) => self.look_soon(),
                () = self.readiness.asked.look.notified() => self.look_soon(),
                () = self.readiness.asked.pushed.notified() => self.look_for_a_push(),
                () = tokio::time::sleep_until(self.fetching.next_look), if self.fetching.looking.is_none() => self.look(),
                () = context.journal.renewed.notified() => {}
                () = sleep_until(check_at) => self.contained(Source::check),
                () = tokio::time::sleep_until(self.recorded.next_tidy), if self.planning.planned.is_some() => self.tidy_up(),
            }
        }
        self.shut_down().await;
        info!("stopped");
    }

    fn done(&mut self, done: TaskResult) {
        match done {
            TaskResult::Looked(end) => self.looked(end),
            TaskResult::Planned(number, news, plan)
                if self.planning.running.as_ref().is_some_and(|(_, running)| *running == number) =>
            {
                self.planning.running = None;
                self.carry_out(&news, plan);
            }
            // A newer head has come meanwhile.
            TaskResult::Planned(..) => self.search_again(),
            TaskResult::Served(kinds, autoscalers) => {
                kinds.iter().for_each(|served| self.watch(served));
                autoscalers.iter().for_each(|served| self.watches.autoscalers.also(served));
            }
            TaskResult::Checked(plan, prepared) => {
                self.drift.checking = false;
                self.checked(plan, prepared);
            }
            TaskResult::Compared(key, digest, in_sync) => self.compared(&key, digest, in_sync),
            TaskResult::Calm => self.watch_crowds(),
            TaskResult::Kept(trouble) => self.kept(trouble),
            TaskResult::RolledOut(key, ended) => self.rolled_out(&key, ended),
            TaskResult::Gathered => self.tell_next(),
            TaskResult::ToldComplete => self.told(),
            TaskResult::Recovered(key) => self.recovered(&key),
            TaskResult::Told => {}
        }
    }

    /// Looks at the repository, beside the loop.
    fn look(&mut self) {
        self.fetching.looking = Some(self.context.clock.now());
        let now = Instant::now();
        self.fetching.look_began = Some(now);
        self.fetching.next_look = now + self.context.config.interval.0;
        let desired = self.desired();
        let known = self.fetching.refused.as_ref().map(|(head, _)| head.clone()).or_else(|| desired.at.clone());
        let look = RepositoryLook {
            repository: self.fetching.repository.clone(),
            follow: self.fetching.follow.clone(),
            stop: self.stop.clone(),
            wake: self.fetching.wake.clone(),
            planned: self.planning.planned.clone(),
            pruning: self.context.cleanup.pruning,
            desired,
            known,
        };
        self.tasks.spawn(look.run(Arc::clone(&self.context)));
    }

    fn looked(&mut self, end: LookEnd) {
        let began = self.fetching.looking.take();
        let LookEnd { looked, kept, known } = end;
        if !Arc::ptr_eq(&known, &self.desired()) {
            // All that was known is forgotten since: what differs from it says little. The next look reads all of it.
            return;
        }
        self.context.status.fetched(looked.is_ok());
        let trouble = match looked {
            Ok(Looked::Same(None)) => {
                let trouble = self.take_in(Looked::Same(None), began);
                self.is_unreadable(trouble.clone());
                trouble
            }
            Ok(looked) => {
                self.is_unreadable(None);
                self.take_in(looked, began)
            }
            Err(error) => {
                warn!(%error, "failed to look at the repository");
                let passes = error.may_pass() || error.wants_a_new_mirror();
                self.is_unreadable((!passes).then(|| error.to_string()));
                Some(error.to_string())
            }
        };
        self.repository_trouble(trouble);
        kept.into_iter().for_each(|kept| self.keep_up(*kept));
    }

    /// Publishes why the repository can't be followed, where that does not pass by itself.
    fn is_unreadable(&self, why: Option<String>) {
        self.context.status.change(|source| set(&mut source.obstacles.unreadable, why));
    }

    /// Takes in what a look has brought. Returns what is in the way of following it.
    fn take_in(&mut self, looked: Looked, began: Option<Timestamp>) -> Option<String> {
        self.fetching.looked = began.or(self.fetching.looked);
        let looked_at = self.fetching.looked;
        self.context.status.change(|source| set(&mut source.looked, looked_at));
        if let Looked::Same(None) = looked {
            return Some(format!("{} has no {} yet", self.fetching.repository.mirror.location(), self.fetching.follow));
        }
        self.is_reached();
        if let Looked::New(news) = looked {
            self.heard(*news);
        }
        self.fetching.refused.as_ref().map(|(_, message)| message.clone())
    }

    /// What the repository holds at its head.
    pub(super) fn desired(&self) -> Arc<DesiredState> {
        self.fetching.repository.desired()
    }

    /// Forgets what the repository holds: the next look reads all of it again.
    pub(super) fn forget_head(&self) {
        let empty = self.desired().emptied();
        self.fetching.desired.send_replace(Arc::new(empty));
    }

    fn rolled_out(&mut self, key: &ObjectKey, ended: RolloutEnd) {
        let Some(rollout) = self.rollouts.under_way.remove(key) else { return };
        let RolloutEnd { end, findings: Findings { told, well } } = ended;
        if let Some(told) = told {
            self.tell_later(told);
        }
        match end {
            End::Recorded(outcome) => {
                if outcome == Outcome::Complete {
                    self.drift.corrected.remove(key);
                }
                let trigger = self.set_off(&rollout, outcome);
                if rollout.judged {
                    self.count(rollout.record, &trigger, outcome);
                }
                if outcome == Outcome::Complete && matches!(trigger, Trigger::Drift(_)) {
                    self.context.status.drift_corrected();
                }
                self.publish_end(rollout.record, outcome);
                self.ended(key, rollout.record, outcome);
                self.tell_those_behind(key);
                let live = rollout.live.borrow().clone();
                if outcome == Outcome::Rejected {
                    // The server took it in the dry run and not in earnest. It may change its mind; not at once.
                    let again = self.again(key);
                    self.drift.recheck_after(key.clone(), again);
                }
                match live.filter(|_| outcome != Outcome::Rejected) {
                    Some(live) => self.look_after(key, live.read(), well),
                    None if outcome == Outcome::Rejected => {}
                    None => self.await_word_of(key, well),
                }
            }
            End::Stopped => self.supersede(rollout.record, rollout.superseded_by.as_ref()),
            End::Fault(message) => self.rollout_fault(key, rollout.record, &message),
        }
        // Whoever waits for its end may go on, now that it is recorded.
        rollout.ended.cancel();
    }

    /// Stops within moments: rollouts are told to stop and leave their records open, to be taken up at the next start.
    async fn shut_down(&mut self) {
        const STOP_TIMEOUT: Duration = Duration::from_secs(3);
        for rollout in self.rollouts.under_way.values() {
            rollout.cancel.cancel();
        }
        if let Some((planning, _)) = self.planning.running.take() {
            planning.abort();
        }
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            warn!("some requests were still under way");
        }
        self.tasks.shutdown().await;
    }

    fn next_check(&self) -> Option<Instant> {
        if self.drift.checking || self.planning.running.is_some() || self.planning.planned.is_none() {
            return None;
        }
        self.drift.recheck.values().min().copied().into_iter().chain(self.pruned.search_due).min()
    }

    /// The keys with rollouts that a plan for these objects must wait for; they are told to stop.
    pub(super) fn replace(&mut self, keys: &BTreeSet<ObjectKey>, by: &CommitId) -> Vec<CancellationToken> {
        let mut ended = Vec::new();
        for (key, rollout) in &mut self.rollouts.under_way {
            if keys.contains(key) {
                rollout.superseded_by = Some(by.clone());
                rollout.cancel.cancel();
                ended.push(rollout.ended.clone());
                if rollout.judged {
                    self.planning.interrupted.insert(key.clone());
                } else if rollout.scales {
                    self.planning.interrupted_scaling.insert(key.clone());
                }
            }
        }
        ended
    }
}

async fn moved(wake: Option<&Wake>) {
    match wake {
        Some(wake) => wake.moved().await,
        None => std::future::pending().await,
    }
}
