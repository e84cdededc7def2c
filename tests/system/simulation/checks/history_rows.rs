//! The books: nothing lost, nothing twice, nothing without an end; and complaints that point.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::api_proxy::Exchange;
use super::super::findings::{Finding, Findings, key_of_path};
use super::super::history_rows::{HistoryRows, Record};
use super::super::repository::Key;
use super::super::run::Run;
use super::pods::short;
use crate::support::daemon::EPOCH;

/// Returns every manifest that a planned head changed has exactly one record of that plan, and what was in the books
/// stays there.
pub fn one_record(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("one-record");
    for books in &run.books {
        let mut before: Option<&str> = None;
        for (plan, head) in &books.plans {
            changed(run, books, *plan, before, head, &mut findings);
            before = Some(head);
        }
        for record in &books.records {
            let ends = record.steps.iter().filter(|(_, step, _)| step == "ended").count();
            findings.demand(ends == usize::from(record.ended.is_some()), || format!("{ends} ends: {}", short(record)));
        }
    }
    for exchange in &run.wire {
        let books = &run.books[run.lives[exchange.process].state];
        for open in &exchange.open {
            let kept = books.records.iter().chain(&books.beside).any(|record| record.number == open.number);
            findings.demand(kept, || format!("record {} is lost: {open:?}", open.number));
        }
    }
    findings.all
}

/// The objects that differ between two heads, against the records of the later one's plan.
fn changed(run: &Run, books: &HistoryRows, plan: i64, before: Option<&str>, head: &str, findings: &mut Findings) {
    let Some(now) = run.commits.get(head) else {
        findings.add(format!("plan {plan} is for {head}, which was never pushed"));
        return;
    };
    let was = before.and_then(|before| run.commits.get(before)).map(|commit| &commit.objects);
    let mut count: BTreeMap<&Key, usize> = BTreeMap::new();
    for record in books.records.iter().filter(|record| record.plan == plan && record.trigger == "commit") {
        *count.entry(&record.key).or_default() += 1;
    }
    for (key, want) in &now.objects {
        let differs = was.and_then(|was| was.get(key)).is_none_or(|was| was.text != want.text);
        let records = count.get(key).copied().unwrap_or_default();
        if differs {
            findings.demand(records == 1, || format!("{records} records of {key:?} for plan {plan} of {}", &head[..7]));
        }
        findings.demand(records < 2, || format!("{records} records of {key:?} for plan {plan} of {}", &head[..7]));
    }
}

/// Checks that a failed record, whose workload was on its way back, does not become a success or merely superseded.
pub fn failures_stay(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("failures-stay");
    for record in run.records() {
        let failed = record.steps.iter().any(|(_, step, _)| step == "going-back");
        let kept = !["superseded", "complete", "unchanged"].contains(&record.outcome.as_str());
        findings.demand(!failed || kept, || format!("it had failed: {}", short(record)));
    }
    findings.all
}

/// The plan is complete before the first write of it.
pub fn plan_before_write(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("plan-before-write");
    if !run.jumps.is_empty() {
        // The books' times are not comparable then.
        return Vec::new();
    }
    for (state, books) in run.books.iter().enumerate() {
        let mut before: Option<&str> = None;
        for (plan, head) in &books.plans {
            let before = before.replace(head.as_str());
            let of_plan = || books.records.iter().filter(|record| record.plan == *plan && record.trigger == "commit");
            let written = |record: &Record| {
                record.steps.iter().find(|(_, what, _)| what == "applying").map(|(at, _, _)| at.clone())
            };
            let first = of_plan().filter_map(written).min();
            for record in of_plan() {
                let Some(first) = first.as_ref().filter(|first| record.started > **first) else { continue };
                let is_searched_for = is_searched_for(run, record, (before, head));
                let in_time = is_searched_for || is_not_served(run, state, record, (head, first));
                findings.demand(in_time, || format!("joined its plan late: {}", short(record)));
            }
        }
    }
    findings.all
}

/// Returns true when a record is about an object that neither its head has, nor the head before it, as far as these books know:
/// a search through the cluster finds it, which no plan waits for.
fn is_searched_for(run: &Run, record: &Record, (before, head): (Option<&str>, &str)) -> bool {
    let has = |head: &str| run.commits.get(head).is_some_and(|commit| commit.objects.contains_key(&record.key));
    !has(head) && before.is_none_or(|before| !has(before))
}

/// Returns true when a record is about an object that has left with its head, and that was not served in time when that was
/// planned: it is looked for again, and the plan does not wait for it.
fn is_not_served(run: &Run, state: usize, record: &Record, (head, first): (&str, &str)) -> bool {
    /// The time for which a plan waits for one object alone.
    const PATIENCE: u64 = 2000;
    let has = run.commits.get(head).is_none_or(|commit| commit.objects.contains_key(&record.key));
    let pushed = run.pushed.iter().filter(|pushed| pushed.commit == head).map(|pushed| pushed.at).min();
    let slow = |asked: &&Exchange| asked.heard.is_none_or(|heard| heard >= asked.begun + PATIENCE);
    let reads = run.wire.iter().filter(|asked| asked.method == "GET" && run.lives[asked.process].state == state);
    let mut reads = reads.filter(|asked| key_of_path(&asked.path).as_ref() == Some(&record.key)).filter(slow);
    let first = since_start(first);
    !has && pushed.is_some_and(|pushed| reads.any(|read| (pushed..first).contains(&read.begun)))
}

/// Returns a time of the books in milliseconds from the start.
pub(super) fn since_start(at: &str) -> u64 {
    let time = |text: &str| text.parse::<Timestamp>().expect("a time").as_millisecond();
    u64::try_from(time(at) - time(EPOCH)).unwrap_or_default()
}

/// Returns a file that nobody can read is complained about, with its path and line, by the plan that first has it so.
pub fn errors_point(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("errors-point");
    for books in &run.books {
        let mut before: BTreeSet<&String> = BTreeSet::new();
        for (plan, head) in &books.plans {
            let Some(commit) = run.commits.get(head) else { continue };
            for path in commit.broken.iter().filter(|path| !before.contains(path)) {
                let full = format!("apps/{}", path.trim_start_matches("apps/"));
                let points = books.records.iter().filter(|record| record.plan == *plan).any(|record| {
                    let here = |(at, line, text): &(String, i64, String)| {
                        full.ends_with(at.as_str()) && *line > 0 && !text.is_empty()
                    };
                    record.outcome == "rejected" && record.complaints.iter().any(here)
                });
                findings.demand(points, || format!("plan {plan} of {} says nothing of {path}", &head[..7]));
            }
            before = commit.broken.iter().collect();
        }
    }
    findings.all
}
