//! Forgetting old records, and the records that are never forgotten.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::history::error::HistoryError;
use crate::history::retention::Retention;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::notices::lasting::forget_notices;
use crate::history::sqlite::query::templates::forget_unused;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::rollout::CommitId;

/// The number of records that one transaction forgets, so that the daemon's own writes never wait long.
const AT_ONCE: usize = 500;
/// The number of freed pages of 4 KiB that are given back at once.
const PAGES: i64 = 4096;

impl History {
    /// Forgets everything beyond the bounds and gives the room back. Returns how many records were forgotten.
    ///
    /// Works in short transactions; meant to run once a day.
    ///
    /// # Errors
    ///
    /// When the file can't be written. Records that were forgotten until then stay forgotten.
    pub fn forget(&self, retention: &Retention, now: Timestamp) -> Result<u64, HistoryError> {
        let mut forgotten = 0;
        if let Some(before) = self.read("look what to forget", |connection| bound(connection, retention, now))? {
            // After the oldest record that stays, the next transaction goes on.
            let mut from = (String::new(), 0);
            loop {
                let done = self.write("forget old records", |connection| forget_some(connection, &before, &from))?;
                forgotten += done.forgotten;
                match done.next {
                    Some(next) => from = next,
                    None => break,
                }
            }
            self.write("forget old commits", |connection| forget_commits(connection, &before.0))?;
        }
        self.outside_transactions("give room back", |connection| {
            connection.pragma(None, "incremental_vacuum", PAGES, |_| Ok(())).map_err(Failure::from)
        })?;
        Ok(forgotten)
    }

    /// Returns since when all records are kept, if that is later than `since`; `None` if nothing since then is
    /// forgotten.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn kept_since(&self, since: Timestamp) -> Result<Option<Timestamp>, HistoryError> {
        self.read("look what is forgotten", |connection| {
            let mut statement = connection.prepare_cached("SELECT before FROM forgotten")?;
            let before = statement.query_row([], |row| rows::parsed(row, 0)).optional()?;
            Ok(before.filter(|before| *before > since))
        })
    }

    /// Returns all commits that the history names: those that the mirror must keep.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn pinned_commits(&self) -> Result<BTreeSet<CommitId>, HistoryError> {
        self.read("look which commits are named", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT \"commit\" FROM records UNION SELECT back_to FROM records WHERE back_to IS NOT NULL UNION SELECT \
                 \"commit\" FROM applied",
            )?;
            let commits = statement.query_map([], |row| rows::parsed(row, 0))?;
            Ok(commits.collect::<Result<_, _>>()?)
        })
    }
}

/// A place in the order of records: when it was taken up, and its number.
type Position = (String, i64);

/// Returns the position before which records are beyond the bounds.
fn bound(connection: &Connection, retention: &Retention, now: Timestamp) -> Result<Option<Position>, Failure> {
    let by_age = retention.age.map(|age| {
        let since = now.checked_sub(age).unwrap_or(Timestamp::MIN);
        (rows::time(since), 0)
    });
    let by_count: Option<Position> = match retention.records {
        None => None,
        Some(records) => connection
            .prepare_cached("SELECT started, number FROM records ORDER BY started DESC, number DESC LIMIT 1 OFFSET ?")?
            .query_row([i64::from(records)], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? + 1)))
            .optional()?,
    };
    Ok(by_age.max(by_count))
}

struct RetentionResult {
    forgotten: u64,
    next: Option<Position>,
}

/// Looks at the next few records before `before` and forgets those that may be.
fn forget_some(connection: &Connection, before: &Position, from: &Position) -> Result<RetentionResult, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT number, started, ended IS NOT NULL AND EXISTS (SELECT 1 FROM records AS newer INDEXED BY records_by_name \
         WHERE newer.name = records.name AND newer.kind = records.kind AND newer.\"group\" = records.\"group\" AND \
         newer.namespace IS records.namespace AND newer.source = records.source AND (newer.started, newer.number) > \
         (records.started, records.number)) AND NOT (rolls_out = 1 AND outcome = 'complete' AND NOT EXISTS (SELECT 1 FROM \
         records AS newer INDEXED BY records_by_name WHERE newer.name = records.name AND newer.kind = records.kind AND \
         newer.\"group\" = records.\"group\" AND newer.namespace IS records.namespace AND newer.source = records.source AND \
         newer.rolls_out = 1 AND newer.outcome = 'complete' AND (newer.started, newer.number) > (records.started, \
         records.number))) FROM records WHERE (started, number) < (?1, ?2) AND (started, number) > (?3, ?4) ORDER BY \
         started, number LIMIT ?5",
    )?;
    let limit = i64::try_from(AT_ONCE).unwrap_or(i64::MAX);
    let values = params![before.0, before.1, from.0, from.1, limit];
    let looked: Result<Vec<(i64, String, bool)>, _> =
        statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect();
    let looked = looked?;
    let mut mark = connection.prepare_cached(&format!(
        "UPDATE plans SET forgotten = 1 WHERE (number, head) = (SELECT timeline_plan, \"commit\" FROM records WHERE number = ? AND {})",
        rows::COUNTED
    ))?;
    let mut delete = connection.prepare_cached("DELETE FROM records WHERE number = ?")?;
    let mut forgotten = 0;
    for (number, ..) in looked.iter().filter(|(_, _, may_go)| *may_go) {
        mark.execute([number])?;
        delete.execute([number])?;
        forgotten += 1;
    }
    if forgotten > 0 {
        connection
            .prepare_cached(
                "INSERT INTO forgotten (number, before) VALUES (1, ?1) ON CONFLICT DO UPDATE SET before = excluded.before \
                 WHERE before < excluded.before",
            )?
            .execute([&before.0])?;
    }
    let full = looked.len() == AT_ONCE;
    let next = looked.into_iter().last().filter(|_| full).map(|(number, started, _)| (started, number));
    Ok(RetentionResult { forgotten, next })
}

/// Forgets the plans, commits, people and templates that nothing names any more and that are old.
fn forget_commits(connection: &Connection, before: &str) -> Result<(), Failure> {
    connection.execute(
        // A plan is named by the records written under it, and by the objects counted in its line.
        "DELETE FROM plans WHERE begun < ?1 AND NOT EXISTS (SELECT 1 FROM records WHERE plan = plans.number) AND NOT EXISTS \
         (SELECT 1 FROM records WHERE timeline_plan = plans.number) AND number < (SELECT max(newer.number) FROM plans AS newer WHERE \
         newer.source = plans.source AND newer.ended IS NOT NULL)",
        [before],
    )?;
    connection.execute(
        "DELETE FROM arrivals WHERE at < ?1 AND NOT EXISTS (SELECT 1 FROM records WHERE records.\"commit\" = \
         arrivals.\"commit\") AND NOT EXISTS (SELECT 1 FROM plans WHERE plans.source = arrivals.source AND plans.head = \
         arrivals.\"commit\")",
        [before],
    )?;
    connection.execute(
        "DELETE FROM commits WHERE NOT EXISTS (SELECT 1 FROM arrivals WHERE arrivals.\"commit\" = commits.\"commit\") AND \
         NOT EXISTS (SELECT 1 FROM records WHERE records.\"commit\" = commits.\"commit\")",
        [],
    )?;
    connection.execute(
        "DELETE FROM people WHERE NOT EXISTS (SELECT 1 FROM commits WHERE commits.author = people.number)",
        [],
    )?;
    forget_notices(connection)?;
    // Templates of objects that have no record left: they are not in the cluster either.
    let mut statement = connection.prepare_cached(
        "DELETE FROM applied WHERE at < ?1 AND NOT EXISTS (SELECT 1 FROM records INDEXED BY records_by_name WHERE \
         records.name = applied.name AND records.kind = applied.kind AND records.\"group\" = applied.\"group\" AND \
         records.namespace IS applied.namespace AND records.source = applied.source AND records.outcome <> 'pruned') \
         RETURNING template",
    )?;
    let gone: Result<Vec<String>, _> = statement.query_map([before], |row| row.get(0))?.collect();
    forget_unused(connection, &gone?)
}
