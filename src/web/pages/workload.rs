//! One workload: the reason of its state and the next step first, then its pods, its revisions and its past records.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use jiff::Timestamp;

use super::super::Room;
use super::super::problem::Problem;
use super::super::revisions::WorkloadPods;
use super::super::rollout_progress::picture;
use super::canary_steps::CanaryView;
use super::components::{Lasted, Link, Mark};
use super::known_commits::known_commits;
use super::next_step::command;
use super::related_objects::{ConfigurationRow, RelatedRow, configuration_of, read_configuration, related};
use super::workload_row::WorkloadRow;
use super::{Frame, respond};
use crate::cluster::LivePod;
use crate::daemon::{Status, UnderWay};
use crate::history::query::answers::WorkloadAnswer;
use crate::history::query::step_details::unnoticed;
use crate::history::{History, HistoryError, Query};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{LiveWorkload, ObjectState, Outcome, Record, RevisionPods, is_configuration, short_cause};

/// The number of records that are shown.
const RECORDS: u32 = 30;
/// The number of newest records of ConfigMaps and Secrets that are searched for changes its pods have not noticed.
const CONFIGURATION: u32 = 200;

/// The number of pods that are shown.
const PODS: usize = 50;
/// The fewest moments of a rollout that make a picture.
const MOMENTS: usize = 2;

#[derive(Template)]
#[template(path = "workload.html")]
struct WorkloadPage {
    frame: Frame,
    row: WorkloadRow,
    live: LiveWorkload,
    under_way: Option<UnderWay>,
    canary: Option<CanaryView>,
    picture: Option<Picture>,
    pods: Vec<LivePod>,
    /// The number of further ones.
    more_pods: usize,
    related: Vec<RelatedRow>,
    configuration: Vec<ConfigurationRow>,
    revisions: Vec<RevisionRow>,
    revisions_missing: Option<String>,
    stale: Vec<String>,
    records: Vec<Past>,
    /// Commands that help without a failure.
    commands: Vec<String>,
}

/// The newest rollout as a picture.
struct Picture {
    svg: String,
    /// When the rollout began, and since when it is drawn, if this daemon did not see its beginning.
    cut: Option<(Timestamp, Timestamp)>,
}

/// A revision, and the outcome of the commit that made it.
struct RevisionRow {
    pods: RevisionPods,
    outcome: Option<Mark>,
}

struct Past {
    commit: Link,
    mark: Mark,
    trigger: &'static str,
    revision: Option<i64>,
    started: Timestamp,
    took: Option<Lasted>,
    /// The reason in a line.
    cause: String,
    /// All of it, where that is more.
    whole: Option<String>,
}

pub(in crate::web) async fn workload(
    State(room): State<Room>,
    Path((source, kind, namespace, name)): Path<(String, String, String, String)>,
) -> Response {
    respond(&room.shown, page(&room, source, &kind, &namespace, &name).await)
}

async fn page(room: &Room, source: String, kind: &str, namespace: &str, name: &str) -> Result<WorkloadPage, Problem> {
    let status = room.shown.status.borrow().clone();
    let of =
        status.sources.get(&source).ok_or_else(|| Problem::Nothing("There is no source of that name.".to_owned()))?;
    let is_it =
        |key: &ObjectKey| key.kind == kind && key.name == name && key.namespace.as_deref().unwrap_or("-") == namespace;
    let besides = of.under_way.keys().chain(of.ended.keys()).chain(of.held.keys());
    let mut known = of.workloads.keys().chain(besides);
    let key = known.find(|key| is_it(key)).cloned();
    let key = key.ok_or_else(|| Problem::Nothing("The source has no such workload.".to_owned()))?;
    let live = of.workloads.get(&key).cloned().unwrap_or_default();
    let (asked, about) = (source.clone(), key.clone());
    let (pods, revisions_missing) = match room.workload_pods(&source, &key).await {
        Ok(pods) => (pods, None),
        Err(message) => (WorkloadPods::default(), Some(message)),
    };
    let named = configuration_of(&key, &pods.live);
    let Remembered { records, stale, configuration } =
        room.history.ask(move |history| read(history, &asked, &about, named)).await?;
    let under_way = of.under_way.get(&key).cloned();
    let revision = |pods: RevisionPods| RevisionRow { outcome: outcome_of(&pods, &records), pods };
    let revisions: Vec<RevisionRow> = pods.revisions.into_iter().map(revision).collect();
    let row = row(room, &status, &source, &key).await?;
    let is_left_alone = matches!(of.state_of_workload(&key), ObjectState::Held | ObjectState::Suspended);
    let refuses = is_left_alone || of.canaries.contains_key(&key);
    Ok(WorkloadPage {
        frame: Frame::of(&room.shown, "/"),
        related: related(&source, of, &key, &pods.live),
        configuration,
        picture: picture_of(room, &source, &key, &records, under_way.as_ref()),
        commands: commands(&key, refuses, &revisions, !stale.is_empty()),
        canary: CanaryView::of(of, &key),
        more_pods: pods.pods.len().saturating_sub(PODS),
        pods: pods.pods.into_iter().take(PODS).collect(),
        row,
        live,
        under_way,
        revisions,
        revisions_missing,
        stale,
        records: records.into_iter().map(Past::of).collect(),
    })
}

/// Returns the workload as a row of the overview, with the known facts about its commits.
async fn row(room: &Room, status: &Status, source: &str, key: &ObjectKey) -> Result<WorkloadRow, Problem> {
    let answer = room.status().await?;
    let mut rows = answer.workloads.into_iter().chain(answer.objects);
    let row = rows.find(|row| row.source == source && row.object == *key).unwrap_or_else(|| {
        let state = status.sources.get(source).map_or(ObjectState::Unknown, |of| of.state_of_workload(key));
        WorkloadAnswer::of_object(key, source, state)
    });
    let commits = row.failed_commit.iter().cloned().chain(row.commit.parse()).collect();
    Ok(WorkloadRow::of(row, status, &known_commits(room, commits).await?))
}

/// Returns the commands that help a workload that did not fail; one that is left alone, or has a canary under way, is
/// offered neither. An undo needs a revision that did not fail either.
fn commands(key: &ObjectKey, refuses: bool, revisions: &[RevisionRow], is_stale: bool) -> Vec<String> {
    let goes_back =
        revisions.iter().any(|row| !row.pods.present && row.outcome.is_none_or(|outcome| outcome.class == "good"));
    let restart = (is_stale && !refuses).then(|| command("restart", key));
    let undo = (goes_back && !refuses).then(|| command("undo", key));
    restart.into_iter().chain(undo).chain([command("status", key)]).collect()
}

/// Returns the newest rollout as a picture, if there is more to draw than its beginning.
fn picture_of(
    room: &Room,
    source: &str,
    key: &ObjectKey,
    records: &[Record],
    under_way: Option<&UnderWay>,
) -> Option<Picture> {
    let shows = |moments: &[_]| under_way.is_some() || moments.len() >= MOMENTS;
    let (commit, moments) = room.progress.of(source, key).filter(|(_, moments)| shows(moments))?;
    let now = under_way.is_some().then(|| room.shown.clock.now());
    let of_it = |record: &&Record| record.rolls_out && record.commit == commit;
    let began = records.iter().find(of_it).map(|record| record.started);
    let cut = began.and_then(|began| room.progress.noted_since(began).map(|since| (began, since)));
    Some(Picture { svg: picture(&moments, now, under_way.and_then(|way| way.until)), cut })
}

/// Returns the outcome of the rollout that made a revision. One that was gone back to has a new number, and the commit
/// of the old.
fn outcome_of(pods: &RevisionPods, records: &[Record]) -> Option<Mark> {
    let of_revision = |record: &&Record| record.rolls_out && record.revision == Some(pods.revision);
    let of_commit = |record: &&Record| record.rolls_out && pods.commit.as_ref() == Some(&record.commit);
    let record = records.iter().find(of_revision).or_else(|| records.iter().find(of_commit));
    record.map(|record| Mark::of_outcome(record.outcome))
}

impl Past {
    fn of(record: Record) -> Past {
        let reason = record.reason.map(|reason| reason.message).unwrap_or_default();
        let cause = short_cause(&reason, record.evidence.as_ref());
        Past {
            mark: Mark::of_outcome(record.outcome),
            trigger: record.trigger.word(),
            revision: record.revision,
            started: record.started,
            took: record.ended.map(|ended| Lasted(ended.duration_since(record.started))),
            whole: (reason != cause).then_some(reason),
            cause,
            commit: Link(record.commit),
        }
    }
}

/// The facts of the history about a workload.
struct Remembered {
    records: Vec<Record>,
    /// The changes of its configuration since its pods began that they do not notice.
    stale: Vec<String>,
    configuration: Vec<ConfigurationRow>,
}

/// Reads the facts about a workload whose pod template names this configuration.
fn read(
    history: &History,
    source: &str,
    key: &ObjectKey,
    named: BTreeSet<ObjectKey>,
) -> Result<Remembered, HistoryError> {
    let records = history.records(&Query { limit: Some(RECORDS), own: false, ..Query::of(source, key) })?;
    let began = records.iter().find(|record| record.rolls_out && record.outcome == Outcome::Complete);
    let began = began.map_or(Timestamp::MIN, |record| record.started);
    let changes = Query {
        source: Some(source.to_owned()),
        namespace: key.namespace.clone(),
        since: Some(began.max(Timestamp::UNIX_EPOCH)),
        outcomes: [Outcome::Complete].into(),
        limit: Some(CONFIGURATION),
        ..Query::default()
    };
    let mut stale = Vec::new();
    for record in history.records(&changes)?.iter().filter(|record| is_configuration(&record.object)) {
        let reads = unnoticed(history, record)?.into_iter().find(|one| one.workload == *key);
        stale.extend(reads.map(|one| format!("{} was changed by {}: {one}", record.object, record.commit.short())));
    }
    Ok(Remembered { records, stale, configuration: read_configuration(history, source, named)? })
}
