//! Drift that is only reported: said in status, history and an Event, and taken back when it is gone.

use std::sync::Arc;

use tracing::warn;

use super::state::Source;
use super::task_result::TaskResult;
use crate::cluster::{Backoff, EventKind, Served};
use crate::config::Drift;
use crate::history::Drifted;
use belay_core::manifest::ObjectKey;

impl Source {
    /// Says that an object is no longer reported as drifted, if it was.
    pub(super) fn no_drift(&mut self, key: &ObjectKey) {
        if self.context.config.drift != Drift::Report {
            return;
        }
        self.context.status.trouble(&drift(key), None);
        if let Err(error) = self.context.history.put_right(&self.context.config.name, key) {
            warn!(object = %key, %error, "failed to note that it is as it should be");
        }
    }

    /// Says that an object differs by somebody else's hand, and is left so.
    pub(super) fn report_drift(&mut self, key: &ObjectKey, served: Option<Served>, by: String) {
        let message = format!("differs from Git by somebody else's hand ({by}); left alone, as configured");
        self.context.status.trouble(&drift(key), Some(message.clone()));
        let drifted = Drifted { object: key.clone(), by, since: self.context.clock.now() };
        if let Err(error) = self.context.history.drifted(&self.context.config.name, &drifted) {
            warn!(object = %key, %error, "failed to note the drift");
        }
        let Some(served) = served else { return };
        let (context, key) = (Arc::clone(&self.context), key.clone());
        self.tasks.spawn(async move {
            let read = Backoff::retry(|_| {}, || context.cluster.get(&key, &served));
            if let Ok(Some(live)) = read.await {
                context.tell_at_once(&key, &live, EventKind::Warning, "Drifted", message).await;
            }
            TaskResult::Told
        });
    }
}

/// What drift that is only reported is filed under.
fn drift(key: &ObjectKey) -> String {
    format!("{key}, drift")
}
