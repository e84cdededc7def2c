//! The outcome of a record stays, and belongs to the right commit. A rollback ends at a template that the workload has had.

use std::collections::{BTreeMap, BTreeSet};

use super::super::api_proxy::Exchange;
use super::super::events::Hand;
use super::super::findings::{Finding, Findings, hold, is_workload, template};
use super::super::repository::Key;
use super::super::run::Run;
use super::pods::short;

/// The words of the step that corrects a verdict: a way back that was said to have failed is there after all.
const AFTER_ALL: &str = "rolled back: complete on its last good revision after all";

/// A record that has ended keeps its outcome. Only a way back that was said to have failed may be corrected, and that is
/// told.
pub fn verdicts_stay(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("verdicts-stay");
    let mut said: BTreeMap<(usize, i64), Vec<(&str, &str)>> = BTreeMap::new();
    let mut say = |state: usize, number: i64, trigger, outcome| {
        let known = said.entry((state, number)).or_default();
        if known.last().is_none_or(|(_, before)| *before != outcome) {
            known.push((trigger, outcome));
        }
    };
    for exchange in &run.wire {
        let state = run.lives[exchange.process].state;
        exchange
            .verdicts
            .iter()
            .for_each(|verdict| say(state, verdict.number, verdict.trigger.as_str(), verdict.outcome.as_str()));
    }
    for (state, books) in run.books.iter().enumerate() {
        let ended = books.records.iter().filter(|record| record.ended.is_some());
        ended.for_each(|record| say(state, record.number, record.trigger.as_str(), record.outcome.as_str()));
    }
    for (state, books) in run.books.iter().enumerate() {
        for record in &books.records {
            let outcomes = said.remove(&(state, record.number)).unwrap_or_default();
            let is_told = || record.steps.iter().any(|(_, step, words)| step == "note" && words == AFTER_ALL);
            let fine = match outcomes[..] {
                [] | [_] => true,
                [(_, "rollback-failed"), (_, "rolled-back")] => is_told(),
                // The corrections of what somebody keeps changing are one record, which is opened again for each.
                [("drift", "complete"), _] => true,
                _ => false,
            };
            findings.demand(fine, || format!("the verdict was {outcomes:?}: {}", short(record)));
        }
    }
    findings.all
}

/// A deletion is charged to a commit that does not have the object, and the one before it did.
pub fn deletions_are_charged(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("deletions-are-charged");
    for record in run.records().filter(|record| record.outcome == "pruned") {
        let has = |commit: &str| run.commits.get(commit).is_some_and(|commit| commit.objects.contains_key(&record.key));
        findings.demand(!has(&record.commit), || format!("its commit has it: {}", short(record)));
        let heads: Vec<&str> = run.pushed.iter().map(|pushed| pushed.commit.as_str()).collect();
        let mut at = heads.iter().enumerate().filter(|(_, head)| **head == record.commit).map(|(number, _)| number);
        let took_it_away = |number: usize| number.checked_sub(1).is_some_and(|before| has(heads[before]));
        let is_head = heads.contains(&record.commit.as_str());
        findings.demand(!is_head || at.any(took_it_away), || format!("another took it away: {}", short(record)));
    }
    findings.all
}

/// A workload goes back only to a template that it has had, by belay's hand or by another's. A history that was lost does not
/// know which of several versions in Git were rolled out, where they waited for a window.
pub fn goes_back_to_what_ran(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("goes-back-to-what-ran");
    let mut had: BTreeSet<(Key, (String, String))> = BTreeSet::new();
    for (key, exchange) in run.applies().filter(|(key, _)| is_workload(key)) {
        let Some(sent) = template(&exchange.body) else { continue };
        let by_hand = |hand| matches!(hand, Hand::Undo | Hand::Image | Hand::Replace);
        let person = run.hands_on(&key).any(|handled| by_hand(handled.hand));
        let new = had.insert((key.clone(), sent.clone()));
        let goes_back = hold(&exchange.body).is_some();
        findings.demand(!goes_back || !new || person || is_lost(run, &key, &sent, exchange), || {
            format!("{key:?} goes back to {sent:?} at {}, which it never had", exchange.begun)
        });
    }
    findings.all
}

/// Returns true when the history of the belay that made a write was begun after another was lost, and the version that it wrote
/// was pushed before that, in a source with windows.
fn is_lost(run: &Run, key: &Key, sent: &(String, String), exchange: &Exchange) -> bool {
    let state = run.lives[exchange.process].state;
    let began = run.lives.iter().find(|life| life.state == state).map_or(0, |life| life.from);
    let was_pushed = run
        .pushed
        .iter()
        .filter(|pushed| pushed.at < began)
        .any(|pushed| pushed.objects.get(key).is_some_and(|want| want.template.as_ref() == Some(sent)));
    state != run.lives[0].state && run.scenario.style.closed.is_some() && was_pushed
}
