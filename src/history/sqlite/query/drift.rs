//! Objects that somebody else has changed and that belay leaves so, as configured, for `belay status`.

use rusqlite::{Connection, params};

use crate::history::drift::Drifted;
use crate::history::error::HistoryError;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::manifest::ObjectKey;

impl History {
    /// Returns the objects of a source that have drifted and are left so.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn drifts(&self, source: &str) -> Result<Vec<Drifted>, HistoryError> {
        self.read("look what has drifted", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT \"group\", kind, nullif(namespace, ''), name, by, since FROM drifts WHERE source = ? ORDER BY kind, \
                 namespace, name",
            )?;
            let found = statement.query_map([source], |row| {
                Ok(Drifted { object: rows::object(row, 0)?, by: row.get(4)?, since: rows::parsed(row, 5)? })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}

/// Writes down that an object has drifted, unless that is noted already.
pub(in crate::history) fn write_drifted(
    connection: &Connection,
    source: &str,
    drifted: &Drifted,
) -> Result<(), Failure> {
    let Drifted { object: ObjectKey { group, kind, namespace, name }, by, since } = drifted;
    let namespace = namespace.as_deref().unwrap_or_default();
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO drifts (source, \"group\", kind, namespace, name, by, since) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![source, group, kind, namespace, name, by, rows::time(*since)])?;
    Ok(())
}

/// Deletes the note that an object has drifted.
pub(in crate::history) fn write_put_right(
    connection: &Connection,
    source: &str,
    object: &ObjectKey,
) -> Result<(), Failure> {
    let ObjectKey { group, kind, namespace, name } = object;
    connection
        .prepare_cached(
            "DELETE FROM drifts WHERE source = ? AND \"group\" = ? AND kind = ? AND namespace = ? AND name = ?",
        )?
        .execute(params![source, group, kind, namespace.as_deref().unwrap_or_default(), name])?;
    Ok(())
}
