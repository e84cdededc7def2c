//! The rows of the overview's table: the most harmful whole, the others short, so that thousands are a small page.

use askama::Template;

use super::Frame;
use super::known_commits::KnownCommits;
use super::workload_row::WorkloadRow;
use crate::daemon::Status;
use crate::history::query::answers::WorkloadAnswer;
use belay_core::manifest::shortened;

/// The number of rows that are shown at once. The filter finds the others.
pub(super) const ROWS: usize = 2000;
/// The number of rows that unfold; the pages of the others' workloads have the whole reason.
pub(super) const UNFOLDING: usize = 100;
/// The bytes of rows after which the others are short.
pub(super) const WHOLE_BYTES: usize = 96 * 1024;
/// The number of characters of the reason in a short row.
const SHORT_REASON: usize = 120;

/// The rows as they are written.
#[derive(Debug, Default)]
pub(super) struct OverviewRows {
    pub html: String,
    /// The number of all rows, and of the short ones among them.
    pub count: usize,
    pub short: usize,
}

/// A row that has everything.
#[derive(Template)]
#[template(path = "overview_row.html")]
struct WholeRow<'a> {
    frame: &'a Frame,
    row: WorkloadRow,
    has_sources: bool,
}

/// A row without the picture of its pods, what it runs beside the wanted commit, subject and author.
#[derive(Template)]
#[template(path = "overview_line.html")]
struct ShortRow<'a> {
    frame: &'a Frame,
    row: &'a WorkloadRow,
    cause: &'a str,
    has_sources: bool,
}

impl OverviewRows {
    /// Writes rows, the most harmful first. `has_sources` says that each names its source.
    pub(super) fn of(
        rows: Vec<WorkloadAnswer>,
        frame: &Frame,
        (status, told): (&Status, &KnownCommits),
        has_sources: bool,
    ) -> Result<OverviewRows, askama::Error> {
        let mut written = OverviewRows::default();
        for answer in rows.into_iter().take(ROWS) {
            let row = WorkloadRow::of(answer, status, told);
            if written.html.len() >= WHOLE_BYTES {
                let cause = shortened(&row.cause, SHORT_REASON);
                ShortRow { frame, row: &row, cause: &cause, has_sources }.render_into(&mut written.html)?;
                written.short += 1;
            } else {
                let row = if written.count < UNFOLDING { row } else { row.in_a_line() };
                WholeRow { frame, row, has_sources }.render_into(&mut written.html)?;
            }
            // The template's last line ends without one.
            written.html.push('\n');
            written.count += 1;
        }
        Ok(written)
    }
}
