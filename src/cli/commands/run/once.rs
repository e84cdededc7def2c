//! `belay run --once`: when it ends, and how.

use anyhow::bail;
use tokio::sync::watch;

use crate::cli::exit::Exit;
use crate::cli::output::{plain, progress};
use crate::config::{SourceConfig, Span};
use crate::daemon::{Obstacle, SourceStatus, Status};
use belay_core::rollout::{ObjectState, SourceState};

/// Returns when every source is through with its head, or waits for one that is, and that is not complete.
pub(super) async fn settled(mut status: watch::Receiver<Status>, sources: &[SourceConfig]) {
    let in_vain = |status: &Status, name: &str| {
        let before = sources.iter().find(|source| source.name == name).and_then(|source| source.after.as_ref());
        before.and_then(|before| status.sources.get(before)).is_some_and(|before| {
            before.obstacles.unreadable.is_some()
                || before.obstacles.waits.is_some()
                || before.settled && before.complete.is_none()
        })
    };
    let all = |status: &Status| {
        let through = |(name, source): (&String, &SourceStatus)| {
            let hopeless =
                source.obstacles.unreadable.is_some() || source.obstacles.waits.is_some() && in_vain(status, name);
            // A Lease that is not renewed at the moment is renewed soon, or lost: either is an answer, this is none.
            let is_held = !source.obstacles.trouble.contains_key(&Obstacle::Lease);
            source.settled && is_held || hopeless
        };
        !status.sources.is_empty() && status.sources.iter().all(through)
    };
    // The daemon that publishes it runs as long as anybody waits for this.
    let _ = status.wait_for(all).await;
}

/// Returns the result of a run that ends by itself, by the state of each source's head: the same each time that the
/// same head is found. A problem is reported with its reason.
pub(super) fn how_it_went(status: &Status, timed_out: Option<Span>) -> anyhow::Result<Exit> {
    let unreadable: Vec<String> = status
        .sources
        .iter()
        .filter_map(|(name, source)| Some(format!("source {name}: {}", source.obstacles.unreadable.as_ref()?)))
        .collect();
    if !unreadable.is_empty() {
        bail!(unreadable.join("\n"));
    }
    if let Some(timeout) = timed_out {
        let unsettled = || status.sources.iter().filter(|(_, source)| !source.settled);
        for (name, source) in unsettled() {
            progress(format!("error: source {name} is not through after {timeout}: {}", source.summary()));
            source.unfinished().iter().for_each(|line| progress(plain(&format!("  {line}"))));
        }
        let blocked = unsettled().any(|(_, source)| source.blocked_by().is_some());
        return Ok(if blocked { Exit::Error } else { Exit::TimedOut });
    }
    let unwell: Vec<(&String, &SourceStatus)> = status.sources.iter().filter(|(_, source)| !is_well(source)).collect();
    for (name, source) in &unwell {
        progress(plain(&format!("error: source {name}: {}", source.summary())));
        let troubles = source.obstacles.trouble.iter().map(|(place, message)| format!("{place}: {message}"));
        source.wrong().into_iter().chain(troubles).for_each(|line| progress(plain(&format!("  {line}"))));
    }
    Ok(if unwell.is_empty() { Exit::Done } else { Exit::No })
}

/// Returns true when every object in the head of a source is live, apart from those that somebody asked to leave alone, and
/// nothing is in the way of the rest.
fn is_well(source: &SourceStatus) -> bool {
    let obstacles = &source.obstacles;
    let is_degraded = source.state() == SourceState::Degraded;
    let is_free = obstacles.waits.is_none() && obstacles.trouble.is_empty();
    is_free && !is_degraded && source.counts().of(ObjectState::Waiting) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Obstacles;
    use futures::FutureExt as _;

    #[test]
    fn it_waits_until_the_lease_is_renewed_again() {
        let of = |trouble: Option<Obstacle>| {
            let trouble = trouble.map(|obstacle| (obstacle, "no answer within 3s".to_owned()));
            let obstacles = Obstacles { trouble: trouble.into_iter().collect(), ..Obstacles::default() };
            let source = SourceStatus { settled: true, obstacles, ..SourceStatus::default() };
            Status { sources: [("shop".to_owned(), source)].into() }
        };
        for (trouble, is_over) in [(None, true), (Some(Obstacle::Lease), false), (Some(Obstacle::Repository), true)] {
            let (_publisher, status) = watch::channel(of(trouble.clone()));
            assert_eq!(settled(status, &[]).now_or_never().is_some(), is_over, "{trouble:?}");
        }
    }
}
