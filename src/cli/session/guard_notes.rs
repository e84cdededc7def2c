//! The power of a workload's analyses, said before its rollout.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::{AnalysisConfig, SourceConfig};
use belay_core::manifest::{Complaint, Manifest};
use belay_core::rollout::analysis::{AnalysisRule, Guard, Power, Traffic, power};
use belay_core::rollout::{NamedAnalyses, Workload, asked_analyses, bake_time, marks};

/// The requests in a second for which the power is said where nobody knows them, and the part of them with bad answers.
const EXAMPLES: [f64; 3] = [1.0, 10.0, 100.0];
const EXAMPLE_ERROR_RATE: f64 = 0.005;
/// A guard that finds nothing with so many requests in a second never finds anything.
const MUCH: f64 = 1_000.0;

/// The most powers that are computed; a computation takes some tenths of a second.
const COMPUTED: usize = 1_000;

/// The notes about the analyses of workloads.
#[derive(Debug)]
pub(in crate::cli) struct GuardNotes<'s> {
    source: &'s SourceConfig,
    /// Most workloads have the same guards: each is computed once.
    known: BTreeMap<String, Power>,
}

/// One note.
#[derive(Clone, Debug)]
pub(in crate::cli) struct GuardNote {
    /// The field of the manifest that asks for the guard; empty where the source does.
    pub field: String,
    pub message: String,
    pub hint: Option<String>,
    /// True when the guard can find nothing at all.
    pub is_blind: bool,
}

impl GuardNote {
    /// Returns it at its place.
    pub(in crate::cli) fn complaint(self, manifest: &Manifest) -> Complaint {
        let place = if self.field.is_empty() { manifest.place.clone() } else { manifest.place_of(&self.field) };
        Complaint { object: Some(manifest.key.clone()), ..Complaint::of_file(place, self.message, self.hint) }
    }
}

impl<'s> GuardNotes<'s> {
    /// Returns the notes about the workloads of a source.
    pub(in crate::cli) fn of(source: &'s SourceConfig) -> GuardNotes<'s> {
        GuardNotes { source, known: BTreeMap::new() }
    }

    /// Returns the analyses that a manifest asks for and that the configuration has.
    pub(in crate::cli) fn analyses(&self, manifest: &Value) -> Vec<&'s AnalysisConfig> {
        let asked = asked_analyses(manifest, &self.source.analysis);
        self.source.known_analyses.iter().filter(|known| asked.contains(&known.name)).collect()
    }

    /// Returns the notes about one workload. `traffic` says what Prometheus knows for an analysis; without it they are for a few
    /// examples.
    pub(in crate::cli) fn about(
        &mut self,
        manifest: &Manifest,
        traffic: impl Fn(&AnalysisConfig) -> Option<Traffic>,
    ) -> Vec<GuardNote> {
        let value = manifest.value();
        if !Workload::of(&manifest.key).is_some_and(Workload::can_go_back) {
            return Vec::new();
        }
        let mut notes = self.faults(manifest, &value);
        if self.known.len() >= COMPUTED {
            return notes;
        }
        let replicas = value.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
        let guards = Guard::of(&manifest.key, &value, replicas, bake_time(&value, self.source.bake));
        for config in self.analyses(&value) {
            for guard in &guards {
                let field = field(&value, if guard.bakes { marks::BAKE } else { marks::CANARY });
                let traffic = traffic(config);
                notes.extend(self.power_note(config, guard, traffic).map(|(message, is_blind)| GuardNote {
                    field,
                    message,
                    hint: None,
                    is_blind,
                }));
            }
        }
        notes
    }

    /// Returns the faults of the names of analyses on a manifest.
    fn faults(&self, manifest: &Manifest, value: &Value) -> Vec<GuardNote> {
        let Some(named) = NamedAnalyses::of(manifest) else { return Vec::new() };
        let known: Vec<&str> = self.source.known_analyses.iter().map(|known| known.name.as_str()).collect();
        let note = |message, hint| GuardNote { field: field(value, marks::ANALYSIS), message, hint, is_blind: true };
        let unknown = named.unknown(&known).into_iter().map(|complaint| note(complaint.message, complaint.hint));
        let has_time =
            bake_time(value, self.source.bake).is_positive() || marks::annotation(value, marks::CANARY).is_some();
        let idle = "an analysis looks within a canary or a bake time, and this workload has neither";
        unknown.chain((!has_time).then(|| note(idle.to_owned(), None))).collect()
    }

    /// Returns what is said of an analysis within a guard, and whether that is a warning.
    fn power_note(
        &mut self,
        config: &AnalysisConfig,
        guard: &Guard,
        traffic: Option<Traffic>,
    ) -> Option<(String, bool)> {
        let (name, told, lasts) = (&config.name, guard.told(), guard.lasts());
        let mut of = |requests, error_rate| self.power(config, guard, Traffic { requests, error_rate });
        if of(MUCH, EXAMPLE_ERROR_RATE) == Power::Nothing {
            let message = format!(
                "analysis {name:?}: {told} can prove nothing in {lasts}, however bad a version is: lengthen it, or shorten interval, \
                 warmup or failures"
            );
            return Some((message, true));
        }
        if !matches!(config.rule(), AnalysisRule::ErrorRate { .. }) {
            return None;
        }
        let message = match traffic {
            Some(Traffic { requests, error_rate }) => {
                let (rate, percent) = (rounded(requests), rounded(error_rate * 100.0));
                let power = worse(of(requests, error_rate));
                format!(
                    "with {rate} requests a second, at most {percent}% of them bad, {told} can prove {power} in {lasts}"
                )
            }
            None => {
                let each = |requests: f64| format!("{} at {requests}", worse(of(requests, EXAMPLE_ERROR_RATE)));
                let each: Vec<String> = EXAMPLES.into_iter().map(each).collect();
                let percent = EXAMPLE_ERROR_RATE * 100.0;
                let each = each.join(", ");
                format!(
                    "{told} can prove in {lasts}: {each} requests a second, where {percent}% of the old answers are bad"
                )
            }
        };
        Some((format!("analysis {name:?}: {message}"), false))
    }

    fn power(&mut self, config: &AnalysisConfig, guard: &Guard, traffic: Traffic) -> Power {
        let (rule, looks) = (config.rule(), config.look_times());
        let key = format!("{rule:?} {looks:?} {guard:?} {traffic:?}");
        *self.known.entry(key).or_insert_with(|| power(rule, looks, guard, traffic))
    }
}

/// Returns the path of an annotation that a manifest has; empty if it has none.
fn field(manifest: &Value, name: &str) -> String {
    marks::annotation(manifest, name).map(|_| format!("metadata.annotations[{name}]")).unwrap_or_default()
}

fn worse(power: Power) -> String {
    match power {
        Power::Worse(factor) => format!("nothing better than {factor} times worse"),
        Power::Nothing | Power::Value => "nothing".to_owned(),
    }
}

/// Returns a number with two digits that count.
fn rounded(number: f64) -> f64 {
    let digits = 10_f64.powf(1.0 - number.abs().max(1e-9).log10().floor());
    if digits >= 1.0 { (number * digits).round() / digits } else { number.round() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use belay_core::manifest::{Scopes, read_file};

    const CONFIG: &str = r#"
[[source]]
repository = "/srv"
bake = "5m"
analysis = ["errors", "latency"]
[[analysis]]
name = "errors"
prometheus = "http://p:9090"
bad = 'bad{pod=~"{{pods}}"}'
total = 'all{pod=~"{{pods}}"}'
[[analysis]]
name = "latency"
prometheus = "http://p:9090"
query = "p99"
max = 1
"#;

    fn notes(annotations: &str, traffic: Option<Traffic>) -> Vec<String> {
        let config = Config::parse(CONFIG, "belay.toml").unwrap();
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  annotations:\n    app: web\n{annotations}spec:\n  replicas: 6\n\
             \x20 selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: \
             [{{name: app, image: web:1}}]\n"
        );
        let file = read_file("web.yaml", text.as_bytes(), &Scopes::new("default"));
        assert!(file.complaints.is_empty(), "{:?}", file.complaints);
        let manifest = &file.manifests[0];
        let notes = GuardNotes::of(&config.source[0]).about(manifest, |_| traffic);
        let shown = |note: GuardNote| {
            let kind = if note.is_blind { "warning" } else { "note" };
            let Complaint { place, message, .. } = note.complaint(manifest);
            format!("{kind} {place} {message}")
        };
        notes.into_iter().map(shown).collect()
    }

    #[test]
    fn a_guard_says_beforehand_what_it_can_prove() {
        assert_eq!(
            notes("", None),
            [
                "note web.yaml:1:1 analysis \"errors\": this bake time can prove in 5m: nothing better than 30 times worse at 1, nothing \
                 better than 5 times worse at 10, nothing better than 3 times worse at 100 requests a second, where 0.5% of the old \
                 answers are bad"
            ]
        );
        let canary = "    belay.dev/canary: \"1 10m, 2 20s\"\n    belay.dev/bake: 0s\n";
        assert_eq!(
            notes(canary, Some(Traffic { requests: 2.04, error_rate: 0.005 })),
            [
                "note web.yaml:7:5 analysis \"errors\": with 2 requests a second, at most 0.5% of them bad, this canary, with 1 of 7, then 2 of 8 \
                 pods, can prove nothing better than 30 times worse in 10m20s"
            ]
        );
    }

    #[test]
    fn a_guard_that_sees_nothing_is_a_warning_at_its_place() {
        let short = notes("    belay.dev/canary: 1 20s\n", None);
        let warning = "warning web.yaml:7:5 analysis \"errors\": this canary, with 1 of 7 pods, can prove nothing in 20s, however bad a \
                       version is: lengthen it";
        assert!(short[0].starts_with(warning), "{short:?}");
        assert!(short[1].starts_with("note web.yaml:1:1 analysis \"errors\": this canary and its bake time can"));
        assert!(short[2].starts_with("warning web.yaml:7:5 analysis \"latency\": this canary"), "{short:?}");
        assert_eq!(short.len(), 3, "{short:?}");
        let bake = notes("    belay.dev/bake: 10s\n", None);
        assert!(bake.len() == 2 && bake.iter().all(|note| note.starts_with("warning web.yaml:7:5 ")), "{bake:?}");
        assert_eq!(
            notes("    belay.dev/analysis: queue\n    belay.dev/bake: 0s\n", None),
            [
                "warning web.yaml:7:5 analysis \"queue\": the configuration has no [[analysis]] of that name",
                "warning web.yaml:7:5 an analysis looks within a canary or a bake time, and this workload has neither"
            ]
        );
        assert_eq!(notes("    belay.dev/analysis: \"\"\n", None), Vec::<String>::new());
    }

    #[test]
    fn numbers_have_two_digits_that_count() {
        for (number, expected) in [(0.0, "0"), (0.012_34, "0.012"), (1.96, "2"), (12.4, "12"), (1234.5, "1235")] {
            assert_eq!(rounded(number).to_string(), expected);
        }
    }
}
