//! The parameters of an address.

use axum::extract::FromRequestParts;
use axum::extract::Query as Parameters;
use http::request::Parts;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::history::query::time_given::{TimeGiven, period};
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
    /// Only rollouts that began at this time or later: `2h`, `7d`, `2026-11-19`, `2026-11-19T08:00:00Z`; a date is one of the
    /// time zone of the daemon's machine.
    pub since: Option<String>,
    /// Only rollouts that began before this time, or on this day or earlier; written as for `since`.
    pub until: Option<String>,
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
        let HistoryAsked { source, name, kind, namespace, commit, author, since, until, failed, all, limit, before } =
            self;
        if kind.is_some() && name.is_none() {
            return Err(Problem::Unclear("kind is asked for together with name only".to_owned()));
        }
        let (since, until) = asked_period(since.as_deref(), until.as_deref(), now)?;
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
            since,
            until,
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
    /// The beginning of the period of the numbers, written as for the history; 30 days before its end by default.
    pub since: Option<String>,
    /// The end of the period; now by default.
    pub until: Option<String>,
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
        let (since, until) = asked_period(self.since.as_deref(), self.until.as_deref(), now)?;
        let until = until.unwrap_or(now);
        let since = since.unwrap_or_else(|| until.checked_sub(STATS).unwrap_or(Timestamp::MIN));
        let by = match self.by {
            StatsGroup::Source => By::Source,
            StatsGroup::Workload => By::Workload,
            StatsGroup::Month => By::Month,
        };
        Ok(StatsQuery { source: self.source, since, until, by })
    }
}

/// Returns the moments at which the requested period begins and ends.
fn asked_period(
    since: Option<&str>,
    until: Option<&str>,
    now: Timestamp,
) -> Result<(Option<Timestamp>, Option<Timestamp>), Problem> {
    let read = |name: &str, text: Option<&str>| {
        let given = text.map(str::parse::<TimeGiven>).transpose();
        given.map_err(|why| Problem::Unclear(format!("{name} {:?}: {why}", text.unwrap_or_default())))
    };
    let given = (read("since", since)?, read("until", until)?);
    let period = period(("since", "until"), given, now, &TimeZone::system());
    period.map_err(|error| Problem::Unclear(error.to_string()))
}
