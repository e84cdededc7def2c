//! The templates that rollouts took the place of, where nothing better is known to go back to.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use crate::history::error::{Failure, HistoryError};
use crate::history::store::file::History;
use crate::history::store::rows;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::TemplateMarks;

/// The largest template that is kept, in bytes of JSON. The API server takes objects of up to 1.5 MiB.
const SIZE: usize = 512 << 10;

/// A pod template that a workload had before a rollout, without having been seen complete.
#[derive(Clone, Debug, PartialEq)]
pub struct FallbackTemplate {
    /// The uid of the object that had it.
    pub uid: String,
    /// The template.
    pub template: Value,
    /// The object's marks of it.
    pub marks: TemplateMarks,
}

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

/// Returns the text of a template that may be kept.
pub(in crate::history) fn checked(object: &ObjectKey, template: &Value) -> Result<String, HistoryError> {
    if object.kind == "Secret" {
        return Err(HistoryError::Secret { object: object.clone() });
    }
    let text = template.to_string();
    if text.len() > SIZE {
        let what = format!("the pod template of {object}");
        return Err(HistoryError::TooLarge { what, size: text.len(), limit: SIZE });
    }
    Ok(text)
}
