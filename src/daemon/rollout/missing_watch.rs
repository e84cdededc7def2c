//! Namespaces and definitions that are not there: both kinds are watched while an object waits for one, or was given up for it,
//! so that it goes on at once, whoever makes what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::{debug, info};

use crate::cluster::{Backoff, Seen, Served};
use crate::daemon::planning::plan_parts::is_definition;
use crate::daemon::source::state::{Source, is_definition_of};
use crate::daemon::source::task_result::TaskResult;
use belay_core::manifest::ObjectKey;

/// The kinds of what may be missing.
const KINDS: [(&str, &str); 2] = [("v1", "Namespace"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")];

impl Source {
    /// Watches for what these objects miss.
    pub fn watch_for_missing(&mut self, objects: BTreeSet<ObjectKey>) {
        self.watches.missing.objects.extend(objects);
        if self.watches.missing.watch.is_some() || self.watches.missing.objects.is_empty() {
            return;
        }
        debug!("something is missing: namespaces and definitions are watched");
        self.watches.missing.watch = Some(self.context.cluster.watched(""));
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let mut found = Vec::new();
            for (api_version, kind) in KINDS {
                let served = Backoff::until_answered(|_| {}, || context.cluster.served(api_version, kind)).await;
                // Without a watch it is tried again by its waits alone.
                found.extend(served);
            }
            TaskResult::MissingServed(found)
        });
    }

    /// Begins to watch the kinds of what is missing.
    pub fn watch_missing(&mut self, kinds: &[Served]) {
        if let Some((watched, _)) = &mut self.watches.missing.watch {
            kinds.iter().for_each(|served| watched.also(served));
        }
    }

    /// Ends the watch when nothing is missed any more.
    pub fn end_missing_watch(&mut self) {
        while let Some(first) = self.watches.missing.objects.first() {
            let rollouts = &self.state.rollouts;
            let is_open = rollouts.under_way.contains_key(first) || rollouts.resumed.contains_key(first);
            if is_open || self.state.retries.cause(first).is_some() {
                return;
            }
            self.watches.missing.objects.pop_first();
        }
        self.watches.missing.watch = None;
    }

    /// Tries those at once that may have missed a namespace, or a definition, which is there.
    pub fn saw_missing(&mut self, seen: Seen) {
        let Seen::Live(came, _) = seen else { return };
        let misses = |key: &ObjectKey| match is_definition(&came) {
            true => is_definition_of(&came, key),
            false => key.namespace.as_ref() == Some(&came.name),
        };
        let objects: BTreeSet<ObjectKey> =
            self.watches.missing.objects.iter().filter(|key| misses(key)).cloned().collect();
        if objects.is_empty() {
            return;
        }
        info!(object = %came, waiting = objects.len(), "it is there: what may have waited for it is tried again");
        if is_definition(&came)
            && let Some((_, group)) = came.name.split_once('.')
        {
            self.context.cluster.forget_group(group);
        }
        self.context.missing.came.send_modify(|times| *times = times.wrapping_add(1));
        self.state.retries.at_once_where(|key| objects.contains(key), Instant::now());
    }
}
