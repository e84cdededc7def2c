//! Drives pods off nodes whose taints they don't bear: at once, or when the time is over for which they bear them.
//!
//! The tolerations of a pod are read when its node has such a taint, and not kept: few nodes ever have one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{self as core, Taint, Toleration};
use kube::api::DeleteParams;
use serde_json::json;

use super::context::{Context, ControllerStart};
use super::error::Error;
use super::events::{EventType, Recorder};
use super::informer::{CacheChange, Informer, Tag};
use super::key::{Key, is_terminating, uid_of};
use super::node::{Node, bears};
use super::pod::Pod;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};

/// The number of pods that are handled side by side.
const WORKERS: usize = 8;
/// The effect of taints that drive pods off.
const EFFECT: &str = "NoExecute";
/// The reason of all its events.
const REASON: &str = "TaintManagerEviction";

struct TaintEviction {
    context: Context,
    recorder: Recorder,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    queue: WorkQueue<Key>,
    waiting: Mutex<BTreeMap<Key, Waiting>>,
}

/// A pod that bears its node's taints for a while.
struct Waiting {
    uid: String,
    until: Timestamp,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(TaintEviction {
        context: context.clone(),
        recorder: context.recorder.speaking_as("taint-eviction-controller"),
        pods: context.informers.pods.clone(),
        nodes: context.informers.nodes.clone(),
        queue: WorkQueue::default(),
        waiting: Mutex::default(),
    });
    let this = controller.clone();
    controller.nodes.on_change(move |change| this.node_changed(change));
    let this = controller.clone();
    controller.pods.on_change(move |change| this.pod_changed(change));
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl TaintEviction {
    fn node_changed(&self, change: &CacheChange<Node>) {
        let is_new = match change {
            CacheChange::Added(node) => driving(node).next().is_some(),
            CacheChange::Modified { old, new } => !driving(old).eq(driving(new)),
            CacheChange::Deleted(_) => false,
        };
        if is_new {
            let name = change.object().name().to_owned();
            self.pods.tagged(&Tag::Node(name)).iter().for_each(|pod| self.queue.add(Key::of(&pod.metadata)));
        }
    }

    fn pod_changed(&self, change: &CacheChange<Pod>) {
        let comes = match change {
            CacheChange::Added(pod) => pod.spec.node_name.is_some(),
            CacheChange::Modified { old, new } => old.spec.node_name != new.spec.node_name,
            CacheChange::Deleted(_) => false,
        };
        let pod = change.object();
        let is_tainted = || self.node_of(pod).is_some_and(|node| driving(&node).next().is_some());
        let is_waiting = || {
            let waiting = self.lock();
            !waiting.is_empty() && waiting.contains_key(&Key::of(&pod.metadata))
        };
        if comes && is_tainted() || is_waiting() {
            self.queue.add(Key::of(&pod.metadata));
        }
    }

    fn node_of(&self, pod: &Pod) -> Option<Arc<Node>> {
        self.nodes.get(&Key::new("", pod.spec.node_name.as_deref()?))
    }

    /// Returns the time at which this pod is to go, counted from its first reconciliation, or else from now.
    fn until(&self, key: &Key, pod: &Pod, patience: SignedDuration, now: Timestamp) -> Timestamp {
        let uid = uid_of(&pod.metadata);
        let mut waiting = self.lock();
        if let Some(known) = waiting.get(key).filter(|known| known.uid == uid) {
            return known.until;
        }
        let until = now.checked_add(patience).unwrap_or(Timestamp::MAX);
        waiting.insert(key.clone(), Waiting { uid: uid.to_owned(), until });
        until
    }

    /// Notes that the pod may stay after all.
    fn spare(&self, key: &Key, pod: &Pod) {
        if self.lock().remove(key).is_some() {
            let message = format!("Cancelling deletion of Pod {key}");
            self.recorder.say(pod, EventType::Normal, REASON, message);
        }
    }

    async fn evict(&self, key: &Key, pod: &Pod) -> Result<(), Error> {
        self.recorder.say(pod, EventType::Normal, REASON, format!("Marking for deletion Pod {key}"));
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": self.context.now(),
        });
        let patch = json!({ "metadata": { "uid": pod.metadata.uid }, "status": { "conditions": [condition] } });
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", key.namespace, key.name);
        let media_type = "application/strategic-merge-patch+json";
        let told = self.context.requests.raw("patch", "PATCH", &path, media_type, &patch).await;
        let outcome = match told {
            Ok(()) => self.context.requests.delete::<core::Pod>(key, &DeleteParams::default()).await,
            Err(error) => Err(error),
        };
        self.lock().remove(key);
        match outcome {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler for TaintEviction {
    type Key = Key;

    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(pod) = self.pods.get(key).filter(|pod| !is_terminating(&pod.metadata)) else {
            self.lock().remove(key);
            return Ok(());
        };
        let node = self.node_of(&pod);
        let taints: Vec<&Taint> = node.iter().flat_map(|node| driving(node)).collect();
        if taints.is_empty() {
            self.spare(key, &pod);
            return Ok(());
        }
        let live: core::Pod = match self.context.requests.get(key).await {
            Err(error) if error.is_not_found() => return Ok(()),
            live => live?,
        };
        if live.metadata.uid != pod.metadata.uid {
            return Ok(());
        }
        let tolerations = live.spec.and_then(|spec| spec.tolerations).unwrap_or_default();
        let Some(patience) = patience(&taints, &tolerations) else {
            self.spare(key, &pod);
            return Ok(());
        };
        let now = self.context.clock.now();
        if patience.is_zero() {
            return self.evict(key, &pod).await;
        }
        let left = self.until(key, &pod, patience, now).duration_since(now);
        if left <= SignedDuration::ZERO {
            return self.evict(key, &pod).await;
        }
        self.queue.add_after(key.clone(), Duration::try_from(left).unwrap_or_default());
        Ok(())
    }
}

/// Returns the taints of a node that drive pods off.
fn driving(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.taints.iter().filter(|taint| taint.effect == EFFECT)
}

/// Returns how long a pod with these tolerations bears all these taints; `None` for ever. If several tolerations bear a
/// taint, the first counts.
fn patience(taints: &[&Taint], tolerations: &[Toleration]) -> Option<SignedDuration> {
    let mut least: Option<i64> = None;
    for taint in taints {
        let Some(toleration) = tolerations.iter().find(|toleration| bears(toleration, taint)) else {
            return Some(SignedDuration::ZERO);
        };
        if let Some(seconds) = toleration.toleration_seconds {
            let seconds = seconds.max(0);
            least = Some(least.map_or(seconds, |least| least.min(seconds)));
        }
    }
    least.map(SignedDuration::from_secs)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::{Taint, Toleration};
    use serde_json::{Value, json};

    use super::patience;

    fn seconds(tolerations: Value) -> Option<i64> {
        let taint = |key: &str| Taint { key: key.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
        let taints = [taint("one"), taint("two")];
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
        patience(&taints.each_ref(), &tolerations).map(|patience: SignedDuration| patience.as_secs())
    }

    #[test]
    fn the_least_patience_counts() {
        let bears = |key: &str, seconds: Value| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
        assert_eq!(seconds(json!([])), Some(0));
        assert_eq!(seconds(json!([bears("one", Value::Null)])), Some(0), "the other taint is not borne");
        assert_eq!(seconds(json!([{ "operator": "Exists" }])), None);
        assert_eq!(seconds(json!([bears("one", json!(9)), bears("two", json!(5))])), Some(5));
        assert_eq!(seconds(json!([bears("one", json!(9)), bears("two", Value::Null)])), Some(9));
        assert_eq!(seconds(json!([bears("one", json!(-9)), bears("two", json!(5))])), Some(0));
        assert_eq!(seconds(json!([bears("one", json!(7)), bears("one", json!(3)), bears("two", json!(8))])), Some(7));
    }
}
