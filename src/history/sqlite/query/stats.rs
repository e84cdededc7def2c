//! The figures: how often rollouts happen, how long they take, how often they fail, and how soon that is mended.

use rusqlite::{Row, params};

use crate::history::error::HistoryError;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use crate::history::stats::{Count, CountedRollout, Stats, StatsQuery};

impl History {
    /// Returns the numbers, by name. Goes through the rollouts of the time asked for, once.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn stats(&self, query: &StatsQuery) -> Result<Vec<Stats>, HistoryError> {
        self.read("count what happened", |connection| {
            let index = if query.source.is_some() { "records_by_source" } else { "records_by_start" };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT records.source, \"group\", kind, namespace, name, outcome, started, ended, authored, \"trigger\", who, \
                 named, reason FROM records INDEXED BY {index} LEFT JOIN commits ON commits.\"commit\" = records.\"commit\" WHERE \
                 (?1 IS NULL OR records.source = ?1) AND {} started >= ?2 AND started < ?3 AND rolls_out = 1 AND ended IS \
                 NOT NULL AND \"trigger\" <> 'rebuilt' ORDER BY started, records.number",
                if query.source.is_some() { "records.source = ?1 AND" } else { "" }
            ))?;
            let values = params![query.source, rows::time(query.since), rows::time(query.until)];
            let mut count = Count::new(query.by);
            for rollout in statement.query_map(values, counted)? {
                count.add(rollout?);
            }
            Ok(count.stats())
        })
    }
}

fn counted(row: &Row<'_>) -> rusqlite::Result<CountedRollout> {
    let by_commit = rows::trigger(row, 9)?.is_commit();
    let known = row.get::<_, Option<String>>(8)?.filter(|_| by_commit);
    Ok(CountedRollout {
        source: row.get(0)?,
        object: rows::object(row, 1)?,
        outcome: rows::worded(row, 5)?,
        started: rows::parsed(row, 6)?,
        ended: rows::parsed(row, 7)?,
        authored: known.map(|_| rows::parsed(row, 8)).transpose()?,
        reason: row.get(12)?,
    })
}
