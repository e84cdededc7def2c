//! An API server that comes and goes, and a store that was set back.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key() -> ObjectKey {
    ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "web".to_owned(),
    }
}

/// Returns a rollout that stands still, with a deadline of 30 s and the 15 s that belay adds.
fn live(generation: i64) -> Value {
    json!({"metadata": {"generation": generation, "uid": "1"},
        "spec": {"replicas": 2, "progressDeadlineSeconds": 30},
        "status": {"observedGeneration": generation, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}})
}

/// When the deadline ends of a rollout that stands still from second 0 on, with outages from and to these seconds.
fn due(outages: &[(i64, i64)]) -> i64 {
    let baseline = Baseline { generation: 7, uid: "1".to_owned(), ..Baseline::default() };
    let mut judge = Judge::new(key(), baseline, at(0)).with_outage_timeout(SignedDuration::from_mins(10));
    judge.observe(&live(7), at(0));
    let mut known = Outages::default();
    known.answered(at(0));
    for (from, to) in outages {
        known.silent(at(*from));
        known.answered(at(*to));
    }
    let now = outages.last().map_or(0, |(_, to)| *to);
    judge.note_outages(&known, at(now));
    judge.due().unwrap().as_second()
}

#[test]
fn an_outage_puts_the_verdict_off_by_the_time_that_it_lasted() {
    assert_eq!(due(&[]), 45);
    assert_eq!(due(&[(10, 13)]), 48, "and not by more");
    assert_eq!(due(&[(10, 310)]), 345, "from where it was");
    let flaps: Vec<(i64, i64)> = (0..20).map(|number| (number * 20 + 10, number * 20 + 12)).collect();
    assert_eq!(due(&flaps), 45 + 40, "each of many");
    assert_eq!(due(&[(10, 3610)]), 3645, "also where it was longer than outage_timeout");
}

#[test]
fn the_reason_says_how_long_the_server_was_away() {
    let baseline = Baseline { generation: 7, uid: "1".to_owned(), ..Baseline::default() };
    let mut judge = Judge::new(key(), baseline, at(0)).with_outage_timeout(SignedDuration::from_mins(1));
    judge.observe(&live(7), at(0));
    let mut known = Outages::default();
    known.silent(at(10));
    known.answered(at(310));
    judge.note_outages(&known, at(310));
    let overdue = judge.overdue(at(400)).unwrap();
    let observation = Observation { cannot_make_pods: None, ..Observation::default() };
    let Judgement::Failed(reason) = judge.rule(overdue, &observation, at(400)) else { panic!("it is not waited for") };
    assert!(judge.with_outage(reason).message.contains("did not answer for 300 s"));
}

#[test]
fn what_is_from_before_the_write_is_known() {
    let judge = Judge::new(key(), Baseline { generation: 7, uid: "1".to_owned(), ..Baseline::default() }, at(0));
    for (generation, expected) in [(6, true), (7, false), (8, false), (0, false)] {
        assert_eq!(judge.is_from_before(&live(generation)), expected, "{generation}");
    }
}

/// A Job and an object of somebody's own kind have no deadline: a deletion that does not end is waited for so long.
#[test]
fn a_deletion_that_does_not_end_is_given_up() {
    let ends = |group: &str, kind: &str, reported: &[(i64, bool)]| {
        let key = ObjectKey { group: group.to_owned(), kind: kind.to_owned(), ..key() };
        let mut judge = Judge::new(key, Baseline::default(), at(0)).with_outage_timeout(SignedDuration::from_mins(10));
        for (second, is_going) in reported {
            let mut object = json!({"metadata": {"generation": 1, "uid": "1", "finalizers": ["example.com/keep"]},
                "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "False"}]}});
            if *is_going {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            judge.observe(&object, at(*second));
        }
        let due = judge.due().map(Timestamp::as_second);
        let reason = due.and_then(|due| judge.overdue(at(due)));
        assert!(due.is_none_or(|due| judge.overdue(at(due - 1)).is_none()));
        (due, reason.filter(|reason| reason.code == ReasonCode::DeletionHangs).map(|reason| reason.message))
    };
    let told = "it is being deleted, kept by its finalizers example.com/keep: belay makes it anew as soon as it is gone: waited for \
                all of outage_timeout, 600 s";
    for (group, kind) in [("batch", "Job"), ("example.com", "Widget")] {
        assert_eq!(ends(group, kind, &[(0, false)]), (None, None), "{kind}");
        let since_then = ends(group, kind, &[(0, false), (5000, true), (5300, true)]);
        assert_eq!(since_then, (Some(5600), Some(told.to_owned())), "{kind}");
    }
    assert_eq!(ends("apps", "Deployment", &[(0, true)]).1, None, "its own deadline ends the wait");
}
