//! Deletes objects that have lost their owners, and walks owners through foreground deletion and orphaning. Over all
//! kinds, custom ones included.
//!
//! Kinds that other controllers keep in memory anyway are followed through their informers; of all others only the
//! metadata is watched.

mod collect;
mod graph;
mod references;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::{Context, ControllerStart};
use super::discovery::{self, DiscoveredKind};
use super::error::Error;
use super::events::Recorder;
use super::informer::MetadataChange;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};
use graph::{Graph, GraphNode, Task};

/// The number of objects that are handled side by side.
const WORKERS: usize = 10;
/// The definitions of custom kinds; when one changes, there are other kinds.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// After a definition changed, the kinds are read again after these pauses: it takes a moment until they are served.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];
/// The kinds are read again this often in any case.
const EVERY: Duration = Duration::from_secs(300);

/// The controller.
pub struct GarbageCollector {
    context: Context,
    recorder: Recorder,
    graph: Mutex<Graph>,
    /// The kinds that are followed.
    kinds: Mutex<BTreeSet<DiscoveredKind>>,
    /// Paths that other controllers' informers follow.
    shared: Mutex<BTreeSet<String>>,
    /// The paths that are followed here, each with the token that ends it.
    followed: Mutex<BTreeMap<String, CancellationToken>>,
    definitions_changed: Notify,
    queue: WorkQueue<Task>,
}

/// Prepares the controller. To be called after the others, since it joins their informers.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(GarbageCollector {
        context: context.clone(),
        recorder: context.recorder.speaking_as("garbage-collector-controller"),
        graph: Mutex::default(),
        kinds: Mutex::default(),
        shared: Mutex::default(),
        followed: Mutex::default(),
        definitions_changed: Notify::new(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    let paths = context.informers.on_any_change(move |path, change| this.take(path, change));
    lock(&controller.shared).extend(paths);
    Box::new(move |tracker, stop| {
        let (tasks, stop) = (tracker.clone(), stop.clone());
        tracker.spawn(async move {
            // Nothing is collected before everything was seen once.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sources::follow_all_kinds_once(&controller, &tasks, &stop) => {}
            }
            worker::spawn(&controller, WORKERS, &tasks, &stop);
            sources::follow_new_kinds(&controller, &tasks, &stop).await;
        });
    })
}

impl GarbageCollector {
    /// Takes in a change of an object of the kind at a path.
    fn take(&self, path: &str, change: MetadataChange<'_>) {
        if path == DEFINITIONS {
            self.definitions_changed.notify_one();
        }
        let tasks = match change {
            MetadataChange::Added(metadata) => self.put(path, metadata),
            MetadataChange::Modified { old, new } if says_the_same(old, new) => {
                let version = new.resource_version.clone().unwrap_or_default();
                self.graph().set_version(new.uid.as_deref().unwrap_or_default(), version);
                return;
            }
            MetadataChange::Modified { new, .. } => self.put(path, new),
            MetadataChange::Deleted(metadata) => {
                let uid = metadata.uid.clone().unwrap_or_default();
                lock(&self.graph).remove(&uid)
            }
        };
        for task in tasks {
            self.queue.add(task);
        }
    }

    fn put(&self, path: &str, metadata: &ObjectMeta) -> Vec<Task> {
        lock(&self.graph).put(GraphNode::of(path, metadata))
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        lock(&self.graph)
    }
}

impl Reconciler for GarbageCollector {
    type Key = Task;

    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    fn queue(&self) -> &WorkQueue<Task> {
        &self.queue
    }

    async fn sync(&self, task: &Task) -> Result<(), Error> {
        match task {
            Task::Check(uid) => self.check(uid).await,
            Task::Orphan(uid) => self.orphan(uid).await,
        }
    }
}

/// Returns true for a change of parts that do not matter here, like most: status.
fn says_the_same(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.owner_references == new.owner_references
        && old.finalizers == new.finalizers
        && old.deletion_timestamp.is_some() == new.deletion_timestamp.is_some()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tasks, and the token that ends them.
type Tasks = TaskTracker;
type Stop = CancellationToken;
