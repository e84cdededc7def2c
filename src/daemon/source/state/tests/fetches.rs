//! Tests of the times of fetches, and of the consequences.

use super::*;
use crate::daemon::repository::head_change::SuspectHead;
use crate::daemon::source::state::HeadSeen;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn looked(second: i64, seen: HeadSeen) -> Event {
    Event::Looked { seen, kept: None, at: at(second) }
}

fn failed(message: &str, passes: bool) -> HeadSeen {
    HeadSeen::Failed { message: message.to_owned(), passes }
}

#[tokio::test(start_paused = true)]
async fn what_a_look_sees_is_planned_refused_or_told() {
    let suspect = |letter| HeadSeen::New(Box::new(HeadChange { suspect: Some(SuspectHead::Emptied), ..news(letter) }));
    let head = |letter| HeadSeen::New(Box::new(news(letter)));
    let look = |second| Event::LookDue { at: at(second) };
    let refused = "trouble: commit ccccccc leaves no manifest in \"shop\", where there were some: refused";
    let table: Vec<(Event, Vec<&str>)> = vec![
        (look(1), vec!["look, aaaaaaa is known"]),
        (looked(2, HeadSeen::Same), vec!["reached", "looked at 1", "unreadable: no", "trouble: none"]),
        (look(3), vec!["look, aaaaaaa is known"]),
        // The network: that passes.
        (looked(4, failed("no answer", true)), vec!["not reached", "unreadable: no", "trouble: no answer, noted"]),
        (look(5), vec!["look, aaaaaaa is known"]),
        (looked(6, failed("no answer", true)), vec!["not reached", "unreadable: no", "trouble: no answer"]),
        // A folder that is not there does not.
        (
            looked(7, failed("no folder", false)),
            vec!["not reached", "unreadable: no folder", "trouble: no folder, noted"],
        ),
        (look(8), vec!["look, aaaaaaa is known"]),
        (
            looked(9, HeadSeen::Unborn("no main".to_owned())),
            vec!["reached", "looked at 8", "unreadable: no main", "trouble: no main, noted"],
        ),
        (look(10), vec!["look, aaaaaaa is known"]),
        (
            looked(11, head('b')),
            vec!["reached", "looked at 10", "unreadable: no", "plan bbbbbbb", "trouble: none, noted"],
        ),
        (look(12), vec!["look, aaaaaaa is known"]),
        (looked(13, suspect('c')), vec!["reached", "looked at 12", "unreadable: no", "refuse ccccccc", refused]),
        // It is not read again until there is another.
        (look(14), vec!["look, ccccccc is known"]),
        (looked(15, HeadSeen::Same), vec!["reached", "looked at 14", "unreadable: no", refused]),
        (look(16), vec!["look, ccccccc is known"]),
        (
            looked(17, head('d')),
            vec!["reached", "looked at 16", "unreadable: no", "plan ddddddd", "trouble: none, noted"],
        ),
        (look(18), vec!["look, aaaaaaa is known"]),
    ];
    let mut state = state();
    for (event, effects) in table {
        let case = format!("{event:?}");
        let words = words(&mut state, event, Instant::now());
        let is_as = |(word, effect): (&String, &&str)| word.starts_with(effect);
        assert!(words.len() == effects.len() && words.iter().zip(&effects).all(is_as), "{case}: {words:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trouble_of_the_repository_is_told_since_when_it_is_there() {
    let mut state = state();
    for (second, message) in [(5, "no answer"), (9, "no answer"), (12, "refused")] {
        words(&mut state, looked(second, failed(message, true)), Instant::now());
        let trouble = state.fetch.trouble().cloned().unwrap();
        assert_eq!((trouble.message.as_str(), trouble.since), (message, at(5)));
    }
    words(&mut state, looked(20, HeadSeen::Same), Instant::now());
    assert_eq!(state.fetch.trouble(), None);
}

#[tokio::test(start_paused = true)]
async fn while_the_repository_is_away_the_mirror_is_kept_up() {
    let (mut state, now) = (state(), Instant::now());
    let away = Event::Looked { seen: failed("no answer", true), kept: Some(Box::new(news('a'))), at: at(1) };
    let expected = ["not reached", "unreadable: no", "trouble: no answer, noted", "away", "plan aaaaaaa"];
    assert_eq!(words(&mut state, away, now), expected);
    assert!(state.fetch.is_away());
    change_live(&mut state, "db", |facts| facts.well = Some(1));
    let expected = ["reached", "unreadable: no", "back", "trouble: none, noted"];
    assert_eq!(words(&mut state, looked(2, HeadSeen::Same), now), expected);
    assert_eq!(rechecks(&state, now), [("settings", 0.2), ("web", 0.2)], "db is known to be as it should be");
    assert!(!state.fetch.is_away() && state.prune_search.next().is_some());
}

/// A kept state comes with a new head where the head has to wait, or where nothing was known before.
#[tokio::test(start_paused = true)]
async fn a_head_is_read_again_as_a_change_from_the_one_that_is_kept() {
    let head = |suspect| HeadSeen::New(Box::new(HeadChange { suspect, ..news('b') }));
    let replaced = "trouble: commit bbbbbbb has neither a commit nor a file in common with what was there: refused";
    let table: [(Option<SuspectHead>, Vec<&str>, u64); 2] = [
        (None, vec!["reached", "looked at 1", "unreadable: no", "trouble: none", "plan aaaaaaa"], 0),
        (
            Some(SuspectHead::Replaced),
            vec!["reached", "looked at 1", "unreadable: no", "refuse bbbbbbb", replaced, "plan aaaaaaa"],
            30,
        ),
    ];
    for (suspect, effects, next_look) in table {
        let (mut state, now) = (state(), Instant::now());
        words(&mut state, Event::LookDue { at: at(1) }, now);
        let seen = Event::Looked { seen: head(suspect), kept: Some(Box::new(news('a'))), at: at(2) };
        let case = format!("{seen:?}");
        let words = words(&mut state, seen, now);
        let is_as = |(word, effect): (&String, &&str)| word.starts_with(effect);
        assert!(words.len() == effects.len() && words.iter().zip(&effects).all(is_as), "{case}: {words:?}");
        assert_eq!((state.fetch.next_look() - now).as_secs(), next_look, "{case}");
        assert!(!state.fetch.is_away(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn pushes_are_looked_for_once_a_second_and_a_quarantine_is_kept() {
    let (mut state, start) = (state(), Instant::now());
    words(&mut state, Event::LookDue { at: at(0) }, start);
    let next = |state: &State| (state.fetch.next_look() - start).as_millis();
    assert_eq!(next(&state), 30_000);
    state.fetch.look_for_a_push(start + S / 5);
    assert_eq!(next(&state), 1000, "a second after the last one");
    state.fetch.look_for_a_push(start + S / 2);
    assert_eq!(next(&state), 1000, "it is one look");
    state.fetch.look_soon(start + S / 2);
    assert_eq!(next(&state), 500, "who asks otherwise does not wait");
    state.fetch.rest(start + 90 * S);
    state.fetch.look_soon(start + S);
    state.fetch.look_for_a_push(start + S);
    assert_eq!(next(&state), 90_000, "what has brought belay down is left alone");
}
