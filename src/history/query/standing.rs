//! Where each source stands, as its daemon says: for commands, which have no other way to ask it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::history::error::HistoryError;
use crate::history::store::file::History;
use crate::history::store::rows;
use belay_core::manifest::{ObjectKey, Place};
use belay_core::rollout::{CommitId, ObjectState, Reason};

/// Where a source stands, besides its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStanding {
    /// How many objects its head has.
    pub objects: usize,
    /// What keeps it from being read or applied at all.
    pub blocked: Option<String>,
    /// What is in its way, by where.
    pub troubles: BTreeMap<String, String>,
    /// What is odd about how its repository is followed, by the path of the file.
    #[serde(default)]
    pub warnings: BTreeMap<String, String>,
    /// The objects with a hold.
    pub held: BTreeSet<ObjectKey>,
}

/// An object that is not as the head says, and of which nothing more is to become by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStanding {
    /// Its state.
    pub state: ObjectState,
    /// The commit that is charged with it.
    pub commit: CommitId,
    /// Why.
    pub reason: Option<Reason>,
    /// Where its manifest is written.
    pub place: Option<Place>,
    /// Since when.
    pub since: Timestamp,
    /// Whether it is among the objects that the head is counted to have.
    pub in_head: bool,
}

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

    /// Where a source stands, as its daemon said last; `None` where none has.
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

    /// The objects of a source that are not as its head says, and have ended.
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
