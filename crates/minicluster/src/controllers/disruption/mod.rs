//! Says how many of the pods under a disruption budget may be evicted.

mod count;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::Value;

use super::context::{Context, ControllerStart, in_seconds};
use super::error::Error;
use super::events::{EventType, Recorder};
use super::informer::{CacheChange, Cached, Informer, Tag};
use super::key::{Key, is_terminating, name_of, namespace_of};
use super::pod::Pod;
use super::pod_control::Pods;
use super::requests::Ignored;
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};

/// The number of budgets that are handled side by side.
const WORKERS: usize = 1;
/// An evicted pod that is not seen to go within this time counts again.
const EVICTED: SignedDuration = SignedDuration::from_mins(2);
/// The condition that allows or forbids evictions.
const ALLOWED: &str = "DisruptionAllowed";

struct Disruption {
    context: Context,
    recorder: Recorder,
    budgets: Informer<PodDisruptionBudget>,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(Disruption {
        context: context.clone(),
        recorder: context.recorder.speaking_as("controllermanager"),
        budgets: context.informers.pod_disruption_budgets.clone(),
        queue: WorkQueue::default(),
    });
    context.informers.replica_sets.want();
    let this = controller.clone();
    controller.budgets.on_change(move |change| {
        if !matches!(change, CacheChange::Deleted(_)) {
            this.queue.add(Key::of(&change.object().metadata));
        }
    });
    let this = controller.clone();
    context.informers.pods.on_change(move |change| match change {
        CacheChange::Added(pod) | CacheChange::Deleted(pod) => this.add_budget_of(pod),
        CacheChange::Modified { old, new } => {
            if old.metadata.labels != new.metadata.labels {
                this.add_budget_of(old);
            }
            this.add_budget_of(new);
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Disruption {
    fn add_budget_of(&self, pod: &Pod) {
        for budget in self.budgets.may_select(&pod.metadata) {
            if selector(&budget).is_ok_and(|selector| selector.matches(pod.metadata.labels.as_ref())) {
                self.queue.add(Key::of(&budget.metadata));
            }
        }
    }

    fn pods(&self, budget: &PodDisruptionBudget) -> Result<Pods, Error> {
        Ok(self.context.informers.pods.selected(namespace_of(&budget.metadata), &selector(budget)?))
    }

    async fn count(&self, key: &Key, budget: &Arc<PodDisruptionBudget>) -> Result<(), Error> {
        let pods = self.pods(budget)?;
        if pods.is_empty() {
            self.recorder.say(budget.as_ref(), EventType::Normal, "NoPods", "No matching pods found");
        }
        let counted = match self.expected(budget, &pods).await {
            Ok(counted) => counted,
            Err(error) => {
                let message = format!("Failed to calculate the number of expected pods: {}", plain(&error));
                self.recorder.say(budget.as_ref(), EventType::Warning, "CalculateExpectedPodCountFailed", message);
                return Err(error);
            }
        };
        if !counted.unmanaged.is_empty() {
            self.tell_of_unmanaged(budget);
        }
        let now = self.context.clock.now();
        let (evicted, again) = self.evicted(budget, &pods, now);
        let healthy = pods.iter().filter(|pod| {
            let is_leaving = evicted.get(name_of(&pod.metadata)).is_some_and(|since| since.0 + EVICTED > now);
            !is_terminating(&pod.metadata) && !is_leaving && pod.is_ready()
        });
        let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
        self.write(budget, status(budget, counted, healthy, evicted, now)).await?;
        if let Some(again) = again {
            self.queue.add_after(key.clone(), Duration::try_from(again).unwrap_or_default());
        }
        Ok(())
    }

    fn tell_of_unmanaged(&self, budget: &PodDisruptionBudget) {
        let labels = selector_text(budget);
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {labels}) were found to be unmanaged. As a result, the \
             status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
             these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
        );
        self.recorder.say(budget, EventType::Warning, "UnmanagedPods", message);
    }

    /// Returns pods that were evicted and have not been seen to go, and the time of the next reconciliation.
    fn evicted(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> (BTreeMap<String, Time>, Option<SignedDuration>) {
        let known = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
        let (mut evicted, mut again) = (BTreeMap::new(), None::<SignedDuration>);
        for pod in pods.iter().filter(|pod| !is_terminating(&pod.metadata)) {
            let Some(since) = known.get(name_of(&pod.metadata)) else { continue };
            let left = (since.0 + EVICTED).duration_since(now);
            if left < SignedDuration::ZERO {
                let (namespace, name) = (namespace_of(&budget.metadata), name_of(&budget.metadata));
                let message = format!("Pod was expected by PDB {namespace}/{name} to be deleted but it wasn't");
                self.recorder.say(pod.as_ref(), EventType::Warning, "NotDeleted", message);
            } else {
                again = Some(again.map_or(left, |again| again.min(left)));
                evicted.insert(name_of(&pod.metadata).to_owned(), since.clone());
            }
        }
        (evicted, again)
    }

    /// Forbids evictions after a failure.
    async fn close(&self, budget: &PodDisruptionBudget, why: &Error) -> Result<(), Error> {
        let mut status = budget.status.clone().unwrap_or_default();
        status.disruptions_allowed = Some(0);
        status.observed_generation = budget.metadata.generation;
        let now = self.context.clock.now();
        set_condition(&mut status, "False", "SyncFailed", plain(why), now);
        self.write(budget, status).await
    }

    async fn write(&self, budget: &PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> Result<(), Error> {
        if budget.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let changed = PodDisruptionBudget { status: Some(status), ..budget.clone() };
        match self.context.requests.replace_status::<_, Ignored>(&changed).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Reconciler for Disruption {
    type Key = Key;

    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(budget) = self.budgets.get(key) else { return Ok(()) };
        match self.count(key, &budget).await {
            // Somebody evicts at this moment: the count is old.
            Err(error) if !error.is_conflict() => self.close(&budget, &error).await.and(Err(error)),
            done => done,
        }
    }
}

/// The number of healthy pods that are needed, and of how many.
#[derive(Clone, Debug, Default)]
pub struct CountedPods {
    /// All pods that there should be.
    pub expected: i32,
    /// The number of them that must be healthy.
    pub needed: i32,
    /// Pods that nobody controls.
    pub unmanaged: Vec<String>,
}

fn status(
    budget: &PodDisruptionBudget,
    counted: CountedPods,
    healthy: i32,
    evicted: BTreeMap<String, Time>,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let allowed = if counted.expected <= 0 { 0 } else { (healthy - counted.needed).max(0) };
    let conditions = budget.status.as_ref().and_then(|status| status.conditions.clone());
    let mut status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(counted.needed),
        expected_pods: Some(counted.expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(evicted).filter(|evicted| !evicted.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions,
    };
    let (value, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(&mut status, value, reason, String::new(), now);
    status
}

fn set_condition(status: &mut PodDisruptionBudgetStatus, value: &str, reason: &str, message: String, now: Timestamp) {
    let observed_generation = status.observed_generation;
    let conditions = status.conditions.get_or_insert_default();
    let since = conditions.iter().find(|one| one.type_ == ALLOWED && one.status == value);
    let last_transition_time =
        since.map_or_else(|| Time(in_seconds(now)), |condition| condition.last_transition_time.clone());
    let condition = Condition {
        type_: ALLOWED.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time,
        observed_generation,
    };
    match conditions.iter_mut().find(|one| one.type_ == ALLOWED) {
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
}

impl Cached for PodDisruptionBudget {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn tags(&self) -> Vec<Tag> {
        let selects = selector(self).ok().and_then(|selector| Tag::of_selector(&self.metadata, &selector));
        std::iter::once(Tag::of_owner(&self.metadata)).chain(selects).collect()
    }
}

/// Returns the selector of a budget: without one it selects nothing, with an empty one everything.
fn selector(budget: &PodDisruptionBudget) -> Result<Selector, Error> {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.map_or(Ok(Selector::nothing()), Selector::read)
}

/// Returns the selector as the reference writes it into its event.
fn selector_text(budget: &PodDisruptionBudget) -> String {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = selector.and_then(|selector| selector.match_labels.clone()).unwrap_or_default();
    let labels: String = labels.iter().map(|(name, value)| format!("{name}: {value},")).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"
    )
}

/// Returns the error for people: the server's words, or ours without the name of the operation.
fn plain(error: &Error) -> String {
    match error {
        Error::Unusable { why, .. } => why.clone(),
        error => error.message(),
    }
}

/// Returns a size that an object has in its `spec.replicas`.
fn size_of(object: &Value) -> i32 {
    object["spec"]["replicas"].as_i64().and_then(|size| i32::try_from(size).ok()).unwrap_or(0)
}
