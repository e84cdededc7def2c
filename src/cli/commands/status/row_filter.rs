//! The rows that `belay status` is asked for, and their table.

use super::by_state;
use super::workload_table;
use crate::cli::args::workload::Named;
use crate::cli::output::answer::WorkloadAnswer;
use crate::cli::output::{Format, terminal_width};
use crate::history::query::harm::sort_by_harm;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{ObjectState, Workload};

/// The rows that are asked for.
pub(super) struct RowFilter {
    pub(super) namespace: Option<String>,
    pub(super) workload: Option<Named>,
    pub(super) commit: Option<String>,
    /// The states whose rows are shown; all if it is empty.
    pub(super) states: Vec<ObjectState>,
}

impl RowFilter {
    /// Keeps the rows of the workload and the commit that are asked for, the most harmful first.
    pub(super) fn keep_asked(&self, rows: &mut Vec<WorkloadAnswer>) {
        rows.retain(|row| self.workload.as_ref().is_none_or(|named| named.means(&row.object, None)));
        let commit = self.commit.as_deref();
        rows.retain(|row| commit.is_none_or(|commit| row.commit.starts_with(commit)));
        sort_by_harm(rows);
    }

    /// Keeps the rows whose states are wanted.
    pub(super) fn keep_wanted(&self, rows: &mut Vec<WorkloadAnswer>) {
        rows.retain(|row| self.wants(row.state));
    }

    pub(super) fn wants(&self, state: ObjectState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    /// Returns true when an object is in the namespace that is asked for, or in none.
    pub(super) fn is_here(&self, key: &ObjectKey) -> bool {
        self.namespace.is_none() || key.namespace.is_none() || key.namespace == self.namespace
    }

    /// Returns the words about the namespace.
    pub(super) fn place(&self) -> String {
        let namespace = self.namespace.as_ref();
        namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace} (-A: in all)"))
    }

    /// Returns the error for a commit that no workload is at.
    pub(super) fn no_such_commit(&self, commit: &str) -> anyhow::Error {
        let place = self.place();
        anyhow::anyhow!(
            "no workload{place} is at a commit that begins with {commit:?}; belay show {commit} tells what became of it"
        )
    }

    /// Returns the table, or one line that says that there is nothing to show. A daemon that has not seen the cluster
    /// since its start knows no workloads.
    pub(super) fn table(&self, rows: &[WorkloadAnswer], format: Format, is_unanswered: bool) -> Vec<String> {
        let has_seen_none = is_unanswered && rows.iter().all(|row| Workload::of(&row.object).is_none());
        let unseen = has_seen_none.then(|| {
            "The daemon here has seen no workload since its start; belay history shows its rollouts.".to_owned()
        });
        if !rows.is_empty() {
            let width = if format == Format::Wide { None } else { terminal_width() };
            return workload_table::of(rows, format).lines_within(width).into_iter().chain(unseen).collect();
        }
        if unseen.is_none() && !self.states.is_empty() {
            return vec![by_state::none(&self.states, self.namespace.as_deref())];
        }
        vec![unseen.unwrap_or_else(|| match &self.namespace {
            Some(namespace) => format!("belay has applied no workload in namespace {namespace} (-A: in all)."),
            None => "belay has applied no workload.".to_owned(),
        })]
    }
}
