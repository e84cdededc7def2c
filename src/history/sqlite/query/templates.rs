//! The templates of a workload by commit, and those to which it can go back.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::records::completed;
use crate::history::error::HistoryError;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use crate::history::sqlite::write::fallback_template::forget_fallback_template;
use crate::history::templates::{KeptTemplate, LastGood, SeenRevision, unwell_among};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ReasonCode, Record};

/// The number of templates that are kept for each workload. The last good one stays, however many have failed since.
const KEPT: i64 = 20;

/// Writes a template down, and forgets those beyond the number that is kept.
pub(in crate::history) fn write_kept(connection: &Connection, kept: &KeptTemplate) -> Result<(), Failure> {
    let KeptTemplate { source, object, commit, text, at } = kept;
    let hash = kept.hash();
    connection
        .prepare_cached("INSERT OR IGNORE INTO templates (hash, template) VALUES (?, ?)")?
        .execute(params![hash, text])?;
    let ObjectKey { group, kind, namespace, name } = object;
    connection
        .prepare_cached(
            "INSERT INTO applied (source, \"group\", kind, namespace, name, \"commit\", template, at) VALUES (?, ?, ?, \
             ?, ?, ?, ?, ?)",
        )?
        .execute(params![source, group, kind, namespace, name, commit.as_str(), hash, rows::time(*at)])?;
    let newest = connection.last_insert_rowid();
    forget_fallback_template(connection, source, object)?;
    forget(connection, source, object, FORGET_SAME, params![commit.as_str(), newest])?;
    let good = last_good(connection, source, object, &[])?.map(|record| record.commit.to_string());
    forget(connection, source, object, FORGET_OLD, params![good, KEPT])
}

impl History {
    /// Keeps the pod template that was applied for a commit, each different one once.
    ///
    /// # Errors
    ///
    /// [`HistoryError::Secret`] for a Secret, [`HistoryError::TooLarge`] beyond 512 KiB, and when the file can't be
    /// written.
    pub fn keep_template(
        &self,
        source: &str,
        object: &ObjectKey,
        commit: &CommitId,
        template: &Value,
        at: Timestamp,
    ) -> Result<(), HistoryError> {
        let kept = KeptTemplate::of(source, object, commit, template, at)?;
        self.write("keep a template", |connection| write_kept(connection, &kept))
    }

    /// Returns the pod template that was applied for a commit, if it was kept.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn template(&self, source: &str, object: &ObjectKey, commit: &CommitId) -> Result<Option<Value>, HistoryError> {
        self.read("look for a template", |connection| template(connection, source, object, commit))
    }

    /// Returns the pod templates of a workload that were seen complete, and that no other had taken the place of at a time.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn templates_since(
        &self,
        source: &str,
        object: &ObjectKey,
        since: Timestamp,
    ) -> Result<Vec<Value>, HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        self.read("look for the templates of late", |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT templates.template FROM (SELECT template, lead(at) OVER (ORDER BY number) AS until FROM applied \
                 WHERE {OBJECT}) AS lately JOIN templates ON templates.hash = lately.template WHERE until IS NULL OR until \
                 >= ?6"
            ))?;
            let found = statement
                .query_map(params![source, name, kind, group, namespace, rows::time(since)], |row| row.get(0))?;
            let texts: Vec<String> = found.collect::<Result<_, _>>()?;
            Ok(texts.iter().map(|text| rows::from_json(0, text)).collect::<Result<_, _>>()?)
        })
    }

    /// Returns the newest record of a workload that rolled out and was seen complete, unless the same manifest has
    /// failed since, or was not well any more when another took its place.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn last_good(&self, source: &str, object: &ObjectKey) -> Result<Option<LastGood>, HistoryError> {
        self.good(source, object, &[])
    }

    /// Returns the same, of other commits than these.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn last_good_beside(
        &self,
        source: &str,
        object: &ObjectKey,
        commits: &[CommitId],
    ) -> Result<Option<LastGood>, HistoryError> {
        self.good(source, object, commits)
    }

    fn good(&self, source: &str, object: &ObjectKey, beside: &[CommitId]) -> Result<Option<LastGood>, HistoryError> {
        self.read("look for the last good revision", |connection| {
            let Some(record) = last_good(connection, source, object, beside)? else { return Ok(None) };
            let template = template(connection, source, object, &record.commit)?;
            let record = completed(connection, vec![record])?.pop();
            Ok(record.map(|record| LastGood { record, template }))
        })
    }
}

impl History {
    /// Returns the records of a workload's revisions that were not well when they were replaced, or failed and were
    /// left, and were not complete again since: the newest of those with one commit, or with one manifest and the same
    /// configuration, stands for all of them. A record that went with another object of its commit says nothing. At most
    /// 500 are read.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn unwell(&self, source: &str, object: &ObjectKey) -> Result<Vec<Record>, HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        let read: Vec<SeenRevision> = self.read("look for what was not well", |connection| {
            let text = format!(
                "SELECT {}, EXISTS (SELECT 1 FROM steps AS seen, steps AS back WHERE seen.record = records.number AND back.record = \
                 records.number AND seen.step = 'unwell' AND back.step = 'went-back' AND back.number < seen.number) AS \
                 way_back, outcome = 'failed' AND coalesce(reason, '') <> '{}' OR EXISTS (SELECT 1 FROM steps WHERE \
                 steps.record = records.number AND steps.step = 'unwell') AS unwell FROM records INDEXED BY \
                 records_rolled_out WHERE source = ?1 AND name = ?2 AND rolls_out = 1 AND kind = ?3 AND \"group\" = ?4 AND \
                 namespace IS ?5 AND (outcome = 'complete' OR unwell OR \"trigger\" = 'config-change') ORDER BY number DESC \
                 LIMIT 500",
                rows::RECORD,
                ReasonCode::CommitFailed
            );
            let mut statement = connection.prepare_cached(&text)?;
            let read = |row: &Row<'_>| {
                Ok(SeenRevision { record: rows::record(row)?, unwell: row.get("unwell")?, way_back: row.get("way_back")? })
            };
            let found = statement.query_map(params![source, name, kind, group, namespace], read)?;
            Ok(found.collect::<Result<_, _>>()?)
        })?;
        Ok(unwell_among(read))
    }
}

/// An object among those of its source and name.
const OBJECT: &str = "source = ?1 AND name = ?2 AND kind = ?3 AND \"group\" = ?4 AND namespace IS ?5";

const FORGET_SAME: &str = "\"commit\" = ?6 AND number <> ?7";
const FORGET_OLD: &str = "\"commit\" IS NOT ?6 AND number NOT IN (SELECT number FROM applied WHERE source = ?1 AND name = \
                          ?2 AND kind = ?3 AND \"group\" = ?4 AND namespace IS ?5 ORDER BY number DESC LIMIT ?7)";

fn forget(
    connection: &Connection,
    source: &str,
    object: &ObjectKey,
    which: &str,
    more: &[&dyn rusqlite::ToSql],
) -> Result<(), Failure> {
    let ObjectKey { group, kind, namespace, name } = object;
    let mut values: Vec<&dyn rusqlite::ToSql> = vec![&source, name, kind, group, namespace];
    values.extend(more);
    let text = format!("DELETE FROM applied WHERE {OBJECT} AND {which} RETURNING template");
    let mut statement = connection.prepare_cached(&text)?;
    let gone: Result<Vec<String>, _> = statement.query_map(&*values, |row| row.get(0))?.collect();
    forget_unused(connection, &gone?)
}

/// Deletes those of these templates that nobody had but who has just let them go.
pub(in crate::history) fn forget_unused(connection: &Connection, hashes: &[String]) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM templates WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM applied WHERE template = ?1)",
    )?;
    for hash in hashes {
        statement.execute([hash])?;
    }
    Ok(())
}

fn template(
    connection: &Connection,
    source: &str,
    object: &ObjectKey,
    commit: &CommitId,
) -> Result<Option<Value>, Failure> {
    let ObjectKey { group, kind, namespace, name } = object;
    let found: Option<String> = connection
        .prepare_cached(&format!(
            "SELECT templates.template FROM applied JOIN templates ON templates.hash = applied.template WHERE {OBJECT} AND \
             \"commit\" = ?6 ORDER BY number DESC LIMIT 1"
        ))?
        .query_row(params![source, name, kind, group, namespace, commit.as_str()], |row| row.get(0))
        .optional()?;
    Ok(found.map(|text| rows::from_json(0, &text)).transpose()?)
}

/// Returns the condition that the record `later` is of one commit with `records`, or of one manifest with the same
/// configuration: a change of that alone rolls out the same manifest.
fn is_same_as(later: &str) -> String {
    format!(
        "({later}.\"commit\" = records.\"commit\" OR {later}.manifest_hash = records.manifest_hash AND NOT EXISTS (SELECT 1 \
         FROM records AS turned INDEXED BY records_rolled_out WHERE turned.source = ?1 AND turned.name = ?2 AND \
         turned.rolls_out = 1 AND turned.kind = ?3 AND turned.\"group\" = ?4 AND turned.namespace IS ?5 AND \
         turned.\"trigger\" = 'config-change' AND turned.number > records.number AND turned.number <= {later}.number))"
    )
}

/// Returns the newest good record, of other commits than those `beside`.
fn last_good(
    connection: &Connection,
    source: &str,
    object: &ObjectKey,
    beside: &[CommitId],
) -> Result<Option<Record>, Failure> {
    let ObjectKey { group, kind, namespace, name } = object;
    // A revision that was unhealthy when it was replaced is not good before it is complete again.
    let unwell = format!(
        "SELECT 1 FROM records AS ill INDEXED BY records_rolled_out JOIN steps ON steps.record = ill.number AND \
         steps.step = 'unwell' WHERE ill.source = ?1 AND ill.name = ?2 AND ill.rolls_out = 1 AND ill.kind = ?3 AND \
         ill.\"group\" = ?4 AND ill.namespace IS ?5 AND ill.number >= records.number AND {}",
        is_same_as("ill")
    );
    let text = format!(
        "SELECT {} FROM records INDEXED BY records_rolled_out WHERE records.source = ?1 AND records.name = ?2 AND \
         records.rolls_out = 1 AND records.kind = ?3 AND records.\"group\" = ?4 AND records.namespace IS ?5 AND \
         records.outcome = 'complete' AND records.\"commit\" NOT IN (SELECT value FROM json_each(?6)) AND NOT EXISTS \
         (SELECT 1 FROM records AS later INDEXED BY records_rolled_out WHERE later.source = ?1 AND later.name = ?2 AND \
         later.rolls_out = 1 AND later.kind = ?3 AND later.\"group\" = ?4 AND later.namespace IS ?5 AND later.number > \
         records.number AND later.outcome IN ('failed', 'rolled-back', 'rollback-failed') AND {}) AND NOT EXISTS \
         ({unwell}) ORDER BY records.number DESC LIMIT 1",
        rows::RECORD,
        is_same_as("later")
    );
    let mut statement = connection.prepare_cached(&text)?;
    Ok(statement
        .query_row(params![source, name, kind, group, namespace, rows::json(&beside)], rows::record)
        .optional()?)
}
