//! Kinds of which a first plan has many objects: they are watched when those are applied, not before.
//!
//! A watch reports every change of every object, and while thousands are created each is changed several times within
//! moments: the API server would write, and belay read, many times the size of one list afterwards.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Served;
use crate::daemon::rollout::rollout_end::InSync;
use crate::daemon::source::state::{DEBOUNCE, Source};
use crate::daemon::source::task_result::TaskResult;
use belay_core::manifest::ObjectKey;

/// The longest time for which a kind is not watched: its objects are judged only after that.
const LONGEST: Duration = Duration::from_secs(5);

impl Source {
    /// Watches a kind, as soon as it is not one of many that change at once.
    pub fn watch(&mut self, served: &Served) {
        if !self.watches.deferred.takes(served) {
            self.watches.also(served);
        }
    }

    /// Compares a finished object that no watch has reported, when it is seen.
    pub fn compare_when_seen(&mut self, key: &ObjectKey, well: Option<InSync>) {
        if !self.watches.deferred.has(&key.group, &key.kind) {
            self.recheck_after(key.clone(), Duration::ZERO);
        } else if let Some(well) = well {
            self.watches.deferred.through.insert(key.clone(), well);
        }
    }

    /// Watches the deferred kinds when their planned objects are applied.
    pub fn watch_deferred_when_idle(&mut self) {
        if self.watches.deferred.kinds.is_empty() {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let calm = async {
                loop {
                    tokio::time::sleep(DEBOUNCE).await;
                    if context.requests.is_calm() {
                        return;
                    }
                }
            };
            // A longer wave of applies is watched while it goes on.
            drop(tokio::time::timeout(LONGEST, calm).await);
            TaskResult::Idle
        });
    }

    /// Watches the deferred kinds from now on.
    pub fn watch_deferred(&mut self) {
        self.watches.deferred.kinds.clear();
        for served in std::mem::take(&mut self.watches.deferred.served) {
            self.watches.also(&served);
        }
    }
}
