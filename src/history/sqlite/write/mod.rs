//! The daemon's writes: commits that came, records that begin (`begin`), their steps, their ends.

mod begin;
mod clock_set;
pub(in crate::history) mod entry;
pub(in crate::history) mod fallback_template;
mod folded;
mod kept_evidence;
mod kept_holds;
pub(in crate::history) mod noted_disputes;
pub(in crate::history) mod rebuild;
pub(in crate::history) mod retention;
mod timeline_plan;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::history::commit_notice::EndedRecord;
use crate::history::entry::{Update, cut};
use crate::history::error::HistoryError;
use crate::history::records::FetchTimes;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::notices::commit::note;
use crate::history::sqlite::query::baselines::{write_bake, write_baseline};
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::rollout::{Commit, CommitId, Outcome, Reason, RecordId, Step, StepKind, Trigger};

/// The number of steps of one record that may be mere progress. Later ones are not written down; steps of other kinds
/// always are.
const PROGRESS: i64 = 500;

impl History {
    /// Notes that commits have come to a source, with `head` the newest of them; the others were skipped for it.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn saw(&self, source: &str, head: &CommitId, commits: &[Commit], at: Timestamp) -> Result<(), HistoryError> {
        self.saw_fetched(source, head, commits, None, at)
    }

    /// Does the same, with the times of the fetch that found the head.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn saw_fetched(
        &self,
        source: &str,
        head: &CommitId,
        commits: &[Commit],
        fetch: Option<FetchTimes>,
        at: Timestamp,
    ) -> Result<(), HistoryError> {
        let (began, ended) = fetch.map(|fetch| (rows::time(fetch.began), rows::time(fetch.ended))).unzip();
        self.write("note the commits", |connection| {
            for commit in commits {
                write_commit(connection, commit)?;
                // One that was a head itself stays one.
                connection
                    .prepare_cached(
                        "INSERT INTO arrivals (source, \"commit\", head, at, fetch_began, fetched) VALUES (?, ?, ?, ?, ?, ?) ON \
                         CONFLICT DO UPDATE SET head = excluded.head, at = excluded.at, fetch_began = excluded.fetch_began, \
                         fetched = excluded.fetched WHERE head <> \"commit\"",
                    )?
                    .execute(params![source, commit.id.as_str(), head.as_str(), rows::time(at), began, ended])?;
            }
            Ok(())
        })
    }

    /// Writes down a step of a record.
    ///
    /// # Errors
    ///
    /// When there is no such record, or the file can't be written.
    pub fn step(&self, id: RecordId, step: &Step) -> Result<(), HistoryError> {
        self.write("write down a step", |connection| add_step(connection, id, step))
    }

    /// Writes new facts of a record.
    ///
    /// # Errors
    ///
    /// When there is no such record, when it is to be moved on after its end, and when the file can't be written.
    pub fn update(&self, id: RecordId, update: &Update) -> Result<(), HistoryError> {
        self.write("write down what is known", |connection| self::update(connection, id, update))
    }

    /// Ends a record, with a step that says so. Ending it again in the same way changes nothing.
    ///
    /// # Errors
    ///
    /// When there is no such record, when it has ended in another way, and when the file can't be written.
    pub fn finish(
        &self,
        id: RecordId,
        end: Outcome,
        reason: Option<&Reason>,
        at: Timestamp,
    ) -> Result<(), HistoryError> {
        self.write("write down an end", |connection| self::finish(connection, id, end, reason, at))
    }

    /// Corrects the end of a record whose workload is back, though its way back was said to have failed. Any other record stays
    /// as it is.
    ///
    /// # Errors
    ///
    /// When there is no such record, and when the file can't be written.
    pub fn correct_way_back(&self, id: RecordId, at: Timestamp) -> Result<(), HistoryError> {
        self.write("correct an end", |connection| match outcome(connection, id)? {
            (Outcome::RollbackFailed, _) => {
                let detail = "rolled back: complete on its last good revision after all".to_owned();
                write_end(connection, id, Outcome::RolledBack, None, &Step { at, kind: StepKind::Note, detail })
            }
            _ => Ok(()),
        })
    }
}

/// Adds a step to an existing record.
pub(super) fn add_step(connection: &Connection, id: RecordId, step: &Step) -> Result<(), Failure> {
    outcome(connection, id)?;
    write_step(connection, id, step)
}

/// Updates the facts about a record. A refusal comes before anything is written.
pub(super) fn update(connection: &Connection, id: RecordId, update: &Update) -> Result<(), Failure> {
    let (before, ended) = outcome(connection, id)?;
    if let Some(next) = update.outcome {
        if next.is_final() {
            return Err(HistoryError::WrongOutcome { id, outcome: next }.into());
        }
        if ended {
            return Err(HistoryError::Ended { id, outcome: before }.into());
        }
    }
    let Update { trigger, outcome, reason, manifest_hash, rolls_out, revision, .. } = update;
    let Update { back_to, back_to_revision, evidence, complaints, baseline, bake, steps, .. } = update;
    connection
        .prepare_cached(
            "UPDATE records SET outcome = coalesce(?2, outcome), reason = coalesce(?3, reason), message = \
             coalesce(?4, message), manifest_hash = coalesce(?5, manifest_hash), rolls_out = coalesce(?6, \
             rolls_out), revision = coalesce(?7, revision), back_to = coalesce(?8, back_to), back_to_revision = \
             coalesce(?9, back_to_revision), \"trigger\" = coalesce(?10, \"trigger\"), who = coalesce(?11, who), \
             named = coalesce(?12, named) WHERE number = ?1",
        )?
        .execute(params![
            id.0,
            outcome.map(rows::word),
            reason.as_ref().map(|reason| cut(reason.code.as_str())),
            reason.as_ref().map(|reason| cut(&reason.message)),
            manifest_hash,
            rolls_out,
            revision,
            back_to.as_ref().map(CommitId::as_str),
            back_to_revision,
            trigger.as_ref().map(Trigger::word),
            trigger.as_ref().and_then(Trigger::who),
            trigger.as_ref().and_then(Trigger::object).map(rows::json)
        ])?;
    if let Some(evidence) = evidence {
        kept_evidence::write(connection, id.0, evidence)?;
    }
    if let Some(complaints) = complaints {
        rows::write_complaints(connection, id.0, complaints)?;
    }
    if let Some(baseline) = baseline {
        write_baseline(connection, id, baseline)?;
    }
    if let Some(bake) = bake {
        write_bake(connection, id, bake)?;
    }
    steps.iter().try_for_each(|step| write_step(connection, id, step))
}

/// Ends a record. A refusal comes before anything is written.
pub(super) fn finish(
    connection: &Connection,
    id: RecordId,
    end: Outcome,
    reason: Option<&Reason>,
    at: Timestamp,
) -> Result<(), Failure> {
    if !end.is_final() {
        return Err(HistoryError::WrongOutcome { id, outcome: end }.into());
    }
    match outcome(connection, id)? {
        (before, true) if before == end => return Ok(()),
        (before, true) => return Err(HistoryError::Ended { id, outcome: before }.into()),
        (_, false) => {}
    }
    let detail = match reason {
        Some(reason) => format!("{end}: {reason}"),
        None => end.to_string(),
    };
    write_end(connection, id, end, reason, &Step { at, kind: StepKind::Ended, detail })
}

fn write_end(
    connection: &Connection,
    id: RecordId,
    end: Outcome,
    reason: Option<&Reason>,
    step: &Step,
) -> Result<(), Failure> {
    let at = step.at;
    let code = reason.map(|reason| cut(reason.code.as_str()));
    let message = reason.map(|reason| cut(&reason.message));
    let (plan, source, commit, trigger) = connection
        .prepare_cached(
            "UPDATE records SET outcome = ?2, reason = coalesce(?3, reason), message = coalesce(?4, message), ended \
             = ?5 WHERE number = ?1 RETURNING plan, source, \"commit\", \"trigger\", who, named",
        )?
        .query_row(params![id.0, rows::word(end), code, message, rows::time(at)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, rows::parsed(row, 2)?, rows::trigger(row, 3)?))
        })?;
    write_step(connection, id, step)?;
    end_plan(connection, plan, at)?;
    note(connection, &EndedRecord { plan, source: &source, commit: &commit, outcome: end, trigger: &trigger }, at)
}

pub(super) fn write_commit(connection: &Connection, commit: &Commit) -> Result<(), Failure> {
    let Commit { id, subject, author, authored, committed, parents, trailers } = commit;
    connection
        .prepare_cached("INSERT OR IGNORE INTO people (name, email) VALUES (?, ?)")?
        .execute(params![author.name, author.email])?;
    let parents: Vec<&str> = parents.iter().map(CommitId::as_str).collect();
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO commits (\"commit\", subject, author, authored, committed, parents, trailers) VALUES \
             (?1, ?2, (SELECT number FROM people WHERE name = ?3 AND email = ?4), ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            id.as_str(),
            subject,
            author.name,
            author.email,
            rows::time(*authored),
            rows::time(*committed),
            parents.join(" "),
            rows::json(trailers)
        ])?;
    Ok(())
}

/// Ends a plan when no record of it is open any more.
fn end_plan(connection: &Connection, plan: i64, at: Timestamp) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "UPDATE plans SET ended = ?2 WHERE number = ?1 AND ended IS NULL AND NOT EXISTS (SELECT 1 FROM records WHERE \
             plan = ?1 AND ended IS NULL)",
        )?
        .execute(params![plan, rows::time(at)])?;
    Ok(())
}

/// Returns the outcome of a record, and true if it has ended.
fn outcome(connection: &Connection, id: RecordId) -> Result<(Outcome, bool), Failure> {
    let found = connection
        .prepare_cached("SELECT outcome FROM records WHERE number = ?")?
        .query_row([id.0], |row| rows::worded::<Outcome>(row, 0))
        .optional()?;
    let outcome = found.ok_or(HistoryError::NoRecord { id })?;
    Ok((outcome, outcome.is_final()))
}

fn write_step(connection: &Connection, id: RecordId, step: &Step) -> Result<(), Failure> {
    let number: i64 = connection
        .prepare_cached("SELECT coalesce(max(number), 0) + 1 FROM steps WHERE record = ?")?
        .query_row([id.0], |row| row.get(0))?;
    if step.kind == StepKind::Progress && number > PROGRESS {
        return Ok(());
    }
    connection
        .prepare_cached("INSERT INTO steps (record, number, at, step, detail) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![id.0, number, rows::time(step.at), rows::word(step.kind), cut(&step.detail)])?;
    Ok(())
}
