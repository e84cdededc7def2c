//! Tests of the times at which live objects are checked, and of the consequences.

use super::*;
use crate::daemon::source::state::retries::RetryCause;
use belay_core::rollout::canary::CanaryMark;
use belay_core::rollout::{LiveProgress, RecordedFacts};

#[tokio::test(start_paused = true)]
async fn what_may_have_drifted_is_looked_into_when_changes_have_gathered() {
    let (mut state, start) = (state(), Instant::now());
    let ms = Duration::from_millis;
    assert!(state.drift.begin_comparison(&key("web"), 1));
    let compared = |digest, in_sync| Event::Compared { key: key("web"), digest, in_sync };
    let table = [
        (0, compared(2, false), vec![], "it was seen otherwise since"),
        (0, compared(1, false), vec![], "it may not be as it should be"),
        (100, Event::Due, vec![], "changes gather"),
        (200, Event::Due, vec!["check 1 [web]"], ""),
        (200, Event::Due, vec![], "nothing else is to be looked into"),
        (300, Event::Gone(key("db")), vec![], ""),
        (600, Event::Due, vec![], "one check at a time"),
        (700, Event::Checked { plan: 1, prepared: Vec::new() }, vec![], ""),
        (700, Event::Due, vec!["check 1 [db]"], ""),
        (800, Event::Checked { plan: 1, prepared: Vec::new() }, vec![], ""),
        (800, Event::Rescaled(vec![key("web"), key("gone")]), vec![], "an autoscaler appears"),
        (1000, Event::Due, vec!["check 1 [web]"], "only what the repository has"),
        (1100, Event::Checked { plan: 1, prepared: Vec::new() }, vec![], ""),
        (1100, Event::Listed { group: "apps".to_owned(), kind: "Deployment".to_owned() }, vec![], "db is missing"),
        (1300, Event::Due, vec!["check 1 [db]", "search 1"], "and something may have left"),
    ];
    for (at, event, effects, why) in table {
        let case = format!("{event:?}: {why}");
        assert_eq!(words(&mut state, event, start + ms(at)), effects, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_into_while_a_head_is_planned_or_its_rollout_is_under_way() {
    let (mut state, start) = (state(), Instant::now());
    state.drift.recheck_after(key("web"), Duration::ZERO, start);
    state.planning.begin();
    assert_eq!(words(&mut state, Event::Due, start + S), Vec::<String>::new());
    state.planning.end();
    state.rollouts.begin(key("web"), rollout(1, Trigger::Commit, true, false));
    assert_eq!(words(&mut state, Event::Due, start + S), Vec::<String>::new());
    assert_eq!(rechecks(&state, start), [], "its end looks at it");
    assert!(state.drift.begin_comparison(&key("web"), 1));
    words(&mut state, Event::Compared { key: key("web"), digest: 1, in_sync: false }, start);
    words(&mut state, Event::Gone(key("web")), start);
    assert_eq!(rechecks(&state, start), []);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_others_says_how_far_they_are() {
    let (mut state, start) = (state(), Instant::now());
    for (under_way, resumed, complete) in [(false, false, true), (true, false, false), (false, true, true)] {
        state.rollouts.end(&key("db"));
        state.rollouts.forget_resumed();
        state.drift.end_check();
        if under_way {
            state.rollouts.begin(key("db"), rollout(1, Trigger::Commit, true, false));
        }
        if resumed {
            state.rollouts.resume(record(1, "db"));
        }
        change_live(&mut state, "db", |facts| facts.complete = complete);
        state.drift.recheck_after(key("web"), Duration::ZERO, start);
        let effects = on(&mut state, Event::Due, start + S);
        let [Effect::Check { rechecks, .. }] = &effects[..] else { panic!("{effects:?}") };
        let db = &rechecks[0].dependencies.as_ref().unwrap().standings[&key("db")];
        assert_eq!((db.under_way, db.complete), (under_way || resumed, Some(complete)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_tried_again_waits_for_nothing_else_and_counts_once() {
    let (mut state, start) = (state(), Instant::now());
    state.retries.put_off(&key("web"), RetryCause::Refused, start);
    state.planning.begin();
    state.drift.begin_check(BTreeMap::new(), true);
    assert_eq!(words(&mut state, Event::Due, start + S), Vec::<String>::new());
    assert_eq!(words(&mut state, Event::Due, start + 5 * S), ["retry [web #1]"], "also while a head is planned");
    let retried = |number, prepared| Event::Retried { key: key("web"), number, prepared };
    let taken = || Some(Box::new(prepared(WEB, Trigger::Retry, apply)));
    assert_eq!(words(&mut state, retried(7, taken()), start), Vec::<String>::new(), "it was another try");
    let begun = ["no trouble of web", "resume [], begin [], correct [web for retry]"];
    assert_eq!(words(&mut state, retried(1, taken()), start), begun);
    assert_eq!(words(&mut state, retried(1, taken()), start), Vec::<String>::new());
    assert_eq!(state.retries.next_due(), None);
}

/// Nothing is compared with a repository that is to be read again, and nothing of the cluster is lost meanwhile.
#[tokio::test(start_paused = true)]
async fn what_changes_while_the_repository_is_to_be_read_again_is_looked_into_afterwards() {
    let (mut state, start) = (state(), Instant::now());
    let known = Arc::clone(&state.desired);
    state.desired = Arc::new(state.desired.forgotten());
    state.retries.put_off(&key("web"), RetryCause::Refused, start);
    words(&mut state, Event::Gone(key("db")), start);
    assert_eq!(words(&mut state, Event::Due, start + 10 * S), Vec::<String>::new());
    state.desired = known;
    assert_eq!(words(&mut state, Event::Due, start + 10 * S), ["retry [web #1]", "check 1 [db]"]);
}

/// Reported drift is not checked again until somebody changes it once more.
#[tokio::test(start_paused = true)]
async fn drift_that_is_reported_is_known_as_it_was_seen() {
    let (mut state, start) = (state(), Instant::now());
    state.settings.drift = Drift::Report;
    state.drift.recheck_after(key("web"), Duration::ZERO, start);
    assert_eq!(words(&mut state, Event::Due, start + S), ["check 1 [web]"]);
    let event = Event::Checked { plan: 1, prepared: vec![prepared(WEB, drift(), apply)] };
    assert_eq!(words(&mut state, event, start + S), ["report web by somebody"]);
    assert_eq!(*state.drift.all_reported(), [(key("web"), Some(1))].into());
    assert!(state.drift.begin_comparison(&key("web"), 1));
    words(&mut state, Event::Compared { key: key("web"), digest: 1, in_sync: true }, start);
    assert!(state.drift.all_reported().is_empty(), "it is as it should be");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_a_newer_head_has_overtaken_is_made_again() {
    let (mut state, start) = (state(), Instant::now());
    state.planning.begin();
    state.planning.end();
    let prepared = vec![prepared(WEB, drift(), apply), prepared(SETTINGS, Trigger::Commit, |_| PlanStep::Prune)];
    assert_eq!(words(&mut state, Event::Checked { plan: 1, prepared }, start), Vec::<String>::new());
    assert_eq!(rechecks(&state, start), [("web", 0.2)]);
    assert!(
        !state.prune_search.is_complete() && state.prune_search.next().is_some(),
        "what was to be deleted is looked for again"
    );
}

/// Returns a state in which an object is tried again, and checked, under its record.
fn tried_and_checked() -> (State, Instant) {
    let (mut state, start) = (state(), Instant::now());
    state.rollouts.resume(record(1, "web"));
    state.retries.put_off(&key("web"), RetryCause::Waits, start);
    state.drift.recheck_after(key("web"), Duration::ZERO, start);
    assert_eq!(words(&mut state, Event::Due, start + S), ["retry [web #1]", "check 1 [web]"]);
    (state, start)
}

/// An object may be checked while it is tried again: under the record of one of them it is rolled out, and that ends.
#[tokio::test(start_paused = true)]
async fn a_check_that_a_rollout_has_overtaken_begins_nothing() {
    let (mut state, start) = tried_and_checked();
    let found = || prepared(WEB, Trigger::Commit, apply);
    let event = Event::Retried { key: key("web"), number: 1, prepared: Some(Box::new(found())) };
    assert_eq!(words(&mut state, event, start + S), ["no trouble of web", "resume [#1], begin [], correct []"]);
    state.rollouts.begin(key("web"), rollout(1, Trigger::Commit, true, false));
    let end = Event::Ended { key: key("web"), outcome: Outcome::Complete, trigger: None, took: None };
    assert_eq!(words(&mut state, end, start + S), ["count commit Complete"]);
    let event = Event::Checked { plan: 1, prepared: vec![found()] };
    assert_eq!(words(&mut state, event, start + S), Vec::<String>::new());
    assert_eq!(rechecks(&state, start + S), [("web", 0.2)], "it is compared as it is now");
}

/// An object waits for another one, which fails while it is looked into. Its record ends as skipped, and its manifest
/// is not applied under it.
#[tokio::test(start_paused = true)]
async fn a_check_of_an_object_that_was_passed_over_begins_nothing() {
    let (mut state, start) = tried_and_checked();
    assert_eq!(words(&mut state, Event::PassedOver(key("web")), start + S), Vec::<String>::new());
    let found = || prepared(WEB, Trigger::Commit, apply);
    let tried = Event::Retried { key: key("web"), number: 1, prepared: Some(Box::new(found())) };
    assert_eq!(words(&mut state, tried, start + S), Vec::<String>::new());
    let event = Event::Checked { plan: 1, prepared: vec![found()] };
    assert_eq!(words(&mut state, event, start + S), Vec::<String>::new());
    assert_eq!(rechecks(&state, start + S), [("web", 0.2)], "it is compared as it is now");
}

/// Nothing has left a repository that is to be read again: it is not known to be empty.
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_the_repository_is_to_be_read_again() {
    let (mut state, start) = (state(), Instant::now());
    let found = || vec![prepared(SETTINGS, Trigger::Commit, |_| PlanStep::Prune)];
    state.desired = Arc::new(state.desired.forgotten());
    let event = Event::Searched { plan: 1, prepared: found(), searched: Some(true) };
    assert_eq!(words(&mut state, event, start), Vec::<String>::new());
    assert!(!state.prune_search.is_complete() && state.prune_search.next().is_some(), "it is looked for again");
    assert_eq!(rechecks(&state, start), []);
}

/// The name, the state before, the result of a check, and the expected effects.
type Case = (&'static str, fn(&mut State), Prepared, Vec<&'static str>);

fn by(by: &str, prepared: Prepared) -> Prepared {
    Prepared { last_writer: Some(by.to_owned()), ..prepared }
}

fn standing(complete: bool) -> Option<LiveProgress> {
    let (ours, marked, template) = (true, true, Some("now".to_owned()));
    Some(LiveProgress {
        complete,
        is_rolling_update: false,
        ours,
        marked,
        template,
        held_template: None,
        canary: None,
        settled: false,
        baseline: Baseline::default(),
    })
}

fn each_becomes(table: Vec<Case>) {
    for (case, before, prepared, effects) in table {
        let mut state = state();
        before(&mut state);
        let event = Event::Checked { plan: 1, prepared: vec![prepared] };
        assert_eq!(words(&mut state, event, Instant::now()), effects, "{case}");
        assert!(!state.drift.is_checking(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_as_it_should_be_is_corrected_or_reported() {
    each_becomes(vec![
        (
            "drift of a template may be an undo",
            |_| {},
            by("kubectl", prepared(WEB, drift(), apply)),
            vec!["resume [], begin [], correct [web for drift, if it is no undo]"],
        ),
        (
            "other drift is none",
            |_| {},
            by("kubectl", prepared(WEB, drift(), apply_beside)),
            vec!["resume [], begin [], correct [web for drift]"],
        ),
        (
            "drift may only be reported",
            |state| state.settings.drift = Drift::Report,
            by("kubectl", prepared(WEB, drift(), apply)),
            vec!["report web by kubectl"],
        ),
        (
            "what somebody asks for again is no drift",
            |state| state.settings.drift = Drift::Report,
            prepared(WEB, Trigger::Retry, apply),
            vec!["resume [], begin [], correct [web for retry]"],
        ),
        (
            "a hold that went with its template was taken off by an undo",
            |state| {
                let template = "held".to_owned();
                let hold = Hold { template, ..hold() };
                change_live(state, "web", |facts| facts.released = Some(Box::new(hold)));
            },
            Prepared { live: standing(true), ..prepared(WEB, Trigger::Retry, apply) },
            vec!["resume [], begin [], correct [web for retry, if it is no undo]"],
        ),
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_there_again_goes_on() {
    let canary = || standing(false).map(|live| LiveProgress { canary: Some(CanaryMark::at(1, 2)), ..live });
    let left_failed = || RecordedFacts { is_left_failed: true, ..RecordedFacts::default() };
    let unchanged = |_: &Wanted| PlanStep::Unchanged;
    each_becomes(vec![
        (
            "a canary that is there again goes on",
            |_| {},
            Prepared { live: canary(), ..prepared(WEB, drift(), unchanged) },
            vec!["resume [], begin [web], correct []"],
        ),
        (
            "one that failed and could not go back is left",
            |_| {},
            Prepared { live: canary(), recorded: left_failed(), ..prepared(WEB, drift(), unchanged) },
            vec![],
        ),
        (
            "one is left where drift is only reported",
            |state| state.settings.drift = Drift::Report,
            Prepared { live: canary(), ..prepared(WEB, drift(), unchanged) },
            vec![],
        ),
    ]);
}

#[tokio::test(start_paused = true)]
async fn what_else_a_check_brings_is_judged_resumed_begun_or_left() {
    let ours = |prepared| Prepared { owner: Some("shop".to_owned()), live: standing(false), ..prepared };
    let broken_off = || {
        let newest = Some((Outcome::RolledBack, Timestamp::UNIX_EPOCH));
        RecordedFacts { newest, ..RecordedFacts::default() }
    };
    let unchanged = |_: &Wanted| PlanStep::Unchanged;
    let rejected = |_: &Wanted| PlanStep::Rejected(reason(), Vec::new());
    let claimed = |_: &Wanted| PlanStep::Rejected(Reason::new(ReasonCode::ClaimedTwice, ""), Vec::new());
    let going = |_: &Wanted| PlanStep::Wait(Reason::new(ReasonCode::DeletionHangs, ""));
    let waits = |_: &Wanted| PlanStep::Wait(Reason::new(ReasonCode::NotServed, "its webhook is away"));
    each_becomes(vec![
        (
            "what is as it should be",
            |_| {},
            Prepared { digest: Some(7), ..prepared(WEB, drift(), unchanged) },
            vec!["no drift of web"],
        ),
        (
            "a template that was broken off and is back is judged",
            |_| {},
            Prepared { recorded: broken_off(), ..ours(prepared(WEB, drift(), unchanged)) },
            vec!["resume [], begin [web], correct []"],
        ),
        ("one that was not is left", |_| {}, ours(prepared(WEB, drift(), unchanged)), vec![]),
        (
            "what has an open record goes on under it",
            |state| state.rollouts.resume(record(5, "web")),
            prepared(WEB, Trigger::Commit, apply),
            vec!["no trouble of web", "resume [#5], begin [], correct []"],
        ),
        (
            "what is under way already is left",
            |state| state.rollouts.begin(key("web"), rollout(1, Trigger::Commit, true, false)),
            prepared(WEB, drift(), apply),
            vec![],
        ),
        (
            "what the server refuses is tried again",
            |_| {},
            prepared(WEB, drift(), rejected),
            vec!["no trouble of web", "web is refused: no", "can't correct web: no", "claim web"],
        ),
        ("what another source has", |_| {}, prepared(WEB, drift(), claimed), vec!["claim web"]),
        (
            "what somebody deletes is made anew when it is gone",
            |_| {},
            prepared(WEB, drift(), going),
            vec!["resume [], begin [web], correct []"],
        ),
        (
            "what can't be planned for now is tried again",
            |_| {},
            prepared(WEB, drift(), waits),
            vec!["in the way of web: its webhook is away"],
        ),
        (
            "what has left",
            |_| {},
            prepared(WEB, Trigger::Commit, |_| PlanStep::Prune),
            vec!["resume [], begin [web], correct []"],
        ),
    ]);
}

/// The cluster's store was set back, and has lost a hold, which is written again. A way back is watched on; what a person
/// chose is nobody's rollout.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_written_again_is_judged_unless_a_person_took_it_back() {
    let keeps = |restores_held: bool| {
        move |wanted: &Wanted| {
            let body = Apply::of_manifest(wanted, "shop").body;
            PlanStep::Apply(Apply { keeps_hold: true, restores_held, ..Apply::of(body) })
        }
    };
    for (case, step, was_undone, is_judged) in [
        ("the failed template is back", prepared(WEB, drift(), apply_beside), false, true),
        ("so is one that a person had taken back", prepared(WEB, drift(), apply_beside), true, true),
        ("its last good template is there, and not complete", prepared(WEB, drift(), keeps(false)), false, true),
        ("its last good template is not there", prepared(WEB, drift(), keeps(true)), false, true),
        ("a person's template is there", prepared(WEB, drift(), keeps(false)), true, false),
        ("a person's template is not there", prepared(WEB, drift(), keeps(true)), true, false),
    ] {
        let newest = Some((Outcome::RolledBack, Timestamp::UNIX_EPOCH));
        let recorded = RecordedFacts { newest, was_undone, ..RecordedFacts::default() };
        let prepared = Prepared { recorded, owner: Some("shop".to_owned()), live: standing(false), ..step };
        let effects = on(&mut state(), Event::Checked { plan: 1, prepared: vec![prepared] }, Instant::now());
        let corrections = effects.into_iter().find_map(|effect| match effect {
            Effect::Start(start) => Some(start.corrections),
            _ => None,
        });
        assert_eq!(corrections.expect(case)[0].rolls_out(), is_judged, "{case}");
    }
}

fn hold() -> Hold {
    let (manifest, template, reason) = (String::new(), String::new(), String::new());
    let since = Timestamp::UNIX_EPOCH;
    Hold {
        manifest,
        config: None,
        template,
        ignored_fields: Vec::new(),
        commit: id('a'),
        reason,
        since,
        with: Vec::new(),
        by: None,
    }
}
