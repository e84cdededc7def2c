//! A pod whose own status does not say why it is not ready: its newest Warning event does.

use super::{Fault, PodAccount};
use crate::rollout::{EventSeen, PodSeen};

/// States of a pod that can't begin, whatever is in its way.
const CREATING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Events of a pod whose volumes and network are there: Warnings before them are over.
const GOES_ON: [&str; 4] = ["Pulling", "Pulled", "Created", "Started"];
/// The beginning of the kubelet's summary of failed mounts. It names no cause.
const SUMMARY: &str = "Unable to attach or mount volumes";

/// Returns true when the message of a pod, if it has one, is that of an Event: its status says nothing.
pub(in crate::rollout) fn told_by_event(seen: &PodSeen) -> bool {
    CREATING.contains(&seen.state.as_str()) || seen.state == "NotReady"
}

impl PodAccount {
    /// Returns true when it can't begin, and its status does not say why.
    #[must_use]
    pub fn is_creating(&self) -> bool {
        CREATING.contains(&self.seen.state.as_str()) && self.fault.blames_the_commit()
    }

    /// Takes over what the newest Warning says, where its own status says nothing. `events` may be about other objects, too.
    /// A pod that runs has time until it is ready.
    pub fn explain(&mut self, events: &[EventSeen]) {
        let creating = self.is_creating();
        if !creating && (!told_by_event(&self.seen) || self.fault != Fault::Commit) {
            return;
        }
        let object = format!("Pod/{}", self.seen.name);
        let about = || events.iter().filter(|event| event.object == object);
        let went_on = about().filter(|event| creating && GOES_ON.contains(&event.reason.as_str()));
        let went_on = went_on.map(|event| event.at).max();
        let warns = |event: &&EventSeen| event.kind == "Warning" && event.reason != "FailedScheduling";
        let warnings = about().filter(warns).filter(|event| went_on.is_none_or(|at| event.at > at));
        if let Some(event) = warnings.max_by_key(|event| (!event.message.starts_with(SUMMARY), event.at)) {
            self.seen.message = format!("{}: {}", event.reason, event.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::PodSeen;
    use crate::rollout::health::PodStart;

    fn pod(state: &str, fault: Fault) -> PodAccount {
        let seen = PodSeen { name: "web-1".into(), state: state.into(), ..PodSeen::default() };
        PodAccount { uid: String::new(), seen, fault, start: PodStart::default() }
    }

    fn event(at: i64, kind: &str, reason: &str, message: &str) -> EventSeen {
        let at = jiff::Timestamp::from_second(at).unwrap();
        EventSeen { at, kind: kind.into(), object: "Pod/web-1".into(), reason: reason.into(), message: message.into() }
    }

    fn said(state: &str, fault: Fault, events: &[EventSeen]) -> String {
        let mut pod = pod(state, fault);
        pod.explain(events);
        pod.seen.message
    }

    #[test]
    fn the_newest_warning_is_told() {
        let missing = event(20, "Warning", "FailedMount", "secret \"x\" not found");
        let summary = event(30, "Warning", "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[x]");
        let network = event(40, "Warning", "FailedCreatePodSandBox", "no address left");
        let bound = event(10, "Warning", "FailedScheduling", "0/3 nodes are available");
        let scheduled = event(15, "Normal", "Scheduled", "assigned to node-1");
        let pulling = event(25, "Normal", "Pulling", "Pulling image web:1");
        let unhealthy = event(50, "Warning", "Unhealthy", "Readiness probe failed: 503");
        let other = EventSeen { object: "Pod/web-2".into(), ..network.clone() };
        let told = "FailedMount: secret \"x\" not found";
        for (state, fault, events, wanted) in [
            ("ContainerCreating", Fault::Young, vec![bound.clone(), scheduled.clone(), missing.clone()], told),
            ("PodInitializing", Fault::Commit, vec![missing.clone()], told),
            ("ContainerCreating", Fault::Commit, vec![summary.clone(), missing.clone(), other], told),
            (
                "ContainerCreating",
                Fault::Commit,
                vec![summary],
                "FailedMount: Unable to attach or mount volumes: unmounted volumes=[x]",
            ),
            (
                "ContainerCreating",
                Fault::Commit,
                vec![missing.clone(), network],
                "FailedCreatePodSandBox: no address left",
            ),
            ("ContainerCreating", Fault::Commit, vec![missing.clone(), pulling], ""),
            ("ContainerCreating", Fault::Commit, vec![bound], ""),
            ("ContainerCreating", Fault::Commit, vec![scheduled], ""),
            ("ImagePullBackOff", Fault::Commit, vec![missing.clone()], ""),
            ("NodeNotReady", Fault::Infrastructure, vec![missing], ""),
            ("NotReady", Fault::Young, vec![unhealthy.clone()], ""),
            ("NotReady", Fault::Commit, vec![unhealthy], "Unhealthy: Readiness probe failed: 503"),
        ] {
            assert_eq!(said(state, fault, &events), wanted, "{state} {fault:?} {events:?}");
        }
    }
}
