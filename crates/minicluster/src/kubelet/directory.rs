//! The directory of pods and of their containers with a log: those who ask for logs by name need it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pod::SeenPod;
use super::simulated_pod::SimulatedPod;

/// The pods of all nodes, shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct Directory(Arc<Mutex<BTreeMap<(String, String), ListedObjects>>>);

/// A pod as those see it who ask for its logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedObjects {
    /// Its uid.
    pub uid: String,
    /// Its containers, and why each never ran so far, if it did not.
    pub containers: BTreeMap<String, Option<String>>,
}

impl Directory {
    /// Notes that a pod came or changed.
    pub fn update(&self, life: &SimulatedPod) {
        let pod = life.pod();
        let containers = life.waiting().map(|(name, why)| (name.to_owned(), why.map(str::to_owned)));
        self.list(
            &pod.namespace,
            &pod.name,
            ListedObjects { uid: pod.uid.to_string(), containers: containers.collect() },
        );
    }

    /// Lists a pod under its name.
    pub fn list(&self, namespace: &str, name: &str, pod: ListedObjects) {
        self.lock().insert((namespace.to_owned(), name.to_owned()), pod);
    }

    /// Notes that a pod is gone.
    pub fn remove(&self, pod: &SeenPod) {
        let key = (pod.namespace.clone(), pod.name.clone());
        let mut pods = self.lock();
        // Another of the same name may be there already.
        if pods.get(&key).is_some_and(|listed| *listed.uid == *pod.uid) {
            pods.remove(&key);
        }
    }

    /// Returns a pod, if there is one of that name.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<ListedObjects> {
        self.lock().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), ListedObjects>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
