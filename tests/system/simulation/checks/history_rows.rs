//! The books: nothing lost, nothing twice, nothing without an end; and complaints that point.

use std::collections::{BTreeMap, BTreeSet};

use super::super::findings::{Finding, Findings};
use super::super::history_rows::{HistoryRows, Record};
use super::super::repository::Key;
use super::super::run::Run;
use super::pods::short;

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
    for books in &run.books {
        for (plan, _) in &books.plans {
            let of_plan = || books.records.iter().filter(|record| record.plan == *plan && record.trigger == "commit");
            let written = |record: &Record| {
                record.steps.iter().find(|(_, what, _)| what == "applying").map(|(at, _, _)| at.clone())
            };
            let first = of_plan().filter_map(written).min();
            for record in of_plan() {
                let late = first.as_ref().is_some_and(|first| record.started > *first);
                findings.demand(!late, || format!("joined its plan late: {}", short(record)));
            }
        }
    }
    findings.all
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
