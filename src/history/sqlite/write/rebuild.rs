//! After a loss of the file: records from the cluster and Git are put into the new one, and marked as rebuilt.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::history::error::HistoryError;
use crate::history::followed::{Followed, Trouble};
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use crate::history::sqlite::write;
use crate::history::sqlite::write::begin::{RecordPlans, insert};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, Record, Trigger};

impl History {
    /// Puts the rebuilt records of a source in, all or none, with the known facts of their commits.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn rebuild(
        &self,
        source: &str,
        records: &[Record],
        commits: &[Commit],
        at: Timestamp,
    ) -> Result<(), HistoryError> {
        if records.is_empty() {
            return Ok(());
        }
        self.write("rebuild what was", |connection| {
            for commit in commits {
                write::write_commit(connection, commit)?;
            }
            connection
                .prepare_cached("INSERT INTO plans (source, head, begun, ended, is_first) VALUES (?1, '', ?2, ?2, 0)")?
                .execute(params![source, rows::time(at)])?;
            let plan = connection.last_insert_rowid();
            for record in records {
                // A rebuilt record is of no head, and counts in no line.
                insert(connection, RecordPlans { plan, timeline_plan: None }, source, record, at)?;
            }
            Ok(())
        })
    }

    /// Returns when the records of a source were rebuilt, if they were: older ones come from the cluster and Git only.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn rebuilt(&self, source: &str) -> Result<Option<Timestamp>, HistoryError> {
        self.read("look whether it was rebuilt", |connection| {
            let mut statement = connection.prepare_cached(REBUILT)?;
            let found = statement.query_row([source], |row| Ok((row.get::<_, String>(0)?, rows::parsed(row, 1)?)));
            Ok(found.optional()?.filter(|(head, _)| head.is_empty()).map(|(_, begun)| begun))
        })
    }

    /// Notes the branch or tag of a source.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn follows(&self, followed: &Followed) -> Result<(), HistoryError> {
        let Followed { source, folders, follow, trouble } = followed;
        let folder = folders.join("\n");
        let (message, since) = trouble.as_ref().map(|trouble| (&trouble.message, rows::time(trouble.since))).unzip();
        self.write("note what is followed", |connection| {
            let text = "INSERT OR REPLACE INTO sources (source, folder, follow, trouble, since) VALUES (?, ?, ?, ?, ?)";
            connection.prepare_cached(text)?.execute(params![source, folder, follow, message, since])?;
            Ok(())
        })
    }

    /// Forgets the published facts of sources that nobody follows any more. Their records stay.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn follow_only(&self, sources: &BTreeSet<String>) -> Result<(), HistoryError> {
        let left: Vec<Followed> =
            self.followed()?.into_iter().filter(|followed| !sources.contains(&followed.source)).collect();
        if left.is_empty() {
            return Ok(());
        }
        self.write("forget who is followed no longer", |connection| {
            for Followed { source, .. } in &left {
                for table in ["sources", "source_states"] {
                    connection.execute(&format!("DELETE FROM {table} WHERE source = ?"), [source])?;
                }
            }
            Ok(())
        })
    }

    /// Returns the subject of each source, by name.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn followed(&self) -> Result<Vec<Followed>, HistoryError> {
        self.read("look what is followed", |connection| {
            let text = "SELECT source, folder, follow, trouble, since FROM sources ORDER BY source";
            let mut statement = connection.prepare_cached(text)?;
            let found = statement.query_map([], |row| {
                let trouble: Option<String> = row.get(3)?;
                let trouble = match trouble {
                    Some(message) => Some(Trouble { message, since: rows::parsed(row, 4)? }),
                    None => None,
                };
                let folders: String = row.get(1)?;
                let folders = folders.split('\n').map(ToOwned::to_owned).collect();
                Ok(Followed { source: row.get(0)?, folders, follow: row.get(2)?, trouble })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns true when this undo by hand, or another action of a person, is recorded: one of this object, of that
    /// very moment, with the same word for its trigger; the person does not matter.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn knows(
        &self,
        source: &str,
        object: &ObjectKey,
        at: Timestamp,
        trigger: &Trigger,
    ) -> Result<bool, HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        self.read("look for what was done by hand", |connection| {
            let mut statement = connection.prepare_cached(BY_HAND)?;
            Ok(statement.exists(params![name, rows::time(at), kind, group, namespace, source, trigger.word()])?)
        })
    }
}

/// A rebuilt record came before every plan.
const REBUILT: &str = "SELECT head, begun FROM plans WHERE source = ? ORDER BY number LIMIT 1";
const BY_HAND: &str = "SELECT 1 FROM records INDEXED BY records_by_name WHERE name = ? AND started = ? AND kind = ? AND \
                    \"group\" = ? AND namespace IS ? AND source = ? AND \"trigger\" = ?";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::SourceStanding;
    use crate::history::query::source_histories::SourceHistories;

    #[test]
    fn a_source_that_is_followed_no_longer_is_not_answered_for() {
        let folder = tempfile::tempdir().unwrap();
        let (history, _) = History::open(folder.path(), Timestamp::UNIX_EPOCH).unwrap();
        for name in ["shop", "infra"] {
            let (source, follow) = (name.to_owned(), "branch \"main\"".to_owned());
            history.follows(&Followed { source, folders: Vec::new(), follow, trouble: None }).unwrap();
            history.stands(name, &SourceStanding::default()).unwrap();
        }
        let answered = || {
            let known = SourceHistories::read(&history, Timestamp::UNIX_EPOCH).unwrap();
            known.source_answers().into_iter().map(|answer| answer.source).collect::<Vec<_>>()
        };
        assert_eq!(answered(), ["infra", "shop"]);
        history.follow_only(&BTreeSet::from(["shop".to_owned()])).unwrap();
        assert_eq!(answered(), ["shop"]);
    }
}
