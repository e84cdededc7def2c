//! The trace of a commit in a source, made of what the history recorded about it. Pure: the same records make the same spans,
//! with the same ids.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::digest::digest;
use crate::history::Arrival;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::analysis::without_log_line;
use belay_core::rollout::{CommitId, Outcome, Record, Step, StepKind, short_cause};

/// The most spans of a trace. Those of the objects come before those of their steps.
pub(super) const SPANS: usize = 2000;
/// The most events of a span.
const EVENTS: usize = 20;
/// The number of hexadecimal digits of the id of a span.
const SPAN_ID: usize = 16;
/// The kinds that the semantic conventions have an attribute for: the kind, and the attribute of the name.
const KINDS: [(&str, &str, &str); 8] = [
    ("apps", "Deployment", "k8s.deployment.name"),
    ("apps", "StatefulSet", "k8s.statefulset.name"),
    ("apps", "DaemonSet", "k8s.daemonset.name"),
    ("apps", "ReplicaSet", "k8s.replicaset.name"),
    ("", "ReplicationController", "k8s.replicationcontroller.name"),
    ("", "Namespace", "k8s.namespace.name"),
    ("batch", "Job", "k8s.job.name"),
    ("batch", "CronJob", "k8s.cronjob.name"),
];

/// A commit of which nothing is under way any more, in a source.
pub(super) struct SettledCommit {
    /// The name of this daemon: another one may follow a source of the same name, for another cluster.
    pub instance: String,
    pub source: String,
    pub commit: CommitId,
    /// The first line of its message.
    pub subject: Option<String>,
    /// The worst outcome of its objects.
    pub outcome: Outcome,
    /// The number of its objects.
    pub objects: u64,
    /// Its arrival, if that is known.
    pub arrival: Option<Arrival>,
    /// True when it had settled before, and something was done about it again.
    pub is_again: bool,
    /// The records that ended since it had settled before, the worst first, with their steps.
    pub records: Vec<(Record, Vec<Step>)>,
}

/// A span of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceSpan {
    /// Its id: 16 hexadecimal digits.
    pub id: String,
    /// The id of the span that it belongs to; `None` for the root.
    pub parent: Option<String>,
    pub name: String,
    pub start: Timestamp,
    pub end: Timestamp,
    pub status: SpanStatus,
    pub attributes: SpanAttributes,
    pub events: Vec<(Timestamp, &'static str)>,
}

/// The attributes of a span: texts and whole numbers.
pub(super) type SpanAttributes = Vec<(&'static str, Value)>;

/// The status of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SpanStatus {
    /// Neither good nor bad.
    Unset,
    Ok,
    /// The outcome, and the cause in a line; empty for a part of a rollout that failed in it.
    Error(String),
}

impl SettledCommit {
    /// Returns the id of its trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        digest(&["trace", &self.instance, &self.source, self.commit.as_str()])
    }

    /// Returns its spans, the root first.
    pub fn spans(&self) -> Vec<TraceSpan> {
        let ends = self.records.iter().filter_map(|(record, _)| record.ended);
        let Some(end) = ends.max() else { return Vec::new() };
        let root = self.root(end);
        let mut spans = self.before_the_rollouts(&root);
        let mut of_steps = Vec::new();
        for (record, steps) in &self.records {
            let span = self.of_record(record, steps, &root);
            of_steps.extend(self.of_steps(record, steps, &span));
            spans.push(span);
        }
        spans.insert(0, root);
        spans.extend(of_steps);
        spans.truncate(SPANS);
        spans
    }

    /// Returns the id of a span.
    fn span_id(&self, part: &str) -> String {
        let mut id = digest(&["span", &self.instance, &self.source, self.commit.as_str(), part]);
        id.truncate(SPAN_ID);
        id
    }

    fn root(&self, end: Timestamp) -> TraceSpan {
        let first = self.records.iter().map(|(record, _)| record.started).min().unwrap_or(end);
        let arrived = self.arrival.as_ref().map(|arrival| arrival.fetch.map_or(arrival.at, |fetch| fetch.began));
        let oldest = self.records.iter().map(|(record, _)| record.id.0).min().unwrap_or_default();
        let (part, again) = match self.is_again {
            false => ("commit".to_owned(), ""),
            true => (format!("again {oldest}"), ", again"),
        };
        let cause = self.records.iter().find(|(record, _)| record.outcome == self.outcome);
        TraceSpan {
            id: self.span_id(&part),
            parent: None,
            name: format!("commit {}{again}", self.source),
            start: arrived.unwrap_or(first).min(first),
            end: end.max(first),
            status: status(self.outcome, cause.map(|(record, _)| record)),
            attributes: known([
                ("belay.source", Some(json!(self.source))),
                ("belay.outcome", Some(json!(self.outcome.word()))),
                ("belay.objects", Some(json!(self.objects))),
                ("belay.commit.subject", self.subject.as_ref().map(|subject| json!(subject))),
            ]),
            events: Vec::new(),
        }
    }

    /// Returns the spans of the fetch and of the plan: reading, rendering, waiting for a window or another source, dry runs.
    fn before_the_rollouts(&self, root: &TraceSpan) -> Vec<TraceSpan> {
        let Some((arrival, fetch)) = self.arrival.as_ref().and_then(|arrival| Some((arrival, arrival.fetch?))) else {
            return Vec::new();
        };
        let part = |name: &str, start: Timestamp, end: Timestamp| TraceSpan {
            id: self.span_id(name),
            parent: Some(root.id.clone()),
            name: name.to_owned(),
            start,
            end: end.max(start),
            status: SpanStatus::Unset,
            attributes: Vec::new(),
            events: Vec::new(),
        };
        vec![part("fetch", fetch.began, fetch.ended), part("plan", fetch.ended, arrival.at)]
    }

    fn of_record(&self, record: &Record, steps: &[Step], root: &TraceSpan) -> TraceSpan {
        let verb = match record.outcome {
            Outcome::Pruned => "prune",
            _ if record.rolls_out => "rollout",
            _ => "apply",
        };
        let events = steps.iter().filter(|step| step.kind != StepKind::Progress && RolloutPhase::of(step).is_none());
        TraceSpan {
            id: self.span_id(&format!("record {}", record.id.0)),
            parent: Some(root.id.clone()),
            name: format!("{verb} {}", record.object),
            start: record.started,
            end: record.ended.unwrap_or(record.started).max(record.started),
            status: status(record.outcome, Some(record)),
            attributes: attributes(record),
            events: events.take(EVENTS).map(|step| (step.at, step.kind.word())).collect(),
        }
    }

    /// Returns the spans of the steps of a canary, of the times for which pods are watched, and of the rollback.
    fn of_steps(&self, record: &Record, steps: &[Step], parent: &TraceSpan) -> Vec<TraceSpan> {
        let phases = phases(steps, parent.end, record.outcome, &parent.status).into_iter().enumerate();
        let span = |(number, phase): (usize, RolloutPhase<'_>)| TraceSpan {
            id: self.span_id(&format!("record {} phase {number}", record.id.0)),
            parent: Some(parent.id.clone()),
            name: phase.name.to_owned(),
            start: phase.start,
            end: phase.end.max(phase.start),
            status: phase.status,
            attributes: vec![("belay.step", json!(phase.detail))],
            events: Vec::new(),
        };
        phases.map(span).collect()
    }
}

/// The name of the span of a rollback.
const ROLLBACK: &str = "rollback";

/// A part of a rollout.
struct RolloutPhase<'s> {
    name: &'static str,
    detail: &'s str,
    start: Timestamp,
    end: Timestamp,
    status: SpanStatus,
}

impl RolloutPhase<'_> {
    /// Returns the part that a step begins.
    fn of(step: &Step) -> Option<RolloutPhase<'_>> {
        let name = match step.kind {
            StepKind::Canary => "canary",
            StepKind::Baking => "bake",
            StepKind::GoingBack => ROLLBACK,
            _ => return None,
        };
        Some(RolloutPhase { name, detail: &step.detail, start: step.at, end: step.at, status: SpanStatus::Unset })
    }
}

/// Returns the parts of a rollout, one after another. A verdict ends one as failed; the last ends with the rollout.
fn phases<'s>(steps: &'s [Step], end: Timestamp, outcome: Outcome, status: &SpanStatus) -> Vec<RolloutPhase<'s>> {
    let (mut phases, mut open) = (Vec::new(), None::<RolloutPhase<'s>>);
    for step in steps {
        let next = RolloutPhase::of(step);
        if step.kind == StepKind::Verdict || next.is_some() {
            let goes_on = next.as_ref().is_some_and(|next| next.name != ROLLBACK);
            let status = if goes_on { SpanStatus::Ok } else { SpanStatus::Error(String::new()) };
            phases.extend(open.take().map(|phase| RolloutPhase { end: step.at, status, ..phase }));
        }
        open = next.or(open);
    }
    phases.extend(open.map(|phase| {
        // A workload that is back has failed, and its rollback has not.
        let is_back = phase.name == ROLLBACK && outcome == Outcome::RolledBack;
        let status = if is_back { SpanStatus::Ok } else { status.clone() };
        RolloutPhase { end, status, ..phase }
    }));
    phases
}

/// Returns the status for an outcome, with the cause in a line where it is a bad one. No line of a log is in it.
fn status(outcome: Outcome, record: Option<&Record>) -> SpanStatus {
    match outcome {
        good if good.is_good() => SpanStatus::Ok,
        wrong if wrong.rank().is_some() => {
            let cause = record.and_then(|record| record.reason.as_ref());
            let cause = cause.map(|reason| short_cause(without_log_line(&reason.message), None));
            SpanStatus::Error(cause.map_or_else(|| outcome.word().to_owned(), |cause| format!("{outcome}: {cause}")))
        }
        _ => SpanStatus::Unset,
    }
}

fn attributes(record: &Record) -> SpanAttributes {
    let ObjectKey { group, kind, namespace, name } = &record.object;
    let of_kind = KINDS.iter().find(|(of_group, of_kind, _)| of_group == group && of_kind == kind);
    known([
        ("k8s.namespace.name", namespace.as_ref().map(|namespace| json!(namespace))),
        (of_kind.map_or("belay.object.name", |(_, _, attribute)| attribute), Some(json!(name))),
        ("belay.object.kind", Some(json!(kind))),
        ("belay.outcome", Some(json!(record.outcome.word()))),
        ("belay.trigger", Some(json!(record.trigger.word()))),
        ("belay.reason", record.reason.as_ref().map(|reason| json!(reason.code))),
        ("belay.revision", record.revision.map(|revision| json!(revision))),
        ("belay.back_to.commit", record.back_to.as_ref().map(|commit| json!(commit))),
    ])
}

/// Returns the attributes of which the value is known.
pub(super) fn known<const N: usize>(attributes: [(&'static str, Option<Value>); N]) -> SpanAttributes {
    attributes.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
