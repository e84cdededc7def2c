//! The line of the timeline in which a record counts: in that of the commit that is charged with it, whatever the head
//! is by then.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rusqlite::{Connection, params};

use crate::history::sqlite::failure::Failure;
use belay_core::rollout::{CommitId, Record};

/// The line of a commit that was a head itself is its newest one. One that came with the present head has that head's line.
/// Any other one stays in the line where it was listed last, and without one comes into the present one.
const TIMELINE_PLAN: &str = "SELECT coalesce((SELECT max(number) FROM plans INDEXED BY plans_by_head WHERE source = ?1 AND \
                             head = ?2), (SELECT ?4 FROM arrivals WHERE \"commit\" = ?2 AND source = ?1 AND head = ?3), \
                             (SELECT max(timeline_plan) FROM records INDEXED BY records_by_commit WHERE \"commit\" = ?2 AND \
                             source = ?1), ?4)";

/// The lines of the commits of one plan.
pub(super) struct TimelinePlans<'r> {
    source: &'r str,
    head: &'r CommitId,
    plan: i64,
    /// By commit, as each is looked up once.
    known: BTreeMap<&'r CommitId, i64>,
}

impl<'r> TimelinePlans<'r> {
    pub(super) fn new(source: &'r str, head: &'r CommitId, plan: i64) -> TimelinePlans<'r> {
        TimelinePlans { source, head, plan, known: BTreeMap::new() }
    }

    /// Returns the number of the plan in whose line a new record counts. A new head that brings back the manifest of an
    /// earlier commit is noted in its plan, because nothing of that counts in its line.
    pub(super) fn of(&mut self, connection: &Connection, record: &'r Record) -> Result<i64, Failure> {
        let plan = match self.known.entry(&record.commit) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let values = params![self.source, record.commit.as_str(), self.head.as_str(), self.plan];
                *new.insert(connection.prepare_cached(TIMELINE_PLAN)?.query_row(values, |row| row.get(0))?)
            }
        };
        if plan != self.plan && record.trigger.is_commit() {
            connection
                .prepare_cached("UPDATE plans SET brings_back = 1 WHERE number = ? AND brings_back = 0")?
                .execute([self.plan])?;
        }
        Ok(plan)
    }
}
