//! The outbox: outcomes of commits to be sent, and the progress of each receiver.
//!
//! A notice is written in the transaction that ends the record that it reports. It only marks a change; the outcome of
//! the commit is read when it is sent. If several notices of one commit have not reached a receiver, only the newest
//! counts, so that three hundred objects are not three hundred messages.

pub(in crate::history) mod commit;
pub(in crate::history) mod lasting;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::history::commit_notice::outcomes_of;
use crate::history::error::HistoryError;
use crate::history::outbox::{CommitOutcome, Notice, NoticeAbout, Pending};
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::notices::commit::{newest, newest_of_past};
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::rollout::{CommitId, Outcome, Record, RecordId};

/// The columns that [`notice`] reads, in its order.
const NOTICE: &str = "number, kind, source, \"commit\", state, final, at, since, reason";
/// The condition that no newer notice stands for one: of the same commit, or of the same source.
const NEWEST: &str = "NOT EXISTS (SELECT 1 FROM notices AS newer INDEXED BY notices_by_commit WHERE newer.source = \
                      notices.source AND newer.\"commit\" = notices.\"commit\" AND newer.kind = notices.kind AND \
                      newer.number > notices.number)";
/// The largest number of notices of one message.
const TOGETHER: u32 = 1000;

impl History {
    /// Takes these as the receivers that there are. A new one is sent everything from here on; one that is not among
    /// them is forgotten.
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

    /// Returns the oldest notice that a receiver has not been sent, and that no newer one of the same commit replaces.
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
            // A receiver that a fresh file does not know yet has been sent nothing of it.
            let (told, attempts, retry) = known.unwrap_or_default();
            let sql = format!("SELECT {NOTICE} FROM notices WHERE number > ? AND {NEWEST} ORDER BY number LIMIT 1");
            let found = connection.prepare_cached(&sql)?.query_row([told], notice).optional()?;
            let Some(notice) = found else { return Ok(None) };
            let together = if notice.lasts() { after(connection, notice.number)? } else { Vec::new() };
            Ok(Some(Pending { notice, together, attempts, retry }))
        })
    }

    /// Notes that a receiver has taken all notices up to this one, or is not to be sent it.
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

    /// Notes that a receiver is not sent the notices up to this one. It still is one that does not answer: the next is
    /// tried as late as this one would have been.
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

    /// Notes that a receiver is about to be tried. It counts as a failed attempt until something else is noted, and is
    /// not to be repeated before this time: it may be the cause of belay's end.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn notice_tried(&self, receiver: &str, retry: Timestamp) -> Result<(), HistoryError> {
        self.write("note that a receiver is tried", |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO receivers (name, told, attempts, retry) VALUES (?, 0, 1, ?) ON CONFLICT DO UPDATE SET \
                     attempts = attempts + 1, retry = excluded.retry",
                )?
                .execute(params![receiver, rows::time(retry)])?;
            Ok(())
        })
    }

    /// Notes that the last attempt was in vain, and is not to be made again before this time.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn notice_not_told(&self, receiver: &str, retry: Timestamp) -> Result<(), HistoryError> {
        self.write("note what was not told", |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO receivers (name, told, attempts, retry) VALUES (?, 0, 1, ?) ON CONFLICT DO UPDATE SET \
                     retry = excluded.retry",
                )?
                .execute(params![receiver, rows::time(retry)])?;
            Ok(())
        })
    }

    /// Returns when nothing of a commit was under way, as of the last notice of that which a receiver was sent; `None` if
    /// it was sent none.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn settled_before(
        &self,
        receiver: &str,
        source: &str,
        commit: &CommitId,
    ) -> Result<Option<Timestamp>, HistoryError> {
        self.read("look when a commit had settled", |connection| {
            let found = connection
                .prepare_cached(
                    "SELECT at FROM notices INDEXED BY notices_by_commit WHERE source = ?1 AND \"commit\" = ?2 AND kind = \
                     'commit' AND final AND number <= coalesce((SELECT told FROM receivers WHERE name = ?3), 0) ORDER BY \
                     number DESC LIMIT 1",
                )?
                .query_row(params![source, commit.as_str(), receiver], |row| rows::parsed(row, 0))
                .optional()?;
            Ok(found)
        })
    }

    /// Returns the outcome of a commit in a source, with the records of at most `limit` objects that went wrong.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn became(&self, source: &str, commit: &CommitId, limit: usize) -> Result<CommitOutcome, HistoryError> {
        self.outcome_of("look what became of a commit", limit, |connection| newest(connection, source, commit))
    }

    /// Returns the outcome of the commits before a head at which a source was first followed, as [`History::became`]
    /// does.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn past_became(&self, source: &str, head: &CommitId, limit: usize) -> Result<CommitOutcome, HistoryError> {
        self.outcome_of("look what became of older commits", limit, |connection| {
            newest_of_past(connection, source, head)
        })
    }

    fn outcome_of(
        &self,
        doing: &'static str,
        limit: usize,
        newest: impl FnOnce(&Connection) -> Result<Vec<(i64, Outcome)>, Failure>,
    ) -> Result<CommitOutcome, HistoryError> {
        let (objects, wrong) = self.read(doing, |connection| Ok(outcomes_of(&newest(connection)?)))?;
        let wrong = wrong.into_iter().take(limit).map(|number| self.record(RecordId(number)));
        let wrong: Vec<Option<Record>> = wrong.collect::<Result<_, _>>()?;
        Ok(CommitOutcome { objects, wrong: wrong.into_iter().flatten().collect() })
    }
}

/// Returns the notices right after this one that are of its kind.
fn after(connection: &Connection, number: i64) -> Result<Vec<Notice>, Failure> {
    let sql = format!(
        "SELECT {NOTICE} FROM notices WHERE number > ?1 AND {NEWEST} AND kind = (SELECT kind FROM notices WHERE number = ?1) \
         AND number < coalesce((SELECT min(number) FROM notices AS other WHERE number > ?1 AND other.kind <> (SELECT kind \
         FROM notices WHERE number = ?1)), 9223372036854775807) ORDER BY number LIMIT {TOGETHER}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map([number], notice)?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn notice(row: &Row<'_>) -> rusqlite::Result<Notice> {
    let kind: String = row.get(1)?;
    let about = match kind.as_str() {
        "past" => NoticeAbout::Past(rows::parsed(row, 3)?, rows::worded(row, 4)?),
        "held" => NoticeAbout::Held(rows::parsed(row, 3)?),
        "source" => NoticeAbout::Source(row.get(8)?),
        "disagreement" => NoticeAbout::Disagreement(row.get(8)?),
        _ => NoticeAbout::Commit(rows::parsed(row, 3)?, rows::worded(row, 4)?),
    };
    let since = row.get::<_, Option<String>>(7)?.map(|_| rows::parsed(row, 7)).transpose()?;
    Ok(Notice {
        number: row.get(0)?,
        source: row.get(2)?,
        about,
        is_final: row.get(5)?,
        at: rows::parsed(row, 6)?,
        since,
    })
}
