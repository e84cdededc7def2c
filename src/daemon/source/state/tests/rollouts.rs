//! Tests of rollouts that give way to a newer commit, and of their ends.

use super::*;
use crate::daemon::source::state::retries::RetryCause;

#[tokio::test(start_paused = true)]
async fn what_is_under_way_gives_way_to_a_newer_commit() {
    let (mut state, now) = (state(), Instant::now());
    let under_way = [
        (key("db"), rollout(1, Trigger::Commit, false, true)),
        (key("settings"), rollout(2, Trigger::Commit, false, false)),
        (key("web"), rollout(3, Trigger::Commit, true, false)),
    ];
    under_way.into_iter().for_each(|(key, rollout)| state.rollouts.begin(key, rollout));
    let table = [
        (
            Event::Superseded { by: ["db", "web"].map(|name| (key(name), id('b'))).into() },
            vec!["cancel db", "cancel web"],
        ),
        (Event::Stopped(key("web")), vec!["supersede #3 by bbbbbbb"]),
        (Event::Stopped(key("db")), vec!["supersede #1 by bbbbbbb"]),
        // Nothing takes the place of this one: belay stops, and its record stays open.
        (Event::Stopped(key("settings")), vec![]),
        (Event::Stopped(key("web")), vec![]),
    ];
    for (event, effects) in table {
        let case = format!("{event:?}");
        assert_eq!(words(&mut state, event, now), effects, "{case}");
    }
    let names = ["db", "settings", "web"];
    assert_eq!(names.map(|name| state.planning.was_interrupted(&key(name))), [false, false, true]);
    assert_eq!(names.map(|name| state.planning.was_scaling_interrupted(&key(name))), [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_looked_into_ever_later() {
    let (mut state, start) = (state(), Instant::now());
    let mut waits = Vec::new();
    for _ in 0..9 {
        state.rollouts.begin(key("web"), rollout(1, drift(), false, false));
        let end = Event::Ended { key: key("web"), outcome: Outcome::Rejected, trigger: None, took: None };
        assert_eq!(words(&mut state, end, start), Vec::<String>::new());
        waits.push((state.retries.next_due().unwrap() - start).as_secs());
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    state.rollouts.begin(key("web"), rollout(1, drift(), true, false));
    let end = Event::Ended { key: key("web"), outcome: Outcome::Complete, trigger: None, took: None };
    assert_eq!(words(&mut state, end, start), ["count drift Complete", "count a correction"]);
    assert!(!state.drift.has_tried_in_vain() && state.retries.next_due().is_none(), "it begins anew");
}

/// The API server did not answer about an object in time: that is in the way no more when it is tried no more.
#[tokio::test(start_paused = true)]
async fn what_was_in_the_way_of_a_try_goes_with_it() {
    for cause in [RetryCause::Waits, RetryCause::Limited] {
        let (mut state, start) = (state(), Instant::now());
        assert!(!state.retries.waits_briefly(start));
        state.retries.put_off(&key("web"), cause, start);
        assert!(state.retries.waits_briefly(start + Duration::from_secs(29)), "{cause:?}");
        assert!(!state.retries.waits_briefly(start + Duration::from_secs(30)), "{cause:?}");
        state.rollouts.begin(key("web"), rollout(1, drift(), false, false));
        let end = Event::Ended { key: key("web"), outcome: Outcome::Complete, trigger: None, took: None };
        assert_eq!(words(&mut state, end, start), ["no trouble of web", "count a correction"], "{cause:?}");
        assert!(!state.retries.waits_briefly(start), "{cause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_looked_like_drift_may_have_been_an_undo() {
    let undo = || Some(Trigger::UndoByHand("ada".to_owned()));
    for (outcome, effects) in [
        (Outcome::RolledBack, vec!["count undo-by-hand RolledBack"]),
        (Outcome::Complete, vec!["count drift Complete", "count a correction"]),
    ] {
        let mut state = state();
        state.rollouts.begin(key("web"), rollout(1, drift(), true, false));
        let end = Event::Ended { key: key("web"), outcome, trigger: undo(), took: None };
        assert_eq!(words(&mut state, end, Instant::now()), effects);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_panics_is_taken_up_again_and_fails_after_the_third_time() {
    let (mut state, start) = (state(), Instant::now());
    let fault = || Event::Fault { key: key("web"), reason: reason() };
    for expected in ["reopen #1", "reopen #1", "finish #1 of web Failed"] {
        state.rollouts.begin(key("web"), rollout(1, Trigger::Commit, true, false));
        assert_eq!(words(&mut state, fault(), start), [expected]);
        words(&mut state, Event::Reopened(Box::new(record(1, "web"))), start);
        assert!(state.rollouts.take_resumed(&key("web")).is_some());
    }
    assert_eq!(words(&mut state, fault(), start), Vec::<String>::new(), "it is under way no more");
}
