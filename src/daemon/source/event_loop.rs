//! Follows one source: fetches its repository, plans a new head, and keeps the rollouts going.
//!
//! One loop owns everything that the source knows. Whatever takes time (the repository, planning, each rollout) runs
//! beside it and reports back, so that a newer commit is never kept waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tracing::{info, warn};

use super::state::{Event, HeadSeen, Source};
use super::task_result::{CheckResult, FoundKinds, TaskResult};
use crate::daemon::live::in_sync::AT_ONCE;
use crate::daemon::live::standing::EndedRecord;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::look::{LookEnd, Looked};
use crate::daemon::rollout::health_monitor::sleep_until;
use crate::daemon::rollout::rollout_task::{End, Findings, RolloutEnd};
use crate::daemon::shared::panics::internal_error;
use crate::git::Wake;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Outcome;

/// The time after which kinds are asked for again about which the cluster said nothing.
const KINDS_AGAIN: Duration = Duration::from_secs(30);

impl Source {
    /// Follows the source until it is cancelled.
    pub async fn follow(mut self) {
        info!(repository = %self.fetching.repository.mirror.location(), "following");
        self.resume_open();
        self.wait_after_crashes();
        loop {
            self.liveness.answer();
            self.renew_history_if_lost();
            self.publish_settled();
            self.watches.missing.end_when_over(|key| self.state.is_open(key));
            let context = Arc::clone(&self.context);
            let check_at = self.state.next_check().into_iter().chain(self.state.next_pod_look()).min();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => match done {
                    Ok(done) => self.contained(|source| source.done(done)),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => self.fault(&error),
                },
                Some(seen) = self.watches.seen.recv(), if self.state.drift().comparisons() < AT_ONCE => self.contained(|source| source.saw(seen)),
                Some(seen) = self.watches.autoscalers_seen.recv() => self.contained(|source| source.saw_autoscaler(seen)),
                seen = self.watches.missing.seen() => self.contained(|source| source.saw_missing(seen)),
                Ok(()) = self.slots_freed.changed() => self.contained(Source::fill_slots),
                objects = context.missing.news() => self.watch_for_missing(objects),
                () = moved(self.fetching.wake.as_deref()) => self.on(Event::LookAsked),
                () = self.completion.asked.look.notified() => self.on(Event::LookAsked),
                () = self.completion.asked.retry.notified() => {
                    let names = self.completion.asked.take_retries();
                    self.on(Event::RetryAsked(names));
                }
                () = self.completion.asked.pushed.notified() => self.on(Event::Pushed),
                () = tokio::time::sleep_until(self.state.fetch().next_look()), if !self.state.fetch().is_looking() => {
                    self.on(Event::LookDue { at: context.clock.now() });
                }
                () = context.journal.renewed.notified() => {}
                () = self.liveness.asked() => {}
                () = sleep_until(check_at) => self.contained(|source| {
                    source.look_at_pods();
                    source.on(Event::Due);
                }),
                () = sleep_until(self.completion.give_back_at) => self.give_memory_back(),
                () = tokio::time::sleep_until(self.recorded.next_tidy), if self.state.planning().planned().is_some() => self.tidy_up(),
            }
        }
        self.shut_down().await;
        info!("stopped");
    }

    fn done(&mut self, done: TaskResult) {
        match done {
            TaskResult::Looked(end) => self.looked(*end),
            TaskResult::Planned(number, plan) => {
                plan.plan.suspended.iter().for_each(|served| self.watches.also_if_calm(served));
                self.on(Event::Planned { number, plan });
            }
            TaskResult::Awaited(number, let_through) => self.on(Event::Awaited(number, let_through)),
            TaskResult::PlanRecorded(record) => {
                let is_lost = record.history != self.recorded.history;
                self.on(Event::PlanRecorded { record, is_lost });
            }
            TaskResult::Served(FoundKinds { number, served, autoscalers, missed }) => {
                served.iter().for_each(|served| self.watches.also_if_calm(served));
                self.watches.asked_for.take_if(|plan| *plan == number);
                autoscalers.iter().for_each(|served| self.watches.autoscalers.also(served));
                if !missed.is_empty() && number == self.state.planning().newest() {
                    self.ask_for(missed, KINDS_AGAIN);
                }
            }
            TaskResult::MissingServed(kinds) => self.watches.missing.also(&kinds),
            TaskResult::Checked(plan, prepared) => self.on(Event::Checked { plan, prepared }),
            TaskResult::Searched(CheckResult { plan, prepared, searched, suspended }) => {
                suspended.iter().for_each(|served| self.watches.also_if_calm(served));
                self.on(Event::Searched { plan, prepared, searched });
            }
            TaskResult::Retried(key, number, prepared) => self.on(Event::Retried { key, number, prepared }),
            TaskResult::Reopened(record) => self.on(Event::Reopened(record)),
            TaskResult::Compared(key, digest, in_sync) => self.on(Event::Compared { key, digest, in_sync }),
            TaskResult::Idle => self.watches.also_deferred(),
            TaskResult::Kept(trouble) => self.context.kept(trouble),
            TaskResult::RolledOut(key, ended, recorded) => self.rolled_out(&key, *ended, recorded.as_deref()),
            TaskResult::EndRead(failed) => self.end_read(failed.map(|failed| *failed)),
            TaskResult::EndsWritten(ends) => {
                ends.into_iter().for_each(|(id, outcome)| self.context.publish_end(self.state.desired(), id, outcome));
            }
            TaskResult::EventsDue => self.send_queued_events(),
            TaskResult::CompletionsSent => self.told(),
            TaskResult::PodsInspected(found) => self.on(Event::PodsInspected(found)),
            TaskResult::Recovered(key) => self.recovered(&key),
            TaskResult::Told => {}
        }
    }

    fn looked(&mut self, end: LookEnd) {
        let LookEnd { looked, kept, known } = end;
        if !Arc::ptr_eq(&known, self.state.desired()) {
            return self.on(Event::LookOvertaken);
        }
        let seen = match looked {
            Ok(Looked::Same(None)) => {
                let location = self.fetching.repository.mirror.location();
                HeadSeen::Unborn(format!("{location} has no {} yet", self.fetching.follow))
            }
            Ok(Looked::Same(Some(_))) => HeadSeen::Same,
            Ok(Looked::New(news)) => HeadSeen::New(news),
            Err(error) => {
                warn!(%error, "failed to look at the repository");
                HeadSeen::Failed { message: error.to_string(), passes: error.may_pass() || error.wants_a_new_mirror() }
            }
        };
        self.on(Event::Looked { seen, kept, at: self.context.clock.now() });
    }

    /// Returns the content of the repository at its head.
    pub fn desired(&self) -> Arc<DesiredState> {
        Arc::clone(self.state.desired())
    }

    fn rolled_out(&mut self, key: &ObjectKey, ended: RolloutEnd, recorded: Option<&EndedRecord>) {
        let Some(handle) = self.handles.remove(key) else { return };
        self.completion.ended += 1;
        let RolloutEnd { end, findings: Findings { told, well, disturbed } } = ended;
        if let Some(told) = told {
            self.queue_event(told);
        }
        if let Some(dispute) = disturbed {
            self.on(Event::Disturbed { key: key.clone(), dispute });
        }
        match end {
            End::Recorded(outcome) => {
                let trigger = recorded.map(|recorded| recorded.record.trigger.clone());
                let took = recorded.and_then(|recorded| recorded.took(outcome));
                self.on(Event::Ended { key: key.clone(), outcome, trigger, took });
                self.context.publish_rollout_end(self.state.desired(), key, outcome, recorded);
                if let Some(recorded) = recorded {
                    self.ended(&recorded.record, outcome);
                    let (key, reason) = (recorded.record.object.clone(), recorded.record.reason.clone());
                    self.on(Event::RecordEnded { key, outcome: recorded.record.outcome, reason });
                }
                self.recheck_dependents(key);
                self.retry_what_it_defines(key);
                let live = handle.live.borrow().clone();
                match live {
                    _ if outcome == Outcome::Rejected => {}
                    // It was a Job, and is gone by now.
                    Some(_) if !self.state.live().has(key) => {}
                    Some(live) => self.compare_with_manifest(key, (&live.read(), live), well),
                    None => self.compare_when_seen(key, well),
                }
            }
            End::Stopped => self.on(Event::Stopped(key.clone())),
            End::Fault(message) => {
                let reason = internal_error(key, &message);
                self.context.status.object_trouble(key, Some(reason.message.clone()));
                self.on(Event::Fault { key: key.clone(), reason });
            }
        }
        // Dependents of its end may go on, now that it is recorded.
        handle.ended.cancel();
    }

    /// Stops within moments: rollouts are cancelled and leave their records open, to be taken up at the next start.
    async fn shut_down(&mut self) {
        const STOP_TIMEOUT: Duration = Duration::from_secs(3);
        // Commands read the state at the end from the history.
        self.recorded.standing = None;
        self.recorded.note_source(&self.context);
        self.handles.values().for_each(|rollout| rollout.cancel.cancel());
        self.plan_task.take().inspect(AbortHandle::abort);
        self.wait_task.take().inspect(AbortHandle::abort);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            warn!("some work was still under way; it is taken up at the next start");
        }
        self.tasks.shutdown().await;
    }
}

async fn moved(wake: Option<&Wake>) {
    match wake {
        Some(wake) => wake.moved().await,
        None => std::future::pending().await,
    }
}
