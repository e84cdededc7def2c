//! Fetches the repository, and reads a new head. It runs beside the loop.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::beyond_limits::HeadRead;
use super::desired_state::DesiredState;
use super::head_change::HeadChange;
use super::source_repository::Repository;
use crate::clock::Clock;
use crate::daemon::shared::cleanup::Pruning;
use crate::daemon::shared::context::Context;
use crate::git::{Follow, GitError, Wake, Watching};
use crate::history::FetchTimes;
use belay_core::rollout::CommitId;

/// The input of a fetch.
#[derive(Clone)]
pub struct RepositoryLook {
    pub repository: Repository,
    pub follow: Follow,
    pub stop: CancellationToken,
    pub wake: Option<Arc<Wake>>,
    /// The head that was planned last.
    pub planned: Option<CommitId>,
    pub pruning: Pruning,
    /// The known state of the repository.
    pub desired: Arc<DesiredState>,
    /// True when a new head waits, for another source or for a window.
    pub heads_wait: bool,
    /// The head that was read last, or refused.
    pub known: Option<CommitId>,
    /// The paths that an earlier run of the daemon complained about, until something is read.
    pub complained: BTreeSet<String>,
}

/// The end of a fetch.
pub struct LookEnd {
    pub looked: Result<Looked, GitError>,
    /// The content of the mirror, if the repository did not answer and nothing is known of it yet.
    pub kept: Option<Box<HeadChange>>,
    /// The state that was known when the fetch began: the result is relative to that.
    pub known: Arc<DesiredState>,
}

/// The result of a fetch.
pub enum Looked {
    /// Nothing new.
    Same(Option<CommitId>),
    /// A new head.
    New(Box<HeadChange>),
}

/// The end of a fetch, and whether it counts.
struct LookResult {
    end: LookEnd,
    /// True when there is a chart, and the cluster's capabilities are not known yet.
    waits: bool,
    /// True when reading was given up for a newer head.
    given_up: bool,
}

impl RepositoryLook {
    /// Looks, and asks the cluster for its capabilities if a chart must know them first.
    pub async fn run(self, context: Arc<Context>) -> LookEnd {
        context.renew_capabilities().await;
        loop {
            let (look, clock) = (self.clone(), context.clock.clone());
            // A panic while reading the repository is reported to the loop as one of this task.
            let seen = tokio::select! {
                seen = self.repository.blocking_pool.run(move || look.see(&clock)) => seen,
                never = self.give_up_for_newer(context.config.interval.0) => match never {},
            };
            match seen {
                LookResult { waits: true, .. } => context.ask_for_capabilities().await,
                LookResult { given_up: true, .. } if !self.stop.is_cancelled() => {}
                LookResult { end, .. } => return end,
            }
        }
    }

    /// Looks whether there is a newer head while a tool takes long to render the present one, which is given up then.
    async fn give_up_for_newer(&self, interval: Duration) -> Infallible {
        loop {
            tokio::time::sleep(interval).await;
            if !self.repository.units.renderer.is_slow() {
                continue;
            }
            let (repository, follow, stop) = (self.repository.clone(), self.follow.clone(), self.stop.clone());
            let fetch = move || {
                repository.mirror.fetch(&follow, &stop)?;
                let head = repository.mirror.head(&follow)?;
                if let Some(head) = head {
                    let _turn = repository.units.renderer.begin(head.as_str());
                }
                Ok::<(), GitError>(())
            };
            if let Err(error) = self.repository.blocking_pool.run(fetch).await {
                debug!(%error, "failed to look for a newer head while the present one is rendered");
            }
        }
    }

    fn see(self, clock: &Clock) -> LookResult {
        let began = clock.now();
        // It listens before the fetch: later pushes are noticed.
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
            let fetch = Some(FetchTimes { began, ended: clock.now() });
            // A head whose reading, before it is taken up, brings belay down is counted as well.
            let _attempt = repository.mirror.attempt();
            let read = HeadRead { head: head.clone(), planned: planned.cloned(), known: self.desired.at.clone() };
            repository.beyond_limits.unless_beyond(read, || {
                waits = repository.waits_for_capabilities(head)?;
                let known = self.desired.to_read_on();
                let news = || repository.news(&known, planned, head, self.pruning, &self.complained);
                if waits { Ok(None) } else { news().map(|news| Some(HeadChange { fetch, ..news })) }
            })
        });
        let given_up = looked.as_ref().is_err_and(GitError::is_given_up);
        let looked = looked.map(|(head, news)| match news {
            Some(news) => Looked::New(Box::new(news)),
            None => Looked::Same(head),
        });
        let kept = match (&looked, planned) {
            (Err(_) | Ok(Looked::Same(None)), Some(planned)) if self.known.is_none() && !waits && !given_up => {
                waits = repository.waits_for_capabilities(planned).unwrap_or(false);
                (!waits).then(|| self.kept(planned)).flatten()
            }
            (Ok(Looked::New(news)), Some(planned))
                if self.heads_wait && self.known.is_none() && news.suspect.is_none() && news.head.id != *planned =>
            {
                self.kept(planned)
            }
            _ => None,
        };
        LookResult { end: LookEnd { looked, kept, known: self.desired }, waits, given_up }
    }

    /// Returns the change to the commit that was planned last, from the mirror.
    fn kept(&self, planned: &CommitId) -> Option<Box<HeadChange>> {
        self.repository.kept(&self.desired, planned, self.pruning, &self.complained).map(Box::new)
    }
}
