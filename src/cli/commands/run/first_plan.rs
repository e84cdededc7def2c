//! `belay run` on a terminal: the work until the first plan of each source, which may take long in a large repository.

use tokio::sync::watch;

use crate::cli::output::activity::{Activity, REDRAW};
use crate::daemon::{SourceStatus, Status};
use crate::telemetry::can_draw_line;

/// Shows it until each source has its first plan, or the daemon ends. Does nothing without a terminal.
pub(super) async fn show(status: watch::Receiver<Status>) {
    if !can_draw_line() {
        return;
    }
    let mut activity = None;
    // The status of a daemon that has ended does not change any more.
    while status.has_changed().is_ok() {
        let work: Option<Vec<String>> = {
            let status = status.borrow();
            let is_over = !status.sources.is_empty() && status.sources.values().all(|source| source.planned.is_some());
            (!is_over).then(|| status.sources.iter().filter_map(|(name, source)| work(name, source)).collect())
        };
        match work {
            None => return,
            Some(work) if work.is_empty() => activity = None,
            Some(work) => activity.get_or_insert_with(Activity::begin).show(&work.join(", ")),
        }
        tokio::time::sleep(REDRAW).await;
    }
}

/// Returns the work of a source: `source shop: fetching the repository`. `None` if something is in its way, or nothing is
/// left to do.
fn work(name: &str, source: &SourceStatus) -> Option<String> {
    let obstacles = &source.obstacles;
    let is_stopped = obstacles.unreadable.is_some() || obstacles.waits.is_some() || !obstacles.trouble.is_empty();
    if is_stopped || source.planned.is_some() {
        return None;
    }
    Some(match &source.head {
        Some(head) => format!("source {name}: planning commit {}", head.short()),
        None => format!("source {name}: fetching the repository"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_fetches_and_then_plans() {
        let mut source = SourceStatus::default();
        assert_eq!(work("shop", &source).as_deref(), Some("source shop: fetching the repository"));
        source.head = Some("1a2b3c4".repeat(6)[..40].parse().unwrap());
        assert_eq!(work("shop", &source).as_deref(), Some("source shop: planning commit 1a2b3c4"));
        source.obstacles.waits = Some("the source infra".to_owned());
        assert_eq!(work("shop", &source), None);
        source.obstacles.waits = None;
        source.planned.clone_from(&source.head);
        assert_eq!(work("shop", &source), None);
    }
}
