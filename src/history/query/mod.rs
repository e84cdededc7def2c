//! Answers that are put together from several questions to the history, whatever it is kept in: for people, for the
//! daemon and for programs. In go a [`History`](crate::history::History) and what a daemon publishes; out come the types
//! of `-o json` (`answers`), their order (`harm`), the causes of failures in them (`row_cause`), the state of each source
//! (`source_histories`) and the details of a record (`step_details`). `time_given` reads the times of a question.

pub mod answers;
pub mod harm;
mod row_cause;
pub mod source_histories;
pub mod step_details;
pub mod time_given;
