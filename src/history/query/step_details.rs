//! The details of a record's steps.

use crate::history::History;
use crate::history::error::HistoryError;
use belay_core::rollout::{Outcome, Record, StepKind, Trigger, Unnoticed, is_configuration};

/// Returns the dependencies of an open record: its last step names them.
///
/// # Errors
///
/// When the file can't be read.
pub fn waits_for(history: &History, record: &Record) -> Result<Option<String>, HistoryError> {
    if record.outcome == Outcome::Skipped {
        return Ok(record.reason.as_ref().map(|reason| reason.message.clone()));
    }
    if record.outcome.is_final() {
        return Ok(None);
    }
    let last = history.steps(record.id)?.into_iter().next_back();
    Ok(last.filter(|step| step.kind == StepKind::Waiting).map(|step| step.detail))
}

/// Returns the progress of an open record's rollout when that was recorded last, and the trouble with its pods so far.
///
/// # Errors
///
/// When the file can't be read.
pub fn progress(history: &History, record: &Record) -> Result<Option<String>, HistoryError> {
    if record.outcome.is_final() {
        return Ok(None);
    }
    let last = history.steps(record.id)?.into_iter().next_back();
    Ok(last.filter(|step| step.kind == StepKind::Progress).map(|step| step.detail))
}

/// Returns the workloads that read the configuration that a record changed, and were not rolled out for it.
///
/// # Errors
///
/// When the file can't be read.
pub fn unnoticed(history: &History, record: &Record) -> Result<Vec<Unnoticed>, HistoryError> {
    if !is_configuration(&record.object) {
        return Ok(Vec::new());
    }
    let steps = history.steps(record.id)?;
    let noted = steps.iter().rfind(|step| step.kind == StepKind::Unnoticed);
    Ok(noted.and_then(|step| serde_json::from_str(&step.detail).ok()).unwrap_or_default())
}

/// Returns the note of the person who asked for the change of a record.
///
/// # Errors
///
/// When the file can't be read.
pub fn note(history: &History, record: &Record) -> Result<Option<String>, HistoryError> {
    if record.trigger != Trigger::Retry {
        return Ok(None);
    }
    Ok(history.steps(record.id)?.into_iter().find(|step| step.kind == StepKind::Note).map(|step| step.detail))
}
