//! Each head is in the timeline once, and each of its objects counts once, whatever it went through.

use std::collections::BTreeMap;

use belay::history::{History, Retention, TimelineEntry};
use belay_core::rollout::{CommitId, Outcome, Record, RecordId, Trigger};
use proptest::prelude::*;
use proptest::sample::select;

use crate::{at, commit_id, deployment, record};

fn opened() -> (tempfile::TempDir, History) {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    (folder, history)
}

fn end(history: &History, ids: &[RecordId], outcome: Outcome) {
    ids.iter().for_each(|id| history.finish(*id, outcome, None, at(50)).unwrap());
}

/// Returns the timeline's counts of a head's own commit.
fn counts(entry: &TimelineEntry) -> BTreeMap<Outcome, u64> {
    entry.commits[&entry.head].clone()
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
    let entries = history.timeline(None, None, 10).unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(counts(&entries[0]), BTreeMap::from([(Outcome::Complete, 2)]));
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
    let entries = history.timeline(None, None, 10).unwrap();
    assert_eq!((entries.len(), counts(&entries[0])), (1, BTreeMap::from([(Outcome::Planned, 1)])), "{entries:?}");
    end(&history, &ids, Outcome::Complete);
    let entries = history.timeline(None, None, 10).unwrap();
    assert_eq!((entries.len(), counts(&entries[0])), (1, BTreeMap::from([(Outcome::Complete, 1)])), "{entries:?}");
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
            let counted = |entry: &TimelineEntry| commit_id(counts(entry)[&Outcome::Complete]) == entry.head;
            assert!(seen.iter().all(counted), "{source:?} by {limit}: {seen:?}");
        }
    }
}

/// A commit's record of an object, begun under a head and ended.
fn charged(history: &History, head: u64, commit: u64, name: &str, trigger: Trigger, outcome: Outcome, seconds: i64) {
    let record = Record { trigger, ..record(commit, deployment(name), at(seconds)) };
    let ids = history.begin("shop", &commit_id(head), &[record], at(seconds)).unwrap();
    end(history, &ids, outcome);
}

/// The content of each line: its head, and the objects by commit and outcome.
type Lines = Vec<(u64, Vec<(u64, Outcome, u64)>)>;

fn lines(entries: &[TimelineEntry]) -> Lines {
    let number = |id: &CommitId| (1..100).find(|number| commit_id(*number) == *id).unwrap();
    let line = |entry: &TimelineEntry| {
        let counted = entry.commits.iter().flat_map(|(commit, outcomes)| {
            outcomes.iter().map(move |(outcome, count)| (number(commit), *outcome, *count))
        });
        let mut counted: Vec<_> = counted.collect();
        counted.sort_unstable();
        (number(&entry.head), counted)
    };
    entries.iter().map(line).collect()
}

/// Returns all lines, and by pages of every size the same ones.
fn all_lines(history: &History) -> Lines {
    let all = lines(&history.timeline(None, None, 100).unwrap());
    for limit in 1..=5 {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = history.timeline(Some("shop"), before, limit).unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.number);
            seen.extend(lines(&page));
        }
        assert_eq!(seen, all, "by pages of {limit}");
    }
    all
}

#[test]
fn what_is_tried_again_under_a_newer_head_counts_in_the_line_of_its_commit() {
    let (_folder, history) = opened();
    charged(&history, 1, 1, "web", Trigger::Commit, Outcome::RolledBack, 0);
    charged(&history, 2, 2, "api", Trigger::Commit, Outcome::Complete, 100);
    charged(&history, 2, 1, "web", Trigger::Retry, Outcome::Complete, 200);
    let complete = |commit: u64| (commit, vec![(commit, Outcome::Complete, 1)]);
    assert_eq!(all_lines(&history), [complete(2), complete(1)]);
    // An action by hand, and a correction that failed, counts for the commit as well.
    let undo = Trigger::UndoByHand("kubectl-rollout".to_owned());
    charged(&history, 2, 1, "web", undo, Outcome::RolledBack, 300);
    assert_eq!(all_lines(&history), [complete(2), (1, vec![(1, Outcome::RolledBack, 1)])]);
    let drift = || Trigger::Drift("kubectl-edit".to_owned());
    charged(&history, 3, 1, "web", drift(), Outcome::Failed, 400);
    charged(&history, 3, 2, "api", drift(), Outcome::Complete, 410);
    assert_eq!(all_lines(&history), [(3, vec![]), complete(2), (1, vec![(1, Outcome::Failed, 1)])]);
}

#[test]
fn a_commit_that_was_never_a_head_stays_in_the_line_that_it_came_with() {
    let (_folder, history) = opened();
    let plan = [record(3, deployment("web"), at(0)), record(2, deployment("api"), at(0))];
    let commits = [crate::commit(3, "Ada", at(0)), crate::commit(2, "Ada", at(0))];
    history.saw("shop", &commit_id(3), &commits, at(0)).unwrap();
    let ids = history.begin("shop", &commit_id(3), &plan, at(0)).unwrap();
    end(&history, &ids, Outcome::RolledBack);
    charged(&history, 4, 2, "api", Trigger::Retry, Outcome::Failed, 100);
    charged(&history, 5, 2, "api", Trigger::Retry, Outcome::Complete, 200);
    let line = (3, vec![(2, Outcome::Complete, 1), (3, Outcome::RolledBack, 1)]);
    assert_eq!(all_lines(&history), [(5, vec![]), (4, vec![]), line.clone()]);
    // It comes again with another head, after the branch was set back: it is listed there from now on.
    charged(&history, 1, 1, "api", Trigger::Commit, Outcome::Complete, 300);
    history.saw("shop", &commit_id(6), &[crate::commit(6, "Ada", at(0)), commits[1].clone()], at(400)).unwrap();
    charged(&history, 6, 2, "api", Trigger::Commit, Outcome::Failed, 400);
    charged(&history, 7, 2, "api", Trigger::Retry, Outcome::Superseded, 500);
    let came_again = (6, vec![(2, Outcome::Superseded, 1)]);
    let set_back = (1, vec![(1, Outcome::Complete, 1)]);
    assert_eq!(all_lines(&history), [(7, vec![]), came_again, set_back, (5, vec![]), (4, vec![]), line]);
}

#[test]
fn a_head_that_comes_again_has_a_line_for_each_time() {
    let (_folder, history) = opened();
    charged(&history, 1, 1, "web", Trigger::Commit, Outcome::Complete, 0);
    charged(&history, 2, 2, "web", Trigger::Commit, Outcome::RolledBack, 100);
    charged(&history, 1, 1, "web", Trigger::Commit, Outcome::RolledBack, 200);
    charged(&history, 3, 3, "api", Trigger::Commit, Outcome::Complete, 300);
    charged(&history, 3, 1, "web", Trigger::Retry, Outcome::Failed, 400);
    charged(&history, 3, 2, "db", Trigger::Retry, Outcome::Complete, 500);
    let line = |commit: u64, outcome: Outcome| (commit, vec![(commit, outcome, 1)]);
    let second = (2, vec![(2, Outcome::Complete, 1), (2, Outcome::RolledBack, 1)]);
    let first = line(1, Outcome::Complete);
    assert_eq!(all_lines(&history), [line(3, Outcome::Complete), line(1, Outcome::Failed), second, first]);
}

#[test]
fn a_line_belongs_to_one_source() {
    let (_folder, history) = opened();
    for source in ["shop", "site"] {
        let ids = history.begin(source, &commit_id(1), &[record(1, deployment("web"), at(0))], at(0)).unwrap();
        end(&history, &ids, Outcome::Failed);
    }
    history.begin("site", &commit_id(2), &[], at(50)).unwrap();
    let retry = Record { trigger: Trigger::Retry, ..record(1, deployment("web"), at(100)) };
    let ids = history.begin("site", &commit_id(2), &[retry], at(100)).unwrap();
    end(&history, &ids, Outcome::Complete);
    let of = |source| lines(&history.timeline(Some(source), None, 10).unwrap());
    assert_eq!(of("shop"), [(1, vec![(1, Outcome::Failed, 1)])]);
    assert_eq!(of("site"), [(2, vec![]), (1, vec![(1, Outcome::Complete, 1)])]);
}

#[test]
fn a_head_whose_records_are_forgotten_says_so() {
    let (_folder, history) = opened();
    let plan = [record(2, deployment("web"), at(0)), record(1, deployment("api"), at(0))];
    let ids = history.begin("shop", &commit_id(2), &plan, at(0)).unwrap();
    end(&history, &ids, Outcome::Complete);
    charged(&history, 3, 3, "web", Trigger::Commit, Outcome::Complete, 100);
    // Corrected drift counts nowhere, and is missed by nobody.
    charged(&history, 3, 3, "db", Trigger::Drift("kubectl-edit".to_owned()), Outcome::Complete, 110);
    charged(&history, 4, 4, "db", Trigger::Commit, Outcome::Complete, 200);
    charged(&history, 5, 1, "api", Trigger::Retry, Outcome::RolledBack, 300);
    assert!(history.timeline(None, None, 10).unwrap().iter().all(|entry| !entry.forgotten));
    history.forget(&Retention { age: None, records: Some(1) }, at(400)).unwrap();
    let api = (2, vec![(1, Outcome::RolledBack, 1)]);
    let line = |commit: u64| (commit, vec![(commit, Outcome::Complete, 1)]);
    assert_eq!(all_lines(&history), [(5, vec![]), line(4), line(3), api]);
    let forgotten: Vec<bool> = history.timeline(None, None, 10).unwrap().iter().map(|entry| entry.forgotten).collect();
    assert_eq!(forgotten, [false, false, false, true]);
}

/// Returns one record, under the head before or under a newer one.
fn happening() -> impl Strategy<Value = (u64, u64, &'static str, Trigger, Outcome)> {
    let triggers =
        vec![Trigger::Commit, Trigger::Retry, Trigger::Drift(String::new()), Trigger::UndoByHand("kubectl".to_owned())];
    let outcomes = vec![Outcome::Complete, Outcome::Failed, Outcome::RolledBack, Outcome::Superseded];
    (0..3_u64, 0..6_u64, select(vec!["web", "api", "db"]), select(triggers), select(outcomes))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// While a branch only goes on, each object of a commit counts in one line of all, and as it ended last.
    #[test]
    fn each_object_of_a_commit_counts_once(happenings in proptest::collection::vec(happening(), 1..25)) {
        let (_folder, history) = opened();
        let mut last: BTreeMap<(u64, &str), Outcome> = BTreeMap::new();
        let (mut head, mut newest) = (1, 0);
        for (step, ago, name, trigger, outcome) in happenings {
            head += step;
            let commit = head.saturating_sub(ago).max(1);
            let says_nothing = matches!(trigger, Trigger::Drift(_)) && !matches!(outcome, Outcome::Failed | Outcome::RolledBack);
            let record = Record { trigger, ..record(commit, deployment(name), at(0)) };
            let ids = history.begin("shop", &commit_id(head), std::slice::from_ref(&record), at(0)).unwrap();
            // A record that was begun under this head already is taken up, and has ended.
            if ids[0].0 <= newest {
                continue;
            }
            newest = ids[0].0;
            end(&history, &ids, outcome);
            if !says_nothing {
                last.insert((commit, name), outcome);
            }
        }
        let mut expected: BTreeMap<(u64, Outcome), u64> = BTreeMap::new();
        last.iter().for_each(|((commit, _), outcome)| *expected.entry((*commit, *outcome)).or_default() += 1);
        let mut counted: BTreeMap<(u64, Outcome), u64> = BTreeMap::new();
        let lines = all_lines(&history);
        for (commit, outcome, count) in lines.iter().flat_map(|(_, counted)| counted) {
            prop_assert!(counted.insert((*commit, *outcome), *count).is_none(), "in two lines: {:?}", lines);
        }
        prop_assert_eq!(counted, expected, "{:?}", lines);
    }
}
