//! Tests of plans that take the place of others.

use super::*;
use crate::daemon::source::state::event::HeadSeen;
use crate::daemon::source::state::plan_events::new_head;
use crate::daemon::source::task_result::{FinishedPlan, HeadPlan, PlanRecord};
use crate::history::HistoryError;

fn planned(number: u64, letter: char) -> Event {
    let plan = HeadPlan { prepared: Vec::new(), searched: Some(true), suspended: Vec::new(), unread: Vec::new() };
    Event::Planned { number, plan: Box::new(FinishedPlan { news: news(letter), plan }) }
}

fn recorded(number: u64, letter: char, written: Result<Vec<RecordId>, HistoryError>, is_lost: bool) -> Event {
    let (records, new, known) = (Vec::new(), Vec::new(), Vec::new());
    let (news, rejected, orphaned, history) = (news(letter), 0, 0, 1);
    let record = Box::new(PlanRecord { number, news, records, rejected, orphaned, new, known, written, history });
    Event::PlanRecorded { record, is_lost }
}

fn head(state: &mut State, letter: char) -> Vec<String> {
    change(state, news(letter))
}

fn change(state: &mut State, news: HeadChange) -> Vec<String> {
    new_head(state, Box::new(news), Instant::now()).iter().map(word).collect()
}

/// As the loop does it: the plan that is begun for a head is the next number.
fn plan(state: &mut State) {
    assert!(words(state, Event::PlanBegun, Instant::now()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plan_gives_way_to_a_newer_head_until_it_is_written_down() {
    let (mut state, now) = (state(), Instant::now());
    let nothing: [&str; 0] = [];
    assert_eq!(head(&mut state, 'b'), ["plan bbbbbbb"]);
    plan(&mut state);
    assert_eq!(head(&mut state, 'c'), ["plan ccccccc"], "the plan for b is given up");
    plan(&mut state);
    assert_eq!(words(&mut state, planned(2, 'b'), now), nothing, "it was through all the same");
    assert!(!state.prune_search.is_complete(), "what it found is looked for again");
    assert_eq!(words(&mut state, planned(3, 'c'), now), ["record ccccccc"]);
    assert!(state.prune_search.is_complete());
    for letter in ['d', 'e'] {
        assert_eq!(head(&mut state, letter), nothing, "c is written down, and begins first");
    }
    let after = now + 30 * S;
    state.fetch.look_at(after);
    state.fetch.break_off();
    assert_eq!(words(&mut state, recorded(3, 'c', Ok(Vec::new()), false), now), ["begin ccccccc"]);
    assert_eq!(state.planning.planned(), Some(&id('c')));
    assert!(!state.planning.is_running() && !state.planning.is_recording() && state.planning.reads_again());
    assert_eq!(state.fetch.next_look(), now, "e was read as a change from a: it is read again as one from c");
    let again = Event::Looked { seen: seen_since('e', 'c'), kept: None, at: Timestamp::UNIX_EPOCH };
    assert!(words(&mut state, again, now).contains(&"plan eeeeeee".to_owned()));
    assert!(!state.planning.reads_again());
}

fn seen_since(letter: char, since: char) -> HeadSeen {
    HeadSeen::New(Box::new(HeadChange { since: Some(id(since)), ..news(letter) }))
}

/// Its reading began before the plan was written down, and it waited for another source meanwhile.
#[tokio::test(start_paused = true)]
async fn a_head_is_planned_only_as_a_change_from_the_planned_commit() {
    for heads_wait in [false, true] {
        let (mut state, now) = (state(), Instant::now());
        state.settings.heads_wait = heads_wait;
        state.planning.resume(Some(id('b')));
        state.fetch.look_at(now + 30 * S);
        let nothing: [&str; 0] = [];
        if heads_wait {
            assert_eq!(head(&mut state, 'c'), ["wait 1 for ccccccc"]);
            assert_eq!(words(&mut state, Event::Awaited(1, None), now), nothing);
        } else {
            assert_eq!(head(&mut state, 'c'), nothing);
        }
        assert!(state.planning.reads_again() && state.fetch.next_look() == now, "{heads_wait}");
        // While the repository does not answer, nobody says that all is well.
        let failed = HeadSeen::Failed { message: "it is away".to_owned(), passes: true };
        words(&mut state, Event::Looked { seen: failed, kept: None, at: Timestamp::UNIX_EPOCH }, now);
        assert!(state.planning.reads_again());
        let effects = change(&mut state, HeadChange { since: Some(id('b')), ..news('c') });
        assert_eq!(effects, [if heads_wait { "wait 2 for ccccccc" } else { "plan ccccccc" }]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_could_not_be_written_down_is_not_begun() {
    let trouble = || HistoryError::Missing { path: "history.db".into() };
    for (written, is_lost) in [(Err(trouble()), false), (Ok(Vec::new()), true)] {
        let (mut state, now) = (state(), Instant::now());
        plan(&mut state);
        words(&mut state, planned(2, 'b'), now);
        head(&mut state, 'c');
        assert_eq!(words(&mut state, recorded(2, 'b', written, is_lost), now), ["drop bbbbbbb"]);
        assert_eq!(state.planning.planned(), Some(&id('a')), "b is read and planned again, with all that came since");
        assert!(!state.prune_search.is_complete());
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_before_a_panic_is_not_begun() {
    let (mut state, now) = (state(), Instant::now());
    plan(&mut state);
    words(&mut state, planned(2, 'b'), now);
    // The loop does this after a panic of its own.
    state.planning.end();
    plan(&mut state);
    assert_eq!(words(&mut state, recorded(2, 'b', Ok(Vec::new()), false), now), ["drop bbbbbbb"]);
    assert!(state.planning.makes(3), "the newer plan goes on");
}

#[tokio::test(start_paused = true)]
async fn a_head_waits_for_another_source_and_the_one_before_stays_in_force() {
    let (mut state, now) = (state(), Instant::now());
    state.settings.heads_wait = true;
    let nothing: [&str; 0] = [];
    assert_eq!(head(&mut state, 'b'), ["wait 1 for bbbbbbb"]);
    assert_eq!(words(&mut state, Event::LookDue { at: Timestamp::UNIX_EPOCH }, now), ["look, bbbbbbb is known"]);
    // A change by others meanwhile is checked against the head before.
    state.drift.recheck_after(key("db"), Duration::ZERO, now);
    assert!(state.next_check().is_some());
    assert_eq!(head(&mut state, 'c'), ["wait 2 for ccccccc"]);
    assert_eq!(words(&mut state, Event::Awaited(1, None), now), nothing, "b was overtaken");
    assert_eq!(words(&mut state, Event::Awaited(2, None), now), ["plan ccccccc"]);
    assert!(state.planning.awaiting().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_start_while_a_head_waits_keeps_up_what_was_planned_last() {
    let (mut state, now) = (state(), Instant::now());
    state.settings.heads_wait = true;
    let kept = Some(Box::new(news('a')));
    let looked = Event::Looked { seen: HeadSeen::New(Box::new(news('b'))), kept, at: Timestamp::UNIX_EPOCH };
    let effects = words(&mut state, looked, now);
    assert!(effects.contains(&"plan aaaaaaa".to_owned()), "{effects:?}");
    assert!(!effects.iter().any(|effect| effect.starts_with("wait") || effect == "away"), "{effects:?}");
    assert_eq!(state.fetch.next_look(), now, "b is read again as a change from a");
}
