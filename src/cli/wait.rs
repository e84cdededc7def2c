//! `belay status --commit C --wait`: for pipelines, until everything that a commit touched is through.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Globals;
use super::exit::Exit;
use super::output::{counted, progress, say};
use super::repositories::ambiguous;
use crate::config::Span;
use crate::history::{History, HistoryError, Query, Resolved};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Record, is_well};

/// How often the history is asked.
const ASK: Duration = Duration::from_millis(500);

/// Waits until everything that a commit touched is through: done, failed or rolled back, or for too long.
pub(super) async fn wait(globals: &Globals, commit: &str, timeout: Span) -> anyhow::Result<Exit> {
    let folder = globals.state_folder(None)?;
    let waiting = async {
        let mut told = false;
        loop {
            match History::read_only(&folder) {
                Ok(history) => {
                    if let Some(exit) = through(&history, commit)? {
                        return anyhow::Ok(exit);
                    }
                }
                // A daemon that was only just started is making it.
                Err(error @ (HistoryError::Missing { .. } | HistoryError::Older { found: 0, .. })) => {
                    if !std::mem::replace(&mut told, true) {
                        progress(format!("{error}; waiting for it"));
                    }
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(ASK).await;
        }
    };
    match tokio::time::timeout(timeout.0, waiting).await {
        Ok(exit) => exit,
        Err(_) => {
            progress(format!("error: commit {commit} is not through after {timeout}"));
            Ok(Exit::TimedOut)
        }
    }
}

fn through(history: &History, commit: &str) -> anyhow::Result<Option<Exit>> {
    if let Resolved::Several(ids) = history.resolve(commit)? {
        return Err(ambiguous(commit, &ids, |id| history.commit(id).ok().flatten()));
    }
    let records = history.records(&Query { commit: Some(commit.to_owned()), ..Query::default() })?;
    if records.is_empty() || !records.iter().all(|record| record.outcome.is_final()) {
        return Ok(None);
    }
    // What was passed over at first may be through by now.
    let made_good = |skipped: &Record| {
        let newest = records.iter().find(|record| record.object == skipped.object);
        skipped.outcome == Outcome::Skipped && newest.is_some_and(|newest| is_well(newest.outcome))
    };
    let mut exit = Exit::Done;
    for record in records.iter().filter(|record| !is_well(record.outcome) && !made_good(record)) {
        let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        say(format!("{}: {}{reason}", record.object, record.outcome));
        exit = Exit::No;
    }
    let objects: BTreeSet<&ObjectKey> = records.iter().map(|record| &record.object).collect();
    let known = |object: &&ObjectKey| {
        records.iter().any(|record| record.object == **object && record.outcome != Outcome::Unknown)
    };
    for object in objects.iter().filter(|object| !known(object)) {
        say(format!("{object}: what became of it is not known any more: the history was lost"));
        exit = if exit == Exit::Done { Exit::Error } else { exit };
    }
    if exit == Exit::Done {
        say(format!("commit {} is complete: {}", records[0].commit.short(), counted(objects.len(), "object")));
    }
    Ok(Some(exit))
}
