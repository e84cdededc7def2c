//! The reason of a change, as the person gives it: in the message of a commit, or on the object for Kubernetes'
//! history.

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use crate::cli::Globals;
use crate::cli::args::target::On;
use crate::cli::commands::history;
use crate::cli::session::who::who;
use crate::clock::Clock;
use crate::cluster::Patch;
use crate::git::WorkingCopy;
use crate::history::Resolved;
use belay_core::manifest::shortened;
use belay_core::rollout::{Commit, Note, marks, one_line};

/// The arguments of a command that changes live workloads, for a reason.
#[derive(clap::Args, Debug)]
pub struct ChangeArgs {
    #[command(flatten)]
    pub(in crate::cli) on: On,
    #[command(flatten)]
    pub(in crate::cli) cause: Cause,
}

/// The reason of a change.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Cause {
    /// Describe the change in one line: the subject of the commit, and in the cluster the change-cause [default: a line that
    /// belay writes]
    #[arg(long, value_name = "TEXT", value_parser = subject)]
    pub note: Option<String>,
    /// Describe it further: the rest of the commit's message, and in the cluster the annotation kubernetes.io/description
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Name the commit that the change comes from: a trailer of the message, and in the cluster in the change-cause
    #[arg(long, value_name = "COMMIT", value_parser = subject)]
    pub commit: Option<String>,
}

/// The name of an object's description in Kubernetes' tools.
const DESCRIPTION: &str = "kubernetes.io/description";
/// The most characters of a change-cause: Kubernetes copies it to every revision.
const NOTE_LIMIT: usize = 200;

fn subject(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.contains(['\n', '\r']) {
        return Err("it must be one line of text".to_owned());
    }
    Ok(text.to_owned())
}

impl Cause {
    /// Returns the message of a commit; `done` is its subject where no other was given.
    pub(in crate::cli) fn message(&self, done: &str) -> String {
        let mut message = self.note.clone().unwrap_or_else(|| done.to_owned());
        if let Some(description) = &self.description {
            message.push_str(&format!("\n\n{}", description.trim_end()));
        }
        if let Some(commit) = &self.commit {
            message.push_str(&format!("\n\nSource-Commit: {commit}"));
        }
        message.push('\n');
        message
    }

    /// Returns all of it in one line, for a reason or a note; `None` if nothing is said.
    pub(in crate::cli) fn line(&self, globals: &Globals) -> anyhow::Result<Option<String>> {
        let Cause { note, description, commit: name } = self;
        let mut said: Vec<String> = note.iter().chain(description).map(|text| text.trim().to_owned()).collect();
        if let Some(name) = name {
            said.push(format!("commit {}", commit(globals, name)?.change_cause()));
        }
        Ok((!said.is_empty()).then(|| one_line(&said.join("; "))))
    }

    /// Returns true when nothing is said.
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.note.is_none() && self.description.is_none() && self.commit.is_none()
    }

    /// Returns the annotation that tells the daemon the cause; an existing one says nothing of this change.
    pub(in crate::cli) fn note(&self, globals: &Globals) -> anyhow::Result<Value> {
        let note = self.line(globals)?.map(|text| Note { at: Clock::system().now(), by: who(globals), text });
        Ok(note.map_or(Value::Null, |note| json!(note.to_annotation())))
    }

    /// Returns the annotations that are written on a live object. For an object of belay's, its daemon sets the commit.
    pub(in crate::cli) fn annotations(&self, globals: &Globals, live: &Value) -> anyhow::Result<Map<String, Value>> {
        let mut annotations = Map::new();
        if let Some(name) = &self.commit {
            let commit = commit(globals, name)?;
            annotations.insert(marks::CHANGE_CAUSE.to_owned(), json!(commit.change_cause()));
            if marks::label(live, marks::SOURCE).is_none() {
                annotations.insert(marks::COMMIT.to_owned(), json!(commit.id.to_string()));
            }
        }
        if let Some(note) = &self.note {
            let note = shortened(note, NOTE_LIMIT);
            annotations.insert(marks::CHANGE_CAUSE.to_owned(), json!(note));
        }
        if let Some(description) = &self.description {
            annotations.insert(DESCRIPTION.to_owned(), json!(description.trim_end()));
        }
        Ok(annotations)
    }
}

/// Returns a patch of a live object that writes these annotations, too.
pub(in crate::cli) fn annotated(patch: Patch, live: &Value, annotations: Map<String, Value>) -> Patch {
    if annotations.is_empty() {
        return patch;
    }
    let merged = |mut patch: Value| {
        for (name, value) in &annotations {
            patch["metadata"]["annotations"][name] = value.clone();
        }
        patch
    };
    match patch {
        Patch::Strategic(patch) => Patch::Strategic(merged(patch)),
        Patch::Merge(patch) => Patch::Merge(merged(patch)),
        Patch::Json(mut operations) => {
            if live["metadata"]["annotations"].is_object() {
                operations.extend(annotations.iter().map(|(name, value)| {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    json!({"op": "add", "path": format!("/metadata/annotations/{name}"), "value": value})
                }));
            } else {
                operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": annotations}));
            }
            Patch::Json(operations)
        }
    }
}

/// Returns the known facts about a commit: from the history, else from the repository that this folder lies in.
pub(in crate::cli) fn commit(globals: &Globals, name: &str) -> anyhow::Result<Commit> {
    if let Ok(history) = history::open(globals)
        && let Ok(Resolved::One(id)) = history.resolve(name)
        && let Some(commit) = history.commit(&id)?
    {
        return Ok(commit);
    }
    let here = std::env::current_dir().context("failed to find the present folder")?;
    WorkingCopy::open(&here)
        .and_then(|copy| copy.revision(name, "", |_| false))
        .map(|revision| revision.commit)
        .with_context(|| format!("failed to find commit {name:?} in the history or in this folder's repository"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_was_given() {
        let cause = Cause {
            note: Some("Faster images".to_owned()),
            description: Some("They were slow.\n".to_owned()),
            commit: Some("1a2b3c4".to_owned()),
        };
        assert_eq!(cause.message("Set image"), "Faster images\n\nThey were slow.\n\nSource-Commit: 1a2b3c4\n");
        assert_eq!(Cause::default().message("Set image"), "Set image\n");
    }

    #[test]
    fn annotations_go_with_every_kind_of_patch() {
        let annotations = || Map::from_iter([(marks::CHANGE_CAUSE.to_owned(), json!("why"))]);
        let merged = json!({"spec": {}, "metadata": {"annotations": {marks::CHANGE_CAUSE: "why"}}});
        let patch = annotated(Patch::Strategic(json!({"spec": {}})), &json!({}), annotations());
        assert_eq!(patch, Patch::Strategic(merged));
        let bare = annotated(Patch::Json(vec![]), &json!({"metadata": {}}), annotations());
        let expected = json!({"op": "add", "path": "/metadata/annotations", "value": {marks::CHANGE_CAUSE: "why"}});
        assert_eq!(bare, Patch::Json(vec![expected]));
        let live = json!({"metadata": {"annotations": {"a": "b"}}});
        let expected =
            json!({"op": "add", "path": "/metadata/annotations/kubernetes.io~1change-cause", "value": "why"});
        assert_eq!(annotated(Patch::Json(vec![]), &live, annotations()), Patch::Json(vec![expected]));
    }
}
