//! The annotations that people write on a manifest for belay, and complaints about them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::analysis::ANALYSES;
use super::canary::{CanaryKind, CanarySteps};
use super::marks;
use crate::manifest::{Complaint, Manifest, ObjectKey, Place, shortened};
use crate::rollout::Workload;
use crate::rollout::plan::after;
use crate::span::Span;

/// The most characters of a wrong value that are shown: each object keeps its complaint, and the history that of each record.
const SHOWN: usize = 100;

/// The request of a manifest for the case that its rollout fails, instead of the source's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// `belay.dev/on-failure: report`
    Report,
    /// `belay.dev/on-failure: roll-back`
    RollBack,
}

/// Returns the request of a manifest, else of the live object.
#[must_use]
pub fn failure_policy(manifest: &Value, live: &Value) -> Option<FailurePolicy> {
    [manifest, live].into_iter().find_map(|object| match marks::annotation(object, marks::ON_FAILURE)? {
        "report" => Some(FailurePolicy::Report),
        "roll-back" => Some(FailurePolicy::RollBack),
        _ => None,
    })
}

/// Returns the names of the analyses of a workload: its manifest's own, else those of its source.
#[must_use]
pub fn asked_analyses(manifest: &Value, of_source: &[String]) -> BTreeSet<String> {
    match marks::annotation(manifest, marks::ANALYSIS).filter(|text| names_analyses(text)) {
        Some(text) => analysis_names(text).map(str::to_owned).collect::<BTreeSet<String>>(),
        None => of_source.iter().cloned().collect(),
    }
}

/// The analyses that a workload's own manifest names, and the place where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAnalyses {
    /// The place of the annotation.
    pub place: Place,
    /// The names.
    pub names: BTreeSet<String>,
}

impl NamedAnalyses {
    /// Returns the analyses that a manifest names; `None` if it names none, or is of a kind that has none.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Option<NamedAnalyses> {
        let has_analyses = Workload::of(&manifest.key).is_some_and(Workload::can_go_back);
        let value = has_analyses.then(|| manifest.value())?;
        marks::annotation(&value, marks::ANALYSIS)?;
        let names = asked_analyses(&value, &[]);
        let place = || manifest.place_of(&format!("metadata.annotations[{}]", marks::ANALYSIS));
        (!names.is_empty()).then(|| NamedAnalyses { place: place(), names })
    }

    /// Returns the complaint about the names that are not among the known ones, if there are any.
    #[must_use]
    pub fn unknown(&self, known: &[&str]) -> Option<Complaint> {
        let unknown: Vec<&str> = self.names.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
        let (first, others) = unknown.split_first()?;
        let others: String = others.iter().map(|name| format!(", {name:?}")).collect();
        let message = format!("analysis {first:?}{others}: the configuration has no [[analysis]] of that name");
        let there_are = match known {
            [] => "it has none at all".to_owned(),
            known => format!("it has {}", known.join(", ")),
        };
        Some(Complaint::of_file(self.place.clone(), message, Some(there_are)))
    }
}

fn analysis_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn names_analyses(text: &str) -> bool {
    let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    analysis_names(text).all(is_word) && analysis_names(text).count() <= ANALYSES
}

/// Returns what is to be written instead, if an object can't have the canary that it asks for.
fn no_canary(key: &ObjectKey, manifest: &Value, text: &str) -> Option<&'static str> {
    let says = |field: &str, value: &str| manifest.pointer(field).is_some_and(|said| said == value);
    let is_wrong = text.parse::<CanarySteps>().is_err();
    match CanaryKind::of_key(key) {
        None => Some("only a Deployment, a StatefulSet or a DaemonSet has a canary: leave the annotation out"),
        Some(CanaryKind::Deployment) if says("/spec/strategy/type", "Recreate") => {
            Some("the strategy Recreate runs no old and new pods side by side: leave one of the two out")
        }
        Some(CanaryKind::Deployment) if manifest["spec"]["paused"] == true => {
            Some("a paused Deployment makes no new pods: leave one of the two out")
        }
        Some(CanaryKind::StatefulSet | CanaryKind::DaemonSet) if says("/spec/updateStrategy/type", "OnDelete") => {
            Some("with OnDelete nobody replaces the pods but a person: leave one of the two out")
        }
        Some(CanaryKind::DaemonSet) if has_number(manifest, "maxSurge") => Some(
            "a step deletes an old pod before its new one is made, which maxSurge forbids: leave one of the two out",
        ),
        Some(CanaryKind::StatefulSet) if has_number(manifest, "partition") => {
            Some("a partition is a step by hand, which belay would have to end: leave one of the two out")
        }
        _ if is_wrong => Some(
            "write new pods and the time for which they are watched, \"1 10m, 50% 10m\"; 0 waits for belay promote",
        ),
        _ => None,
    }
}

/// Returns true when a number of a set's rolling update is not 0.
fn has_number(manifest: &Value, name: &str) -> bool {
    let number = &manifest["spec"]["updateStrategy"]["rollingUpdate"][name];
    !number.is_null() && *number != 0 && *number != "0%"
}

/// Returns the complaints about a manifest's requests to belay.
#[must_use]
pub fn complaints(manifest: &Manifest, complaint: impl Fn(&str, &str) -> Complaint) -> Vec<Complaint> {
    let value = manifest.value();
    let said = |name: &str| marks::annotation(&value, name);
    let mut complaints = Vec::new();
    let mut complain = |name: &str, text: &str, hint: &str| {
        let field = format!("metadata.annotations[{name}]");
        let shown = shortened(text, SHOWN);
        let mut complaint = complaint(&field, &format!("{name} is {shown:?}, which is not a valid value"));
        complaint.hint = Some(hint.to_owned());
        complaints.push(complaint);
    };
    if let Some(text) = said(marks::ON_FAILURE).filter(|text| !["report", "roll-back"].contains(text)) {
        complain(marks::ON_FAILURE, text, "write report or roll-back");
    }
    for name in [marks::PRUNE, marks::ROLL_ON_CONFIG] {
        if let Some(text) = said(name).filter(|text| !["true", "false"].contains(text)) {
            complain(name, text, "write \"true\" or \"false\"");
        }
    }
    let is_deadline = |text: &str| text.parse::<i64>().is_ok_and(|seconds| seconds > 0);
    if let Some(text) = said(marks::PROGRESS_DEADLINE).filter(|text| !is_deadline(text)) {
        complain(marks::PROGRESS_DEADLINE, text, "write a number of seconds, \"600\"");
    }
    if let Some(text) = said(marks::BAKE).filter(|text| text.parse::<Span>().is_err()) {
        complain(marks::BAKE, text, "write a time, 10m or 1h30m, or 0s for none");
    }
    if let Some(text) = said(marks::ANALYSIS).filter(|text| !names_analyses(text)) {
        let hint = "write names of [[analysis]], errors,latency; at most 12, with commas between them";
        complain(marks::ANALYSIS, text, hint);
    }
    if let Some(text) = said(marks::CANARY)
        && let Some(hint) = no_canary(&manifest.key, &value, text)
    {
        complain(marks::CANARY, text, hint);
    }
    if let Some(part) = said(marks::AFTER).and_then(|text| after::names(text, manifest.key.namespace.as_deref()).err())
    {
        let hint =
            "write kind/name or namespace/kind/name of a workload, deployment/db; several with commas between them";
        complain(marks::AFTER, &part, hint);
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};

    #[test]
    fn the_manifests_own_analyses_come_first() {
        let manifest = |names: &str| serde_json::json!({"metadata": {"annotations": {marks::ANALYSIS: names}}});
        let of = |manifest: &Value| {
            asked_analyses(manifest, &["errors".to_owned()]).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(&Value::Null), "errors");
        assert_eq!(of(&manifest("queue, latency,queue")), "latency queue");
        assert_eq!(of(&manifest("")), "", "none");
        assert_eq!(of(&manifest("a b")), "errors", "which is a complaint");
    }

    #[test]
    fn a_name_that_the_configuration_does_not_have_is_complained_about_at_its_line() {
        let of = |kind: &str, names: &str, known: &[&str]| {
            const SPEC: &str = "spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}";
            let head = format!("apiVersion: apps/v1\nkind: {kind}\nmetadata:\n  name: web\n  annotations:\n");
            let text = format!("{head}    {}: \"{names}\"\n{SPEC}\n", marks::ANALYSIS);
            let file = read_file("web.yaml", text.as_bytes(), &Scopes::new("shop"));
            assert_eq!(file.manifests.len(), 1, "{:?}", file.complaints);
            let named = file.manifests.iter().filter_map(NamedAnalyses::of);
            let unknown = named.flat_map(|named| named.unknown(known));
            let shown = |complaint: Complaint| {
                format!("{} {} ({})", complaint.place, complaint.message, complaint.hint.unwrap_or_default())
            };
            unknown.map(shown).collect::<Vec<String>>()
        };
        let said = |name: &str, hint: &str| {
            [format!("web.yaml:6:5 analysis {name}: the configuration has no [[analysis]] of that name ({hint})")]
        };
        let known = ["errors", "latency"];
        let set = |names: &str, known: &[&str]| of("DaemonSet", names, known);
        assert_eq!(set("errors,latency", &known), Vec::<String>::new());
        assert_eq!(set("queue, errors", &known), said("\"queue\"", "it has errors, latency"));
        assert_eq!(set("a,b", &[]), said("\"a\", \"b\"", "it has none at all"));
        assert_eq!(set("", &known), Vec::<String>::new());
        assert_eq!(of("ReplicaSet", "queue", &known), Vec::<String>::new(), "it has no analyses");
    }

    /// A folder of small files may hold gigabytes of these.
    #[test]
    fn little_is_shown_of_a_long_value_that_is_wrong() {
        let long = "ü".repeat(100_000);
        for name in [
            marks::ON_FAILURE,
            marks::PRUNE,
            marks::ROLL_ON_CONFIG,
            marks::PROGRESS_DEADLINE,
            marks::BAKE,
            marks::ANALYSIS,
            marks::CANARY,
            marks::AFTER,
        ] {
            for value in [long.clone(), format!("deployment/{long}"), format!("{long}/deployment/a")] {
                let text = format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, annotations: {{{name}: \"{value}\"}}}}\n"
                );
                let file = read_file("a.yaml", text.as_bytes(), &Scopes::new("default"));
                let place = Place { path: "a.yaml".into(), line: 1, column: 1 };
                let complaint = |_: &str, said: &str| Complaint::of_file(place.clone(), said.to_owned(), None);
                let found = complaints(&file.manifests[0], complaint);
                assert!(found.len() == 1 && found[0].message.len() < 400, "{name}: {}", found[0].message.len());
                assert!(found[0].message.contains("ü…\"") || found[0].message.contains("ü\"…"), "{}", found[0].message);
            }
        }
    }
}
