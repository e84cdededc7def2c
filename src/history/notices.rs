//! The outbox: what became of commits and is to be told elsewhere, and how far each receiver has been told.
//!
//! A notice is written in the transaction that ends the record that it tells of. It says that something changed; what became
//! of the commit is read when it is sent. Of several notices of one commit that a receiver has not been told, only the newest
//! counts, so that three hundred objects are not three hundred messages.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::error::HistoryError;
use crate::history::store::file::{Failure, History};
use crate::history::store::rows;
use belay_core::rollout::{CommitId, Outcome, Record, Trigger};

/// The ends that are no good, the worst first.
const WRONG: [Outcome; 6] =
    [Outcome::RollbackFailed, Outcome::Failed, Outcome::RolledBack, Outcome::Rejected, Outcome::Held, Outcome::Skipped];

/// The newest records of each object of a commit. What put right somebody else's change, or followed an autoscaler, says
/// nothing of the commit unless it failed.
const NEWEST: &str = "SELECT max(number) AS number, outcome FROM records WHERE source = ?1 AND \"commit\" = ?2 AND NOT \
                      (\"trigger\" IN ('drift', 'autoscaler', 'rebuilt') AND outcome IN ('complete', 'unchanged', \
                      'superseded', 'unknown')) GROUP BY \"group\", kind, namespace, name";

/// Something that became of a commit in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its number: larger for a later one.
    pub number: i64,
    /// The source.
    pub source: String,
    /// The commit.
    pub commit: CommitId,
    /// The worst that became of one of its objects.
    pub state: Outcome,
    /// Whether nothing of the commit was under way any more.
    pub is_final: bool,
    /// When that was so.
    pub at: Timestamp,
}

/// The next notice of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// It.
    pub notice: Notice,
    /// How often the receiver has been tried in vain since it last took one.
    pub attempts: u32,
    /// It is not to be tried again before.
    pub retry: Option<Timestamp>,
}

/// What became of a commit in a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitOutcome {
    /// How many of its objects ended, or stand, so.
    pub objects: BTreeMap<Outcome, u64>,
    /// The records of those that went wrong, the worst first; only so many as were asked for.
    pub wrong: Vec<Record>,
}

impl History {
    /// Takes these as the receivers that there are. A new one is told from here on; one that is not among them is forgotten.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn set_receivers(&self, names: &[String]) -> Result<(), HistoryError> {
        self.write("note who is told", |connection| {
            for name in names {
                connection
                    .prepare_cached(
                        "INSERT INTO receivers (name, told, attempts) SELECT ?, coalesce(max(number), 0), 0 FROM notices \
                         WHERE true ON CONFLICT DO NOTHING",
                    )?
                    .execute([name])?;
            }
            connection
                .prepare_cached("DELETE FROM receivers WHERE name NOT IN (SELECT value FROM json_each(?))")?
                .execute([rows::json(&names)])?;
            Ok(())
        })
    }

    /// The oldest notice that a receiver has not been told, and that no newer one of the same commit stands for.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn next_notice(&self, receiver: &str) -> Result<Option<Pending>, HistoryError> {
        self.read("look what is to be told", |connection| {
            let known = connection
                .prepare_cached("SELECT told, attempts, retry FROM receivers WHERE name = ?")?
                .query_row([receiver], |row| {
                    let retry: Option<String> = row.get(2)?;
                    let retry = retry.map(|_| rows::parsed(row, 2)).transpose()?;
                    Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, retry))
                })
                .optional()?;
            // One that a fresh file does not know yet has been told nothing of it.
            let (told, attempts, retry) = known.unwrap_or_default();
            let found = connection
                .prepare_cached(
                    "SELECT number, source, \"commit\", state, final, at FROM notices WHERE number > ? AND NOT EXISTS (SELECT \
                     1 FROM notices AS newer INDEXED BY notices_by_commit WHERE newer.source = notices.source AND \
                     newer.\"commit\" = notices.\"commit\" AND newer.number > notices.number) ORDER BY number LIMIT 1",
                )?
                .query_row([told], notice)
                .optional()?;
            Ok(found.map(|notice| Pending { notice, attempts, retry }))
        })
    }

    /// A receiver has been told all notices up to this one, or is not to be told of it.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn notice_told(&self, receiver: &str, number: i64) -> Result<(), HistoryError> {
        self.write("note what was told", |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO receivers (name, told, attempts) VALUES (?, ?, 0) ON CONFLICT DO UPDATE SET told = \
                     max(told, excluded.told), attempts = 0, retry = NULL",
                )?
                .execute(params![receiver, number])?;
            Ok(())
        })
    }

    /// A receiver is not told of the notices up to this one. It still is one that does not answer: the next is tried as late
    /// as this one would have been.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn notice_given_up(&self, receiver: &str, number: i64) -> Result<(), HistoryError> {
        self.write("note what is given up", |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO receivers (name, told, attempts) VALUES (?, ?, 0) ON CONFLICT DO UPDATE SET told = \
                     max(told, excluded.told)",
                )?
                .execute(params![receiver, number])?;
            Ok(())
        })
    }

    /// A receiver was tried in vain, and is not to be tried again before this time.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn notice_not_told(&self, receiver: &str, retry: Timestamp) -> Result<(), HistoryError> {
        self.write("note what was not told", |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO receivers (name, told, attempts, retry) VALUES (?, 0, 1, ?) ON CONFLICT DO UPDATE SET \
                     attempts = attempts + 1, retry = excluded.retry",
                )?
                .execute(params![receiver, rows::time(retry)])?;
            Ok(())
        })
    }

    /// What became of a commit in a source, with the records of at most `limit` objects that went wrong.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn became(&self, source: &str, commit: &CommitId, limit: usize) -> Result<CommitOutcome, HistoryError> {
        let (objects, mut wrong) = self.read("look what became of a commit", |connection| {
            let mut objects = BTreeMap::new();
            let mut wrong = Vec::new();
            for (number, outcome) in newest(connection, source, commit)? {
                *objects.entry(outcome).or_default() += 1;
                wrong.extend(rank(outcome).map(|rank| (rank, number)));
            }
            Ok((objects, wrong))
        })?;
        wrong.sort_unstable();
        let wrong = wrong.into_iter().take(limit).map(|(_, number)| self.record(belay_core::rollout::RecordId(number)));
        let wrong: Vec<Option<Record>> = wrong.collect::<Result<_, _>>()?;
        Ok(CommitOutcome { objects, wrong: wrong.into_iter().flatten().collect() })
    }
}

/// Writes a notice that something of a commit has begun, for who wants to know at once: the first of it, and where a person
/// has it tried again after its end.
pub(super) fn note_begun(
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
                "SELECT final FROM notices WHERE source = ? AND \"commit\" = ? ORDER BY number DESC LIMIT 1",
            )?
            .query_row(params![source, commit.as_str()], |row| row.get(0))
            .optional()?;
        let is_new = has_ended.is_none_or(|has_ended| has_ended && *trigger == Trigger::Retry);
        if is_new && !was_there_before(connection, plan, commit)? {
            let begun = EndedRecord { plan, source, commit, outcome: Outcome::Planned, trigger };
            write(connection, &begun, (Outcome::Planned, 0, false), at)?;
        }
    }
    Ok(())
}

/// Writes a notice of a commit, where the end of one of its records changes what became of it. Before all of it has ended
/// only what is worse than what was told before is told.
pub(super) fn note(connection: &Connection, ended: &EndedRecord<'_>, at: Timestamp) -> Result<(), Failure> {
    let EndedRecord { plan, source, commit, outcome, trigger } = ended;
    let said = connection
        .prepare_cached(
            "SELECT state, wrong, final FROM notices WHERE source = ? AND \"commit\" = ? ORDER BY number DESC LIMIT 1",
        )?
        .query_row(params![source, commit.as_str()], |row| {
            Ok((rows::worded::<Outcome>(row, 0)?, row.get::<_, i64>(1)?, row.get::<_, bool>(2)?))
        })
        .optional()?;
    // That it has begun says nothing of what became of it, but an end is to follow.
    let begun = said.is_some_and(|(state, ..)| state == Outcome::Planned);
    let said = said.filter(|_| !begun);
    let good = rank(*outcome).is_none();
    if good && !says_something(trigger) || *outcome == Outcome::Unchanged && said.is_none() && !begun {
        return Ok(());
    }
    if good && said.is_none() && was_there_before(connection, *plan, commit)? {
        return Ok(());
    }
    if is_open(connection, source, commit)? {
        let worse = |(said, ..): (Outcome, i64, bool)| rank(*outcome) < rank(said) || rank(said).is_none();
        if good || !said.is_none_or(worse) {
            return Ok(());
        }
        return write(connection, ended, (*outcome, 1, false), at);
    }
    if good && said.is_some_and(|(said, _, is_final)| is_final && said == Outcome::Complete) {
        return Ok(());
    }
    let newest = newest(connection, source, commit)?;
    let wrong = newest.iter().filter(|(_, outcome)| rank(*outcome).is_some()).count();
    let found = (worst(&newest), i64::try_from(wrong).unwrap_or(i64::MAX), true);
    // That the rest of it has ended well is no news where something else was told to be wrong, and still is.
    let same = said.is_some_and(|(state, wrong, is_final)| {
        (state, wrong) == (found.0, found.1) && (is_final || rank(found.0).is_some())
    });
    if same { Ok(()) } else { write(connection, ended, found, at) }
}

/// A record that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRecord<'r> {
    pub(super) plan: i64,
    pub(super) source: &'r str,
    pub(super) commit: &'r CommitId,
    pub(super) outcome: Outcome,
    pub(super) trigger: &'r Trigger,
}

impl EndedRecord<'_> {
    /// The one of the two that ended worse.
    pub(super) fn worse(self, other: Self) -> Self {
        let rank = |ended: Self| rank(ended.outcome).unwrap_or(usize::MAX);
        if rank(other) < rank(self) { other } else { self }
    }
}

/// Forgets the notices of commits that have no record left.
pub(super) fn forget_notices(connection: &Connection) -> Result<(), Failure> {
    connection.execute(
        "DELETE FROM notices WHERE NOT EXISTS (SELECT 1 FROM records INDEXED BY records_by_commit WHERE \
         records.\"commit\" = notices.\"commit\" AND records.source = notices.source)",
        [],
    )?;
    Ok(())
}

/// Whether a good end that was set off so says anything of its commit: nothing where belay put right what somebody else
/// changed.
fn says_something(trigger: &Trigger) -> bool {
    !matches!(trigger, Trigger::Drift(_) | Trigger::Autoscaler(_) | Trigger::Rebuilt)
}

/// How bad an end is, 0 for the worst; `None` for one that is not bad.
fn rank(outcome: Outcome) -> Option<usize> {
    WRONG.iter().position(|wrong| *wrong == outcome)
}

/// The worst of these; else that a newer commit took the place of some; else that all is complete.
fn worst(records: &[(i64, Outcome)]) -> Outcome {
    let outcomes = || records.iter().map(|(_, outcome)| *outcome);
    let wrong = outcomes().filter_map(rank).min().map(|rank| WRONG[rank]);
    let superseded = || outcomes().find(|outcome| *outcome == Outcome::Superseded);
    wrong.or_else(superseded).unwrap_or(Outcome::Complete)
}

/// Whether a plan is the first of its source, and the commit an earlier one than its head: that all of a repository's past is
/// complete is no news.
fn was_there_before(connection: &Connection, plan: i64, commit: &CommitId) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT head <> ?2 AND NOT EXISTS (SELECT 1 FROM plans AS older INDEXED BY plans_by_source WHERE older.source = \
         plans.source AND older.number < plans.number) FROM plans WHERE number = ?1",
    )?;
    Ok(statement.query_row(params![plan, commit.as_str()], |row| row.get(0))?)
}

fn is_open(connection: &Connection, source: &str, commit: &CommitId) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM records INDEXED BY records_open WHERE source = ? AND ended IS NULL AND \"commit\" = ?)",
    )?;
    Ok(statement.query_row(params![source, commit.as_str()], |row| row.get(0))?)
}

fn newest(connection: &Connection, source: &str, commit: &CommitId) -> Result<Vec<(i64, Outcome)>, Failure> {
    let mut statement = connection.prepare_cached(NEWEST)?;
    let found =
        statement.query_map(params![source, commit.as_str()], |row| Ok((row.get(0)?, rows::worded(row, 1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn write(
    connection: &Connection,
    ended: &EndedRecord<'_>,
    (state, wrong, is_final): (Outcome, i64, bool),
    at: Timestamp,
) -> Result<(), Failure> {
    connection
        .prepare_cached("INSERT INTO notices (source, \"commit\", state, wrong, final, at) VALUES (?, ?, ?, ?, ?, ?)")?
        .execute(params![ended.source, ended.commit.as_str(), rows::word(state), wrong, is_final, rows::time(at)])?;
    Ok(())
}

fn notice(row: &Row<'_>) -> rusqlite::Result<Notice> {
    Ok(Notice {
        number: row.get(0)?,
        source: row.get(1)?,
        commit: rows::parsed(row, 2)?,
        state: rows::worded(row, 3)?,
        is_final: row.get(4)?,
        at: rows::parsed(row, 5)?,
    })
}
