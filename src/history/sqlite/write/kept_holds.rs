//! The holds of a source as they were known last, so that they last even if the cluster has lost them.

use rusqlite::params;
use serde_json::Value;

use crate::history::error::HistoryError;
use crate::history::fallback_template::checked;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::TemplateMarks;
use belay_core::rollout::rollback::KeptHold;

impl History {
    /// Keeps the hold on an object, in the place of an older one. A template of more than 512 KiB is left out.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn keep_hold(&self, source: &str, object: &ObjectKey, kept: &KeptHold) -> Result<(), HistoryError> {
        let KeptHold { hold, template, marks: TemplateMarks { change_cause, commit }, uid, generation } = kept;
        let template = template.as_ref().and_then(|template| checked(object, template).ok());
        let ObjectKey { group, kind, namespace, name } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        self.write("keep a hold", |connection| {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO holds (source, \"group\", kind, namespace, name, hold, template, \"commit\", \
                     cause, uid, generation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )?
                .execute(params![
                    source,
                    group,
                    kind,
                    namespace,
                    name,
                    rows::json(hold),
                    template,
                    commit,
                    change_cause,
                    uid,
                    generation
                ])?;
            Ok(())
        })
    }

    /// Forgets the hold on an object after its release.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn forget_hold(&self, source: &str, object: &ObjectKey) -> Result<(), HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        self.write("forget a hold", |connection| {
            connection
                .prepare_cached(
                    "DELETE FROM holds WHERE source = ? AND \"group\" = ? AND kind = ? AND namespace = ? AND name = ?",
                )?
                .execute(params![source, group, kind, namespace, name])?;
            Ok(())
        })
    }

    /// Returns the holds of a source as they were known last.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn kept_holds(&self, source: &str) -> Result<Vec<(ObjectKey, KeptHold)>, HistoryError> {
        self.read("look what is held", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT \"group\", kind, nullif(namespace, ''), name, hold, template, \"commit\", cause, uid, generation FROM \
                 holds WHERE source = ?",
            )?;
            let found = statement.query_map([source], |row| {
                let (hold, template): (String, Option<String>) = (row.get(4)?, row.get(5)?);
                let template = template.map(|text| rows::from_json::<Value>(5, &text)).transpose()?;
                let marks = TemplateMarks { commit: row.get(6)?, change_cause: row.get(7)? };
                let hold = rows::from_json(4, &hold)?;
                let kept = KeptHold { hold, template, marks, uid: row.get(8)?, generation: row.get(9)? };
                Ok((rows::object(row, 0)?, kept))
            });
            Ok(found?.collect::<Result<_, _>>()?)
        })
    }
}
