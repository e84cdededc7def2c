//! Events about what went well are told when nothing else is to be done: they are for people who look, and nobody waits
//! for them. So thousands of workloads that become complete at once do not take the room of those that are still to come.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use tracing::warn;

use super::source::{Done, Source};
use crate::cluster::EventKind;
use belay_core::manifest::ObjectKey;

/// How many are told at once.
const AT_ONCE: usize = 8;
/// The most that wait; of more, the oldest are left out.
const WAITING: usize = 20_000;

/// What is told about a workload that is complete.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    key: ObjectKey,
    /// Of the live object, what an event says about which one it is.
    live: Value,
    message: String,
}

impl Told {
    /// What is told about a live workload.
    pub(super) fn of(key: &ObjectKey, live: &Value, message: String) -> Told {
        let metadata = &live["metadata"];
        let live = json!({
            "apiVersion": live["apiVersion"],
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        });
        Told { key: key.clone(), live, message }
    }
}

/// What is still to be told.
#[derive(Debug, Default)]
pub(super) struct Telling {
    waiting: VecDeque<Told>,
    under_way: usize,
}

impl Source {
    /// Tells of it when there is room.
    pub(super) fn tell_later(&mut self, told: Told) {
        if self.telling.waiting.len() >= WAITING {
            warn!(limit = WAITING, "too many events wait to be told; the oldest is left out");
            self.telling.waiting.pop_front();
        }
        self.telling.waiting.push_back(told);
        self.tell_next();
    }

    /// One has been told.
    pub(super) fn told(&mut self) {
        self.telling.under_way = self.telling.under_way.saturating_sub(1);
        self.tell_next();
    }

    fn tell_next(&mut self) {
        if self.telling.under_way >= AT_ONCE {
            return;
        }
        let Some(Told { key, live, message }) = self.telling.waiting.pop_front() else { return };
        self.telling.under_way += 1;
        let context = Arc::clone(&self.context);
        self.work.spawn(async move {
            context.requests.calm().await;
            context.tell(&key, &live, EventKind::Normal, "RolloutComplete", message).await;
            Done::ToldComplete
        });
    }
}
