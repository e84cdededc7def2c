//! `belay status --commit C --wait`: for pipelines, until everything that a commit touched is through, or it is known that it
//! touched nothing here.

use std::collections::BTreeSet;
use std::time::Duration;

use super::pending_retry::PendingRetry;
use super::wait_progress::{NoUse, WaitProgress};
use crate::cli::Globals;
use crate::cli::commands::show::why;
use crate::cli::exit::Exit;
use crate::cli::output::activity::Activity;
use crate::cli::output::answer::{RecordAnswer, WaitAnswer};
use crate::cli::output::{Format, counted, progress, say, say_value};
use crate::cli::session::history_view::HistoryView;
use crate::cli::session::repositories::{Repositories, ambiguous};
use crate::config::Span;
use crate::git::Relation;
use crate::history::query::step_details;
use crate::history::{History, HistoryError, Query, Resolved};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Outcome, Record, Trigger, is_well};

/// The period between two reads of the history.
const ASK: Duration = Duration::from_millis(500);
/// The number of reads in a row without a history before that is reported: a daemon that starts has none for a moment.
const TOLD: u32 = 10;
/// The number of reads in a row for which a commit must have touched nothing: it arrives a moment before its plan is
/// written.
pub(super) const SEEN: u32 = 3;

/// The result for a commit.
pub(super) struct Through {
    pub(super) exit: Exit,
    pub(super) commit: CommitId,
    pub(super) records: Vec<Record>,
    /// The lines about it.
    pub(super) lines: Vec<String>,
}

/// Waits until everything that a commit touched is through: done, failed or rolled back, or for too long.
pub(in crate::cli) async fn wait(
    globals: &Globals,
    commit: &str,
    timeout: Span,
    output: Format,
) -> anyhow::Result<Exit> {
    let location = globals.history_to_look_at()?;
    let folder = location.folder();
    // `HEAD` and names of branches mean a commit of the working copy here.
    let named = Repositories::at_hand(folder).named(commit)?;
    let (mut missing, mut untouched) = (0, 0);
    let (mut telling, mut pending_retry) = (WaitProgress::default(), PendingRetry::default());
    let activity = Activity::begin();
    let waiting = async {
        loop {
            activity.show(&format!("waiting for commit {commit}{}", telling.count()));
            match location.read() {
                Ok(history) => {
                    let found = through(&history, named.as_ref(), commit)?;
                    let git = Repositories::at_hand(folder);
                    let found = match found {
                        Some(found) => Some(found),
                        None => untouched_by(&history, &git, named.as_ref(), commit)?.filter(|_| {
                            untouched += 1;
                            untouched >= SEEN
                        }),
                    };
                    if let Some(found) = found {
                        let records = (&history, &found.records[..]);
                        if found.exit == Exit::Done
                            || !pending_retry.is_awaited(globals, &mut telling.cluster, records).await?
                        {
                            return anyhow::Ok((found, history));
                        }
                        tokio::time::sleep(ASK).await;
                        continue;
                    }
                    let records = records_of(&history, named.as_ref(), commit)?;
                    if let Some(no_use) = telling.look(globals, (folder, &history), &records).await {
                        let id = named.clone().or_else(|| records.first().map(|record| record.commit.clone()));
                        return Ok((no_use_to_wait(no_use, id, records)?, history));
                    }
                }
                // A daemon that was only just started is making it.
                Err(error @ (HistoryError::Missing { .. } | HistoryError::Older { found: 0, .. })) => {
                    missing += 1;
                    if missing == TOLD {
                        progress(format!("{error}; waiting for it"));
                    }
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(ASK).await;
        }
    };
    let waited = tokio::time::timeout(timeout.0, waiting).await;
    drop(activity);
    match waited {
        Ok(found) => {
            let (found, history) = found?;
            let view = HistoryView::from(history);
            let records = found.records.iter().map(|record| view.answer(record)).collect();
            answer(found, records, output)
        }
        Err(_) => {
            let open = not_through(globals, named.as_ref()).await;
            timed_out((commit, named.as_ref()), timeout, &open, output)
        }
    }
}

/// Says that a commit is not through in time, and which of its objects are not.
pub(super) fn timed_out(
    (commit, named): (&str, Option<&CommitId>),
    timeout: Span,
    open: &[String],
    output: Format,
) -> anyhow::Result<Exit> {
    let mut message = format!("commit {commit} is not through after {timeout}");
    message.extend(open.iter().map(|line| format!("\n  {line}")));
    progress(format!("error: {message}"));
    if matches!(output, Format::Json | Format::Yaml) {
        let commit = named.map_or_else(|| commit.to_owned(), ToString::to_string);
        let lines = message.lines().map(|line| line.trim().to_owned()).collect();
        let answer = WaitAnswer { commit, complete: false, timed_out: true, messages: lines, records: Vec::new() };
        say_value(&answer, output)?;
    }
    Ok(Exit::TimedOut)
}

/// Returns the answer where waiting is of no use.
fn no_use_to_wait(no_use: NoUse, commit: Option<CommitId>, records: Vec<Record>) -> anyhow::Result<Through> {
    let (exit, lines) = match no_use {
        NoUse::Standby(why) => (Exit::Error, vec![format!("this daemon does not roll the commit out: {why}")]),
        NoUse::Stuck(objects) => (Exit::No, objects),
    };
    match commit {
        Some(commit) => Ok(Through { exit, commit, records, lines }),
        None => anyhow::bail!(lines.join("\n")),
    }
}

/// Returns the records of a commit, the newest first.
fn records_of(history: &History, named: Option<&CommitId>, commit: &str) -> Result<Vec<Record>, HistoryError> {
    let digits = named.map_or(commit, CommitId::as_str);
    history.records(&Query { commit: Some(digits.to_owned()), ..Query::default() })
}

/// Prints the result for a commit, whose records these are.
pub(super) fn answer(found: Through, records: Vec<RecordAnswer>, output: Format) -> anyhow::Result<Exit> {
    match output {
        Format::Json | Format::Yaml => {
            let commit = found.commit.to_string();
            let complete = found.exit == Exit::Done;
            say_value(&WaitAnswer { commit, complete, timed_out: false, messages: found.lines, records }, output)?;
        }
        Format::Name => say(found.commit.as_str()),
        Format::Table | Format::Wide => found.lines.iter().for_each(say),
    }
    Ok(found.exit)
}

fn through(history: &History, named: Option<&CommitId>, commit: &str) -> anyhow::Result<Option<Through>> {
    let digits = named.map_or(commit, CommitId::as_str);
    if let Resolved::Several(ids) = history.resolve(digits)? {
        return Err(ambiguous(digits, &ids, |id| history.commit(id).ok().flatten()));
    }
    Ok(ended(records_of(history, named, commit)?))
}

/// Returns the result for a commit, by its records, the newest first; `None` while one of them is open.
pub(super) fn ended(records: Vec<Record>) -> Option<Through> {
    if records.is_empty() || !records.iter().all(|record| record.outcome.is_final()) {
        return None;
    }
    // An object that was passed over or rolled back at first may be complete by now: the newest record of an object
    // counts.
    let mut seen = BTreeSet::new();
    let counts = records.iter().filter(|record| !keeps_what_is_held(record, &records));
    let newest = counts.filter(|record| seen.insert((&record.source, &record.object)));
    let mut exit = Exit::Done;
    let mut lines = Vec::new();
    for record in newest.filter(|record| !is_well(record.outcome)) {
        let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("{}: {}{reason}", record.object, record.outcome));
        exit = Exit::No;
    }
    let objects: BTreeSet<&ObjectKey> = records.iter().map(|record| &record.object).collect();
    let known = |object: &&ObjectKey| {
        records.iter().any(|record| record.object == **object && record.outcome != Outcome::Unknown)
    };
    for object in objects.iter().filter(|object| !known(object)) {
        lines.push(format!("{object}: what became of it is not known any more: the history was lost"));
        exit = if exit == Exit::Done { Exit::Error } else { exit };
    }
    let commit = records[0].commit.clone();
    if exit == Exit::Done {
        lines.push(format!("commit {} is complete: {}", commit.short(), counted(objects.len(), "object")));
    }
    Some(Through { exit, commit, records, lines })
}

/// Returns true for a correction of a workload that the commit had failed on: it restored the version before the commit.
pub(super) fn keeps_what_is_held(record: &Record, records: &[Record]) -> bool {
    let of_object = |other: &&Record| other.object == record.object && other.source == record.source;
    let is_correction = |record: &Record| matches!(record.trigger, Trigger::Drift(_)) && is_well(record.outcome);
    let older = || records.iter().filter(of_object).filter(|other| other.id < record.id);
    let last = || older().find(|other| !is_correction(other)).map(|other| other.outcome);
    is_correction(record) && matches!(last(), Some(Outcome::RolledBack | Outcome::RollbackFailed))
}

/// Returns true when a commit has come to every source that has it, and none has anything to do about it.
fn untouched_by(
    history: &History,
    git: &Repositories,
    named: Option<&CommitId>,
    commit: &str,
) -> anyhow::Result<Option<Through>> {
    let id = match (named, history.resolve(commit)?) {
        (Some(id), _) => id.clone(),
        (None, Resolved::One(id)) => id,
        _ => return Ok(None),
    };
    if !history.records(&Query { commit: Some(id.to_string()), limit: Some(1), ..Query::default() })?.is_empty() {
        return Ok(None);
    }
    let arrived: BTreeSet<String> = history.arrivals(&id)?.into_iter().map(|arrival| arrival.source).collect();
    let mut here = !arrived.is_empty();
    for (source, mirror) in git.mirrors.iter().filter(|(source, _)| !arrived.contains(source)) {
        // Another repository has nothing to do with it; the same one may only not have been asked yet.
        let same = git.mirrors.iter().any(|(other, of)| arrived.contains(other) && of.location() == mirror.location());
        if !mirror.contains(&id)? {
            match same {
                true => return Ok(None),
                false => continue,
            }
        }
        let Some(head) = history.heads(source)?.recorded else { return Ok(None) };
        match mirror.relation(&id, &head) {
            Ok(Relation::Forward | Relation::Same) => here = true,
            // It is not in the source's history, or not yet.
            _ if same => {}
            _ => return Ok(None),
        }
    }
    if !here {
        return Ok(None);
    }
    let lines = vec![nothing_to_wait_for(&id), why::nothing(history, git, &id, &why::BlockedSources::new())?];
    Ok(Some(Through { exit: Exit::Done, commit: id, records: Vec::new(), lines }))
}

/// Returns the line about a commit that changes nothing.
pub(super) fn nothing_to_wait_for(id: &CommitId) -> String {
    format!("commit {} changes nothing here, so there is nothing to wait for.", id.short())
}

/// Returns the unfinished objects of a commit, with the reasons: a waiting one names its dependencies.
async fn not_through(globals: &Globals, id: Option<&CommitId>) -> Vec<String> {
    let (Ok(location), Some(id)) = (globals.history_to_look_at(), id) else { return Vec::new() };
    let Ok(history) = location.read() else { return Vec::new() };
    let query = Query { commit: Some(id.to_string()), ..Query::default() };
    let records = history.records(&query).unwrap_or_default();
    let open = records.iter().filter(|record| !record.outcome.is_final());
    let mut lines: Vec<String> = open
        .map(|record| {
            let waits_for = step_details::waits_for(&history, record).ok().flatten();
            let waits_for = waits_for.map(|waits_for| format!(": {waits_for}")).unwrap_or_default();
            crate::cli::output::plain(&format!("{}: {}{waits_for}", record.object, record.outcome))
        })
        .collect();
    if records.is_empty() {
        let blocked = why::blocked(location.folder(), &history).await;
        let why = why::nothing(&history, &Repositories::at_hand(location.folder()), id, &blocked).unwrap_or_default();
        lines.extend(why.lines().map(str::to_owned));
    }
    lines
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_newest_record_of_an_object_counts() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let (history, _) = History::open(folder.path(), now).unwrap();
        let commit: CommitId = "5d6e7f8".repeat(6)[..40].parse().unwrap();
        let object = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
        };
        let begin = |trigger| {
            let planned = Record { trigger, ..Record::planned("shop", &commit, object.clone(), now) };
            history.begin("shop", &commit, &[planned], now).unwrap()[0]
        };
        let exit = || through(&history, Some(&commit), "").unwrap().map(|found| found.exit);

        history.finish(begin(Trigger::Commit), Outcome::RolledBack, None, now).unwrap();
        assert_eq!(exit(), Some(Exit::No));
        // A correction restores the held version: the commit has failed all the same.
        history.finish(begin(Trigger::Drift("kubectl".to_owned())), Outcome::Complete, None, now).unwrap();
        assert_eq!(exit(), Some(Exit::No));
        let retried = begin(Trigger::Retry);
        assert_eq!(exit(), None);
        history.finish(retried, Outcome::Complete, None, now).unwrap();
        assert_eq!(exit(), Some(Exit::Done));
    }
}
