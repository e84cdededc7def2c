//! A Job, or a hook that is a Pod, of which nothing can start: it is given up where nothing else ends the wait for it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::health::{PodAccount, PodStart, pod_count};
use super::outage::Outages;
use super::reason_texts::blame;
use crate::manifest::ObjectKey;
use crate::rollout::{Reason, Step, is_job, marks, runs_once};

/// The time in which nothing of it can start, after which it has failed.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// The controller of Kubernetes, as a Job names it.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// The observations of an object that runs once, until something of it has started.
#[derive(Clone, Debug, Default)]
pub struct NeverStarted {
    /// The time since which nothing of it can start.
    since: Option<Timestamp>,
    /// True when something of it has started: it is waited for from then on.
    has_started: bool,
}

impl NeverStarted {
    /// The detail of the step by which a record says that nothing can start.
    pub const STUCK: &'static str = "nothing of it can start: it has failed when that has lasted for 10 minutes";
    /// The detail of the step by which a record says that this is over.
    pub const OVER: &'static str = "nothing is in the way of its start any more";

    /// Looks at an object and its pods as they are at `now`. Returns the step to record if that is news.
    pub fn look(&mut self, key: &ObjectKey, live: &Value, pods: &[PodAccount], now: Timestamp) -> Option<&'static str> {
        let is = |start: PodStart| pods.iter().any(|pod| pod.start == start);
        self.has_started |= has_run(live) || is(PodStart::Started);
        let is_stuck = !self.has_started && may_be_given_up(key, live) && is(PodStart::Stuck) && !is(PodStart::Open);
        let was_stuck = self.since.is_some();
        // A clock that was set back must not put the end off.
        self.since = is_stuck.then(|| self.since.map_or(now, |since| since.min(now)));
        match (was_stuck, is_stuck) {
            (false, true) => Some(NeverStarted::STUCK),
            (true, false) => Some(NeverStarted::OVER),
            _ => None,
        }
    }

    /// Returns true when nothing of it can start.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.since.is_some()
    }

    /// Counts from the time that the steps of a record name, if they say that nothing of this object could start before a
    /// restart. Returns true when they do.
    pub fn continues(&mut self, live: &Value, steps: &[Step]) -> bool {
        let newest = steps.iter().rev().find(|step| [NeverStarted::STUCK, NeverStarted::OVER].contains(&&*step.detail));
        let made = live["metadata"]["creationTimestamp"].as_str().and_then(|made| made.parse::<Timestamp>().ok());
        let recorded = newest
            .filter(|step| step.detail == NeverStarted::STUCK && made.is_none_or(|made| made <= step.at))
            .map(|step| step.at);
        let Some((recorded, since)) = recorded.zip(self.since) else { return false };
        self.since = Some(recorded.min(since));
        true
    }

    /// Returns when it has failed if nothing starts until then. A time in which the API server did not answer does not
    /// count, and a fault of the infrastructure is waited out for `outage_timeout` more.
    #[must_use]
    pub fn due(
        &self,
        pods: &[PodAccount],
        outages: &Outages,
        outage_timeout: SignedDuration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let since = self.since?;
        let blames_the_commit = stuck(pods).any(|pod| pod.fault.blames_the_commit());
        let more = if blames_the_commit { SignedDuration::ZERO } else { outage_timeout };
        let wait = PATIENCE.saturating_add(more).saturating_add(outages.within(since, now));
        since.checked_add(wait).ok()
    }

    /// Returns why it has failed, if its time is over at `now`.
    #[must_use]
    pub fn given_up(
        &self,
        key: &ObjectKey,
        pods: &[PodAccount],
        outages: &Outages,
        outage_timeout: SignedDuration,
        now: Timestamp,
    ) -> Option<Reason> {
        self.due(pods, outages, outage_timeout, now).filter(|due| *due <= now)?;
        let worst = stuck(pods).max_by_key(|pod| pod.fault)?;
        let minutes = now.duration_since(self.since?).as_mins();
        let said =
            Reason::new(worst.seen.state.as_str().into(), format!("nothing of it could start for {minutes} minutes"));
        let kind = key.kind.to_lowercase();
        let namespace = key.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        let message = format!(
            "{}; mend what is in its way, and have it made again: kubectl delete {kind}/{}{namespace} (the annotation {} \
             allows it more time)",
            blame(&said, &worst.seen),
            key.name,
            marks::PROGRESS_DEADLINE
        );
        Some(Reason { message, ..said })
    }
}

fn stuck(pods: &[PodAccount]) -> impl Iterator<Item = &PodAccount> {
    pods.iter().filter(|pod| pod.start == PodStart::Stuck)
}

/// Returns true when a Job says that pods of it have run; they may be gone.
fn has_run(live: &Value) -> bool {
    ["ready", "succeeded", "failed"]
        .iter()
        .any(|field| pod_count(&live["status"][*field]).is_some_and(|count| count > 0))
}

/// Returns true when nothing else ends the wait for an object that runs once, and it is meant to run now.
fn may_be_given_up(key: &ObjectKey, live: &Value) -> bool {
    let has_deadline =
        marks::annotation(live, marks::PROGRESS_DEADLINE).is_some_and(|text| text.parse::<i64>().is_ok());
    if has_deadline || !runs_once(key, live) {
        return false;
    }
    let spec = &live["spec"];
    let is_foreign = spec["managedBy"].as_str().is_some_and(|by| by != JOB_CONTROLLER);
    !is_job(key)
        || !(spec["activeDeadlineSeconds"].is_number()
            || spec["suspend"] == true
            || spec["parallelism"] == 0
            || is_foreign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::health::Fault;
    use crate::rollout::{PodSeen, StepKind};
    use serde_json::json;

    const TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(group: &str, kind: &str) -> ObjectKey {
        let [group, kind, namespace, name] = [group, kind, "shop", "migrate"].map(str::to_owned);
        ObjectKey { group, kind, namespace: Some(namespace), name }
    }

    fn pod(start: PodStart, fault: Fault) -> PodAccount {
        let seen = PodSeen {
            name: "migrate-x".to_owned(),
            state: "ImagePullBackOff".to_owned(),
            container: Some("app".to_owned()),
            message: "Back-off pulling image \"app:404\"".to_owned(),
            ..PodSeen::default()
        };
        PodAccount { uid: String::new(), seen, fault, start }
    }

    fn stuck() -> PodAccount {
        pod(PodStart::Stuck, Fault::Commit)
    }

    fn open() -> PodAccount {
        pod(PodStart::Open, Fault::Young)
    }

    fn started() -> PodAccount {
        pod(PodStart::Started, Fault::None)
    }

    fn leaving() -> PodAccount {
        pod(PodStart::Leaving, Fault::None)
    }

    /// When a Job has failed whose pods were as these at these seconds.
    fn end(live: &Value, looks: &[(i64, &[PodAccount])], outages: &Outages) -> Option<i64> {
        let mut never_started = NeverStarted::default();
        let key = key("batch", "Job");
        for (second, pods) in looks {
            never_started.look(&key, live, pods, at(*second));
        }
        let (second, pods) = looks.last().unwrap();
        let due = never_started.due(pods, outages, TIMEOUT, at(*second))?;
        let given_up = |now: i64| never_started.given_up(&key, pods, outages, TIMEOUT, at(now));
        assert!(given_up(due.as_second() - 1).is_none() && given_up(due.as_second()).is_some());
        Some(due.as_second())
    }

    #[test]
    fn ten_minutes_in_which_nothing_can_start_end_it() {
        let none = Outages::default();
        let job = json!({"spec": {}});
        for (what, looks, expected) in [
            ("no pod", vec![(0, vec![])], None),
            ("one that can't start", vec![(7, vec![stuck()])], Some(607)),
            ("counted from the first look", vec![(7, vec![stuck()]), (300, vec![stuck()])], Some(607)),
            ("one that is slow", vec![(0, vec![open()]), (3600, vec![open()])], None),
            ("slow, and then stuck", vec![(0, vec![open()]), (3600, vec![stuck()])], Some(4200)),
            ("it begins again", vec![(0, vec![stuck()]), (500, vec![open()]), (550, vec![stuck()])], Some(1150)),
            ("another may start", vec![(0, vec![stuck(), open()])], None),
            ("another has run", vec![(0, vec![stuck(), started()])], None),
            ("another goes", vec![(0, vec![stuck(), leaving()])], Some(600)),
            ("all of them go", vec![(0, vec![leaving()])], None),
            ("its pods are gone", vec![(0, vec![stuck()]), (9, vec![])], None),
            ("something has run", vec![(0, vec![started()]), (10, vec![stuck()])], None),
            ("it had started for a moment", vec![(0, vec![stuck()]), (5, vec![started()]), (10, vec![stuck()])], None),
            ("a clock that was set back", vec![(500, vec![stuck()]), (100, vec![stuck()])], Some(700)),
            ("its node is away", vec![(0, vec![pod(PodStart::Stuck, Fault::Infrastructure)])], Some(900)),
        ] {
            let looks: Vec<(i64, &[PodAccount])> = looks.iter().map(|(at, pods)| (*at, pods.as_slice())).collect();
            assert_eq!(end(&job, &looks, &none), expected, "{what}");
        }
    }

    #[test]
    fn what_ends_by_itself_or_is_not_to_run_is_left() {
        let annotated = |text: &str| json!({"metadata": {"annotations": {marks::PROGRESS_DEADLINE: text}}});
        for (live, expected) in [
            (json!({}), Some(600)),
            (json!({"spec": {"suspend": false, "parallelism": 2, "backoffLimit": 0}}), Some(600)),
            (json!({"spec": {"managedBy": JOB_CONTROLLER}}), Some(600)),
            (json!({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}), None),
            (json!({"spec": {"activeDeadlineSeconds": 3600}}), None),
            (json!({"spec": {"suspend": true}}), None),
            (json!({"spec": {"parallelism": 0}}), None),
            (annotated("2147483647"), None),
            (annotated("7200"), None),
            (annotated("soon"), Some(600)),
            (json!({"status": {"active": 1, "ready": 0, "failed": 0}}), Some(600)),
            (json!({"status": {"ready": 1}}), None),
            (json!({"status": {"succeeded": 1}}), None),
            (json!({"status": {"failed": 1}}), None),
        ] {
            assert_eq!(end(&live, &[(0, &[stuck()])], &Outages::default()), expected, "{live}");
        }
        for (group, kind) in [("apps", "Deployment"), ("", "Pod"), ("example.com", "Widget")] {
            let mut never_started = NeverStarted::default();
            assert_eq!(never_started.look(&key(group, kind), &json!({}), &[stuck()], at(0)), None, "{kind}");
        }
        let hook = json!({"metadata": {"annotations": {marks::HOOK_RUN: "1"}}});
        assert!(NeverStarted::default().look(&key("", "Pod"), &hook, &[stuck()], at(0)).is_some());
    }

    #[test]
    fn an_outage_does_not_count() {
        let mut outages = Outages::default();
        outages.answered(at(0));
        outages.silent(at(100));
        outages.answered(at(250));
        let stuck = [stuck()];
        assert_eq!(end(&json!({}), &[(50, &stuck), (300, &stuck)], &outages), Some(800));
        assert_eq!(end(&json!({}), &[(200, &stuck), (300, &stuck)], &outages), Some(850));
    }

    #[test]
    fn a_restart_counts_on() {
        let step =
            |second: i64, detail: &str| Step { at: at(second), kind: StepKind::Progress, detail: detail.to_owned() };
        let (stuck_at, over_at) =
            (|second| step(second, NeverStarted::STUCK), |second| step(second, NeverStarted::OVER));
        let made = |second: i64| json!({"metadata": {"creationTimestamp": at(second).to_string()}});
        for (steps, live, expected) in [
            (vec![], made(0), None),
            (
                vec![step(3, "0 of 1 completions"), stuck_at(10), step(20, "1 new pod: ErrImagePull")],
                made(0),
                Some(610),
            ),
            (vec![stuck_at(10), over_at(20)], made(0), None),
            (vec![stuck_at(10), over_at(20), stuck_at(30)], made(0), Some(630)),
            (vec![stuck_at(10)], made(50), None),
            (vec![stuck_at(10)], json!({}), Some(610)),
            (vec![stuck_at(900)], made(0), Some(1000)),
        ] {
            let mut never_started = NeverStarted::default();
            assert_eq!(never_started.look(&key("batch", "Job"), &live, &[stuck()], at(400)), Some(NeverStarted::STUCK));
            let continues = never_started.continues(&live, &steps);
            let due = never_started.due(&[stuck()], &Outages::default(), TIMEOUT, at(400)).map(Timestamp::as_second);
            assert_eq!((continues, due), (expected.is_some(), Some(expected.unwrap_or(1000))), "{steps:?} {live}");
        }
    }

    #[test]
    fn the_reason_says_what_to_do() {
        let mut never_started = NeverStarted::default();
        let key = key("batch", "Job");
        assert_eq!(never_started.look(&key, &json!({}), &[stuck()], at(0)), Some(NeverStarted::STUCK));
        assert_eq!(never_started.look(&key, &json!({}), &[stuck()], at(9)), None, "told once");
        let reason = never_started.given_up(&key, &[stuck()], &Outages::default(), TIMEOUT, at(600)).unwrap();
        assert_eq!(reason.code.as_str(), "ImagePullBackOff");
        assert_eq!(
            reason.message,
            "nothing of it could start for 10 minutes: pod migrate-x is ImagePullBackOff (container app): Back-off pulling \
             image \"app:404\"; mend what is in its way, and have it made again: kubectl delete job/migrate -n shop (the \
             annotation belay.dev/progress-deadline-seconds allows it more time)"
        );
        assert_eq!(never_started.look(&key, &json!({}), &[open()], at(700)), Some(NeverStarted::OVER));
    }
}
