//! The disagreements of a source as they were known last, so that they last after a restart.

use std::time::Duration;

use rusqlite::params;

use crate::history::error::HistoryError;
use crate::history::noted_disputes::NotedDispute;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::ForeignField;

impl History {
    /// Notes a disagreement about an object, in the place of an older note.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn note_dispute(&self, source: &str, object: &ObjectKey, noted: &NotedDispute) -> Result<(), HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        let fields: Vec<(&str, &str)> =
            noted.fields.iter().map(|field| (field.path.as_str(), field.manager.as_str())).collect();
        let gap = i64::try_from(noted.gap.as_millis()).unwrap_or(i64::MAX);
        self.write("note a disagreement", |connection| {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO disputes (source, \"group\", kind, namespace, name, fields, times, first, last, \
                     gap) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )?
                .execute(params![
                    source,
                    group,
                    kind,
                    namespace,
                    name,
                    rows::json(&fields),
                    noted.times,
                    rows::time(noted.first),
                    rows::time(noted.last),
                    gap
                ])?;
            Ok(())
        })
    }

    /// Forgets the disagreement about an object after its end.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn forget_dispute(&self, source: &str, object: &ObjectKey) -> Result<(), HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        self.write("forget a disagreement", |connection| {
            connection
                .prepare_cached(
                    "DELETE FROM disputes WHERE source = ? AND \"group\" = ? AND kind = ? AND namespace = ? AND name = ?",
                )?
                .execute(params![source, group, kind, namespace, name])?;
            Ok(())
        })
    }

    /// Returns the disagreements of a source as they were known last.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn noted_disputes(&self, source: &str) -> Result<Vec<(ObjectKey, NotedDispute)>, HistoryError> {
        self.read("look what is disputed", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT \"group\", kind, nullif(namespace, ''), name, fields, times, first, last, gap FROM disputes WHERE \
                 source = ?",
            )?;
            let found = statement.query_map([source], |row| {
                let fields: String = row.get(4)?;
                let fields: Vec<(String, String)> = rows::from_json(4, &fields)?;
                let gap: i64 = row.get(8)?;
                let noted = NotedDispute {
                    fields: fields.into_iter().map(|(path, manager)| ForeignField { path, manager }).collect(),
                    times: row.get(5)?,
                    first: rows::parsed(row, 6)?,
                    last: rows::parsed(row, 7)?,
                    gap: Duration::from_millis(gap.unsigned_abs()),
                };
                Ok((rows::object(row, 0)?, noted))
            });
            Ok(found?.collect::<Result<_, _>>()?)
        })
    }
}
