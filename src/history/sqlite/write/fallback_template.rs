//! The templates that rollouts took the place of, where nothing better is known to go back to.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::history::error::HistoryError;
use crate::history::fallback_template::{FallbackTemplate, checked};
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::TemplateMarks;

impl History {
    /// Keeps the template that a rollout takes the place of. The first one stays until the workload is seen complete:
    /// its successors took its place too.
    ///
    /// # Errors
    ///
    /// [`HistoryError::TooLarge`] beyond 512 KiB, and when the file can't be written.
    pub fn keep_fallback_template(
        &self,
        source: &str,
        object: &ObjectKey,
        fallback: &FallbackTemplate,
    ) -> Result<(), HistoryError> {
        let text = checked(object, &fallback.template)?;
        let ObjectKey { group, kind, namespace, name } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        let TemplateMarks { change_cause, commit } = &fallback.marks;
        self.write("keep a fallback template", |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO fallback_templates (source, \"group\", kind, namespace, name, uid, template, \"commit\", cause) VALUES \
                     (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET uid = excluded.uid, template = \
                     excluded.template, \"commit\" = excluded.\"commit\", cause = excluded.cause WHERE uid <> excluded.uid",
                )?
                .execute(params![source, group, kind, namespace, name, fallback.uid, text, commit, change_cause])?;
            Ok(())
        })
    }

    /// Returns the template that a workload had before the rollouts of which none was seen complete, if it was kept.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn fallback_template(
        &self,
        source: &str,
        object: &ObjectKey,
    ) -> Result<Option<FallbackTemplate>, HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        self.read("look for a fallback template", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT uid, template, \"commit\", cause FROM fallback_templates WHERE source = ? AND \"group\" = ? AND kind = ? AND \
                 namespace = ? AND name = ?",
            )?;
            let found = statement.query_row(params![source, group, kind, namespace, name], |row| {
                let text: String = row.get(1)?;
                let marks = TemplateMarks { commit: row.get(2)?, change_cause: row.get(3)? };
                Ok(FallbackTemplate { uid: row.get(0)?, template: rows::from_json(1, &text)?, marks })
            });
            Ok(found.optional()?)
        })
    }
}

/// Forgets the fallback template of a workload: the workload was seen complete.
pub(in crate::history) fn forget_fallback_template(
    connection: &Connection,
    source: &str,
    object: &ObjectKey,
) -> Result<(), Failure> {
    let ObjectKey { group, kind, namespace, name } = object;
    connection
        .prepare_cached(
            "DELETE FROM fallback_templates WHERE source = ? AND \"group\" = ? AND kind = ? AND namespace = ? AND name = ?",
        )?
        .execute(params![source, group, kind, namespace.as_deref().unwrap_or_default(), name])?;
    Ok(())
}
