//! The requests of a belay whose world is still.

use std::collections::{BTreeMap, BTreeSet};

use super::super::api_proxy::Exchange;
use super::super::events::Actor;
use super::super::findings::{Findings, is_lease, is_unwell, is_workload, key_of_path, version};
use super::super::repository::Key;
use super::super::run::{ActorPeriod, Run};

/// The time in which a look at the pods of a workload asks all that it asks, in milliseconds.
const LOOK: u64 = 5000;
/// The time in which a search through all kinds asks all that it asks, in milliseconds.
const SEARCH: u64 = 5000;
/// The waits before objects that have left the repository are searched for again, as a kind could not be listed.
const SEARCH_AGAIN: [u64; 6] = [30_000, 60_000, 120_000, 240_000, 480_000, 600_000];
/// The words of the log when such a search has failed.
const SEARCH_FAILED: [&str; 2] =
    ["prune_candidates: could not be listed: ", "prune_candidates: failed to ask which kinds "];

/// Checks that nothing is asked when all is well and still.
pub fn asks_nothing(run: &Run, findings: &mut Findings) {
    // A request that a storm has silenced is given up after 30 s, and tried again after at most 30 s more.
    let storms = run.storms.iter().filter(|(_, ends)| *ends <= run.still);
    let tried_again = storms.map(|(_, ends)| ends + 60_000).max().unwrap_or_default();
    // A controller's last write is put right after at most ten minutes.
    let disputes = run.acting(Actor::Controller).map(|acting| acting.to + 660_000).max().unwrap_or_default();
    // A refused object is tried again after at most five minutes.
    let refused = run.acting(Actor::Quota).map(|acting| acting.to + 330_000).max().unwrap_or_default();
    // A rolling update that a restore has undone is taken back pod by pod, after the watch was tried again.
    let restored = run.restores.iter().map(|at| at + 90_000).max().unwrap_or_default();
    let rests = [tried_again, run.still + 30_000, disputes, refused, restored].into_iter().max().unwrap_or_default();
    let looks = looks_at_the_unwell(run, rests, findings);
    let is_look =
        |asked: &Exchange| asked.method == "GET" && looks.iter().any(|at| (*at..at + LOOK).contains(&asked.begun));
    let (mut disputed, mut ends) = (disputed_with_a_rival(run), ends_of_disputes(run));
    let mut ends_dispute = |asked: &Exchange| {
        let key = key_of_path(&asked.path).filter(|_| asked.method == "GET");
        let is_end = |key: &Key| disputed.remove(key) || ends.remove(key).is_some_and(|by| asked.begun <= by);
        key.as_ref().is_some_and(is_end)
    };
    let asked = run.wire.iter().filter(|exchange| !is_lease(&exchange.path));
    let late = asked.filter(|exchange| exchange.begun > rests && !is_look(exchange) && !ends_dispute(exchange));
    let late = late.filter(|exchange| !searches_again(run, exchange));
    let late: Vec<String> =
        late.map(|exchange| format!("{} {} at {}", exchange.method, exchange.path, exchange.begun)).collect();
    findings.demand(late.is_empty(), || format!("all was still at {}, and then: {late:?}", run.still));
}

/// Returns the objects that two belays have written which knew nothing of each other. A disagreement about one is over
/// when it has been quiet for a while, which one look says.
fn disputed_with_a_rival(run: &Run) -> BTreeSet<Key> {
    let mut writers: BTreeMap<Key, BTreeSet<usize>> = BTreeMap::new();
    for (key, exchange) in run.applies().filter(|_| run.had_rival()) {
        writers.entry(key).or_default().insert(run.lives[exchange.process].state);
    }
    writers.retain(|_, writers| writers.len() > 1);
    writers.into_keys().collect()
}

/// Returns by when belay must have looked whether the disagreement with a controller is over, by object: as long after the last
/// correction as twice the next wait, which is twice the time between the last two.
fn ends_of_disputes(run: &Run) -> BTreeMap<Key, u64> {
    let end = |acting: &ActorPeriod| {
        let applied = run.applies().filter(|(key, exchange)| *key == acting.key && exchange.begun > acting.from);
        let times: Vec<u64> = applied.map(|(_, exchange)| exchange.begun).collect();
        let [.., before, last] = times[..] else { return None };
        Some((acting.key.clone(), last + 4 * (last - before) + 1000))
    };
    run.acting(Actor::Controller).filter_map(end).collect()
}

/// Returns true for a request of a search for objects that have left the repository, if the search before it has failed and
/// its wait is over just now.
fn searches_again(run: &Run, asked: &Exchange) -> bool {
    let life = &run.lives[asked.process];
    let lived = |at: u64| life.from <= at && at <= asked.begun;
    ["shop", "side"].iter().any(|source| {
        let lists = format!("labelSelector=belay.dev%2Fsource%3D{source}&");
        let is_list = |asked: &Exchange| asked.path.contains(&lists) && !asked.path.contains("watch=true");
        let asks = asked.method == "GET" && (["/api", "/apis"].contains(&asked.path.as_str()) || is_list(asked));
        let span = format!("source{{name=\"{source}\"}}");
        let is_failure = |line: &str| line.contains(&span) && SEARCH_FAILED.iter().any(|words| line.contains(words));
        let failed = run.log.iter().filter(|(at, line)| lived(*at) && is_failure(line)).map(|(at, _)| *at).max();
        asks && failed.is_some_and(|failed| {
            // Other kinds may have been listed after the one that could not be.
            let lists = run.wire.iter().filter(|one| one.process == asked.process && is_list(one));
            let lists = lists.filter(|one| one.begun <= failed + SEARCH);
            let ended = lists.filter_map(|one| one.heard.or(one.given_up)).max().unwrap_or_default().max(failed);
            SEARCH_AGAIN.iter().any(|wait| (ended + wait..ended + wait + SEARCH).contains(&asked.begun))
        })
    })
}

/// Returns when belay began to look at workloads that fell ill after all was still: at most twice after each change of one.
fn looks_at_the_unwell(run: &Run, rests: u64, findings: &mut Findings) -> Vec<u64> {
    let mut looks: BTreeMap<(Key, String), Vec<u64>> = BTreeMap::new();
    for exchange in run.wire.iter().filter(|exchange| exchange.method == "GET" && exchange.begun + LOOK > rests) {
        let Some(key) = key_of_path(&exchange.path).filter(is_workload) else { continue };
        let Some((200, live)) = &exchange.done else { continue };
        // It may have become well at the very moment, and belay has not heard of that yet.
        let heard = run.heard_of(exchange.process, &key, exchange.begun).filter(|heard| heard.is_unwell);
        let seen = is_unwell(live).then(|| version(live)).or_else(|| heard.map(|heard| heard.version.clone()));
        if let Some(version) = seen {
            looks.entry((key, version)).or_default().push(exchange.begun);
        }
    }
    for ((key, _), times) in &looks {
        findings.demand(times.len() <= 2, || format!("{key:?} did not change, and is looked at each time: {times:?}"));
    }
    looks.into_values().flatten().collect()
}
