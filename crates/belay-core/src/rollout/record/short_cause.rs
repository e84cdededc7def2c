//! The cause of a failure in a line: how many pods fail and how, and the last line of their log.

use super::note::one_line;
use crate::manifest::shortened;
use crate::rollout::{Evidence, PodSeen};

/// The most characters of a cause.
const CAUSE: usize = 200;
/// The most characters of a line of a log in it.
const LOG_LINE: usize = 120;
/// The most pods that evidence has of one failure: of more, their number is not known.
const COUNTED: usize = 10;
/// Reasons that say no more than the word `failed` when a cause follows.
const DEADLINES: [&str; 2] =
    ["the rollout exceeded its progress deadline: ", "the rollout made no progress within its deadline: "];
/// The beginning of the message of a pod that is not ready, and says no more than that.
const UNREADY: &str = "containers with unready status";
/// States of pods that are well, or go.
const WELL: [&str; 3] = ["Running", "Completed", "Terminating"];

/// Returns the cause in a line, from the reason and the evidence of a failure. No back-off, uid or deadline is in it: the
/// whole reason has them.
#[must_use]
pub fn short_cause(reason: &str, evidence: Option<&Evidence>) -> String {
    let cause = match (PodFailure::told(reason), evidence) {
        (Some(failure), Some(evidence)) => failure.counted(&evidence.pods).in_words(),
        (Some(failure), None) => failure.in_words(),
        (None, _) => without_deadline(reason),
    };
    shortened(&one_line(&cause), CAUSE).into_owned()
}

/// Pods that fail alike.
struct PodFailure {
    /// The name of the pod that the reason is about.
    name: String,
    state: String,
    exit_code: Option<i32>,
    message: String,
    /// The number of those, and of all new pods, if that is known.
    count: Option<(usize, usize)>,
    log_line: Option<String>,
}

impl PodFailure {
    /// Reads the pod from a reason: `…: pod web-7f9 is CrashLoopBackOff (container app, exit code 1): back-off 40s …`.
    fn told(reason: &str) -> Option<PodFailure> {
        let (before, told) = reason.split_once("pod ")?;
        let (name, told) = told.split_once(' ')?;
        let is_about_it = before.is_empty() || before.ends_with(": ");
        let (state, rest) = match told.strip_prefix("is ") {
            Some(told) => told.split_at(told.find([' ', ':', ';']).unwrap_or(told.len())),
            None => ("Restarted", told.strip_prefix("has restarted")?),
        };
        let (details, message) = match rest.strip_prefix(" (").and_then(|rest| rest.split_once(')')) {
            Some((details, rest)) => (details, rest),
            None => ("", rest),
        };
        let exit_code = details.rsplit_once("exit code ").and_then(|(_, code)| code.parse().ok());
        // Remarks of the judge follow after semicolons.
        let message = message.strip_prefix(": ").and_then(|message| message.split("; ").next());
        let message = message.unwrap_or_default().to_owned();
        let (name, state) = (name.to_owned(), state.to_owned());
        is_about_it.then_some(PodFailure { name, state, exit_code, message, count: None, log_line: None })
    }

    /// Adds how many of the new pods fail alike, and the last line of the log of one.
    fn counted(self, pods: &[PodSeen]) -> PodFailure {
        let Some(own) = pods.iter().find(|pod| pod.name == self.name) else { return self };
        let fails = |pod: &&PodSeen| match self.is_a_crash() {
            true => is_a_crash(&pod.state) || pod.state == own.state && pod.restarts > 0,
            false => pod.state == own.state && (pod.restarts > 0 || !WELL.contains(&pod.state.as_str())),
        };
        let lines = pods.iter().filter(fails).filter_map(|pod| pod.log.iter().rfind(|line| !line.trim().is_empty()));
        let log_line = lines.map(|line| shortened(line.trim(), LOG_LINE).into_owned()).next();
        let alike = pods.iter().filter(fails).count();
        let count = (pods.len() < COUNTED && alike > 0).then_some((alike, pods.len()));
        PodFailure { count, log_line, ..self }
    }

    fn is_a_crash(&self) -> bool {
        is_a_crash(&self.state)
    }

    fn in_words(&self) -> String {
        let (pods, one) = match self.count {
            Some((alike, all)) => (format!("{alike} of {all} new pod{}", if all == 1 { "" } else { "s" }), alike == 1),
            None => ("a new pod".to_owned(), true),
        };
        let does = |singular: &str, plural: &str| format!("{pods} {}", if one { singular } else { plural });
        let mut parts = match self.state.as_str() {
            _ if self.is_a_crash() => vec![does("crashes", "crash")],
            "Restarted" => vec![does("has restarted", "have restarted")],
            "NotReady" => vec![does("is not ready", "are not ready")],
            state => vec![match image(&self.message).filter(|_| state.contains("Image")) {
                Some(image) => format!("{pods}: {state} {image}"),
                None => format!("{pods}: {state}"),
            }],
        };
        parts.extend(self.exit_code.map(|code| format!("exit code {code}")));
        let is_told = self.is_a_crash() || self.state.contains("Image") || self.message.starts_with(UNREADY);
        parts.extend(Some(without_uids(&self.message)).filter(|message| !is_told && !message.is_empty()));
        parts.extend(self.log_line.clone());
        parts.join(": ")
    }
}

/// Returns true for the state of a container that ended, and is started again.
fn is_a_crash(state: &str) -> bool {
    ["CrashLoopBackOff", "Error", "OOMKilled", "ContainerCannotRun", "StartError"].contains(&state)
}

/// Returns the image that a message of the kubelet quotes, without its registry: `api:1.1-bad`.
fn image(message: &str) -> Option<&str> {
    let (_, quoted) = message.split_once("image \"")?;
    let image = quoted.split(['"', '…']).next()?;
    image.rsplit('/').next().filter(|image| !image.is_empty())
}

/// Returns a reason without the words that say no more than that it failed.
fn without_deadline(reason: &str) -> String {
    let rest = DEADLINES.iter().find_map(|deadline| reason.strip_prefix(deadline)).filter(|rest| !rest.is_empty());
    without_uids(rest.unwrap_or(reason))
}

/// Returns a text without the words that name an object by its uid: `pod=web-7f9_shop(3f1c9e2a-0b7d-4c55-…)`.
fn without_uids(text: &str) -> String {
    let words = text.split(' ').filter(|word| !has_uid(word));
    words.collect::<Vec<_>>().join(" ").trim_end_matches([' ', ':', ';']).to_owned()
}

/// Returns true for a word with a uid in it: digits in five groups.
fn has_uid(word: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_hexdigit() || c == '-';
    let is_uid = |part: &str| part.len() == 36 && part.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    word.split(|c| !is_inner(c)).any(is_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "3f1c9e2a-0b7d-4c55-9d3e-2f7a6b1c0d9e";

    fn pod(name: &str, state: &str, restarts: i32, log: &[&str]) -> PodSeen {
        let log = log.iter().map(|line| (*line).to_owned()).collect();
        PodSeen { name: name.to_owned(), state: state.to_owned(), restarts, log, ..PodSeen::default() }
    }

    #[test]
    fn a_reason_alone_has_a_short_cause() {
        let deadline = "the rollout exceeded its progress deadline";
        for (reason, cause) in [
            (
                format!(
                    "{deadline}: pod api-1 is ImagePullBackOff (container api): Back-off pulling image \"registry.example.com:5000/shop/api:1.1-bad\": ErrImagePull: not found"
                ),
                "a new pod: ImagePullBackOff api:1.1-bad",
            ),
            (
                format!(
                    "{deadline}: pod api-1 is CrashLoopBackOff (container api, exit code 1): back-off 5m0s restarting failed container=api pod=api-1_shop({UID})"
                ),
                "a new pod crashes: exit code 1",
            ),
            (
                "given up before its deadline, after 3 restarts: pod api-1 is Error (container api, exit code 2)"
                    .to_owned(),
                "a new pod crashes: exit code 2",
            ),
            (
                "it failed within its bake time: pod api-1 has restarted (container api, exit code 137): OOMKilled"
                    .to_owned(),
                "a new pod has restarted: exit code 137: OOMKilled",
            ),
            (
                format!(
                    "{deadline}: pod api-1 is NotReady (container api): Unhealthy: Readiness probe failed: HTTP 500"
                ),
                "a new pod is not ready: Unhealthy: Readiness probe failed: HTTP 500",
            ),
            (
                format!("{deadline}: pod api-1 is NotReady (container api): containers with unready status: [api]"),
                "a new pod is not ready",
            ),
            (
                format!("{deadline}: pod api-1 is CreateContainerConfigError (container api): secret \"db\" not found"),
                "a new pod: CreateContainerConfigError: secret \"db\" not found",
            ),
            (
                format!(
                    "{deadline}: pod api-1 is Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.; there is nothing to go back to"
                ),
                "a new pod: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
            ),
            (format!("{deadline}: exceeded quota: pods"), "exceeded quota: pods"),
            (deadline.to_owned(), deadline),
            ("taken back by hand (kubectl) to revision 3".to_owned(), "taken back by hand (kubectl) to revision 3"),
            (format!("{deadline}: pod  "), "pod"),
            ("pod".to_owned(), "pod"),
            (format!("the volume of web_shop({UID}) hangs"), "the volume of hangs"),
            (String::new(), ""),
        ] {
            assert_eq!(short_cause(&reason, None), cause, "{reason}");
        }
    }

    #[test]
    fn evidence_says_how_many_pods_and_their_last_line() {
        let crash =
            "the rollout exceeded its progress deadline: pod a is CrashLoopBackOff (container api, exit code 1)";
        let pull = "given up before its deadline, after 60 s of ImagePullBackOff: pod a is ImagePullBackOff (container api): \
                    Back-off pulling image \"api:2\"";
        let log = ["starting", "panic: no route to db", " "];
        for (reason, pods, cause) in [
            (
                crash,
                vec![
                    pod("a", "CrashLoopBackOff", 4, &log),
                    pod("b", "Error", 3, &[]),
                    pod("c", "CrashLoopBackOff", 4, &[]),
                ],
                "3 of 3 new pods crash: exit code 1: panic: no route to db",
            ),
            (
                crash,
                vec![pod("a", "CrashLoopBackOff", 4, &[]), pod("b", "Running", 0, &log)],
                "1 of 2 new pods crashes: exit code 1",
            ),
            (
                crash,
                vec![pod("a", "CrashLoopBackOff", 4, &log)],
                "1 of 1 new pod crashes: exit code 1: panic: no route to db",
            ),
            (
                pull,
                vec![pod("a", "ImagePullBackOff", 0, &[]), pod("b", "ImagePullBackOff", 0, &[])],
                "2 of 2 new pods: ImagePullBackOff api:2",
            ),
            // The evidence is of other pods: they are not counted.
            (crash, vec![pod("z", "Running", 0, &log)], "a new pod crashes: exit code 1"),
            (crash, Vec::new(), "a new pod crashes: exit code 1"),
        ] {
            let evidence = Evidence { pods, ..Evidence::default() };
            assert_eq!(short_cause(reason, Some(&evidence)), cause);
        }
        let many = Evidence { pods: vec![pod("a", "CrashLoopBackOff", 4, &[]); COUNTED], ..Evidence::default() };
        assert_eq!(short_cause(crash, Some(&many)), "a new pod crashes: exit code 1", "there may be more");
    }

    #[test]
    fn no_cause_is_longer_than_a_line() {
        let evidence = Evidence { pods: vec![pod("a", "Error", 1, &[&"x".repeat(9_000)])], ..Evidence::default() };
        let cause = short_cause("failed: pod a is Error (container api, exit code 1)", Some(&evidence));
        assert!(cause.chars().count() <= CAUSE && cause.ends_with('…'), "{cause}");
        assert_eq!(short_cause("one\ntwo\t three", None), "one two three");
    }
}
