//! The judge's cases: one file each under `tests/cases/health/`. A new case needs no Rust.
//!
//! `object` is the workload as the write left it, at time 0. Each step merges `change` into it (RFC 7386), moves the time
//! to `at`, and says what the judge must say: `verdict` is `waiting`, `complete` or `suspect`; if the judge suspects
//! (or its own deadline has passed), `pods` are what is to be seen, `held_up_by` a pod of another revision, and `judgement` is `failed` or `infrastructure`. `says` is a part of
//! the message.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::account_of_pod;
use belay_core::rollout::{Baseline, Judge, Judgement, Observation, Verdict};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "what")]
    _what: String,
    object: Value,
    #[serde(default)]
    rollback_budget: Option<i64>,
    #[serde(default)]
    lost_nodes: BTreeSet<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: i64,
    #[serde(default)]
    change: Value,
    verdict: String,
    #[serde(default)]
    pods: Vec<Value>,
    #[serde(default)]
    cannot_make_pods: Option<String>,
    #[serde(default)]
    held_up_by: Option<Value>,
    #[serde(default)]
    judgement: Option<String>,
    #[serde(default)]
    says: Option<String>,
}

#[test]
fn the_judge_rules_as_its_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/health");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 10, "the cases are there");
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case: Case =
            serde_yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        run(&name, case);
    }
}

fn run(name: &str, case: Case) {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut object = case.object;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group = text(&object["apiVersion"]).split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
    let key = ObjectKey { group, kind: text(&object["kind"]), namespace: None, name: "web".to_owned() };
    let mut judge = Judge::new(key.clone(), Baseline::of(&key, &object), start);
    if let Some(seconds) = case.rollback_budget {
        judge = judge.with_budget(SignedDuration::from_secs(seconds));
    }
    for (number, step) in case.steps.into_iter().enumerate() {
        let place = format!("{name}, step {}", number + 1);
        let now = start + SignedDuration::from_secs(step.at);
        merge(&mut object, &step.change);
        let verdict = judge.observe(&object, now);
        let (said, suspicion, message) = match verdict {
            Verdict::Complete => ("complete", None, String::new()),
            Verdict::Suspect(reason) => ("suspect", Some(reason.clone()), reason.message),
            Verdict::Waiting(waiting) => match judge.overdue(now) {
                Some(reason) => ("suspect", Some(reason.clone()), reason.message),
                None => ("waiting", None, waiting.message),
            },
        };
        assert_eq!(said, step.verdict, "{place}: {message}");
        let mut message = message;
        if let Some(suspicion) = suspicion {
            let account = |pod: &Value| account_of_pod(pod, &case.lost_nodes, now);
            let observation = Observation {
                pods: step.pods.iter().map(account).collect(),
                cannot_make_pods: step.cannot_make_pods,
                held_up_by: step.held_up_by.as_ref().map(|pod| Box::new(account(pod).seen)),
                hidden: None,
            };
            let judgement = judge.rule(suspicion, &observation, now);
            let (ruled, reason) = match judgement {
                Judgement::Failed(reason) => ("failed", reason),
                Judgement::Infrastructure(reason) => ("infrastructure", reason),
            };
            assert_eq!(Some(ruled), step.judgement.as_deref(), "{place}: {reason}");
            message = reason.message;
        }
        if let Some(says) = step.says {
            assert!(message.contains(&says), "{place}: {message:?} does not say {says:?}");
        }
    }
}

fn merge(target: &mut Value, change: &Value) {
    match change {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(serde_json::Map::new());
            }
            for (name, value) in fields {
                if value.is_null() {
                    target.as_object_mut().unwrap().remove(name);
                } else {
                    merge(&mut target[name], value);
                }
            }
        }
        Value::Null => {}
        other => *target = other.clone(),
    }
}
