//! Writes down the kept part of a record's evidence.

use rusqlite::{Connection, params};

use crate::history::kept_evidence::kept_evidence;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::rows;
use belay_core::rollout::Evidence;

/// Writes down the evidence of a record.
pub(super) fn write(connection: &Connection, record: i64, evidence: &Evidence) -> Result<(), Failure> {
    let (kind, started) = connection
        .prepare_cached("SELECT kind, started FROM records WHERE number = ?")?
        .query_row(params![record], |row| Ok((row.get::<_, String>(0)?, rows::parsed(row, 1)?)))?;
    Ok(rows::write_evidence(connection, record, &kept_evidence(evidence, &kind, started))?)
}
