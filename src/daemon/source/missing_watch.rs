//! Namespaces and definitions that are not there: both kinds are watched while an object waits for one, or was given up for it,
//! so that it goes on at once, whoever makes what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{debug, info};

use super::state::{Event, Source, is_definition_of};
use super::task_result::TaskResult;
use crate::cluster::Seen;
use crate::daemon::planning::plan_parts::is_definition;
use crate::daemon::shared::missing::served_kinds;
use belay_core::manifest::ObjectKey;

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
        self.tasks.spawn(async move { TaskResult::MissingServed(served_kinds(&context.cluster).await) });
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
        self.on(Event::Came(objects));
    }
}
