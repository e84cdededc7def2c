//! Each head is in the timeline once, and each of its objects counts once, whatever it went through.

use std::collections::BTreeMap;

use belay::history::{History, Turn};
use belay_core::rollout::{Outcome, Record, RecordId, Trigger};

use crate::{at, commit_id, deployment, record};

fn opened() -> (tempfile::TempDir, History) {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    (folder, history)
}

fn end(history: &History, ids: &[RecordId], outcome: Outcome) {
    ids.iter().for_each(|id| history.finish(*id, outcome, None, at(50)).unwrap());
}

/// What the timeline counts of a head's own commit.
fn counts(turn: &Turn) -> BTreeMap<Outcome, u64> {
    turn.commits[&turn.head].clone()
}

#[test]
fn a_head_that_is_planned_again_after_a_restart_counts_once() {
    let (_folder, history) = opened();
    let plan = [record(1, deployment("web"), at(0)), record(1, deployment("api"), at(0))];
    let ids = history.begin("shop", &commit_id(1), &plan, at(0)).unwrap();
    end(&history, &ids[..1], Outcome::Complete);
    let again = history.begin("shop", &commit_id(1), &plan, at(40)).unwrap();
    assert_eq!(again, ids, "what was begun is taken up");
    end(&history, &again[1..], Outcome::Complete);
    let turns = history.timeline(None, None, 10).unwrap();
    assert_eq!(turns.len(), 1, "{turns:?}");
    assert_eq!(counts(&turns[0]), BTreeMap::from([(Outcome::Complete, 2)]));
}

#[test]
fn an_object_that_is_tried_again_counts_by_its_last_outcome() {
    let (_folder, history) = opened();
    let web = record(1, deployment("web"), at(0));
    let ids = history.begin("shop", &commit_id(1), std::slice::from_ref(&web), at(0)).unwrap();
    end(&history, &ids, Outcome::RolledBack);
    assert_eq!(counts(&history.timeline(None, None, 10).unwrap()[0]), BTreeMap::from([(Outcome::RolledBack, 1)]));
    let retry = Record { trigger: Trigger::Retry, ..web };
    let ids = history.begin("shop", &commit_id(1), &[retry], at(60)).unwrap();
    let turns = history.timeline(None, None, 10).unwrap();
    assert_eq!((turns.len(), counts(&turns[0])), (1, BTreeMap::from([(Outcome::Planned, 1)])), "{turns:?}");
    end(&history, &ids, Outcome::Complete);
    let turns = history.timeline(None, None, 10).unwrap();
    assert_eq!((turns.len(), counts(&turns[0])), (1, BTreeMap::from([(Outcome::Complete, 1)])), "{turns:?}");
}

#[test]
fn pages_miss_nothing_and_show_nothing_twice() {
    let (_folder, history) = opened();
    for number in 1..=7 {
        let name = |object: u64| deployment(&format!("app-{object}"));
        let plan: Vec<Record> = (0..number).map(|object| record(number, name(object), at(0))).collect();
        let source = if number % 2 == 0 { "shop" } else { "site" };
        let ids = history.begin(source, &commit_id(number), &plan, at(0)).unwrap();
        end(&history, &ids, Outcome::Complete);
    }
    for (source, size) in [(None, 7), (Some("shop"), 3), (Some("site"), 4)] {
        for limit in 1..=8 {
            let (mut seen, mut before) = (Vec::new(), None);
            loop {
                let page = history.timeline(source, before, limit).unwrap();
                let Some(last) = page.last() else { break };
                before = Some(last.number);
                seen.extend(page);
            }
            assert_eq!(seen.len(), size, "{source:?} by {limit}");
            assert!(seen.windows(2).all(|pair| pair[0].number > pair[1].number), "{source:?} by {limit}");
            // The commit with a number has as many objects.
            let counted = |turn: &Turn| commit_id(counts(turn)[&Outcome::Complete]) == turn.head;
            assert!(seen.iter().all(counted), "{source:?} by {limit}: {seen:?}");
        }
    }
}
