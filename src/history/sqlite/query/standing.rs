//! The standing of each source, as its daemon says: for commands, which have no other way to ask it.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, params};

use crate::history::error::HistoryError;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use crate::history::standing::{ObjectStanding, SourceStanding};
use belay_core::manifest::ObjectKey;

impl History {
    /// Notes where a source stands.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn stands(&self, source: &str, standing: &SourceStanding) -> Result<(), HistoryError> {
        self.write("note where a source stands", |connection| {
            let text = "INSERT OR REPLACE INTO source_states (source, state) VALUES (?, ?)";
            connection.prepare_cached(text)?.execute(params![source, rows::json(standing)])?;
            Ok(())
        })
    }

    /// Returns the last standing of a source, as its daemon said; `None` if none has.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn standing(&self, source: &str) -> Result<Option<SourceStanding>, HistoryError> {
        self.read("look where a source stands", |connection| {
            let mut statement = connection.prepare_cached("SELECT state FROM source_states WHERE source = ?")?;
            let found = statement.query_row([source], |row| rows::from_json(0, &row.get::<_, String>(0)?));
            Ok(found.optional()?)
        })
    }

    /// Notes the state of an object; with `None`, that there is nothing to be said of it any more.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn object_stands(
        &self,
        source: &str,
        object: &ObjectKey,
        standing: Option<&ObjectStanding>,
    ) -> Result<(), HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        self.write("note the state of an object", |connection| {
            let Some(ObjectStanding { state, commit, reason, place, since, in_head }) = standing else {
                let text = "DELETE FROM object_states WHERE source = ? AND \"group\" = ? AND kind = ? AND namespace = ? AND \
                            name = ?";
                connection.prepare_cached(text)?.execute(params![source, group, kind, namespace, name])?;
                return Ok(());
            };
            let text = "INSERT OR REPLACE INTO object_states (source, \"group\", kind, namespace, name, state, \"commit\", \
                        reason, place, since, in_head) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
            connection.prepare_cached(text)?.execute(params![
                source,
                group,
                kind,
                namespace,
                name,
                state.word(),
                commit.as_str(),
                reason.as_ref().map(rows::json),
                place.as_ref().map(rows::json),
                rows::time(*since),
                in_head
            ])?;
            Ok(())
        })
    }

    /// Returns the objects of a source that are not as its head says, and have ended.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn object_standings(&self, source: &str) -> Result<BTreeMap<ObjectKey, ObjectStanding>, HistoryError> {
        self.read("look which objects are not as they should be", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT \"group\", kind, nullif(namespace, ''), name, state, \"commit\", reason, place, since, in_head FROM \
                 object_states WHERE source = ?",
            )?;
            let found = statement.query_map([source], |row| {
                let text = |at: usize| row.get::<_, Option<String>>(at);
                let standing = ObjectStanding {
                    state: rows::worded(row, 4)?,
                    commit: rows::parsed(row, 5)?,
                    reason: text(6)?.map(|json| rows::from_json(6, &json)).transpose()?,
                    place: text(7)?.map(|json| rows::from_json(7, &json)).transpose()?,
                    since: rows::parsed(row, 8)?,
                    in_head: row.get(9)?,
                };
                Ok((rows::object(row, 0)?, standing))
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}
