//! The steps of a canary that is under way, and the commands that a person has meanwhile.

use jiff::Timestamp;

use super::next_step::{NextStep, command};
use crate::daemon::{CanaryPlan, CanaryPlanStep, SourceStatus, WatchedUntil};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Counters, Outcome};

/// A canary under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CanaryView {
    pub steps: Vec<StepLine>,
    /// `1 of 1 new pod, beside 4 old ones`
    pub pods: String,
    /// The end of the step; `None` while its new pods are not ready.
    pub watched: Option<WatchedUntil>,
    /// True for the last step: all pods follow.
    pub is_last: bool,
    pub commands: Vec<NextStep>,
}

/// A step, and whether it is the present one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepLine {
    pub text: String,
    pub is_present: bool,
}

impl CanaryView {
    /// Returns the canary of a workload; `None` if none is under way.
    pub(super) fn of(source: &SourceStatus, key: &ObjectKey) -> Option<CanaryView> {
        let (plan, way, live) = (source.canaries.get(key)?, source.under_way.get(key)?, source.workloads.get(key)?);
        // Its way back, and one that belay leaves alone, hear of no command.
        let goes_on = way.outcome != Outcome::RollingBack && live.suspended.is_none();
        goes_on.then(|| CanaryView {
            steps: lines(plan),
            pods: pods(plan.present(), live.counters),
            watched: way.watched,
            is_last: plan.present >= plan.steps.len(),
            // A request names the commit.
            commands: if live.commit.is_some() { commands(key, plan) } else { Vec::new() },
        })
    }

    /// Returns when the next step follows, unless something fails.
    pub(super) fn next(&self, now: &Timestamp) -> Option<&Timestamp> {
        match &self.watched {
            Some(WatchedUntil::Time(until)) => Some(until).filter(|until| *until > now),
            Some(WatchedUntil::Person) | None => None,
        }
    }

    pub(super) fn waits_for_person(&self) -> bool {
        self.watched == Some(WatchedUntil::Person)
    }
}

fn lines(plan: &CanaryPlan) -> Vec<StepLine> {
    let step = |(number, step): (usize, &CanaryPlanStep)| {
        let watched = match step.time {
            Some(time) => format!("watched for {time}"),
            None => "until a person promotes it".to_owned(),
        };
        StepLine { text: format!("{}, {watched}", new_pods(step.pods)), is_present: number + 1 == plan.present }
    };
    let last = StepLine { text: "all pods".to_owned(), is_present: false };
    plan.steps.iter().enumerate().map(step).chain([last]).collect()
}

fn new_pods(count: i64) -> String {
    if count == 1 { "1 new pod".to_owned() } else { format!("{count} new pods") }
}

fn pods(step: Option<CanaryPlanStep>, counters: Counters) -> String {
    let old = counters.total.saturating_sub(counters.updated).max(0);
    match step {
        Some(step) => format!("{} of {}, beside {old} old", counters.updated, new_pods(step.pods)),
        None => format!("{}, beside {old} old", new_pods(counters.updated)),
    }
}

fn commands(key: &ObjectKey, plan: &CanaryPlan) -> Vec<NextStep> {
    let promote = if plan.present < plan.steps.len() {
        "Go on with the next step as soon as the new pods are ready:"
    } else {
        "Replace all pods as soon as the new ones are ready:"
    };
    vec![
        NextStep { said: promote, command: command("promote", key) },
        NextStep { said: "Go back now, and hold the manifest:", command: command("abort", key) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::UnderWay;
    use belay_core::rollout::LiveWorkload;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    fn key() -> ObjectKey {
        let namespace = Some("shop".to_owned());
        ObjectKey { group: "apps".to_owned(), kind: "Deployment".to_owned(), namespace, name: "web".to_owned() }
    }

    fn source(present: usize, outcome: Outcome, watched: Option<WatchedUntil>) -> SourceStatus {
        let steps = vec![
            CanaryPlanStep { pods: 1, time: Some("10m".parse().unwrap()) },
            CanaryPlanStep { pods: 2, time: None },
        ];
        let commit = COMMIT.parse().unwrap();
        let counters = Counters { desired: 4, total: 5, updated: 1, ready: 5, available: 4 };
        let live = LiveWorkload { commit: Some(commit), counters, ..LiveWorkload::default() };
        let way = UnderWay {
            commit: COMMIT.parse().unwrap(),
            outcome,
            counters: counters.into(),
            message: String::new(),
            until: None,
            watched,
            in_the_way: None,
            wrong: None,
        };
        SourceStatus {
            canaries: [(key(), CanaryPlan { present, steps })].into(),
            under_way: [(key(), way)].into(),
            workloads: [(key(), live)].into(),
            ..SourceStatus::default()
        }
    }

    #[test]
    fn the_present_step_and_what_follows_are_told() {
        let [now, until]: [Timestamp; 2] =
            ["2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"].map(|at| at.parse().unwrap());
        let view = |present, watched| CanaryView::of(&source(present, Outcome::UnderWay, watched), &key()).unwrap();
        let first = view(1, Some(WatchedUntil::Time(until)));
        let texts: Vec<(&str, bool)> = first.steps.iter().map(|step| (step.text.as_str(), step.is_present)).collect();
        assert_eq!(
            texts,
            [
                ("1 new pod, watched for 10m", true),
                ("2 new pods, until a person promotes it", false),
                ("all pods", false)
            ]
        );
        assert_eq!(
            (first.pods.as_str(), first.next(&now), first.is_last),
            ("1 of 1 new pod, beside 4 old", Some(&until), false)
        );
        assert_eq!(first.next(&until), None, "its time is over");
        let second = view(2, Some(WatchedUntil::Person));
        assert_eq!((second.pods.as_str(), second.next(&now)), ("1 of 2 new pods, beside 4 old", None));
        assert!(second.waits_for_person() && second.is_last && second.commands[0].said.starts_with("Replace all"));
        assert!(!view(1, None).waits_for_person());
        assert_eq!(view(3, None).pods, "1 new pod, beside 4 old", "a newer manifest has fewer steps");
    }

    #[test]
    fn no_command_is_offered_that_would_fail() {
        let commands = |source: &SourceStatus| {
            let view = CanaryView::of(source, &key());
            view.map(|view| view.commands.into_iter().map(|step| step.command).collect::<Vec<_>>())
        };
        let both = ["belay promote deployment/web -n shop", "belay abort deployment/web -n shop"];
        let mut source = source(1, Outcome::UnderWay, None);
        assert_eq!(commands(&source), Some(both.map(str::to_owned).to_vec()));
        source.under_way.get_mut(&key()).unwrap().outcome = Outcome::RollingBack;
        assert_eq!(commands(&source), None, "it goes back already");
        source.under_way.get_mut(&key()).unwrap().outcome = Outcome::UnderWay;
        let live = source.workloads.get_mut(&key()).unwrap();
        live.commit = None;
        assert_eq!(commands(&source), Some(Vec::new()), "its commit is not known");
        source.workloads.get_mut(&key()).unwrap().suspended = Some("a fair".to_owned());
        assert_eq!(commands(&source), None, "it is left alone");
        source.canaries.clear();
        assert_eq!(commands(&source), None, "none is under way");
    }
}
