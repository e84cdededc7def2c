//! The ConfigMaps and Secrets that go back with a workload at this moment: one workload after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use belay_core::manifest::ObjectKey;

/// The ConfigMaps and Secrets that go back with a workload at this moment. Two workloads may take the same one along.
#[derive(Default)]
pub struct DependentLocks(Mutex<BTreeMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>);

impl DependentLocks {
    /// Waits until no other workload takes this object along.
    pub async fn lock(&self, key: &ObjectKey) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(key.clone()).or_default())
        };
        lock.lock_owned().await
    }
}
