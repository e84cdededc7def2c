//! Verdicts against what the pods of an image can only do.

use std::collections::BTreeMap;

use super::super::api_proxy::Exchange;
use super::super::events::{Actor, Hand};
use super::super::findings::{Finding, Findings, hold, is_workload, key_of_path, template};
use super::super::history_rows::{Open, Record};
use super::super::repository::Key;
use super::super::run::Run;
use super::super::scenario::Will;

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

/// Checks that a revision that can only fail never counts as complete, and that one that can only succeed never fails,
/// and never is rolled back.
pub fn follows_the_pods(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("follows-the-pods");
    for record in run.records().filter(|record| is_workload(&record.key) && record.rolls_out) {
        let want = run.commits.get(&record.commit).and_then(|commit| commit.objects.get(&record.key));
        let will = run.will(want.and_then(|want| want.fate));
        let outcome = record.outcome.as_str();
        let failed = ["failed", "rolled-back", "rollback-failed", "rolling-back"].contains(&outcome);
        let wrong = match will {
            Will::Succeed => failed && !by_hand(record) && !for_another(record) && !is_hindered(run, record),
            Will::Fail => outcome == "complete",
            Will::Either => false,
        };
        findings.demand(!wrong, || format!("{will:?}, and it is {outcome}: {}", short(record)));
    }
    findings.all
}

/// Returns true when a canary could not go on: a quota refused its next step, or a second belay has put a pod of another version
/// that is not ready among those that its controller leaves alone.
pub(super) fn is_hindered(run: &Run, record: &Record) -> bool {
    if !record.steps.iter().any(|(_, step, _)| step == "canary") {
        return false;
    }
    if record.reason.starts_with("Forbidden") {
        let is_full = |at: u64| {
            run.acting(Actor::Quota).any(|quota| quota.key == record.key && (quota.from..=quota.to).contains(&at))
        };
        let is_refused = |exchange: &Exchange| exchange.done.as_ref().is_some_and(|(code, _)| *code == 403);
        return written_for(run, record).any(|exchange| is_refused(exchange) && is_full(exchange.begun));
    }
    record.reason.starts_with("ControllerSilent") && record.key.0 != "Deployment" && met_a_rival(run, record)
}

/// Returns the writes of an object while a record of it was open.
fn written_for<'r>(run: &'r Run, record: &'r Record) -> impl Iterator<Item = &'r Exchange> {
    let is_its = |open: &Open| open.number == record.number && open.commit == record.commit;
    run.wire.iter().filter(move |exchange| {
        key_of_path(&exchange.path).as_ref() == Some(&record.key) && exchange.open.iter().any(is_its)
    })
}

/// Returns true when two belays, of which nothing decided which may, wrote an object while a record of it was open.
fn met_a_rival(run: &Run, record: &Record) -> bool {
    let begun = || written_for(run, record).map(|exchange| exchange.begun);
    begun().min().zip(begun().max()).is_some_and(|(first, last)| run.met_rival(&record.key, &(first..=last)))
}

/// Returns true when a person has rolled it back.
fn by_hand(record: &Record) -> bool {
    record.reason.starts_with("UndoneByHand")
}

/// Returns true when it went back because another of its commit failed.
fn for_another(record: &Record) -> bool {
    record.trigger == "together" || record.reason.starts_with("CommitFailed")
}

/// Checks that the reason of a rollback is saved before it begins.
pub fn keeps_the_evidence(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("keeps-the-evidence");
    for record in run.records().filter(|record| is_workload(&record.key) && !by_hand(record)) {
        if !["rolled-back", "rollback-failed"].contains(&record.outcome.as_str()) || for_another(record) {
            continue;
        }
        let has = |record: &Record, wanted: &str| record.steps.iter().any(|(_, what, _)| what == wanted);
        // A rollback from before its history was lost has its evidence there.
        let elsewhere =
            |other: &Record| (&other.key, &other.commit) == (&record.key, &record.commit) && has(other, "evidence");
        if !has(record, "went-back") && !has(record, "evidence") && run.records().any(elsewhere)
            || is_hindered(run, record)
        {
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

/// Checks that a revision that crashed again and again when it was replaced is not gone back to.
pub fn never_back_to_the_unwell(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("never-back-to-the-unwell");
    // By object and template: in whose books it stands that it was not well.
    let mut unwell: BTreeMap<(Key, (String, String)), usize> = BTreeMap::new();
    for (key, exchange) in run.applies().filter(|(key, _)| is_workload(key)) {
        let Some(sent) = template(&exchange.body) else { continue };
        let state = run.lives[exchange.process].state;
        let person = run.hands_on(&key).any(|handled| matches!(handled.hand, Hand::Undo | Hand::Image | Hand::Retry));
        if hold(&exchange.body).is_some() {
            let known = unwell.get(&(key.clone(), sent.clone())) == Some(&state);
            findings.demand(!known || person || run.had_twin(), || {
                format!("{key:?} goes back to {sent:?} at {}, which crashed when it was replaced", exchange.begun)
            });
            continue;
        }
        // A revision that is complete anew is judged anew.
        unwell.remove(&(key.clone(), sent.clone()));
        let seen = exchange.crashing.clone().filter(|crashing| *crashing != sent);
        // A revision that can't be inspected is believed to be as it was.
        let stormy =
            run.storms.iter().any(|(from, to)| *from < exchange.begun && to.saturating_add(60_000) > exchange.begun);
        if let Some(crashing) = seen.filter(|_| !stormy) {
            unwell.insert((key, crashing), state);
        }
    }
    findings.all
}

/// Returns a record without its evidence.
pub fn short(record: &Record) -> String {
    let Record { number, commit, key, trigger, outcome, reason, steps, .. } = record;
    let steps: Vec<&str> = steps.iter().map(|(_, step, _)| step.as_str()).collect();
    format!("record {number} of {key:?} at {} by {trigger}: {outcome}, {reason} {steps:?}", &commit[..7])
}
