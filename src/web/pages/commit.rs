//! One commit: its objects with their outcomes, and the evidence of failures.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use jiff::Timestamp;

use super::super::analysis_curve::AnalysisCurve;
use super::super::api::show;
use super::super::manifest_diff::{ManifestDiff, RecordedObject};
use super::super::problem::Problem;
use super::super::{Room, Shown};
use super::canary_steps::CanaryView;
use super::components::{Lasted, Link, Mark};
use super::next_step::command;
use super::workload_row::address;
use super::{Frame, respond};
use crate::daemon::SourceStatus;
use crate::history::query::answers::RecordAnswer;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::analysis::Measurement;
use belay_core::rollout::{Commit, EventSeen, Outcome, PodSeen, Workload, short_cause};

#[derive(Template)]
#[template(path = "commit.html")]
struct CommitPage {
    frame: Frame,
    id: String,
    short: String,
    known: Option<Commit>,
    /// The forge's page of it, by source.
    forges: Vec<(String, String)>,
    why: Option<String>,
    /// The reason for which some differences are not shown.
    missing: Option<String>,
    objects: Vec<Object>,
}

struct Object {
    key: ObjectKey,
    /// The place of it in the page, for links from elsewhere.
    anchor: String,
    link: Option<String>,
    source: String,
    mark: Mark,
    trigger: String,
    place: Option<String>,
    started: Timestamp,
    took: Option<Lasted>,
    /// The reason in a line.
    cause: Option<String>,
    /// All of it, where that is more.
    reason: Option<String>,
    waits_for: Option<String>,
    back_to: Option<Link>,
    complaints: Vec<String>,
    unnoticed: Vec<String>,
    /// The canary of its rollout, while that is under way.
    canary: Option<CanaryView>,
    /// The possible actions, as commands to copy.
    commands: Vec<String>,
    /// The looks of each analysis.
    curves: Vec<AnalysisCurve>,
    evidence: SeenEvidence,
    /// The commit's changes to its manifest.
    diff: Option<ManifestDiff>,
}

/// The observations of a failure.
#[derive(Default)]
struct SeenEvidence {
    pods: Vec<PodSeen>,
    conditions: Vec<String>,
    /// The newest first.
    events: Vec<EventSeen>,
    missing: Vec<String>,
}

impl SeenEvidence {
    fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.conditions.is_empty() && self.events.is_empty() && self.missing.is_empty()
    }
}

pub(in crate::web) async fn commit(State(room): State<Room>, Path(digits): Path<String>) -> Response {
    respond(&room.shown, page(&room, digits).await)
}

async fn page(room: &Room, digits: String) -> Result<CommitPage, Problem> {
    let answer = show(room, digits.clone()).await?;
    let first = answer.records.first().map(|shown| shown.answer.record.commit.clone());
    let id = answer.commit.as_ref().map(|commit| commit.id.clone()).or(first);
    let id = id.ok_or_else(|| Problem::Nothing("belay has seen no commit that begins so".to_owned()))?;
    let details = answer.records.into_iter().map(|shown| (shown.answer, shown.measurements));
    let (records, measured): (Vec<RecordAnswer>, Vec<Vec<Measurement>>) = details.unzip();
    let forges = forges(&room.shown, id.as_str(), &records);
    let diff = match &answer.commit {
        Some(commit) => room.diffs.read(commit, recorded_objects(&room.shown, &records)).await,
        None => Arc::default(),
    };
    let objects = records.into_iter().zip(measured);
    let mut objects: Vec<Object> =
        objects.map(|(answer, measured)| Object::of(&room.shown, answer, &measured)).collect();
    for object in &mut objects {
        let is_its = |diff: &&ManifestDiff| diff.source == object.source && diff.object == object.key;
        object.diff = diff.diffs.iter().find(is_its).cloned();
    }
    Ok(CommitPage {
        frame: Frame::of(&room.shown, "/timeline"),
        short: id.short().to_owned(),
        forges,
        id: id.to_string(),
        known: answer.commit,
        why: answer.why,
        missing: diff.missing.clone(),
        objects,
    })
}

/// Returns the objects that a commit's records name, with the files that they are written in. A rendered object is
/// written in none.
fn recorded_objects(shown: &Shown, records: &[RecordAnswer]) -> BTreeSet<RecordedObject> {
    let sources = shown.sources();
    let namespace = |source: &str| {
        let cluster = sources.clusters.get(source);
        cluster.map_or_else(|| "default".to_owned(), |cluster| cluster.default_namespace().to_owned())
    };
    let recorded = records.iter().map(|answer| &answer.record).filter(|record| record.rendered_by.is_none());
    let objects = recorded.filter_map(|record| {
        Some(RecordedObject {
            source: record.source.clone(),
            namespace: namespace(&record.source),
            path: record.place.as_ref()?.path.to_string(),
            object: record.object.clone(),
        })
    });
    objects.collect()
}

/// Returns the forges' pages of a commit, of the sources that it touched; of all if it touched none.
fn forges(shown: &Shown, id: &str, records: &[RecordAnswer]) -> Vec<(String, String)> {
    let touched = |source: &String| records.is_empty() || records.iter().any(|answer| answer.record.source == *source);
    let sources = shown.sources();
    let of = sources.commit_urls.iter().filter(|(source, _)| touched(source));
    of.map(|(source, url)| (source.clone(), url.replace("{commit}", id))).collect()
}

impl Object {
    fn of(shown: &Shown, answer: RecordAnswer, measured: &[Measurement]) -> Object {
        let RecordAnswer { record, waits_for, progress, unnoticed, .. } = answer;
        let status = shown.status.borrow();
        let source = status.sources.get(&record.source);
        // A hold is of the commit that failed, for as long as it lasts.
        let held = source.and_then(|of| of.held.get(&record.object)).is_some_and(|held| held.commit == record.commit);
        let place = record.written_at();
        let is_its_rollout = |of: &&SourceStatus| {
            record.ended.is_none() && of.under_way.get(&record.object).is_some_and(|way| way.commit == record.commit)
        };
        let canary = source.filter(is_its_rollout).and_then(|of| CanaryView::of(of, &record.object));
        let reason = record.reason.map(|reason| reason.message);
        let cause = reason.as_ref().map(|reason| short_cause(reason, record.evidence.as_ref()));
        let evidence = record.evidence.map(|evidence| {
            let mut events = evidence.events;
            events.sort_by_key(|event| std::cmp::Reverse(event.at));
            SeenEvidence { pods: evidence.pods, conditions: evidence.conditions, events, missing: evidence.missing }
        });
        let mark = match (held, record.outcome) {
            (true, Outcome::RolledBack) => Mark { word: "rolled-back, held", ..Mark::of_outcome(record.outcome) },
            _ => Mark::of_outcome(record.outcome),
        };
        let mut commands = Vec::new();
        if held {
            commands.push(command("retry", &record.object));
        }
        commands.extend(unnoticed.iter().map(|one| command("restart", &one.workload)));
        Object {
            anchor: format!("rollout-{}", record.id.0),
            link: Workload::of(&record.object).map(|_| address(&record.source, &record.object)),
            mark,
            trigger: match record.trigger.who() {
                Some(who) => format!("{} ({who})", record.trigger.word()),
                None => record.trigger.word().to_owned(),
            },
            place,
            took: record.ended.map(|ended| Lasted(ended.duration_since(record.started))),
            reason: reason.filter(|reason| cause.as_ref() != Some(reason)),
            cause,
            waits_for: waits_for.or(progress),
            back_to: record.back_to.map(Link),
            complaints: record.complaints.iter().map(ToString::to_string).collect(),
            canary,
            unnoticed: unnoticed.iter().map(ToString::to_string).collect(),
            commands,
            curves: AnalysisCurve::of(measured),
            evidence: evidence.unwrap_or_default(),
            diff: None,
            key: record.object,
            source: record.source,
            started: record.started,
        }
    }
}
