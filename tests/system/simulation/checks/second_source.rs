//! The second source: whatever becomes of the first, it ends as it must by itself, or waits where it comes after it.

use super::super::findings::{Finding, Findings, hold, image};
use super::super::repository::{Key, Side};
use super::super::run::Run;
use super::super::scenario::{Order, Will};
use super::super::second_source;

/// Checks that the live objects of the second source are as in its folder, unless they can only fail.
pub fn sources_apart(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("sources-apart");
    let Some(order) = run.scenario.style.second else { return findings.all };
    let Some(head) = run.commits.get(&run.head().commit) else { return findings.all };
    verdicts(run, &mut findings);
    let shop = &run.status["sources"]["shop"];
    let none = |field: &str| shop[field].as_object().is_none_or(serde_json::Map::is_empty);
    let well = none("held") && none("trouble") && head.broken.is_empty() && shop["waits"].is_null();
    // A source that waits for one that is not well waits; that it goes on where all is well is the question.
    if !run.settled || order == Order::After && !(well && all_well(run)) {
        return findings.all;
    }
    if let Some(side) = head.beside.plain {
        ends(run, "Deployment", "side-plain", side, &mut findings);
    }
    if let Some(side) = head.beside.controller {
        ends(run, "ReplicationController", "side-rc", side, &mut findings);
        let controllers: Vec<&str> =
            run.live.keys().filter(|key| key.0 == "ReplicationController").map(|key| key.1.as_str()).collect();
        // One of two daemons without a Lease may leave what the other has begun.
        findings.demand(controllers.len() == 1 || run.had_rival(), || {
            format!("there is more than one controller: {controllers:?}")
        });
    }
    if let Some((key, _)) = second_source::job_of(&head.beside) {
        // A Job that has run is not run again, though the store that knew of it is gone.
        let has_run = !run.restores.is_empty();
        findings
            .demand(has_run || run.live.contains_key(&key), || format!("{key:?} is not there, and the head has it"));
    }
    findings.all
}

/// Returns true when every newest record of the first source is one of success.
fn all_well(run: &Run) -> bool {
    let Some(books) = run.main_books() else { return false };
    run.head().objects.keys().all(|key| {
        let newest = books.records.iter().rev().find(|record| record.key == *key);
        newest.is_some_and(|record| ["complete", "unchanged"].contains(&record.outcome.as_str()))
    })
}

fn ends(run: &Run, kind: &str, name: &str, side: Side, findings: &mut Findings) {
    let key = (kind.to_owned(), name.to_owned());
    let Some(live) = run.live.get(&key) else {
        findings.add(format!("{key:?} is not there, and the head has it"));
        return;
    };
    if is_reported_as_drift(run, &key) {
        return;
    }
    let (wanted, present) = (second_source::image(side), image(live).unwrap_or_default().to_owned());
    let held = hold(live).is_some();
    match run.will(Some(side.fate)) {
        Will::Succeed => findings.demand(present == wanted && !held, || format!("{key:?} has {present}, not {wanted}")),
        // It went back, unless there was nothing to go back to.
        _ => findings.demand(held == (present != wanted), || format!("{key:?} has {present}, held: {held}")),
    }
}

/// Returns true when a store that went back has made drift of an object, which is only reported, and the status says so.
fn is_reported_as_drift(run: &Run, (kind, name): &Key) -> bool {
    let trouble = &run.status["sources"][second_source::NAME]["trouble"];
    let is_told = trouble.get(format!("{kind} default/{name}, drift")).is_some();
    run.scenario.style.reports_drift && !run.restores.is_empty() && is_told
}

/// Checks its records against the only possible fates of its pods.
fn verdicts(run: &Run, findings: &mut Findings) {
    for record in run.books.iter().flat_map(|books| &books.beside) {
        let beside = run.commits.get(&record.commit).map(|told| told.beside);
        let fate = beside.and_then(|beside| match record.key.0.as_str() {
            "Deployment" => beside.plain.map(|side| side.fate),
            "ReplicationController" => beside.controller.map(|side| side.fate),
            _ => second_source::job_of(&beside).filter(|(key, _)| *key == record.key).map(|(_, fate)| fate),
        });
        let will = run.will(fate);
        let failed = ["failed", "rolled-back", "rollback-failed"].contains(&record.outcome.as_str());
        let wrong = will == Will::Succeed && failed || will == Will::Fail && record.outcome == "complete";
        findings.demand(!wrong, || format!("{will:?}, and it is {}: {record:?}", record.outcome));
    }
}
