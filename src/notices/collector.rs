//! The collector of traces: the trace of each commit when it has settled, over OTLP.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::Method;
use serde_json::json;
use tracing::warn;

use super::address::Destination;
use super::commit_trace::{SettledCommit, known};
use super::delivery::{AnswerVerdict, Delivery, HttpAnswer, SendError, authorities};
use super::otlp::{export_request, rejected_spans};
use super::recipient::{Recipient, Settings};
use crate::config::{CollectorUrl, TelemetryConfig, read_secret};
use crate::history::{History, HistoryError, NoticeAbout, Pending, Query, says_something};
use crate::secrets::Secrets;
use crate::telemetry::{Metrics, NoticeLabels};
use belay_core::rollout::{CommitId, Outcome, Record, Step};

/// The name under which the history remembers what was sent. No receiver can have it: it has a space in it.
const NAME: &str = "telemetry otlp";
/// The most objects of a commit that are in its trace.
const OBJECTS: u32 = 1000;
/// The answers after which the same request may be made again, as OTLP says.
const PASSING: [u16; 4] = [429, 502, 503, 504];

/// The collector that `[telemetry] otlp` names.
#[derive(Clone, Debug)]
pub struct Collector {
    url: CollectorUrl,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    /// The name of this daemon.
    instance: String,
    /// The URLs of the sources' repositories, without credentials.
    repositories: BTreeMap<String, String>,
}

impl Collector {
    /// Returns the collector of a configuration, if it names one.
    #[must_use]
    pub fn new(
        config: &TelemetryConfig,
        instance: String,
        repositories: BTreeMap<String, String>,
    ) -> Option<Collector> {
        let TelemetryConfig { otlp, token_file, ca_file } = config.clone();
        Some(Collector { url: otlp?, token_file, ca_file, instance, repositories })
    }
}

impl Recipient for Collector {
    fn name(&self) -> &str {
        NAME
    }

    fn message(
        &self,
        pending: &Pending,
        settings: &Settings,
    ) -> Result<Option<Result<Delivery, SendError>>, HistoryError> {
        let notice = &pending.notice;
        let NoticeAbout::Commit(commit, outcome) = &notice.about else { return Ok(None) };
        if !notice.is_final {
            return Ok(None);
        }
        let settled = self.settled(&settings.history, &notice.source, commit, *outcome)?;
        let spans = settled.spans();
        if spans.is_empty() {
            return Ok(None);
        }
        let branch = settings.links.branches.get(&notice.source);
        let resource = known([
            ("service.instance.id", Some(json!(self.instance))),
            ("vcs.repository.url.full", self.repositories.get(&notice.source).map(|url| json!(url))),
            ("vcs.ref.head.revision", Some(json!(commit))),
            ("vcs.ref.head.name", branch.map(|branch| json!(branch))),
            ("vcs.ref.type", branch.map(|_| json!("branch"))),
        ]);
        let body = export_request(&settled.trace_id(), &spans, resource).to_string().into_bytes();
        Ok(Some(self.delivery(body)))
    }

    fn verdict(&self, _: &Pending, answer: &HttpAnswer) -> AnswerVerdict {
        if answer.is_taken() {
            if let Some((spans, why)) = rejected_spans(&answer.text) {
                warn!(spans, why, "the collector has left spans of a trace out");
            }
            return AnswerVerdict::Taken;
        }
        if PASSING.contains(&answer.status) { AnswerVerdict::Again(None) } else { AnswerVerdict::Refused }
    }

    fn count(&self, metrics: &Metrics, result: NoticeLabels) {
        metrics.traced(result);
    }
}

impl Collector {
    /// Reads what the history has of a commit of which nothing is under way, since it had settled before.
    fn settled(
        &self,
        history: &History,
        source: &str,
        commit: &CommitId,
        outcome: Outcome,
    ) -> Result<SettledCommit, HistoryError> {
        let before = history.settled_before(NAME, source, commit)?;
        let all = records(history, source, commit)?;
        let is_later = |record: &Record| record.ended > before;
        // No record is later if a clock was set back.
        let is_any_later = all.iter().any(is_later);
        let records = all.into_iter().filter(|record| is_later(record) || !is_any_later);
        let with_steps = |record: Record| {
            let steps = if record.rolls_out { history.steps(record.id)? } else { Vec::new() };
            Ok((record, steps))
        };
        let records: Vec<(Record, Vec<Step>)> = records.map(with_steps).collect::<Result<_, HistoryError>>()?;
        let arrivals = if before.is_none() { history.arrivals(commit)? } else { Vec::new() };
        Ok(SettledCommit {
            instance: self.instance.clone(),
            source: source.to_owned(),
            commit: commit.clone(),
            subject: history.commit(commit)?.map(|commit| commit.subject),
            outcome,
            objects: history.became(source, commit, 0)?.objects.values().sum(),
            arrival: arrivals.into_iter().find(|arrival| arrival.source == source),
            is_again: before.is_some(),
            records,
        })
    }

    /// Returns the request with this body.
    pub(super) fn delivery(&self, body: Vec<u8>) -> Result<Delivery, SendError> {
        let mut secrets = Secrets::default();
        secrets.add_path(Destination::parse(self.url.reveal()).map_err(SendError)?.path());
        let mut headers = Vec::new();
        if let Some(file) = &self.token_file {
            let token = read_secret(file).map_err(SendError)?;
            secrets.add(&token);
            headers.push(("authorization", format!("Bearer {}", token.trim())));
        }
        Ok(Delivery {
            target: Destination::parse(&self.url.of_traces()).map_err(SendError)?,
            // A collector is most often beside belay.
            allow_private: true,
            headers,
            method: Method::POST,
            authorities: authorities(self.ca_file.as_deref())?,
            mail: None,
            secrets,
            body,
        })
    }
}

/// Returns the ended records of a commit, the worst first, so many as a trace has. Those that put right what others changed
/// say nothing of it.
fn records(history: &History, source: &str, commit: &CommitId) -> Result<Vec<Record>, HistoryError> {
    let of_commit = Query {
        source: Some(source.to_owned()),
        commit: Some(commit.to_string()),
        limit: Some(OBJECTS),
        ..Query::default()
    };
    let (wrong, others) = Outcome::ALL.into_iter().partition(|outcome| outcome.rank().is_some());
    let mut found = history.records(&Query { outcomes: wrong, ..of_commit.clone() })?;
    found.sort_by_key(|record| record.outcome.rank());
    found.extend(history.records(&Query { outcomes: others, ..of_commit })?);
    let says_something = |record: &Record| record.outcome.rank().is_some() || says_something(&record.trigger);
    found.retain(|record| record.ended.is_some() && says_something(record));
    found.truncate(OBJECTS as usize);
    Ok(found)
}
