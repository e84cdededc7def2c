//! Every source and every workload, the most harmful first.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use form_urlencoded::Serializer;
use jiff::Timestamp;
use serde::Deserialize;

use super::super::Room;
use super::super::problem::Problem;
use super::super::query::QueryParams;
use super::components::{Link, Mark};
use super::headline::{StateCount, counts};
use super::known_commits::{KnownCommits, known_commits};
use super::overview_rows::OverviewRows;
use super::{Frame, respond};
use crate::daemon::Status;
use crate::history::query::answers::{CommitInfo, SourceAnswer, StatusAnswer, WorkloadAnswer};
use crate::history::query::harm::{Harm, HarmCounts, sort_by_harm};
use belay_core::rollout::{CommitId, SourceState};

/// The number of sources that are shown; the page of the daemon has all.
const SOURCES: usize = 8;
/// The number of commits whose subject and author are read for the rows.
const COMMITS: usize = 300;

/// The parameters of the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::web) struct OverviewAsked {
    q: String,
    state: String,
    namespace: String,
    source: String,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    asked: OverviewAsked,
    strip: Vec<StripLink>,
    sources: Vec<SourceRow>,
    /// The number of further ones.
    more_sources: usize,
    rows: OverviewRows,
    /// The total number, and the number that fit.
    total: usize,
    fitting: usize,
    namespaces: BTreeSet<String>,
    names: BTreeSet<String>,
}

/// A count that leads to what it counts.
struct StripLink {
    count: StateCount,
    link: String,
    is_asked: bool,
}

struct SourceRow {
    name: String,
    mark: Mark,
    head: Option<HeadRow>,
    looked: Option<Timestamp>,
    troubles: Vec<String>,
    warnings: Vec<String>,
}

struct HeadRow {
    commit: Link,
    told: Option<CommitInfo>,
}

pub(in crate::web) async fn overview(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<OverviewAsked>,
) -> Response {
    respond(&room.shown, page(&room, asked).await)
}

async fn page(room: &Room, asked: OverviewAsked) -> Result<Overview, Problem> {
    let status = room.shown.status.borrow().clone();
    let mut answer = room.status().await?;
    answer.workloads.append(&mut answer.objects);
    sort_by_harm(&mut answer.workloads);
    // The page is shown also while the history can't be read: it says so itself.
    let told = known_commits(room, commits_of(&answer)).await.unwrap_or_default();
    assemble(Frame::of(&room.shown, "/"), asked, &status, answer, &told).map_err(|error| Problem::of_template(&error))
}

/// Returns the commits that the page names, those of the most harmful rows first.
fn commits_of(answer: &StatusAnswer) -> BTreeSet<CommitId> {
    let heads = answer.sources.iter().take(COMMITS).filter_map(|source| source.head.clone());
    let mut commits: BTreeSet<CommitId> = heads.collect();
    let of_row = |row: &WorkloadAnswer| row.failed_commit.clone().or_else(|| row.commit.parse().ok());
    for commit in answer.workloads.iter().filter_map(of_row) {
        if commits.len() >= COMMITS {
            break;
        }
        commits.insert(commit);
    }
    commits
}

impl SourceRow {
    fn of(answer: &SourceAnswer, told: &KnownCommits) -> SourceRow {
        let head = answer.head.as_ref();
        let repository = answer.trouble.as_ref().map(|trouble| format!("repository: {}", trouble.message));
        let troubles = answer.troubles.iter().map(|(place, what)| format!("{place}: {what}"));
        SourceRow {
            name: answer.source.clone(),
            mark: Mark::of_source(answer.state),
            head: head.map(|head| HeadRow { commit: Link(head.clone()), told: told.get(head).cloned() }),
            looked: answer.looked,
            troubles: answer.waits_for.iter().cloned().chain(repository).chain(troubles).collect(),
            warnings: answer.warning_lines().collect(),
        }
    }
}

/// Returns the rank of a source's state: trouble comes first.
fn rank(state: SourceState) -> u8 {
    match state {
        SourceState::Blocked => 0,
        SourceState::Degraded => 1,
        SourceState::Waiting => 2,
        SourceState::Progressing => 3,
        SourceState::Synced => 4,
    }
}

fn assemble(
    frame: Frame,
    asked: OverviewAsked,
    status: &Status,
    answer: StatusAnswer,
    told: &KnownCommits,
) -> Result<Overview, askama::Error> {
    let StatusAnswer { mut sources, workloads: mut all, .. } = answer;
    let namespaces = all.iter().filter_map(|row| row.object.namespace.clone()).collect();
    let names: BTreeSet<String> = sources.iter().map(|source| source.source.clone()).collect();
    let states: Vec<SourceState> = sources.iter().map(|source| source.state).collect();
    let total = all.len();
    all.retain(|row| asked.fits_but_for_its_state(row));
    let strip = asked.strip(&HarmCounts::of(all.iter().map(Harm::of_row)), &states);
    all.retain(|row| asked.has_its_state(row));
    let fitting = all.len();
    sources.sort_by_key(|source| rank(source.state));
    let rows = OverviewRows::of(all, &frame, (status, told), names.len() > 1)?;
    Ok(Overview {
        frame,
        asked,
        strip,
        more_sources: sources.len().saturating_sub(SOURCES),
        sources: sources.iter().take(SOURCES).map(|source| SourceRow::of(source, told)).collect(),
        rows,
        total,
        fitting,
        namespaces,
        names,
    })
}

impl OverviewAsked {
    fn fits_but_for_its_state(&self, row: &WorkloadAnswer) -> bool {
        let is = |asked: &str, value: &str| asked.is_empty() || asked == value;
        let text = self.q.to_lowercase();
        let has = |value: &str| value.to_lowercase().contains(&text);
        is(&self.namespace, row.object.namespace.as_deref().unwrap_or_default())
            && is(&self.source, &row.source)
            && (text.is_empty()
                || has(&row.object.to_string())
                || has(&row.message)
                || has(&row.commit)
                || has(&row.source)
                || row.cause.as_deref().is_some_and(has)
                || row.failed_commit.as_ref().is_some_and(|commit| has(commit.as_str())))
    }

    /// Returns true for a row in the state that is asked for: a state of an object, or a harm of the strip.
    fn has_its_state(&self, row: &WorkloadAnswer) -> bool {
        let is_of = |word: &str| self.state == word;
        self.state.is_empty() || is_of(row.state.word()) || is_of(Harm::of_row(row).in_address())
    }

    fn strip(&self, harms: &HarmCounts, sources: &[SourceState]) -> Vec<StripLink> {
        let link = |count: StateCount| match count.harm {
            Some(harm) => {
                let is_asked = self.state == harm.in_address();
                let link = self.address(if is_asked { "" } else { harm.in_address() });
                StripLink { count, link, is_asked }
            }
            None => StripLink { count, link: "#sources".to_owned(), is_asked: false },
        };
        counts(harms, sources).into_iter().map(link).collect()
    }

    /// Returns the address of the same with another state.
    fn address(&self, state: &str) -> String {
        let mut query = Serializer::new(String::new());
        let parts = [("q", &*self.q), ("state", state), ("namespace", &self.namespace), ("source", &self.source)];
        parts.into_iter().filter(|(_, value)| !value.is_empty()).for_each(|(name, value)| {
            query.append_pair(name, value);
        });
        match query.finish() {
            query if query.is_empty() => "/".to_owned(),
            query => format!("/?{query}"),
        }
    }

    /// Returns the states that may be chosen, each as in the address and as a word.
    fn states(&self) -> Vec<(String, String)> {
        let harms = Harm::ALL.map(|harm| (harm.in_address().to_owned(), harm.word().to_owned()));
        let other = (self.state.clone(), self.state.clone());
        let is_other = !self.state.is_empty() && harms.iter().all(|(harm, _)| *harm != self.state);
        harms.into_iter().chain(is_other.then_some(other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::headline::worst;
    use super::super::overview_rows::{ROWS, UNFOLDING};
    use super::*;
    use crate::daemon::SourceStatus;
    use belay_core::manifest::ObjectKey;
    use belay_core::rollout::health::Standing;
    use belay_core::rollout::{Counters, LiveWorkload};
    use serde_json::json;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
    const HELD: &str = "2025-12-31T23:00:00Z";

    fn key(name: &str) -> ObjectKey {
        let namespace = Some("shop".to_owned());
        ObjectKey { group: "apps".to_owned(), kind: "Deployment".to_owned(), namespace, name: name.to_owned() }
    }

    fn rendered(workloads: &[(ObjectKey, LiveWorkload)], asked: OverviewAsked) -> String {
        let source = SourceStatus { workloads: workloads.iter().cloned().collect(), ..SourceStatus::default() };
        let status = Status { sources: [("shop".to_owned(), source)].into() };
        let row = |(key, live): &(ObjectKey, LiveWorkload)| WorkloadAnswer::of_live(key, "shop", live, None);
        let workloads = workloads.iter().map(row).collect();
        let answer =
            StatusAnswer { cluster: None, unanswered: None, sources: Vec::new(), workloads, objects: Vec::new() };
        let frame = Frame { now: Timestamp::UNIX_EPOCH, headline: worst(&[]), here: "/" };
        let mut answer = answer;
        sort_by_harm(&mut answer.workloads);
        let told = CommitInfo {
            subject: "Cache headers for images of the shop's front".to_owned(),
            author: "Ada Lovelace".to_owned(),
            email: None,
            authored: None,
        };
        let told = [(COMMIT.parse().unwrap(), told)].into();
        assemble(frame, asked, &status, answer, &told).unwrap().render().unwrap()
    }

    fn live(standing: Standing) -> LiveWorkload {
        let counters = Counters { desired: 4, total: 4, updated: 4, ready: 4, available: 4 };
        LiveWorkload {
            commit: Some(COMMIT.parse().unwrap()),
            standing: Some(standing),
            counters,
            message: "all 4 replicas are available".to_owned(),
            ..LiveWorkload::default()
        }
    }

    #[test]
    fn a_thousand_workloads_are_a_small_page() {
        let names = (0..1000).map(|number| format!("a-service-with-quite-a-name-{number:04}"));
        let workloads: Vec<_> = names.map(|name| (key(&name), live(Standing::Complete))).collect();
        let html = rendered(&workloads, OverviewAsked::default());
        assert_eq!(html.matches("<tr").count(), 1001);
        assert!(html.len() <= 500_000, "{} bytes", html.len());
    }

    /// Half of them are held, each by a commit of its own, with a reason as Kubernetes says it. Bytes are counted: how
    /// long it takes is measured by `cargo bench --bench page`.
    #[test]
    fn half_of_a_thousand_workloads_may_fail_and_the_page_is_small() {
        let workloads: Vec<_> = (0..1000).map(|number| (key(&format!("a-service-with-quite-a-name-{number:04}")), {
            let hold = json!({"manifest": "", "template": "", "commit": format!("{number:040x}"), "since": HELD,
                "reason": format!("the rollout exceeded its progress deadline: pod a-service-with-quite-a-name-{number:04}-7f9c5d8b6-x2x7k \
                    is CrashLoopBackOff (container app, exit code 1): back-off 40s restarting failed container=app \
                    pod=a-service-with-quite-a-name-{number:04}-7f9c5d8b6-x2x7k_shop(5a0c6f0e-1d8e-4b57-9f38-2a6a2c1a7b11)")});
            let hold = (number % 2 == 0).then(|| serde_json::from_value(hold).unwrap());
            LiveWorkload { hold, ..live(Standing::Complete) }
        })).collect();
        let html = rendered(&workloads, OverviewAsked::default());
        assert_eq!(html.matches("<tr").count(), 1001);
        assert!(html.len() <= 500_000, "{} bytes", html.len());
        assert_eq!(html.matches("a new pod crashes: exit code 1").count(), 500, "each has its reason at sight");
        let whole = html.matches("<details").count();
        assert!(whole > 50 && html.contains(&format!("The last {} rows are short", 1000 - whole)), "{whole}: {html}");
        // The whole reason of a short row is on the page of its workload, and above with a filter.
        assert_eq!(html.matches("href=\"/workloads/shop/Deployment/shop/").count(), 1000);
        let one = OverviewAsked { q: "a-service-with-quite-a-name-0998".to_owned(), ..OverviewAsked::default() };
        let one = rendered(&workloads, one);
        assert!(one.contains("back-off 40s") && !one.contains("rows are short"), "{one}");
    }

    #[test]
    fn a_page_has_so_many_rows_and_says_that_there_are_more() {
        let workloads: Vec<_> =
            (0..ROWS + 7).map(|number| (key(&format!("{number:05}")), live(Standing::Complete))).collect();
        let html = rendered(&workloads, OverviewAsked::default());
        assert_eq!(html.matches("<tr").count(), ROWS + 1);
        assert!(html.contains("2007 of 2007") && html.contains("The first 2000: filter to see the others."));
    }

    #[test]
    fn the_most_harmful_rows_unfold() {
        let live = LiveWorkload { failure: Some("it failed: ".repeat(9)), ..live(Standing::Failed) };
        let workloads: Vec<_> = (0..UNFOLDING + 7).map(|number| (key(&format!("{number:05}")), live.clone())).collect();
        let html = rendered(&workloads, OverviewAsked::default());
        assert_eq!(html.matches("<details").count(), UNFOLDING);
        assert_eq!(html.matches(": it failed</td>").count(), 7, "{html}");
    }

    #[test]
    fn what_is_wrong_comes_first_and_the_address_filters() {
        let workloads = [
            (key("a"), live(Standing::Complete)),
            (key("b"), live(Standing::Moving)),
            (key("c"), live(Standing::Failed)),
        ];
        let html = rendered(&workloads, OverviewAsked::default());
        let at = |name: &str| html.find(&format!(">Deployment shop/{name}</a>"));
        assert!(at("c").unwrap() < at("b").unwrap() && at("b").unwrap() < at("a").unwrap());
        let filtered = |asked: OverviewAsked| rendered(&workloads, asked).matches(">Deployment shop/").count();
        let state = |state: &str| OverviewAsked { state: state.to_owned(), ..OverviewAsked::default() };
        assert_eq!([filtered(state("failed")), filtered(state("held")), filtered(state(""))], [1, 0, 3]);
        assert_eq!([filtered(state("ok")), filtered(state("complete")), filtered(state("rolling-out"))], [1, 1, 1]);
        assert!(html.contains("href=\"/?state=failed\"") && html.contains("1 rolling out"), "{html}");
        assert_eq!(filtered(OverviewAsked { q: "SHOP/B".to_owned(), ..OverviewAsked::default() }), 1);
        assert_eq!(filtered(OverviewAsked { namespace: "other".to_owned(), ..OverviewAsked::default() }), 0);
        assert_eq!(filtered(OverviewAsked { source: "shop".to_owned(), ..OverviewAsked::default() }), 3);
    }
}
