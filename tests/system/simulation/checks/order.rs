//! The writers, their times, and the fields of others.

use std::collections::BTreeMap;

use super::super::findings::{Finding, Findings, hold, is_lease, is_workload, key_of_path, template};
use super::super::run::Run;
use super::super::second_source::source_of;

/// Checks that of several daemons the one that wrote the Lease last writes.
pub fn one_writes(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("one-writes");
    if !run.scenario.style.leads {
        return findings.all;
    }
    let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
    for exchange in run.wire.iter().filter(|exchange| exchange.is_write()) {
        if is_lease(&exchange.path) {
            // The sent part counts: the answer may be twisted.
            let path = exchange.path.split('?').next().unwrap_or_default();
            let named = path.rsplit_once("/leases/").map(|(_, name)| name);
            let source = named.or(exchange.body["metadata"]["name"].as_str()).and_then(|it| it.strip_prefix("belay-"));
            let takes = exchange.body["spec"]["holderIdentity"].as_str().is_some_and(|name| !name.is_empty());
            let held = takes && exchange.succeeded();
            if let Some(source) = source.filter(|_| held) {
                holders.insert(source, exchange.process);
            }
        } else if let Some(key) = key_of_path(&exchange.path) {
            // A pod belongs to whoever has its workload.
            let mut sources = vec![source_of(&key)];
            if key.0 == "Pod" {
                sources.extend(holders.keys());
            }
            let entitled = sources.iter().any(|source| holders.get(source) == Some(&exchange.process));
            findings.demand(entitled, || {
                let (at, process) = (exchange.begun, exchange.process);
                format!("{key:?} is written at {at} by belay {process}, and these have the Leases: {holders:?}")
            });
        }
    }
    findings.all
}

/// Checks that an object that comes after another is not applied while that one is still on its way to the same head.
pub fn waits_its_turn(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("waits-its-turn");
    for (key, exchange) in run.applies().filter(|(key, _)| is_workload(key)) {
        let goes_back = hold(&exchange.body).is_some();
        let Some(own) = exchange.open.first().filter(|own| own.trigger == "commit" && !goes_back) else { continue };
        // The first apply of a record: what comes later puts right what somebody else has done meanwhile.
        if own.step != "applying" || template(&exchange.body).is_none() {
            continue;
        }
        let before = exchange.ahead.iter().find(|other| other.trigger == "commit" && other.plan == own.plan);
        findings.demand(before.is_none(), || {
            format!("{key:?} is applied at {}, and what it comes after is not complete: {before:?}", exchange.begun)
        });
    }
    findings.all
}

/// While an autoscaler has the replicas of a workload, belay says nothing of them, but for what is new: that begins with its
/// manifest's number, which is repeated until the autoscaler says another.
pub fn leaves_replicas_alone(run: &Run) -> Vec<Finding> {
    /// The time until belay must have heard of an autoscaler.
    const HEARD: u64 = 60_000;
    let mut findings = Findings::of("leaves-replicas-alone");
    let mut before: BTreeMap<(String, String), serde_json::Value> = BTreeMap::new();
    for (key, exchange) in run.applies().filter(|(key, _)| is_workload(key)) {
        let said = &exchange.body["spec"]["replicas"];
        let creates = exchange.done.as_ref().is_none_or(|(code, _)| *code == 201);
        let kept = before.get(&key) == Some(said);
        if let Some((_, answer)) = &exchange.done {
            before.insert(key.clone(), answer["spec"]["replicas"].clone());
        }
        let scaler = ("HorizontalPodAutoscaler".to_owned(), format!("{}-scaler", key.1));
        let from = exchange.begun.saturating_sub(HEARD + run.scenario.style.longest_wait());
        let first = run.pushed[0].at + HEARD;
        let mut heads = vec![run.head_at(from)];
        heads.extend(run.pushed.iter().filter(|pushed| pushed.at > from && pushed.at <= exchange.begun));
        let all_along = exchange.begun > first && heads.iter().all(|head| head.objects.contains_key(&scaler));
        let storm =
            run.storms.iter().any(|(begins, ends)| *begins <= exchange.begun && ends.saturating_add(HEARD) > from);
        let process = &run.lives[exchange.process];
        if !all_along || storm || process.from + HEARD > exchange.begun {
            continue;
        }
        findings.demand(said.is_null() || creates || kept, || {
            format!("{key:?} gets {said} replicas at {}", exchange.begun)
        });
    }
    findings.all
}
