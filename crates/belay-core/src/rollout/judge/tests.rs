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
