//! The expected end of everything, by the head's manifests and by the fates of the pods.

use serde_json::Value;

use super::super::events::Hand;
use super::super::findings::{Finding, Findings, annotation, hold, image, is_workload, template};
use super::super::history_rows::Record;
use super::super::repository::{Key, Want, told};
use super::super::run::Run;
use super::super::scenario::{Fate, Will};
use super::pods::is_hindered;

/// Every object is as the head says; or its manifest is held, and it is as it was before; or it is complained about.
pub fn ends_as_it_must(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("ends-as-it-must");
    let head = run.head();
    for (key, want) in &head.objects {
        let Some(live) = run.live.get(key) else {
            // An object that somebody deleted is drift, and may only be reported.
            let gone = deleted_by_hand(run, key) || !run.restores.is_empty();
            let left_so = gone && run.scenario.style.reports_drift;
            findings.demand(left_so || passed_over(run, key, want), || {
                format!("{key:?} is not there, and the head has it")
            });
            continue;
        };
        if is_workload(key) {
            workload(run, key, want, live, &mut findings);
        } else if key.0 == "HorizontalPodAutoscaler" {
            let scales = live["spec"]["maxReplicas"] == 9;
            findings.demand(scales, || format!("{key:?} is not as its manifest says: {live}"));
        } else if hold(live).is_none() && !run.scenario.style.reports_drift {
            let value = live["data"].as_object().and_then(|data| data.values().next()).cloned().unwrap_or_default();
            findings.demand(told(want, &value), || format!("{key:?} says {value}, and its manifest is {}", want.text));
        }
    }
    gone(run, &mut findings);
    findings.all
}

fn workload(run: &Run, key: &Key, want: &Want, live: &Value, findings: &mut Findings) {
    let (Some(wanted), Some(present)) = (&want.template, template(live)) else { return };
    let will = run.will(want.fate);
    let by_hand = run.hands_on(key).any(|handled| matches!(handled.hand, Hand::Undo | Hand::Image));
    if by_hand && annotation(live, "belay.dev/suspend").is_some() {
        // An undo brings the annotations of its revision back, and whoever is asked to leave it alone does.
        return;
    }
    let passed_over = passed_over(run, key, want);
    let Some(hold) = hold(live) else {
        // A store that went back is drift to belay, too.
        let drifted = by_hand || !run.restores.is_empty();
        let left = run.scenario.style.reports_drift && drifted || passed_over;
        findings.demand(*wanted == present || left, || {
            format!("{key:?} has {present:?}, the head has {wanted:?}, and nothing is held")
        });
        let must_go_back = will == Will::Fail && *wanted == present && way_back(run, key, wanted);
        findings.demand(!must_go_back, || format!("{key:?} can only fail, could go back, and stays on {present:?}"));
        return;
    };
    if passed_over {
        // Nothing was done about it, so a hold of what was there before is there still.
        return;
    }
    if run.scenario.style.reports_drift && !run.restores.is_empty() {
        // The older hold that the store brought back is drift, which is only told.
        return;
    }
    let held = hold["commit"].as_str().and_then(|commit| run.commits.get(commit)?.objects.get(key));
    findings.demand(held.is_some_and(|held| held.text == want.text), || {
        format!("{key:?} has a hold for what the head does not say: {hold}")
    });
    let for_another = run.scenario.style.whole_commit;
    let is_hindered = newest(run, key).is_some_and(|record| is_hindered(run, record));
    findings.demand(will != Will::Succeed || by_hand || for_another || is_hindered || is_late(run, key), || {
        format!("{key:?} can only succeed, and is held: {hold}")
    });
    let failed_back = newest(run, key).is_some_and(|record| record.outcome == "rollback-failed");
    let back = run.will(image(live).and_then(Fate::of_image));
    // The history of one of two daemons without a Lease knows nothing of what the other saw fail.
    findings
        .demand(back != Will::Fail || failed_back || by_hand || run.had_rival() || !way_back(run, key, wanted), || {
            format!("{key:?} was taken back to what can only fail: {present:?}")
        });
    let shown = &run.status["sources"]["shop"]["held"];
    let shown = shown.as_object().is_some_and(|held| held.keys().any(|name| name.ends_with(&format!("/{}", key.1))));
    findings.demand(shown, || format!("{key:?} is held, and the status does not say so: {}", run.status));
}

/// Returns true when a dependency failed, or is not in the repository any more.
fn passed_over(run: &Run, key: &Key, want: &Want) -> bool {
    let over = |record: &Record| ["skipped", "rejected"].contains(&record.outcome.as_str());
    want.after.is_some() && newest(run, key).is_some_and(over)
}

/// Returns true when something of this workload was late to fail.
fn is_late(run: &Run, key: &Key) -> bool {
    let fate = |want: &Want| matches!(want.fate, Some(Fate::Late | Fate::Loops));
    run.commits.values().any(|commit| commit.objects.get(key).is_some_and(fate))
}

/// Returns true when there is a revision that was seen complete, other than this one, in the newest books.
pub(super) fn way_back(run: &Run, key: &Key, wanted: &(String, String)) -> bool {
    let Some(books) = run.main_books() else { return false };
    let complete = books.records.iter().filter(|record| record.key == *key && record.outcome == "complete");
    complete.filter(|record| record.rolls_out).any(|record| {
        let want = run.commits.get(&record.commit).and_then(|commit| commit.objects.get(key));
        let fine = run.will(want.and_then(|want| want.fate)) == Will::Succeed;
        fine && want.and_then(|want| want.template.as_ref()).is_some_and(|template| template != wanted)
    }) && !deleted(run, key)
}

/// Returns true when the workload was deleted at any time, so that it may have had to begin again.
fn deleted(run: &Run, key: &Key) -> bool {
    deleted_by_hand(run, key) || run.pushed.iter().any(|pushed| !pushed.objects.contains_key(key))
}

fn deleted_by_hand(run: &Run, key: &Key) -> bool {
    run.hands_on(key).any(|handled| matches!(handled.hand, Hand::Delete | Hand::Replace | Hand::Finalizer(_)))
}

pub(super) fn newest<'a>(run: &'a Run, key: &Key) -> Option<&'a Record> {
    run.main_books()?.records.iter().rev().find(|record| record.key == *key)
}

/// Checks that an object that has left the repository is deleted if the source says so, and stays otherwise.
fn gone(run: &Run, findings: &mut Findings) {
    let head = run.head();
    let mut before: Vec<&Key> = run.pushed.iter().flat_map(|pushed| pushed.objects.keys()).collect();
    before.sort();
    before.dedup();
    for key in before.into_iter().filter(|key| !head.objects.contains_key(*key)) {
        let unreadable = !head.broken.is_empty();
        let live = run.live.get(key);
        // One that a person made anew is that person's until belay has applied it again.
        let is_anothers = run.hands_on(key).any(|handled| matches!(handled.hand, Hand::Replace));
        if run.scenario.style.prune && !unreadable && !is_anothers {
            findings.demand(live.is_none(), || format!("{key:?} has left the repository and is still there"));
        }
    }
}

/// Commit and change-cause of every template tell which commit made it, and how that calls itself.
pub fn history_by_commit(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("history-by-commit");
    for (key, live) in &run.live {
        let of_revision = ["ReplicaSet", "ControllerRevision"].contains(&key.0.as_str());
        if !of_revision && !is_workload(key) {
            continue;
        }
        let shown = if key.0 == "ControllerRevision" { &live["data"] } else { live };
        let Some(present) = template(shown) else { continue };
        // An undo leaves the marks as they were, except for a Deployment's. It stays if drift is only reported, or if the
        // manifest can't be read.
        let stays = run.scenario.style.reports_drift || !run.head().objects.contains_key(key);
        let undone = stays && run.hands_on(key).any(|handled| matches!(handled.hand, Hand::Undo));
        if undone || present.0.contains(":hand-") || is_stranger(run, &present) {
            continue;
        }
        let (commit, cause) = (annotation(live, "belay.dev/commit"), annotation(live, "kubernetes.io/change-cause"));
        let told = commit.and_then(|commit| run.commits.get(commit));
        let Some((commit, told)) = commit.zip(told) else {
            findings.add(format!("{key:?} with {present:?} names the commit {commit:?}, which there never was"));
            continue;
        };
        let expected: String = format!("{} {}", &commit[..7], told.subject).chars().take(100).collect();
        findings.demand(cause.is_some_and(|cause| cause.starts_with(&expected)), || {
            format!("{key:?} says {cause:?}, and commit {commit} is {:?}", told.subject)
        });
        let made = told.objects.values().any(|want| want.template.as_ref() == Some(&present));
        findings.demand(made, || format!("{key:?} has {present:?}, which commit {commit} does not have"));
    }
    findings.all
}

/// Returns true when no commit ever had such a template.
fn is_stranger(run: &Run, template: &(String, String)) -> bool {
    let has = |want: &Want| want.template.as_ref() == Some(template);
    !run.commits.values().any(|commit| commit.objects.values().any(has))
}
