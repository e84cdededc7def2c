//! The state of the whole source, against its objects.

use super::super::events::Actor;
use super::super::findings::{Finding, Findings, hold, is_workload, template};
use super::super::repository::{Key, Want};
use super::super::run::Run;
use super::super::scenario::Will;

/// A source is degraded while a file of it can't be read or one of its manifests is held, and synced when everything is as
/// its head says.
pub fn states_are_true(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("states-are-true");
    if !run.settled {
        return Vec::new();
    }
    let (head, state) = (run.head(), run.state.as_str());
    let shop = &run.status["sources"]["shop"];
    for path in &head.broken {
        let said = [&shop["trouble"], &shop["ended"]].iter().any(|part| part.to_string().contains(path.as_str()));
        findings
            .demand(state == "degraded" && said, || format!("{path} can't be read, and the source is {state}: {shop}"));
    }
    let workloads = || head.objects.iter().filter(|(key, _)| is_workload(key));
    for (key, _) in workloads().filter(|(key, _)| run.live.get(*key).is_some_and(|live| hold(live).is_some())) {
        findings.demand(state == "degraded", || format!("{key:?} is held, and the source is {state}: {shop}"));
    }
    let fine = head.objects.iter().all(|(key, want)| is_fine(run, key, want));
    // With a controller it may disagree for a while after that has gone.
    let disagrees = run.acting(Actor::Controller).any(|acting| acting.to + 660_000 > run.still);
    // One that failed when its manifest had left stays held, and that is told.
    let mut left = run.live.iter().filter(|(key, _)| is_workload(key) && !head.objects.contains_key(*key));
    let holds_an_orphan = left.any(|(_, live)| hold(live).is_some());
    // A store that went back is drift, which may only be reported.
    let drifts = run.scenario.style.reports_drift && !run.restores.is_empty();
    if head.broken.is_empty() && fine && run.hands.is_empty() && !disagrees && !holds_an_orphan && !drifts {
        findings.demand(state == "synced", || format!("all is as the head says, and the source is {state}: {shop}"));
    }
    orphans(run, &mut findings);
    findings.all
}

/// Returns true when an object is as the head says, and its pods can only be healthy.
fn is_fine(run: &Run, key: &Key, want: &Want) -> bool {
    let Some(live) = run.live.get(key) else { return false };
    let well = want.fate.is_none() || run.will(want.fate) == Will::Succeed;
    well && hold(live).is_none() && (!is_workload(key) || template(live) == want.template)
}

/// Checks that an object that has left and is not deleted is reported.
fn orphans(run: &Run, findings: &mut Findings) {
    let moved = run.lives.iter().any(|life| life.state > 0);
    if run.scenario.style.prune || moved || !run.head().broken.is_empty() {
        return;
    }
    let ended = run.status["sources"]["shop"]["ended"].to_string();
    let gone = |key: &&Key| !run.head().objects.contains_key(*key) && run.live.contains_key(*key);
    for key in run.pushed.iter().flat_map(|pushed| pushed.objects.keys()).filter(gone) {
        findings.demand(ended.contains(&format!("{} default/{}", key.0, key.1)), || {
            format!("{key:?} has left, is still there, and is told nowhere: {ended}")
        });
    }
}
