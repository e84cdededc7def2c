//! Every file of `tests/cases/kubelet/lives` is a pod, its events, and the trace of its life.
//! `MINICLUSTER_WRITE_CASES=1` writes the traces again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use serde::Deserialize;
use serde_json::json;

use super::needs::NeedKind;
use super::status_promises::check;
use super::{Found, Home, PodEffect, PodEnvironment, Rejection, SimulatedPod};
use crate::Random;
use crate::kubelet::fate::{FateRules, Script, duration};
use crate::kubelet::pod::{FateAnnotation, Pod, PodDeletion, SeenPod};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The subject of the case; for people.
    #[expect(dead_code, reason = "for people")]
    about: String,
    pod: Pod,
    /// The pod's status when the kubelet first sees it, as after a restart.
    #[serde(default)]
    status: PodStatus,
    /// `configmap/name` or `secret/name`, and their keys.
    #[serde(default)]
    objects: BTreeMap<String, BTreeSet<String>>,
    #[serde(default)]
    script: Option<serde_json::Value>,
    #[serde(default = "usual_speed")]
    speed: f64,
    /// The reason for which the node does not take it.
    #[serde(default)]
    refused: Option<(String, String)>,
    #[serde(default)]
    pub then: Vec<Act>,
    until: String,
    #[serde(default)]
    trace: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    pub at: String,
    /// Deleted, with so many seconds of grace.
    #[serde(default)]
    pub delete: Option<i64>,
    #[serde(default)]
    fate: Option<String>,
    #[serde(default)]
    image: BTreeMap<String, String>,
    #[serde(default)]
    conditions: BTreeMap<String, String>,
    #[serde(default)]
    objects: BTreeMap<String, BTreeSet<String>>,
}

fn usual_speed() -> f64 {
    1.0
}

#[test]
fn lives_go_as_their_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/kubelet/lives");
    let mut failed = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let case: Case = serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let expected = case.trace.clone();
        let trace = Play::new(case).run();
        count += 1;
        if std::env::var_os("MINICLUSTER_WRITE_CASES").is_some() {
            let head = text.split("trace: |\n").next().unwrap();
            let lines: String = trace.lines().map(|line| format!("  {line}\n")).collect();
            fs::write(&path, format!("{head}trace: |\n{lines}")).unwrap();
        } else if trace != expected {
            let name = path.file_name().unwrap().display().to_string();
            let different = trace.lines().zip(expected.lines()).find(|(is, was)| is != was);
            failed.push(format!("{name}: first difference {different:?}; the trace is now\n{trace}"));
        }
    }
    assert!(count > 0 && failed.is_empty(), "{}", failed.join("\n"));
}

/// A case that is played.
pub struct Play {
    case: Case,
    pod: SeenPod,
    now: Timestamp,
    rules: FateRules,
    random: Random,
    images: BTreeSet<String>,
    status: PodStatus,
    trace: String,
}

impl Play {
    /// Returns a case that has not begun.
    pub fn new(case: Case) -> Play {
        let mut pod = case.pod.clone();
        pod.metadata.uid.get_or_insert_with(|| "uid".to_owned());
        pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        pod.metadata.generation.get_or_insert(1);
        pod.status = Some(case.status.clone());
        let (pod, _) = SeenPod::read(pod).unwrap();
        let known = case.status.clone();
        let script = case.script.as_ref().map(|script| Script::parse(&script.to_string()).unwrap());
        Play {
            case,
            pod,
            now: Timestamp::UNIX_EPOCH,
            rules: FateRules::new(script),
            random: Random::new(1),
            images: BTreeSet::new(),
            status: known,
            trace: String::new(),
        }
    }

    /// Plays it to its end and answers the trace.
    pub fn run(mut self) -> String {
        let home = Home { node: "127.0.0.2".parse().unwrap(), pod: "10.244.0.2".parse().unwrap() };
        let refused = self.case.refused.clone().map(|(reason, message)| Rejection { reason, message });
        let pod = Arc::new(self.pod.clone());
        let known = self.case.status.clone();
        let (mut life, effects) = self.with_world(|environment| match known.start_time {
            Some(_) => SimulatedPod::take_up(pod, &known, home, environment),
            None => SimulatedPod::begin(pod, &known, home, refused, environment),
        });
        self.tell(effects);
        let until = moment(&self.case.until);
        let mut acts = std::mem::take(&mut self.case.then).into_iter().peekable();
        loop {
            while let Some(act) = acts.next_if(|act| moment(&act.at) <= self.now) {
                self.act(act, &mut life);
            }
            self.step(&mut life);
            let (wake, _) = self.with_world(|environment| life.wake(environment));
            let next = [wake, acts.peek().map(|act| moment(&act.at))].into_iter().flatten().min();
            match next {
                Some(next) if next <= until => self.now = next,
                _ => break,
            }
        }
        self.trace
    }

    fn step(&mut self, life: &mut SimulatedPod) {
        loop {
            let ((), effects) = self.with_world(|environment| life.step(environment));
            let asks = effects.contains(&PodEffect::LookUp);
            self.tell(effects);
            if !asks {
                break;
            }
            let found = life.needs().objects().into_iter().map(|(kind, name)| {
                let key = if kind == NeedKind::Secret { format!("secret/{name}") } else { format!("configmap/{name}") };
                let keys = self.case.objects.get(&key).cloned();
                ((kind, name), keys)
            });
            let found: Found = found.collect();
            life.found(&found, self.now);
        }
        let status = life.status();
        check(&self.status, &status, self.now);
        self.compare(&status);
        if life.may_be_deleted() {
            self.say("the kubelet removes it");
            self.pod.deletion = None;
            life.see(Arc::new(self.pod.clone()), &mut PodEnvironment { effects: Vec::new(), ..self.environment() });
        }
        self.status = status;
    }

    fn act(&mut self, act: Act, life: &mut SimulatedPod) {
        if let Some(grace) = act.delete {
            let at = self.now + SignedDuration::from_secs(grace);
            self.pod.deletion = Some(PodDeletion { at, grace });
            self.pod.generation = self.pod.generation.map(|generation| generation + 1);
        }
        if let Some(fate) = act.fate {
            let annotation = "kubelet.example.com/fate".to_owned();
            self.pod.fate = Some(Box::new(FateAnnotation { annotation, text: fate }));
        }
        if !act.image.is_empty() {
            for container in self.pod.spec.containers.iter_mut() {
                container.image = act.image.get(&container.name).cloned().or(container.image.take());
            }
            self.pod.generation = self.pod.generation.map(|generation| generation + 1);
        }
        for (kind, status) in act.conditions {
            self.pod.conditions.retain(|condition| condition.type_ != kind);
            self.pod.conditions.push(PodCondition { type_: kind, status, ..PodCondition::default() });
        }
        self.case.objects.extend(act.objects);
        let pod = Arc::new(self.pod.clone());
        let ((), effects) = self.with_world(|environment| life.see(pod, environment));
        self.tell(effects);
    }

    fn environment(&mut self) -> PodEnvironment<'_> {
        PodEnvironment {
            now: self.now,
            speed: self.case.speed,
            rules: &mut self.rules,
            random: &self.random,
            images: &mut self.images,
            effects: Vec::new(),
        }
    }

    fn with_world<T>(&mut self, act: impl FnOnce(&mut PodEnvironment<'_>) -> T) -> (T, Vec<PodEffect>) {
        let mut environment = self.environment();
        let result = act(&mut environment);
        (result, environment.effects)
    }

    fn say(&mut self, text: &str) {
        let since = self.now.duration_since(Timestamp::UNIX_EPOCH);
        let time = format!("{}s", since.as_secs_f64());
        writeln!(self.trace, "{time:<6} {text}").unwrap();
    }

    fn tell(&mut self, effects: Vec<PodEffect>) {
        for effect in effects {
            match effect {
                PodEffect::Event(told) => {
                    let about = told.field.map(|field| format!("{field}: ")).unwrap_or_default();
                    let times = if told.count > 1 { format!(" (x{})", told.count) } else { String::new() };
                    self.say(&format!("  {} {} {about}{}{times}", told.event_type.as_str(), told.reason, told.message));
                }
                PodEffect::Log { container, text } => self.say(&format!("  {container}| {text}")),
                PodEffect::LogBegins { .. } | PodEffect::LogEnds { .. } | PodEffect::LookUp => {}
            }
        }
    }

    /// Prints the changes of the status: one line as kubectl shows it, one for each condition that flipped.
    fn compare(&mut self, status: &PodStatus) {
        let line = summary(status);
        if line != summary(&self.status) {
            self.say(&line);
        }
        for condition in status.conditions.iter().flatten() {
            let before = self.status.conditions.iter().flatten().find(|before| before.type_ == condition.type_);
            let said = |condition: &PodCondition| (condition.status.clone(), condition.reason.clone());
            if before.map(said) != Some(said(condition)) {
                let reason = condition.reason.as_deref().map(|reason| format!(" {reason}")).unwrap_or_default();
                let message = condition.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                let since = condition.last_transition_time.as_ref().unwrap().0.as_second();
                let line = format!("  {}={}{reason}{message} since {since}s", condition.type_, condition.status);
                self.say(&line);
            }
        }
    }
}

/// Returns the moment so long after the beginning.
pub fn moment(text: &str) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::try_from(duration(text).unwrap()).unwrap()
}

/// Phase, ready containers, restarts, and each container's state.
fn summary(status: &PodStatus) -> String {
    let init = status.init_container_statuses.iter().flatten();
    let all: Vec<&ContainerStatus> = init.chain(status.container_statuses.iter().flatten()).collect();
    let ready = all.iter().filter(|container| container.ready).count();
    let states: Vec<String> = all.iter().map(|container| state(container)).collect();
    let reason = status.reason.as_deref().map(|reason| format!(" {reason}")).unwrap_or_default();
    let ip = if status.pod_ip.is_some() { "" } else { " without address" };
    format!("{}{reason} {ready}/{}{ip} {}", status.phase.as_deref().unwrap_or_default(), all.len(), states.join(", "))
}

fn state(container: &ContainerStatus) -> String {
    let mut state = serde_json::to_value(&container.state).unwrap();
    let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    if let Some(waiting) = state["waiting"].as_object_mut() {
        waiting.remove("message");
    }
    if let Some(terminated) = state["terminated"].as_object_mut() {
        for key in ["startedAt", "finishedAt", "containerID"] {
            terminated.remove(key);
        }
    }
    let text = match state {
        state if state["running"].is_object() => "running".to_owned(),
        state if state["waiting"].is_object() => state["waiting"]["reason"].as_str().unwrap().to_owned(),
        state => {
            let terminated = &state["terminated"];
            let message = terminated["message"].as_str().map(|text| format!(" {text:?}")).unwrap_or_default();
            format!("{}({}){message}", terminated["reason"].as_str().unwrap(), terminated["exitCode"])
        }
    };
    let started = if container.started == Some(true) || !text.starts_with("running") { "" } else { " not started" };
    let ready = if container.ready { " ready" } else { "" };
    let restarts = if container.restart_count > 0 { format!(" x{}", container.restart_count) } else { String::new() };
    let last =
        last.map(|last| format!(" after {}({})", last.reason.as_deref().unwrap(), last.exit_code)).unwrap_or_default();
    format!("{} {text}{started}{ready}{restarts}{last}", container.name)
}

#[test]
fn a_status_is_what_a_real_kubelet_writes() {
    let case: Case = serde_json::from_value(json!({
        "about": "", "until": "2s",
        "pod": {"metadata": {"name": "web"}, "spec": {"containers": [
            {"name": "app", "image": "nginx:1.27", "resources": {"requests": {"cpu": "1"}}}]}},
    }))
    .unwrap();
    let mut play = Play::new(case);
    let home = Home { node: "127.0.0.2".parse().unwrap(), pod: "10.244.0.2".parse().unwrap() };
    let pod = Arc::new(play.pod.clone());
    let (mut life, _) =
        play.with_world(|environment| SimulatedPod::begin(pod, &PodStatus::default(), home, None, environment));
    play.step(&mut life);
    play.now = moment("1s");
    play.step(&mut life);
    let mut status = serde_json::to_value(life.status()).unwrap();
    let id = status["containerStatuses"][0]["containerID"].take();
    assert_eq!(id.as_str().unwrap().len(), "containerd://".len() + 64);
    let condition = |kind: &str, second: u32| {
        json!({"type": kind, "status": "True", "observedGeneration": 1,
               "lastTransitionTime": format!("1970-01-01T00:00:0{second}Z")})
    };
    let expected = json!({
        "conditions": [
            condition("PodReadyToStartContainers", 1),
            condition("Initialized", 0),
            condition("Ready", 1),
            condition("ContainersReady", 1),
            condition("PodScheduled", 0),
        ],
        "containerStatuses": [{
            "name": "app", "image": "docker.io/library/nginx:1.27",
            "imageID": "docker.io/library/nginx@sha256:6965a10c15290ad0b29ca7fd1866de1850408b3cb15fb11a3bbbbc2fddb158bd",
            "containerID": null, "ready": true, "started": true, "restartCount": 0, "lastState": {},
            "state": {"running": {"startedAt": "1970-01-01T00:00:01Z"}},
            "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}},
        }],
        "hostIP": "127.0.0.2", "hostIPs": [{"ip": "127.0.0.2"}],
        "podIP": "10.244.0.2", "podIPs": [{"ip": "10.244.0.2"}],
        "phase": "Running", "startTime": "1970-01-01T00:00:00Z", "observedGeneration": 1,
    });
    assert_eq!(status, expected, "{status:#}");
}
