//! The wait for a commit that ended badly and is tried again in a moment: somebody has let go of its object, or asked that it is
//! tried again, and the daemon has not taken that up yet.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use tokio::time::Instant;

use super::wait::keeps_what_is_held;
use super::wait_progress::{LazyCluster, live};
use crate::cli::Globals;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::daemon::lease_name;
use crate::history::{History, HistoryError};
use belay_core::rollout::{Hold, Lease, Outcome, Reason, ReasonCode, Record, Step, StepKind, Workload, is_well, marks};

/// The time that a daemon has to notice a released object.
const LIMIT: Duration = Duration::from_secs(10);

/// The wait for it.
#[derive(Default)]
pub(super) struct PendingRetry {
    until: Option<Instant>,
}

impl PendingRetry {
    /// Returns true while a workload of the commit is neither held nor suspended any more, and its record still says that it is; or
    /// while somebody has only just asked that an object of it is tried again.
    pub(super) async fn is_awaited(
        &mut self,
        globals: &Globals,
        cluster: &mut LazyCluster,
        (history, records): (&History, &[Record]),
    ) -> anyhow::Result<bool> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + LIMIT);
        let (kept, refused) = (newest_that_are_kept(history, records)?, newest_that_are_refused(history, records)?);
        if kept.is_empty() && refused.is_empty() {
            return Ok(false);
        }
        let is_any_free = async {
            let cluster = cluster.get(globals).await?;
            for record in kept {
                if live(&cluster, &record.object).await.is_some_and(|live| is_let_go(record.outcome, &live)) {
                    return Some(());
                }
            }
            is_asked_for(&cluster, &refused).await.then_some(())
        };
        Ok(matches!(tokio::time::timeout_at(until, is_any_free).await, Ok(Some(()))))
    }
}

/// Returns the workloads of a commit that are held or suspended, as far as no newer commit has come to them.
fn newest_that_are_kept<'a>(history: &History, records: &'a [Record]) -> Result<Vec<&'a Record>, HistoryError> {
    let (mut seen, mut kept) = (BTreeSet::new(), Vec::new());
    let corrected = |record: &Record| keeps_what_is_held(record, records);
    for record in records.iter().filter(|record| Workload::of(&record.object).is_some() && !corrected(record)) {
        let is_first = seen.insert((&record.source, &record.object));
        if !is_first || is_well(record.outcome) {
            continue;
        }
        let newest = history.newest(&record.source, &record.object)?;
        let is_newest = newest.is_some_and(|newest| newest.id == record.id || corrected(&newest));
        if is_newest && was_held(record.outcome, &history.steps(record.id)?) {
            kept.push(record);
        }
    }
    Ok(kept)
}

/// The objects of a commit that were refused, or given up, as far as nothing newer has become of them.
fn newest_that_are_refused<'a>(history: &History, records: &'a [Record]) -> Result<Vec<&'a Record>, HistoryError> {
    let is_given_up = |why: &Reason| matches!(why.code, ReasonCode::NotServed | ReasonCode::Missing);
    let is_given_up = |record: &Record| record.reason.as_ref().is_some_and(is_given_up);
    let mut refused = Vec::new();
    for record in records.iter().filter(|record| record.outcome == Outcome::Rejected || is_given_up(record)) {
        if history.newest(&record.source, &record.object)?.is_some_and(|newest| newest.id == record.id) {
            refused.push(record);
        }
    }
    Ok(refused)
}

/// Returns true when somebody has only just asked that one of these objects is tried again, as the Lease of its source says.
async fn is_asked_for(cluster: &Cluster, refused: &[&Record]) -> bool {
    let leases = async {
        let served = cluster.served("coordination.k8s.io/v1", "Lease").await?;
        cluster.list(&served, None, "").await
    };
    // Without permission to read Leases there is nothing to wait for.
    let leases = if refused.is_empty() { Vec::new() } else { leases.await.unwrap_or_default() };
    let now = Clock::system().now();
    let limit = SignedDuration::try_from(LIMIT).unwrap_or_default();
    refused.iter().any(|record| {
        let name = lease_name(&record.source);
        let of_source = leases.iter().filter(|lease| lease["metadata"]["name"] == name.as_str());
        let mut requests = of_source.filter_map(|lease| Lease::of(lease).retry);
        requests.any(|request| request.is_pending(&record.object, limit, now))
    })
}

/// Returns false for a rollback that failed before anything of it was written: then there is no hold that somebody could take away.
fn was_held(outcome: Outcome, steps: &[Step]) -> bool {
    outcome != Outcome::RollbackFailed || steps.iter().any(|step| step.kind == StepKind::WentBack)
}

/// Returns true where a live object carries neither the hold nor the suspension that an outcome speaks of.
fn is_let_go(outcome: Outcome, live: &Value) -> bool {
    match outcome {
        Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Held => Hold::on(live).is_none(),
        Outcome::Suspended => marks::annotation(live, marks::SUSPEND).is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollback_that_wrote_nothing_has_left_no_hold() {
        let step = |kind| Step { at: jiff::Timestamp::UNIX_EPOCH, kind, detail: String::new() };
        let begun = [step(StepKind::Verdict), step(StepKind::GoingBack)];
        let written = [step(StepKind::GoingBack), step(StepKind::WentBack)];
        for (outcome, steps, expected) in [
            (Outcome::RollbackFailed, &begun[..], false),
            (Outcome::RollbackFailed, &written[..], true),
            (Outcome::RolledBack, &begun[..1], true),
            (Outcome::Held, &[][..], true),
        ] {
            assert_eq!(was_held(outcome, steps), expected, "{outcome} {steps:?}");
        }
    }

    #[test]
    fn what_is_neither_held_nor_suspended_any_more_is_let_go() {
        let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
        let plain = json!({"metadata": {}});
        let suspended = annotated(marks::SUSPEND, "a look");
        let commit = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
        let hold = json!({"manifest": "a", "template": "b", "commit": commit, "reason": "broken",
            "since": "2026-01-01T00:00:00Z"});
        let held = annotated(marks::HOLD, &hold.to_string());
        for (outcome, live, expected) in [
            (Outcome::RolledBack, &plain, true),
            (Outcome::Held, &plain, true),
            (Outcome::RolledBack, &held, false),
            (Outcome::Held, &held, false),
            (Outcome::Suspended, &plain, true),
            (Outcome::Suspended, &suspended, false),
            (Outcome::Rejected, &plain, false),
            (Outcome::Failed, &plain, false),
        ] {
            assert_eq!(is_let_go(outcome, live), expected, "{outcome} {live}");
        }
    }
}
