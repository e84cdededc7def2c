//! The goal of an undo: a revision that the cluster keeps; past its history limit one that the history kept, or that
//! Git had.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use serde_json::Value;

use super::memory::UndoHistory;
use crate::cli::args::target::Target;
use belay_core::rollout::{Revision, TemplateMarks, Workload, marks, target as revision_meant};

/// A pod template to go back to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Goal {
    pub template: Value,
    pub marks: TemplateMarks,
    /// The object that keeps it, if the cluster does.
    pub keeper: String,
    /// The request, `revision 3`, in kubectl's words.
    pub asked: String,
    /// The description: `revision 3 (1a2b3c4 Cache headers (Ada))`.
    pub describe: String,
}

/// Returns the revision of that number; 0 for the one before the present.
pub(super) fn of_revision(target: &Target, workload: Workload, all: &[Revision], number: i64) -> anyhow::Result<Goal> {
    let revision = revision_meant(workload, &in_words(target), &target.live, all, number)?;
    Ok(of(revision, format!("revision {number}")))
}

fn of(revision: &Revision, asked: String) -> Goal {
    let describe = match &revision.marks.change_cause {
        Some(cause) => format!("revision {} ({cause})", revision.number),
        None => format!("revision {}", revision.number),
    };
    Goal {
        template: revision.template.clone(),
        marks: revision.marks.clone(),
        keeper: revision.name.clone(),
        asked,
        describe,
    }
}

/// Finds the template of a commit, by its first digits.
pub(super) fn of_commit(memory: &UndoHistory, target: &Target, all: &[Revision], digits: &str) -> anyhow::Result<Goal> {
    let made = |revision: &&Revision| revision.marks.commit.as_deref().is_some_and(|commit| commit.starts_with(digits));
    let found: BTreeSet<&str> =
        all.iter().filter(made).filter_map(|revision| revision.marks.commit.as_deref()).collect();
    if found.len() > 1 {
        let all: Vec<&str> = found.iter().map(|commit| &commit[..commit.len().min(12)]).collect();
        bail!("{digits:?} is the beginning of several commits: {}", all.join(", "));
    }
    if let Some(revision) = all.iter().find(made) {
        return Ok(of(revision, format!("commit {digits}")));
    }
    let source = marks::label(&target.live, marks::SOURCE).unwrap_or_default();
    match memory.template_of(source, target, digits)? {
        Some((commit, template)) => Ok(Goal {
            template,
            describe: format!("the manifest of commit {}", commit.change_cause()),
            marks: TemplateMarks::of(&commit),
            keeper: String::new(),
            asked: format!("commit {digits}"),
        }),
        None => {
            let short = |commit: &String| commit.chars().take(7).collect::<String>();
            let mut known: Vec<String> =
                all.iter().filter_map(|revision| revision.marks.commit.as_ref().map(short)).collect();
            known.dedup();
            Err(no_such_commit(digits, target, &known))
        }
    }
}

/// Returns a workload in kubectl's words, `deployment "web"`.
pub(super) fn in_words(target: &Target) -> String {
    let key = &target.key;
    format!("{} {:?}", key.kind.to_lowercase(), key.name)
}

/// Returns the error for a commit that could not be found, with the existing ones.
pub(super) fn no_such_commit(commit: &str, target: &Target, known: &[String]) -> anyhow::Error {
    let known = match known {
        [] => "none of its revisions names its commit".to_owned(),
        known => format!("its revisions are of {}", known.join(", ")),
    };
    anyhow!("no pod template of {} is known that commit {commit} made; {known}", in_words(target))
}
