//! Missing rights in the cluster are a state with a reason: reported once, asked again with a back-off, and over as
//! soon as somebody grants them.

use std::collections::BTreeSet;

use tracing::{info, warn};

use crate::cluster::Served;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::put_or_remove;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::shared::context::Context;
use belay_core::rollout::lasting_words;

impl Repository {
    /// Returns the namespaces of the objects that it has.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.desired().keys().filter_map(|key| key.namespace.clone()).collect()
    }
}

impl Context {
    /// Notes that a kind may not be read, or may be again. `fault` is the trouble with its list that remains then.
    pub fn note_denied(&self, served: &Served, message: Option<String>, fault: Option<String>) {
        let obstacle = Obstacle::listing(&served.address());
        let said = message.clone().or(fault);
        let mut news = false;
        self.status.change(|source| {
            news = is_news(source.obstacles.trouble.get(&obstacle).map(String::as_str), said.as_deref());
            put_or_remove(&mut source.obstacles.trouble, &obstacle, said)
        });
        match message {
            Some(message) if news => warn!(kind = served.kind, message, "may not be watched"),
            None if news => info!(kind = served.kind, "may be watched"),
            _ => {}
        }
    }
}

/// Returns true if something is said of a right that was not told before, but for times and numbers in it.
fn is_news(told: Option<&str>, said: Option<&str>) -> bool {
    told.map(lasting_words) != said.map(lasting_words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_told_once() {
        for (told, said, expected) in [
            (None, None, false),
            (None, Some("denied"), true),
            (Some("denied"), None, true),
            (Some("denied"), Some("denied"), false),
            (Some("denied at 10:00:01"), Some("denied at 10:00:31"), false),
            (Some("denied"), Some("not served"), true),
        ] {
            assert_eq!(is_news(told, said), expected, "{told:?} {said:?}");
        }
    }
}
