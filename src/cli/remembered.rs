//! What the history adds to what is live: what waits for others, and what a commit has gone back to that is held.

use std::collections::BTreeMap;

use crate::history::{History, HistoryError, Query};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Record, StepKind};

/// What is said of the objects that wait for others, with their records.
pub(super) fn waiting(history: &History) -> Result<BTreeMap<ObjectKey, (Record, String)>, HistoryError> {
    let planned = Query { outcomes: [Outcome::Planned].into(), ..Query::default() };
    let mut waiting = BTreeMap::new();
    for record in history.records(&planned)? {
        let last = history.steps(record.id)?.into_iter().next_back();
        if let Some(step) = last.filter(|step| step.kind == StepKind::Waiting) {
            waiting.insert(record.object.clone(), (record, step.detail));
        }
    }
    Ok(waiting)
}

/// What the newest record of a held object says, where a newer commit has gone back to what is held.
pub(super) fn held_again(history: &History, source: &str, key: &ObjectKey) -> Result<Option<String>, HistoryError> {
    let newest = Query { limit: Some(1), ..Query::of(source, key) };
    let newest = history.records(&newest)?.into_iter().next();
    let again = newest.filter(|record| record.outcome == Outcome::Held).and_then(|record| record.reason);
    Ok(again.filter(|reason| reason.code == belay_core::rollout::HELD_AGAIN).map(|reason| reason.message))
}
