//! The questions of the commands to a daemon.

use super::{ServerApi, ServerError};
use crate::history::query::answers::{HistoryAnswer, RecordAnswer, ShowAnswer, StatsAnswer, StatusAnswer};
use crate::history::{By, FAILED, Query, StatsQuery};
use belay_core::rollout::Outcome;
use form_urlencoded::Serializer;

/// The number of records of one answer.
const PAGE: u32 = 500;
/// The most records of one question.
const RECORDS: usize = 100_000;

impl ServerApi {
    /// Returns the state of each source and workload.
    pub(in crate::cli) async fn status(&self) -> Result<StatusAnswer, ServerError> {
        self.ask("status").await
    }

    /// Returns one commit, by the digits that its id begins with.
    pub(in crate::cli) async fn commit(&self, digits: &str) -> Result<ShowAnswer, ServerError> {
        let digits: String = form_urlencoded::byte_serialize(digits.as_bytes()).collect();
        let mut answer: ShowAnswer = self.ask(&format!("commits/{digits}")).await?;
        for shown in &mut answer.records {
            shown.answer.record = shown.answer.record.clone().as_kept();
        }
        Ok(answer)
    }

    /// Returns the figures of a period.
    pub(in crate::cli) async fn stats(&self, query: &StatsQuery) -> Result<StatsAnswer, ServerError> {
        self.ask(&format!("stats?{}", of_stats(query))).await
    }

    /// Returns the records that fit, newest first, a page after the other.
    pub(in crate::cli) async fn records(&self, query: &Query) -> Result<Vec<RecordAnswer>, ServerError> {
        let mut found: Vec<RecordAnswer> = Vec::new();
        let wanted = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let mut older_than = query.older_than;
        while found.len() < wanted {
            if found.len() >= RECORDS {
                let why = format!("{} has more than {RECORDS} records of that: ask for fewer", self.url());
                return Err(ServerError::Refused(why));
            }
            let limit = u32::try_from(wanted - found.len()).map_or(PAGE, |left| left.min(PAGE));
            let page = Query { older_than, limit: Some(limit), ..query.clone() };
            let page: HistoryAnswer = self.ask(&format!("history?{}", of_records(&page))).await?;
            let is_last = u32::try_from(page.records.len()).is_ok_and(|count| count < limit);
            found.extend(page.records.into_iter().map(|of| RecordAnswer { record: of.record.as_kept(), ..of }));
            let oldest = found.last().map(|of| of.record.id);
            // The ids fall from page to page; a server whose ids do not would answer without end.
            if is_last || oldest.is_none() || older_than.is_some_and(|before| oldest >= Some(before)) {
                break;
            }
            older_than = oldest;
        }
        found.truncate(wanted);
        Ok(found)
    }
}

/// Returns the parameters of a question for records.
fn of_records(query: &Query) -> String {
    let Query { source, name, kind, namespace, commit, author, since, until, outcomes, own: _, older_than, limit } =
        query;
    let texts = [
        ("source", source.clone()),
        ("name", name.clone()),
        ("kind", kind.clone()),
        ("namespace", namespace.clone()),
        ("commit", commit.clone()),
        ("author", author.clone()),
        ("since", since.map(|since| since.to_string())),
        ("until", until.map(|until| until.to_string())),
        ("before", older_than.map(|id| id.0.to_string())),
        ("limit", limit.map(|limit| limit.to_string())),
    ];
    let mut form = Serializer::new(String::new());
    form.extend_pairs(texts.into_iter().filter_map(|(key, value)| Some((key, value?))));
    if outcomes.is_empty() || outcomes.contains(&Outcome::Unchanged) {
        form.append_pair("all", "true");
    } else if outcomes.iter().all(|outcome| FAILED.contains(outcome)) {
        form.append_pair("failed", "true");
    }
    form.finish()
}

/// Returns the parameters of a question for figures.
fn of_stats(query: &StatsQuery) -> String {
    let StatsQuery { source, since, until, by } = query;
    let by = match by {
        By::Source => "source",
        By::Workload => "workload",
        By::Month => "month",
    };
    let mut form = Serializer::new(String::new());
    form.extend_pairs(source.iter().map(|source| ("source", source)));
    form.append_pair("since", &since.to_string()).append_pair("until", &until.to_string()).append_pair("by", by);
    form.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::RecordId;

    #[test]
    fn a_question_is_an_address() {
        let query = Query {
            source: Some("a&b".to_owned()),
            name: Some("web".to_owned()),
            kind: Some("Deployment".to_owned()),
            author: Some("Ada L".to_owned()),
            since: "2026-11-19T08:00:00.5Z".parse().ok(),
            older_than: Some(RecordId(7)),
            limit: Some(3),
            ..Query::default()
        };
        assert_eq!(
            of_records(&query),
            "source=a%26b&name=web&kind=Deployment&author=Ada+L&since=2026-11-19T08%3A00%3A00.5Z&before=7&limit=3&all=true"
        );
        let failed = Query { outcomes: FAILED.into_iter().collect(), ..Query::default() };
        assert_eq!(of_records(&failed), "failed=true");
        let usual = Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Unchanged).collect();
        assert_eq!(of_records(&Query { outcomes: usual, ..Query::default() }), "");
        let (since, until) = (jiff::Timestamp::UNIX_EPOCH, "2026-11-19T08:00:00Z".parse().unwrap());
        let stats = StatsQuery { source: None, since, until, by: By::Month };
        assert_eq!(of_stats(&stats), "since=1970-01-01T00%3A00%3A00Z&until=2026-11-19T08%3A00%3A00Z&by=month");
    }
}
