//! Checks an object that may differ from its manifest, before it is planned again: which commit is charged, and why.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::daemon::planning::plan_request::{ChargedCommit, ConfigChange, PlanRequest};
use crate::daemon::planning::planner;
use crate::daemon::planning::refused::is_tried_again;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    After, Commit, CommitId, DependencyStanding, Gate, Hold, Outcome, Reason, ReasonCode, Record, RecordId, Trigger,
    gate,
};

/// An object that is checked, with the loop's facts about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recheck {
    pub key: ObjectKey,
    /// Its record, if that is open.
    pub resumed: Option<Record>,
    /// A hold that somebody has taken off.
    pub released: Option<Hold>,
    pub dependencies: Option<Dependencies>,
}

impl Recheck {
    /// Returns the object with its open record.
    pub fn open_record(&self) -> Option<(ObjectKey, RecordId)> {
        Some((self.key.clone(), self.resumed.as_ref()?.id))
    }
}

/// The dependencies of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependencies {
    pub after: After,
    /// The progress of each of them, without the history's facts.
    pub standings: BTreeMap<ObjectKey, DependencyStanding>,
}

/// Returns true when a manifest has never been applied: it came while the object was suspended, or it was refused, or
/// given up before it was sent. Its absence from the cluster is nobody's undo.
fn was_never_applied(record: &Record) -> bool {
    let is_tried_again = || record.reason.as_ref().is_some_and(is_tried_again);
    let is_given_up = |reason: &Reason| reason.code.is_waited_for_with_a_limit();
    let is_missing = |reason: &Reason| reason.code == ReasonCode::Missing;
    match record.outcome {
        Outcome::Suspended => true,
        // Its namespace or its kind went, and the object with it.
        Outcome::Failed if record.reason.as_ref().is_some_and(is_missing) => true,
        _ if matches!(record.trigger, Trigger::Drift(_)) => false,
        Outcome::Rejected => is_tried_again(),
        Outcome::Failed => record.reason.as_ref().is_some_and(is_given_up),
        _ => false,
    }
}

impl Context {
    /// Plans objects again that may differ from their manifests, under the head that was planned last. `patience` bounds the
    /// wait for an API server that can't serve one of them.
    pub async fn check(
        self: &Arc<Context>,
        desired: Arc<DesiredState>,
        planned: Option<CommitId>,
        rechecks: Vec<Recheck>,
        patience: Option<Duration>,
    ) -> Vec<Prepared> {
        let reader = Arc::clone(self);
        let read = move || {
            let requests = rechecks.into_iter().filter_map(|one| reader.recheck(planned.as_ref(), one));
            reader.read_requests(&desired, requests.collect::<Vec<_>>()).0
        };
        let wanted = self.repository.blocking_pool.run(read).await;
        planner::plan(self, wanted, patience).await
    }

    /// Returns the plan request for an object that is rechecked; `None` while it waits for others. It blocks.
    fn recheck(&self, planned: Option<&CommitId>, recheck: Recheck) -> Option<PlanRequest> {
        let Recheck { key, resumed, released, dependencies } = recheck;
        if let Some(record) = resumed {
            return Some(PlanRequest::recorded(&record, None));
        }
        let newest = self.newest_record(&key);
        let trigger = match newest.as_ref().map(|record| record.outcome) {
            _ if released.is_some() || newest.as_ref().is_some_and(was_never_applied) => Trigger::Retry,
            // An object that was suspended during its rollback goes on to its held state.
            Some(Outcome::Suspended) if !self.is_held(&key) => Trigger::Retry,
            Some(Outcome::Skipped) => self.after_all(dependencies)?,
            _ => Trigger::Drift(String::new()),
        };
        let held = released.map(|hold| hold.commit);
        let charged = held.into_iter().chain(newest.map(|record| record.commit)).chain(planned.cloned()).collect();
        let (charged, config) = (ChargedCommit::FirstOf(charged), ConfigChange::None);
        Some(PlanRequest { key, manifest: None, charged, trigger, config })
    }

    /// Returns true when the head's manifest of an object is held, as far as is known.
    fn is_held(&self, key: &ObjectKey) -> bool {
        let desired = self.repository.desired();
        let Some(manifest) = desired.hash(key) else { return false };
        let hash = |key: &ObjectKey| desired.hash(key).map(|hash| hash.to_string());
        self.holds.of(key).is_some_and(|kept| {
            let configuration = desired.configuration_of(key);
            kept.hold.keeps(&manifest.to_string(), configuration.as_deref()) && kept.hold.keeps_companions(hash)
        })
    }

    /// Returns the commit that was charged with an object last, as far as the history knows; else the one that was
    /// planned. It blocks.
    pub fn last_charged(&self, planned: Option<&CommitId>, key: &ObjectKey) -> Option<Arc<Commit>> {
        let newest = self.newest_record(key);
        newest.and_then(|record| self.commit(&record.commit)).or_else(|| self.commit(planned?))
    }

    /// Returns the trigger of an object that was passed over; `None` until its dependencies are complete.
    fn after_all(&self, dependencies: Option<Dependencies>) -> Option<Trigger> {
        let Some(Dependencies { after, standings }) = dependencies else { return Some(Trigger::Retry) };
        let standing = |name: &ObjectKey| DependencyStanding {
            newest: self.newest_record(name).map(|record| (record.outcome, record.reason)),
            ..standings.get(name).cloned().unwrap_or_default()
        };
        (gate(&after, standing) == Gate::Open).then(|| Trigger::After(after.listed()))
    }
}
