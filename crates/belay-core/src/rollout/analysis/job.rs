//! The Job of an analysis: the object that a file of the repository makes for one rollout, and its state.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Measured;
use super::rule::JobCondition;
use crate::manifest::{Complaint, ObjectKey, Place, Scopes, hex, read_file, shortened};
use crate::rollout::health::{PodAccount, PodStart, Standing, health};
use crate::rollout::judge::reason_texts::state;
use crate::rollout::{Reason, Record, is_job, marks};

/// The least time for which a finished Job stays, in seconds: belay reads its end from it.
const KEPT_SECONDS: i64 = 3_600;
/// The longest beginning of a workload's and of an analysis' name in the name of a Job: that has at most 63 characters.
const NAME: usize = 26;
/// The longest time for which a Job may run, in seconds: the cluster ends one that belay could not delete.
const LONGEST_SECONDS: i64 = 86_400;
/// The reason that the cluster gives for the end of a Job that has run for too long.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// The remark about a Job of which nothing had started when the cluster ended it.
const ENDED: &str = "; it was ended by its deadline";
/// The words before a pod's last log line.
const LAST_LINE: &str = "; its last line: ";
/// The most characters of that line in a verdict.
const LINE: usize = 200;

/// The rollout that a Job is made for.
#[derive(Clone, Debug)]
pub struct JobOrigin {
    /// The source.
    pub source: String,
    /// The analysis.
    pub analysis: String,
    /// The workload.
    pub workload: ObjectKey,
    /// The commit.
    pub commit: String,
    /// The number of the workload's revision.
    pub revision: i64,
    /// A regular expression of the names of its new pods.
    pub pods: String,
    /// The owner reference of the workload: the Job is deleted with it.
    pub owner: Value,
}

/// Returns the key of the Job that an analysis makes for the rollout of a record.
#[must_use]
pub fn job_key(analysis: &str, file: &str, record: &Record) -> ObjectKey {
    let workload = &record.object;
    let origin = (&record.source, workload, analysis, file, record.id, record.started, &record.commit);
    let hash = hex(&Sha256::digest(format!("{origin:?}"))[..4]);
    job_of(workload, &format!("{}-{}-{hash}", name_part(&workload.name), name_part(analysis)))
}

/// Returns the key of a Job of this name beside a workload.
#[must_use]
pub fn job_of(workload: &ObjectKey, name: &str) -> ObjectKey {
    let [group, kind, name] = ["batch", "Job", name].map(str::to_owned);
    ObjectKey { group, kind, namespace: workload.namespace.clone(), name }
}

/// Returns the beginning of a name as a part of an object's name, which begins and ends with a letter or digit.
fn name_part(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let part: String = name.chars().take(NAME).map(plain).collect();
    let part = part.trim_matches('-');
    if part.is_empty() { "job".to_owned() } else { part.to_owned() }
}

impl JobOrigin {
    /// Returns the Job that a file of the repository makes under this key.
    ///
    /// # Errors
    /// With the fault of the file, and its place: it is not exactly one Job, or that names another namespace.
    pub fn job(&self, key: &ObjectKey, file: &str, bytes: &[u8]) -> Result<Value, String> {
        let namespace = key.namespace.clone().unwrap_or_default();
        let mut job = read_job(file, bytes, &namespace).map_err(|complaint| complaint.to_string())?;
        job["metadata"]["name"] = json!(key.name);
        job["metadata"]["namespace"] = json!(namespace);
        job["metadata"]["ownerReferences"] = json!([self.owner]);
        without_marks(&mut job["metadata"]);
        put(&mut job["metadata"]["annotations"], marks::COMMIT, json!(self.commit));
        put(&mut job["metadata"]["annotations"], marks::ANALYSIS, json!(self.analysis));
        let spec = &mut job["spec"];
        let kept = spec["ttlSecondsAfterFinished"].as_i64().unwrap_or_default().max(KEPT_SECONDS);
        let most = spec["activeDeadlineSeconds"].as_i64().unwrap_or(i64::MAX).min(LONGEST_SECONDS);
        put(spec, "ttlSecondsAfterFinished", json!(kept));
        put(spec, "activeDeadlineSeconds", json!(most));
        let pods = &mut spec["template"]["spec"];
        for containers in ["containers", "initContainers"] {
            let containers = pods.get_mut(containers).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(|container| self.add_environment(container));
        }
        Ok(job)
    }

    /// Adds the variables of the rollout to a container. They replace its own ones of the same name.
    fn add_environment(&self, container: &mut Value) {
        let variables = [
            ("BELAY_SOURCE", self.source.clone()),
            ("BELAY_NAMESPACE", self.workload.namespace.clone().unwrap_or_default()),
            ("BELAY_NAME", self.workload.name.clone()),
            ("BELAY_COMMIT", self.commit.clone()),
            ("BELAY_REVISION", self.revision.to_string()),
            ("BELAY_PODS", self.pods.clone()),
        ];
        let mut env = container["env"].as_array().cloned().unwrap_or_default();
        env.retain(|own| variables.iter().all(|(name, _)| own["name"] != **name));
        env.extend(variables.map(|(name, value)| json!({"name": name, "value": value})));
        put(container, "env", Value::Array(env));
    }
}

/// Returns true when a live object is a Job that belay has made for an analysis of a workload.
#[must_use]
pub fn is_made_by(live: &Value, workload: &ObjectKey, analysis: &str) -> bool {
    let owners = live["metadata"]["ownerReferences"].as_array();
    let is_its = |owner: &Value| owner["name"] == *workload.name && owner["kind"] == *workload.kind;
    owners.into_iter().flatten().any(is_its) && marks::annotation(live, marks::ANALYSIS) == Some(analysis)
}

/// A Job that a rollout has made, as a step of its history says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeJob {
    /// The analysis.
    pub analysis: String,
    /// The name of the Job.
    pub name: String,
}

/// The words of the step between the analysis and the name of the Job.
const MAKES: &str = "\": makes the Job ";

impl MadeJob {
    /// Returns the text of the step, which is written before the Job is made.
    #[must_use]
    pub fn step(&self) -> String {
        format!("analysis \"{}{MAKES}{}", self.analysis, self.name)
    }

    /// Returns the Job of the text of a step; `None` if it names none.
    #[must_use]
    pub fn of_step(text: &str) -> Option<MadeJob> {
        let (analysis, name) = text.strip_prefix("analysis \"")?.split_once(MAKES)?;
        Some(MadeJob { analysis: analysis.to_owned(), name: name.to_owned() })
    }
}

/// Reads the one Job of a file.
///
/// # Errors
/// With the fault of the file, and its place.
pub fn read_job(file: &str, bytes: &[u8], namespace: &str) -> Result<Value, Box<Complaint>> {
    let read = read_file(file, bytes, &Scopes::new(namespace));
    if let Some(complaint) = read.complaints.into_iter().next() {
        return Err(Box::new(complaint));
    }
    let fault = |place: &Place, message: String| Err(Box::new(Complaint::of_file(place.clone(), message, None)));
    let [manifest] = read.manifests.as_slice() else {
        let place = Place { path: file.into(), line: 1, column: 1 };
        let objects = read.manifests.len();
        return fault(&place, format!("the file has {objects} objects: an analysis needs exactly one Job"));
    };
    let (key, place) = (&manifest.key, &manifest.place);
    if !is_job(key) {
        return fault(place, format!("{key} is no Job"));
    }
    match key.namespace.as_deref() {
        Some(other) if other != namespace => fault(
            place,
            format!(
                "the Job is made in the namespace of the workload, {namespace}: leave out metadata.namespace, which is {other}"
            ),
        ),
        _ => Ok(manifest.value()),
    }
}

/// Removes the labels and annotations by which belay knows objects of its own, and finalizers, which would keep the Job.
fn without_marks(metadata: &mut Value) {
    for field in ["labels", "annotations"] {
        if let Some(texts) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            texts.retain(|name, _| !name.starts_with(marks::PREFIX));
        }
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("finalizers");
    }
}

fn put(object: &mut Value, field: &str, value: Value) {
    if !object.is_object() {
        *object = json!({});
    }
    object[field] = value;
}

/// The state of an analysis' Job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobState {
    /// Nothing of it has started, and it may at any time.
    Waits,
    /// It is under way.
    Runs,
    /// Nothing of it can start: it says nothing of the version. The reason.
    NotStarted(String),
    /// The cluster has ended it before it could decide: it says nothing of the version. The reason.
    Cut(String),
    /// It has come to its end.
    Ended(Measured),
}

/// Returns the state of a live Job and its pods. `not_started` is the reason for which nothing of it could start, as far as that is known.
#[must_use]
pub fn job_state(key: &ObjectKey, live: &Value, pods: &[PodAccount], not_started: Option<&str>) -> JobState {
    let Some(health) = health(key, live) else { return JobState::Waits };
    let is = |start: PodStart| pods.iter().any(|pod| pod.start == start);
    let ended = |condition, message| JobState::Ended(Measured::Job { job: key.name.clone(), condition, message });
    if let Some(failure) = health.failure {
        let is_late = failure.reason.code.as_str() == DEADLINE_EXCEEDED;
        let is_own_deadline = live["spec"]["activeDeadlineSeconds"] == LONGEST_SECONDS;
        return match not_started.filter(|_| is_late && !is(PodStart::Started)) {
            Some(why) => JobState::Cut(format!("{}{ENDED}", why.strip_suffix(ENDED).unwrap_or(why))),
            None if is_late && is_own_deadline => JobState::Cut(format!("the Job {} has run for 24 hours", key.name)),
            None => ended(JobCondition::Failed, failure_of(key, &failure.reason, pods)),
        };
    }
    match health.standing {
        Standing::Complete => ended(JobCondition::Complete, format!("the Job {} is complete", key.name)),
        _ if is(PodStart::Started) => JobState::Runs,
        _ if is(PodStart::Stuck) => {
            let stuck = pods.iter().filter(|pod| pod.start == PodStart::Stuck).max_by_key(|pod| pod.fault);
            let why = stuck.map(|pod| format!(": its pod {} is {}", pod.seen.name, state(&pod.seen)));
            JobState::NotStarted(format!("{}{}", stuck_job(key), why.unwrap_or_default()))
        }
        Standing::Paused => JobState::NotStarted(suspended_job(key)),
        _ => JobState::Waits,
    }
}

/// Returns the reason of a Job of which nothing can start.
#[must_use]
pub fn stuck_job(key: &ObjectKey) -> String {
    format!("nothing of the Job {} can start", key.name)
}

fn suspended_job(key: &ObjectKey) -> String {
    format!("the Job {} is suspended", key.name)
}

/// Returns the message of a look if it is the reason for which nothing of a Job could start; `None` if it says something else.
#[must_use]
pub fn could_not_start<'a>(key: &ObjectKey, message: &'a str) -> Option<&'a str> {
    [stuck_job(key), suspended_job(key)].iter().any(|reason| message.starts_with(reason.as_str())).then_some(message)
}

/// Returns the reason of a failure without the line that a pod of a Job has written.
#[must_use]
pub fn without_log_line(reason: &str) -> &str {
    reason.split_once(LAST_LINE).map_or(reason, |(reason, _)| reason)
}

/// Returns the failure of a Job in one sentence: its reason, the worst pod, and the last line that this has written.
fn failure_of(key: &ObjectKey, reason: &Reason, pods: &[PodAccount]) -> String {
    // The reason begins with "the job failed: ".
    let why = reason.message.strip_prefix("the job failed: ").unwrap_or(&reason.message);
    let mut message = format!("the Job {} failed: {why}", key.name);
    let Some(worst) = pods.iter().max_by_key(|pod| pod.fault).map(|pod| &pod.seen) else { return message };
    message.push_str(&format!("; its pod {} is {}", worst.name, state(worst)));
    if let Some(line) = worst.log.iter().rev().find(|line| !line.trim().is_empty()) {
        message.push_str(&format!("{LAST_LINE}{}", shortened(line.trim(), LINE)));
    }
    message
}

#[cfg(test)]
mod tests;
