//! Records: begun, moved on, ended, found.

use std::collections::BTreeSet;

use belay::history::{
    Arrival, FallbackTemplate, FetchTimes, Heads, History, HistoryError, JudgedBaseline, JudgedWrite, Query, Resolved,
    Retention, Update,
};
use belay_core::manifest::{Complaint, Excerpt, Note, ObjectKey, Place};
use belay_core::rollout::{
    Baseline, Evidence, Outcome, PodSeen, Reason, ReasonCode, Record, RecordId, Step, StepKind, TemplateMarks, Trigger,
};
use jiff::SignedDuration;
use serde_json::json;

use super::{at, commit, commit_id, deployment, record, recorded};

fn open() -> (tempfile::TempDir, History) {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    (folder, history)
}

fn reason() -> Reason {
    Reason::new(ReasonCode::ProgressDeadlineExceeded, "no progress for 600 s")
}

#[test]
fn a_record_comes_back_as_it_was_written() {
    let (_folder, history) = open();
    let place = Place { path: "production/web.yaml".into(), line: 12, column: 3 };
    let complaint = Complaint {
        place: place.clone(),
        object: Some(deployment("web")),
        message: "unknown field `imagee`".to_owned(),
        hint: Some("image".to_owned()),
        excerpt: Some(Excerpt { line: "  imagee: web".to_owned(), start: 2, end: 8 }),
        also: vec![Note { place: place.clone(), message: "written first here".to_owned(), excerpt: None }],
    };
    let pod = PodSeen {
        name: "web-7f9".to_owned(),
        state: "CrashLoopBackOff".to_owned(),
        exit_code: Some(1),
        log: vec!["panic: no".to_owned()],
        ..PodSeen::default()
    };
    let mut full = Record {
        place: Some(place),
        rendered_by: Some("live/kustomization.yaml".to_owned()),
        trigger: Trigger::UndoByHand("kubectl-rollout".to_owned()),
        outcome: Outcome::RolledBack,
        reason: Some(reason()),
        revision: Some(7),
        back_to: Some(commit_id(2)),
        back_to_revision: Some(6),
        complaints: vec![complaint],
        evidence: Some(Evidence { pods: vec![pod], ..Evidence::default() }),
        ended: Some(at(90)),
        ..record(1, deployment("web"), at(5))
    };
    let bare = Record {
        object: ObjectKey {
            group: String::new(),
            kind: "Namespace".to_owned(),
            namespace: None,
            name: "shop".to_owned(),
        },
        manifest_hash: None,
        rolls_out: false,
        ..record(1, deployment("web"), at(5))
    };
    let ids = history.begin("shop", &commit_id(1), &[full.clone(), bare.clone()], at(5)).unwrap();
    full.id = ids[0];
    assert_eq!(history.record(ids[0]).unwrap().unwrap(), full);
    assert_eq!(history.record(ids[1]).unwrap().unwrap(), Record { id: ids[1], ..bare });
    assert_eq!(history.record(RecordId(999)).unwrap(), None);
}

#[test]
fn a_record_goes_its_way_and_ends_once() {
    let (_folder, history) = open();
    let id = history.begin("shop", &commit_id(1), &[record(1, deployment("web"), at(0))], at(0)).unwrap()[0];
    let under_way = Update { outcome: Some(Outcome::UnderWay), revision: Some(4), ..Update::default() };
    history.update(id, &under_way).unwrap();
    history.step(id, &Step { at: at(1), kind: StepKind::Applied, detail: "generation 7".to_owned() }).unwrap();
    let seen = history.record(id).unwrap().unwrap();
    assert_eq!((seen.outcome, seen.revision, seen.ended), (Outcome::UnderWay, Some(4), None));
    assert_eq!(history.open_records("shop").unwrap(), [seen]);
    assert_eq!(history.open_records("other").unwrap(), []);

    history.finish(id, Outcome::Failed, Some(&reason()), at(600)).unwrap();
    let ended = history.record(id).unwrap().unwrap();
    assert_eq!((ended.outcome, ended.reason, ended.ended), (Outcome::Failed, Some(reason()), Some(at(600))));
    assert_eq!(history.open_records("shop").unwrap(), []);
    history.finish(id, Outcome::Failed, None, at(700)).unwrap();
    let again = history.finish(id, Outcome::Complete, None, at(700)).unwrap_err();
    assert!(matches!(again, HistoryError::Ended { outcome: Outcome::Failed, .. }), "{again}");
    assert!(matches!(history.update(id, &under_way).unwrap_err(), HistoryError::Ended { .. }));
    let not_so = Update { outcome: Some(Outcome::Complete), ..Update::default() };
    assert!(matches!(history.update(id, &not_so).unwrap_err(), HistoryError::WrongOutcome { .. }));
    let never = history.finish(id, Outcome::UnderWay, None, at(0)).unwrap_err();
    assert!(matches!(never, HistoryError::WrongOutcome { .. }), "{never}");
    let evidence = Evidence { conditions: vec!["Progressing=False".to_owned()], ..Evidence::default() };
    history.update(id, &Update { evidence: Some(evidence.clone()), ..Update::default() }).unwrap();
    assert_eq!(history.record(id).unwrap().unwrap().evidence, Some(evidence));

    let steps = history.steps(id).unwrap();
    let kinds: Vec<StepKind> = steps.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Applied, StepKind::Ended]);
    assert_eq!(steps[1].detail, "failed: no progress for 600 s");
    for error in [
        history.step(RecordId(9), &steps[0]).unwrap_err(),
        history.update(RecordId(9), &under_way).unwrap_err(),
        history.finish(RecordId(9), Outcome::Failed, None, at(0)).unwrap_err(),
    ] {
        assert!(matches!(error, HistoryError::NoRecord { .. }), "{error}");
    }
}

#[test]
fn beginning_the_same_plan_again_begins_nothing_twice() {
    let (_folder, history) = open();
    let plan = [record(1, deployment("web"), at(0)), record(2, deployment("api"), at(0))];
    let first = history.begin("shop", &commit_id(2), &plan, at(0)).unwrap();
    history.finish(first[0], Outcome::Complete, None, at(30)).unwrap();
    let more = [plan[0].clone(), plan[1].clone(), record(2, deployment("db"), at(40))];
    let second = history.begin("shop", &commit_id(2), &more, at(40)).unwrap();
    assert_eq!(second[..2], first[..]);
    assert!(!first.contains(&second[2]));
    assert_eq!(history.record(first[0]).unwrap().unwrap().outcome, Outcome::Complete);
    let retry = Record { trigger: Trigger::Retry, ..plan[0].clone() };
    let third = history.begin("shop", &commit_id(2), &[retry], at(50)).unwrap();
    assert!(!second.contains(&third[0]));
    // The branch was moved away and back: that is another rollout.
    history.begin("shop", &commit_id(3), &[], at(60)).unwrap();
    let fourth = history.begin("shop", &commit_id(2), &plan, at(70)).unwrap();
    assert!(fourth.iter().all(|id| !second.contains(id)));
}

#[test]
fn heads_are_known_by_what_became_of_their_plans() {
    let (_folder, history) = open();
    let heads = |recorded: Option<u64>, finished: Option<u64>| Heads {
        recorded: recorded.map(commit_id),
        finished: finished.map(commit_id),
    };
    assert_eq!(history.heads("shop").unwrap(), heads(None, None));
    let ids = history
        .begin(
            "shop",
            &commit_id(1),
            &[record(1, deployment("web"), at(0)), record(1, deployment("api"), at(0))],
            at(0),
        )
        .unwrap();
    assert_eq!(history.heads("shop").unwrap(), heads(Some(1), None));
    history.finish(ids[0], Outcome::Complete, None, at(1)).unwrap();
    assert_eq!(history.heads("shop").unwrap(), heads(Some(1), None));
    history.finish(ids[1], Outcome::Failed, None, at(1)).unwrap();
    assert_eq!(history.heads("shop").unwrap(), heads(Some(1), Some(1)));
    // Nothing to do for this head: finished at once.
    history.begin("shop", &commit_id(2), &[], at(2)).unwrap();
    assert_eq!(history.heads("shop").unwrap(), heads(Some(2), Some(2)));
    history.begin("shop", &commit_id(3), &[record(3, deployment("web"), at(3))], at(3)).unwrap();
    assert_eq!(history.heads("shop").unwrap(), heads(Some(3), Some(2)));
    assert_eq!(history.heads("other").unwrap(), heads(None, None));
}

#[test]
fn commits_are_known_with_the_head_they_came_with() {
    let (_folder, history) = open();
    let commits = [commit(3, "Ada", at(30)), commit(2, "Bob", at(-99_999_999)), commit(1, "Ada", at(10))];
    history.saw("shop", &commit_id(3), &commits, at(40)).unwrap();
    history.saw("shop", &commit_id(3), &commits, at(50)).unwrap();
    history.saw("site", &commit_id(2), &commits[1..], at(60)).unwrap();
    for commit in &commits {
        assert_eq!(history.commit(&commit.id).unwrap().as_ref(), Some(commit));
        assert_eq!(history.resolve(&commit.id.as_str()[..9]).unwrap(), Resolved::One(commit.id.clone()));
    }
    assert_eq!(history.commit(&commit_id(9)).unwrap(), None);
    let arrival = |source: &str, head: u64, seconds: i64| Arrival {
        source: source.to_owned(),
        head: commit_id(head),
        at: at(seconds),
        fetch: None,
    };
    assert_eq!(history.arrivals(&commit_id(2)).unwrap(), [arrival("shop", 3, 50), arrival("site", 2, 60)]);
    // Now it is a head itself; that it was skipped once does not matter any more.
    history.saw("shop", &commit_id(2), &commits[1..2], at(70)).unwrap();
    history.saw("shop", &commit_id(3), &commits, at(80)).unwrap();
    assert_eq!(history.arrivals(&commit_id(2)).unwrap()[0], arrival("shop", 2, 70));
    for nothing in ["", "zzz", "ffffffffffffffffffffffffffffffffffffffff", "1' OR 1"] {
        assert_eq!(history.resolve(nothing).unwrap(), Resolved::None, "{nothing}");
    }
    let all: Vec<_> = (0..16_u8).map(|digit| format!("{digit:x}")).collect();
    let found: usize = all
        .iter()
        .map(|digit| match history.resolve(digit).unwrap() {
            Resolved::None => 0,
            Resolved::One(_) => 1,
            Resolved::Several(several) => several.len(),
        })
        .sum();
    assert_eq!(found, 3);
    let fetch = Some(FetchTimes { began: at(85), ended: at(86) });
    history.saw_fetched("shop", &commit_id(4), &[commit(4, "Ada", at(80))], fetch, at(90)).unwrap();
    assert_eq!(history.arrivals(&commit_id(4)).unwrap(), [Arrival { fetch, ..arrival("shop", 4, 90) }]);
}

#[test]
fn objects_that_are_held_again_are_found_in_one_question() {
    let (_folder, history) = open();
    let again = |code: ReasonCode, message: &str| Some(Reason::new(code, message));
    let held = |number: u64, name: &str, reason: Option<Reason>| {
        let new = Record { outcome: Outcome::Held, reason, ..record(number, deployment(name), at(10)) };
        history.begin("shop", &commit_id(number), &[new], at(10)).unwrap();
    };
    held(1, "web", again(ReasonCode::HeldAgain, "held again by 1"));
    held(2, "api", again(ReasonCode::Held, "held"));
    held(3, "old", again(ReasonCode::HeldAgain, "held again by 3"));
    recorded(&history, 4, "old", Outcome::Complete, 20);
    held(5, "jobs", again(ReasonCode::HeldAgain, "held again by 5"));
    let keys = ["web", "api", "old", "none"].map(deployment);
    let found = history.held_again("shop", keys.iter()).unwrap();
    assert_eq!(found, [(deployment("web"), "held again by 1".to_owned())].into());
    assert!(history.held_again("site", keys.iter()).unwrap().is_empty());
    assert!(history.held_again("shop", [].iter()).unwrap().is_empty());
    // A size that an autoscaler has set says nothing of the hold.
    let scaler = Trigger::Autoscaler(deployment("web"));
    let scaled = Record { trigger: scaler, ..record(1, deployment("web"), at(30)) };
    history.begin("shop", &commit_id(5), &[scaled], at(30)).unwrap();
    assert_eq!(history.held_again("shop", keys.iter()).unwrap(), found);
}

#[test]
fn the_last_good_one_is_complete_and_has_not_failed_since() {
    let (_folder, history) = open();
    let web = deployment("web");
    let good = |history: &History| history.last_good("shop", &web).unwrap().map(|good| good.record.commit);
    assert_eq!(good(&history), None);
    recorded(&history, 1, "web", Outcome::Complete, 10);
    recorded(&history, 2, "web", Outcome::Complete, 20);
    recorded(&history, 3, "web", Outcome::RolledBack, 30);
    recorded(&history, 4, "api", Outcome::Complete, 40);
    assert_eq!(good(&history), Some(commit_id(2)));
    // Not one that was unchanged: nothing was seen of it.
    let unchanged = Record { outcome: Outcome::Complete, rolls_out: false, ..record(5, web.clone(), at(50)) };
    history.begin("shop", &commit_id(5), &[unchanged], at(50)).unwrap();
    assert_eq!(good(&history), Some(commit_id(2)));
    // Tried again, it failed.
    let retry = Record { trigger: Trigger::Retry, ..record(2, web.clone(), at(60)) };
    let id = history.begin("shop", &commit_id(5), &[retry], at(60)).unwrap()[0];
    history.finish(id, Outcome::RollbackFailed, None, at(70)).unwrap();
    assert_eq!(good(&history), Some(commit_id(1)));
    assert_eq!(history.last_good("other", &web).unwrap(), None);
}

/// A manifest that failed, or was not well, with other configuration than it was complete with says nothing of that.
#[test]
fn with_its_own_configuration_a_manifest_stays_good() {
    let (_folder, history) = open();
    let web = deployment("web");
    let good = |history: &History| history.last_good("shop", &web).unwrap().map(|good| good.record.commit);
    let unwell = |history: &History| -> Vec<_> {
        history.unwell("shop", &web).unwrap().into_iter().map(|record| record.commit).collect()
    };
    let rolled = |number: u64, trigger: Trigger, outcome: Outcome| {
        let seconds = i64::try_from(number).unwrap() * 10;
        let same = Some("hash-2".to_owned());
        let record = Record { trigger, manifest_hash: same, ..record(number, web.clone(), at(seconds)) };
        let id = history.begin("shop", &commit_id(number), &[record], at(seconds)).unwrap()[0];
        history.finish(id, outcome, None, at(seconds + 5)).unwrap();
        id
    };
    recorded(&history, 1, "web", Outcome::Complete, 10);
    rolled(2, Trigger::NewImage, Outcome::Complete);
    rolled(3, Trigger::ConfigChange, Outcome::RolledBack);
    rolled(3, Trigger::Retry, Outcome::Failed);
    assert_eq!(good(&history), Some(commit_id(2)));
    assert_eq!(unwell(&history), [commit_id(3)]);
    let ill = rolled(4, Trigger::ConfigChange, Outcome::Complete);
    history.step(ill, &Step { at: at(49), kind: StepKind::Unwell, detail: String::new() }).unwrap();
    assert_eq!(good(&history), Some(commit_id(2)));
    assert_eq!(unwell(&history), [commit_id(4), commit_id(3)]);
    rolled(5, Trigger::ConfigChange, Outcome::Complete);
    rolled(5, Trigger::Together(deployment("api")), Outcome::RolledBack);
    assert_eq!(good(&history), Some(commit_id(2)));
    // With the same configuration it has failed.
    rolled(6, Trigger::ConfigChange, Outcome::Complete);
    rolled(7, Trigger::Drift("kubectl".to_owned()), Outcome::RolledBack);
    assert_eq!(good(&history), Some(commit_id(2)));
}

#[test]
fn templates_are_kept_once_bounded_and_never_of_secrets() {
    let (folder, history) = open();
    let web = deployment("web");
    recorded(&history, 1, "web", Outcome::Complete, 1);
    let template = |image: u64| json!({"spec": {"containers": [{"name": "web", "image": format!("web:{image}")}]}});
    for number in 1..=60 {
        history.keep_template("shop", &web, &commit_id(number), &template(number), at(1)).unwrap();
        history.keep_template("shop", &deployment("api"), &commit_id(number), &template(number % 2), at(1)).unwrap();
    }
    assert_eq!(history.template("shop", &web, &commit_id(60)).unwrap(), Some(template(60)));
    assert_eq!(history.template("shop", &web, &commit_id(30)).unwrap(), None, "only so many are kept");
    let good = history.last_good("shop", &web).unwrap().unwrap();
    assert_eq!((good.record.commit, good.template), (commit_id(1), Some(template(1))), "the good one stays");
    let connection = rusqlite::Connection::open(folder.path().join("history.db")).unwrap();
    let count = |table: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("applied"), count("templates")), (41, 22));

    let secret = ObjectKey { group: String::new(), kind: "Secret".to_owned(), ..web.clone() };
    let error = history.keep_template("shop", &secret, &commit_id(1), &json!({"data": {"key": "aHVudGVyMg=="}}), at(1));
    assert!(matches!(error.unwrap_err(), HistoryError::Secret { .. }));
    let huge = json!({"x": "y".repeat(600 << 10)});
    let error = history.keep_template("shop", &web, &commit_id(1), &huge, at(1)).unwrap_err();
    assert!(matches!(error, HistoryError::TooLarge { .. }), "{error}");
}

#[test]
fn what_a_rollout_replaced_is_kept_until_it_is_complete() {
    let (_folder, history) = open();
    let web = deployment("web");
    let of = |uid: &str, image: &str| FallbackTemplate {
        uid: uid.to_owned(),
        template: json!({"spec": {"image": image}}),
        marks: TemplateMarks { change_cause: Some(format!("made {image}")), commit: None },
    };
    assert_eq!(history.fallback_template("shop", &web).unwrap(), None);
    history.keep_fallback_template("shop", &web, &of("1", "web:1")).unwrap();
    history.keep_fallback_template("shop", &web, &of("1", "web:2")).unwrap();
    assert_eq!(history.fallback_template("shop", &web).unwrap(), Some(of("1", "web:1")), "the first one stays");
    assert_eq!(history.fallback_template("other", &web).unwrap(), None);
    assert_eq!(history.fallback_template("shop", &deployment("api")).unwrap(), None);
    history.keep_fallback_template("shop", &web, &of("2", "web:3")).unwrap();
    assert_eq!(history.fallback_template("shop", &web).unwrap(), Some(of("2", "web:3")), "but not of another object");
    history.keep_template("shop", &web, &commit_id(1), &json!({"spec": {}}), at(1)).unwrap();
    assert_eq!(history.fallback_template("shop", &web).unwrap(), None, "from here on something better is known");
    let secret = ObjectKey { kind: "Secret".to_owned(), ..web.clone() };
    assert!(matches!(history.keep_fallback_template("shop", &secret, &of("1", "x")), Err(HistoryError::Secret { .. })));
    let large = FallbackTemplate { template: json!("x".repeat(600 << 10)), ..of("1", "x") };
    assert!(matches!(history.keep_fallback_template("shop", &web, &large), Err(HistoryError::TooLarge { .. })));
}

#[test]
fn what_is_too_long_is_cut_and_what_is_too_much_left_out() {
    let (_folder, history) = open();
    let id = recorded(&history, 1, "web", Outcome::Complete, 10);
    history.step(id, &Step { at: at(1), kind: StepKind::Waiting, detail: "ü".repeat(10_000) }).unwrap();
    assert_eq!(history.steps(id).unwrap()[1].detail.len(), 4096);
    for number in 0..600 {
        history.step(id, &Step { at: at(2), kind: StepKind::Progress, detail: format!("{number} of 600") }).unwrap();
    }
    history.step(id, &Step { at: at(3), kind: StepKind::Marked, detail: String::new() }).unwrap();
    let steps = history.steps(id).unwrap();
    assert_eq!((steps.len(), steps.last().unwrap().kind), (501, StepKind::Marked));
    let pod = PodSeen { name: "web-1".to_owned(), log: vec!["x".repeat(1000); 1000], ..PodSeen::default() };
    let evidence = Evidence { pods: vec![pod], ..Evidence::default() };
    history.update(id, &Update { evidence: Some(evidence), ..Update::default() }).unwrap();
    let kept = history.record(id).unwrap().unwrap().evidence.unwrap();
    assert_eq!((kept.pods[0].name.as_str(), kept.pods[0].log.len(), kept.missing.len()), ("web-1", 0, 1));
}

#[test]
fn what_is_old_is_forgotten_but_never_the_way_back() {
    let (folder, history) = open();
    let days = |days: i64| days * 86_400;
    for day in 0..1500 {
        let number = u64::try_from(day).unwrap();
        let (name, outcome) = match day {
            3 => ("quiet", Outcome::Complete),
            _ if day < 10 => ("web", Outcome::Complete),
            _ if day % 2 == 0 => ("web", Outcome::RolledBack),
            _ => ("api", Outcome::Complete),
        };
        history.saw("shop", &commit_id(number), &[commit(number, "Ada", at(days(day)))], at(days(day))).unwrap();
        recorded(&history, number, name, outcome, days(day));
    }
    let open =
        history.begin("shop", &commit_id(1), &[record(1, deployment("slow"), at(days(1)))], at(days(1))).unwrap();
    let retention = Retention { age: Some(SignedDuration::from_hours(24 * 100)), records: None };
    let before = history.last_good("shop", &deployment("web")).unwrap();
    assert_eq!(history.forget(&retention, at(days(1500))).unwrap(), 1400 - 2);
    assert_eq!(history.last_good("shop", &deployment("web")).unwrap(), before);
    let left = history.records(&Query::default()).unwrap();
    assert_eq!(left.len(), 100 + 3);
    let oldest: Vec<&str> = left[100..].iter().map(|record| record.object.name.as_str()).collect();
    assert_eq!(oldest, ["web", "quiet", "slow"]);
    assert_eq!(left[102].id, open[0]);
    assert_eq!(history.commit(&commit_id(700)).unwrap(), None);
    assert!(history.commit(&commit_id(9)).unwrap().is_some());
    let pinned = history.pinned_commits().unwrap();
    assert_eq!(pinned, left.iter().map(|record| record.commit.clone()).collect::<BTreeSet<_>>());

    let by_count = Retention { age: None, records: Some(10) };
    assert_eq!(history.forget(&by_count, at(days(1500))).unwrap(), 90);
    assert_eq!(history.records(&Query::default()).unwrap().len(), 13);
    assert_eq!(history.forget(&Retention::default(), at(days(9999))).unwrap(), 0);
    let connection = rusqlite::Connection::open(folder.path().join("history.db")).unwrap();
    let (steps, free): (i64, i64) = connection
        .query_row("SELECT count(*), (SELECT * FROM pragma_freelist_count) FROM steps", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((steps, free), (12, 0));
}

#[test]
fn a_rollout_is_judged_from_its_last_write_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    let id = history.begin("shop", &commit_id(1), &[record(1, deployment("web"), at(1))], at(1)).unwrap()[0];
    assert_eq!(history.baseline(id, JudgedWrite::Applied).unwrap(), None);
    let of = |generation| Baseline {
        generation,
        old_failure: Some("ProgressDeadlineExceeded 2026".to_owned()),
        uid: "u-1".to_owned(),
        only_size: true,
        moved: None,
    };
    let write = |of_write, generation, seconds| Update {
        baseline: Some(JudgedBaseline { of: of_write, at: at(seconds), baseline: of(generation) }),
        ..Update::default()
    };
    history.update(id, &write(JudgedWrite::Applied, 7, 2)).unwrap();
    history.step(id, &Step { at: at(5), kind: StepKind::Progress, detail: String::new() }).unwrap();
    history.update(id, &write(JudgedWrite::WentBack, 9, 6)).unwrap();
    let (history, _) = History::open(folder.path(), at(10)).unwrap();
    let moved = |generation, seconds| Some(Baseline { moved: Some(at(seconds)), ..of(generation) });
    assert_eq!(history.baseline(id, JudgedWrite::Applied).unwrap(), moved(7, 5), "since its last progress");
    assert_eq!(history.baseline(id, JudgedWrite::WentBack).unwrap(), moved(9, 6));
    history.update(id, &write(JudgedWrite::Applied, 8, 11)).unwrap();
    assert_eq!(history.baseline(id, JudgedWrite::Applied).unwrap(), moved(8, 11), "the last write counts");
}
