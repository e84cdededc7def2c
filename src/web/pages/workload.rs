//! One workload: its revisions with their pods, its rollout, its hold, and its past records.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;

use super::super::Room;
use super::super::problem::Problem;
use super::super::rollout_progress::picture;
use super::commit::command;
use super::components::{Lasted, Link, Mark, PodsPicture};
use super::{Frame, refuse, write};
use crate::daemon::UnderWay;
use crate::history::query::step_details::unnoticed;
use crate::history::{HeldStatus, History, HistoryError, Query};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{LiveWorkload, ObjectState, Outcome, Record, RevisionPods, is_configuration};

/// The number of records that are shown.
const RECORDS: u32 = 30;
/// The number of newest records of ConfigMaps and Secrets that are searched for changes its pods have not noticed.
const CONFIGURATION: u32 = 200;

#[derive(Template)]
#[template(path = "workload.html")]
struct WorkloadPage {
    frame: Frame,
    key: ObjectKey,
    source: String,
    mark: Mark,
    live: LiveWorkload,
    pods: PodsPicture,
    under_way: Option<UnderWay>,
    /// The trouble with its pods.
    wrong: Option<String>,
    held: Option<HeldStatus>,
    picture: Option<Picture>,
    revisions: Vec<RevisionRow>,
    revisions_missing: Option<String>,
    stale: Vec<String>,
    records: Vec<Past>,
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
    reason: String,
}

pub(in crate::web) async fn workload(
    State(room): State<Room>,
    Path((source, kind, namespace, name)): Path<(String, String, String, String)>,
) -> Response {
    match page(&room, source, &kind, &namespace, &name).await {
        Ok(page) => write(StatusCode::OK, &page),
        Err(problem) => refuse(&room.shown, &problem),
    }
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
    let (records, stale) = room.history.ask(move |history| read(history, &asked, &about)).await?;
    let (revisions, revisions_missing) = match room.revisions(&source, &key).await {
        Ok(revisions) => (revisions, None),
        Err(message) => (Vec::new(), Some(message)),
    };
    let state = of.state_of_workload(&key);
    let held = of.held.get(&key).cloned();
    let under_way = of.under_way.get(&key).cloned();
    let wrong = match &under_way {
        Some(way) => way.wrong.clone(),
        None => of.unhealthy.get(&key).cloned().flatten(),
    };
    let now = under_way.is_some().then(|| room.shown.clock.now());
    let until = under_way.as_ref().and_then(|way| way.until);
    let mut commands = Vec::new();
    commands.extend(held.is_some().then(|| command("retry", &key)));
    commands.extend((!stale.is_empty()).then(|| command("restart", &key)));
    commands.extend((state == ObjectState::Suspended).then(|| command("resume-sync", &key)));
    commands.extend((revisions.len() > 1).then(|| command("undo", &key)));
    commands.push(command("status", &key));
    let revisions =
        revisions.into_iter().map(|pods| RevisionRow { outcome: outcome_of(&pods, &records), pods }).collect();
    Ok(WorkloadPage {
        frame: Frame::of(&room.shown, "/"),
        mark: Mark::of(state),
        pods: PodsPicture(live.counters),
        picture: room.progress.of(&source, &key).map(|(commit, moments)| {
            let of_it = |record: &&Record| record.rolls_out && record.commit == commit;
            let began = records.iter().find(of_it).map(|record| record.started);
            let cut = began.and_then(|began| room.progress.noted_since(began).map(|since| (began, since)));
            Picture { svg: picture(&moments, now, until), cut }
        }),
        key,
        source,
        live,
        under_way,
        wrong,
        held,
        revisions,
        revisions_missing,
        stale,
        records: records.into_iter().map(Past::of).collect(),
        commands,
    })
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
        Past {
            mark: Mark::of_outcome(record.outcome),
            trigger: record.trigger.word(),
            revision: record.revision,
            started: record.started,
            took: record.ended.map(|ended| Lasted(ended.duration_since(record.started))),
            reason: record.reason.map(|reason| reason.message).unwrap_or_default(),
            commit: Link(record.commit),
        }
    }
}

/// Returns the records of a workload, and the changes of its configuration since its pods began that they do not
/// notice.
fn read(history: &History, source: &str, key: &ObjectKey) -> Result<(Vec<Record>, Vec<String>), HistoryError> {
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
    Ok((records, stale))
}
