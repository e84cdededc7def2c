//! The watches of a source: its own kinds, of which a first plan defers those with many objects, the cluster's autoscalers, and
//! what objects miss.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::mpsc;

use crate::cluster::{Cluster, ClusterError, Seen, Served, Watched};
use crate::daemon::publish::status::put_or_remove;
use crate::daemon::rollout::deferred_kinds::DeferredKinds;
use crate::daemon::shared::missing::MissingWatch;
use belay_core::rollout::marks;

/// The watches of the cluster.
pub struct Watches {
    pub watched: Watched,
    pub seen: mpsc::Receiver<Seen>,
    /// Kinds that are watched only when the first plan is carried out.
    pub deferred: DeferredKinds,
    /// The errors of watches, by their subject.
    faults: BTreeMap<String, ClusterError>,
    /// The number of the plan whose kinds the cluster is asked for, until it has answered.
    pub asked_for: Option<u64>,
    /// Kinds that are watched, and whose objects are not listed yet.
    pub unlisted: BTreeSet<Served>,
    /// The autoscalers of the cluster, wherever they come from.
    pub autoscalers: Watched,
    pub autoscalers_seen: mpsc::Receiver<Seen>,
    /// Namespaces and definitions, while an object misses one.
    pub missing: MissingWatch,
}

impl Watches {
    /// Returns watches that watch nothing yet. In the source's own kinds, only objects with its label are watched.
    pub fn new(cluster: &Cluster, source: &str) -> Watches {
        let (watched, seen) = cluster.watched(&format!("{}={source}", marks::SOURCE));
        let (autoscalers, autoscalers_seen) = cluster.watched("");
        let (deferred, faults) = (DeferredKinds::default(), BTreeMap::new());
        let (asked_for, unlisted) = (None, BTreeSet::new());
        let missing = MissingWatch::default();
        Watches { watched, seen, deferred, faults, asked_for, unlisted, autoscalers, autoscalers_seen, missing }
    }

    /// Watches a kind of the source.
    pub fn also(&mut self, served: &Served) {
        if !self.watched.has(served) {
            self.unlisted.insert(served.clone());
        }
        self.watched.also(served);
    }

    /// Returns true when the objects of all kinds of the head were listed, or can't be.
    pub fn are_listed(&self) -> bool {
        self.asked_for.is_none() && self.unlisted.is_empty()
    }

    /// Watches a kind of the source as soon as it is not one of many that change at once.
    pub fn also_if_calm(&mut self, served: &Served) {
        if !self.deferred.takes(served) {
            self.also(served);
        }
    }

    /// Watches the deferred kinds from now on.
    pub fn also_deferred(&mut self) {
        self.deferred.kinds.clear();
        for served in std::mem::take(&mut self.deferred.served) {
            self.also(&served);
        }
    }

    /// Names the namespaces of the objects, for where belay may list nowhere else.
    pub fn in_namespaces(&self, namespaces: BTreeSet<String>) {
        self.watched.in_namespaces(namespaces.clone());
        self.autoscalers.in_namespaces(namespaces);
    }

    /// Notes that a watch is in trouble, or not any more. Returns the outage that is left: the cluster is in the way while it
    /// does not answer any of them.
    pub fn in_trouble(&mut self, watch: &str, error: Option<ClusterError>) -> Option<String> {
        if error.as_ref().is_some_and(is_of_one_kind) {
            // It can't be listed for now, for a reason of its own: nobody waits for it.
            self.unlisted.retain(|served| !served.is_listed_at(watch));
        }
        put_or_remove(&mut self.faults, &watch.to_owned(), error);
        self.faults.values().find(|error| !is_of_one_kind(error)).map(ClusterError::to_string)
    }

    /// Returns the reason for which the list at an address can't be had, while the cluster answers.
    pub fn fault_of_list(&self, address: &str) -> Option<String> {
        self.faults.get(address).filter(|error| is_of_one_kind(error)).map(ClusterError::to_string)
    }
}

/// Returns true for what is in the way of one kind alone: the cluster answers, and can't list it, or does not serve it any more.
fn is_of_one_kind(error: &ClusterError) -> bool {
    !matches!(error, ClusterError::Away { .. }) || error.is_own()
}
