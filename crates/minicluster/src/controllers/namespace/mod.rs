//! Empties namespaces that are to go, and then lets them go.

mod conditions;
mod contents;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;

use super::context::{Context, ControllerStart};
use super::discovery;
use super::error::Error;
use super::informer::Informer;
use super::key::{Key, is_terminating};
use super::requests::Written;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};
use contents::Remains;

/// The number of namespaces that are emptied side by side.
const WORKERS: usize = 5;
/// The finalizer by which this controller holds namespaces.
const FINALIZER: &str = "kubernetes";
/// The wait for objects that take their time to go.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

struct Namespaces {
    context: Context,
    namespaces: Informer<Namespace>,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(Namespaces {
        context: context.clone(),
        namespaces: context.informers.namespaces.clone(),
        queue: WorkQueue::with_pauses(PAUSE, LONGEST_PAUSE),
    });
    let this = controller.clone();
    controller.namespaces.on_change(move |change| {
        let metadata = &change.object().metadata;
        if is_terminating(metadata) {
            this.queue.add(Key::of(metadata));
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Reconciler for Namespaces {
    type Key = Key;

    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(()) };
        let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
        if !is_terminating(&namespace.metadata) || !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let kinds = discovery::kinds(&self.context.requests).await?;
        let remains = contents::remove(&self.context.requests, &kinds, &key.name).await;
        let live = self.tell(&namespace, &remains).await?;
        if !remains.is_nothing() {
            self.queue.add_after_failure(key.clone());
            return Err(Error::ComesBack);
        }
        self.finalize(live).await
    }
}

impl Namespaces {
    /// Writes the rest into the status. Returns the namespace as it is then.
    async fn tell(&self, namespace: &Arc<Namespace>, remains: &Remains) -> Result<Namespace, Error> {
        let mut changed = Namespace::clone(namespace);
        let status = changed.status.get_or_insert_default();
        if !conditions::update(&mut status.conditions, remains, &self.context.now()) {
            return Ok(changed);
        }
        let written: Result<Written, Error> = self.context.requests.replace_status(&changed).await;
        match written {
            Ok(written) => {
                changed.metadata.resource_version = written.metadata.resource_version;
                Ok(changed)
            }
            Err(error) if error.is_conflict() => {
                let mut live: Namespace = self.context.requests.get(&Key::of(&namespace.metadata)).await?;
                let status = live.status.get_or_insert_default();
                conditions::update(&mut status.conditions, remains, &self.context.now());
                let written: Written = self.context.requests.replace_status(&live).await?;
                live.metadata.resource_version = written.metadata.resource_version;
                Ok(live)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the finalizer off: with the last one, the namespace goes.
    async fn finalize(&self, mut namespace: Namespace) -> Result<(), Error> {
        if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        match self.context.requests.finalize(&namespace).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
