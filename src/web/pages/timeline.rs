//! The commits, newest first, a line each with its outcome.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;

use super::super::Room;
use super::super::problem::Problem;
use super::super::query::QueryParams;
use super::components::{Lasted, Link, Mark};
use super::{Frame, in_address, refuse, write};
use crate::history::{History, HistoryError, TimelineEntry};
use belay_core::rollout::{CommitId, ObjectState, Outcome};

/// The number of heads of a page.
const PAGE: u32 = 50;

/// The parameters of the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::web) struct TimelineAsked {
    source: String,
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
    begun: Timestamp,
    took: Option<Lasted>,
    mark: Option<Mark>,
    /// The text in the place of the mark if nothing is counted.
    rest: &'static str,
    /// The numbers of objects by outcome, in words; if nothing is counted, the reason.
    counts: String,
}

pub(in crate::web) async fn timeline(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<TimelineAsked>,
) -> Response {
    match page(&room, asked).await {
        Ok(page) => write(StatusCode::OK, &page),
        Err(problem) => refuse(&room.shown, &problem),
    }
}

async fn page(room: &Room, asked: TimelineAsked) -> Result<TimelinePage, Problem> {
    let (source, before) = (Some(asked.source.clone()).filter(|source| !source.is_empty()), asked.before);
    let read = room.history.ask(move |history| {
        let entries = history.timeline(source.as_deref(), before, PAGE + 1)?;
        let more = entries.len() > PAGE as usize;
        let mut lines = Vec::new();
        for entry in entries.iter().take(PAGE as usize) {
            lines.extend(of_entry(history, entry)?);
        }
        let last = entries.iter().take(PAGE as usize).next_back().map(|entry| entry.number);
        Ok((lines, last.filter(|_| more)))
    });
    let (lines, more) = read.await?;
    let older = more.map(|before| format!("/timeline?source={}&before={before}", in_address(&asked.source)));
    let names = room.shown.status.borrow().sources.keys().cloned().collect();
    Ok(TimelinePage { frame: Frame::of(&room.shown, "/timeline"), asked, names, lines, older })
}

/// Returns a line for each commit that came with a head, the head first.
fn of_entry(history: &History, entry: &TimelineEntry) -> Result<Vec<TimelineLine>, HistoryError> {
    let line = |commit: &CommitId, outcomes: &BTreeMap<Outcome, u64>| {
        let told = history.told(commit)?;
        let (subject, author) = told.map(|told| (told.subject, told.author)).unwrap_or_default();
        let (rest, nothing) = nothing(entry);
        let took = entry.ended.map(|ended| Lasted(ended.duration_since(entry.begun)));
        Ok(TimelineLine {
            commit: Link(commit.clone()),
            subject,
            author,
            source: entry.source.clone(),
            begun: entry.begun,
            took,
            mark: worst(outcomes).map(Mark::of),
            rest,
            counts: counts(outcomes).unwrap_or_else(|| nothing.to_owned()),
        })
    };
    let head = entry.commits.get_key_value(&entry.head);
    let others = entry.commits.iter().filter(|(commit, _)| **commit != entry.head);
    head.into_iter().chain(others).map(|(commit, outcomes)| line(commit, outcomes)).collect()
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
