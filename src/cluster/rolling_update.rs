//! Carries a rolling update out: reads, writes, reads again. [`RollingUpdate`] decides about the writes.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::debug;

use super::{Backoff, Cluster, ClusterError, Sent};
use belay_core::rollout::Counters;
use belay_core::rollout::rolling_update::{Refused, RollingUpdate, Sizes, Step, Write};

/// The pace of a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time for which new pods are left alone before old ones go.
    pub update_period: Duration,
    /// The period between two reads of the cluster.
    pub poll_interval: Duration,
    /// The longest time without progress.
    pub timeout: Duration,
}

impl Default for Pace {
    /// Returns the pace of `rolling-update`: a minute, 3 s, 5 minutes.
    fn default() -> Pace {
        Pace {
            update_period: Duration::from_mins(1),
            poll_interval: Duration::from_secs(3),
            timeout: Duration::from_mins(5),
        }
    }
}

/// The reason for which a rolling update ended before its end. The same request goes on where it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RollError {
    /// It can't be begun, or gone on with.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The cluster refuses a write, or does not answer for too long.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Nothing moved.
    #[error("timed out waiting for any update progress to be made: {}", .waiting_for)]
    TimedOut {
        /// The awaited thing that did not come.
        waiting_for: String,
    },
}

impl Cluster {
    /// Rolls one ReplicationController of `namespace` to another, and returns the last line. `say` hears of every step.
    /// Nothing is written after the future is dropped; the same update, started again, goes on from there.
    ///
    /// # Errors
    /// [`RollError`].
    pub async fn roll(
        &self,
        namespace: &str,
        mut update: RollingUpdate,
        pace: Pace,
        mut say: impl FnMut(&str, Counters),
    ) -> Result<String, RollError> {
        let mut progress_timeout = ProgressTimeout::new(pace.timeout);
        // Lines of a write that must be repeated are not printed again.
        let mut told: Vec<String> = Vec::new();
        // The write that was answered last: if it is due again, it has changed nothing.
        let mut answered: Option<Write> = None;
        loop {
            let Some(live) = progress_timeout.ask(self.look_at_controllers(&update, namespace).await).await? else {
                continue;
            };
            let step = update.step(&live)?;
            let counters = update.counters(&live);
            match step {
                Step::Done(last) => return Ok(last),
                Step::Write { write, says } => {
                    // The line about a write comes before it: after a kill in it, the last line says where.
                    says.iter().filter(|line| !told.contains(line)).for_each(|line| say(line, counters));
                    told.extend(says);
                    let is_repeated = answered.as_ref().is_some_and(|answered| is_same(answered, &write));
                    if is_repeated {
                        progress_timeout.unchanged().await?;
                    }
                    let Some(sent) =
                        progress_timeout.ask(self.write_controller(namespace, &write, update.manager()).await).await?
                    else {
                        continue;
                    };
                    debug!(?sent, ?write, "rolling update");
                    if sent == Sent::Outdated {
                        progress_timeout.outdated(pace.poll_interval).await?;
                        continue;
                    }
                    if !is_repeated {
                        told.clear();
                        progress_timeout.moved();
                    }
                    answered = Some(write);
                }
                Step::Wait { what, says } => {
                    says.iter().for_each(|line| say(line, counters));
                    progress_timeout.wait(pace.poll_interval, &format!("waited for {what}")).await?;
                }
                Step::Rest { sizes, says } => {
                    says.iter().for_each(|line| say(line, counters));
                    progress_timeout.wait(pace.update_period, &waiting_for(&sizes)).await?;
                    update.rested();
                }
            }
        }
    }
}

fn waiting_for(sizes: &Sizes) -> String {
    format!("{} of {} new pods are ready", sizes.next_ready, sizes.next)
}

/// Returns true when two writes do the same to the same object. Its version does not count: others may write it in between.
fn is_same(one: &Write, other: &Write) -> bool {
    match (one, other) {
        (Write::Change { name, patch }, Write::Change { name: other_name, patch: other }) => {
            name == other_name && without_version(patch) == without_version(other)
        }
        _ => one == other,
    }
}

fn without_version(patch: &Value) -> Value {
    let mut patch = patch.clone();
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    patch
}

/// The time of waiting since the last progress.
struct ProgressTimeout {
    timeout: Duration,
    until: Instant,
    backoff: Backoff,
}

impl ProgressTimeout {
    fn new(timeout: Duration) -> ProgressTimeout {
        ProgressTimeout { timeout, until: Instant::now() + timeout, backoff: Backoff::default() }
    }

    fn moved(&mut self) {
        self.until = Instant::now() + self.timeout;
        self.backoff.reset();
    }

    /// Waits, but at most for the remaining time; with none left it names the missing condition.
    async fn wait(&self, time: Duration, what: &str) -> Result<(), RollError> {
        if Instant::now() >= self.until {
            return Err(RollError::TimedOut { waiting_for: what.to_owned() });
        }
        tokio::time::sleep(time).await;
        Ok(())
    }

    async fn outdated(&self, poll_interval: Duration) -> Result<(), RollError> {
        self.wait(poll_interval.min(Duration::from_millis(200)), "others kept changing the controllers").await
    }

    /// Waits before a write that was answered, and changed nothing, is made again.
    async fn unchanged(&mut self) -> Result<(), RollError> {
        const WHY: &str = "the API server answers that a write is done, and nothing has changed";
        let wait = self.backoff.wait();
        self.wait(wait, WHY).await?;
        // The time may be over by now, and an update that is asked for once more begins with a write.
        self.wait(Duration::ZERO, WHY).await
    }

    /// Returns an answer; `None` if the cluster did not give one and is to be asked again.
    async fn ask<T>(&mut self, answer: Result<T, ClusterError>) -> Result<Option<T>, RollError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error @ ClusterError::Away { .. }) if Instant::now() < self.until => {
                let wait = self.backoff.after(&error);
                tokio::time::sleep(wait).await;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
