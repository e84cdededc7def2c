//! Kubernetes counts births in whole seconds, and orders those of one second by name, which is by chance. Scripts whose
//! ReplicaSets are to have an age wait for the next second.

use std::time::Duration;

use belay::clock::Clock;
use jiff::Timestamp;

use super::world::World;

impl World {
    /// Waits until a ReplicaSet that is made now is younger than all there are.
    pub async fn next_second(&self) {
        let born = self.look(|seen| {
            let sets = seen.all("ReplicaSet");
            let born = sets.iter().filter_map(|set| set["metadata"]["creationTimestamp"].as_str()?.parse().ok());
            born.max().map_or(i64::MIN, |born: Timestamp| born.as_second())
        });
        let clock = Clock::system();
        while clock.now().as_second() <= born {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
