//! The reason for which a piece of work with the file failed.

use crate::history::error::HistoryError;

/// The reason for which a piece of work failed: SQLite refused, or we did.
pub(in crate::history) enum Failure {
    Sql(rusqlite::Error),
    Ours(HistoryError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sql(error)
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Failure {
        Failure::Ours(error)
    }
}
