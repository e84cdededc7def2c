//! Kubernetes writes creation times in whole seconds. It orders objects of one second by name, and names are random: the
//! status of a DaemonSet that surges counts the older pod of each node. A case that changes a template waits for the next
//! second, so that each ReplicaSet and each pod has an age.

use std::time::Duration;

use belay::clock::Clock;
use jiff::Timestamp;

use super::world::World;

impl World {
    /// Waits until a ReplicaSet or a pod that is made now is younger than all that exist.
    pub async fn next_second(&self) {
        let newest = self.look(|seen| {
            let objects = ["ReplicaSet", "Pod"].into_iter().flat_map(|kind| seen.all(kind));
            let created = objects.filter_map(|object| object["metadata"]["creationTimestamp"].as_str()?.parse().ok());
            created.max().map_or(i64::MIN, |newest: Timestamp| newest.as_second())
        });
        let clock = Clock::system();
        while clock.now().as_second() <= newest {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
