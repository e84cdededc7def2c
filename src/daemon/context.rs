//! What every part of one source's daemon is given.

use std::sync::Mutex;

use tokio::sync::Notify;
use tracing::warn;

use super::autoscalers::Autoscalers;
use super::before::Before;
use super::look::Repository;
use super::made::Strangers;
use super::memory::ToWrite;
use super::requests::Requests;
use super::status::Publisher;
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError, Event, EventKind};
use crate::config::SourceConfig;
use crate::history::{History, Retention};
use belay_core::manifest::ObjectKey;
use serde_json::Value;

/// How much may be deleted at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pruning {
    /// What `prune_limit` allows, or the commit itself.
    #[default]
    Limited,
    /// Everything that has left the repository: somebody has said so.
    Unlimited,
}

/// One source's surroundings.
pub(super) struct Context {
    pub config: SourceConfig,
    pub cluster: Cluster,
    pub history: History,
    /// What is to be written into it next.
    pub to_write: Mutex<Vec<ToWrite>>,
    /// How much the history remembers.
    pub retention: Retention,
    pub repository: Repository,
    pub autoscalers: Autoscalers,
    /// Whether more may be deleted than the limit allows.
    pub pruning: Pruning,
    pub clock: Clock,
    pub status: Publisher,
    pub requests: Requests,
    /// The source that this one comes after.
    pub before: Option<Before>,
    /// Objects with the marks of this source that it did not make.
    pub strangers: Strangers,
    /// Told when a fresh history was begun in the place of a damaged one.
    pub renewed: Notify,
}

impl Context {
    /// Says of an object that the cluster is in its way.
    pub(super) fn in_the_way(&self, key: &ObjectKey) -> impl Fn(&ClusterError) + use<'_> {
        let place = key.to_string();
        move |error| self.status.trouble(&place, Some(error.to_string()))
    }

    /// Tells an event; that it could not be told is logged and changes nothing.
    pub(super) async fn tell(
        &self,
        key: &ObjectKey,
        live: &Value,
        kind: EventKind,
        reason: &'static str,
        message: String,
    ) {
        if let Err(error) = self.cluster.tell(key, live, &Event { kind, reason, message }).await {
            warn!(object = %key, %error, "failed to tell an event");
        }
    }
}
