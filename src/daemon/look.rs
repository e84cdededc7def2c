//! A look at the repository: fetched, and read where its head is new. It runs beside the loop.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::cleanup::Pruning;
use super::context::Context;
use super::desired_state::DesiredState;
use super::repository::Repository;
use super::task_result::{LookEnd, Looked, TaskResult};
use crate::git::{Follow, Wake, Watching};
use belay_core::rollout::CommitId;

/// What a look begins with.
#[derive(Clone)]
pub(super) struct RepositoryLook {
    pub repository: Repository,
    pub follow: Follow,
    pub stop: CancellationToken,
    pub wake: Option<Arc<Wake>>,
    /// The head that was planned last.
    pub planned: Option<CommitId>,
    pub pruning: Pruning,
    /// What is known of the repository.
    pub desired: Arc<DesiredState>,
    /// Whether a new head waits for another source.
    pub comes_after: bool,
    /// The head that was read last, or refused.
    pub known: Option<CommitId>,
}

/// What a look has seen.
struct LookResult {
    end: LookEnd,
    /// Whether there is a chart, and the cluster has not said yet what it can do.
    waits: bool,
}

impl RepositoryLook {
    /// Looks, and asks the cluster what it can do where a chart must know that first.
    pub(super) async fn run(self, context: Arc<Context>) -> TaskResult {
        context.renew_capabilities().await;
        loop {
            let look = self.clone();
            // A panic while reading the repository is told to the loop as one of this task.
            let LookResult { end, waits } = self.repository.blocking_pool.run(move || look.see()).await;
            if !waits {
                return TaskResult::Looked(Box::new(end));
            }
            context.ask_for_capabilities().await;
        }
    }

    fn see(self) -> LookResult {
        // Before the fetch: what moves after it is noticed.
        if let Some(Watching::No(why)) = self.wake.as_deref().map(Wake::mend) {
            debug!(why, "pushes are noticed only by polling");
        }
        let (repository, planned) = (&self.repository, self.planned.as_ref());
        repository.read_files.age();
        let mut waits = false;
        let looked = repository.look(&self.follow, &self.stop, |head| {
            if self.known.as_ref() == Some(head) && !repository.units.may_render_now() {
                return Ok(None);
            }
            debug!(commit = head.short(), "a new head");
            waits = repository.waits_for_capabilities(head)?;
            if waits { Ok(None) } else { repository.news(&self.desired, planned, head, self.pruning).map(Some) }
        });
        let looked = looked.map(|(head, news)| match news {
            Some(news) => Looked::New(Box::new(news)),
            None => Looked::Same(head),
        });
        let kept = match (&looked, planned) {
            (Err(_) | Ok(Looked::Same(None)), Some(planned)) if self.known.is_none() && !waits => {
                waits = repository.waits_for_capabilities(planned).unwrap_or(false);
                (!waits).then(|| repository.kept(&self.desired, planned, self.pruning)).flatten().map(Box::new)
            }
            (Ok(Looked::New(news)), Some(planned))
                if self.comes_after && self.known.is_none() && news.suspect.is_none() && news.head.id != *planned =>
            {
                repository.kept(&self.desired, planned, self.pruning).map(Box::new)
            }
            _ => None,
        };
        LookResult { end: LookEnd { looked, kept, known: self.desired }, waits }
    }
}
