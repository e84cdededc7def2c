//! The notices of commits, written in the transaction that begins or ends the record that they report.
//!
//! The findings of a source's first plan about commits before its head are one notice: the troubles of a repository's
//! past are one message, however many commits it has.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::history::commit_notice::{EndedRecord, NoticeState, says_something};
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::rows;
use belay_core::rollout::{CommitId, Outcome, Record, Trigger};

/// Selects the newest record of each object. A record that corrected a change by others, or followed an autoscaler,
/// says nothing of the commit unless it failed.
const OF_EACH_OBJECT: &str = "NOT (\"trigger\" IN ('drift', 'autoscaler', 'rebuilt') AND outcome IN ('complete', \
                              'unchanged', 'superseded', 'unknown')) GROUP BY \"group\", kind, namespace, name";

/// The first plan of a source, unless it is forgotten. One without a head holds records that were rebuilt after the
/// history was lost.
const FIRST_PLAN: &str = "SELECT number FROM (SELECT number, is_first FROM plans INDEXED BY plans_by_source WHERE source = ?1 \
                          AND head <> '' ORDER BY number LIMIT 1) WHERE is_first";

/// Writes a notice that something of a commit has begun, for who wants to know at once: the first of it, and if a
/// person has it tried again after its end.
pub(in crate::history) fn note_begun(
    connection: &Connection,
    plan: i64,
    source: &str,
    records: &[Record],
    at: Timestamp,
) -> Result<(), Failure> {
    let open = records.iter().filter(|record| !record.outcome.is_final() && says_something(&record.trigger));
    let mut commits: BTreeMap<&CommitId, &Trigger> = BTreeMap::new();
    for record in open {
        let trigger = commits.entry(&record.commit).or_insert(&record.trigger);
        if record.trigger == Trigger::Retry {
            *trigger = &record.trigger;
        }
    }
    for (commit, trigger) in commits {
        let has_ended: Option<bool> = connection
            .prepare_cached(
                "SELECT final FROM notices WHERE source = ? AND \"commit\" = ? AND kind = 'commit' ORDER BY number DESC \
                 LIMIT 1",
            )?
            .query_row(params![source, commit.as_str()], |row| row.get(0))
            .optional()?;
        let is_new = has_ended.is_none_or(|has_ended| has_ended && *trigger == Trigger::Retry);
        if is_new && past_of(connection, plan, commit)?.is_none() {
            Subject { source, commit, kind: Kind::Commit }.write(connection, NoticeState::BEGUN, at)?;
        }
    }
    Ok(())
}

/// Writes a notice of a commit, if the end of one of its records changes its outcome. Before all of its records have
/// ended, only an outcome worse than the reported one is reported.
pub(in crate::history) fn note(connection: &Connection, ended: &EndedRecord<'_>, at: Timestamp) -> Result<(), Failure> {
    let EndedRecord { plan, source, commit, .. } = *ended;
    match past_of(connection, plan, commit)? {
        Some(head) => note_past(connection, &Subject { source, commit: &head, kind: Kind::Past(plan) }, ended, at),
        None => note_commit(connection, &Subject { source, commit, kind: Kind::Commit }, ended, at),
    }
}

fn note_commit(
    connection: &Connection,
    subject: &Subject<'_>,
    ended: &EndedRecord<'_>,
    at: Timestamp,
) -> Result<(), Failure> {
    let said = subject.said(connection)?;
    let begun = said.is_some_and(NoticeState::is_begun);
    let said = said.filter(|_| !begun);
    if ended.says_nothing(said.is_some() || begun) {
        return Ok(());
    }
    if subject.is_open(connection)? {
        return subject.write_if_worse(connection, said, ended.outcome, at);
    }
    let is_good = ended.outcome.rank().is_none();
    if is_good && said.is_some_and(|said| said.is_final && said.outcome == Outcome::Complete) {
        return Ok(());
    }
    let found = subject.found(connection)?;
    if said.is_some_and(|said| found.is_as(said)) { Ok(()) } else { subject.write(connection, found, at) }
}

/// Does the same for the commits before the head at which a source was first followed: a good end is no news, and
/// neither is a later improvement.
fn note_past(
    connection: &Connection,
    subject: &Subject<'_>,
    ended: &EndedRecord<'_>,
    at: Timestamp,
) -> Result<(), Failure> {
    let said = subject.said(connection)?;
    if subject.is_open(connection)? {
        return subject.write_if_worse(connection, said, ended.outcome, at);
    }
    let found = subject.found(connection)?;
    if found.is_news_of_past(said) { subject.write(connection, found, at) } else { Ok(()) }
}

/// The subject of a notice.
struct Subject<'s> {
    source: &'s str,
    commit: &'s CommitId,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A commit.
    Commit,
    /// The commits before it, of the first plan of the source, which has this number.
    Past(i64),
}

impl Subject<'_> {
    fn word(&self) -> &'static str {
        match self.kind {
            Kind::Commit => "commit",
            Kind::Past(_) => "past",
        }
    }

    /// Returns the last notice about it.
    fn said(&self, connection: &Connection) -> Result<Option<NoticeState>, Failure> {
        let said = connection
            .prepare_cached(
                "SELECT state, wrong, final FROM notices WHERE source = ? AND \"commit\" = ? AND kind = ? ORDER BY number \
                 DESC LIMIT 1",
            )?
            .query_row(params![self.source, self.commit.as_str(), self.word()], |row| {
                Ok(NoticeState { outcome: rows::worded(row, 0)?, wrong: row.get(1)?, is_final: row.get(2)? })
            })
            .optional()?;
        Ok(said)
    }

    /// Returns true when a record of it is open.
    fn is_open(&self, connection: &Connection) -> Result<bool, Failure> {
        let commit = self.commit.as_str();
        let is_open = match self.kind {
            Kind::Commit => connection
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM records INDEXED BY records_open WHERE source = ? AND ended IS NULL AND \
                     \"commit\" = ?)",
                )?
                .query_row(params![self.source, commit], |row| row.get(0))?,
            Kind::Past(plan) => connection
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM records INDEXED BY records_open_by_plan WHERE plan = ? AND ended IS NULL \
                     AND \"commit\" <> ?)",
                )?
                .query_row(params![plan, commit], |row| row.get(0))?,
        };
        Ok(is_open)
    }

    /// Returns its present state.
    fn found(&self, connection: &Connection) -> Result<NoticeState, Failure> {
        let newest = match self.kind {
            Kind::Commit => newest(connection, self.source, self.commit)?,
            Kind::Past(_) => newest_of_past(connection, self.source, self.commit)?,
        };
        Ok(NoticeState::of_ended(&newest))
    }

    /// Writes a notice while something of the commit is open, if it is worse than the last.
    fn write_if_worse(
        &self,
        connection: &Connection,
        said: Option<NoticeState>,
        outcome: Outcome,
        at: Timestamp,
    ) -> Result<(), Failure> {
        NoticeState::of_worse(outcome, said).map_or(Ok(()), |worse| self.write(connection, worse, at))
    }

    fn write(&self, connection: &Connection, state: NoticeState, at: Timestamp) -> Result<(), Failure> {
        let NoticeState { outcome, wrong, is_final } = state;
        let sql =
            "INSERT INTO notices (source, \"commit\", kind, state, wrong, final, at) VALUES (?, ?, ?, ?, ?, ?, ?)";
        connection.prepare_cached(sql)?.execute(params![
            self.source,
            self.commit.as_str(),
            self.word(),
            rows::word(outcome),
            wrong,
            is_final,
            rows::time(at)
        ])?;
        Ok(())
    }
}

/// Returns the head of a plan that is the first of its source, if the commit is an earlier one.
fn past_of(connection: &Connection, plan: i64, commit: &CommitId) -> Result<Option<CommitId>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT head FROM plans WHERE number = ?1 AND head NOT IN (?2, '') AND is_first")?;
    Ok(statement.query_row(params![plan, commit.as_str()], |row| rows::parsed(row, 0)).optional()?)
}

/// Returns the newest records of each object of a commit.
pub(in crate::history) fn newest(
    connection: &Connection,
    source: &str,
    commit: &CommitId,
) -> Result<Vec<(i64, Outcome)>, Failure> {
    newest_where(connection, "source = ?1 AND \"commit\" = ?2", source, commit)
}

/// Returns the same of the commits before a head at which a source was first followed.
pub(in crate::history) fn newest_of_past(
    connection: &Connection,
    source: &str,
    head: &CommitId,
) -> Result<Vec<(i64, Outcome)>, Failure> {
    newest_where(connection, &format!("plan = ({FIRST_PLAN}) AND \"commit\" <> ?2"), source, head)
}

fn newest_where(
    connection: &Connection,
    which: &str,
    source: &str,
    commit: &CommitId,
) -> Result<Vec<(i64, Outcome)>, Failure> {
    let sql = format!("SELECT max(number) AS number, outcome FROM records WHERE {which} AND {OF_EACH_OBJECT}");
    let mut statement = connection.prepare_cached(&sql)?;
    let found =
        statement.query_map(params![source, commit.as_str()], |row| Ok((row.get(0)?, rows::worded(row, 1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}
