//! The pods of each revision of a workload, in `belay status WORKLOAD`.

use serde_json::Value;

use crate::cli::output::answer::WorkloadAnswer;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::{Format, plain, terminal_width};
use crate::cluster::Cluster;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::RevisionPods;

/// Adds to the rows of workloads that were asked for by name how many pods there are of each revision; if that can't be
/// read, why.
pub(in crate::cli) async fn add(cluster: &Cluster, live: &[(ObjectKey, Value)], rows: &mut [WorkloadAnswer]) {
    for row in rows {
        let Some((key, live)) = live.iter().find(|(key, _)| *key == row.object) else { continue };
        match cluster.revision_pods(key, live).await {
            Ok(mut revisions) => {
                revisions.retain(RevisionPods::is_in_use);
                row.revisions = Some(revisions);
            }
            Err(error) => row.revisions_missing = Some(error.to_string()),
        }
    }
}

/// Returns the table of these rows, a line each.
pub(in crate::cli) fn lines(rows: &[WorkloadAnswer], format: Format) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        let revisions = row.revisions.as_deref().unwrap_or_default();
        if !revisions.is_empty() {
            lines.push(String::new());
            if rows.len() > 1 {
                lines.push(format!("{}:", row.object));
            }
            let width = if format == Format::Wide { None } else { terminal_width() };
            lines.extend(table(revisions, format).lines_within(width));
        }
        if let Some(why) = &row.revisions_missing {
            lines.push(plain(&format!("the pods of each revision of {} are not known: {why}", row.object)));
        }
    }
    lines
}

fn table(revisions: &[RevisionPods], format: Format) -> Table {
    let mut headings = vec!["REVISION", "COMMIT", "DESIRED", "UPDATED", "READY", "NOT READY", "AVAILABLE"];
    if format == Format::Wide {
        headings.extend(["NAME", "CHANGE-CAUSE"]);
    }
    let mut table = Table::new(&headings);
    for one in revisions {
        let counts = [one.desired, one.updated, one.ready, one.not_ready, one.available];
        let mut cells: Vec<Cell> = vec![
            one.revision.to_string().into(),
            one.commit.as_ref().map(|commit| commit.short().to_owned()).unwrap_or_default().into(),
        ];
        cells.extend(counts.map(|count| Cell::from(count.to_string())));
        if format == Format::Wide {
            cells.push(one.name.clone().into());
            cells.push(one.change_cause.clone().unwrap_or_default().into());
        }
        table.row(cells);
    }
    table
}
