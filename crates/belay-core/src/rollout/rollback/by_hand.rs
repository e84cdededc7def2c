//! A rollback by a person is respected: only the hold, and the record of it, are left to do.

use jiff::Timestamp;
use serde_json::Value;

use super::Revision;
use super::held::hold_about;
use super::plan::{Rollback, RollbackKind, RollbackPlan};
use crate::rollout::{Hold, Reason, ReasonCode, TemplateMarks, Wanted, template};

/// Returns the plan where somebody (`by`) has brought a revision back with another tool: its template stays, and the
/// manifest is held.
#[must_use]
pub fn restored_by_hand(wanted: &Wanted, revision: &Revision, by: &str, now: Timestamp) -> RollbackPlan {
    let message = format!("taken back by hand ({by}) to revision {}", revision.number);
    let reason = Reason::new(ReasonCode::UndoneByHand, message);
    let hold = hold_about(wanted, &reason, now, &revision.template);
    RollbackPlan::GoesBack(Box::new(Rollback {
        kind: RollbackKind::ByHand,
        hold: hold.about(&revision.template, &wanted.ignored_fields),
        reason,
        manifest: wanted.manifest.value(),
        template: Some(revision.template.clone()),
        marks: revision.marks.clone(),
        revision: Some(revision.number),
        commit: revision.marks.commit(),
        to: "as somebody did by hand".to_owned(),
        with: Vec::new(),
        stays: Vec::new(),
    }))
}

/// Returns the plan if `belay undo` has left its hold on the manifest of `wanted`, and the template that the hold names
/// is live.
#[must_use]
pub fn held_by_undo(wanted: &Wanted, live: &Value) -> Option<RollbackPlan> {
    let hold = Hold::on(live)?;
    let by = hold.by.as_deref()?;
    let in_force = template(live).is_some_and(|present| hold.is_about(present));
    (in_force && hold.keeps(&wanted.hash, wanted.config.as_deref())).then(|| RollbackPlan::WasUndone {
        reason: Reason::new(ReasonCode::UndoneByHand, format!("{} by {by}", hold.reason)),
        back_to: TemplateMarks::on(live).commit(),
        to: format!("as {by} did by hand"),
    })
}
