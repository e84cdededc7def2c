//! Analyses on the real control plane: the pods of a workload are known by the names that its controllers give them, and a version that
//! Prometheus shows to be bad goes back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use belay::config::{AnalysisConfig, Config};
use belay::prometheus::{Answer, InstantQuery};
use belay_core::rollout::analysis::Sample;
use belay_core::rollout::{Outcome, ReasonCode};
use jiff::Timestamp;
use regex::Regex;

use super::main_job::real_world;
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{World, image, path_of};
use crate::support::workloads::KINDS;

/// Each kind with the name of its workload here.
const NAMES: [&str; 4] = ["dep", "sts", "ds", "rc"];

const ANALYSES: &str = "[[source]]\nrepository = '/srv'\n\
    [[analysis]]\nname = 'value'\nprometheus = 'http://p'\nquery = 'value {{name}} {{pods}} {{commit}}'\nmax = 0.5\nfailures = 1\n\
    interval = '5s'\n\
    [[analysis]]\nname = 'rates'\nprometheus = 'http://p'\nbad = 'bad {{name}} {{pods}}'\ntotal = 'all {{name}} {{pods}}'\n\
    interval = '5s'\non_none = 'pass'\n";

/// A Prometheus that remembers its queries. The value is out of bounds for one commit.
#[derive(Default)]
struct RecordingPrometheus {
    queries: Mutex<Vec<String>>,
    bad: Mutex<Option<String>>,
}

impl InstantQuery for RecordingPrometheus {
    fn query<'a>(&'a self, _: &'a AnalysisConfig, query: String, _: Option<Timestamp>) -> Answer<'a> {
        let is_bad = self.bad.lock().unwrap().as_ref().is_some_and(|bad| query.ends_with(bad));
        self.queries.lock().unwrap().push(query);
        let sample = Sample { labels: String::new(), pod: "a".to_owned(), value: if is_bad { 1.0 } else { 0.0 } };
        Box::pin(async move { Ok(vec![sample]) })
    }
}

impl RecordingPrometheus {
    /// Returns the patterns of pods that were asked for, by a workload's name.
    fn patterns(&self, begins: &str, name: &str) -> Vec<Regex> {
        let queries = self.queries.lock().unwrap();
        let of = |query: &String| {
            let mut words = query.split(' ').map(str::to_owned);
            (words.next()? == begins && words.next()? == name).then(|| words.next()).flatten()
        };
        let mut patterns: Vec<String> = queries.iter().filter_map(of).collect();
        patterns.sort();
        patterns.dedup();
        patterns.into_iter().map(|pattern| Regex::new(&format!("^(?:{pattern})$")).unwrap()).collect()
    }
}

/// Pushes all workloads at a version.
fn push(world: &mut World, version: u32, names: &[&str]) -> String {
    for (kind, name) in KINDS.iter().zip(NAMES).filter(|(_, name)| names.contains(name)) {
        let manifest = kind.manifest(&format!("web:{version}"), "ready").replace("web", name);
        world.repository.write(format!("{name}.yaml"), manifest);
    }
    let commit = world.repository.commit(&format!("Version {version}"));
    world.repository.push();
    commit
}

/// Returns the names of the pods of each workload.
fn pods(plane: &ControlPlane) -> BTreeMap<&'static str, Vec<String>> {
    let of = |name: &'static str| {
        let listed =
            plane.kubectl().args(["get", "pods", "-l", &format!("app={name}"), "-o", "name"]).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        (name, text.lines().map(|line| line.trim_start_matches("pod/").to_owned()).collect())
    };
    NAMES.into_iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_each_kind_are_known_by_their_names() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    let prometheus = Arc::new(RecordingPrometheus::default());
    world.prometheus = Some(Arc::clone(&prometheus) as Arc<dyn InstantQuery>);
    world.config.bake = "12s".parse().unwrap();
    world.config.known_analyses = Config::parse(ANALYSES, "belay.toml").unwrap().analysis;
    world.config.analysis = vec!["value".to_owned(), "rates".to_owned()];
    world.start();
    let first = push(&mut world, 1, &NAMES);
    world.through(&first).await;
    let old = pods(&plane);
    prometheus.queries.lock().unwrap().clear();
    let second = push(&mut world, 2, &NAMES);
    world.through(&second).await;
    let mut new = pods(&plane);
    // Old ones may be going still.
    new.iter_mut()
        .filter(|(name, _)| **name != "sts")
        .for_each(|(name, pods)| pods.retain(|pod| !old[name].contains(pod)));
    for (kind, name) in KINDS.iter().zip(NAMES) {
        let record = world.record(&second, &format!("{} default/{name}", kind.name));
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
        let asked = prometheus.patterns("value", name);
        assert_eq!(asked.len(), 1, "{name}: {asked:?}");
        assert!(
            !new[name].is_empty() && new[name].iter().all(|pod| asked[0].is_match(pod)),
            "{asked:?}: {:?}",
            new[name]
        );
        // Only these kinds say in a pod's name which template it has.
        if ["dep", "rc"].contains(&name) {
            assert!(!old[name].iter().any(|pod| asked[0].is_match(pod)), "{asked:?}: {:?}", old[name]);
        }
        let compared = prometheus.patterns("all", name);
        let all_old = compared.iter().any(|pattern| old[name].iter().all(|pod| pattern.is_match(pod)));
        assert!(!old[name].is_empty() && all_old, "{compared:?}: {:?}", old[name]);
        let others =
            NAMES.iter().filter(|other| **other != name).flat_map(|other| old[other].iter().chain(&new[other]));
        others.for_each(|pod| assert!(!compared.iter().any(|pattern| pattern.is_match(pod)), "{compared:?}: {pod}"));
    }

    let third = push(&mut world, 3, &["dep"]);
    *prometheus.bad.lock().unwrap() = Some(third.clone());
    world.through(&third).await;
    let record = world.record(&third, "Deployment default/dep");
    assert_eq!((record.outcome, record.reason.unwrap().code), (Outcome::RolledBack, ReasonCode::AnalysisFailed));
    assert_eq!(image(&world.get(&path_of("dep")).await.unwrap()), "dep:2");
    world.stop().await;
    nodes.stop().await;
}

/// Returns the file of a Job whose pods have this fate.
fn smoke(fate: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: smoke}}\nspec:\n  backoffLimit: 0\n  template:\n    metadata:\n      annotations: \
         {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      restartPolicy: Never\n      containers: [{{name: app, image: 'smoke:1'}}]\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_repository_decides() {
    const JOB: &str = "[[source]]\nrepository = '/srv'\n\
        [[analysis]]\nname = 'smoke'\njob = 'smoke/job.yaml'\ninterval = '5s'\non_none = 'pass'\n";
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.config.bake = "8s".parse().unwrap();
    world.config.known_analyses = Config::parse(JOB, "belay.toml").unwrap().analysis;
    world.start();
    let first = push(&mut world, 1, &["dep"]);
    world.through(&first).await;
    let jobs = || {
        let listed = plane.kubectl().args(["get", "jobs", "-o", "json"]).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed["items"].as_array().unwrap().clone()
    };
    world.stop().await;
    world.config.analysis = vec!["smoke".to_owned()];
    world.start();
    // The Job of the third version fails, the one of the fourth can't start.
    for (version, fate, outcome, job_condition, live) in [
        (2, "exit-after=2s,code=0", Outcome::Complete, Some("Complete"), "dep:2"),
        (3, "exit-after=2s,code=3", Outcome::RolledBack, Some("Failed"), "dep:2"),
        (4, "image-pull-error", Outcome::Complete, None, "dep:4"),
    ] {
        world.repository.write("smoke/job.yaml", smoke(fate));
        let commit = push(&mut world, version, &["dep"]);
        world.through(&commit).await;
        let record = world.record(&commit, "Deployment default/dep");
        assert_eq!(record.outcome, outcome, "{version}: {record:#?}");
        assert_eq!(image(&world.get(&path_of("dep")).await.unwrap()), live, "{version}");
        let made = jobs().into_iter().find(|job| job["metadata"]["annotations"]["belay.dev/commit"] == *commit);
        let has = |kind: &str| {
            let conditions =
                made.as_ref().and_then(|job| job["status"]["conditions"].as_array()).cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
        };
        match job_condition {
            Some(kind) => assert!(has(kind), "{version}: {made:#?}"),
            None => assert!(
                made.as_ref().is_none_or(|job| job["metadata"]["deletionTimestamp"].is_string()),
                "it does not outlive the rollout: {made:#?}"
            ),
        }
    }
    world.stop().await;
    nodes.stop().await;
}
