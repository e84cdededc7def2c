//! Keeps the pods of StatefulSets: numbered, with claims of their own, made and replaced in order.

mod act;
mod claims;
mod ordinal;
mod plan;
mod revisions;
mod status;
mod sync;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;

use super::context::{Context, ControllerStart};
use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::Informer;
use super::key::Key;
use super::routing::route;
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::worker;

/// The number of sets that are handled side by side.
const WORKERS: usize = 5;

/// The controller.
struct StatefulSets {
    context: Context,
    recorder: Recorder,
    sets: Informer<StatefulSet>,
    expectations: Expectations,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(StatefulSets {
        context: context.clone(),
        recorder: context.recorder.speaking_as("statefulset-controller"),
        sets: context.informers.stateful_sets.clone(),
        expectations: Expectations::default(),
        queue: WorkQueue::default(),
    });
    context.informers.controller_revisions.want();
    context.informers.persistent_volume_claims.want();
    let this = controller.clone();
    controller.sets.on_change(move |change| this.queue.add(Key::of(&change.object().metadata)));
    let this = controller.clone();
    context.informers.pods.on_change(move |change| {
        route(change, &this.sets, |set| Selector::read(&set.spec.selector), &this.queue);
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}
