//! A workload that is complete after all. One that failed and was left as it is keeps its verdict, and that is said. One whose way
//! back was said to have failed is back: the verdict is corrected.

use std::sync::Arc;

use serde_json::Value;
use tracing::{info, warn};

use crate::cluster::{Backoff, ClusterError, EventKind};
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::rolling_update::NEXT;
use belay_core::rollout::{Hold, Outcome, TemplateMarks, marks};

impl Context {
    /// Tells of a workload that has just become complete, if its newest record says that it failed. Returns true if that is so.
    pub async fn tell_recovered(self: &Arc<Context>, desired: Arc<DesiredState>, key: &ObjectKey, live: Value) -> bool {
        let live = Arc::new(live);
        let (reader, object, seen) = (Arc::clone(self), key.clone(), Arc::clone(&live));
        let newest = move || {
            let record = reader.newest_record(&object).filter(|record| record.outcome == Outcome::Failed)?;
            let is_its = marks::annotation(&seen, marks::COMMIT) == Some(record.commit.as_str());
            // Somebody may have given it another template, which the mark does not tell.
            let is_its = is_its && reader.is_in_sync(&desired, &object, &seen);
            is_its.then(|| reader.commit(&record.commit).map(|commit| commit.change_cause()).unwrap_or_default())
        };
        let Some(cause) = self.repository.blocking_pool.run_for_object(newest).await else { return false };
        let message = format!("{cause}: complete, but only after its deadline; its record stays failed");
        info!(object = %key, message, "recovered");
        self.tell(key, &live, EventKind::Normal, "RolloutRecovered", message);
        true
    }

    /// Corrects the verdict on a held workload that is complete on another revision than the one that failed. Returns true if
    /// that is so.
    pub async fn correct_way_back(self: &Arc<Context>, key: &ObjectKey, live: Value, hold: Hold) -> bool {
        if has_next_controller(self, key, &live).await {
            return false;
        }
        let (writer, object, marks) = (Arc::clone(self), key.clone(), TemplateMarks::on(&live));
        let correct = move || {
            let record = writer.newest_rollout(&object).filter(|record| record.is_back(&hold, &marks))?;
            match writer.history.correct_way_back(record.id, writer.clock.now()) {
                Ok(()) => Some(record),
                Err(error) => {
                    warn!(object = %object, %error, "failed to correct the verdict on the way back");
                    None
                }
            }
        };
        let Some(record) = self.repository.blocking_pool.run(correct).await else { return false };
        let message = format!("complete on its last good revision after all; {} stays held", record.commit.short());
        info!(object = %key, message, "the way back is through");
        self.tell(key, &live, EventKind::Normal, "RolledBack", message);
        true
    }
}

/// Returns true when the controller of the failed version may be there still: its pods are there beside those of the last
/// good one.
async fn has_next_controller(context: &Context, key: &ObjectKey, live: &Value) -> bool {
    let Some(next) = marks::annotation(live, NEXT) else { return false };
    let next = ObjectKey { name: next.to_owned(), ..key.clone() };
    let api_version = live["apiVersion"].as_str().unwrap_or_default();
    let say = |error: &ClusterError| info!(object = %key, %error, "its next controller can't be read: asked again");
    let read = Backoff::until_answered(say, || async {
        let served = context.cluster.served(api_version, &next.kind).await?;
        context.cluster.get(&next, &served).await
    });
    !matches!(read.await, Ok(None))
}
