//! A plan is written down before anything of it is begun.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::timeline_plan::TimelinePlans;
use super::{end_plan, kept_evidence};
use crate::history::commit_notice::EndedRecord;
use crate::history::entry::cut;
use crate::history::error::HistoryError;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::notices::commit::{note, note_begun};
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::rollout::{CommitId, Record, RecordId, Trigger};

impl History {
    /// Writes down a plan before the first write of it: one record for each object. Returns their numbers, in order.
    ///
    /// Beginning the plan of the same head again, as a daemon does that was killed in between, begins nothing twice: a
    /// commit's record for an object is taken up as it is. Every other trigger begins a new record.
    ///
    /// # Errors
    ///
    /// When the file can't be written; then nothing of the plan is.
    pub fn begin(
        &self,
        source: &str,
        head: &CommitId,
        records: &[Record],
        at: Timestamp,
    ) -> Result<Vec<RecordId>, HistoryError> {
        self.write("write down the plan", |connection| {
            let plan = plan(connection, source, head, at)?;
            let mut timeline = TimelinePlans::new(source, head, plan);
            let mut ids = Vec::with_capacity(records.len());
            for record in records {
                let there = if record.trigger.is_commit() { begun(connection, plan, record)? } else { None };
                ids.push(match there {
                    Some(id) => id,
                    None => {
                        let plans = RecordPlans { plan, timeline_plan: Some(timeline.of(connection, record)?) };
                        insert(connection, plans, source, record, at)?
                    }
                });
            }
            end_plan(connection, plan, at)?;
            note_begun(connection, plan, source, records, at)?;
            note_ends(connection, plan, source, records, at)?;
            Ok(ids.into_iter().map(RecordId).collect())
        })
    }
}

/// Notes the outcomes of commits of records that had ended when they were written down: each commit once, by its worst.
fn note_ends(
    connection: &Connection,
    plan: i64,
    source: &str,
    records: &[Record],
    at: Timestamp,
) -> Result<(), Failure> {
    let mut by_commit: BTreeMap<&CommitId, EndedRecord<'_>> = BTreeMap::new();
    for Record { commit, outcome, trigger, .. } in records.iter().filter(|record| record.outcome.is_final()) {
        let ended = EndedRecord { plan, source, commit, outcome: *outcome, trigger };
        by_commit.entry(commit).and_modify(|known| *known = known.worse(ended)).or_insert(ended);
    }
    by_commit.values().try_for_each(|ended| note(connection, ended, at))
}

/// Returns the plan of a source's present head.
fn plan(connection: &Connection, source: &str, head: &CommitId, at: Timestamp) -> Result<i64, Failure> {
    let newest: Option<(i64, String)> = connection
        .prepare_cached("SELECT number, head FROM plans WHERE source = ? ORDER BY number DESC LIMIT 1")?
        .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match newest {
        Some((number, newest)) if newest == head.as_str() => Ok(number),
        _ => {
            // A rebuilt record has no head.
            let is_first = newest.is_none_or(|(_, head)| head.is_empty());
            connection
                .prepare_cached("INSERT INTO plans (source, head, begun, is_first) VALUES (?, ?, ?, ?)")?
                .execute(params![source, head.as_str(), rows::time(at), is_first])?;
            Ok(connection.last_insert_rowid())
        }
    }
}

/// Returns the record of a commit for an object that a plan has already.
fn begun(connection: &Connection, plan: i64, record: &Record) -> Result<Option<i64>, Failure> {
    let object = &record.object;
    let found = connection
        .prepare_cached(
            "SELECT number FROM records WHERE plan = ? AND name = ? AND kind = ? AND \"group\" = ? AND namespace IS ? AND \
             \"commit\" = ? AND (\"trigger\" IN ('commit', 'new-image', 'config-change') OR \"trigger\" = 'restart' AND who IS NULL)",
        )?
        .query_row(
            params![plan, object.name, object.kind, object.group, object.namespace, record.commit.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    Ok(found)
}

/// The plans that a record belongs to.
#[derive(Clone, Copy)]
pub(super) struct RecordPlans {
    /// The plan under which it is written.
    pub plan: i64,
    /// The plan in whose line of the timeline it counts.
    pub timeline_plan: Option<i64>,
}

pub(super) fn insert(
    connection: &Connection,
    RecordPlans { plan, timeline_plan }: RecordPlans,
    source: &str,
    record: &Record,
    at: Timestamp,
) -> Result<i64, Failure> {
    // When it was over is not known of one that was rebuilt, only that it is.
    let over = if record.trigger == Trigger::Rebuilt { record.started } else { at };
    let ended = record.ended.or(record.outcome.is_final().then_some(over));
    let (object, place, reason) = (&record.object, record.place.as_ref(), record.reason.as_ref());
    connection
        .prepare_cached(
            "INSERT INTO records (plan, timeline_plan, source, \"commit\", \"group\", kind, namespace, name, path, line, \"column\", \
             \"trigger\", who, named, outcome, reason, message, manifest_hash, rolls_out, revision, back_to, back_to_revision, \
             started, ended, rendered_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            plan,
            timeline_plan,
            source,
            record.commit.as_str(),
            object.group,
            object.kind,
            object.namespace,
            object.name,
            place.map(|place| &*place.path),
            place.map(|place| place.line),
            place.map(|place| place.column),
            record.trigger.word(),
            record.trigger.who(),
            record.trigger.object().map(rows::json),
            rows::word(record.outcome),
            reason.map(|reason| cut(reason.code.as_str())),
            reason.map(|reason| cut(&reason.message)),
            record.manifest_hash,
            record.rolls_out,
            record.revision,
            record.back_to.as_ref().map(CommitId::as_str),
            record.back_to_revision,
            rows::time(record.started),
            ended.filter(|_| record.outcome.is_final()).map(rows::time),
            record.rendered_by
        ])?;
    let id = connection.last_insert_rowid();
    if !record.complaints.is_empty() {
        rows::write_complaints(connection, id, &record.complaints)?;
    }
    if let Some(evidence) = &record.evidence {
        kept_evidence::write(connection, id, evidence)?;
    }
    Ok(id)
}
