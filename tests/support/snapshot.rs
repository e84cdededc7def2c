//! A rollout as text, which a test compares with the snapshot in its source (`UPDATE_EXPECT=1` writes it anew).

use std::fmt::Write as _;

use belay_core::rollout::{Evidence, Hold, Record, StepKind, marks};
use serde_json::Value;

use super::daemon::{World, image, path_of, short};

impl World {
    /// Returns the rollout of a Deployment of the default namespace: its record, its steps, and the live object with its
    /// revisions. Each commit is written as its name in `commits`.
    pub async fn rollout_as_text(&self, commit: &str, workload: &str, commits: &[(&str, &str)]) -> String {
        let record = self.record(commit, &format!("Deployment default/{workload}"));
        let mut text = record_as_text(&record);
        text.push_str("steps:\n");
        for step in self.history().steps(record.id).expect("steps") {
            // Progress comes as often as the watch reports it.
            if step.kind != StepKind::Progress {
                writeln!(text, "  {} {}", step.kind.word(), step.detail).expect("text");
            }
        }
        let live = self.get(&path_of(workload)).await.expect("a workload");
        text.push_str("live:\n");
        let charged = marks::annotation(&live, marks::COMMIT).unwrap_or("none");
        writeln!(text, "  image {}, {} available, commit {charged}", image(&live), live["status"]["availableReplicas"])
            .expect("text");
        if let Some(hold) = Hold::on(&live) {
            let is_its_manifest = Some(&hold.manifest) == record.manifest_hash.as_ref();
            writeln!(text, "  held: commit {}, the manifest of the record: {is_its_manifest}", hold.commit)
                .expect("text");
        }
        text.push_str("revisions:\n");
        let mut sets = self.list("apis/apps/v1/namespaces/default/replicasets").await;
        sets.retain(|set| set["metadata"]["ownerReferences"][0]["name"] == workload);
        sets.sort_by_key(revision);
        for set in sets {
            let cause = marks::annotation(&set, marks::CHANGE_CAUSE).unwrap_or("no cause");
            writeln!(text, "  {}: {cause}", revision(&set)).expect("text");
        }
        let text: String = text.lines().map(|line| stable(line) + "\n").collect();
        named(&without_random_names(&text, workload), commits)
    }
}

fn record_as_text(record: &Record) -> String {
    let mut text = format!("{}", record.outcome);
    if let Some(reason) = &record.reason {
        write!(text, ": {reason}").expect("text");
    }
    text.push('\n');
    if let Some(back_to) = &record.back_to {
        let revision = record.back_to_revision.map_or("unknown".to_owned(), |revision| revision.to_string());
        writeln!(text, "back to: {back_to}, revision {revision}").expect("text");
    }
    if let Some(evidence) = &record.evidence {
        text.push_str("evidence:\n");
        text.push_str(&evidence_as_text(evidence));
    }
    text
}

fn evidence_as_text(evidence: &Evidence) -> String {
    let mut text = String::new();
    for condition in &evidence.conditions {
        writeln!(text, "  condition {condition}").expect("text");
    }
    for pod in &evidence.pods {
        let container = pod.container.as_deref().unwrap_or("none");
        write!(text, "  pod {}: {}, container {container}, {} restarts", pod.name, pod.state, pod.restarts)
            .expect("text");
        pod.exit_code.iter().for_each(|code| write!(text, ", exit code {code}").expect("text"));
        text.push('\n');
        pod.log.iter().for_each(|line| writeln!(text, "    log {line}").expect("text"));
    }
    for missing in &evidence.missing {
        writeln!(text, "  missing {missing}").expect("text");
    }
    text
}

fn revision(set: &Value) -> i64 {
    let revision = marks::annotation(set, "deployment.kubernetes.io/revision");
    revision.and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

/// Replaces commits, also shortened ones, by their names.
fn named(text: &str, commits: &[(&str, &str)]) -> String {
    commits.iter().fold(text.to_owned(), |text, (name, commit)| {
        text.replace(commit, &format!("<{name}>")).replace(short(commit), &format!("<{name}>"))
    })
}

/// Returns a line without what depends on the moment: which of two states a pod that can't be pulled is in, the kubelet's last
/// words about a container, and the number of events by then.
fn stable(line: &str) -> String {
    let line = line.replace("ErrImagePull", "ImagePullBackOff");
    let line = line.split(", events: ").next().unwrap_or_default();
    match line.split_once("(container ") {
        Some((before, after)) => format!("{before}(container {})…", after.split(')').next().unwrap_or_default()),
        None => line.trim_end().to_owned(),
    }
}

/// Leaves out the ends of the names of ReplicaSets and pods.
fn without_random_names(text: &str, workload: &str) -> String {
    let begin = format!("{workload}-");
    let mut parts = text.split(&begin);
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '-');
        write!(named, "{begin}…{end}").expect("text");
    }
    named
}
