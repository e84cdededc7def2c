//! Open records when somebody sets the machine's clock.

use jiff::SignedDuration;
use rusqlite::params;

use crate::history::error::HistoryError;
use crate::history::sqlite::store::file::History;

/// The same moment, by a clock that was set by the seconds of the second parameter.
macro_rules! moved {
    ($column:literal) => {
        concat!("strftime('%Y-%m-%dT%H:%M:%fZ', ", $column, ", printf('%+.3f seconds', ?2))")
    };
}

const OPEN: &str = "SELECT number FROM records WHERE source = ?1 AND ended IS NULL";

impl History {
    /// Moves the times of a source's open records along with a clock that was set: their beginning, their steps and their
    /// writes.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn clock_was_set(&self, source: &str, by: SignedDuration) -> Result<(), HistoryError> {
        self.write("move open records along with the clock", |connection| {
            for (table, column, moved, records) in [
                ("steps", "at", moved!("at"), "record"),
                ("baselines", "at", moved!("at"), "record"),
                ("records", "started", moved!("started"), "number"),
            ] {
                let sql = format!("UPDATE {table} SET {column} = {moved} WHERE {records} IN ({OPEN})");
                connection.prepare_cached(&sql)?.execute(params![source, by.as_secs_f64()])?;
            }
            Ok(())
        })
    }
}
