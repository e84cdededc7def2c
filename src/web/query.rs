//! The parameters of an address.

use axum::extract::FromRequestParts;
use axum::extract::Query as Parameters;
use http::request::Parts;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::config::Span;
use crate::history::{By, FAILED, Query, StatsQuery};
use belay_core::rollout::{Outcome, RecordId};

/// The default number of records of an answer.
const RECORDS: u32 = 100;
/// The most.
const MOST_RECORDS: u32 = 1000;
/// The default period of the numbers.
const STATS: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The parameters of an address; one that is not known is refused, for whoever wrote it meant something.
pub(super) struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<QueryParams<T>, Problem> {
        let Parameters(asked) =
            Parameters::try_from_uri(&parts.uri).map_err(|error| Problem::Unclear(error.body_text()))?;
        Ok(QueryParams(asked))
    }
}

/// The parameters that select records.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HistoryAsked {
    /// Only this source.
    pub source: Option<String>,
    /// Only objects of this name.
    pub name: Option<String>,
    /// Only objects of this kind; only together with a name.
    pub kind: Option<String>,
    /// Only objects in this namespace.
    pub namespace: Option<String>,
    /// Only commits whose id begins so.
    pub commit: Option<String>,
    /// Only commits by somebody in whose name or address this stands.
    pub author: Option<String>,
    /// Only what was taken up in this last time: `2h`, `7d`.
    pub since: Option<String>,
    /// `true`: only what failed.
    pub failed: bool,
    /// `true`: also what did not change.
    pub all: bool,
    /// At most so many; 100 where nothing is said, never more than 1000.
    pub limit: Option<u32>,
    /// Only what is older than the record with this id: for the next page.
    pub before: Option<i64>,
}

impl HistoryAsked {
    /// Returns the question, at this time.
    pub(super) fn query(self, now: Timestamp) -> Result<Query, Problem> {
        let HistoryAsked { source, name, kind, namespace, commit, author, since, failed, all, limit, before } = self;
        if kind.is_some() && name.is_none() {
            return Err(Problem::Unclear("kind is asked for together with name only".to_owned()));
        }
        let outcomes = Outcome::ALL.into_iter().filter(|outcome| match (failed, all) {
            (true, _) => FAILED.contains(outcome),
            (false, true) => true,
            (false, false) => *outcome != Outcome::Unchanged,
        });
        Ok(Query {
            source,
            name,
            kind,
            namespace,
            commit,
            author,
            since: since.map(|since| ago(&since, now)).transpose()?,
            outcomes: outcomes.collect(),
            older_than: before.map(RecordId),
            limit: Some(limit.unwrap_or(RECORDS).min(MOST_RECORDS)),
            ..Query::default()
        })
    }
}

/// The parameters that select numbers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StatsAsked {
    /// Only this source.
    pub source: Option<String>,
    /// The period of the numbers: `7d`; 30 days by default.
    pub since: Option<String>,
    /// One line for each source, workload or month.
    pub by: StatsGroup,
}

/// The subject of one line of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StatsGroup {
    /// A source.
    #[default]
    Source,
    /// A workload.
    Workload,
    /// A month, in UTC.
    Month,
}

impl StatsAsked {
    /// Returns the question, at this time.
    pub(super) fn query(self, now: Timestamp) -> Result<StatsQuery, Problem> {
        let since = match &self.since {
            Some(since) => ago(since, now)?,
            None => now.checked_sub(STATS).unwrap_or(Timestamp::MIN),
        };
        let by = match self.by {
            StatsGroup::Source => By::Source,
            StatsGroup::Workload => By::Workload,
            StatsGroup::Month => By::Month,
        };
        Ok(StatsQuery { source: self.source, since, until: now, by })
    }
}

/// Returns the time that is so long ago.
fn ago(span: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    let unclear = |why: String| Problem::Unclear(format!("since: {why}"));
    let Span(span) = span.parse().map_err(|error| unclear(format!("{error}")))?;
    now.checked_sub(span).map_err(|_| unclear("that is before all time".to_owned()))
}
