//! The next step of a person: a sentence, and the command to copy if there is one. No command is shown that would fail.

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState};

/// A step that a person can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NextStep {
    pub said: &'static str,
    pub command: String,
}

/// Returns the steps that help an object in a state; `failed` is the commit that is charged with its failure.
pub(super) fn next_steps(key: &ObjectKey, state: ObjectState, failed: Option<&CommitId>) -> Vec<NextStep> {
    let step = |said, command| NextStep { said, command };
    let evidence = failed.map(|commit| step("Read the evidence:", format!("belay show {}", commit.short())));
    let own = match state {
        ObjectState::Held => Some(step(
            "A commit that changes its manifest ends the hold. Try the same manifest once more:",
            command("retry", key),
        )),
        ObjectState::Rejected => {
            Some(step("Correct the manifest in Git. Check a working copy before you push:", "belay check".to_owned()))
        }
        ObjectState::Suspended => Some(step("Let belay roll it out again:", command("resume-sync", key))),
        _ => None,
    };
    let is_wrong = state.is_wrong() && state != ObjectState::Rejected;
    own.into_iter().chain(evidence.filter(|_| is_wrong)).collect()
}

/// Returns a command about a workload. Names of objects have no characters that a shell reads otherwise.
pub(super) fn command(verb: &str, key: &ObjectKey) -> String {
    let kind = key.kind.to_lowercase();
    match &key.namespace {
        Some(namespace) => format!("belay {verb} {kind}/{} -n {namespace}", key.name),
        None => format!("belay {verb} {kind}/{}", key.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_the_command_that_helps() {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let commit: CommitId = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap();
        for (state, commands) in [
            (ObjectState::Held, vec!["belay retry deployment/web -n shop", "belay show 1a2b3c4"]),
            (ObjectState::Failed, vec!["belay show 1a2b3c4"]),
            (ObjectState::Rejected, vec!["belay check"]),
            (ObjectState::Suspended, vec!["belay resume-sync deployment/web -n shop"]),
            (ObjectState::Complete, vec![]),
            (ObjectState::Progressing, vec![]),
        ] {
            let steps = next_steps(&key, state, Some(&commit));
            assert_eq!(steps.iter().map(|step| step.command.as_str()).collect::<Vec<_>>(), commands, "{state}");
            assert!(next_steps(&key, state, None).iter().all(|step| !step.command.contains("show")), "{state}");
        }
    }
}
