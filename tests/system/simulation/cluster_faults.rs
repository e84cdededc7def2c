//! The cluster of a scenario, and what befalls all of it: etcd goes back to a snapshot, a part of the control plane stops alone.

use std::collections::BTreeMap;

use minicluster::{Backup, MiniCluster, Part};

/// The cluster, the snapshot of its etcd, and how often each part is away.
pub struct FaultyCluster {
    /// Stops when it is dropped.
    cluster: MiniCluster,
    snapshot: Option<Backup>,
    away: BTreeMap<&'static str, usize>,
}

impl FaultyCluster {
    /// A cluster whose parts all run, and of which there is no snapshot yet.
    pub fn new(cluster: MiniCluster) -> FaultyCluster {
        FaultyCluster { cluster, snapshot: None, away: BTreeMap::new() }
    }

    /// Takes a snapshot of etcd, in the place of the one before.
    pub fn take_snapshot(&mut self) {
        self.snapshot = Some(self.cluster.back_up());
    }

    /// Restores etcd from its snapshot; returns false where there is none.
    pub async fn restore(&mut self) -> bool {
        let Some(snapshot) = &self.snapshot else { return false };
        self.cluster.restore(snapshot).await;
        true
    }

    /// Stops a part, once more where it is away already.
    pub async fn stop(&mut self, part: Part) {
        *self.away.entry(name(part)).or_default() += 1;
        self.cluster.stop_part(part).await;
    }

    /// Starts a part again, unless it was stopped once more.
    pub fn start(&mut self, part: Part) {
        let away = self.away.entry(name(part)).or_default();
        *away = away.saturating_sub(1);
        if *away == 0 {
            self.cluster.start_part(part);
        }
    }
}

fn name(part: Part) -> &'static str {
    if part == Part::Controllers { "controllers" } else { "kubelet" }
}
