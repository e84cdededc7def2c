//! Canaries, by what was written, by the pods that were there then, and by what is there in the end.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::super::api_proxy::Exchange;
use super::super::events::Hand;
use super::super::findings::{Finding, Findings, annotation, hold, is_workload, template};
use super::super::repository::Key;
use super::super::run::Run;
use super::ending::{newest, way_back};

/// The time of each step of the canaries here, in milliseconds.
const STEP: u64 = 20_000;
/// A `minReadySeconds` that is a lock: more than a week.
const LOCKED: i64 = 7 * 86_400;

/// A step of a canary, by the write that began it.
struct Step {
    template: (String, String),
    /// The step, counted from 1, and the number of steps.
    number: i64,
    of: i64,
    since: u64,
    /// The most pods that the canary makes.
    places: i64,
    /// The pods with its template that were there before.
    earlier: i64,
    /// The number of pods that the workload is to have.
    replicas: i64,
    /// True when that was another number in a write before.
    is_resized: bool,
}

impl Step {
    /// Returns the step that a write begins, or goes on with, after the write before; `None` for a write without one.
    fn of(key: &Key, exchange: &Exchange, before: Option<&Step>) -> Option<Step> {
        let mark: Value = serde_json::from_str(annotation(&exchange.body, "belay.dev/canary-step")?).ok()?;
        let (template, replaces) = (template(&exchange.body)?, key.0 != "Deployment");
        let (number, replicas) = (mark["step"].as_i64()?, replicas(exchange));
        // An old pod stays beside those that take the place of others.
        let wanted = asked_pods(&exchange.body, number).min(replicas - i64::from(replaces));
        let goes_on = before.filter(|before| before.template == template);
        // A new version gets all places that the canary before it had, beside its own pods of earlier.
        let had = before.filter(|_| replaces).or(goes_on).map_or(0, |before| before.places);
        let (places, earlier) =
            (wanted.max(had), goes_on.map_or_else(|| pods_of(exchange, &template), |on| on.earlier));
        let is_same = |before: &&Step| before.number == number;
        Some(Step {
            number,
            of: mark["of"].as_i64()?,
            since: goes_on.filter(is_same).map_or(exchange.begun, |before| before.since),
            places,
            earlier,
            replicas,
            is_resized: goes_on.is_some_and(|before| before.is_resized || before.replicas != replicas),
            template,
        })
    }

    /// Returns true when a write has the locks of the step.
    fn is_locked(&self, key: &Key, exchange: &Exchange) -> bool {
        let spec = &exchange.body["spec"];
        match key.0.as_str() {
            "StatefulSet" => {
                let partition = partition(spec);
                partition > 0 && self.replicas - partition <= self.places
            }
            "DaemonSet" => spec["updateStrategy"]["type"] == "OnDelete",
            _ => {
                let rolling = &spec["strategy"]["rollingUpdate"];
                let seconds = spec["minReadySeconds"].as_i64().unwrap_or_default();
                rolling["maxSurge"] == 1 && rolling["maxUnavailable"] == 0 && seconds > LOCKED
            }
        }
    }

    /// Returns true when a write for the next step, or for all pods, comes before the time of this step is over.
    fn is_left_early(&self, exchange: &Exchange, next: Option<&Step>) -> bool {
        let goes_on = template(&exchange.body).as_ref() == Some(&self.template) && hold(&exchange.body).is_none();
        let number = next.map_or(self.of + 1, |next| next.number);
        let took = exchange.begun.saturating_sub(self.since);
        goes_on && number != self.number && (number != self.number + 1 || took < STEP)
    }
}

/// Checks that each step is written with its locks, that there were never more new pods than it says, that the next one, or all
/// pods, come no sooner than after its time, and that nothing of a canary is left in the end.
pub fn canaries_are_locked(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("canaries-are-locked");
    let mut steps: BTreeMap<Key, Step> = BTreeMap::new();
    for (key, exchange) in
        run.applies().filter(|(key, exchange)| is_workload(key) && template(&exchange.body).is_some())
    {
        let (before, at) = (steps.remove(&key), exchange.begun);
        let next = Step::of(&key, exchange, before.as_ref());
        if let Some(before) = &before {
            let pods = pods_of(exchange, &before.template);
            let most = before.places + before.earlier;
            findings.demand(pods <= most || before.is_resized || is_made_otherwise(run, &key, 0..=at), || {
                format!("{key:?} has {pods} new pods at {at}, in a step with {most}")
            });
            let is_early = before.is_left_early(exchange, next.as_ref());
            findings.demand(!is_early || is_made_anew(run, &key, before.since..=at), || {
                format!("{key:?} goes on at {at}, before the time of step {}, begun at {}", before.number, before.since)
            });
        }
        if let Some(next) = next {
            let locked = next.is_locked(&key, exchange);
            findings.demand(locked || is_scaled(run, &key), || format!("{key:?} is written without its locks at {at}"));
            steps.insert(key, next);
        }
    }
    // A workload stays at its step when its manifest leaves the repository, or can't be read.
    let head = &run.head().objects;
    for (key, live) in run.live.iter().filter(|(key, _)| run.settled && is_workload(key) && head.contains_key(*key)) {
        // So does one that has failed and can't go back.
        let has_failed = newest(run, key).is_some_and(|record| record.outcome == "failed");
        let is_left = has_failed && !template(live).is_some_and(|template| way_back(run, key, &template));
        findings.demand(is_left || is_as_its_manifest_says(key, &live["spec"]), || {
            format!("{key:?} is still locked: {}", live["spec"])
        });
    }
    findings.all
}

/// Returns true when the strategy of a workload is the one of its manifest, which says none.
fn is_as_its_manifest_says(key: &Key, spec: &Value) -> bool {
    let strategy = &spec["updateStrategy"];
    match key.0.as_str() {
        "StatefulSet" => strategy["type"] == "RollingUpdate" && partition(spec) == 0,
        "DaemonSet" => {
            *strategy == json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
        }
        _ => {
            let rolling =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
            let seconds = |name: &str| spec[name].as_i64().unwrap_or_default();
            let times = (seconds("minReadySeconds"), seconds("progressDeadlineSeconds"));
            spec["strategy"] == rolling && times == (0, 30) && spec["paused"] != true
        }
    }
}

/// Returns true when somebody has deleted the object within a time, or has put it back, or a second belay wrote it: then it is made
/// anew, or comes back.
pub(super) fn is_made_anew(run: &Run, key: &Key, within: RangeInclusive<u64>) -> bool {
    let by_hand = |hand: &Hand| matches!(hand, Hand::Delete | Hand::Replace | Hand::Undo | Hand::Image);
    run.restores.iter().any(|at| within.contains(at))
        || run.met_rival(key, &within)
        || run.hands_on(key).any(|handled| within.contains(&handled.at) && by_hand(&handled.hand))
}

/// Returns true when somebody else than belay has made pods within a time.
fn is_made_otherwise(run: &Run, key: &Key, within: RangeInclusive<u64>) -> bool {
    let by_hand = |hand: &Hand| matches!(hand, Hand::Restart | Hand::Finalizer(_));
    let is_by_hand = run.hands_on(key).any(|handled| within.contains(&handled.at) && by_hand(&handled.hand));
    is_by_hand || is_scaled(run, key) || is_made_anew(run, key, within)
}

/// Returns true when somebody has changed the number of pods.
fn is_scaled(run: &Run, key: &Key) -> bool {
    run.hands_on(key).any(|handled| matches!(handled.hand, Hand::Scale))
}

/// Returns the number of pods with a template that were there when a write was made.
fn pods_of(exchange: &Exchange, template: &(String, String)) -> i64 {
    exchange.pods.get(template).map_or(0, |pods| i64::try_from(*pods).unwrap_or(i64::MAX))
}

/// Returns the number of new pods that a manifest asks for at a step.
fn asked_pods(sent: &Value, step: i64) -> i64 {
    let steps = annotation(sent, "belay.dev/canary").unwrap_or_default();
    let step = usize::try_from(step - 1).ok().and_then(|step| steps.split(", ").nth(step));
    step.and_then(|step| step.split(' ').next()?.parse().ok()).unwrap_or_default()
}

/// Returns the number of pods that a workload is to have after a write.
fn replicas(exchange: &Exchange) -> i64 {
    let live = exchange.done.as_ref().map_or(&Value::Null, |(_, live)| live);
    live["spec"]["replicas"].as_i64().or_else(|| live["status"]["desiredNumberScheduled"].as_i64()).unwrap_or_default()
}

fn partition(spec: &Value) -> i64 {
    spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or_default()
}
