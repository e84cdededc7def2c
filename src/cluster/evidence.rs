//! Observes a workload that does not come up: pods, their last lines, events. Read before anything is done.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::call::{Purpose, get};
use super::masking::Masking;
use super::read::selector_text;
use super::served::escape;
use super::{Cluster, ClusterError, Served};
use belay_core::manifest::{ObjectKey, shortened};
use belay_core::rollout::health::{PodAccount, is_ready};
use belay_core::rollout::{Bake, EventSeen, Evidence, Observation, Reason, Workload, is_hook_pod, job_end, marks};

/// The most pods that are kept.
const PODS: usize = 10;
/// The most pods whose logs are read.
const LOGS: usize = 3;
/// The lines that are kept of a log.
const LINES: usize = 10;
/// The most characters that are kept of a line.
const LINE_LIMIT: usize = 400;
/// The most events that are kept.
const EVENTS: usize = 20;
/// The time after a refusal for which its event still explains why there are too few pods: a controller tries again
/// every quarter of an hour at the latest.
const REFUSED_LATELY: SignedDuration = SignedDuration::from_mins(20);
/// The most nodes that are inspected.
const NODES: usize = 10;
/// The beginning of the event of a controller that has made a pod; its name follows.
const CREATED_POD: &str = "Created pod: ";

/// The observation, with the facts that the judge needs of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedWorkload {
    /// The facts that the judge rules by.
    pub observation: Observation,
    /// The evidence that is kept.
    pub evidence: Evidence,
}

impl ObservedWorkload {
    /// Returns a workload whose pods can't be seen, and why.
    #[must_use]
    pub fn hidden(why: String) -> ObservedWorkload {
        let evidence = Evidence { missing: vec![format!("pods: {why}")], ..Evidence::default() };
        ObservedWorkload { observation: Observation { hidden: Some(why), ..Observation::default() }, evidence }
    }
}

impl Cluster {
    /// Looks at a workload's present template: its pods, whose fault it is, their last lines, events. Within a bake time a pod
    /// that has restarted is at fault, also where it is ready again.
    ///
    /// # Errors
    /// Fails when the pods themselves can't be read: without them nothing can be ruled. Other parts that can't be read
    /// are named in [`Evidence::missing`].
    pub async fn observe(
        &self,
        key: &ObjectKey,
        live: &Value,
        bake: Option<&Bake>,
    ) -> Result<ObservedWorkload, ClusterError> {
        let is_pod = is_hook_pod(key, live);
        if Workload::of(key).is_none() && !is_pod {
            let evidence = Evidence { conditions: conditions(live), ..Evidence::default() };
            return Ok(ObservedWorkload { evidence, ..ObservedWorkload::default() });
        }
        let pods_served = self.served("v1", "Pod").await?;
        let mut missing = Vec::new();
        let mut pods = match is_pod {
            true => vec![live.clone()],
            false => match self.selector_of_present_template(key, live).await? {
                Some(selector) => self.list(&pods_served, key.namespace.as_deref(), &selector).await?,
                None => Vec::new(),
            },
        };
        if Workload::of(key) == Some(Workload::ReplicationController) {
            // In a rolling update, the selector of the one may match pods of the other.
            pods.retain(|pod| is_own(pod, live));
        }
        let present = pods.len();
        pods.extend(self.unready_pods_of_other_revisions(key, live, &pods).await?);
        let masking = self.masking(key, live, &pods, &mut missing).await;
        pods.iter_mut().filter_map(|pod| pod.get_mut("status")).for_each(|status| masking.apply_to_messages(status));
        let mut accounts = self.accounts(&pods, &mut missing).await;
        let others = accounts.split_off(present);
        if let Some(bake) = bake {
            bake.blame_restarted(&mut accounts);
        }
        accounts.sort_by(|one, other| other.fault.cmp(&one.fault).then_with(|| one.seen.name.cmp(&other.seen.name)));
        self.read_logs(key, &pods_served, &mut accounts, &masking, &mut missing).await;
        let mut held_up_by: Vec<_> = others.into_iter().max_by_key(|pod| pod.fault).into_iter().collect();
        self.read_logs(key, &pods_served, &mut held_up_by, &masking, &mut missing).await;
        let events = self.events_about(key, live, &accounts, &masking, &mut missing).await;
        accounts.iter_mut().for_each(|account| account.explain(&events));
        let evidence = Evidence {
            conditions: conditions(live).iter().map(|condition| masking.apply(condition)).collect(),
            pods: accounts.iter().take(PODS).chain(&held_up_by).map(|account| account.seen.clone()).collect(),
            events,
            missing,
        };
        let held_up_by = held_up_by.pop().map(|pod| Box::new(pod.seen));
        let refused = cannot_make_pods(live).or_else(|| refused_pods(key, &evidence.events, self.clock.now()));
        let cannot_make_pods = refused.map(|why| masking.apply(&why));
        let observation = Observation { pods: accounts, cannot_make_pods, held_up_by, hidden: None };
        Ok(ObservedWorkload { observation, evidence })
    }

    /// Returns the selector of the pods that the present template makes; `None` if nothing keeps that template yet.
    pub(super) async fn selector_of_present_template(
        &self,
        key: &ObjectKey,
        live: &Value,
    ) -> Result<Option<String>, ClusterError> {
        let base = selector_text(&live["spec"]["selector"]);
        let label = match Workload::of(key) {
            Some(Workload::Deployment) => "pod-template-hash",
            Some(Workload::StatefulSet | Workload::DaemonSet) => "controller-revision-hash",
            _ => return Ok(Some(base)),
        };
        let Some(keeper) = self.present_keeper(key, live).await? else { return Ok(None) };
        // A StatefulSet's pods carry the name of their revision, the others' its hash.
        let value = match Workload::of(key) {
            Some(Workload::StatefulSet) => keeper["metadata"]["name"].as_str(),
            _ => marks::label(&keeper, label),
        };
        // An adopted ReplicaSet may have no hash; its own selector still identifies its pods.
        Ok(Some(match value {
            Some(value) => format!("{base},{label}={value}"),
            None => selector_text(&keeper["spec"]["selector"]),
        }))
    }

    /// Returns the nodes of unready pods that are not Ready, or gone.
    pub(super) async fn lost_nodes(&self, pods: &[Value], missing: &mut Vec<String>) -> BTreeSet<String> {
        let named: BTreeSet<&str> =
            pods.iter().filter(|pod| !is_ready(pod)).filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        let mut lost = BTreeSet::new();
        for name in named.into_iter().take(NODES) {
            let key =
                ObjectKey { group: String::new(), kind: "Node".to_owned(), namespace: None, name: name.to_owned() };
            let node = match self.served("v1", "Node").await {
                Ok(served) => self.get(&key, &served).await,
                Err(error) => Err(error),
            };
            match node {
                Ok(Some(node)) if is_ready(&node) => {}
                Ok(_) => {
                    lost.insert(name.to_owned());
                }
                Err(error) => missing.push(format!("node {name}: {error}")),
            }
        }
        lost
    }

    async fn read_logs(
        &self,
        key: &ObjectKey,
        served: &Served,
        pods: &mut [PodAccount],
        masking: &Masking,
        missing: &mut Vec<String>,
    ) {
        let stuck = pods.iter_mut().filter(|pod| pod.fault.blames_the_commit() && pod.seen.container.is_some());
        for pod in stuck.take(LOGS) {
            let name = pod.seen.name.clone();
            let container = pod.seen.container.clone().unwrap_or_default();
            // A container that waits to be started again has said why in its run before.
            let runs: &[&str] = if pod.seen.restarts > 0 { &["true", "false"] } else { &["false"] };
            for previous in runs {
                let path = format!(
                    "{}/log?container={}&tailLines={LINES}&previous={previous}&limitBytes=65536",
                    served.path(key.namespace.as_deref(), &name),
                    escape(&container)
                );
                let what = format!("read the log of pod {name}");
                match self.call_text(Purpose { what: &what, secret: false }, get(&path)).await {
                    Ok(text) => pod.seen.log = last_lines(&masking.apply(&text)),
                    // A container that never ran has no log; that is no gap in the evidence.
                    Err(ClusterError::Refused(refusal)) if refusal.code == 400 => {}
                    Err(error) => missing.push(format!("log of pod {name}: {error}")),
                }
                if !pod.seen.log.is_empty() {
                    break;
                }
            }
        }
    }

    /// Returns how a Job of this name has ended since a time, as its controller's events say; `None` if none says so.
    ///
    /// # Errors
    /// Fails when events can't be read.
    pub async fn job_end(
        &self,
        key: &ObjectKey,
        since: Option<Timestamp>,
    ) -> Result<Option<Result<(), Reason>>, ClusterError> {
        let selector = format!("involvedObject.kind=Job,involvedObject.name={}", key.name);
        let events = self.events(key, &selector, &Masking::default()).await?.into_iter();
        // The API server cuts its times to whole seconds.
        let since = since.map(|since| since.as_second());
        let mut events: Vec<EventSeen> =
            events.filter(|event| since.is_none_or(|since| event.at.as_second() >= since)).collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        Ok(job_end(&events))
    }

    /// Returns true when a container of a live Job's pods has started, as events say: its pods may be gone. `None` if there are no events
    /// of its pods any more: the API server keeps them for an hour.
    ///
    /// # Errors
    /// Fails when events can't be read.
    pub async fn job_has_started(&self, key: &ObjectKey, live: &Value) -> Result<Option<bool>, ClusterError> {
        let of_job = format!("involvedObject.uid={}", marks::uid(live));
        let events = self.events(key, &of_job, &Masking::default()).await?;
        let pods = events.iter().filter_map(|event| event.message.strip_prefix(CREATED_POD)).take(PODS);
        let mut has_started = None;
        for pod in pods {
            let started = format!("involvedObject.kind=Pod,involvedObject.name={pod},reason=Started");
            has_started = Some(!self.events(key, &started, &Masking::default()).await?.is_empty());
            if has_started == Some(true) {
                break;
            }
        }
        Ok(has_started)
    }

    /// The events in the namespace of an object that a field selector means: one request.
    pub(super) async fn events(
        &self,
        key: &ObjectKey,
        selector: &str,
        masking: &Masking,
    ) -> Result<Vec<EventSeen>, ClusterError> {
        let namespace = key.namespace.as_deref().unwrap_or("default");
        let path =
            format!("/api/v1/namespaces/{}/events?limit=200&fieldSelector={}", escape(namespace), escape(selector));
        let mut answer = self.call(Purpose { what: "read events", secret: false }, get(&path)).await?;
        let all = answer.value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten();
        all.for_each(|event| masking.apply_to_messages(event));
        Ok(answer.value["items"].as_array().into_iter().flatten().filter_map(event).collect())
    }

    async fn events_about(
        &self,
        key: &ObjectKey,
        live: &Value,
        pods: &[PodAccount],
        masking: &Masking,
        missing: &mut Vec<String>,
    ) -> Vec<EventSeen> {
        let mut about = vec![format!("involvedObject.uid={}", marks::uid(live))];
        let stuck = pods.iter().filter(|pod| pod.fault.blames_the_commit()).take(LOGS);
        about.extend(stuck.map(|pod| format!("involvedObject.kind=Pod,involvedObject.name={}", pod.seen.name)));
        let mut found = Vec::new();
        for selector in about {
            match self.events(key, &selector, masking).await {
                Ok(events) => found.extend(events),
                Err(error) => missing.push(format!("events: {error}")),
            }
        }
        found.sort_by(|one, other| other.at.cmp(&one.at).then_with(|| one.message.cmp(&other.message)));
        // Warnings explain; normal events only fill the rest.
        found.sort_by_key(|event| event.kind != "Warning");
        found.truncate(EVENTS);
        found
    }
}

/// Returns true unless another controller owns a pod.
fn is_own(pod: &Value, controller: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.filter(|owner| owner["controller"] == true).all(|owner| owner["uid"] == controller["metadata"]["uid"])
}

fn event(event: &Value) -> Option<EventSeen> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let times = ["lastTimestamp", "eventTime", "firstTimestamp"].iter().map(|field| &event[*field]);
    let at: Timestamp =
        times.chain([&event["metadata"]["creationTimestamp"]]).find_map(|at| at.as_str()?.parse().ok())?;
    let object = &event["involvedObject"];
    Some(EventSeen {
        at,
        kind: text(&event["type"]),
        object: format!("{}/{}", text(&object["kind"]), text(&object["name"])),
        reason: text(&event["reason"]),
        message: shortened(&text(&event["message"]), LINE_LIMIT).into_owned(),
    })
}

fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(LINES);
    lines[last..].iter().map(|line| shortened(line, LINE_LIMIT).into_owned()).collect()
}

fn conditions(live: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = live["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .map(|condition| {
            let [kind, status, reason, message] =
                ["type", "status", "reason", "message"].map(|field| text(&condition[field]));
            format!("{kind}={status} {reason}: {message}")
        })
        .collect()
}

/// Why the API server has refused pods lately, by the events of a workload whose status has no word for it.
pub(super) fn refused_pods(key: &ObjectKey, events: &[EventSeen], now: Timestamp) -> Option<String> {
    if !is_silent(key) {
        return None;
    }
    let object = format!("{}/{}", key.kind, key.name);
    let newest = |reason: &str| {
        let all = events.iter().filter(|event| event.object == object && event.reason == reason);
        all.max_by_key(|event| event.at)
    };
    let refused = newest("FailedCreate").filter(|event| now.duration_since(event.at) < REFUSED_LATELY)?;
    let is_over = newest("SuccessfulCreate").is_some_and(|made| made.at > refused.at);
    (!is_over).then(|| refused.message.clone())
}

/// Returns true when the status of a workload has no word for pods that can't be made.
pub(super) fn is_silent(key: &ObjectKey) -> bool {
    matches!(Workload::of(key), Some(Workload::StatefulSet | Workload::DaemonSet | Workload::Job))
}

pub(super) fn cannot_make_pods(live: &Value) -> Option<String> {
    let conditions = live["status"]["conditions"].as_array()?;
    let failing = conditions.iter().find(|condition| {
        let failure = condition["type"] == "ReplicaFailure" && condition["status"] == "True";
        let no_set = condition["type"] == "Progressing" && condition["reason"] == "ReplicaSetCreateError";
        failure || no_set
    })?;
    Some(failing["message"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;

    /// An API server may say anything in the place of a list of pods, or of events.
    #[tokio::test(start_paused = true)]
    async fn answers_that_are_none_are_no_evidence() {
        let word = str::to_owned;
        let key =
            ObjectKey { group: word("batch"), kind: word("Job"), namespace: Some(word("shop")), name: word("job") };
        let live = json!({"metadata": {"name": "job", "uid": "1"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}});
        for pods in ["[3]", "[[]]", "[null]", "[{\"status\":7}]", "[{\"metadata\":7,\"spec\":[1],\"status\":[2]}]", "7"]
        {
            for events in ["7", "[]", "null", "{\"items\":7}", "{\"items\":[3,null,{\"message\":[1]}]}"] {
                let service = tower::service_fn(move |request: Request<Body>| {
                    let body = match request.uri().path() {
                        "/readyz" => word("ok"),
                        "/api/v1" => word("{\"resources\":[{\"name\":\"pods\",\"kind\":\"Pod\",\"namespaced\":true}]}"),
                        path if path.ends_with("/events") => word(events),
                        _ => format!("{{\"items\":{pods}}}"),
                    };
                    async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
                });
                let client = kube::Client::new(service, "default");
                let cluster = Cluster::new(client, Clock::tokio(Timestamp::UNIX_EPOCH));
                if let Ok(seen) = cluster.observe(&key, &live, None).await {
                    assert_eq!(seen.evidence.events, [], "{pods} {events}");
                }
            }
        }
    }
}
