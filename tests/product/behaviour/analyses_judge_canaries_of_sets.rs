//! Analyses within the canaries of StatefulSets and DaemonSets: a value with bounds, a comparison with the old pods, a Job.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay_core::rollout::analysis::{AnalysisVerdict, Measurement, Sample};
use belay_core::rollout::canary::{CanaryAnswer, CanaryMark};
use belay_core::rollout::{Outcome, ReasonCode, Record, marks};
use serde_json::Value;

use crate::jobs_run_once::job;
use crate::support::canary::{PodSampling, ask_at, canary_steps, of_kind, on_four_nodes, until_step};
use crate::support::daemon::World;
use crate::support::prometheus::{ERRORS, FakePrometheus, LATENCY, analyses, measured, sample};
use crate::support::workloads::{KINDS, Kind};

const SETS: [Kind; 2] = [KINDS[1], KINDS[2]];
const FORMS: [AnalysisForm; 3] = [AnalysisForm::Value, AnalysisForm::Comparison, AnalysisForm::Job];
const STEPS: &str = "1 3m, 2 3m";
const SMOKE: &str = "[[analysis]]\nname = 'smoke'\njob = 'smoke/job.yaml'\n";
const JOBS: &str = "apis/batch/v1/namespaces/default/jobs";

/// A form of analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnalysisForm {
    Value,
    Comparison,
    Job,
}

impl AnalysisForm {
    fn config(self) -> &'static str {
        match self {
            AnalysisForm::Value => LATENCY,
            AnalysisForm::Comparison => ERRORS,
            AnalysisForm::Job => SMOKE,
        }
    }
}

/// The second version, as its analysis sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecondVersion {
    Good,
    Bad,
    Hidden,
}

impl SecondVersion {
    fn job(self) -> &'static str {
        match self {
            SecondVersion::Good => "exit-after=90s,code=0",
            SecondVersion::Bad => "exit-after=30s,code=3",
            SecondVersion::Hidden => "image-pull-error",
        }
    }

    /// Returns what Prometheus answers. The patterns of the names of new pods are kept in `asked`.
    fn answers(self, query: &str, seconds: f64, asked: &Mutex<Vec<String>>) -> Vec<Sample> {
        let (what, pattern) = query.split_once(' ').unwrap_or((query, ""));
        let is_old = pattern.contains('[');
        if !is_old && !pattern.is_empty() {
            asked.lock().unwrap().push(pattern.to_owned());
        }
        if self == SecondVersion::Hidden {
            return Vec::new();
        }
        if pattern.is_empty() {
            return vec![sample("", if self == SecondVersion::Bad { 0.75 } else { 0.1 })];
        }
        let count = |rate: f64| {
            let total = (1_000.0 + seconds) * 10.0;
            if what == "bad" { (total * rate).floor() } else { total }
        };
        // The expression of the old pods' names matches the new ones, too.
        let new = asked.lock().unwrap().last().cloned().unwrap_or_default();
        let rate = if self == SecondVersion::Bad { 0.5 } else { 0.02 };
        let mut samples: Vec<Sample> = new.split('|').map(|pod| sample(pod, count(rate))).collect();
        if is_old {
            samples.extend((0..3).map(|pod| sample(&format!("old-{pod}"), count(0.02))));
        }
        samples
    }
}

/// A set with the first version live, and an analysis that sees the second one.
struct SetRollout {
    world: World,
    kind: Kind,
    sampling: PodSampling,
    /// The update strategy of before.
    strategy: Value,
    /// The patterns of the names of new pods that Prometheus was asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl SetRollout {
    async fn of(kind: Kind, config: &str, second: SecondVersion) -> SetRollout {
        let (mut world, _) = on_four_nodes().await;
        world.config.known_analyses = analyses(config);
        world.config.analysis = world.config.known_analyses.iter().map(|known| known.name.clone()).collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        world.prometheus = Some(FakePrometheus::of(&world, move |query, at| Ok(second.answers(query, at, &kept))));
        if config.contains("job = ") {
            world.repository.write("smoke/job.yaml", job("smoke", "smoke:1", second.job(), "  backoffLimit: 0\n"));
        }
        let first = world.push("web.yaml", &of_kind(kind, STEPS, "web:1", "ready"), "First version");
        world.start();
        world.through(&first).await;
        assert_eq!(world.record(&first, &kind.object()).outcome, Outcome::Complete);
        let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
        let strategy = world.get(&kind.path()).await.unwrap()["spec"]["updateStrategy"].clone();
        SetRollout { world, kind, sampling, strategy, asked }
    }

    fn push(&mut self, steps: &str) -> String {
        self.world.push("web.yaml", &of_kind(self.kind, steps, "web:2", "ready"), "Second version")
    }

    fn record(&self, commit: &str) -> Record {
        self.world.record(commit, &self.kind.object())
    }

    fn measured(&self, commit: &str) -> Vec<Measurement> {
        measured(&self.world, &self.record(commit))
    }

    /// Returns the names of the pods with an image.
    async fn pods(&self, image: &str) -> BTreeSet<String> {
        let pods = self.world.list("api/v1/namespaces/default/pods").await;
        let has_it = |pod: &&Value| pod["spec"]["containers"][0]["image"] == image;
        pods.iter().filter(has_it).map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Asserts that all pods have an image, and that nothing of the canary is left.
    async fn assert_all_have(&self, image: &str) {
        assert_eq!(self.pods(image).await.len(), 4, "{:?}", self.kind);
        let live = self.world.get(&self.kind.path()).await.unwrap();
        assert_eq!(live["spec"]["updateStrategy"], self.strategy, "{:?}", self.kind);
        assert_eq!(CanaryMark::on(&live), None);
        assert_eq!(marks::annotation(&live, marks::CANARY_STEP), None);
        assert_eq!(marks::annotation(&live, marks::CANARY_REQUEST), None);
    }
}

fn seconds(record: &Record) -> i64 {
    record.ended.unwrap().duration_since(record.started).as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_version_that_passes_goes_through_all_steps() {
    for (kind, form) in SETS.into_iter().flat_map(|kind| FORMS.map(|form| (kind, form))) {
        let case = format!("{form:?} of a {}", kind.name);
        let mut stage = SetRollout::of(kind, form.config(), SecondVersion::Good).await;
        let second = stage.push(STEPS);
        stage.world.through(&second).await;
        let (record, looks) = (stage.record(&second), stage.measured(&second));
        assert_eq!(record.outcome, Outcome::Complete, "{case}: {record:#?} {looks:#?}");
        assert_eq!(canary_steps(&stage.world, &second, &kind.object()).len(), 3, "{case}: two steps, and their end");
        assert!((360..420).contains(&seconds(&record)), "{case}: {}", seconds(&record));
        assert!(looks.iter().all(|look| look.verdict != AnalysisVerdict::Fail), "{case}: {looks:#?}");
        let passed = |step| {
            let is_pass = |look: &&Measurement| look.step == Some(step) && look.verdict == AnalysisVerdict::Pass;
            looks.iter().filter(is_pass).count()
        };
        match form {
            AnalysisForm::Value => assert!(passed(1) >= 10 && passed(2) >= 10, "{case}: {looks:#?}"),
            AnalysisForm::Comparison => {
                assert!(passed(1) >= 8 && passed(2) >= 8, "{case}: {looks:#?}");
                // A pod that is new in a step is asked for by its name, and it is one of the second version.
                let asked: BTreeSet<String> = stage.asked.lock().unwrap().iter().cloned().collect();
                let mut counts: Vec<usize> = asked.iter().map(|names| names.split('|').count()).collect();
                counts.sort_unstable();
                assert_eq!(counts, [1, 2], "{case}: {asked:?}");
                let new = stage.pods("web:2").await;
                assert!(
                    asked.iter().flat_map(|names| names.split('|')).all(|name| new.contains(name)),
                    "{asked:?} {new:?}"
                );
            }
            AnalysisForm::Job => {
                assert_eq!((looks.len(), passed(1)), (1, 1), "{case}: {looks:#?}");
                assert_eq!(stage.world.list(JOBS).await.len(), 1, "{case}");
            }
        }
        stage.assert_all_have("web:2").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_fails_goes_back_after_the_pods_of_its_step() {
    for (kind, form) in SETS.into_iter().flat_map(|kind| FORMS.map(|form| (kind, form))) {
        let case = format!("{form:?} of a {}", kind.name);
        let mut stage = SetRollout::of(kind, form.config(), SecondVersion::Bad).await;
        let second = stage.push(STEPS);
        stage.world.through(&second).await;
        let record = stage.record(&second);
        let reason = record.reason.clone().unwrap();
        assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &ReasonCode::AnalysisFailed), "{case}");
        assert_eq!((stage.sampling.most_new(), stage.sampling.fewest_old()), (1, 3), "{case}");
        assert!(seconds(&record) < 180, "{case}: {}", seconds(&record));
        stage.assert_all_have("web:1").await;
        let live = stage.world.get(&kind.path()).await.unwrap();
        assert!(marks::annotation(&live, marks::HOLD).is_some(), "{case}: it is held");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_within_a_step_forgets_no_look_and_no_job() {
    for (kind, form) in SETS.into_iter().flat_map(|kind| FORMS.map(|form| (kind, form))) {
        let case = format!("{form:?} of a {}", kind.name);
        let mut stage = SetRollout::of(kind, form.config(), SecondVersion::Good).await;
        let second = stage.push(STEPS);
        until_step(&mut stage.world, &second, "canary step 1 of 2: 1 of 1 new pods are ready; watched until").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (looks, jobs) = (stage.measured(&second), stage.world.list(JOBS).await);
        stage.world.kill().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        stage.world.start();
        stage.world.through(&second).await;
        let record = stage.record(&second);
        assert_eq!(record.outcome, Outcome::Complete, "{case}: {record:#?}");
        assert!((360..420).contains(&seconds(&record)), "{case}: the time of the step went on: {}", seconds(&record));
        assert_eq!(stage.measured(&second)[..looks.len()], looks, "{case}");
        let uids = |jobs: &[Value]| jobs.iter().map(|job| job["metadata"]["uid"].clone()).collect::<Vec<_>>();
        assert_eq!(uids(&stage.world.list(JOBS).await), uids(&jobs), "{case}");
        assert_eq!(jobs.len(), usize::from(form == AnalysisForm::Job), "{case}");
        stage.assert_all_have("web:2").await;
    }
}

#[tokio::test(start_paused = true)]
async fn looks_that_failed_before_a_kill_count() {
    for kind in SETS {
        let mut stage = SetRollout::of(kind, &format!("{LATENCY}failures = 6\n"), SecondVersion::Bad).await;
        let second = stage.push(STEPS);
        until_step(&mut stage.world, &second, "1 of 1 new pods are ready; watched until").await;
        tokio::time::sleep(Duration::from_secs(40)).await;
        let before = stage.measured(&second).len();
        assert!((2..=3).contains(&before), "{before}");
        stage.world.kill().await;
        stage.world.start();
        stage.world.through(&second).await;
        let record = stage.record(&second);
        assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
        assert_eq!(stage.measured(&second).len(), 6);
        assert_eq!((stage.sampling.most_new(), stage.sampling.fewest_old()), (1, 3));
        stage.assert_all_have("web:1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_without_a_verdict_waits_for_a_person() {
    for (kind, form) in SETS.into_iter().flat_map(|kind| FORMS.map(|form| (kind, form))) {
        for answer in [CanaryAnswer::Promote, CanaryAnswer::Abort] {
            let case = format!("{form:?} of a {}, {answer:?}", kind.name);
            let mut stage = SetRollout::of(kind, form.config(), SecondVersion::Hidden).await;
            let second = stage.push("1 2m");
            until_step(&mut stage.world, &second, "new pods are ready; no verdict, analysis \"").await;
            // Longer than outage_timeout.
            tokio::time::sleep(Duration::from_mins(20)).await;
            until_step(&mut stage.world, &second, "waits for belay promote or belay abort").await;
            assert_eq!((stage.sampling.most_new(), stage.sampling.fewest_old()), (1, 3), "{case}");
            let looks = stage.measured(&second);
            assert!(looks.iter().all(|look| look.verdict == AnalysisVerdict::None), "{case}: {looks:#?}");
            ask_at(&stage.world, &kind.path(), answer).await;
            stage.world.through(&second).await;
            let (outcome, image) = match answer {
                CanaryAnswer::Promote => (Outcome::Complete, "web:2"),
                CanaryAnswer::Abort => (Outcome::RolledBack, "web:1"),
            };
            assert_eq!(stage.record(&second).outcome, outcome, "{case}");
            stage.assert_all_have(image).await;
            assert!(stage.world.list(JOBS).await.is_empty(), "{case}: its Job does not outlive the rollout");
        }
    }
}
