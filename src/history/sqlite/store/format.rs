//! The format of the file: made, recognised, and brought from an older one to the newest.

use rusqlite::{Connection, TransactionBehavior};

/// The formats, each as the step from the one before. A format that has been released is never changed.
const FORMATS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("holds.sql"),
    include_str!("disputes.sql"),
    include_str!("bakes.sql"),
    include_str!("measurements.sql"),
    include_str!("fetches.sql"),
];
/// The number that marks the file as belay's: `blay` in ASCII.
pub(in crate::history) const APPLICATION: i32 = 0x626c_6179;

/// Returns the newest format that is known here.
pub(in crate::history) fn newest_format() -> i32 {
    i32::try_from(FORMATS.len()).unwrap_or(i32::MAX)
}

/// Returns the format of a file; 0 for an empty one.
pub(in crate::history) fn format_of(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the file to the newest format, step by step, all or nothing.
pub(in crate::history) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    migrate_to(connection, FORMATS)
}

/// Sets how the file is written.
pub(in crate::history) fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    // Only has an effect before the first table: room that was freed can be given back bit by bit.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    // Readers in other processes neither wait for the writer nor hold it up.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // With WAL, NORMAL does not wait for the disk at each commit. A committed transaction is with the operating system
    // then and outlives `kill -9`; a power failure may take the last moments, but never the file. More is not needed:
    // the cluster holds the important facts, on the objects, and a daemon that starts again reads them there. FULL
    // would cost a wait for the disk at every step of every rollout.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(())
}

fn migrate_to(connection: &mut Connection, formats: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile.
    let found = format_of(&transaction)?;
    for (number, step) in (1..).zip(formats).filter(|(number, _)| *number > found) {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", number)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(connection: &Connection) -> Vec<String> {
        let mut statement = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn an_older_file_is_brought_up_step_by_step() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_to(&mut connection, FORMATS).unwrap();
        connection.execute_batch("INSERT INTO people (name, email) VALUES ('Ada', 'ada@example.com')").unwrap();
        let later = ["ALTER TABLE people ADD COLUMN team TEXT", "CREATE TABLE teams (name TEXT)"];
        let formats: Vec<&str> = FORMATS.iter().copied().chain(later).collect();
        migrate_to(&mut connection, &formats).unwrap();
        assert_eq!(format_of(&connection).unwrap(), newest_format() + 2);
        let ada: (String, Option<String>) =
            connection.query_row("SELECT name, team FROM people", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(ada, ("Ada".to_owned(), None));
        assert!(names(&connection).contains(&"teams".to_owned()));
        // Nothing is done twice.
        migrate_to(&mut connection, &formats).unwrap();
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_to(&mut connection, FORMATS).unwrap();
        let before = names(&connection);
        let formats: Vec<&str> =
            FORMATS.iter().copied().chain(["CREATE TABLE teams (name TEXT)", "nonsense"]).collect();
        assert!(migrate_to(&mut connection, &formats).is_err());
        assert_eq!((names(&connection), format_of(&connection).unwrap()), (before, newest_format()));
    }
}
