//! The verdicts of analyses against what the versions answer.

use super::super::findings::{Finding, Findings, is_workload};
use super::super::run::Run;
use super::super::scenario::Fate;
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
