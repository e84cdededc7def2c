//! The table of workloads of `belay status`.

use crate::cli::output::answer::WorkloadAnswer;
use crate::cli::output::table::{Cell, Table, state};
use crate::cli::output::{Format, age, duration};
use crate::clock::Clock;
use belay_core::rollout::{ObjectState, Workload};

/// The pods of an object whose kind has none.
const NO_PODS: &str = "-";

/// Returns the table of these rows.
pub(super) fn of(rows: &[WorkloadAnswer], format: Format) -> Table {
    let now = Clock::system().now();
    let mut headings = vec!["SOURCE", "OBJECT", "COMMIT", "STATE", "PODS", "SINCE", "MESSAGE"];
    if format == Format::Wide {
        headings.splice(5..5, ["UPDATED", "READY", "AVAILABLE"]);
    }
    let mut table = Table::new(&headings).whole(&["OBJECT"]).optional(&["SINCE", "COMMIT", "PODS"]);
    for row in rows {
        let mut message = if format == Format::Wide { row.message.clone() } else { row.short_message() };
        if let Some(deadline) = row.deadline {
            message = match deadline.duration_since(now) {
                left if left.is_positive() => format!("{message}; fails in {} unless something moves", duration(left)),
                _ => format!("{message}; past its deadline"),
            };
        }
        if row.known_last {
            message = format!("known last: {message}");
        }
        let mut cells: Vec<Cell> = vec![
            row.source.clone().into(),
            row.object.to_string().into(),
            row.commit.chars().take(7).collect::<String>().into(),
            state(row.state),
            match Workload::of(&row.object) {
                Some(_) => format!("{} {}/{}", bar(row), row.available, row.desired).trim_start().into(),
                None => NO_PODS.into(),
            },
            row.since.map(|since| age(since, now)).unwrap_or_default().into(),
            message.into(),
        ];
        if format == Format::Wide {
            let of_pods = Workload::of(&row.object).is_some();
            let counts = [row.updated, row.ready, row.available];
            let counts = counts.map(|count| Cell::from(if of_pods { count.to_string() } else { NO_PODS.to_owned() }));
            cells.splice(5..5, counts);
        }
        table.row(cells);
    }
    table
}

/// Draws the progress of a rollout: pods that are updated and available, updated and ready, updated, and those that are
/// not; at most ten of them.
fn bar(row: &WorkloadAnswer) -> String {
    const LONGEST: i64 = 10;
    if row.desired <= 0 || !matches!(row.state, ObjectState::Progressing | ObjectState::RollingBack) {
        return String::new();
    }
    let length = row.desired.min(LONGEST);
    let part = |count: i64| usize::try_from((count.clamp(0, row.desired) * length) / row.desired).unwrap_or_default();
    let (done, begun) = (part(row.updated.min(row.available)), part(row.updated));
    let ready = part(row.updated.min(row.ready)).clamp(done, begun);
    let all = usize::try_from(length).unwrap_or_default();
    "●".repeat(done) + &"◕".repeat(ready - done) + &"◐".repeat(begun - ready) + &"○".repeat(all - begun)
}
