//! What came when, and what became of it: a head of a source at a time, the newest first.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Row, params};

use crate::history::error::HistoryError;
use crate::history::store::file::History;
use crate::history::store::rows;
use belay_core::rollout::{CommitId, Outcome};

/// A head that a source turned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its number: larger for a later one.
    pub number: i64,
    /// The source.
    pub source: String,
    /// The head.
    pub head: CommitId,
    /// When it was planned.
    pub begun: Timestamp,
    /// When all of it was through for the first time; `None` while it is not.
    pub ended: Option<Timestamp>,
    /// What became of the manifests, by the commits that are charged with them. The head's is there also where nothing
    /// changed.
    pub commits: BTreeMap<CommitId, BTreeMap<Outcome, u64>>,
}

impl History {
    /// So many heads, the newest first: of one source or of all, and only those before the one with this number.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn timeline(&self, source: Option<&str>, before: Option<i64>, limit: u32) -> Result<Vec<Turn>, HistoryError> {
        self.read("look what came when", |connection| {
            let (index, of_source) = match source {
                Some(_) => ("INDEXED BY plans_by_source", "source = ?1 AND"),
                None => ("NOT INDEXED", "?1 IS NULL AND"),
            };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT number, source, head, begun, ended FROM plans {index} WHERE {of_source} head <> '' AND number < ?2 \
                 ORDER BY number DESC LIMIT ?3"
            ))?;
            let values = params![source, before.unwrap_or(i64::MAX), limit];
            let mut turns: Vec<Turn> = statement.query_map(values, turn)?.collect::<Result<_, _>>()?;
            let mut counts = connection.prepare_cached(
                // Each object once, by its newest record. That drift was put right says nothing of the commit.
                "SELECT \"commit\", outcome, count(*) FROM (SELECT \"commit\", outcome, max(number) FROM records INDEXED BY \
                 records_by_plan WHERE plan = ? AND NOT (\"trigger\" IN ('drift', 'autoscaler') AND outcome IN ('complete', \
                 'unchanged', 'superseded', 'unknown')) GROUP BY \"commit\", \"group\", kind, namespace, name) GROUP BY \
                 \"commit\", outcome",
            )?;
            for turn in &mut turns {
                let found = counts.query_map([turn.number], |row| {
                    Ok((rows::parsed::<CommitId>(row, 0)?, rows::worded::<Outcome>(row, 1)?, row.get::<_, i64>(2)?))
                })?;
                for count in found {
                    let (commit, outcome, count) = count?;
                    let counted = turn.commits.entry(commit).or_default().entry(outcome).or_default();
                    *counted += u64::try_from(count).unwrap_or_default();
                }
            }
            Ok(turns)
        })
    }
}

fn turn(row: &Row<'_>) -> rusqlite::Result<Turn> {
    let head: CommitId = rows::parsed(row, 2)?;
    let ended: Option<String> = row.get(4)?;
    Ok(Turn {
        number: row.get(0)?,
        source: row.get(1)?,
        begun: rows::parsed(row, 3)?,
        ended: ended.map(|_| rows::parsed(row, 4)).transpose()?,
        commits: BTreeMap::from([(head.clone(), BTreeMap::new())]),
        head,
    })
}
