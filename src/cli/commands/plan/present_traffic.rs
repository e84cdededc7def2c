//! The power of the analyses of a plan's rollouts, by the present traffic that Prometheus knows.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::cli::output::activity::during;
use crate::cli::session::guard_notes::GuardNotes;
use crate::clock::Clock;
use crate::config::{AnalysisConfig, AnalysisSubject, SourceConfig};
use crate::prometheus::{InstantQuery, PrometheusClient, PrometheusError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::analysis::{
    AnalysisRule, AnswerSums, CounterIncreases, QueryTemplate, QueryValues, Traffic, pod_patterns,
};
use belay_core::rollout::{Plan, PlanStep, Planned};

/// The time over which the present traffic is measured.
const MEASURED: SignedDuration = SignedDuration::from_mins(10);
/// The most workloads of a plan for which Prometheus is asked.
const WORKLOADS: usize = 50;
/// The time for all questions of a plan.
const ASKED: Duration = Duration::from_secs(30);

/// Returns what the analyses of each workload that is rolled out can prove. The error rates are asked of Prometheus; an analysis
/// whose Prometheus does not answer has examples.
pub(super) async fn guards(source: &SourceConfig, plan: &Plan) -> BTreeMap<ObjectKey, Vec<String>> {
    let rolls_out =
        |planned: &&Planned| matches!(&planned.step, PlanStep::Apply(apply) if apply.rolls_out && !apply.creates);
    let mut notes = GuardNotes::of(source);
    let mut present = PresentTraffic::new(source);
    let mut all = BTreeMap::new();
    for (number, Planned { wanted, .. }) in plan.planned.iter().filter(rolls_out).enumerate() {
        let mut known = BTreeMap::new();
        if number < WORKLOADS {
            for config in notes.analyses(&wanted.manifest.value()) {
                known.insert(&config.name, present.of(config, &wanted.key).await);
            }
        }
        let traffic = |config: &AnalysisConfig| known.get(&config.name)?.as_ref()?.as_ref().ok().copied();
        let mut said: Vec<String> =
            notes.about(&wanted.manifest, traffic).into_iter().map(|note| note.message).collect();
        if said.is_empty() {
            continue;
        }
        let unknown = known.iter().filter_map(|(name, known)| Some((name, known.as_ref()?.as_ref().err()?)));
        said.extend(unknown.map(|(name, why)| format!("analysis {name:?}: its present traffic is not known: {why}")));
        all.insert(wanted.key.clone(), said);
    }
    all
}

/// The present traffic of workloads.
struct PresentTraffic<'s> {
    source: &'s SourceConfig,
    client: PrometheusClient,
    now: Timestamp,
    /// The end of the time for all questions.
    until: Instant,
    /// The analyses that had no answer, by their names: they are not asked again.
    unanswered: BTreeMap<String, PrometheusError>,
}

impl<'s> PresentTraffic<'s> {
    fn new(source: &'s SourceConfig) -> PresentTraffic<'s> {
        let (client, now) = (PrometheusClient::default(), Clock::system().now());
        PresentTraffic { source, client, now, until: Instant::now() + ASKED, unanswered: BTreeMap::new() }
    }

    /// Returns the traffic of a workload; `None` for an analysis that compares no error rates.
    async fn of(&mut self, config: &AnalysisConfig, key: &ObjectKey) -> Option<Result<Traffic, PrometheusError>> {
        if !matches!(config.rule(), AnalysisRule::ErrorRate { .. }) {
            return None;
        }
        if let Some(error) = self.unanswered.get(&config.name) {
            return Some(Err(error.clone()));
        }
        let late = |_| Err(PrometheusError(format!("the {} s for all questions of a plan are over", ASKED.as_secs())));
        let asked = tokio::time::timeout_at(self.until, self.ask(config, key));
        let asked = during(&format!("asking Prometheus about {key}"), asked).await;
        Some(match asked.unwrap_or_else(late) {
            Ok(sums) if sums.total <= 0.0 => {
                Err(PrometheusError("its pods have answered no request within 10 minutes".to_owned()))
            }
            Ok(sums) => Ok(Traffic {
                requests: sums.total / MEASURED.as_secs_f64(),
                // Without a bad answer, the next one may be.
                error_rate: sums.bad.max(1.0) / sums.total,
            }),
            Err(error) => {
                self.unanswered.insert(config.name.clone(), error.clone());
                Err(error)
            }
        })
    }

    /// Returns the answers of a workload's pods lately.
    async fn ask(&self, config: &AnalysisConfig, key: &ObjectKey) -> Result<AnswerSums, PrometheusError> {
        let AnalysisSubject::Answers { bad, total } = config.subject().map_err(PrometheusError)? else {
            return Ok(AnswerSums::default());
        };
        let pods = pod_patterns(key, &[], false).old;
        let values = QueryValues {
            pods: &pods,
            source: &self.source.name,
            namespace: key.namespace.as_deref().unwrap_or_default(),
            name: &key.name,
            ..QueryValues::default()
        };
        let ask = |query: &QueryTemplate, at: Timestamp| self.client.query(config, query.query(&values), Some(at));
        let before = self.now.checked_sub(MEASURED).unwrap_or(self.now);
        let mut counters = CounterIncreases::default();
        counters.increase(&ask(&bad, before).await?, &ask(&total, before).await?);
        let grown = counters.increase(&ask(&bad, self.now).await?, &ask(&total, self.now).await?);
        Ok(AnswerSums::of(grown.into_values()))
    }
}
