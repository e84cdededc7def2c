//! The progress of an update, in numbers.

use super::names::Controller;
use super::{DESIRED, Live, ORIGINAL, RENAMED_FROM, RollingUpdate, To};
use crate::rollout::Counters;
use crate::rollout::judge::health::pod_count;

impl RollingUpdate {
    /// Returns the numbers of pods by progress, from the live objects. Those of the template that is aimed at count as
    /// updated; all that serve count as available.
    #[must_use]
    pub fn counters(&self, live: &Live) -> Counters {
        let old = live.controller(&self.ask.old);
        let next = self.next_name(live).filter(|name| *name != self.ask.old);
        let next = next.and_then(|name| live.controller(&name));
        let renamed = self.renamed || old.is_some_and(|old| old.annotation(RENAMED_FROM).is_some());
        let aimed_at = if renamed || self.ask.to == To::Back { old } else { next };
        let of_both = |field: &str| [old, next].into_iter().flatten().map(|one| status(one, field)).sum();
        let written =
            |one: Option<Controller<'_>>, mark: &str| pod_count(&one?.annotation(mark)?.parse::<i64>().ok()?.into());
        let desired = written(aimed_at, DESIRED)
            .or_else(|| written(old, ORIGINAL))
            .or_else(|| written(next, DESIRED))
            .or_else(|| old.or(next).map(Controller::size));
        Counters {
            desired: desired.unwrap_or_default(),
            total: of_both("replicas"),
            updated: aimed_at.map_or(0, |one| status(one, "replicas")),
            ready: of_both("readyReplicas"),
            available: of_both("availableReplicas"),
        }
    }
}

fn status(of: Controller<'_>, field: &str) -> i64 {
    pod_count(&of.0["status"][field]).unwrap_or_default()
}
