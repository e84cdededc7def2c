//! One reconciliation of one ReplicaSet: claim pods, make or delete some, write the status.

use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

use super::rank::{self, Candidate};
use super::status::{Managed, ReplicaCounts, Status, compute};
use super::{ReplicaSets, Replicated};
use crate::controllers::error::Error;
use crate::controllers::informer::Cached;
use crate::controllers::key::{Key, is_terminating, uid_of, version_of};
use crate::controllers::owner::{controller_of, controller_reference, is_controlled_by};
use crate::controllers::ownership::{self, Claimer};
use crate::controllers::pod::Pod;
use crate::controllers::pod_control::{PodControl, Pods, metadata_from, slow_start};
use crate::controllers::template::Template;
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;

/// At most so many pods are made or deleted in one go.
const BURST: usize = 500;
/// When an expected object does not show, reconcile again after this time, in case it never will.
const EXPECTING: Duration = Duration::from_secs(30);

impl<K: Replicated> Reconciler for ReplicaSets<K> {
    type Key = Key;

    fn name(&self) -> &'static str {
        K::COMPONENT
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(object) = self.objects.get(key) else {
            self.expectations.forget(key);
            return Ok(());
        };
        if !self.expectations.is_owner_seen(key, &self.objects) {
            self.queue.add_after(key.clone(), EXPECTING);
            return Ok(());
        }
        let expectations_met = self.expectations.are_met(key, &self.context.informers.pods);
        let (active, leaving) = self.claimed(object.as_ref()).await?;
        let (managed, failure) = if expectations_met && !self.is_going(key, object.as_ref(), &active, leaving).await? {
            self.manage(key, object.as_ref(), &active).await
        } else {
            // Nothing was tried, so nothing failed: a failure reported earlier is over until the next one.
            (Managed::Well, None)
        };
        if !expectations_met {
            self.queue.add_after(key.clone(), EXPECTING);
        }
        let now = self.context.clock.now();
        let counted = ReplicaCounts {
            active: &active,
            terminating: K::COUNTS_TERMINATING.then(|| i32::try_from(leaving).unwrap_or(i32::MAX)),
            labels: &object.template().map(Template::labels).transpose()?.unwrap_or_default(),
            min_ready_seconds: object.min_ready_seconds(),
            generation: object.meta().generation.unwrap_or(0),
        };
        let status = compute(&counted, &object.status(), &managed, self.context.now().0);
        self.write_status(object.as_ref(), status).await?;
        if let Some(error) = failure {
            return Err(error);
        }
        self.look_again(key, object.min_ready_seconds(), &active, now);
        Ok(())
    }
}

impl<K: Replicated> ReplicaSets<K> {
    /// Returns the pods that count, and how many of ours are going away.
    async fn claimed(&self, object: &K) -> Result<(Pods, usize), Error> {
        let metadata = Cached::metadata(object);
        let selector = object.selector()?;
        let pods = &self.context.informers.pods;
        let mut candidates = pods.candidates(metadata);
        let is_ours = |pod: &Pod| is_controlled_by(&pod.metadata, uid_of(metadata));
        let matches = |pod: &Pod| selector.matches(pod.metadata.labels.as_ref());
        let leaving = candidates.iter().filter(|pod| pod.is_leaving() && is_ours(pod) && matches(pod)).count();
        candidates.retain(|pod| pod.is_active());
        let claimer = Claimer {
            requests: &self.context.requests,
            owner: metadata,
            selector: &selector,
            reference: controller_reference::<K>(metadata),
            finalizer: None,
        };
        Ok((claimer.claim::<K, Pod, Pod>(candidates).await?.objects, leaving))
    }

    /// Returns true when the object was asked to go. If pods have gone, the server is asked.
    async fn is_going(&self, key: &Key, object: &K, active: &Pods, leaving: usize) -> Result<bool, Error> {
        let is_seen = self.objects.get(key).is_none_or(|object| is_terminating(Cached::metadata(object.as_ref())));
        let there = i32::try_from(active.len()).unwrap_or(i32::MAX);
        let lost_some = there < object.replicas() && (leaving > 0 || there < object.status().replicas);
        if is_seen || !lost_some {
            return Ok(is_seen);
        }
        ownership::is_going::<K>(&self.context.requests, Cached::metadata(object)).await
    }

    async fn manage(&self, key: &Key, object: &K, active: &Pods) -> (Managed, Option<Error>) {
        let wanted = usize::try_from(object.replicas()).unwrap_or(0);
        if active.len() < wanted {
            let outcome = self.create(key, object, (wanted - active.len()).min(BURST)).await;
            (outcome.as_ref().map_or(Managed::Well, |error| Managed::NotCreated(error.message())), outcome)
        } else if active.len() > wanted {
            let outcome = self.delete(key, object, active, (active.len() - wanted).min(BURST)).await;
            (outcome.as_ref().map_or(Managed::Well, |error| Managed::NotDeleted(error.message())), outcome)
        } else {
            (Managed::Well, None)
        }
    }

    async fn create(&self, key: &Key, object: &K, count: usize) -> Option<Error> {
        let Some(template) = object.template() else {
            let why = "it has no template".to_owned();
            return Some(Error::Unusable { what: format!("{} {key}", K::plural(&())), why });
        };
        let template = match template.read() {
            Ok(template) => template,
            Err(error) => return Some(error),
        };
        let control = self.control(object);
        let metadata = Cached::metadata(object);
        let pod = metadata_from(&template, metadata, controller_reference::<K>(metadata));
        let (_, errors) = slow_start(count, |_| async {
            match control.create(&pod, template.spec.as_ref()).await {
                Ok(created) => {
                    self.expectations.wrote(key, version_of(&created.metadata));
                    Ok(())
                }
                // Nothing can be made here any more, and nobody is to blame.
                Err(error) if error.is_namespace_terminating() => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await;
        Error::first_of(errors)
    }

    async fn delete(&self, key: &Key, object: &K, active: &Pods, count: usize) -> Option<Error> {
        let control = self.control(object);
        let candidates = self.candidates(object, active);
        let chosen = rank::choose(candidates, count, self.context.clock.now());
        let deletions = chosen.iter().map(|pod| async {
            let deleted = control.delete(pod).await;
            if deleted.is_ok() {
                self.expectations.deleted(key, Key::of(&pod.metadata), uid_of(&pod.metadata));
            }
            deleted
        });
        Error::first_of(join_all(deletions).await.into_iter().filter_map(Result::err).collect())
    }

    /// Returns the pods with the number of pods of the same family on their nodes. All ReplicaSets with the same owner
    /// are one family: the old and the new one of a Deployment. One that nobody owns has none, and nodes do not count
    /// for it.
    fn candidates(&self, object: &K, active: &Pods) -> Vec<Candidate> {
        let metadata = Cached::metadata(object);
        let family = match controller_of(metadata) {
            Some(owner) => {
                let siblings = self.objects.controlled_by(&owner.uid);
                let pods = |sibling: &std::sync::Arc<K>| {
                    self.context.informers.pods.controlled_by(uid_of(Cached::metadata(sibling.as_ref())))
                };
                siblings.iter().flat_map(pods).filter(|pod| pod.is_active()).collect()
            }
            None => Pods::new(),
        };
        let mut by_node = std::collections::BTreeMap::<&str, usize>::new();
        for pod in &family {
            *by_node.entry(pod.spec.node_name.as_deref().unwrap_or_default()).or_default() += 1;
        }
        let neighbours = |pod: &Pod| by_node.get(pod.spec.node_name.as_deref().unwrap_or_default()).copied();
        active.iter().map(|pod| Candidate { neighbours: neighbours(pod).unwrap_or(0), pod: pod.clone() }).collect()
    }

    fn control<'a>(&'a self, object: &'a K) -> PodControl<'a, K> {
        PodControl { requests: &self.context.requests, recorder: &self.recorder, owner: object }
    }

    async fn write_status(&self, object: &K, status: Status) -> Result<(), Error> {
        if object.status() == status {
            return Ok(());
        }
        let written = self.context.requests.write_status(object, |object| object.set_status(status.clone()));
        if let Some(version) = written.await? {
            self.expectations.wrote_owner(&Key::of(Cached::metadata(object)), version);
        }
        Ok(())
    }

    /// Looks again when the next ready pod becomes available: time alone does it.
    fn look_again(&self, key: &Key, min_ready_seconds: i32, active: &Pods, now: Timestamp) {
        if min_ready_seconds <= 0 {
            return;
        }
        let waits = active.iter().filter_map(|pod| pod.available_in(min_ready_seconds, now));
        if let Some(wait) = waits.filter(|wait| *wait > SignedDuration::ZERO).min() {
            self.queue.add_after(key.clone(), Duration::try_from(wait).unwrap_or_default());
        }
    }
}
