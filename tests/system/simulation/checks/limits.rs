//! Bounds, patience, and secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;

use super::super::api_proxy::Exchange;
use super::super::events::{Actor, Event};
use super::super::fault_rates::Fortune;
use super::super::findings::{Finding, Findings, is_workload, key_of_path, template};
use super::super::play::LEAD;
use super::super::repository::secret_value;
use super::super::run::{ActorPeriod, Run};
use super::super::scenario::Will;

/// Every request has a limit, every retry waits, and a server that says when to come back is believed.
pub fn bounded(run: &Run) -> Vec<Finding> {
    const LONGEST: u64 = 31_000;
    const MOST: usize = 5000;
    let mut findings = Findings::of("bounded");
    findings.demand(run.wire.len() < MOST, || format!("{} requests", run.wire.len()));
    let mut last: BTreeMap<(usize, String), &Exchange> = BTreeMap::new();
    for exchange in &run.wire {
        let end = exchange.heard.or(exchange.given_up).unwrap_or(exchange.begun);
        findings
            .demand(end - exchange.begun <= LONGEST, || format!("{} took {} ms", exchange.path, end - exchange.begun));
        if !exchange.is_write() || !exchange.is_apply() {
            continue;
        }
        let before = last.insert((exchange.process, exchange.path.clone()), exchange);
        let Some(before) = before.filter(|before| before.body == exchange.body) else { continue };
        let Some(over) = before.heard.or(before.given_up) else { continue };
        let least = match before.fortune {
            Fortune::Busy(seconds) => seconds * 1000,
            Fortune::Fair => continue,
            _ => 400,
        };
        findings.demand(exchange.begun >= over + least, || {
            format!(
                "{} failed at {over} ({:?}), and is tried again at {}",
                exchange.path, before.fortune, exchange.begun
            )
        });
    }
    findings.all
}

/// Nobody ever sees the value of a Secret.
pub fn secrets_stay_secret(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("secrets-stay-secret");
    let plain = secret_value(run.scenario.seed, 0);
    let plain = plain.trim_end_matches('0').to_owned();
    // The part of the encoded form counts that does not depend on the rest.
    let encoded = base64::engine::general_purpose::STANDARD.encode(&plain);
    let encoded = encoded.trim_end_matches('=');
    let encoded = encoded[..encoded.len() - 2].to_owned();
    let shown = |text: &[u8]| [&plain, &encoded].iter().any(|secret| contains(text, secret.as_bytes()));
    for (at, line) in &run.log {
        findings.demand(!shown(line.as_bytes()), || format!("logged at {at}: {line}"));
    }
    findings.demand(!shown(run.status.to_string().as_bytes()), || "the status tells it".to_owned());
    for (number, books) in run.books.iter().enumerate() {
        findings.demand(!shown(&books.bytes), || format!("history {number} keeps it"));
    }
    for exchange in run.wire.iter().filter(|exchange| !exchange.path.contains("/secrets")) {
        findings.demand(!shown(exchange.body.to_string().as_bytes()), || {
            format!("{} {} carries it", exchange.method, exchange.path)
        });
    }
    for (key, live) in run.live.iter().filter(|(key, _)| key.0 != "Secret") {
        findings.demand(!shown(live.to_string().as_bytes()), || format!("{key:?} shows it"));
    }
    let annotations = |object: &Value| object["metadata"]["annotations"].to_string();
    for (key, live) in run.live.iter().filter(|(key, _)| key.0 == "Secret") {
        findings.demand(!shown(annotations(live).as_bytes()), || format!("{key:?} shows it in an annotation"));
    }
    findings.all
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Checks that a good object goes on, whatever becomes of others: in fair weather it is applied soon after its push.
pub fn others_go_on(run: &Run) -> Vec<Finding> {
    const SOON: u64 = 25_000;
    let mut findings = Findings::of("others-go-on");
    if run.had_twin() && run.scenario.style.leads {
        // A Lease lasts for minutes after its holder was killed.
        return Vec::new();
    }
    for (index, pushed) in run.pushed.iter().enumerate().skip(1) {
        let until = run.pushed.get(index + 1).map_or(u64::MAX, |next| next.at);
        if until < pushed.at + SOON || waits(run, pushed.at + SOON) || disturbed(run, pushed.at, pushed.at + SOON) {
            continue;
        }
        for (key, want) in pushed.objects.iter().filter(|(key, _)| is_workload(key)) {
            let before = run.pushed[index - 1].objects.get(key);
            let new = before.is_none_or(|before| before.template != want.template);
            let fresh = run.pushed[..index]
                .iter()
                .all(|earlier| earlier.objects.get(key).is_none_or(|earlier| earlier.template != want.template));
            if want.after.is_some() {
                continue;
            }
            let good = run.will(want.fate) == Will::Succeed;
            let is_refused = |acting: &ActorPeriod| {
                acting.key == *key && acting.from < pushed.at + SOON && acting.to + 60_000 > pushed.at
            };
            if run.acting(Actor::Webhook).chain(run.acting(Actor::Quota)).any(is_refused) {
                continue;
            }
            if !new || !fresh || !good || run.hands_on(key).next().is_some() {
                continue;
            }
            let soon = run.applies().any(|(applied, exchange)| {
                let when = exchange.heard.unwrap_or(u64::MAX);
                applied == *key && template(&exchange.body) == want.template && when <= pushed.at + SOON
            });
            findings.demand(soon, || format!("{key:?} of {} was not applied within {SOON} ms", &pushed.commit[..7]));
        }
    }
    findings.all
}

/// Returns true when commits wait for a window at a time, or have waited a while before. A clock may be set by half a minute.
fn waits(run: &Run, at: u64) -> bool {
    run.scenario.style.closed.is_some_and(|(from, to)| (from * 60_000 - 30_000..to * 60_000 + 60_000).contains(&at))
}

/// Returns true when anything but a commit disturbs within a time.
pub(super) fn disturbed(run: &Run, from: u64, to: u64) -> bool {
    let storm = run.storms.iter().any(|(begins, ends)| *begins < to && ends.saturating_add(60_000) > from);
    // After a start it looks at everything first.
    let life = run.lives.iter().any(|life| {
        let ended = life.to.is_some_and(|end| end + 1 > from && end < to);
        ended || life.from + 30_000 > from && life.from < to
    });
    let ran = run.lives.iter().any(|life| life.from <= from && life.to.is_none_or(|end| end >= to));
    let full = run.full.iter().any(|(begins, ends)| *begins < to && ends + 60_000 > from);
    let between = |at: u64| at + 60_000 > from && at < to;
    let away = run.scenario.events.iter().any(|timed| {
        let Event::Outage(lasts) = &timed.what else { return false };
        let [begins, lasts] = [timed.at + LEAD, *lasts].map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        begins < to && begins.saturating_add(lasts) + 60_000 > from
    });
    storm || away || life || full || !ran || run.jumps.iter().any(|(at, _)| between(*at))
}

/// Nothing is ever belay's own fault.
pub fn no_fault_of_its_own(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("no-fault-of-its-own");
    for (at, line) in &run.log {
        findings.demand(!line.contains("own fault"), || format!("at {at}: {line}"));
    }
    findings.all
}

/// belay speaks only the API that everybody speaks, and can't tell the embedded cluster from a real one.
pub fn speaks_kubernetes(run: &Run) -> Vec<Finding> {
    const WORDS: [&str; 10] = [
        "fieldManager=",
        "force=",
        "fieldValidation=",
        "dryRun=",
        "labelSelector=",
        "fieldSelector=",
        "limit=",
        "continue=",
        "resourceVersion",
        "container=",
    ];
    let mut findings = Findings::of("speaks-kubernetes");
    for exchange in &run.wire {
        let (path, query) = exchange.path.split_once('?').unwrap_or((&exchange.path, ""));
        let rooted = ["/api/v1", "/apis/", "/apis", "/api", "/version", "/openapi", "/readyz"]
            .iter()
            .any(|root| path.starts_with(root));
        let known = |word: &str| {
            WORDS.iter().any(|known| word.starts_with(known))
                || ["tailLines=", "previous=", "limitBytes="].iter().any(|known| word.starts_with(known))
        };
        let spoken = query.split('&').filter(|word| !word.is_empty()).all(known);
        let verb = ["GET", "PATCH", "POST", "DELETE"].contains(&exchange.method.as_str());
        findings.demand(rooted && spoken && verb, || format!("{} {}", exchange.method, exchange.path));
        let replaced =
            exchange.code.is_some_and(|code| [400, 404, 405, 406, 415, 422].contains(&code)) && exchange.is_write();
        let gone = key_of_path(&exchange.path)
            .is_some_and(|key| ["ReplicaSet", "Pod", "ControllerRevision"].contains(&key.0.as_str()));
        // Another may have deleted it meanwhile, or belay itself, and the answer was lost.
        let is_gone = exchange.method == "DELETE" && exchange.code == Some(404);
        findings.demand(!replaced || gone || is_gone, || {
            format!("{} {}: {:?}", exchange.method, exchange.path, exchange.done)
        });
    }
    findings.all
}
