//! The analyses of a workload within its bake time: Prometheus is asked beside the watch, look by look.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{HealthMonitor, MonitorEnd, UNHEARD};
use crate::config::{AnalysisConfig, AnalysisQueries};
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;
use crate::prometheus::PrometheusError;
use belay_core::manifest::Compact;
use belay_core::rollout::analysis::{
    Analysis, CounterGrowth, Measured, PodAnswers, PodPatterns, QueryTemplate, QueryValues, Sample, answers,
    pod_patterns, worst_value,
};
use belay_core::rollout::health::PodAccount;
use belay_core::rollout::{Outcome, Reason, ReasonCode, RecordId, StepKind, asked_analyses, marks};

/// The most looks of an analysis within a bake time.
const LOOKS: i32 = 2_000;

/// The standing of one analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AnalysisStanding {
    /// Why the version is bad.
    failure: Option<String>,
    /// Why the last look says nothing.
    undecided: Option<String>,
}

/// The analyses of a workload that are under way. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Analyses {
    standing: watch::Receiver<BTreeMap<String, AnalysisStanding>>,
    /// The names that the configuration does not know.
    unknown: Vec<String>,
    _looks: JoinSet<()>,
}

impl Analyses {
    /// Returns why the version is bad, if an analysis shows that.
    fn failure(&self) -> Option<String> {
        self.standing.borrow().values().find_map(|standing| standing.failure.clone())
    }

    /// Returns why an analysis has no verdict now.
    fn undecided(&self) -> Option<String> {
        let unknown = self.unknown.first().map(|name| format!("there is no [[analysis]] of the name {name:?}"));
        unknown.or_else(|| self.standing.borrow().values().find_map(|standing| standing.undecided.clone()))
    }

    /// Waits until one of them has news.
    pub(super) async fn changed(this: Option<&mut Analyses>) {
        if let Some(analyses) = this
            && analyses.standing.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl HealthMonitor<'_> {
    /// Begins the analyses of a bake time of this length, if the workload has any. They measure since `began`.
    pub(super) fn begin_analyses(
        &mut self,
        live: &Value,
        pods: Option<&[PodAccount]>,
        bake: SignedDuration,
        began: Timestamp,
    ) {
        let (context, wanted) = (&self.work.context, &self.work.planned.wanted);
        let asked = asked_analyses(&wanted.manifest.value(), &context.config.analysis);
        if asked.is_empty() || self.outcome == Outcome::RollingBack {
            return;
        }
        let present = pods.and_then(|pods| pods.first()).map(|pod| pod.seen.name.as_str());
        let rollout = Arc::new(MeasuredRollout {
            record: self.work.record,
            pods: pod_patterns(&wanted.key, present),
            namespace: wanted.key.namespace.clone().unwrap_or_default(),
            name: wanted.key.name.clone(),
            commit: wanted.commit.id.to_string(),
            revision: marks::revision(live).unwrap_or_default(),
            bake,
            began,
            applied: self.work.applied_at().unwrap_or(began),
        });
        let (news, standing) = watch::channel(BTreeMap::new());
        let (mut unknown, mut looks) = (Vec::new(), JoinSet::new());
        for name in asked {
            match context.config.known_analyses.iter().find(|known| known.name == name) {
                Some(config) => {
                    let looking = Looking::of(context, config, &rollout, began);
                    looks.spawn(looking.look_again_and_again(news.clone()));
                }
                None => {
                    warn!(object = %wanted.key, analysis = name, "there is no [[analysis]] of that name");
                    unknown.push(name);
                }
            }
        }
        self.analyses = Some(Analyses { standing, unknown, _looks: looks });
    }

    /// Returns the end of a rollout whose version an analysis has shown to be bad.
    pub(super) async fn failed_by_analysis(&mut self, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        let Some(why) = self.analyses.as_ref().and_then(Analyses::failure) else { return Ok(None) };
        let reason = Reason::new(ReasonCode::AnalysisFailed, why);
        info!(object = %self.work.planned.wanted.key, %reason, "failed");
        let (observed, live) = self.observe(live).await?;
        Ok(Some(MonitorEnd::Failed { reason, observed: Box::new(observed), live }))
    }

    /// Returns why an analysis has no verdict now.
    pub(super) fn undecided(&self) -> Option<String> {
        self.analyses.as_ref().and_then(Analyses::undecided)
    }
}

impl RolloutTask {
    /// Returns when its manifest was applied, as far as the history knows.
    fn applied_at(&self) -> Option<Timestamp> {
        let steps = self.context.history.steps(self.record).unwrap_or_default();
        steps.iter().rfind(|step| step.kind == StepKind::Applied).map(|step| step.at)
    }
}

/// The rollout that is measured.
#[derive(Debug)]
struct MeasuredRollout {
    record: RecordId,
    pods: PodPatterns,
    namespace: String,
    name: String,
    commit: String,
    revision: i64,
    /// The length of its bake time.
    bake: SignedDuration,
    /// When that began.
    began: Timestamp,
    /// When the manifest was applied: the old pods are those of before.
    applied: Timestamp,
}

/// One analysis that looks again and again.
struct Looking {
    context: Arc<Context>,
    config: AnalysisConfig,
    rollout: Arc<MeasuredRollout>,
    analysis: Analysis,
    /// The counters of the new and of the old pods: the bad answers, and all.
    growth: [[CounterGrowth; 2]; 2],
    first: Instant,
}

impl Looking {
    fn of(
        context: &Arc<Context>,
        config: &AnalysisConfig,
        rollout: &Arc<MeasuredRollout>,
        began: Timestamp,
    ) -> Looking {
        let known = context.history.measurements(rollout.record).unwrap_or_else(|error| {
            warn!(%error, "failed to read what an analysis has measured; it begins again");
            Vec::new()
        });
        let warm = began.checked_add(config.warmup.signed()).unwrap_or(Timestamp::MAX);
        let wait = Duration::try_from(warm.duration_since(context.clock.now())).unwrap_or_default();
        Looking {
            context: Arc::clone(context),
            config: config.clone(),
            rollout: Arc::clone(rollout),
            analysis: Analysis::resume(config.name.clone(), config.rule(), config.on_none, &known),
            growth: Default::default(),
            first: Instant::now() + wait,
        }
    }

    /// Looks until the version is known to be bad.
    async fn look_again_and_again(mut self, news: watch::Sender<BTreeMap<String, AnalysisStanding>>) {
        let longest = Duration::try_from(self.rollout.bake / LOOKS).unwrap_or(UNHEARD);
        let mut looks = tokio::time::interval_at(self.first, self.config.interval.0.max(longest));
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let standing = AnalysisStanding { failure: self.analysis.failure(), undecided: self.analysis.undecided() };
            let has_failed = standing.failure.is_some();
            news.send_if_modified(|all| all.insert(self.config.name.clone(), standing.clone()) != Some(standing));
            if has_failed {
                return;
            }
            looks.tick().await;
            let measured = match self.measure().await {
                Ok(Some(measured)) => measured,
                // Counters say something from the second look on.
                Ok(None) => continue,
                Err(PrometheusError(message)) => Measured::Nothing { message },
            };
            let measurement = self.analysis.measure(measured, self.context.clock.now());
            self.context.measured(self.rollout.record, measurement).await;
        }
    }

    /// Returns the numbers of a look; `None` at the first look at counters.
    async fn measure(&mut self) -> Result<Option<Measured>, PrometheusError> {
        match self.config.queries().map_err(PrometheusError)? {
            AnalysisQueries::Value { query, requests } => {
                let samples = self.ask(&query, &self.rollout.pods.new, None).await?;
                let requests = match requests {
                    Some(requests) => Some(self.ask(&requests, &self.rollout.pods.new, None).await?),
                    None => None,
                };
                Ok(Some(worst_value(&samples, requests.as_deref(), self.config.rule())))
            }
            AnalysisQueries::Answers { bad, total } => self.compare(&bad, &total).await,
        }
    }

    /// Returns the answers of the new pods, and those of the old ones at the same distance from the beginning of a time of the
    /// same length, which ends when the manifest was applied.
    async fn compare(
        &mut self,
        bad: &QueryTemplate,
        total: &QueryTemplate,
    ) -> Result<Option<Measured>, PrometheusError> {
        let MeasuredRollout { pods, applied, began, bake, .. } = &*self.rollout;
        let elapsed = self.context.clock.now().duration_since(*began);
        let before = applied.checked_add(elapsed.saturating_sub(*bake)).unwrap_or(*applied);
        if before > *applied {
            let message = "the time before the rollout that it is compared with is over".to_owned();
            return Ok(Some(Measured::Nothing { message }));
        }
        let new = (self.ask(bad, &pods.new, None).await?, self.ask(total, &pods.new, None).await?);
        let old = (self.ask(bad, &pods.old, Some(before)).await?, self.ask(total, &pods.old, Some(before)).await?);
        let mut grown = |side: usize, (bad, total): (Vec<Sample>, Vec<Sample>)| {
            let [known_bad, known_total] = &mut self.growth[side];
            Some(answers(&known_bad.grow(&bad)?, &known_total.grow(&total)?))
        };
        let (new, old) = (grown(0, new), grown(1, old));
        Ok(new.zip(old).map(|(new, old)| Measured::Answers(PodAnswers { new, old })))
    }

    async fn ask(
        &self,
        query: &QueryTemplate,
        pods: &str,
        at: Option<Timestamp>,
    ) -> Result<Vec<Sample>, PrometheusError> {
        let MeasuredRollout { namespace, name, commit, revision, .. } = &*self.rollout;
        let source = &self.context.config.name;
        let query = query.query(&QueryValues { pods, source, namespace, name, commit, revision: *revision });
        self.context.prometheus.query(&self.config, query, at).await
    }
}
