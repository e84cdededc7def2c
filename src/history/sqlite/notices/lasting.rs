//! The notices of lasting conditions: sources that are blocked, and holds. The daemon decides when one has lasted long
//! enough.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::history::error::HistoryError;
use crate::history::lasting::{Lasting, LastingKind, NotedLasting};
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;

impl History {
    /// Writes down a notice of each of these, all or none: they are sent together.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn note_lasting(&self, lasting: &[Lasting], at: Timestamp) -> Result<(), HistoryError> {
        self.write("note what lasts", |connection| {
            for Lasting { source, since, what } in lasting {
                let (kind, commit, state, reason) = match what {
                    LastingKind::Blocked(reason) => ("source", "", "blocked", Some(reason)),
                    LastingKind::Unblocked => ("source", "", "unblocked", None),
                    LastingKind::Held(commit) => ("held", commit.as_str(), "held", None),
                    LastingKind::Disagreement(object, message) => {
                        ("disagreement", object.as_str(), "disagreement", Some(message))
                    }
                };
                connection
                    .prepare_cached(
                        "INSERT INTO notices (source, \"commit\", kind, state, wrong, final, at, since, reason) VALUES (?, ?, \
                         ?, ?, 1, 1, ?, ?, ?)",
                    )?
                    .execute(params![source, commit, kind, state, rows::time(at), rows::time(*since), reason])?;
            }
            Ok(())
        })
    }

    /// Returns the last notes of lasting trouble.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn noted_lasting(&self) -> Result<NotedLasting, HistoryError> {
        self.read("look what was noted to last", |connection| {
            let mut noted = NotedLasting::default();
            let mut statement = connection.prepare_cached(
                "SELECT source, \"commit\", state, at, since, max(number) FROM notices WHERE kind IN ('held', 'source', 'disagreement') GROUP \
                 BY source, \"commit\", kind",
            )?;
            let mut found = statement.query([])?;
            while let Some(row) = found.next()? {
                let (source, state): (String, String) = (row.get(0)?, row.get(2)?);
                match state.as_str() {
                    "blocked" => {
                        noted.blocked.insert(source, rows::parsed(row, 4)?);
                    }
                    "held" => {
                        noted.held.insert((source, rows::parsed(row, 1)?), rows::parsed(row, 3)?);
                    }
                    "disagreement" => {
                        noted.disagreements.insert((source, row.get(1)?), rows::parsed(row, 3)?);
                    }
                    _ => {}
                }
            }
            Ok(noted)
        })
    }
}

/// Forgets the notices of commits that have no record left, and of sources those that a newer one stands for.
pub(in crate::history) fn forget_notices(connection: &Connection) -> Result<(), Failure> {
    connection.execute(
        "DELETE FROM notices WHERE kind IN ('commit', 'held') AND NOT EXISTS (SELECT 1 FROM records INDEXED BY records_by_commit WHERE \
         records.\"commit\" = notices.\"commit\" AND records.source = notices.source)",
        [],
    )?;
    connection.execute(
        "DELETE FROM notices WHERE kind IN ('past', 'source', 'disagreement') AND EXISTS (SELECT 1 FROM notices AS newer INDEXED BY \
         notices_by_commit WHERE newer.source = notices.source AND newer.\"commit\" = notices.\"commit\" AND newer.kind = \
         notices.kind AND newer.number > notices.number)",
        [],
    )?;
    Ok(())
}
