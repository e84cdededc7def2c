//! The analyses of a workload within its canary and its bake time: Prometheus is asked, or a Job is looked at, beside the watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};

use super::analysis_job::AnalysisJob;
use super::measured_rollout::{MeasuredRollout, OldPods, owner_reference};
use super::{HealthMonitor, MonitorEnd};
use crate::config::{AnalysisConfig, AnalysisSubject};
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;
use crate::prometheus::PrometheusError;
use belay_core::manifest::Compact;
use belay_core::rollout::analysis::{
    Analysis, AnswerSums, CounterIncreases, JobState, LOOKS, Measured, Measurement, PodAnswers, PromotionProof,
    QueryTemplate, QueryValues, Sample, pod_patterns, promoted_early, worst_value,
};
use belay_core::rollout::health::PodAccount;
use belay_core::rollout::{Outcome, Reason, ReasonCode, RecordId, StepKind, asked_analyses, marks};

/// The time over which the looks of a canary's step are spread at most: it may wait for a person for days.
const LOOKS_OF_A_STEP: SignedDuration = SignedDuration::from_hours(24);

/// The standing of one analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AnalysisStanding {
    /// The reason for which the version is bad.
    failure: Option<String>,
    /// The reason for which it is not known yet if the version is good.
    undecided: Option<String>,
    /// Its opinion on the end of a canary's step before its time.
    early: PromotionProof,
}

/// The analyses of a workload that are under way. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Analyses {
    standing: watch::Receiver<BTreeMap<String, AnalysisStanding>>,
    _looks: JoinSet<()>,
}

impl Analyses {
    /// Returns why the version is bad, if an analysis shows that.
    fn failure(&self) -> Option<String> {
        self.standing.borrow().values().find_map(|standing| standing.failure.clone())
    }

    /// Returns why an analysis has no verdict now.
    fn undecided(&self) -> Option<String> {
        self.standing.borrow().values().find_map(|standing| standing.undecided.clone())
    }

    /// Returns the proof by which a step of a canary ends before its time.
    fn promoted_early(&self) -> Option<String> {
        promoted_early(self.standing.borrow().values().map(|standing| &standing.early))
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
    /// Begins the analyses of a bake time of this length, if the workload has any. They measure since `began`, by the steady clock.
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
        let present: Vec<&str> = pods.unwrap_or_default().iter().map(|pod| pod.seen.name.as_str()).collect();
        let replaced = self.work.last_good_replaced_at();
        let is_step = self.is_canary_step();
        let rollout = Arc::new(MeasuredRollout {
            record: self.work.record,
            pods: pod_patterns(&wanted.key, &present, is_step),
            workload: wanted.key.clone(),
            owner: owner_reference(live),
            commit: wanted.commit.id.clone(),
            revision: marks::revision(live).unwrap_or_default(),
            bake: if is_step { bake.min(LOOKS_OF_A_STEP) } else { bake },
            began,
            step: self.work.canary.as_ref().map(|canary| canary.lock.mark.step),
            old: if is_step { OldPods::Beside } else { OldPods::Until(replaced.unwrap_or(Timestamp::MIN)) },
            more: self.judge.outage_timeout(),
        });
        let known = self.work.measured_before();
        let (mut all, mut tasks) = (BTreeMap::new(), Vec::new());
        for name in asked {
            match context.config.known_analyses.iter().find(|known| known.name == name) {
                Some(config) if config.bad.is_some() && replaced.is_none() && !is_step => {
                    info!(object = %wanted.key, analysis = name, "not measured: there is no earlier version to compare with");
                }
                Some(config) => {
                    let task = AnalysisTask::of(context, config, &rollout, &known);
                    all.insert(name, task.standing());
                    tasks.push(task);
                }
                None => {
                    warn!(object = %wanted.key, analysis = name, "there is no [[analysis]] of that name");
                    let undecided = Some(format!("there is no [[analysis]] of the name {name:?}"));
                    all.insert(name, AnalysisStanding { undecided, ..AnalysisStanding::default() });
                }
            }
        }
        let (news, standing) = watch::channel(all);
        let mut looks = JoinSet::new();
        for task in tasks {
            looks.spawn(task.run(news.clone()));
        }
        self.analyses = Some(Analyses { standing, _looks: looks });
    }

    /// Returns the end of a rollout whose version an analysis has shown to be bad.
    pub(super) async fn failed_by_analysis(&mut self, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        let Some(why) = self.analyses.as_ref().and_then(Analyses::failure) else { return Ok(None) };
        let reason = Reason::new(ReasonCode::AnalysisFailed, why);
        info!(object = %self.work.planned.wanted.key, %reason, "failed");
        self.fails(reason, live).await.map(Some)
    }

    /// Returns the proof by which a step of a canary ends before its time. A step that waits for a person does not.
    pub(super) fn promoted_early(&self) -> Option<String> {
        self.work.canary.as_ref()?.step()?.time?;
        self.analyses.as_ref()?.promoted_early()
    }

    /// Returns why an analysis has no verdict now.
    pub(super) fn undecided(&self) -> Option<String> {
        self.analyses.as_ref().and_then(Analyses::undecided)
    }
}

impl RolloutTask {
    /// Returns what analyses have measured of this rollout before belay was restarted.
    fn measured_before(&self) -> Vec<Measurement> {
        self.context.history.measurements(self.record).unwrap_or_else(|error| {
            warn!(%error, "failed to read what analyses have measured; they begin again");
            Vec::new()
        })
    }

    /// Returns when the last good version began to be replaced, as far as the history knows: by this manifest, or by an earlier one
    /// that failed or was superseded. `None` if there was no good version.
    fn last_good_replaced_at(&self) -> Option<Timestamp> {
        let records = self.context.newest_records(&self.planned.wanted.key);
        let since_good = records
            .iter()
            .filter(|record| record.rolls_out && record.id <= self.record)
            .take_while(|record| record.outcome != Outcome::Complete);
        let is_first = self.context.last_good(&self.planned.wanted.key).is_none();
        let applied = |record: RecordId| {
            let steps = self.context.history.steps(record).unwrap_or_default();
            steps.iter().find(|step| step.kind == StepKind::Applied).map(|step| step.at)
        };
        let replaced = since_good.filter_map(|record| applied(record.id)).min();
        replaced.filter(|_| !is_first)
    }
}

/// One analysis of a rollout, which looks every `interval`.
struct AnalysisTask {
    context: Arc<Context>,
    config: AnalysisConfig,
    rollout: Arc<MeasuredRollout>,
    subject: Result<AnalysisSubject, String>,
    /// Its Job, from its first look on.
    job: Option<AnalysisJob>,
    /// The reason for which its Job has no end yet.
    running: Option<String>,
    analysis: Analysis,
    /// The counters of the new pods, and of the old ones.
    new: CounterIncreases,
    old: CounterIncreases,
    /// True before counters were read: they say something from the second look on.
    is_first: bool,
    /// True when the bake time is over, and goes on for a verdict.
    is_after_bake: bool,
    /// True once it has looked. Before, it stands as it did before a restart, and shortens no step.
    has_measured: bool,
    /// When it looks first.
    first: Instant,
}

impl AnalysisTask {
    fn of(
        context: &Arc<Context>,
        config: &AnalysisConfig,
        rollout: &Arc<MeasuredRollout>,
        known: &[Measurement],
    ) -> AnalysisTask {
        let names = (config.name.clone(), config.subject_hash());
        let warm = rollout.began.checked_add(config.warmup.signed()).unwrap_or(Timestamp::MAX);
        let wait = Duration::try_from(warm.duration_since(context.clock.steady())).unwrap_or_default();
        let mut analysis = Analysis::resume(names, config.rule(), config.on_none, known);
        analysis.enter(rollout.step);
        let is_over = analysis.has_passed_for_good();
        let has_job = config.job.is_some() && !is_over;
        AnalysisTask {
            context: Arc::clone(context),
            config: config.clone(),
            rollout: Arc::clone(rollout),
            subject: config.subject(),
            running: has_job.then(|| "its Job has not begun".to_owned()),
            job: None,
            analysis,
            new: CounterIncreases::default(),
            old: CounterIncreases::default(),
            is_first: true,
            is_after_bake: false,
            has_measured: is_over,
            first: Instant::now() + wait,
        }
    }

    fn standing(&self) -> AnalysisStanding {
        AnalysisStanding {
            failure: self.analysis.failure(),
            undecided: self.running().or_else(|| self.analysis.undecided()),
            early: if self.has_measured { self.analysis.promotion_proof() } else { PromotionProof::Missing },
        }
    }

    /// Returns why its Job has no end yet.
    fn running(&self) -> Option<String> {
        self.running.as_ref().map(|why| format!("analysis {:?}: {why}", self.config.name))
    }

    /// Looks until the version is known to be bad, or its Job is complete.
    async fn run(mut self, news: watch::Sender<BTreeMap<String, AnalysisStanding>>) {
        let shortest = Duration::try_from(self.rollout.bake / LOOKS).unwrap_or_default();
        let mut looks = tokio::time::interval_at(self.first, self.config.interval.0.max(shortest));
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let standing = self.standing();
            let has_failed = standing.failure.is_some();
            news.send_if_modified(|all| all.insert(self.config.name.clone(), standing.clone()) != Some(standing));
            if has_failed || self.analysis.has_passed_for_good() {
                return;
            }
            looks.tick().await;
            let measured = match self.measure().await {
                Ok(Some(measured)) => measured,
                // Counters say something from the second look on, and a Job when it has ended.
                Ok(None) => continue,
                Err(PrometheusError(message)) => Measured::Nothing { message },
            };
            let measurement = self.analysis.measure(measured, self.context.clock.now());
            self.has_measured = true;
            self.context.measured(self.rollout.record, measurement).await;
        }
    }

    /// Returns the numbers of a look; `None` at the first look at counters, and while a Job runs.
    async fn measure(&mut self) -> Result<Option<Measured>, PrometheusError> {
        match self.subject.clone().map_err(PrometheusError)? {
            AnalysisSubject::Job { file } => Ok(self.look_at_job(&file).await),
            AnalysisSubject::Value { query, requests } => {
                let samples = self.ask(&query, &self.rollout.pods.new, None).await?;
                let requests = match requests {
                    Some(requests) => Some(self.ask(&requests, &self.rollout.pods.new, None).await?),
                    None => None,
                };
                Ok(Some(worst_value(&samples, requests.as_deref(), self.config.rule())))
            }
            AnalysisSubject::Answers { bad, total } => self.compare(&bad, &total).await,
        }
    }

    /// Returns the end of the Job, or why nothing of it can start; `None` while it runs, and while the API server does not answer.
    async fn look_at_job(&mut self, file: &str) -> Option<Measured> {
        let job = match self.job.take() {
            Some(job) => Ok(job),
            None => self.rollout.job(&self.context, (&self.config.name, file), self.analysis.said_nothing()),
        };
        let (running, measured) = match job {
            Ok(job) => self.state_of(job).await,
            Err(message) => (None, Some(Measured::Nothing { message })),
        };
        self.running = running;
        measured
    }

    /// Returns why a Job has no end yet, and what its state measures.
    async fn state_of(&mut self, mut job: AnalysisJob) -> (Option<String>, Option<Measured>) {
        let name = job.key.name.clone();
        let state = job.look().await;
        self.job = Some(job);
        match state {
            Ok(JobState::Ended(measured)) => (None, Some(measured)),
            Ok(JobState::NotStarted(message) | JobState::Cut(message)) => (None, Some(Measured::Nothing { message })),
            Ok(JobState::Waits) => (Some(format!("the Job {name} has not started")), None),
            Ok(JobState::Runs) => (Some(format!("the Job {name} runs")), None),
            Err(error) if error.is_outage() => (Some(error.to_string()), None),
            Err(error) => (None, Some(Measured::Nothing { message: error.to_string() })),
        }
    }

    /// Returns the answers of the new pods, and those of the old ones at the same distance from the beginning of a time of the
    /// same length, which ended when the last good version began to be replaced.
    async fn compare(
        &mut self,
        bad: &QueryTemplate,
        total: &QueryTemplate,
    ) -> Result<Option<Measured>, PrometheusError> {
        let (pods, elapsed) = (&self.rollout.pods, self.context.clock.steady().duration_since(self.rollout.began));
        let is_beside = matches!(self.rollout.old, OldPods::Beside);
        if !is_beside && elapsed > self.rollout.bake && !std::mem::replace(&mut self.is_after_bake, true) {
            self.old = CounterIncreases::default();
        }
        let now = self.context.clock.now();
        let new = (self.ask(bad, &pods.new, Some(now)).await?, self.ask(total, &pods.new, Some(now)).await?);
        let before = Some(self.rollout.old_time(elapsed, now));
        let mut old = (self.ask(bad, &pods.old, before).await?, self.ask(total, &pods.old, before).await?);
        if is_beside {
            // The pattern of the old pods may match the names of the new ones, too.
            let new: BTreeSet<&str> = new.0.iter().chain(&new.1).map(|sample| sample.pod.as_str()).collect();
            old.0.retain(|sample| !new.contains(sample.pod.as_str()));
            old.1.retain(|sample| !new.contains(sample.pod.as_str()));
        }
        if [&new.0, &new.1, &old.0, &old.1].into_iter().flatten().any(|sample| sample.pod.is_empty()) {
            let message = "a series has no label pod: leave out sum, or write sum by (pod)".to_owned();
            return Err(PrometheusError(message));
        }
        let is_first = std::mem::take(&mut self.is_first);
        let sums = |growth: &mut CounterIncreases, (bad, total): (Vec<Sample>, Vec<Sample>)| {
            AnswerSums::of(growth.increase(&bad, &total).into_values())
        };
        let (new, old) = (sums(&mut self.new, new), sums(&mut self.old, old));
        Ok((!is_first).then_some(Measured::Answers(PodAnswers { new, old })))
    }

    async fn ask(
        &self,
        query: &QueryTemplate,
        pods: &str,
        at: Option<Timestamp>,
    ) -> Result<Vec<Sample>, PrometheusError> {
        let MeasuredRollout { workload, commit, revision, .. } = &*self.rollout;
        let source = &self.context.config.name;
        let (name, namespace) = (&workload.name, workload.namespace.as_deref().unwrap_or_default());
        let commit = commit.as_str();
        let query = query.query(&QueryValues { pods, source, namespace, name, commit, revision: *revision });
        self.context.prometheus.query(&self.config, query, at).await
    }
}
