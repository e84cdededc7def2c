//! `max_rollouts`: the number of workloads that are rolled out at a time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The slots of rollouts, of a source and of the daemon. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RolloutSlots {
    of_source: Option<SlotLimit>,
    of_daemon: Option<SlotLimit>,
    /// The number of rollouts that had a slot, and have ended.
    freed: Arc<watch::Sender<u64>>,
}

#[derive(Clone, Debug)]
struct SlotLimit {
    key: &'static str,
    max: usize,
    free: Arc<Semaphore>,
}

/// The slot of one rollout. It is free again when this is dropped.
#[derive(Debug)]
pub struct RolloutSlot {
    permits: Vec<OwnedSemaphorePermit>,
    freed: Arc<watch::Sender<u64>>,
}

impl RolloutSlot {
    /// Returns the slot of a rollout that does not count.
    pub fn uncounted() -> RolloutSlot {
        RolloutSlot { permits: Vec::new(), freed: Arc::default() }
    }
}

impl Drop for RolloutSlot {
    fn drop(&mut self) {
        if !self.permits.is_empty() {
            self.permits.clear();
            self.freed.send_modify(|ended| *ended += 1);
        }
    }
}

impl SlotLimit {
    fn new(key: &'static str, max: usize) -> Option<SlotLimit> {
        let max = max.min(Semaphore::MAX_PERMITS);
        (max > 0).then(|| SlotLimit { key, max, free: Arc::new(Semaphore::new(max)) })
    }
}

impl RolloutSlots {
    /// Returns the slots of a daemon. 0 is no limit.
    pub fn of_daemon(max: usize) -> RolloutSlots {
        RolloutSlots { of_daemon: SlotLimit::new("[limits] max_rollouts", max), ..RolloutSlots::default() }
    }

    /// Returns the slots of a source of this daemon. 0 is no limit.
    pub fn of_source(&self, max: usize) -> RolloutSlots {
        RolloutSlots { of_source: SlotLimit::new("max_rollouts", max), ..self.clone() }
    }

    /// Takes a slot, if one is free. Otherwise returns the reason for which a rollout waits.
    pub fn take(&self) -> Result<RolloutSlot, String> {
        let mut permits = Vec::new();
        for SlotLimit { key, max, free } in self.limits() {
            let permit = Arc::clone(free).try_acquire_owned();
            permits.push(permit.map_err(|_| format!("waits for the end of another rollout: {key} = {max}"))?);
        }
        Ok(RolloutSlot { permits, freed: Arc::clone(&self.freed) })
    }

    fn limits(&self) -> impl Iterator<Item = &SlotLimit> {
        [&self.of_source, &self.of_daemon].into_iter().flatten()
    }

    /// Returns the number of free slots.
    pub fn free(&self) -> usize {
        self.limits().map(|limit| limit.free.available_permits()).min().unwrap_or(usize::MAX)
    }

    /// Returns a receiver that changes when a slot becomes free.
    pub fn freed(&self) -> watch::Receiver<u64> {
        self.freed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_one_of_the_source_and_one_of_the_daemon() {
        let daemon = RolloutSlots::of_daemon(2);
        let (shop, tools) = (daemon.of_source(1), daemon.of_source(0));
        let first = shop.take().unwrap();
        assert_eq!((shop.free(), tools.free()), (0, 1));
        assert_eq!(shop.take().unwrap_err(), "waits for the end of another rollout: max_rollouts = 1");
        let _second = tools.take().unwrap();
        assert_eq!(tools.take().unwrap_err(), "waits for the end of another rollout: [limits] max_rollouts = 2");
        let freed = tools.freed();
        drop(first);
        assert!(freed.has_changed().unwrap(), "each source of the daemon hears of it");
        assert_eq!((shop.free(), tools.free()), (1, 1));
        let unlimited = RolloutSlots::default().of_source(0);
        let all: Vec<RolloutSlot> = (0..10_000).map(|_| unlimited.take().unwrap()).collect();
        assert_eq!((all.len(), unlimited.free()), (10_000, usize::MAX));
    }
}
