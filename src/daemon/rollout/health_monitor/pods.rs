//! Inspects the pods of a workload that is watched: to report trouble with them early, to give up before the deadline, and
//! for its bake time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::{debug, info};

use super::{HealthMonitor, MonitorEnd, TELL_OF_PODS_AGAIN};
use crate::cluster::{Backoff, ClusterError};
use crate::daemon::publish::status::set;
use crate::daemon::rollout::kinds::job_runs::has_ended;
use crate::daemon::rollout::rollout_task::Cancelled;
use belay_core::manifest::Compact;
use belay_core::rollout::health::{PodAccount, wrong_pods};
use belay_core::rollout::{Reason, StepKind, template};

impl HealthMonitor<'_> {
    /// Inspects the pods when it is time to: to report trouble with them early, and to give up before the deadline if
    /// belay is to. Inspections that only report may become less and less frequent.
    pub(super) async fn look_at_pods(&mut self, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        let (at, wait) = self.look_at_pods;
        if at > tokio::time::Instant::now() {
            return Ok(None);
        }
        let is_steady = self.fail_fast.is_some() || self.bake.running().is_some();
        let wait = if is_steady { wait } else { (wait * 2).min(TELL_OF_PODS_AGAIN) };
        self.look_at_pods = (tokio::time::Instant::now() + wait, wait);
        let Some(pods) = self.pods(live, self.fail_fast.is_some()).await? else { return Ok(None) };
        let now = self.work.context.clock.steady();
        let suspicion = self.fail_fast.as_mut().and_then(|fail_fast| fail_fast.look(&pods, now));
        match suspicion.or_else(|| self.bake.look(&pods)) {
            Some(suspicion) => self.rule(suspicion, live).await,
            None => self.give_up_what_cannot_start(&pods, live).await,
        }
    }

    /// Returns the pods of the present template, and publishes the trouble with them; `None` if they can't be looked at now.
    /// A decisive look is repeated until there is an answer.
    pub(super) async fn pods(
        &mut self,
        live: &Compact,
        is_decisive: bool,
    ) -> Result<Option<Vec<PodAccount>>, Cancelled> {
        let (context, key) = (Arc::clone(&self.work.context), self.work.planned.wanted.key.clone());
        let ask = || async {
            let (requests, bytes) = (&context.requests, live.text().len());
            let look = || async {
                let live = live.read();
                let observed = context.cluster.pods_of_present_template(&key, &live).await?;
                let wrong = wrong_pods(&observed, template(&live).unwrap_or(&live));
                Ok::<_, ClusterError>((Some(observed.pods), wrong))
            };
            let looked = match is_decisive {
                true => requests.look(bytes, look).await,
                false => requests.look_in_turn(bytes, look).await,
            };
            // It is looked at again soon.
            looked.unwrap_or(Ok((None, None)))
        };
        let look = async {
            if is_decisive { Backoff::until_answered(context.in_the_way(&key), ask).await } else { ask().await }
        };
        let (pods, wrong) = self.work.unless_cancelled(look).await?.unwrap_or_else(|error| {
            debug!(object = %key, %error, "its pods can't be looked at");
            (None, None)
        });
        self.publish_wrong_pods(wrong).await?;
        Ok(pods)
    }

    /// Gives up an object that runs once and that can't start, when its time is over.
    async fn give_up_what_cannot_start(
        &mut self,
        pods: &[PodAccount],
        live: &Compact,
    ) -> Result<Option<MonitorEnd>, Cancelled> {
        let key = self.work.planned.wanted.key.clone();
        if self.note_start(pods, &live.read()).await?.is_none() {
            return Ok(None);
        }
        // The watch may have told nothing for long, and pods may have started meanwhile.
        let Some(read) = Box::pin(self.work.read()).await? else { return Ok(Some(MonitorEnd::Gone)) };
        if self.judge.is_of_another(&read) || has_ended(&key, &read) {
            return Ok(None);
        }
        let (observed, live) = self.observe(&Compact::of(&read)).await?;
        if observed.observation.hidden.is_some() {
            return Ok(None);
        }
        let reason = self.note_start(&observed.observation.pods, &live).await?;
        Ok(reason.map(|reason| {
            info!(object = %key, %reason, "failed");
            MonitorEnd::Failed { reason, observed: Box::new(observed), live }
        }))
    }

    /// Notes how far the pods of an object that runs once have come. Returns why it is given up, if it is.
    async fn note_start(&mut self, pods: &[PodAccount], live: &Value) -> Result<Option<Reason>, Cancelled> {
        let (context, key) = (Arc::clone(&self.work.context), self.work.planned.wanted.key.clone());
        let news = self.never_started.look(&key, live, pods, context.clock.steady());
        let known = || context.history.steps(self.work.record).unwrap_or_default();
        let is_known = self.never_started.is_stuck() && news.is_some() && self.never_started.continues(live, &known());
        if let Some(news) = news.filter(|_| !is_known) {
            self.work.step(StepKind::Progress, news).await?;
        }
        let (outages, now) = (context.cluster.outages(), context.clock.steady());
        let limit = self.judge.outage_timeout();
        if let Some(due) = self.never_started.due(pods, &outages, limit, now) {
            let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            self.look_at_pods.0 = self.look_at_pods.0.min(tokio::time::Instant::now() + left);
        }
        Ok(self.never_started.given_up(&key, pods, &outages, limit, now))
    }

    /// Publishes the trouble with the new pods, and records it if it is news.
    async fn publish_wrong_pods(&mut self, wrong: Option<String>) -> Result<(), Cancelled> {
        let key = &self.work.planned.wanted.key;
        let mut news = false;
        self.work.context.status.change(|source| {
            news = source.under_way.get_mut(key).is_some_and(|under_way| set(&mut under_way.wrong, wrong.clone()));
            news
        });
        match wrong.filter(|_| news) {
            Some(wrong) => self.work.step(StepKind::Progress, &wrong).await,
            None => Ok(()),
        }
    }
}
