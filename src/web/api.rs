//! JSON under `/api/v1/`: the answers of `-o json`, of the running daemon.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Room;
use super::problem::Problem;
use super::query::{HistoryAsked, QueryParams, StatsAsked};
use crate::daemon::Status;
use crate::history::query::answers::{
    HistoryAnswer, LineAnswer, RecordAnswer, ShowAnswer, ShownRecord, StatsAnswer, StatusAnswer, WorkloadAnswer,
};
use crate::history::query::source_histories::{SourceHistories, refine};
use crate::history::{History, HistoryError, Query, Resolved};
use belay_core::rollout::{Record, Workload};

/// The answer of `/api/v1/workloads`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WorkloadsAnswer {
    /// The workloads that belay has applied, or is to apply; as `belay status --watch -o json` prints each.
    pub workloads: Vec<WorkloadAnswer>,
}

/// The parameters that select workloads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WorkloadsAsked {
    /// Only of this source.
    pub source: Option<String>,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only of this name.
    pub name: Option<String>,
    /// Only in this state.
    pub state: Option<String>,
}

pub(super) async fn status(State(room): State<Room>) -> Result<Json<StatusAnswer>, Problem> {
    room.status().await.map(Json)
}

pub(super) async fn workloads(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<WorkloadsAsked>,
) -> Result<Json<WorkloadsAnswer>, Problem> {
    let WorkloadsAsked { source, namespace, name, state } = asked;
    let mut workloads = room.status().await?.workloads;
    workloads.retain(|row| {
        source.as_ref().is_none_or(|source| *source == row.source)
            && (namespace.is_none() || namespace == row.object.namespace)
            && name.as_ref().is_none_or(|name| *name == row.object.name)
            && state.as_ref().is_none_or(|state| state == row.state.word())
    });
    Ok(Json(WorkloadsAnswer { workloads }))
}

pub(super) async fn history(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<HistoryAsked>,
) -> Result<Json<HistoryAnswer>, Problem> {
    let query = asked.query(room.shown.clock.now())?;
    let records = room.history.ask(move |history| answers(history, &history.records(&query)?)).await?;
    Ok(Json(HistoryAnswer { records, missing: Vec::new() }))
}

pub(super) async fn commit(State(room): State<Room>, Path(digits): Path<String>) -> Result<Json<ShowAnswer>, Problem> {
    show(&room, digits).await.map(Json)
}

pub(super) async fn stats(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<StatsAsked>,
) -> Result<Json<StatsAnswer>, Problem> {
    let query = asked.query(room.shown.clock.now())?;
    let (since, until) = (query.since, query.until);
    let read = room.history.ask(move |history| Ok((history.stats(&query)?, history.kept_since(since)?)));
    let (all, kept_since) = read.await?;
    let time = until.duration_since(since);
    Ok(Json(StatsAnswer {
        since,
        until,
        kept_since,
        stats: all.iter().map(|line| LineAnswer::of(line, time)).collect(),
    }))
}

/// The most looks of analyses that are shown of each record, the newest ones.
const LOOKS: u32 = 200;

/// Returns the outcome of a commit, by the digits that its id begins with.
pub(super) async fn show(room: &Room, digits: String) -> Result<ShowAnswer, Problem> {
    let asked = digits.clone();
    let found = room.history.ask(move |history| {
        let id = match history.resolve(&asked)? {
            Resolved::One(id) => id,
            Resolved::Several(ids) => return Ok(Err(ids)),
            Resolved::None => return Ok(Err(Vec::new())),
        };
        let mut records = history.records(&Query { commit: Some(id.to_string()), ..Query::default() })?;
        records.reverse();
        let why = records.is_empty().then(|| {
            "It changed no manifest that a source follows, or a newer commit took its place; `belay show` may know more."
                .to_owned()
        });
        let (commit, arrived) = (history.commit(&id)?, history.arrived(&id)?);
        let records = answers(history, &records)?.into_iter().map(|answer| ShownRecord::of(history, answer, LOOKS));
        let records = records.collect::<Result<_, _>>()?;
        Ok(Ok(ShowAnswer { commit, records, arrived, why, missing: Vec::new() }))
    });
    found.await?.map_err(|ids| match ids.as_slice() {
        [] => Problem::Nothing("belay has seen no commit that begins so".to_owned()),
        ids => {
            let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
            Problem::Unclear(format!("several commits begin so: {}", ids.join(", ")))
        }
    })
}

/// Returns the records as programs read them.
pub(super) fn answers(history: &History, records: &[Record]) -> Result<Vec<RecordAnswer>, HistoryError> {
    let answer = |record: &Record| Ok(RecordAnswer::of(history, record, history.told(&record.commit)?));
    records.iter().map(answer).collect()
}

impl Room {
    /// Returns the output of `belay status -A -o json`, from the daemon's watches.
    pub(super) async fn status(&self) -> Result<StatusAnswer, Problem> {
        let (status, now) = (self.shown.status.borrow().clone(), self.shown.clock.now());
        let known = status.clone();
        let read = self.history.ask(move |history| Ok(status_answer(Some(history), &known, now))).await;
        // The published state is said also while the history can't be read: it says that itself.
        Ok(read.unwrap_or_else(|_| status_answer(None, &status, now)))
    }
}

fn status_answer(history: Option<&History>, status: &Status, now: Timestamp) -> StatusAnswer {
    let known = SourceHistories::published(status.published(), history, now);
    let mut rows: Vec<WorkloadAnswer> = Vec::new();
    for (source, of) in &status.sources {
        let memory = known.sources.get(source);
        rows.extend(of.workloads.iter().map(|(key, live)| WorkloadAnswer::of_live(key, source, live, memory)));
    }
    rows.extend(known.rows_besides(&rows, |_| true));
    if let Some(history) = history {
        refine(history, &mut rows);
    }
    let (workloads, objects) = rows.into_iter().partition(|row| Workload::of(&row.object).is_some());
    StatusAnswer { cluster: None, unanswered: None, sources: known.source_answers(), workloads, objects }
}
