//! `belay history` by commit: a line each, with the outcomes of its objects.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::TryStreamExt as _;
use jiff::Timestamp;

use crate::cli::output::answer::RecordAnswer;
use crate::cli::output::table::{Cell, Table, state};
use crate::cli::output::{Format, age, counted, cut, duration, plain, say, terminal_width};
use crate::cli::session::history_access::HistoryAccess;
use crate::history::{FAILED, Query};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState, Outcome, Record, StateCounts, Trigger};

/// The number of records that are read at once in a search for commits.
const PAGE: u32 = 1000;
/// The number of commits that are read at a time.
const AT_A_TIME: usize = 4;

/// A commit, with the newest record of each object that it changed, the newest first.
pub(in crate::cli) struct CommitRecords {
    pub commit: CommitId,
    pub records: Vec<RecordAnswer>,
    /// The records of corrected drift: they are no rollouts of the commit.
    pub corrected: Vec<RecordAnswer>,
}

/// Returns the newest commits with records that fit, at most so many, the newest first.
pub(in crate::cli) async fn newest(
    view: &HistoryAccess,
    query: &Query,
    limit: u32,
) -> anyhow::Result<Vec<CommitRecords>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut order: Vec<CommitId> = Vec::new();
    let mut known: BTreeSet<CommitId> = BTreeSet::new();
    let mut older_than = None;
    while order.len() < limit {
        let page = view.records(&Query { older_than, limit: Some(PAGE), ..query.clone() }).await?;
        older_than = page.last().map(|record| record.id);
        let is_last = u32::try_from(page.len()).is_ok_and(|count| count < PAGE);
        for record in page {
            if order.len() < limit && known.insert(record.commit.clone()) {
                order.push(record.commit);
            }
        }
        if is_last {
            break;
        }
    }
    let commits = futures::stream::iter(order).map(|commit| of_commit(view, query, commit));
    let mut commits: Vec<CommitRecords> = commits.buffered(AT_A_TIME).try_collect().await?;
    commits.sort_by_key(|one| std::cmp::Reverse(one.shown().iter().map(|of| of.record.started).max()));
    Ok(commits)
}

impl CommitRecords {
    /// Returns the subject of its line: its rollouts, or if there are none the corrected drift.
    fn shown(&self) -> &[RecordAnswer] {
        if self.records.is_empty() { &self.corrected } else { &self.records }
    }
}

/// Returns true when a record only corrected a change by others.
fn is_correction(record: &Record) -> bool {
    let is_well =
        matches!(record.outcome, Outcome::Complete | Outcome::Unchanged | Outcome::Superseded | Outcome::Unknown);
    matches!(record.trigger, Trigger::Drift(_)) && is_well
}

async fn of_commit(view: &HistoryAccess, query: &Query, commit: CommitId) -> anyhow::Result<CommitRecords> {
    let query = Query { commit: Some(commit.to_string()), limit: None, ..query.clone() };
    let all = view.answers(&query).await?.into_iter();
    let (corrected, all): (Vec<RecordAnswer>, Vec<RecordAnswer>) = all.partition(|of| is_correction(&of.record));
    let mut seen: BTreeSet<(String, ObjectKey)> = BTreeSet::new();
    let is_newest = |of: &RecordAnswer| seen.insert((of.record.source.clone(), of.record.object.clone()));
    let records = all.into_iter().filter(is_newest).collect();
    Ok(CommitRecords { commit, records, corrected })
}

/// Prints commits, the newest first.
pub(in crate::cli) fn print(commits: &[CommitRecords], format: Format, now: Timestamp) {
    match format {
        Format::Name => commits.iter().for_each(|one| say(one.commit.as_str())),
        _ if commits.is_empty() => say("Nothing was rolled out."),
        _ => {
            let width = if format == Format::Wide { None } else { terminal_width() };
            table(commits, format, now).lines_within(width).iter().for_each(say);
        }
    }
}

fn table(commits: &[CommitRecords], format: Format, now: Timestamp) -> Table {
    let mut headings = vec!["COMMIT", "AGE", "OBJECTS", "OUTCOME", "TOOK", "AUTHOR", "SUBJECT"];
    if format == Format::Wide {
        headings.extend(["BEGAN", "SOURCES"]);
    }
    let mut table = Table::new(&headings).whole(&["OBJECTS"]).optional(&["AUTHOR", "TOOK", "SUBJECT"]);
    for one in commits {
        let (commit, shown) = (&one.commit, one.shown());
        let told = shown.first().map(|first| (first.author.as_ref(), first.subject.as_ref())).unwrap_or_default();
        let records: Vec<&Record> = shown.iter().map(|of| &of.record).collect();
        let began = records.iter().map(|record| record.started).min().unwrap_or(now);
        let took = records.iter().filter_map(|record| Some(record.ended?.duration_since(record.started))).max();
        let mut row: Vec<Cell> = vec![
            commit.short().into(),
            age(began, now).into(),
            objects(&records).into(),
            outcomes(&records),
            took.map(duration).unwrap_or_default().into(),
            told.0.map(|author| cut(&author.name, 20)).unwrap_or_default().into(),
            told.1.map(|subject| cut(subject, 60)).unwrap_or_default().into(),
        ];
        if format == Format::Wide {
            let sources: BTreeSet<&str> = records.iter().map(|record| record.source.as_str()).collect();
            row.push(format!("{began:.0}").into());
            row.push(sources.into_iter().collect::<Vec<_>>().join(", ").into());
        }
        table.row(row);
        reasons(commit, &records).into_iter().for_each(|line| table.below(line));
        correction(&one.corrected, now).into_iter().for_each(|line| table.below(line));
    }
    table
}

/// Returns the object that a commit changed, or how many.
fn objects(records: &[&Record]) -> String {
    match records {
        [one] => one.object.to_string(),
        several => format!("{} objects", several.len()),
    }
}

/// Returns the outcome of the objects: of several, the count of each state, problems first, in the colour of the worst.
fn outcomes(records: &[&Record]) -> Cell {
    let mut counts = StateCounts::default();
    records.iter().for_each(|record| counts.count(record.outcome.state()));
    let worst = worst_first(records).first().map_or(ObjectState::Unknown, |record| record.outcome.state());
    let cell = state(worst);
    let cell = if records.len() == 1 { cell } else { cell.saying(&counts.to_string()) };
    let is_rebuilt = records.iter().all(|record| record.trigger == Trigger::Rebuilt);
    if is_rebuilt { cell.and(" (rebuilt)") } else { cell }
}

/// Returns how often drift was corrected, and when last.
fn correction(corrected: &[RecordAnswer], now: Timestamp) -> Option<String> {
    let last = corrected.iter().map(|of| &of.record).max_by_key(|record| record.started)?;
    let times = counted(corrected.len(), "time");
    let who = last.trigger.who().map(|who| format!(" by {}", plain(&who))).unwrap_or_default();
    Some(format!("          └ drift{who} was put right {times}, last {} ago: {}", age(last.started, now), last.object))
}

fn worst_first<'r>(records: &[&'r Record]) -> Vec<&'r Record> {
    let mut records = records.to_vec();
    records.sort_by_key(|record| {
        let state = record.outcome.state();
        (!state.is_wrong(), !state.is_open())
    });
    records
}

/// Returns why the worst of them ended as it did, and how many more have a reason.
fn reasons(commit: &CommitId, records: &[&Record]) -> Vec<String> {
    let explained: Vec<&Record> = worst_first(records).into_iter().filter(|record| is_explained(record)).collect();
    let Some((first, others)) = explained.split_first() else { return Vec::new() };
    let reason = first.reason.as_ref().map(|reason| plain(&reason.message)).unwrap_or_default();
    let of = if records.len() == 1 { String::new() } else { format!("{}: ", first.object) };
    let mut lines = vec![format!("          └ {of}{reason}")];
    if !others.is_empty() {
        lines.push(format!("          └ and {} more: belay show {}", others.len(), commit.short()));
    }
    lines
}

/// Returns true when the reason of such a record is shown below it. A complete one has a reason where there is more to
/// do.
pub(in crate::cli) fn is_explained(record: &Record) -> bool {
    let told = [Outcome::Held, Outcome::Complete, Outcome::Skipped, Outcome::Orphaned, Outcome::Suspended];
    record.reason.is_some() && (FAILED.contains(&record.outcome) || told.contains(&record.outcome))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::cli::session::history_view::HistoryView;
    use crate::history::History;
    use belay_core::rollout::{Commit, Person, Reason, ReasonCode};

    fn id(number: u64) -> CommitId {
        format!("{number:040x}").parse().unwrap()
    }

    fn commit(number: u64, author: &str) -> Commit {
        let at = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
        Commit {
            id: id(number),
            subject: format!("Change {number}"),
            author: Person { name: author.to_owned(), email: format!("{author}@example.com") },
            authored: at,
            committed: at,
            parents: Vec::new(),
            trailers: Vec::new(),
        }
    }

    fn record(source: &str, number: u64, name: &str, outcome: Outcome) -> Record {
        let object = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        let started = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
        let why = format!("{name} failed");
        let reason = FAILED.contains(&outcome).then_some(Reason::new(ReasonCode::Failed, why));
        let ended = started.checked_add(jiff::SignedDuration::from_secs(12)).ok();
        Record { outcome, reason, ended, ..Record::planned(source, &id(number), object, started) }
    }

    fn view(records: &[(&str, Vec<Record>)], commits: &[Commit]) -> (tempfile::TempDir, HistoryAccess) {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::from_second(10_000).unwrap();
        let (history, _) = History::open(folder.path(), now).unwrap();
        for (source, records) in records {
            history.rebuild(source, records, commits, now).unwrap();
        }
        (folder, HistoryView::from(history).into())
    }

    fn lines(view: &HistoryAccess, query: &Query, limit: u32) -> Vec<String> {
        let commits = futures::executor::block_on(newest(view, query, limit)).unwrap();
        let now = Timestamp::from_second(10_000).unwrap();
        let lines = table(&commits, Format::Table, now).lines();
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn a_commit_is_a_line_with_what_became_of_all_that_it_changed() {
        let one = vec![record("one", 1, "web", Outcome::Complete)];
        let two = [
            record("one", 2, "web", Outcome::RolledBack),
            record("one", 2, "api", Outcome::Complete),
            record("one", 2, "job", Outcome::Failed),
            // Retried: the newest counts.
            record("one", 2, "job", Outcome::Complete),
        ];
        let elsewhere = vec![record("two", 2, "web", Outcome::Complete)];
        let all = [("one", [one, two.to_vec()].concat()), ("two", elsewhere)];
        let (_folder, view) = view(&all, &[commit(1, "Ada"), commit(2, "Grace")]);
        let all = lines(&view, &Query::default(), 100);
        assert_eq!(all.len(), 4, "{all:#?}");
        assert!(all[1].starts_with("0000000   166m") && all[1].ends_with("   12s    Grace    Change 2"), "{all:#?}");
        assert!(all[1].contains("   4 objects             1 rolled-back, 3 complete   "), "{all:#?}");
        assert_eq!(all[2], "          └ Deployment shop/web: web failed");
        assert!(
            all[3].contains("   Deployment shop/web   complete                    12s    Ada      Change 1"),
            "{all:#?}"
        );
        let newest = lines(&view, &Query::default(), 1);
        assert!(newest.len() == 3 && newest[1].starts_with("0000000   166m   4 objects   "), "{newest:#?}");
        let failed = Query { outcomes: FAILED.into_iter().collect(), ..Query::default() };
        assert!(lines(&view, &failed, 100)[1].contains("2 objects"), "{:#?}", lines(&view, &failed, 100));
        let ada = Query { author: Some("ada".to_owned()), ..Query::default() };
        assert_eq!(lines(&view, &ada, 100).len(), 2);
        let since = Query { since: Timestamp::from_second(2).ok(), ..Query::default() };
        assert_eq!(lines(&view, &since, 100).len(), 3);
        let of_two = Query { source: Some("two".to_owned()), ..Query::default() };
        assert!(lines(&view, &of_two, 100)[1].contains("Deployment shop/web   complete"));
    }

    #[test]
    fn drift_is_no_rollout_of_the_commit() {
        let drift = |number: u64, second: i64| {
            let started = Timestamp::from_second(second).unwrap();
            let trigger = Trigger::Drift("kubectl-edit".to_owned());
            Record { started, trigger, ..record("one", number, "web", Outcome::Complete) }
        };
        let rolled_back = record("one", 1, "web", Outcome::RolledBack);
        let records = vec![rolled_back, record("one", 2, "api", Outcome::Complete), drift(1, 9_000), drift(1, 9_900)];
        let (_folder, view) = view(&[("one", records)], &[commit(1, "Ada"), commit(2, "Grace")]);
        let all = lines(&view, &Query::default(), 10);
        assert!(
            all[1].starts_with("0000000   166m   Deployment shop/api"),
            "the older one was not rolled out again: {all:#?}"
        );
        assert!(all[2].contains("rolled-back") && all[2].contains("166m"), "{all:#?}");
        assert_eq!(
            all[4],
            "          └ drift by kubectl-edit was put right 2 times, last 100s ago: Deployment shop/web"
        );
        // If nothing else fits, the correction is shown as such.
        let since = Query { since: Timestamp::from_second(5_000).ok(), ..Query::default() };
        let late = lines(&view, &since, 10);
        assert!(late.len() == 3 && late[2].contains("drift by kubectl-edit"), "{late:#?}");
    }

    #[test]
    fn a_commit_of_thousands_of_objects_is_one_line() {
        let many = (0..2500).map(|number| record("one", 2, &format!("web-{number}"), Outcome::Complete));
        let records = [record("one", 1, "web", Outcome::Complete)].into_iter().chain(many).collect();
        let (_folder, view) = view(&[("one", records)], &[commit(1, "Ada"), commit(2, "Grace")]);
        let all = lines(&view, &Query::default(), 2);
        assert_eq!(all.len(), 3, "{all:#?}");
        assert!(all[1].contains("2500 objects") && all[1].contains("2500 complete"), "{all:#?}");
        assert!(all[2].ends_with("Change 1"), "{all:#?}");
        assert_eq!(lines(&view, &Query::default(), 0).len(), 1);
    }
}
