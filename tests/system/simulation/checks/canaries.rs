//! Canaries, by what was written and what is there in the end.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::events::Hand;
use super::super::findings::{Finding, Findings, annotation, hold, template};
use super::super::repository::Key;
use super::super::run::Run;

/// The step of the canaries here, in milliseconds: one new pod, for so long.
const STEP: u64 = 20_000;
/// A `minReadySeconds` that is a lock: more than a week.
const LOCKED: i64 = 7 * 86_400;

/// Checks that each step is written with its locks, that all pods are replaced no sooner than after its time, and that nothing
/// of a canary is left in the end.
pub fn canaries_are_locked(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("canaries-are-locked");
    // The template that is written in steps, and since when, by object.
    let mut begun: BTreeMap<Key, ((String, String), u64)> = BTreeMap::new();
    for (key, exchange) in run.applies() {
        let Some(sent) = template(&exchange.body) else { continue };
        if is_step(&exchange.body) {
            let locked = is_locked(&exchange.body);
            findings.demand(locked, || format!("{key:?} is written without its locks at {}", exchange.begun));
            match begun.get(&key) {
                Some((template, _)) if *template == sent => {}
                _ => drop(begun.insert(key, (sent, exchange.begun))),
            }
            continue;
        }
        let Some((template, since)) = begun.remove(&key) else { continue };
        let took = exchange.begun.saturating_sub(since);
        let is_soon = template == sent && hold(&exchange.body).is_none() && took < STEP;
        findings.demand(!is_soon || is_made_anew(run, &key), || {
            format!("{key:?} is written for all pods at {}, after {took} ms", exchange.begun)
        });
    }
    for (key, live) in run.live.iter().filter(|(key, _)| run.settled && key.0 == "Deployment") {
        let is_left = live["spec"]["minReadySeconds"].as_i64().is_some_and(|seconds| seconds > LOCKED);
        findings.demand(!is_left, || format!("{key:?} is still locked: {}", live["spec"]));
    }
    findings.all
}

/// Returns true when somebody has deleted the object, or has put it back: then it is made anew, or comes back.
fn is_made_anew(run: &Run, key: &Key) -> bool {
    let by_hand = |hand: &Hand| matches!(hand, Hand::Delete | Hand::Replace | Hand::Undo | Hand::Image);
    !run.restores.is_empty() || run.had_rival() || run.hands_on(key).any(|handled| by_hand(&handled.hand))
}

fn is_step(sent: &Value) -> bool {
    annotation(sent, "belay.dev/canary-step").is_some()
}

fn is_locked(sent: &Value) -> bool {
    let spec = &sent["spec"];
    let rolling = &spec["strategy"]["rollingUpdate"];
    let seconds = spec["minReadySeconds"].as_i64().unwrap_or_default();
    rolling["maxSurge"] == 1 && rolling["maxUnavailable"] == 0 && seconds > LOCKED
}
