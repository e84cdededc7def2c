//! Somebody else and belay write the same field: each correction is later than the one before, and that is said.

use super::*;
use crate::daemon::publish::dispute::Dispute;
use crate::daemon::source::state::disputes::Disputes;
use belay_core::rollout::ForeignField;

fn field(path: &str, manager: &str) -> ForeignField {
    ForeignField { path: path.to_owned(), manager: manager.to_owned() }
}

fn image() -> Vec<ForeignField> {
    vec![field("spec.template.spec.containers[name=app].image", "updater")]
}

/// Corrects whenever that may be. Returns after how many seconds each time.
fn corrections(disputes: &mut Disputes, fields: &[ForeignField], start: Instant, until: Duration) -> Vec<u64> {
    let (mut at, mut found) = (start, Vec::new());
    while at - start <= until {
        if disputes.next(&key("web"), fields, at).is_none() {
            disputes.count(&key("web"), fields, at);
            found.push((at - start).as_secs());
        }
        at += S;
    }
    found
}

#[tokio::test(start_paused = true)]
async fn each_correction_is_later_than_the_one_before() {
    let (mut disputes, start) = (Disputes::default(), Instant::now());
    let at = corrections(&mut disputes, &image(), start, 4000 * S);
    assert_eq!(at, [0, 1, 2, 7, 17, 37, 77, 157, 317, 637, 1237, 1837, 2437, 3037, 3637]);
}

#[tokio::test(start_paused = true)]
async fn each_field_and_writer_counts_by_itself_and_not_for_ever() {
    let (mut disputes, start) = (Disputes::default(), Instant::now());
    for _ in 0..5 {
        disputes.count(&key("web"), &image(), start);
    }
    let next = |disputes: &Disputes, fields: &[ForeignField], at: Instant| {
        disputes.next(&key("web"), fields, at).map(|next| (next - at).as_secs())
    };
    assert_eq!(next(&disputes, &image(), start), Some(20));
    assert_eq!(next(&disputes, &[field("spec.replicas", "updater")], start), None, "another field");
    assert_eq!(next(&disputes, &[field(&image()[0].path, "kubectl-edit")], start), None, "another writer");
    let both = [image(), vec![field("spec.replicas", "updater")]].concat();
    assert_eq!(next(&disputes, &both, start), None, "what is new does not wait for what is disputed");
    assert_eq!(disputes.next(&key("db"), &image(), start), None, "another object");
    assert_eq!(next(&disputes, &image(), start + 20 * S), None);
    disputes.count(&key("web"), &image(), start + 3700 * S);
    assert_eq!(next(&disputes, &image(), start + 3700 * S), None, "what was an hour ago is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_disagreement_is_said_until_it_has_been_quiet_for_long_enough() {
    let (mut disputes, start) = (Disputes::default(), Instant::now());
    let said = |disputes: &Disputes, at: Instant| {
        disputes.about(&key("web"), at).map(|dispute| (dispute.times, dispute.lasted.as_secs(), dispute.wait.as_secs()))
    };
    for (second, expected) in [(0, None), (120, None), (240, Some((3, 240, 5))), (360, Some((4, 360, 10)))] {
        let at = start + second * S;
        disputes.count(&key("web"), &image(), at);
        assert_eq!(said(&disputes, at), expected, "{second}");
    }
    // A writer that writes every two minutes writes again.
    assert_eq!(said(&disputes, start + 599 * S), Some((4, 599, 10)));
    assert_eq!(said(&disputes, start + 600 * S), None);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_down_was_not_corrected() {
    let (mut state, start) = (state(), Instant::now());
    for second in 0..60 {
        let drifted = Prepared { foreign: image(), ..prepared(WEB, drift(), apply_beside) };
        let at = start + second * S;
        let effects = words(&mut state, Event::Checked { plan: 1, prepared: vec![drifted] }, at);
        assert_eq!(effects, ["resume [], begin [], correct [web for drift]"], "{second}");
        let drifted = Prepared { foreign: image(), ..prepared(WEB, drift(), apply_beside) };
        words(&mut state, Event::NotWritten(vec![drifted]), at);
    }
    assert_eq!(state.disputes, Disputes::default());
    assert_eq!(rechecks(&state, start), [("web", 5.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_success_resets_nothing() {
    let (mut state, start) = (state(), Instant::now());
    let drifted = || Prepared { foreign: image(), ..prepared(WEB, drift(), apply_beside) };
    let correct = "resume [], begin [], correct [web for drift]";
    let mut seen = Vec::new();
    for second in 0..20 {
        let at = start + second * S;
        let effects = words(&mut state, Event::Checked { plan: 1, prepared: vec![drifted()] }, at);
        if effects.iter().any(|effect| effect == correct) {
            seen.push(second);
            state.rollouts.begin(key("web"), rollout(1, drift(), true, false));
            let end = Event::Ended { key: key("web"), outcome: Outcome::Complete, trigger: None, took: None };
            words(&mut state, end, at);
        }
        let is_said = effects.iter().any(|effect| effect.starts_with("disagree about web"));
        assert_eq!(is_said, second >= 2, "{second}: {effects:?}");
    }
    assert_eq!(seen, [0, 1, 2, 7, 17]);
    // It stays as it should be: after a while that is compared once more, and then reported.
    assert!(state.drift.begin_comparison(&key("web"), 1));
    let compared = |at| (Event::Compared { key: key("web"), digest: 1, in_sync: true }, at);
    let (event, at) = compared(start + 20 * S);
    assert_eq!(words(&mut state, event, at), ["no drift of web"]);
    assert_eq!(rechecks(&state, start), [("web", 77.0)]);
    assert!(state.drift.begin_comparison(&key("web"), 1));
    let (event, at) = compared(start + 77 * S);
    assert_eq!(words(&mut state, event, at), ["no drift of web", "agree about web"]);
}

#[tokio::test(start_paused = true)]
async fn what_others_did_during_a_rollout_counts_too() {
    let (mut state, start) = (state(), Instant::now());
    let dispute = Dispute { fields: image(), times: 5, lasted: 60 * S, wait: 20 * S };
    let told = words(&mut state, Event::Disturbed { key: key("web"), dispute }, start + 60 * S);
    assert_eq!(told, ["disagree about web, 5 times, 20s"]);
    let next = state.disputes.next(&key("web"), &image(), start + 60 * S);
    assert_eq!(next, Some(start + 80 * S));
}
