//! The sentences of a verdict about the pods that it was ruled by.

use super::health::{Fault, told_by_event};
use super::observation::Observation;
use crate::rollout::{PodSeen, Reason, ReasonCode};

/// Describes the obstacle of a rollout whose pods are not at fault; `worst` is the worst of them.
pub(in crate::rollout) fn in_the_way(
    suspicion: &Reason,
    worst: Option<(Fault, &PodSeen)>,
    observation: &Observation,
) -> Reason {
    if let Some(why) = &observation.hidden {
        return Reason::new(ReasonCode::PodsNotReadable, format!("its pods can't be seen: {why}"));
    }
    let (code, message) = match (worst, observation.held_up_by.as_deref()) {
        (Some((Fault::Infrastructure, seen)), _) => {
            return Reason::new(seen.state.as_str().into(), blame(suspicion, seen));
        }
        (_, Some(old)) => (
            ReasonCode::OldPodNotReady,
            format!(
                "its controller waits for pod {} of another revision, which is {}; where it can't recover, delete it: \
                 it is made again from the new template",
                old.name,
                state(old)
            ),
        ),
        _ if let Some(why) = &observation.cannot_make_pods => {
            ("FailedCreate".into(), format!("no new pod can be made: {why}"))
        }
        (Some(_), None) => (ReasonCode::NotFinishing, "its new pods are well, but it does not finish".to_owned()),
        (None, None) => (ReasonCode::ControllerSilent, "its controller has made no pods".to_owned()),
    };
    Reason::new(code, message)
}

/// The state of a pod that has restarted, and is ready again.
pub(in crate::rollout) const RESTARTED: &str = "Restarted";

/// How much of a pod's message a reason quotes at most, in characters.
const MESSAGE: usize = 100;
/// The same of an Event, whose cause comes last.
const EVENT: usize = 300;

/// Returns the reason: `the rollout exceeded its progress deadline: web-7f9 ImagePullBackOff (container app): Back-off
/// pulling image …`
pub(in crate::rollout) fn blame(suspicion: &Reason, seen: &PodSeen) -> String {
    let state = match seen.state.as_str() {
        RESTARTED => format!("has restarted{}", details(seen)),
        _ => format!("is {}", state(seen)),
    };
    format!("{}: pod {} {state}", suspicion.message, seen.name)
}

/// Returns the state of a pod: `ImagePullBackOff (container app): Back-off pulling image …`
pub(in crate::rollout) fn state(seen: &PodSeen) -> String {
    format!("{}{}", seen.state, details(seen))
}

/// Returns the container and the message behind the state of a pod.
fn details(seen: &PodSeen) -> String {
    let mut text = String::new();
    if let Some(container) = &seen.container {
        text.push_str(&format!(" (container {container}"));
        if let Some(code) = seen.exit_code {
            text.push_str(&format!(", exit code {code}"));
        }
        text.push(')');
    }
    if !seen.message.is_empty() {
        text.push_str(&format!(": {}", beginning(&seen.message, if told_by_event(seen) { EVENT } else { MESSAGE })));
    }
    text
}

/// How a pod's message begins: what goes wrong comes first in it, and how that came about after it, colon by colon. All of
/// it is in the evidence.
fn beginning(message: &str, most: usize) -> String {
    if message.chars().count() <= most {
        return message.to_owned();
    }
    let cut: String = message.chars().take(most).collect();
    let end = cut.rfind(": ").filter(|end| *end > 0).unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}
