//! The commits, newest first, a line each with its outcome and its objects.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use form_urlencoded::Serializer;
use jiff::Timestamp;
use serde::Deserialize;

use super::super::Room;
use super::super::problem::Problem;
use super::super::query::QueryParams;
use super::components::{Lasted, Link, Mark, TimeOfDay};
use super::workload_row::address;
use super::{Frame, respond};
use crate::history::{History, HistoryError, Query, TimelineEntry};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState, Outcome, Workload};

/// The number of heads of a page.
const PAGE: u32 = 50;
/// The most heads that are searched for those that fit. The next page goes on from there.
const SEARCHED: u32 = 1000;
/// The number of objects that a line names.
const OBJECTS: usize = 4;
/// The most records that are read for a line.
const RECORDS: u32 = 100;

/// The parameters of the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::web) struct TimelineAsked {
    source: String,
    author: String,
    workload: String,
    state: String,
    /// Only before the head of this number.
    before: Option<i64>,
}

#[derive(Template)]
#[template(path = "timeline.html")]
struct TimelinePage {
    frame: Frame,
    asked: TimelineAsked,
    names: Vec<String>,
    lines: Vec<TimelineLine>,
    /// The address of the next, older page.
    older: Option<String>,
}

struct TimelineLine {
    commit: Link,
    subject: String,
    author: String,
    source: String,
    begun: TimeOfDay,
    took: Option<Lasted>,
    mark: Option<Mark>,
    /// The text in the place of the mark if nothing is counted.
    rest: &'static str,
    /// The numbers of objects by outcome, in words; if nothing is counted, the reason.
    counts: String,
    objects: Vec<NamedObject>,
    /// The number of further ones.
    more: usize,
}

/// An object that leads to its page, if it has one.
struct NamedObject {
    key: ObjectKey,
    link: Option<String>,
}

pub(in crate::web) async fn timeline(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<TimelineAsked>,
) -> Response {
    respond(&room.shown, page(&room, asked).await)
}

async fn page(room: &Room, asked: TimelineAsked) -> Result<TimelinePage, Problem> {
    let (now, wanted) = (room.shown.clock.now(), asked.clone());
    let (lines, more) = room.history.ask(move |history| lines(history, &wanted, now)).await?;
    let older = more.map(|before| asked.before(before));
    let names = room.shown.status.borrow().sources.keys().cloned().collect();
    Ok(TimelinePage { frame: Frame::of(&room.shown, "/timeline"), asked, names, lines, older })
}

/// Returns the lines of a page, and the number of its last head if there are older ones.
fn lines(
    history: &History,
    asked: &TimelineAsked,
    now: Timestamp,
) -> Result<(Vec<TimelineLine>, Option<i64>), HistoryError> {
    let source = Some(asked.source.as_str()).filter(|source| !source.is_empty());
    let (mut lines, mut before, mut heads) = (Vec::new(), asked.before, 0);
    for _ in 0..SEARCHED / PAGE {
        let entries = history.timeline(source, before, PAGE + 1)?;
        for entry in entries.iter().take(PAGE as usize) {
            if heads >= PAGE {
                return Ok((lines, before));
            }
            let of_entry = of_entry(history, entry, asked, now)?;
            heads += u32::from(!of_entry.is_empty());
            lines.extend(of_entry);
            before = Some(entry.number);
        }
        if entries.len() <= PAGE as usize {
            return Ok((lines, None));
        }
    }
    Ok((lines, before))
}

/// Returns a line for each commit that came with a head and fits, the head first.
fn of_entry(
    history: &History,
    entry: &TimelineEntry,
    asked: &TimelineAsked,
    now: Timestamp,
) -> Result<Vec<TimelineLine>, HistoryError> {
    let head = entry.commits.get_key_value(&entry.head);
    let others = entry.commits.iter().filter(|(commit, _)| **commit != entry.head);
    let lines =
        head.into_iter().chain(others).map(|(commit, outcomes)| line(history, entry, commit, outcomes, asked, now));
    lines.filter_map(Result::transpose).collect()
}

/// Returns the line of a commit; `None` if it does not fit.
fn line(
    history: &History,
    entry: &TimelineEntry,
    commit: &CommitId,
    outcomes: &BTreeMap<Outcome, u64>,
    asked: &TimelineAsked,
    now: Timestamp,
) -> Result<Option<TimelineLine>, HistoryError> {
    let state = worst(outcomes);
    let told = history.told(commit)?;
    let (subject, author) = told.map(|told| (told.subject, told.author)).unwrap_or_default();
    if !asked.has_state(state) || !contains(&author, &asked.author) {
        return Ok(None);
    }
    let objects = if outcomes.is_empty() { Vec::new() } else { objects(history, entry, commit)? };
    if !asked.workload.is_empty() && !objects.iter().any(|key| contains(&key.to_string(), &asked.workload)) {
        return Ok(None);
    }
    let (rest, nothing) = nothing(entry);
    let named = |key: &ObjectKey| NamedObject {
        link: Workload::of(key).map(|_| address(&entry.source, key)),
        key: key.clone(),
    };
    Ok(Some(TimelineLine {
        commit: Link(commit.clone()),
        subject,
        author,
        source: entry.source.clone(),
        begun: TimeOfDay { at: entry.begun, now },
        took: entry.ended.map(|ended| Lasted(ended.duration_since(entry.begun))),
        mark: state.map(Mark::of),
        rest,
        counts: counts(outcomes).unwrap_or_else(|| nothing.to_owned()),
        more: objects.len().saturating_sub(OBJECTS),
        objects: objects.iter().take(OBJECTS).map(named).collect(),
    }))
}

/// Returns the objects that a commit changed in a source, those that failed and workloads first.
fn objects(history: &History, entry: &TimelineEntry, commit: &CommitId) -> Result<Vec<ObjectKey>, HistoryError> {
    let changed = Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Unchanged);
    let query = Query {
        source: Some(entry.source.clone()),
        commit: Some(commit.to_string()),
        outcomes: changed.collect(),
        limit: Some(RECORDS),
        ..Query::default()
    };
    let rank = |key: &ObjectKey, outcome: Outcome| (!outcome.state().is_wrong(), Workload::of(key).is_none());
    let records = history.records(&query)?.into_iter();
    let ranked: BTreeSet<_> = records.map(|record| (rank(&record.object, record.outcome), record.object)).collect();
    let mut seen = BTreeSet::new();
    Ok(ranked.into_iter().map(|(_, key)| key).filter(|key| seen.insert(key.clone())).collect())
}

fn contains(text: &str, asked: &str) -> bool {
    text.to_lowercase().contains(&asked.to_lowercase())
}

impl TimelineAsked {
    fn has_state(&self, state: Option<ObjectState>) -> bool {
        self.state.is_empty() || state.is_some_and(|state| state.word() == self.state)
    }

    /// Returns true when some of the lines are left out.
    fn filters(&self) -> bool {
        [&self.source, &self.author, &self.workload, &self.state].into_iter().any(|asked| !asked.is_empty())
    }

    /// Returns the states that a line may have.
    fn states(&self) -> Vec<&'static str> {
        let states = Outcome::ALL.map(Outcome::state).into_iter().collect::<BTreeSet<_>>();
        states.into_iter().filter(|state| *state != ObjectState::Unchanged).map(ObjectState::word).collect()
    }

    /// Returns the address of the page before the head of this number.
    fn before(&self, number: i64) -> String {
        let mut query = Serializer::new(String::new());
        let parts =
            [("source", &self.source), ("author", &self.author), ("workload", &self.workload), ("state", &self.state)];
        parts.into_iter().filter(|(_, value)| !value.is_empty()).for_each(|(name, value)| {
            query.append_pair(name, value);
        });
        format!("/timeline?{}", query.append_pair("before", &number.to_string()).finish())
    }
}

/// Returns the state of a commit: a failure if there is one, else an open record, else any other.
fn worst(outcomes: &BTreeMap<Outcome, u64>) -> Option<ObjectState> {
    let states = || outcomes.keys().map(|outcome| outcome.state());
    states()
        .find(|state| state.is_wrong())
        .or_else(|| states().find(|state| state.is_open()))
        .or_else(|| states().find(|state| *state == ObjectState::Complete))
        .or_else(|| states().next())
}

/// Returns `2 complete, 1 rolled-back`; `None` if nothing is counted.
fn counts(outcomes: &BTreeMap<Outcome, u64>) -> Option<String> {
    let counts = outcomes.iter().map(|(outcome, count)| format!("{count} {}", outcome.state()));
    (!outcomes.is_empty()).then(|| counts.collect::<Vec<_>>().join(", "))
}

/// Returns why nothing is counted of a head, in a word and in words.
fn nothing(entry: &TimelineEntry) -> (&'static str, &'static str) {
    match entry {
        TimelineEntry { forgotten: true, .. } => ("forgotten", "its records are no longer kept"),
        TimelineEntry { brings_back: true, .. } => ("brought back", "brought back what earlier commits say"),
        _ => ("unchanged", "changed nothing here"),
    }
}
