//! The Jobs of analyses.

use super::*;
use crate::rollout::PodSeen;
use crate::rollout::health::Fault;
use jiff::Timestamp;

const FILE: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: smoke, namespace: shop, finalizers: [example.com/x], labels: {belay.dev/source: other, team: a}}\nspec:\n  activeDeadlineSeconds: 60\n  \
                    template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - name: app\n        image: smoke:1\n        \
                    env: [{name: BELAY_COMMIT, value: x}, {name: URL, value: http://web}]\n";

fn record(name: &str, id: i64) -> Record {
    let [group, kind, namespace] = ["apps", "Deployment", "shop"].map(str::to_owned);
    let key = ObjectKey { group, kind, namespace: Some(namespace), name: name.to_owned() };
    let commit = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
    Record { id: crate::rollout::RecordId(id), ..Record::planned("main", &commit, key, Timestamp::UNIX_EPOCH) }
}

fn origin() -> JobOrigin {
    JobOrigin {
        source: "main".to_owned(),
        analysis: "smoke".to_owned(),
        workload: record("web", 1).object,
        commit: "0123456".to_owned(),
        revision: 7,
        pods: "web-5f.*".to_owned(),
        owner: json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}),
    }
}

#[test]
fn a_file_makes_the_job_of_a_rollout() {
    let key = job_key("smoke", "smoke.yaml", &record("web", 1));
    let job = origin().job(&key, "smoke.yaml", FILE.as_bytes()).unwrap();
    let env = |name: &str, value: &str| json!({"name": name, "value": value});
    assert_eq!(
        job,
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": key.name,
                "namespace": "shop",
                "labels": {"team": "a"},
                "annotations": {"belay.dev/commit": "0123456", "belay.dev/analysis": "smoke"},
                "ownerReferences": [origin().owner],
            },
            "spec": {
                "activeDeadlineSeconds": 60,
                "ttlSecondsAfterFinished": 3600,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{
                    "name": "app",
                    "image": "smoke:1",
                    "env": [
                        env("URL", "http://web"),
                        env("BELAY_SOURCE", "main"),
                        env("BELAY_NAMESPACE", "shop"),
                        env("BELAY_NAME", "web"),
                        env("BELAY_COMMIT", "0123456"),
                        env("BELAY_REVISION", "7"),
                        env("BELAY_PODS", "web-5f.*"),
                    ],
                }]}},
            },
        })
    );
    let without = FILE.replace("  activeDeadlineSeconds: 60\n", "  ttlSecondsAfterFinished: 9000\n");
    let job = origin().job(&key, "smoke.yaml", without.as_bytes()).unwrap();
    assert_eq!(
        (&job["spec"]["activeDeadlineSeconds"], &job["spec"]["ttlSecondsAfterFinished"]),
        (&json!(86_400), &json!(9000))
    );
}

#[test]
fn a_file_that_is_not_one_job_is_refused_at_its_place() {
    let key = job_key("smoke", "smoke.yaml", &record("web", 1));
    let two = format!("{FILE}---\n{}", FILE.replace("name: smoke,", "name: other,"));
    for (file, fault) in [
        ("", "smoke.yaml:1:1: the file has 0 objects: an analysis needs exactly one Job"),
        (&two, "smoke.yaml:1:1: the file has 2 objects: an analysis needs exactly one Job"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "smoke.yaml:1:1: Secret shop/a is no Job"),
        (
            &FILE.replace("namespace: shop", "namespace: kube-system"),
            "leave out metadata.namespace, which is kube-system",
        ),
        (&FILE.replace("image: smoke:1", "imag: smoke:1"), "smoke.yaml:10:9: image is missing"),
        ("a: [", "smoke.yaml:"),
    ] {
        let refused = origin().job(&key, "smoke.yaml", file.as_bytes()).unwrap_err();
        assert!(refused.contains(fault), "{refused}");
    }
}

#[test]
fn each_rollout_has_a_job_of_its_own() {
    let name = |workload: &str, analysis: &str, id: i64| job_key(analysis, "smoke.yaml", &record(workload, id)).name;
    assert!(name("web", "smoke", 1).starts_with("web-smoke-"));
    assert_ne!(name("web", "smoke", 1), name("web", "smoke", 2));
    assert_eq!(name("web", "smoke", 1), name("web", "smoke", 1));
    let long = "a.B_".repeat(40);
    for (workload, analysis) in [("web", "_"), ("w", "Smoke.Test"), (long.as_str(), long.as_str())] {
        let name = name(workload, analysis, 1);
        let is_label =
            name.len() <= 63 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(is_label && !name.starts_with('-'), "{name}");
    }
}

#[test]
fn the_history_names_the_jobs_that_were_made() {
    let made = MadeJob { analysis: "smoke".to_owned(), name: "web-smoke-1a2b3c4d".to_owned() };
    assert_eq!(made.step(), "analysis \"smoke\": makes the Job web-smoke-1a2b3c4d");
    assert_eq!(MadeJob::of_step(&made.step()), Some(made));
    for other in ["promoted by ada: looks good", "analysis \"smoke\": fail", "makes the Job a"] {
        assert_eq!(MadeJob::of_step(other), None, "{other}");
    }
}

#[test]
fn a_look_before_a_restart_says_whether_nothing_could_start() {
    let key = job_key("smoke", "smoke.yaml", &record("web", 1));
    for (message, expected) in [
        ("nothing of the Job N can start: its pod p is ImagePullBackOff", true),
        ("nothing of the Job N can start; it was ended by its deadline", true),
        ("the Job N is suspended", true),
        ("the Job N has run for 24 hours", false),
        ("there is a Job shop/N that belay has not made", false),
        ("nothing of the Job other can start", false),
        ("smoke.yaml:1:1: the file has 0 objects", false),
    ] {
        let message = message.replace('N', &key.name);
        assert_eq!(could_not_start(&key, &message), expected.then_some(message.as_str()), "{message}");
    }
}

fn pod(start: PodStart, state: &str, log: &str) -> PodAccount {
    let seen = PodSeen {
        name: "p".to_owned(),
        state: state.to_owned(),
        log: log.lines().map(str::to_owned).collect(),
        ..PodSeen::default()
    };
    PodAccount { uid: String::new(), seen, fault: Fault::Commit, start }
}

/// Returns a live Job with a deadline that has ended so.
fn ended(deadline: i64, kind: &str, message: &str) -> Value {
    let reason = if message == "late" { DEADLINE_EXCEEDED } else { "R" };
    let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message});
    json!({"spec": {"activeDeadlineSeconds": deadline}, "status": {"conditions": [condition]}})
}

#[test]
fn a_job_has_a_state() {
    let key = job_key("smoke", "smoke.yaml", &record("web", 1));
    let is = |kind: &str, message: &str| ended(60, kind, message);
    let runs = json!({"spec": {}});
    let stuck = || vec![pod(PodStart::Stuck, "ImagePullBackOff", "")];
    let started = || vec![pod(PodStart::Started, "Error", "one\nno answer\n\n")];
    for (what, live, pods, before, expected) in [
        ("no pod yet", &runs, vec![], None, "waits"),
        ("it runs", &runs, started(), None, "runs"),
        ("stuck", &runs, stuck(), None, "none: nothing of the Job N can start: its pod p is ImagePullBackOff"),
        ("one of two runs", &runs, [stuck(), started()].concat(), None, "runs"),
        ("suspended", &json!({"spec": {"suspend": true}}), vec![], None, "none: the Job N is suspended"),
        ("complete", &is("Complete", ""), vec![], Some("stuck"), "Complete: the Job N is complete"),
        ("failed", &is("Failed", "limit"), vec![], None, "Failed: the Job N failed: limit"),
        (
            "failed, with a log",
            &is("Failed", "limit"),
            started(),
            None,
            "Failed: the Job N failed: limit; its pod p is Error; its last line: no answer",
        ),
        (
            "late, and never started",
            &is("Failed", "late"),
            vec![],
            Some("stuck"),
            "cut: stuck; it was ended by its deadline",
        ),
        (
            "late for long",
            &is("Failed", "late"),
            vec![],
            Some("stuck; it was ended by its deadline"),
            "cut: stuck; it was ended by its deadline",
        ),
        (
            "failed, and had been stuck",
            &is("Failed", "limit"),
            vec![],
            Some("stuck"),
            "Failed: the Job N failed: limit",
        ),
        (
            "late, by the deadline of belay",
            &ended(LONGEST_SECONDS, "Failed", "late"),
            vec![],
            None,
            "cut: the Job N has run for 24 hours",
        ),
        (
            "late, and had started",
            &is("Failed", "late"),
            started(),
            Some("stuck"),
            "Failed: the Job N failed: late; its pod p is Error; its last line: no answer",
        ),
    ] {
        let told = match job_state(&key, live, &pods, before) {
            JobState::Runs => "runs".to_owned(),
            JobState::Waits => "waits".to_owned(),
            JobState::Cut(why) => format!("cut: {why}"),
            JobState::NotStarted(why) => format!("none: {why}"),
            JobState::Ended(Measured::Job { condition, message, .. }) => format!("{condition:?}: {message}"),
            JobState::Ended(other) => format!("{other:?}"),
        };
        assert_eq!(told.replace(&key.name, "N"), expected, "{what}");
        assert!(!without_log_line(&told).contains("no answer"), "{told}");
    }
}
