//! Verdicts against what the pods of an image can only do.

use super::super::books::Record;
use super::super::findings::{Finding, Findings, is_workload};
use super::super::run::Run;
use super::super::scenario::{Fate, Will};

/// belay comes to an end once nothing disturbs any more, and every record has an end.
pub fn settles(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("settles");
    findings.demand(run.settled, || format!("not within its time after the last disturbance: {:#}", run.status));
    if run.settled {
        for record in run.main_books().into_iter().flat_map(|books| &books.records) {
            findings.demand(record.ended.is_some(), || format!("a record is still open: {record:?}"));
        }
    }
    findings.all
}

/// What can only fail never counts as complete; what can only succeed never fails, and never is taken back.
pub fn follows_the_pods(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("follows-the-pods");
    for record in run.records().filter(|record| is_workload(&record.key) && record.rolls_out) {
        let want = run.commits.get(&record.commit).and_then(|commit| commit.objects.get(&record.key));
        let will = want.and_then(|want| want.fate).map_or(Will::Either, Fate::will);
        let outcome = record.outcome.as_str();
        let failed = ["failed", "rolled-back", "rollback-failed", "rolling-back"].contains(&outcome);
        let wrong = match will {
            Will::Succeed => failed && !by_hand(record) && !for_another(record),
            Will::Fail => outcome == "complete",
            Will::Either => false,
        };
        findings.demand(!wrong, || format!("{will:?}, and it is {outcome}: {}", short(record)));
    }
    findings.all
}

/// Whether a person has taken it back.
fn by_hand(record: &Record) -> bool {
    record.reason.starts_with("UndoneByHand")
}

/// Whether it went back because another of its commit failed.
fn for_another(record: &Record) -> bool {
    record.trigger == "together" || record.reason.starts_with("CommitFailed")
}

/// Why something went back is saved before it goes.
pub fn keeps_the_evidence(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("keeps-the-evidence");
    for record in run.records().filter(|record| is_workload(&record.key) && !by_hand(record)) {
        if !["rolled-back", "rollback-failed"].contains(&record.outcome.as_str()) || for_another(record) {
            continue;
        }
        let list = |name: &str| {
            let evidence = record.evidence.as_ref().and_then(|evidence| evidence[name].as_array());
            evidence.map_or(0, Vec::len)
        };
        findings.demand(list("pods") + list("missing") > 0, || format!("nothing of its pods: {}", short(record)));
        let at = |step: &str| record.steps.iter().position(|(_, what, _)| what == step);
        let ordered = at("evidence").zip(at("went-back")).is_none_or(|(saved, went)| saved < went);
        findings.demand(ordered && at("evidence").is_some(), || format!("not saved before: {}", short(record)));
    }
    findings.all
}

/// A record without its evidence.
pub fn short(record: &Record) -> String {
    let Record { number, commit, key, trigger, outcome, reason, steps, .. } = record;
    let steps: Vec<&str> = steps.iter().map(|(_, step, _)| step.as_str()).collect();
    format!("record {number} of {key:?} at {} by {trigger}: {outcome}, {reason} {steps:?}", &commit[..7])
}
