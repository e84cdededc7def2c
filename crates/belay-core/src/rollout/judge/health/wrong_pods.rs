//! Faults of the pods of a rollout under way, in a line.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Fault, PodAccount};
use crate::rollout::Observation;

/// States through which every pod passes.
const PASSING: [&str; 4] = ["ContainerCreating", "PodInitializing", "NotReady", "Pending"];

/// Returns the faults of new pods: `1 new pod: ImagePullBackOff web:404`. `None` if nothing is, or they have only
/// begun. `template` is the pod template that they were made from.
#[must_use]
pub fn wrong_pods(observed: &Observation, template: &Value) -> Option<String> {
    let pods = &observed.pods;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let creating = creating(pods);
    let is_told = |pod: &PodAccount| creating.is_some() && pod.is_creating();
    for pod in pods.iter().filter(|pod| is_wrong(pod) && !is_told(pod)) {
        *counts.entry(state(pod, template)).or_default() += 1;
    }
    let part = |(state, count): (String, usize)| format!("{}: {state}", new_pods(count));
    let mut parts: Vec<String> = counts.into_iter().map(part).collect();
    parts.extend(creating);
    parts.extend(observed.cannot_make_pods.iter().map(|why| format!("no new pod can be made: {why}")));
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn new_pods(count: usize) -> String {
    if count == 1 { "1 new pod".to_owned() } else { format!("{count} new pods") }
}

/// `2 new pods: ContainerCreating (web-1: FailedMount: …)`: pods that can't begin, where it is known of one why.
fn creating(pods: &[PodAccount]) -> Option<String> {
    let creating = || pods.iter().filter(|pod| pod.is_creating());
    let told = &creating().find(|pod| !pod.seen.message.is_empty())?.seen;
    let alike = creating().filter(|pod| pod.seen.state == told.state).count();
    let name = if alike == 1 { String::new() } else { format!("{}: ", told.name) };
    Some(format!("{}: {} ({name}{})", new_pods(alike), told.state, told.message))
}

fn is_wrong(pod: &PodAccount) -> bool {
    match pod.fault {
        Fault::Commit => !PASSING.contains(&pod.seen.state.as_str()) || pod.seen.restarts > 0,
        Fault::Infrastructure => true,
        Fault::None | Fault::Unknown | Fault::Young => false,
    }
}

/// Returns the state with its most useful detail: the image that can't be pulled, the exit code, the scheduler's
/// reason.
fn state(pod: &PodAccount, template: &Value) -> String {
    let seen = &pod.seen;
    let detail = match (seen.state.contains("Image"), seen.exit_code) {
        (true, _) => seen.container.as_deref().and_then(|name| image(template, name)).map(str::to_owned),
        (false, Some(code)) => Some(format!("(exit code {code})")),
        (false, None) if seen.node.is_none() => Some(seen.message.clone()).filter(|message| !message.is_empty()),
        (false, None) => None,
    };
    match detail {
        Some(detail) => format!("{} {detail}", seen.state),
        None => seen.state.clone(),
    }
}

/// Returns the image of a container of a pod template.
fn image<'a>(template: &'a Value, container: &str) -> Option<&'a str> {
    let lists = ["initContainers", "containers"].map(|list| template["spec"][list].as_array());
    let found = lists.into_iter().flatten().flatten().find(|one| one["name"] == container)?;
    found["image"].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rollout::PodSeen;
    use crate::rollout::health::PodStart;

    #[test]
    fn pods_that_cannot_start_are_told_with_what_tells_most() {
        let template = json!({"spec": {"containers": [{"name": "web", "image": "web:404"}]}});
        let pod = |state: &str, fault: Fault| {
            let seen = PodSeen {
                state: state.to_owned(),
                container: Some("web".to_owned()),
                node: Some("node-1".to_owned()),
                ..PodSeen::default()
            };
            PodAccount { uid: String::new(), seen, fault, start: PodStart::default() }
        };
        let of =
            |pods: &[PodAccount]| wrong_pods(&Observation { pods: pods.to_vec(), ..Observation::default() }, &template);
        let pull = || pod("ImagePullBackOff", Fault::Commit);
        let mut crash = pod("CrashLoopBackOff", Fault::Commit);
        (crash.seen.exit_code, crash.seen.restarts) = (Some(3), 2);
        let mut room = pod("Unschedulable", Fault::Commit);
        (room.seen.node, room.seen.message) = (None, "0/3 nodes are available: insufficient cpu".to_owned());
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[pod("Running", Fault::None), pod("NotReady", Fault::Commit), pod("NotReady", Fault::Young)]),
            None
        );
        assert_eq!(of(&[pull()]).as_deref(), Some("1 new pod: ImagePullBackOff web:404"));
        assert_eq!(
            of(&[pull(), crash, pull()]).as_deref(),
            Some("1 new pod: CrashLoopBackOff (exit code 3); 2 new pods: ImagePullBackOff web:404")
        );
        assert_eq!(of(&[room]).as_deref(), Some("1 new pod: Unschedulable 0/3 nodes are available: insufficient cpu"));
    }

    #[test]
    fn pods_that_cannot_begin_are_told_with_what_is_in_their_way() {
        let pod = |name: &str, message: &str| {
            let (name, message, state) = (name.to_owned(), message.to_owned(), "ContainerCreating".to_owned());
            let seen = PodSeen { name, message, state, ..PodSeen::default() };
            PodAccount { uid: String::new(), seen, fault: Fault::Young, start: PodStart::default() }
        };
        let of = |pods: &[PodAccount], cannot: Option<&str>| {
            let cannot_make_pods = cannot.map(str::to_owned);
            let observed = Observation { pods: pods.to_vec(), cannot_make_pods, ..Observation::default() };
            wrong_pods(&observed, &Value::Null)
        };
        let missing = "FailedMount: secret \"x\" not found";
        let told = |count: &str| format!("{count}: ContainerCreating ({missing})");
        assert_eq!(of(&[pod("web-1", "")], None), None, "it has only begun");
        assert_eq!(of(&[pod("web-1", missing)], None), Some(told("1 new pod")));
        let two = format!("2 new pods: ContainerCreating (web-1: {missing})");
        assert_eq!(of(&[pod("web-2", ""), pod("web-1", missing)], None), Some(two));
        let full = Some("no new pod can be made: exceeded quota: small".to_owned());
        assert_eq!(of(&[], Some("exceeded quota: small")), full);
    }
}
