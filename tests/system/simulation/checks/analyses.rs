//! The verdicts of analyses against what the versions answer.

use std::collections::BTreeMap;

use super::super::findings::{Finding, Findings, annotation, hold, is_workload, template};
use super::super::repository::Key;
use super::super::run::Run;
use super::super::scenario::Fate;
use super::canaries::is_made_anew;
use super::pods::short;

/// Checks that a version which answers with errors is complete only where nothing was measured, and that this is said; and that
/// no other one fails for it.
pub fn analyses_count(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("analyses-count");
    if !run.scenario.style.analyses {
        return findings.all;
    }
    for record in run.records().filter(|record| is_workload(&record.key)) {
        let want = run.commits.get(&record.commit).and_then(|commit| commit.objects.get(&record.key));
        let errs = want.and_then(|want| want.fate) == Some(Fate::Errs);
        if !errs || record.outcome != "complete" {
            let is_blamed = record.reason.starts_with("AnalysisFailed");
            findings.demand(errs || !is_blamed, || format!("it answers without errors, and failed: {}", short(record)));
            continue;
        }
        let has_baked = record.steps.iter().any(|(_, step, _)| step == "baking");
        let is_said = record.steps.iter().any(|(_, _, detail)| detail.contains("without a verdict"));
        findings
            .demand(!has_baked || is_said, || format!("it answers with errors, and is complete: {}", short(record)));
    }
    findings.all
}

/// Checks that a version which answers with errors gets no further than the first step of its canary: the analysis can only find
/// that, or measure nothing.
pub fn no_data_promotes_nothing(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("no-data-promotes-nothing");
    if !run.scenario.style.analyses {
        return findings.all;
    }
    // The version in its first step, and when that began, by object.
    let mut first: BTreeMap<Key, ((String, String), u64)> = BTreeMap::new();
    for (key, exchange) in run.applies().filter(|(key, _)| is_workload(key)) {
        let Some(sent) = template(&exchange.body).filter(|sent| Fate::of_image(&sent.0) == Some(Fate::Errs)) else {
            first.remove(&key);
            continue;
        };
        if annotation(&exchange.body, "belay.dev/canary-step").is_some_and(|mark| mark.contains("\"step\":1,")) {
            let known = first.remove(&key).filter(|(version, _)| *version == sent);
            first.insert(key, known.unwrap_or((sent, exchange.begun)));
            continue;
        }
        let of_it = first.remove(&key).filter(|(version, _)| *version == sent && hold(&exchange.body).is_none());
        let Some((_, began)) = of_it else { continue };
        findings.demand(is_made_anew(run, &key, began..=exchange.begun), || {
            format!("{key:?} answers with errors, and its canary goes on at {}", exchange.begun)
        });
    }
    findings.all
}
