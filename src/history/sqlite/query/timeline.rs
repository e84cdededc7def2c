//! The timeline of a source: one head at a time, the newest first, with its outcome.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};

use crate::history::error::HistoryError;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use crate::history::timeline::TimelineEntry;
use belay_core::rollout::{CommitId, Outcome};

impl History {
    /// Returns so many heads, the newest first: of one source or of all, and only those before the one with this
    /// number.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn timeline(
        &self,
        source: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<TimelineEntry>, HistoryError> {
        self.read("look what came when", |connection| {
            let (index, of_source) = match source {
                Some(_) => ("INDEXED BY plans_by_source", "source = ?1 AND"),
                None => ("NOT INDEXED", "?1 IS NULL AND"),
            };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT number, source, head, begun, ended, brings_back, forgotten FROM plans {index} WHERE {of_source} head \
                 <> '' AND number < ?2 ORDER BY number DESC LIMIT ?3"
            ))?;
            let values = params![source, before.unwrap_or(i64::MAX), limit];
            let mut entries: Vec<TimelineEntry> = statement.query_map(values, entry)?.collect::<Result<_, _>>()?;
            entries.iter_mut().try_for_each(|entry| count(connection, entry))?;
            Ok(entries)
        })
    }
}

/// Counts each object that is charged to a commit of this line once, by its newest record.
fn count(connection: &Connection, entry: &mut TimelineEntry) -> rusqlite::Result<()> {
    let mut counts = connection.prepare_cached(&format!(
        "SELECT \"commit\", outcome, count(*) FROM (SELECT \"commit\", outcome, max(number) FROM records INDEXED BY \
         records_by_timeline_plan WHERE timeline_plan = ? AND {} GROUP BY \"commit\", \"group\", kind, namespace, name) GROUP BY \
         \"commit\", outcome",
        rows::COUNTED
    ))?;
    let found = counts.query_map([entry.number], |row| {
        Ok((rows::parsed::<CommitId>(row, 0)?, rows::worded::<Outcome>(row, 1)?, row.get::<_, i64>(2)?))
    })?;
    for count in found {
        let (commit, outcome, count) = count?;
        entry.count(commit, outcome, u64::try_from(count).unwrap_or_default());
    }
    Ok(())
}

fn entry(row: &Row<'_>) -> rusqlite::Result<TimelineEntry> {
    let head: CommitId = rows::parsed(row, 2)?;
    let ended: Option<String> = row.get(4)?;
    Ok(TimelineEntry {
        number: row.get(0)?,
        source: row.get(1)?,
        begun: rows::parsed(row, 3)?,
        ended: ended.map(|_| rows::parsed(row, 4)).transpose()?,
        commits: BTreeMap::from([(head.clone(), BTreeMap::new())]),
        head,
        brings_back: row.get(5)?,
        forgotten: row.get(6)?,
    })
}
