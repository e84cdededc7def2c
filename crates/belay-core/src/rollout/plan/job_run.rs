//! Decides if a Job that is not live is to be created. A Job runs once for its manifest: one that is gone because its
//! time is over, because a hook's policy or a person deleted it, has run all the same. The same is true of the hooks of
//! a chart.

use serde_json::Value;

use super::Wanted;
use crate::manifest::{HookDeletion, ONCE, UPGRADE, deletes_hook};
use crate::rollout::{EventSeen, Outcome, Reason, ReasonCode, Record, Trigger, marks, runs_once};

/// The facts about an object that is not live.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunFacts<'a> {
    /// Its records, the newest first.
    pub records: &'a [Record],
    /// The hash of the manifest that it was complete for, as the cluster itself remembers it. It counts if there is no
    /// record.
    pub remembered: Option<&'a str>,
    /// True when its chart was rolled out before, by another commit.
    pub installed: bool,
    /// True when those that may need it have succeeded, after which it is deleted; see [`super::hook_until::HookUntil`].
    pub needed_by_none: bool,
}

/// Returns true when an object that is not live has run for its manifest, or is not to run, so that it is not created.
#[must_use]
pub fn is_over(wanted: &Wanted, facts: &RunFacts<'_>) -> bool {
    let manifest = wanted.manifest.value();
    let run = marks::annotation(&manifest, marks::HOOK_RUN);
    let is_of_upgrades = run.is_some_and(|run| run.starts_with(UPGRADE));
    let is_first = is_of_upgrades && !facts.installed;
    let is_once = run.is_some_and(|run| run.starts_with(ONCE));
    let last = last_run(facts.records);
    if !runs_once(&wanted.key, &manifest) {
        let is_deleted = last.map_or(facts.remembered == Some(&*wanted.hash), |last| {
            let is_its = is_once || last.manifest_hash.as_deref() == Some(&*wanted.hash);
            facts.needed_by_none && is_its && last.outcome != Outcome::Failed
        });
        return is_first || is_deleted;
    }
    if wanted.trigger == Trigger::Retry {
        return false;
    }
    match last {
        None => is_first || facts.remembered == Some(&*wanted.hash),
        // A hook for installing runs once, whatever becomes of its manifest.
        Some(last) if is_once && last.outcome != Outcome::Failed => true,
        Some(last) if last.manifest_hash.as_deref() != Some(&*wanted.hash) => is_first,
        Some(last) if last.outcome != Outcome::Failed => true,
        // A Job that is deleted by itself is no sign that somebody wants it to run again.
        Some(_) => matches!(wanted.trigger, Trigger::Drift(_)) && goes_by_itself(&manifest),
    }
}

/// Returns the newest record of a run that came to its end; `None` if there is none since its manifest had left.
fn last_run(records: &[Record]) -> Option<&Record> {
    let ends = |outcome: Outcome| {
        matches!(
            outcome,
            Outcome::Complete | Outcome::Unchanged | Outcome::Failed | Outcome::Pruned | Outcome::Orphaned
        )
    };
    let newest = records.iter().find(|record| ends(record.outcome))?;
    (!matches!(newest.outcome, Outcome::Pruned | Outcome::Orphaned)).then_some(newest)
}

/// Returns true when a Job is deleted by itself after its end: by its time to live, or by a hook's policy.
#[must_use]
pub fn goes_by_itself(manifest: &Value) -> bool {
    let policies = [HookDeletion::Succeeded, HookDeletion::Failed];
    manifest["spec"]["ttlSecondsAfterFinished"].is_number()
        || policies.into_iter().any(|policy| deletes_hook(manifest, policy))
}

/// The reasons that the Job controller gives for a failure, as Kubernetes names them.
const FAILURES: [&str; 5] =
    ["BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"];

/// Returns how a Job has ended, by the Events of its controller, the newest first; `None` if none says so.
#[must_use]
pub fn job_end(events: &[EventSeen]) -> Option<Result<(), Reason>> {
    events.iter().find_map(|event| match event.reason.as_str() {
        "Completed" => Some(Ok(())),
        reason if FAILURES.contains(&reason) => {
            let message = format!("the job failed: {}: {}; it is gone by now", event.reason, event.message);
            Some(Err(Reason::new(ReasonCode::Failed, message)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::manifest::{Scopes, read_file};
    use crate::rollout::{Commit, CommitId, Person};

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn wanted(kind: &str, annotations: &str, spec: &str) -> Wanted {
        let text = match kind {
            "Job" => format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, annotations: {{{annotations}}}}}\nspec: {{{spec}template: \
                 {{spec: {{restartPolicy: Never, containers: [{{name: a, image: 'a:1'}}]}}}}}}\n"
            ),
            _ => format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: j, annotations: {{{annotations}}}}}\n"),
        };
        let file = read_file("j.yaml", text.as_bytes(), &Scopes::new("shop"));
        assert_eq!(file.complaints, []);
        let person = Person { name: "Ada".to_owned(), email: "ada@example.com".to_owned() };
        let commit = Commit {
            id: COMMIT.parse().unwrap(),
            parents: Vec::new(),
            author: person,
            authored: jiff::Timestamp::UNIX_EPOCH,
            committed: jiff::Timestamp::UNIX_EPOCH,
            subject: "x".to_owned(),
            trailers: Vec::new(),
        };
        Wanted::of(file.manifests[0].clone(), Arc::new(commit), Trigger::Drift(String::new()))
    }

    fn record(wanted: &Wanted, hash: &str, outcome: Outcome) -> Record {
        let commit: CommitId = COMMIT.parse().unwrap();
        let planned = Record::planned("shop", &commit, wanted.key.clone(), jiff::Timestamp::UNIX_EPOCH);
        let hash = if hash == "same" { wanted.hash.clone() } else { hash.to_owned() };
        Record { outcome, manifest_hash: Some(hash), ..planned }
    }

    fn over(wanted: &Wanted, history: &[(&str, Outcome)]) -> bool {
        let records: Vec<Record> = history.iter().map(|(hash, outcome)| record(wanted, hash, *outcome)).collect();
        is_over(wanted, &RunFacts { records: &records, ..RunFacts::default() })
    }

    #[test]
    fn a_job_runs_once_for_its_manifest() {
        use Outcome::{Complete, Failed, Orphaned, Pruned, Rejected, Skipped, Unchanged, UnderWay};
        let plain = wanted("Job", "", "");
        let goes = wanted("Job", "", "ttlSecondsAfterFinished: 0, ");
        for (history, expected) in [
            (&[][..], [false, false]),
            (&[("same", Complete)], [true, true]),
            (&[("same", Unchanged)], [true, true]),
            (&[("other", Complete)], [false, false]),
            (&[("other", Complete), ("same", Complete)], [false, false]),
            // A manifest that was refused, and reverted, has not run in between.
            (&[("other", Rejected), ("same", Complete)], [true, true]),
            (&[("other", Skipped), ("same", Complete)], [true, true]),
            // The present one was refused: somebody made room for it.
            (&[("same", Rejected), ("other", Complete)], [false, false]),
            (&[("same", UnderWay)], [false, false]),
            (&[("same", Pruned), ("same", Complete)], [false, false]),
            (&[("same", Orphaned), ("same", Complete)], [false, false]),
            // One that failed and went by itself stays failed; one that somebody deleted runs again.
            (&[("same", Failed)], [false, true]),
        ] {
            assert_eq!([over(&plain, history), over(&goes, history)], expected, "{history:?}");
        }
        let asked = Wanted { trigger: Trigger::Retry, ..goes.clone() };
        assert!(!over(&asked, &[("same", Complete)]), "somebody asked for it");
        let commit = Wanted { trigger: Trigger::Commit, ..goes };
        assert!(!over(&commit, &[("same", Failed)]), "a commit brings it again");
        assert!(over(&commit, &[("same", Complete)]));
    }

    #[test]
    fn events_tell_how_a_job_has_ended() {
        let event = |reason: &str| EventSeen {
            at: jiff::Timestamp::UNIX_EPOCH,
            kind: "Normal".to_owned(),
            object: "Job/j".to_owned(),
            reason: reason.to_owned(),
            message: "why".to_owned(),
        };
        let end = |reasons: &[&str]| job_end(&reasons.iter().map(|reason| event(reason)).collect::<Vec<_>>());
        assert_eq!(end(&["SuccessfulCreate"]), None);
        assert_eq!(end(&["SuccessfulDelete", "Completed", "SuccessfulCreate"]), Some(Ok(())));
        let failed = end(&["BackoffLimitExceeded", "SuccessfulCreate"]).unwrap().unwrap_err();
        assert_eq!(failed.message, "the job failed: BackoffLimitExceeded: why; it is gone by now");
        assert_eq!(end(&["Completed", "BackoffLimitExceeded"]), Some(Ok(())), "the newest counts");
    }

    #[test]
    fn without_a_record_the_cluster_itself_may_remember() {
        let plain = wanted("Job", "", "");
        let facts = |hash| RunFacts { remembered: Some(hash), ..RunFacts::default() };
        assert!(is_over(&plain, &facts(&plain.hash)));
        assert!(!is_over(&plain, &facts("other")));
        let other = [record(&plain, "other", Outcome::Complete)];
        let both = RunFacts { records: &other, ..facts(&plain.hash) };
        assert!(!is_over(&plain, &both), "what is recorded is newer");
    }

    #[test]
    fn a_hook_for_installing_runs_once_whatever_it_says() {
        let hook = wanted("Job", "belay.dev/hook-run: once-abc", "");
        assert!(over(&hook, &[("other", Outcome::Complete)]));
        assert!(!over(&hook, &[]));
        assert!(!over(&hook, &[("other", Outcome::Failed)]));
    }

    #[test]
    fn another_hook_is_over_when_it_was_applied_and_nobody_needs_it_any_more() {
        use Outcome::{Complete, Failed, Pruned, Rejected, Unchanged};
        let hook = |run: &str| wanted("ConfigMap", &format!("belay.dev/hook-run: {run}"), "");
        for (run, history, needed_by_none, expected) in [
            ("abc", &[][..], true, false),
            ("abc", &[("same", Complete)], false, false),
            ("abc", &[("same", Complete)], true, true),
            ("abc", &[("same", Unchanged)], true, true),
            ("abc", &[("other", Complete), ("same", Complete)], true, false),
            ("abc", &[("other", Rejected), ("same", Complete)], true, true),
            ("abc", &[("same", Failed)], true, false),
            ("abc", &[("same", Pruned), ("same", Complete)], true, false),
            ("once-abc", &[("other", Complete)], true, true),
            ("once-abc", &[("other", Complete)], false, false),
        ] {
            let hook = hook(run);
            let records: Vec<Record> = history.iter().map(|(hash, outcome)| record(&hook, hash, *outcome)).collect();
            let facts = RunFacts { records: &records, needed_by_none, ..RunFacts::default() };
            assert_eq!(is_over(&hook, &facts), expected, "{run} {history:?} {needed_by_none}");
        }
        let hook = hook("abc");
        let remembered = |hash| is_over(&hook, &RunFacts { remembered: Some(hash), ..RunFacts::default() });
        assert!(remembered(&hook.hash) && !remembered("other"), "the history was lost");
    }

    #[test]
    fn a_pod_that_is_a_hook_runs_once_as_a_job_does() {
        let pod = |annotations: &str| {
            let text = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: j, annotations: {{{annotations}}}}}\nspec: {{containers: [{{name: a, image: a}}]}}\n"
            );
            let file = read_file("j.yaml", text.as_bytes(), &Scopes::new("shop"));
            Wanted::of(file.manifests[0].clone(), wanted("Job", "", "").commit, Trigger::Commit)
        };
        assert!(over(&pod("belay.dev/hook-run: abc"), &[("same", Outcome::Complete)]));
        assert!(!over(&pod("belay.dev/hook-run: abc"), &[("other", Outcome::Complete)]));
        assert!(!over(&pod(""), &[("same", Outcome::Complete)]), "it is no hook");
    }

    #[test]
    fn a_hook_for_upgrades_waits_for_the_first_of_them() {
        for kind in ["Job", "ConfigMap"] {
            let hook = wanted(kind, "belay.dev/hook-run: upgrade-abc", "");
            let at =
                |installed, records: &[Record]| is_over(&hook, &RunFacts { records, installed, ..RunFacts::default() });
            assert!(at(false, &[]), "{kind}: the first installation");
            assert!(!at(true, &[]), "{kind}: it is new in a chart that was rolled out before");
            let first = [record(&hook, "other", Outcome::Unchanged)];
            assert!(!at(true, &first), "{kind}: an upgrade");
            let ran = [record(&hook, "same", Outcome::Complete)];
            assert_eq!(at(true, &ran), kind == "Job", "{kind}: it has run for this upgrade");
        }
    }
}
