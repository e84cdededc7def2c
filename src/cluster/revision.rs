//! The revisions of a workload, and the pods of one of them.

use serde_json::Value;
use tracing::debug;

use super::evidence::{cannot_make_pods, is_silent, refused_pods};
use super::masking::Masking;
use super::read::{is_owned, selector_text};
use super::{Cluster, ClusterError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::canary::DaemonPods;
use belay_core::rollout::health::{PodAccount, account_of_pod, is_ready};
use belay_core::rollout::{
    Observation, RevisionPods, Workload, health, is_hook_pod, keeps_template, marks, revision_pods, template,
};

impl Cluster {
    /// Returns the pods of a StatefulSet that are of one of its revisions.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn pods_of_revision(
        &self,
        key: &ObjectKey,
        live: &Value,
        revision: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let served = self.served("v1", "Pod").await?;
        let base = selector_text(&live["spec"]["selector"]);
        let selector = format!("{base},controller-revision-hash={revision}");
        let mut pods = self.list(&served, key.namespace.as_deref(), &selector).await?;
        pods.retain(|pod| is_owned(pod, marks::uid(live)));
        Ok(pods)
    }

    /// Returns the object that keeps the present template of a workload; `None` if nothing keeps it yet.
    pub(super) async fn present_keeper(&self, key: &ObjectKey, live: &Value) -> Result<Option<Value>, ClusterError> {
        let present = template(live).unwrap_or(&Value::Null);
        let keepers = self.revision_keepers(key, live).await?;
        Ok(keepers.into_iter().find(|keeper| keeps_template(keeper, present)))
    }

    /// Returns the pods of a DaemonSet by their templates; none where its controller has made no revision of the present one yet.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn daemon_pods(&self, key: &ObjectKey, live: &Value) -> Result<DaemonPods, ClusterError> {
        const LABEL: &str = "controller-revision-hash";
        let keeper = self.present_keeper(key, live).await?;
        let Some(hash) = keeper.as_ref().and_then(|keeper| marks::label(keeper, LABEL)) else {
            return Ok(DaemonPods::default());
        };
        let served = self.served("v1", "Pod").await?;
        let pods = self.list(&served, key.namespace.as_deref(), &selector_text(&live["spec"]["selector"])).await?;
        let own = pods.into_iter().filter(|pod| is_owned(pod, marks::uid(live)));
        let (new, old) = own.partition(|pod| marks::label(pod, LABEL) == Some(hash));
        Ok(DaemonPods { new, old })
    }

    /// Returns how many pods a workload has of each of its revisions: one request, and for a StatefulSet or DaemonSet,
    /// whose revisions do not count them, another. Empty for other kinds.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn revision_pods(&self, key: &ObjectKey, live: &Value) -> Result<Vec<RevisionPods>, ClusterError> {
        let keepers = self.revision_keepers(key, live).await?;
        let mut pods = Vec::new();
        if matches!(Workload::of(key), Some(Workload::StatefulSet | Workload::DaemonSet)) {
            let served = self.served("v1", "Pod").await?;
            let selector = selector_text(&live["spec"]["selector"]);
            pods = self.list(&served, key.namespace.as_deref(), &selector).await?;
            pods.retain(|pod| is_owned(pod, marks::uid(live)));
        }
        Ok(revision_pods(key, live, &keepers, &pods, self.clock.now()))
    }

    /// Deletes a pod, as it was seen; one of the same name that has taken its place is left alone.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn delete_pod(&self, pod: &Value) -> Result<(), ClusterError> {
        let served = self.served("v1", "Pod").await?;
        match self.delete(&served.key_of(pod), &served, marks::uid(pod)).await {
            // Another has its name by now, or it is read again.
            Err(ClusterError::Refused(refusal)) if refusal.code == 409 => Ok(()),
            deleted => deleted,
        }
    }

    /// Returns those of these pods whose accounts say so.
    pub async fn pods_that(&self, pods: Vec<Value>, say_so: fn(&PodAccount) -> bool) -> Vec<Value> {
        let accounts = self.accounts(&pods, &mut Vec::new()).await;
        pods.into_iter().zip(accounts).filter(|(_, account)| say_so(account)).map(|(pod, _)| pod).collect()
    }

    /// Returns the pods of a StatefulSet that are not among `present` and not ready: its controller waits for each of
    /// them before it goes on. None for other kinds, whose controllers take the unready first.
    pub(super) async fn unready_pods_of_other_revisions(
        &self,
        key: &ObjectKey,
        live: &Value,
        present: &[Value],
    ) -> Result<Vec<Value>, ClusterError> {
        if Workload::of(key) != Some(Workload::StatefulSet) {
            return Ok(Vec::new());
        }
        let served = self.served("v1", "Pod").await?;
        let mut pods = self.list(&served, key.namespace.as_deref(), &selector_text(&live["spec"]["selector"])).await?;
        pods.retain(|pod| {
            let is_present = present.iter().any(|present| marks::uid(present) == marks::uid(pod));
            !is_present && is_owned(pod, marks::uid(live)) && !is_ready(pod)
        });
        Ok(pods)
    }

    pub(super) async fn accounts(&self, pods: &[Value], missing: &mut Vec<String>) -> Vec<PodAccount> {
        let lost = self.lost_nodes(pods, missing).await;
        let now = self.clock.now();
        pods.iter().map(|pod| account_of_pod(pod, &lost, now)).collect()
    }

    async fn listed_of_present_template(&self, key: &ObjectKey, live: &Value) -> Result<Vec<Value>, ClusterError> {
        let served = self.served("v1", "Pod").await?;
        match self.selector_of_present_template(key, live).await? {
            Some(selector) => self.list(&served, key.namespace.as_deref(), &selector).await,
            None => Ok(Vec::new()),
        }
    }

    /// Observes the pods of a workload's present template, without their logs: a few requests, one of them for events.
    ///
    /// # Errors
    /// Where the API server does not answer, or does not allow it.
    pub async fn pods_of_present_template(&self, key: &ObjectKey, live: &Value) -> Result<Observation, ClusterError> {
        let pods = match Workload::of(key) {
            _ if is_hook_pod(key, live) => vec![live.clone()],
            None => return Ok(Observation::default()),
            Some(_) => self.listed_of_present_template(key, live).await?,
        };
        let accounts = self.accounts(&pods, &mut Vec::new()).await;
        let observation =
            Observation { pods: accounts, cannot_make_pods: cannot_make_pods(live), ..Observation::default() };
        let about = unexplained(key, live, &observation.pods);
        // What they say is quoted where one is given up on.
        let speaks = observation.pods.iter().any(|account| !account.seen.message.is_empty());
        if about.is_none() && !speaks && observation.cannot_make_pods.is_none() {
            return Ok(observation);
        }
        let masking = self.masking(key, live, &pods, &mut Vec::new()).await;
        let observation = masked(observation, &masking);
        match about {
            Some(about) => Ok(self.explained(observation, key, &about, &masking).await),
            None => Ok(observation),
        }
    }

    /// Adds to an observation the messages of events. If they can't be read, it stays as it is.
    async fn explained(
        &self,
        mut observation: Observation,
        key: &ObjectKey,
        about: &str,
        masking: &Masking,
    ) -> Observation {
        let events = match self.events(key, about, masking).await {
            Ok(events) => events,
            Err(error) => {
                debug!(object = %key, %error, "its events can't be read");
                return observation;
            }
        };
        observation.pods.iter_mut().for_each(|pod| pod.explain(&events));
        let refused = refused_pods(key, &events, self.clock.now());
        observation.cannot_make_pods = observation.cannot_make_pods.or(refused);
        observation
    }
}

/// Returns the events that may say what pods and workload do not say themselves, as a field selector: those of one pod that
/// can't begin, or those of the workload where it has too few pods.
fn unexplained(key: &ObjectKey, live: &Value, pods: &[PodAccount]) -> Option<String> {
    if let Some(pod) = pods.iter().filter(|pod| pod.is_creating()).max_by_key(|pod| pod.fault) {
        return Some(format!("involvedObject.kind=Pod,involvedObject.name={}", pod.seen.name));
    }
    let desired = health(key, live).map_or(0, |health| health.counters.desired);
    let too_few = is_silent(key) && i64::try_from(pods.len()).is_ok_and(|count| count < desired);
    too_few.then(|| format!("involvedObject.uid={}", marks::uid(live)))
}

fn masked(mut observation: Observation, masking: &Masking) -> Observation {
    observation.pods.iter_mut().for_each(|pod| pod.seen.message = masking.apply(&pod.seen.message));
    observation.cannot_make_pods = observation.cannot_make_pods.map(|why| masking.apply(&why));
    observation
}
