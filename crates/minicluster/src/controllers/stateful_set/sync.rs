//! One reconciliation of one StatefulSet.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};

use super::act::ActionResult;
use super::plan::{Act, Phase, PodPlace, StatefulSetView};
use super::revisions::StatefulSetVersions;
use super::status::{self, Revisions};
use super::{StatefulSets, ordinal};
use crate::controllers::error::Error;
use crate::controllers::history::History;
use crate::controllers::key::{Key, is_terminating, name_of};
use crate::controllers::owner::controller_reference;
use crate::controllers::ownership::{self, Claimer};
use crate::controllers::pod::Pod;
use crate::controllers::pod_control::slow_start;
use crate::controllers::selector::Selector;
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;

/// When a write does not show, reconcile again after this time, in case it never will.
const EXPECTING: Duration = Duration::from_secs(30);

impl Reconciler for StatefulSets {
    type Key = Key;

    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(set) = self.sets.get(key) else {
            self.expectations.forget(key);
            return Ok(());
        };
        let is_seen = self.expectations.is_owner_seen(key, &self.sets);
        if !is_seen || !self.expectations.are_met(key, &self.context.informers.pods) {
            self.queue.add_after(key.clone(), EXPECTING);
            return Ok(());
        }
        let selector = Selector::read(&set.spec.selector)?;
        let history = History::of::<StatefulSet>(&self.context, &set.metadata);
        let revisions = history.claim::<StatefulSet>(&selector).await?.objects;
        let pods = self.claimed(&set, &selector).await?;
        let versions = self.versions(&set, revisions).await?;
        let (leaving, failure) = self.manage(&set, &versions, &pods).await;
        let now = self.context.clock.now();
        let names = Revisions {
            current: name_of(&versions.current.metadata).to_owned(),
            update: name_of(&versions.update.metadata).to_owned(),
            collisions: versions.collisions,
        };
        let status = status::compute(&set, &pods, &names, leaving, now);
        self.write_status(&set, status).await?;
        self.forget_old(&set, &versions, &pods).await?;
        if let Some(error) = failure {
            return Err(error);
        }
        let wait = set.spec.min_ready_seconds.unwrap_or(0);
        let waits = pods.iter().filter_map(|pod| pod.available_in(wait, now));
        if let Some(wait) = waits.filter(|wait| *wait > SignedDuration::ZERO).min() {
            self.queue.add_after(key.clone(), Duration::try_from(wait).unwrap_or_default());
        }
        Ok(())
    }
}

impl StatefulSets {
    async fn claimed(&self, set: &StatefulSet, selector: &Selector) -> Result<Vec<Arc<Pod>>, Error> {
        let metadata = &set.metadata;
        let mut candidates = self.context.informers.pods.candidates(metadata);
        // Only pods whose names say so can be a set's.
        candidates.retain(|pod| ordinal::of(set, pod).is_some());
        let claimer = Claimer {
            requests: &self.context.requests,
            owner: metadata,
            selector,
            reference: controller_reference::<StatefulSet>(metadata),
            finalizer: None,
        };
        Ok(claimer.claim::<StatefulSet, Pod, Pod>(candidates).await?.objects)
    }

    /// Carries out the necessary changes. Returns how many pods of the current revision were deleted to be updated.
    async fn manage(
        &self,
        set: &StatefulSet,
        versions: &StatefulSetVersions,
        pods: &[Arc<Pod>],
    ) -> (i32, Option<Error>) {
        if is_terminating(&set.metadata) {
            return (0, None);
        }
        let first = ordinal::first(set);
        let find = |number: i32| pods.iter().find(|pod| ordinal::of(set, pod) == Some(number)).cloned();
        let places: Vec<PodPlace> = (0..ordinal::count(set))
            .map(|place| first + place)
            .map(|number| PodPlace { number, pod: find(number) })
            .collect();
        let number = |pod: &Arc<Pod>| ordinal::of(set, pod).unwrap_or(0);
        let mut condemned: Vec<Arc<Pod>> =
            pods.iter().filter(|pod| !ordinal::is_wanted(set, number(pod))).cloned().collect();
        condemned.sort_by_key(|pod| std::cmp::Reverse(number(pod)));
        let before = set.status.as_ref().and_then(|status| usize::try_from(status.replicas).ok()).unwrap_or(0);
        if pods.len() < before && places.iter().any(|place| place.pod.is_none()) {
            match ownership::is_going::<StatefulSet>(&self.context.requests, &set.metadata).await {
                Ok(false) => {}
                Ok(true) => return (0, None),
                Err(error) => return (0, Some(error)),
            }
        }
        let update_revision = name_of(&versions.update.metadata);
        let now = self.context.clock.now();
        let view = StatefulSetView { set, places: &places, condemned: &condemned, update_revision, now };
        for phase in [view.fill(), view.shrink()] {
            match self.carry_out(set, versions, &view, &phase).await {
                Ok(ActionResult::Act) if !phase.ends_here => {}
                Ok(_) => return (0, None),
                Err(error) => return (0, Some(error)),
            }
        }
        let mut leaving = 0;
        for act in view.update() {
            if let Err(error) = self.act(set, versions, &act).await {
                return (leaving, Some(error));
            }
            leaving += 1;
        }
        (leaving, None)
    }

    async fn carry_out(
        &self,
        set: &StatefulSet,
        versions: &StatefulSetVersions,
        view: &StatefulSetView<'_>,
        phase: &Phase,
    ) -> Result<ActionResult, Error> {
        if view.is_ordered() {
            for act in &phase.acts {
                if self.act(set, versions, act).await? == ActionResult::Waits {
                    return Ok(ActionResult::Waits);
                }
            }
            return Ok(ActionResult::Act);
        }
        let acts: Vec<&Act> = phase.acts.iter().collect();
        let (_, errors) = slow_start(acts.len(), |index| self.act(set, versions, acts[index])).await;
        Error::first_of(errors).map_or(Ok(ActionResult::Act), Err)
    }

    async fn write_status(&self, set: &StatefulSet, status: StatefulSetStatus) -> Result<(), Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let written = self.context.requests.write_status(set, |set| set.status = Some(status.clone()));
        if let Some(version) = written.await? {
            self.expectations.wrote_owner(&Key::of(&set.metadata), version);
        }
        Ok(())
    }
}
