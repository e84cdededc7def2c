//! `belay status` while the API server does not answer: what the daemon on this machine knew last.

use super::{Revisions, StatusFound, StatusQuery};
use crate::cli::output::answer::WorkloadAnswer;
use crate::cli::output::plain;
use crate::cli::source_histories::SourceHistories;
use crate::clock::Clock;
use crate::cluster::ClusterError;
use crate::daemon::ask_daemon_for_workloads;
use crate::history::PublishedSource;
use belay_core::rollout::marks;

impl StatusQuery {
    /// Returns what the daemon publishes. The error stays one if the API server did answer, no daemon follows its cluster
    /// here, or the daemon does not know what is asked for.
    pub(super) async fn known_last(
        &self,
        error: ClusterError,
        revisions: Revisions,
    ) -> Result<StatusFound, ClusterError> {
        // The daemon publishes no labels.
        let is_silent = matches!(error, ClusterError::Away { .. }) && !error.is_own();
        let folder = self.folder.as_ref().filter(|_| is_silent && self.labels == marks::SOURCE);
        let Some(folder) = folder else { return Err(error) };
        let Some(mut published) = ask_daemon_for_workloads(folder).await else { return Err(error) };
        published.retain(|_, source| self.is_of_this_cluster(source));
        if published.is_empty() {
            return Err(error);
        }
        let live: Vec<_> =
            published.iter_mut().map(|(name, source)| (name.clone(), std::mem::take(&mut source.workloads))).collect();
        let memory = SourceHistories::published(published, self.history.as_ref(), Clock::system().now());
        let mut rows = Vec::new();
        for (source, workloads) in &live {
            let known = memory.sources.get(source);
            let here = workloads.iter().filter(|(key, _)| self.filter.is_here(key));
            rows.extend(here.map(|(key, live)| WorkloadAnswer::of_live(key, source, live, known)));
        }
        rows.extend(memory.rows_besides(&rows, |key| self.filter.is_here(key)));
        self.refine(&mut rows);
        if rows.is_empty() && (self.filter.workload.is_some() || self.filter.commit.is_some()) {
            return Err(error);
        }
        let of_revisions = revisions == Revisions::Shown && self.filter.workload.is_some();
        for row in &mut rows {
            row.known_last = true;
            row.revisions_missing = of_revisions.then(|| error.to_string());
        }
        Ok(StatusFound { memory, rows, unanswered: Some(error) })
    }

    /// Returns true unless a source is for another cluster.
    fn is_of_this_cluster(&self, source: &PublishedSource) -> bool {
        match (source.standing.follower.cluster.as_deref(), self.cluster.server()) {
            (Some(its), Some(asked)) => its == asked,
            _ => true,
        }
    }

    /// Returns the line that says that the API server did not answer.
    pub(super) fn unanswered_line(&self, error: &str) -> String {
        let server = self.cluster.server().map(|server| format!(" {server}")).unwrap_or_default();
        plain(&format!("the API server{server} did not answer: {error}; all of this is what the daemon here knew last"))
    }
}
