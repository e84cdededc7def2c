//! The building blocks of scripts: one namespace of one cluster, things to do in it, and things to wait for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::kubelet::Fate;
use super::observer::Seen;
use super::words::{place, without_ages};
use crate::token_volumes::make_default_account;

/// The longest time of any step.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(45);
/// A namespace in which nothing happened for so long has come to rest.
const REST: Duration = Duration::from_millis(900);

/// The number of tries to make a pod ready before it is given up.
const TRIES: u32 = 3;

/// The time for which statuses may not fit together; some scripts keep them so.
const PATIENCE_WITH_RIDDLES: Duration = Duration::from_secs(8);

/// A namespace.
#[derive(Clone)]
pub struct World {
    pub namespace: String,
    pub cluster: Arc<Cluster>,
    notes: Arc<Mutex<Vec<String>>>,
    /// The generation that a write of the script's own gave each object: waiting is for what comes after.
    written: Arc<Mutex<BTreeMap<(String, String), i64>>>,
    loose: Arc<AtomicBool>,
}

/// The treatment of dependents by a deletion.
#[derive(Clone, Copy, Debug)]
pub enum Cascade {
    Default,
    Background,
    Foreground,
    Orphan,
}

impl World {
    pub async fn new(cluster: Arc<Cluster>, namespace: &str) -> Result<World> {
        let world = World {
            namespace: namespace.to_owned(),
            cluster,
            notes: Arc::default(),
            written: Arc::default(),
            loose: Arc::default(),
        };
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        world.send("POST", "/api/v1/namespaces", "application/json", &namespace).await?;
        // The controller that makes it may take longer than the first pod.
        make_default_account(&world.cluster.client, &world.namespace).await;
        Ok(world)
    }

    /// Something that must be the same everywhere.
    pub fn note(&self, note: impl Into<String>) {
        self.notes.lock().unwrap().push(note.into());
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    /// Leaves the steps by which the sizes are reached out of the comparison: they depend on chance here.
    pub fn steps_may_differ(&self) {
        self.loose.store(true, Ordering::Relaxed);
    }

    pub fn may_steps_differ(&self) -> bool {
        self.loose.load(Ordering::Relaxed)
    }

    pub fn client(&self) -> &Client {
        &self.cluster.client
    }

    pub async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<Value> {
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let answer = self.client().request(request.body(body)?).await;
        let answer: Value = answer.with_context(|| format!("{method} {path}"))?;
        if let (Some(kind), Some(name)) = (answer["kind"].as_str(), answer["metadata"]["name"].as_str()) {
            let generation = answer["metadata"]["generation"].as_i64().unwrap_or(0);
            self.written.lock().unwrap().insert((kind.to_owned(), name.to_owned()), generation);
        }
        Ok(answer)
    }

    /// Sends a request and notes how it is answered: the code, and of a refusal its reason, message and causes. `rest` is
    /// what follows the namespace in the path of `apps/v1`, or a whole path.
    pub async fn note_answer(&self, method: &str, rest: &str, kind: &str, body: Value) -> Result<()> {
        let answer = self.answer(method, rest, kind, &body).await?;
        let what = match answer.1["kind"].as_str() {
            Some("Status") => {
                let of = |field: &str| answer.1[field].clone();
                json!({ "reason": of("reason"), "message": of("message"), "details": of("details") }).to_string()
            }
            kind => kind.unwrap_or_default().to_owned(),
        };
        self.note(format!("{method} {rest}: {} {what}", answer.0));
        Ok(())
    }

    /// Sends a request; returns the code and the body, whatever they are.
    pub async fn answer(&self, method: &str, rest: &str, kind: &str, body: &Value) -> Result<(u16, Value)> {
        let path = match rest.strip_prefix('/') {
            Some(_) => rest.to_owned(),
            None => format!("/apis/apps/v1/namespaces/{}/{rest}", self.namespace),
        };
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
        let response = self.client().send(request.body(kube::client::Body::from(body))?).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// Notes kubectl's output, with ages and widths of columns left out.
    pub async fn note_kubectl(&self, arguments: &[&str]) -> Result<()> {
        let said = self.kubectl(arguments).await?;
        self.note(without_ages(&said));
        Ok(())
    }

    /// Returns the path of a kind's objects in this namespace.
    pub fn path(&self, kind: &str) -> String {
        let (prefix, plural) = place(kind);
        format!("{prefix}/namespaces/{}/{plural}", self.namespace)
    }

    pub async fn create(&self, object: Value) -> Result<Value> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        self.send("POST", &self.path(&kind), "application/json", &object).await
    }

    pub async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        self.send("GET", &format!("{}/{name}", self.path(kind)), "application/json", &Value::Null).await
    }

    pub async fn merge(&self, kind: &str, name: &str, patch: Value) -> Result<Value> {
        let path = format!("{}/{name}", self.path(kind));
        self.send("PATCH", &path, "application/merge-patch+json", &patch).await
    }

    pub async fn merge_status(&self, kind: &str, name: &str, patch: Value) -> Result<Value> {
        let path = format!("{}/{name}/status", self.path(kind));
        self.send("PATCH", &path, "application/merge-patch+json", &patch).await
    }

    pub async fn strategic(&self, kind: &str, name: &str, patch: Value) -> Result<Value> {
        if patch["spec"].get("template").is_some() {
            self.next_second().await;
        }
        let path = format!("{}/{name}", self.path(kind));
        self.send("PATCH", &path, "application/strategic-merge-patch+json", &patch).await
    }

    pub async fn delete(&self, kind: &str, name: &str, cascade: Cascade) -> Result<()> {
        let body = match cascade {
            Cascade::Default => Value::Null,
            Cascade::Background => json!({ "propagationPolicy": "Background" }),
            Cascade::Foreground => json!({ "propagationPolicy": "Foreground" }),
            Cascade::Orphan => json!({ "propagationPolicy": "Orphan" }),
        };
        let path = format!("{}/{name}", self.path(kind));
        self.send("DELETE", &path, "application/json", &body).await.map(drop)
    }

    pub async fn scale(&self, kind: &str, name: &str, size: i32) -> Result<()> {
        self.merge(kind, name, json!({ "spec": { "replicas": size } })).await.map(drop)
    }

    pub async fn set_image(&self, kind: &str, name: &str, image: &str) -> Result<()> {
        let container = json!({ "name": "app", "image": image });
        let patch = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
        self.strategic(kind, name, patch).await.map(drop)
    }

    /// Decides what becomes of pods with an image, from now on.
    pub fn fate(&self, image: &str, fate: Fate) {
        self.cluster.kubelet.set_fate(&self.namespace, image, fate);
    }

    /// Returns the pods with an image that count, in the order in which they came.
    pub fn pods(&self, image: &str) -> Vec<Arc<Value>> {
        self.look(|seen| active_pods(seen, Some(image)))
    }

    /// Marks pods with an image ready until `count` of them are.
    pub async fn ready(&self, image: &str, count: usize) -> Result<()> {
        self.until(&format!("{count} pods of {image}"), |seen| active_pods(seen, Some(image)).len() >= count).await?;
        // Only what runs can become ready: the kubelet would write over what was said of a pod before it started it.
        let running = |seen: &Seen| {
            let mut pods = active_pods(seen, Some(image));
            pods.retain(|pod| pod["status"]["phase"] == "Running");
            pods
        };
        self.until(&format!("{count} running pods of {image}"), |seen| running(seen).len() >= count).await?;
        let enough = |seen: &Seen| active_pods(seen, Some(image)).iter().filter(|pod| is_ready(pod)).count() >= count;
        // A write may lose against another one; then it is made again.
        for _ in 0..TRIES {
            let pods = self.look(running);
            let missing = count.saturating_sub(pods.iter().filter(|pod| is_ready(pod)).count());
            for pod in pods.iter().filter(|pod| !is_ready(pod)).take(missing) {
                self.cluster.kubelet.set_ready(pod, true).await;
            }
            if self.cluster.observer.wait(&self.namespace, STEP_TIMEOUT / TRIES, enough).await {
                return Ok(());
            }
        }
        self.until(&format!("{count} ready pods of {image}"), enough).await
    }

    /// Returns kubectl's output, with its exit code.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut kubectl = tokio::process::Command::from(self.cluster.kubectl());
        let output = kubectl.args(["-n", &self.namespace]).args(arguments).output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(format!("exit {:?}: {}{}", output.status.code(), text(&output.stdout), text(&output.stderr)))
    }

    pub fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        self.cluster.observer.look(&self.namespace, look)
    }

    /// Waits for something.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Result<()> {
        self.until_within(STEP_TIMEOUT, what, wanted).await
    }

    /// Waits for something that takes its time.
    pub async fn until_within(&self, limit: Duration, what: &str, wanted: impl Fn(&Seen) -> bool) -> Result<()> {
        if self.cluster.observer.wait(&self.namespace, limit, wanted).await {
            return Ok(());
        }
        bail!("no {what} within {} s; there is:\n{}", limit.as_secs(), self.look(summary))
    }

    /// Waits until an object is as wanted.
    pub async fn until_object(
        &self,
        kind: &'static str,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let name = name.to_owned();
        let written = self.written.lock().unwrap().get(&(kind.to_owned(), name.clone())).copied();
        let is_new =
            move |object: &Value| object["metadata"]["generation"].as_i64().unwrap_or(0) >= written.unwrap_or(0);
        self.until(&format!("{kind} {name} with {what}"), move |seen| {
            seen.get(kind, &name).is_some_and(|object| is_new(&object) && wanted(&object))
        })
        .await
    }

    /// Waits until nothing happens any more.
    pub async fn settle(&self) -> Result<()> {
        // The last action of the script may not have shown yet.
        let start = tokio::time::Instant::now();
        let end = start + STEP_TIMEOUT;
        loop {
            let rest = self.look(|seen| seen.last_change).max(start) + REST;
            let now = tokio::time::Instant::now();
            // A busy machine pauses in the middle of things: what does not fit together gets more time, if not for ever.
            if now >= rest && (now > start + PATIENCE_WITH_RIDDLES || self.look(fits_together)) {
                return Ok(());
            }
            let rest = rest.max(now + REST / 4);
            if rest > end {
                bail!("it does not come to rest; there is:\n{}", self.look(summary));
            }
            tokio::time::sleep_until(rest).await;
        }
    }

    /// Returns the script's own expectation: what the specification says.
    pub fn check(&self, holds: bool, what: &str) -> Result<()> {
        if holds {
            return Ok(());
        }
        bail!("not so: {what}; there is:\n{}", self.look(summary))
    }
}

/// Returns the pods that count, by image, in the order in which they came.
pub fn active_pods(seen: &Seen, image: Option<&str>) -> Vec<Arc<Value>> {
    let counts = |pod: &Arc<Value>| {
        let is_of = image.is_none_or(|image| pod["spec"]["containers"][0]["image"] == image);
        let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        is_of && !finished && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let names = seen.names_ever("Pod");
    names.iter().filter_map(|name| seen.get("Pod", name)).filter(counts).collect()
}

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Returns true when all statuses agree with the objects.
fn fits_together(seen: &Seen) -> bool {
    let number = |object: &Value, field: &str| object["status"][field].as_i64().unwrap_or(0);
    let pods = active_pods(seen, None);
    let of_pods =
        ["ReplicaSet", "ReplicationController", "StatefulSet"].iter().flat_map(|kind| seen.all(kind)).all(|owner| {
            let mine: Vec<_> = pods.iter().filter(|pod| is_owned(pod, &owner)).collect();
            let there = i64::try_from(mine.len()).unwrap();
            let ready = i64::try_from(mine.iter().filter(|pod| is_ready(pod)).count()).unwrap();
            let failed = condition(&owner, "ReplicaFailure").is_some();
            let leaving = owner["status"]["terminatingReplicas"].as_i64();
            is_observed(&owner)
                && number(&owner, "replicas") == there
                && number(&owner, "readyReplicas") == ready
                && leaving.is_none_or(|leaving| leaving == going(seen, &owner))
                && (failed || owner["spec"]["replicas"].as_i64().unwrap_or(1) == there)
        });
    of_pods
        && jobs_fit(seen)
        && daemons_fit(seen)
        && claims_fit(seen)
        && seen.all("Deployment").iter().all(|web| {
            let sets = seen.all("ReplicaSet");
            let sets: Vec<_> = sets.iter().filter(|set| is_owned(set, web)).collect();
            let same = |field: &str| number(web, field) == sets.iter().map(|set| number(set, field)).sum::<i64>();
            is_observed(web)
                && ["replicas", "readyReplicas", "availableReplicas", "terminatingReplicas"]
                    .iter()
                    .all(|field| same(field))
        })
}

/// Returns true when the statuses of Jobs agree with their pods.
fn jobs_fit(seen: &Seen) -> bool {
    seen.all("Job").iter().all(|job| {
        let mine = active_pods(seen, None).into_iter().filter(|pod| is_owned(pod, job)).count();
        let number = |field: &str| job["status"][field].as_i64().unwrap_or(0);
        usize::try_from(number("active")).is_ok_and(|active| active == mine)
            && number("terminating") == going(seen, job)
    })
}

/// Returns true when the statuses of DaemonSets agree with their pods.
fn daemons_fit(seen: &Seen) -> bool {
    let pods = active_pods(seen, None);
    seen.all("DaemonSet").iter().all(|set| {
        let ready = pods.iter().filter(|pod| is_owned(pod, set) && is_ready(pod)).count();
        is_observed(set) && usize::try_from(set["status"]["numberReady"].as_i64().unwrap_or(0)) == Ok(ready)
    })
}

/// Returns true when the claims that are to go and that no pod uses any more are gone.
fn claims_fit(seen: &Seen) -> bool {
    let pods = seen.all("Pod");
    let used = |name: &Value| {
        let volumes = pods.iter().filter_map(|pod| pod["spec"]["volumes"].as_array()).flatten();
        volumes.into_iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == *name)
    };
    let leaves = |claim: &Value| claim["metadata"]["deletionTimestamp"].is_string();
    seen.all("PersistentVolumeClaim").iter().all(|claim| !leaves(claim) || used(&claim["metadata"]["name"]))
}

fn is_owned(object: &Value, owner: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|one| one["uid"] == owner["metadata"]["uid"] && one["controller"] == true)
}

/// Returns how many pods of an owner are going and have not ended.
fn going(seen: &Seen, owner: &Value) -> i64 {
    let is_going = |pod: &&Arc<Value>| {
        let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        pod["metadata"]["deletionTimestamp"].is_string() && !finished && is_owned(pod, owner)
    };
    i64::try_from(seen.all("Pod").iter().filter(is_going).count()).unwrap_or(i64::MAX)
}

/// Returns true when the present generation has been observed.
pub fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"].as_i64() >= object["metadata"]["generation"].as_i64()
}

/// Returns a condition of an object: its status and reason.
pub fn condition(object: &Value, kind: &str) -> Option<(String, String)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == kind)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some((text(&one["status"]), text(&one["reason"])))
}

/// Returns a short list of the objects, for people.
pub fn summary(seen: &Seen) -> String {
    let mut lines = Vec::new();
    for ((kind, name), object) in &seen.live {
        let status = &object["status"];
        let line = match *kind {
            "Event" => format!("{} {}", object["reason"], object["message"]),
            "Pod" => {
                let image = &object["spec"]["containers"][0]["image"];
                let going = object["metadata"]["deletionTimestamp"].is_string();
                format!("{image} {} ready={} going={going}", status["phase"], is_ready(object))
            }
            "ConfigMap" | "ServiceAccount" => continue,
            _ => format!("size={} {status}", object["spec"]["replicas"]),
        };
        lines.push(format!("    {kind} {name}: {line}"));
    }
    lines.join("\n")
}
