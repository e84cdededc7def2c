//! Every source and every workload, problems first.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;

use super::super::Room;
use super::super::problem::Problem;
use super::super::query::QueryParams;
use super::components::{Link, Mark, PodsPicture};
use super::{Frame, in_address, refuse, write};
use crate::daemon::Status;
use crate::history::query::answers::{SourceAnswer, StatusAnswer, WorkloadAnswer};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Counters, ObjectState, Workload};

/// The number of rows that are shown at once. The filter finds the others.
const ROWS: usize = 2000;
/// The number of holds that are shown above all else.
const HOLDS: usize = 20;
/// The number of characters of a reason in a row; the whole is on the workload's page.
const REASON: usize = 160;

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
    sources: Vec<SourceRow>,
    holds: Vec<HeldRow>,
    /// The number of further ones.
    more_holds: usize,
    rows: Vec<WorkloadRow>,
    /// The total number, and the number that fit.
    total: usize,
    fitting: usize,
    states: Vec<&'static str>,
    namespaces: BTreeSet<String>,
    names: BTreeSet<String>,
}

struct SourceRow {
    name: String,
    mark: Mark,
    counts: String,
    head: Option<HeadRow>,
    looked: Option<Timestamp>,
    troubles: Vec<String>,
    warnings: Vec<String>,
}

struct HeadRow {
    commit: Link,
    subject: String,
    author: String,
}

/// Git and the cluster differ: nobody should have to search for that.
struct HeldRow {
    object: ObjectKey,
    link: String,
    since: String,
    commit: Link,
    reason: String,
}

struct WorkloadRow {
    object: ObjectKey,
    link: Option<String>,
    mark: Mark,
    commit: Option<Link>,
    pods: Option<PodsPicture>,
    source: String,
    message: String,
    since: Option<Timestamp>,
    deadline: Option<Timestamp>,
}

pub(in crate::web) async fn overview(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<OverviewAsked>,
) -> Response {
    match page(&room, asked).await {
        Ok(page) => write(StatusCode::OK, &page),
        Err(problem) => refuse(&room.shown, &problem),
    }
}

async fn page(room: &Room, asked: OverviewAsked) -> Result<Overview, Problem> {
    let status = room.shown.status.borrow().clone();
    let heads: Vec<CommitId> = status.sources.values().filter_map(|source| source.planned.clone()).collect();
    let told = room.history.ask(move |history| {
        let told = |head: CommitId| Ok(history.told(&head)?.map(|told| (head, told.subject, told.author)));
        heads.into_iter().filter_map(|head| told(head).transpose()).collect::<Result<Vec<_>, _>>()
    });
    // The page is shown also while the history can't be read: it says so itself.
    let told = told.await.unwrap_or_default();
    let answer = room.status().await?;
    let sources = answer.sources.iter().map(|of| SourceRow::of(of, &told)).collect();
    Ok(assemble(Frame::of(&room.shown, "/"), asked, sources, &status, answer))
}

impl SourceRow {
    /// Returns a source as the API answers it, with the subject and author of the commits in `told`.
    fn of(answer: &SourceAnswer, told: &[(CommitId, String, String)]) -> SourceRow {
        let head = answer.head.as_ref().map(|head| {
            let known = told.iter().find(|(known, ..)| known == head);
            let (subject, author) =
                known.map(|(_, subject, author)| (subject.clone(), author.clone())).unwrap_or_default();
            HeadRow { commit: Link(head.clone()), subject, author }
        });
        let repository = answer.trouble.as_ref().map(|trouble| format!("repository: {}", trouble.message));
        let troubles = answer.troubles.iter().map(|(place, what)| format!("{place}: {what}"));
        SourceRow {
            name: answer.source.clone(),
            mark: Mark::of_source(answer.state),
            counts: answer.objects.to_string(),
            head,
            looked: answer.looked,
            troubles: answer.waits_for.iter().cloned().chain(repository).chain(troubles).collect(),
            warnings: answer.warning_lines().collect(),
        }
    }
}

fn assemble(
    frame: Frame,
    asked: OverviewAsked,
    sources: Vec<SourceRow>,
    status: &Status,
    answer: StatusAnswer,
) -> Overview {
    let mut all: Vec<WorkloadAnswer> = answer.workloads;
    all.extend(answer.objects);
    let namespaces = all.iter().filter_map(|row| row.object.namespace.clone()).collect();
    let mut states: Vec<ObjectState> = all.iter().map(|row| row.state).collect();
    states.sort();
    states.dedup();
    let total = all.len();
    all.retain(|row| asked.fits(row));
    all.sort_by(|a, b| (urgency(a.state), &a.source, &a.object).cmp(&(urgency(b.state), &b.source, &b.object)));
    let fitting = all.len();
    let held = || status.sources.iter().flat_map(|(source, of)| of.held.iter().map(move |held| (source, held)));
    let holds: Vec<HeldRow> = held()
        .take(HOLDS)
        .map(|(source, (object, held))| HeldRow {
            object: object.clone(),
            link: address(source, object),
            since: held.since.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            commit: Link(held.commit.clone()),
            reason: held.reason.clone(),
        })
        .collect();
    let rows = all.into_iter().take(ROWS).map(|row| WorkloadRow::of(row, status)).collect();
    Overview {
        frame,
        asked,
        names: sources.iter().map(|source| source.name.clone()).collect(),
        sources,
        more_holds: held().count() - holds.len(),
        holds,
        rows,
        total,
        fitting,
        states: states.into_iter().map(ObjectState::word).collect(),
        namespaces,
    }
}

/// Returns the rank of a state: trouble comes first, then progress, then waiting.
fn urgency(state: ObjectState) -> u8 {
    match state {
        _ if state.is_wrong() => 0,
        ObjectState::Waiting | ObjectState::Suspended => 2,
        _ if state.is_open() => 1,
        ObjectState::Orphaned | ObjectState::Unknown => 3,
        _ => 4,
    }
}

impl OverviewAsked {
    fn fits(&self, row: &WorkloadAnswer) -> bool {
        let is = |asked: &str, value: &str| asked.is_empty() || asked == value;
        let text = self.q.to_lowercase();
        let has = |value: &str| value.to_lowercase().contains(&text);
        is(&self.state, row.state.word())
            && is(&self.namespace, row.object.namespace.as_deref().unwrap_or_default())
            && is(&self.source, &row.source)
            && (has(&row.object.to_string()) || has(&row.message) || has(&row.commit))
    }
}

impl WorkloadRow {
    fn of(row: WorkloadAnswer, status: &Status) -> WorkloadRow {
        let live = status.sources.get(&row.source).and_then(|source| source.workloads.get(&row.object));
        let is_workload = Workload::of(&row.object).is_some();
        let counters = live.map_or(Counters { desired: row.desired, ..Counters::default() }, |live| live.counters);
        WorkloadRow {
            link: is_workload.then(|| address(&row.source, &row.object)),
            mark: Mark::of(row.state),
            commit: row.commit.parse().ok().map(Link),
            pods: is_workload.then_some(PodsPicture(counters)),
            message: shortened(&row.message, row.state),
            since: row.since,
            deadline: row.deadline,
            source: row.source,
            object: row.object,
        }
    }
}

/// Returns the address of a workload's page.
pub(super) fn address(source: &str, key: &ObjectKey) -> String {
    let parts = [source, &key.kind, key.namespace.as_deref().unwrap_or("-"), &key.name];
    format!("/workloads/{}", parts.map(in_address).join("/"))
}

/// Returns a reason as it fits in a row. A row shows anyway that all pods are there.
fn shortened(message: &str, state: ObjectState) -> String {
    if state == ObjectState::Complete {
        String::new()
    } else {
        belay_core::manifest::shortened(message, REASON).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::components::Mark;
    use super::*;
    use crate::daemon::SourceStatus;
    use belay_core::rollout::health::Standing;
    use belay_core::rollout::{LiveWorkload, SourceState};

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

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
        let worst = Mark::of_source(SourceState::Synced);
        let frame = Frame { now: Timestamp::UNIX_EPOCH, worst, here: "/" };
        assemble(frame, asked, Vec::new(), &status, answer).render().unwrap()
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
        assert_eq!(html.matches("<tr>").count(), 1001);
        assert!(html.len() <= 500_000, "{} bytes", html.len());
    }

    #[test]
    fn a_page_has_so_many_rows_and_says_that_there_are_more() {
        let workloads: Vec<_> =
            (0..ROWS + 7).map(|number| (key(&format!("{number:05}")), live(Standing::Complete))).collect();
        let html = rendered(&workloads, OverviewAsked::default());
        assert_eq!(html.matches("<tr>").count(), ROWS + 1);
        assert!(html.contains("2007 of 2007") && html.contains("The first 2000: filter to see the others."));
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
        assert_eq!(filtered(OverviewAsked { q: "SHOP/B".to_owned(), ..OverviewAsked::default() }), 1);
        assert_eq!(filtered(OverviewAsked { namespace: "other".to_owned(), ..OverviewAsked::default() }), 0);
        assert_eq!(filtered(OverviewAsked { source: "shop".to_owned(), ..OverviewAsked::default() }), 3);
    }
}
