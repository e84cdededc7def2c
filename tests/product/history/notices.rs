//! The notices: a commit at a time, when it has an outcome, to each receiver in order.

use belay::history::{History, Lasting, LastingKind, Notice, NoticeAbout, Retention};
use belay_core::rollout::{CommitId, Outcome, Record, RecordId, Trigger};

use crate::{at, commit_id, deployment, record};

fn opened() -> (tempfile::TempDir, History) {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    history.set_receivers(&["ops".to_owned()]).unwrap();
    (folder, history)
}

/// Begins so many records of a commit.
fn begun(history: &History, commit: u64, objects: usize, trigger: &Trigger) -> Vec<RecordId> {
    let new =
        |number| Record { trigger: trigger.clone(), ..record(commit, deployment(&format!("app-{number}")), at(10)) };
    let records: Vec<Record> = (0..objects).map(new).collect();
    history.begin("shop", &commit_id(commit), &records, at(10)).unwrap()
}

/// Tells `receiver`, which does not ask what has begun, all that there is, and what that was.
fn tell(history: &History, receiver: &str) -> Vec<(u64, Outcome, bool)> {
    let mut told = tell_all(history, receiver);
    told.retain(|(_, state, _)| *state != Outcome::Planned);
    told
}

fn tell_all(history: &History, receiver: &str) -> Vec<(u64, Outcome, bool)> {
    let number = |notice: &Notice| (1..10).find(|number| Some(&commit_id(*number)) == notice.commit()).unwrap();
    let mut told = Vec::new();
    while let Some(pending) = history.next_notice(receiver).unwrap() {
        let NoticeAbout::Commit(_, state) = pending.notice.about else { panic!("{pending:?}") };
        told.push((number(&pending.notice), state, pending.notice.is_final));
        history.notice_told(receiver, pending.notice.number).unwrap();
    }
    told
}

/// Tells `ops` all that there is, a message at a time.
fn tell_messages(history: &History) -> Vec<Vec<NoticeAbout>> {
    let mut told = Vec::new();
    while let Some(pending) = history.next_notice("ops").unwrap() {
        let about: Vec<NoticeAbout> = pending.notices().map(|notice| notice.about.clone()).collect();
        if !matches!(about[0], NoticeAbout::Commit(_, Outcome::Planned)) {
            told.push(about);
        }
        history.notice_told("ops", pending.last()).unwrap();
    }
    told
}

fn end(history: &History, ids: &[RecordId], outcome: Outcome) {
    ids.iter().for_each(|id| history.finish(*id, outcome, None, at(60)).unwrap());
}

#[test]
fn three_hundred_objects_are_one_message() {
    let (_folder, history) = opened();
    let ids = begun(&history, 1, 300, &Trigger::Commit);
    end(&history, &ids[..299], Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [], "one is under way");
    end(&history, &ids[299..], Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [(1, Outcome::Complete, true)]);

    let ids = begun(&history, 2, 300, &Trigger::Commit);
    end(&history, &ids, Outcome::RolledBack);
    assert_eq!(tell(&history, "ops"), [(2, Outcome::RolledBack, true)]);
    let became = history.became("shop", &commit_id(2), 20).unwrap();
    assert_eq!((became.objects[&Outcome::RolledBack], became.wrong.len()), (300, 20));
}

#[test]
fn that_a_commit_has_begun_is_told_once_and_before_its_end() {
    let (_folder, history) = opened();
    let ids = begun(&history, 1, 3, &Trigger::Commit);
    assert_eq!(tell_all(&history, "ops"), [(1, Outcome::Planned, false)]);
    end(&history, &ids, Outcome::Unchanged);
    assert_eq!(tell_all(&history, "ops"), [(1, Outcome::Complete, true)], "what has begun has an end");
    let drift = begun(&history, 1, 1, &Trigger::Drift("kubectl-edit".to_owned()));
    assert_eq!(tell_all(&history, "ops"), [], "drift is no beginning");
    end(&history, &drift, Outcome::Complete);
    let ids = begun(&history, 2, 1, &Trigger::Commit);
    end(&history, &ids, Outcome::Failed);
    assert_eq!(tell_all(&history, "ops"), [(2, Outcome::Failed, true)], "the newest stands for what was not sent");
}

#[test]
fn a_person_who_has_it_tried_again_hears_how_that_ends() {
    let (_folder, history) = opened();
    let ids = begun(&history, 1, 2, &Trigger::Commit);
    end(&history, &ids, Outcome::RolledBack);
    assert_eq!(tell_all(&history, "ops"), [(1, Outcome::RolledBack, true)]);
    let retried = begun(&history, 1, 2, &Trigger::Retry);
    assert_eq!(tell_all(&history, "ops"), [(1, Outcome::Planned, false)], "it is pending again");
    end(&history, &retried, Outcome::RolledBack);
    assert_eq!(tell_all(&history, "ops"), [(1, Outcome::RolledBack, true)], "and has failed again");
    let after = begun(&history, 1, 1, &Trigger::After("Deployment/db".to_owned()));
    assert_eq!(tell_all(&history, "ops"), [], "nobody asked for that");
    end(&history, &after, Outcome::RolledBack);
    assert_eq!(tell_all(&history, "ops"), []);
}

#[test]
fn what_fails_is_told_before_the_rest_is_through_and_again_when_it_changes() {
    let (_folder, history) = opened();
    let ids = begun(&history, 1, 4, &Trigger::Commit);
    end(&history, &ids[..1], Outcome::RolledBack);
    assert_eq!(tell(&history, "ops"), [(1, Outcome::RolledBack, false)]);
    end(&history, &ids[1..2], Outcome::RolledBack);
    assert_eq!(tell(&history, "ops"), [], "no worse than what was told, and not all");
    end(&history, &ids[2..3], Outcome::RollbackFailed);
    assert_eq!(tell(&history, "ops"), [(1, Outcome::RollbackFailed, false)]);
    end(&history, &ids[3..], Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [(1, Outcome::RollbackFailed, true)], "three went wrong, not one");

    let retried = begun(&history, 1, 3, &Trigger::Retry);
    end(&history, &retried, Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [(1, Outcome::Complete, true)], "a person has mended it");
    let undone = begun(&history, 1, 1, &Trigger::UndoByHand("kubectl".to_owned()));
    end(&history, &undone, Outcome::RolledBack);
    assert_eq!(tell(&history, "ops"), [(1, Outcome::RolledBack, true)]);
}

#[test]
fn one_that_fails_alone_is_told_once() {
    let (_folder, history) = opened();
    let ids = begun(&history, 1, 2, &Trigger::Commit);
    end(&history, &ids[..1], Outcome::Failed);
    assert_eq!(tell(&history, "ops").len(), 1);
    end(&history, &ids[1..], Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [], "it was told that one has failed");
}

#[test]
fn what_belay_puts_right_is_no_news_of_the_commit() {
    let (_folder, history) = opened();
    let drift = Trigger::Drift("kubectl-edit".to_owned());
    // A commit without notices: its history may be older than notices are.
    let ids = begun(&history, 1, 1, &drift);
    end(&history, &ids, Outcome::Complete);
    let ids = begun(&history, 2, 1, &Trigger::Commit);
    end(&history, &ids, Outcome::RolledBack);
    assert_eq!(tell(&history, "ops"), [(2, Outcome::RolledBack, true)]);
    let ids = begun(&history, 2, 1, &drift);
    end(&history, &ids, Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [], "it is still rolled back");
    let ids = begun(&history, 1, 1, &drift);
    end(&history, &ids, Outcome::Failed);
    assert_eq!(tell(&history, "ops"), [(1, Outcome::Failed, true)], "that did not end well");
}

#[test]
fn each_receiver_has_its_own_place_in_the_order() {
    let (folder, history) = opened();
    for commit in 1..=3 {
        let ids = begun(&history, commit, 1, &Trigger::Commit);
        end(&history, &ids, Outcome::Complete);
    }
    history.set_receivers(&["ops".to_owned(), "new".to_owned()]).unwrap();
    assert_eq!(tell(&history, "new"), [], "it is told from its beginning on");
    let first = history.next_notice("ops").unwrap().unwrap();
    history.notice_tried("ops", at(50)).unwrap();
    history.notice_not_told("ops", at(100)).unwrap();
    history.notice_tried("ops", at(200)).unwrap();
    drop(history);
    // As after `kill -9`.
    let (history, _) = History::open(folder.path(), at(70)).unwrap();
    history.set_receivers(&["ops".to_owned(), "new".to_owned()]).unwrap();
    let again = history.next_notice("ops").unwrap().unwrap();
    assert_eq!((&again.notice, again.attempts, again.retry), (&first.notice, 2, Some(at(200))));
    history.notice_given_up("ops", again.notice.number).unwrap();
    let next = history.next_notice("ops").unwrap().unwrap();
    assert_eq!((next.attempts, next.retry), (2, Some(at(200))), "who did not answer still does not");
    let told: Vec<u64> = tell(&history, "ops").into_iter().map(|(commit, ..)| commit).collect();
    assert_eq!(told, [2, 3]);
    let ids = begun(&history, 4, 1, &Trigger::Commit);
    end(&history, &ids, Outcome::Complete);
    assert_eq!(history.next_notice("ops").unwrap().unwrap().attempts, 0, "it has taken one since");
}

#[test]
fn a_newer_notice_of_a_commit_stands_for_what_was_not_sent() {
    let (_folder, history) = opened();
    let ids = begun(&history, 1, 1, &Trigger::Commit);
    end(&history, &ids, Outcome::RolledBack);
    let ids = begun(&history, 2, 1, &Trigger::Commit);
    end(&history, &ids, Outcome::Complete);
    let ids = begun(&history, 1, 1, &Trigger::Retry);
    end(&history, &ids, Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [(2, Outcome::Complete, true), (1, Outcome::Complete, true)]);
}

#[test]
fn a_record_that_was_not_written_is_not_told_of() {
    let (_folder, history) = opened();
    let ids = begun(&history, 1, 1, &Trigger::Commit);
    assert!(history.finish(ids[0], Outcome::UnderWay, None, at(60)).is_err());
    assert_eq!(tell(&history, "ops"), []);
    // One that had ended when it was written down, as a manifest that can't be read.
    let rejected = Record { outcome: Outcome::Rejected, ..record(2, deployment("web"), at(10)) };
    history.begin("shop", &commit_id(2), &[rejected], at(10)).unwrap();
    assert_eq!(tell(&history, "ops"), [(2, Outcome::Rejected, true)]);
}

#[test]
fn notices_are_forgotten_with_the_records_of_their_commits() {
    let (folder, history) = opened();
    for commit in 1..=3 {
        let ids = begun(&history, commit, 1, &Trigger::Commit);
        end(&history, &ids, Outcome::Complete);
    }
    let notices = || -> i64 {
        let file = rusqlite::Connection::open(folder.path().join("history.db")).unwrap();
        file.query_row("SELECT count(*) FROM notices", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(notices(), 6, "one that it has begun, and one of its end");
    let forgotten = history.forget(&Retention { age: None, records: Some(1) }, at(100)).unwrap();
    assert_eq!((forgotten, notices()), (2, 2));
}

#[test]
fn the_past_of_a_repository_is_no_news_where_it_ends_well() {
    let (_folder, history) = opened();
    let of = |commit| record(commit, deployment(&format!("app-{commit}")), at(10));
    let ids = history.begin("shop", &commit_id(3), &[of(1), of(2), of(3)], at(10)).unwrap();
    end(&history, &ids, Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [(3, Outcome::Complete, true)]);
    // Commits that come together later are news, each of them.
    let ids = history.begin("shop", &commit_id(6), &[of(5), of(6)], at(20)).unwrap();
    end(&history, &ids, Outcome::Complete);
    assert_eq!(tell(&history, "ops"), [(5, Outcome::Complete, true), (6, Outcome::Complete, true)]);
}

#[test]
fn the_troubles_of_a_repositorys_past_are_one_message() {
    let (_folder, history) = opened();
    let of = |commit| record(commit, deployment(&format!("app-{commit}")), at(10));
    let records: Vec<Record> = (1..=100).map(of).collect();
    let ids = history.begin("shop", &commit_id(100), &records, at(10)).unwrap();
    end(&history, &ids[..98], Outcome::Rejected);
    let past = |state| vec![NoticeAbout::Past(commit_id(100), state)];
    assert_eq!(tell_messages(&history), [past(Outcome::Rejected)], "the first of them, while others are under way");
    end(&history, &ids[98..99], Outcome::RolledBack);
    end(&history, &ids[99..], Outcome::Complete);
    let head = vec![NoticeAbout::Commit(commit_id(100), Outcome::Complete)];
    assert_eq!(tell_messages(&history), [past(Outcome::RolledBack), head]);
    let became = history.past_became("shop", &commit_id(100), 20).unwrap();
    assert_eq!((became.objects[&Outcome::Rejected], became.objects[&Outcome::RolledBack]), (98, 1));
    assert_eq!(became.wrong.len(), 20);
    // A retry at the same head that ends well, and one that ends as before, is no news of the past.
    let again = Record { trigger: Trigger::Retry, ..of(99) };
    let ids = history.begin("shop", &commit_id(100), &[again], at(20)).unwrap();
    end(&history, &ids, Outcome::Complete);
    assert_eq!(tell_messages(&history), Vec::<Vec<NoticeAbout>>::new());
    // A lost history is rebuilt without a head; what is found then is the past as well.
    let (_folder, history) = opened();
    let rebuilt = Record { trigger: Trigger::Rebuilt, outcome: Outcome::Held, ..of(1) };
    history.rebuild("shop", &[rebuilt], &[], at(10)).unwrap();
    let told = tell_messages(&history);
    let ids = history.begin("shop", &commit_id(3), &[of(1), of(2), of(3)], at(10)).unwrap();
    end(&history, &ids, Outcome::Rejected);
    let after = tell_messages(&history);
    let of_past = |told: &[Vec<NoticeAbout>]| told.iter().filter(|one| matches!(one[0], NoticeAbout::Past(..))).count();
    assert_eq!((of_past(&told), of_past(&after), after.len()), (0, 1, 2), "{after:?}");
}

/// The oldest plan that is remembered is not the first that there was.
#[test]
fn what_was_forgotten_makes_no_past_of_what_is_there() {
    let (_folder, history) = opened();
    let of =
        |commit, app: u64| record(commit, deployment(&format!("app-{app}")), at(10 * i64::try_from(commit).unwrap()));
    for (head, records) in [(1, [of(1, 5), of(1, 6)]), (6, [of(5, 5), of(6, 6)])] {
        let ids = history.begin("shop", &commit_id(head), &records, at(9)).unwrap();
        end(&history, &ids, Outcome::Complete);
    }
    tell(&history, "ops");
    history.forget(&Retention { age: None, records: Some(2) }, at(100)).unwrap();
    let remembered: Vec<CommitId> =
        history.timeline(None, None, 9).unwrap().into_iter().map(|entry| entry.head).collect();
    assert_eq!(remembered, [commit_id(6)]);
    let again = Record { trigger: Trigger::Retry, ..of(5, 5) };
    let ids = history.begin("shop", &commit_id(6), &[again], at(110)).unwrap();
    assert_eq!(tell_all(&history, "ops"), [(5, Outcome::Planned, false)]);
    end(&history, &ids, Outcome::Rejected);
    assert_eq!(tell_all(&history, "ops"), [(5, Outcome::Rejected, true)]);
}

#[test]
fn what_lasts_is_told_together_and_in_order() {
    let (folder, history) = opened();
    let blocked = |source: &str| Lasting {
        source: source.to_owned(),
        since: at(5),
        what: LastingKind::Blocked("no route to host".to_owned()),
    };
    history.note_lasting(&[blocked("a"), blocked("b")], at(400)).unwrap();
    let ids = begun(&history, 1, 1, &Trigger::Commit);
    end(&history, &ids, Outcome::RolledBack);
    let held = Lasting { source: "shop".to_owned(), since: at(60), what: LastingKind::Held(commit_id(1)) };
    history.note_lasting(&[held], at(3700)).unwrap();
    let noted = history.noted_lasting().unwrap();
    assert_eq!(noted.blocked.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(noted.held[&("shop".to_owned(), commit_id(1))], at(3700));
    let why = || NoticeAbout::Source(Some("no route to host".to_owned()));
    let told = [
        vec![why(), why()],
        vec![NoticeAbout::Commit(commit_id(1), Outcome::RolledBack)],
        vec![NoticeAbout::Held(commit_id(1))],
    ];
    assert_eq!(tell_messages(&history), told);
    // A notice that was not sent is replaced by a newer one of the same source.
    history.note_lasting(&[blocked("a")], at(4000)).unwrap();
    let free = Lasting { source: "a".to_owned(), since: at(4100), what: LastingKind::Unblocked };
    history.note_lasting(&[free], at(4200)).unwrap();
    assert_eq!(history.noted_lasting().unwrap().blocked.keys().collect::<Vec<_>>(), ["b"]);
    history.forget(&Retention { age: None, records: Some(0) }, at(5000)).unwrap();
    drop(history);
    let (history, _) = History::open(folder.path(), at(5000)).unwrap();
    assert_eq!(tell_messages(&history), [vec![NoticeAbout::Source(None)]], "it is not forgotten with records");
    assert_eq!(history.noted_lasting().unwrap().blocked.keys().collect::<Vec<_>>(), ["b"]);
}
