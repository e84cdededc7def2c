//! The rebuilt records after the file was lost, the subjects of sources, drift, and undos with their persons.

use belay::history::{By, Drifted, Followed, History, HistoryEntry, Query, StatsQuery, Trouble};
use belay_core::rollout::{Outcome, Record, Trigger};

use super::{at, commit, commit_id, deployment, record, recorded};

fn rebuilt(number: u64, outcome: Outcome, ended: Option<i64>) -> Record {
    let seconds = i64::try_from(number).unwrap() * 100;
    Record {
        trigger: Trigger::Rebuilt,
        outcome,
        manifest_hash: None,
        ended: ended.map(at),
        ..record(number, deployment("web"), at(seconds))
    }
}

#[test]
fn it_is_told_apart_and_belongs_to_no_head() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    assert_eq!(history.rebuilt("shop").unwrap(), None);
    history.rebuild("shop", &[], &[], at(900)).unwrap();
    assert_eq!(history.rebuilt("shop").unwrap(), None, "there was nothing");
    let records = [
        rebuilt(1, Outcome::Unknown, None),
        rebuilt(2, Outcome::RolledBack, Some(250)),
        rebuilt(3, Outcome::Complete, None),
    ];
    history.rebuild("shop", &records, &[commit(1, "Ada", at(50))], at(900)).unwrap();
    assert_eq!(history.rebuilt("shop").unwrap(), Some(at(900)));
    assert_eq!(history.heads("shop").unwrap(), belay::history::Heads::default());
    assert_eq!(history.open_records("shop").unwrap(), []);

    let mut read = history.records(&Query::default()).unwrap();
    read.reverse();
    let told: Vec<_> = read.iter().map(|record| (record.outcome, record.ended, record.trigger.clone())).collect();
    let mark = || Trigger::Rebuilt;
    assert_eq!(
        told,
        [
            (Outcome::Unknown, None, mark()),
            (Outcome::RolledBack, Some(at(250)), mark()),
            (Outcome::Complete, None, mark())
        ]
    );
    assert_eq!(history.commit(&commit_id(1)).unwrap().unwrap().author.name, "Ada");
    assert_eq!(history.last_good("shop", &deployment("web")).unwrap().unwrap().record.commit, commit_id(3));

    // A later plan is like any other.
    recorded(&history, 4, "web", Outcome::Complete, 1000);
    assert_eq!(history.heads("shop").unwrap().recorded, Some(commit_id(4)));
    assert_eq!(history.heads("shop").unwrap().finished, Some(commit_id(4)));
    assert_eq!(history.rebuilt("shop").unwrap(), Some(at(900)));
    recorded(&history, 5, "site", Outcome::Complete, 1100);
    let stats = StatsQuery { source: None, since: at(0), until: at(9999), by: By::Source };
    assert_eq!(history.stats(&stats).unwrap()[0].deployments, 2, "nobody knows how long the others took");
}

#[test]
fn every_trigger_has_a_word_that_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    let who = || "ada as admin".to_owned();
    let all = [
        (Trigger::Commit, "commit"),
        (Trigger::NewImage, "new-image"),
        (Trigger::ConfigChange, "config-change"),
        (Trigger::Restart(None), "restart"),
        (Trigger::Restart(Some(who())), "restart"),
        (Trigger::Autoscaler(deployment("scaler")), "autoscaler"),
        (Trigger::Retry, "retry"),
        (Trigger::UndoByHand(who()), "undo-by-hand"),
        (Trigger::Drift(who()), "drift"),
        (Trigger::Together(deployment("other")), "together"),
        (Trigger::After(who()), "after"),
        (Trigger::RollingUpdate(who()), "rolling-update"),
        (Trigger::Rebuilt, "rebuilt"),
    ];
    for (number, (trigger, word)) in (1..).zip(all) {
        assert_eq!(trigger.word(), word);
        assert_eq!(serde_json::to_value(&trigger).unwrap()["by"], word);
        let begun = Record { trigger: trigger.clone(), ..record(number, deployment("web"), at(1)) };
        let id = history.begin("shop", &commit_id(number), &[begun], at(1)).unwrap()[0];
        assert_eq!(history.record(id).unwrap().unwrap().trigger, trigger);
    }
}

#[test]
fn what_looked_like_drift_may_turn_out_an_undo() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    let begun = Record { trigger: Trigger::Drift("kubectl".to_owned()), ..record(1, deployment("web"), at(1)) };
    let id = history.begin("shop", &commit_id(1), &[begun], at(1)).unwrap()[0];
    let by = |who: &str| Trigger::UndoByHand(who.to_owned());
    assert!(!history.knows("shop", &deployment("web"), at(1), &by("ada")).unwrap());
    let update = belay::history::Update { trigger: Some(by("ada")), ..belay::history::Update::default() };
    history.update(id, &update).unwrap();
    assert_eq!(history.record(id).unwrap().unwrap().trigger, by("ada"));
    assert!(history.knows("shop", &deployment("web"), at(1), &by("grace")).unwrap());
    assert!(!history.knows("shop", &deployment("web"), at(1), &Trigger::RollingUpdate("ada".to_owned())).unwrap());
    for (source, name, second) in [("site", "web", 1), ("shop", "db", 1), ("shop", "web", 2)] {
        assert!(!history.knows(source, &deployment(name), at(second), &by("ada")).unwrap(), "{source} {name} {second}");
    }
}

#[test]
fn what_is_followed_and_what_has_drifted() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    let followed = |folders: &[&str]| Followed {
        source: "shop".to_owned(),
        folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
        follow: "branch main".to_owned(),
        trouble: None,
    };
    history.follows(&followed(&[""])).unwrap();
    history.follows(&followed(&["production", "apps/*"])).unwrap();
    assert_eq!(history.followed().unwrap(), [followed(&["production", "apps/*"])]);
    let trouble = Some(Trouble { message: "no route to host".to_owned(), since: at(5) });
    history.follows(&Followed { trouble: trouble.clone(), ..followed(&["production", "apps/*"]) }).unwrap();
    assert_eq!(history.followed().unwrap()[0].trouble, trouble);
    let drifted =
        |name: &str, by: &str, seconds| Drifted { object: deployment(name), by: by.to_owned(), since: at(seconds) };
    let note = |note: HistoryEntry| history.enter(&[note]).unwrap().remove(0).unwrap();
    note(HistoryEntry::Drifted("shop".to_owned(), drifted("web", "kubectl-edit", 1)));
    note(HistoryEntry::Drifted("shop".to_owned(), drifted("web", "somebody", 2)));
    note(HistoryEntry::Drifted("shop".to_owned(), drifted("db", "kubectl-scale", 3)));
    assert_eq!(
        history.drifts("shop").unwrap(),
        [drifted("db", "kubectl-scale", 3), drifted("web", "kubectl-edit", 1)],
        "since the first time"
    );
    note(HistoryEntry::PutRight("shop".to_owned(), deployment("web")));
    note(HistoryEntry::PutRight("shop".to_owned(), deployment("nobody")));
    assert_eq!(history.drifts("shop").unwrap().len(), 1);
    assert_eq!(history.drifts("site").unwrap(), []);
}
