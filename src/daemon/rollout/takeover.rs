//! Fields that others own of an object are written over to belay before it is applied.

use serde_json::Value;
use tracing::warn;

use super::rollout_task::{Cancelled, RolloutTask};
use crate::cluster::{Backoff, Mode};
use belay_core::rollout::{Reach, StepKind, before_apply};

impl RolloutTask {
    /// Writes the fields of `kubectl apply`, of a person who created the object again, or of somebody who added to its
    /// pod template, over to belay, so that the apply of `body` removes missing ones.
    pub async fn take_over(&self, body: &Value, reach: Reach) -> Result<(), Cancelled> {
        let (mut tries, mut backoff) = (TakeoverTries::default(), Backoff::default());
        loop {
            let Some(live) = self.read().await? else { return Ok(()) };
            let ignored = &self.planned.wanted.ignored_fields;
            let over = match tries.next(before_apply(&live, body, ignored, reach)) {
                TakeoverStep::Done => return Ok(()),
                TakeoverStep::GivenUp => {
                    return self.step(StepKind::Waiting, "not taken over: others keep writing it").await;
                }
                TakeoverStep::Patch(over) => over,
                TakeoverStep::PatchAgain(over) => {
                    self.unless_cancelled(tokio::time::sleep(backoff.wait())).await?;
                    over
                }
            };
            let (context, key) = (&self.context, &self.planned.wanted.key);
            let patch = || context.cluster.json_patch(key, &self.served, &over, Mode::Real);
            // After one patch another may be needed: the object is read again.
            if let Err(error) = self.until_served(key, patch).await? {
                // Somebody wrote it in between.
                warn!(object = %key, %error, "not taken over yet");
            }
        }
    }
}

/// The most patches that take one object over.
const TRIES: usize = 5;

/// The patches of one takeover so far.
#[derive(Debug, Default)]
struct TakeoverTries {
    number: usize,
    newest: Option<Value>,
}

/// The next step of a takeover.
#[derive(Debug, PartialEq)]
enum TakeoverStep {
    /// Nothing of others is left.
    Done,
    Patch(Value),
    /// The same patch was answered, or refused, and has changed nothing: it is sent after a wait.
    PatchAgain(Value),
    GivenUp,
}

impl TakeoverTries {
    /// Returns the next step, where the object needs this patch.
    fn next(&mut self, patch: Option<Value>) -> TakeoverStep {
        let Some(patch) = patch else { return TakeoverStep::Done };
        if self.number == TRIES {
            return TakeoverStep::GivenUp;
        }
        self.number += 1;
        let is_same = self.newest.replace(patch.clone()).as_ref() == Some(&patch);
        if is_same { TakeoverStep::PatchAgain(patch) } else { TakeoverStep::Patch(patch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The patches that are needed one after the other, and the steps that follow.
    type TakeoverCase<'a> = (&'static str, Vec<Option<&'a Value>>, Vec<TakeoverStep>);

    #[test]
    fn a_patch_that_changes_nothing_is_sent_after_a_wait_and_five_times_at_most() {
        use TakeoverStep::{Done, GivenUp, Patch, PatchAgain};
        let [a, b] = ["a", "b"].map(|name| json!([{"op": "remove", "path": name}]));
        let table: [TakeoverCase<'_>; 4] = [
            ("nothing is another's", vec![None], vec![Done]),
            (
                "one patch after the other",
                vec![Some(&a), Some(&b), None],
                vec![Patch(a.clone()), Patch(b.clone()), Done],
            ),
            (
                "others write it in between",
                vec![Some(&a), Some(&b), Some(&a), Some(&a), None],
                vec![Patch(a.clone()), Patch(b.clone()), Patch(a.clone()), PatchAgain(a.clone()), Done],
            ),
            (
                "a server that does nothing",
                vec![Some(&a); 6],
                vec![
                    Patch(a.clone()),
                    PatchAgain(a.clone()),
                    PatchAgain(a.clone()),
                    PatchAgain(a.clone()),
                    PatchAgain(a.clone()),
                    GivenUp,
                ],
            ),
        ];
        for (what, needed, expected) in table {
            let mut tries = TakeoverTries::default();
            let steps: Vec<TakeoverStep> = needed.into_iter().map(|patch| tries.next(patch.cloned())).collect();
            assert_eq!(steps, expected, "{what}");
        }
    }
}
