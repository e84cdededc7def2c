//! The revision to go back to, and the workload with its template.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::rollout::{CommitId, TemplateMarks, marks, same_template, without_controllers_labels};

/// An earlier pod template of a workload, as the cluster keeps it: a ReplicaSet's, or a ControllerRevision's.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Its number.
    pub number: i64,
    /// The numbers that it had before, if it was used again and says so.
    pub formerly: Vec<i64>,
    /// The name of the object that keeps it.
    pub name: String,
    /// The template, without the labels that controllers add.
    pub template: Value,
    /// Its marks about the commit that made it.
    pub marks: TemplateMarks,
    /// True when it is marked as failed.
    pub failed: bool,
    /// The reason in the mark.
    pub why: Option<String>,
    /// When the object that keeps it was made.
    pub created: Option<Timestamp>,
}

impl Revision {
    /// Returns the first number that it is known to have had. A revision that is used again gets a new one.
    #[must_use]
    pub fn first_number(&self) -> i64 {
        self.formerly.iter().copied().fold(self.number, i64::min)
    }
}

/// Returns the revisions in the objects that keep them (ReplicaSets or ControllerRevisions of one workload), the newest
/// first. Objects that keep no readable template are left out.
#[must_use]
pub fn revisions(keepers: &[Value]) -> Vec<Revision> {
    let mut found: Vec<Revision> = keepers.iter().filter_map(revision).collect();
    found.sort_by(|one, other| other.number.cmp(&one.number).then_with(|| one.name.cmp(&other.name)));
    found
}

/// Returns true when an object that keeps a revision keeps this template.
#[must_use]
pub fn keeps_template(keeper: &Value, template: &Value) -> bool {
    revision(keeper).is_some_and(|kept| same_template(&kept.template, template))
}

fn revision(keeper: &Value) -> Option<Revision> {
    let kept = keeper["spec"].get("template").or_else(|| keeper.pointer("/data/spec/template"))?;
    let mut template = without_controllers_labels(kept);
    if let Some(template) = template.as_object_mut() {
        // A ControllerRevision keeps its template as a patch.
        template.remove("$patch");
    }
    let mark = marks::annotation(keeper, marks::CHANGE_CAUSE).and_then(|cause| cause.split_once(marks::FAILED));
    let formerly = marks::annotation(keeper, marks::REVISION_HISTORY).unwrap_or_default();
    Some(Revision {
        number: marks::revision(keeper).unwrap_or_default(),
        formerly: formerly.split(',').filter_map(|number| number.trim().parse().ok()).collect(),
        name: keeper["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        template,
        marks: TemplateMarks::on(keeper),
        failed: mark.is_some(),
        why: mark.map(|(_, why)| why.to_owned()),
        created: keeper["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok()),
    })
}

/// A template that is known from elsewhere than the cluster: from the history, if it was seen complete or if a rollout
/// took its place, or from Git.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The commit that it belongs to; `None` if others made it.
    pub commit: Option<CommitId>,
    /// The template.
    pub template: Value,
    /// The marks for the workload.
    pub marks: TemplateMarks,
}

/// The rollback target of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct RollbackTarget {
    /// The template.
    pub template: Value,
    /// The marks for the workload.
    pub marks: TemplateMarks,
    /// The number of the revision, if the cluster still has it.
    pub revision: Option<i64>,
    /// The commit that made it, if that is known.
    pub commit: Option<CommitId>,
}

impl fmt::Display for RollbackTarget {
    /// Writes `revision 3 (1a2b3c4 Cache headers (Ada))`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.marks.change_cause, self.revision) {
            (Some(cause), Some(revision)) => write!(f, "revision {revision} ({cause})"),
            (Some(cause), None) => f.write_str(cause),
            (None, Some(revision)) => write!(f, "revision {revision}"),
            (None, None) => f.write_str("an earlier template"),
        }
    }
}

/// The reason for which there is no rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRollbackTarget {
    /// The workload has had no other template.
    #[error("it is the first revision: there is nothing to go back to")]
    First,
    /// Every other revision is marked as failed.
    #[error("every earlier revision has failed too")]
    AllFailed,
    /// Every other revision has failed, or was not well when it was replaced.
    #[error("there is no good revision: every earlier one has failed, or was not well when it was replaced")]
    NoneWell,
}

/// Returns the rollback target for `failing`: the newest template that was seen complete (`good`, from the history); if
/// the history knows none, the newest revision before the present; else the former templates `before`, the first first.
/// Never one that has failed.
///
/// # Errors
/// [`NoRollbackTarget`] if there is none.
pub fn rollback_target(
    failing: &Value,
    good: Option<&Known>,
    revisions: &[Revision],
    before: &[Known],
) -> Result<RollbackTarget, NoRollbackTarget> {
    let others = || revisions.iter().filter(|revision| !same_template(&revision.template, failing));
    let failed =
        |template: &Value| others().any(|revision| revision.failed && same_template(&revision.template, template));
    let usable = |known: &&Known| !same_template(&known.template, failing) && !failed(&known.template);
    if let Some(good) = good.filter(usable) {
        return Ok(to_known(good, revisions));
    }
    if let Some(revision) = others().find(|revision| !revision.failed) {
        return Ok(to_revision(revision));
    }
    if let Some(before) = before.iter().find(usable) {
        return Ok(to_known(before, revisions));
    }
    Err(if others().next().is_some() { NoRollbackTarget::AllFailed } else { NoRollbackTarget::First })
}

fn to_known(known: &Known, revisions: &[Revision]) -> RollbackTarget {
    // The cluster's own form of it is preferred: equal to the letter, so that the revision is used again.
    match revisions.iter().find(|revision| same_template(&revision.template, &known.template)) {
        Some(revision) => {
            RollbackTarget { commit: known.commit.clone(), marks: known.marks.clone(), ..to_revision(revision) }
        }
        None => RollbackTarget {
            template: without_controllers_labels(&known.template),
            marks: known.marks.clone(),
            revision: None,
            commit: known.commit.clone(),
        },
    }
}

fn to_revision(revision: &Revision) -> RollbackTarget {
    RollbackTarget {
        template: revision.template.clone(),
        marks: revision.marks.clone(),
        revision: Some(revision.number),
        commit: revision.marks.commit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    fn template(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": image}]}})
    }

    fn replica_set(number: i64, image: &str, cause: &str) -> Value {
        let mut template = template(image);
        template["metadata"]["labels"]["pod-template-hash"] = json!(format!("h{number}"));
        json!({"metadata": {"name": format!("web-{number}"), "annotations": {
            marks::REVISION: number.to_string(), marks::CHANGE_CAUSE: cause}}, "spec": {"template": template}})
    }

    fn good(image: &str) -> Known {
        Known { commit: Some(COMMIT.parse().unwrap()), template: template(image), marks: TemplateMarks::default() }
    }

    #[test]
    fn the_first_revision_has_no_way_back() {
        let all = revisions(&[replica_set(1, "web:1", "first")]);
        assert_eq!(rollback_target(&template("web:1"), None, &all, &[]), Err(NoRollbackTarget::First));
    }

    #[test]
    fn without_knowledge_it_is_the_one_before() {
        let all =
            revisions(&[replica_set(1, "web:1", "a"), replica_set(3, "web:3", "c"), replica_set(2, "web:2", "b")]);
        let back = rollback_target(&template("web:3"), None, &all, &[]).unwrap();
        assert_eq!((back.revision, back.marks.change_cause.as_deref()), (Some(2), Some("b")));
        assert_eq!(back.template, template("web:2"));
    }

    #[test]
    fn what_was_seen_complete_comes_first() {
        let all =
            revisions(&[replica_set(1, "web:1", "a"), replica_set(2, "web:2", "b"), replica_set(3, "web:3", "c")]);
        let back = rollback_target(&template("web:3"), Some(&good("web:1")), &all, &[]).unwrap();
        assert_eq!((back.revision, back.commit.unwrap().as_str()), (Some(1), COMMIT));
    }

    #[test]
    fn past_the_history_limit_the_record_has_the_template() {
        let all = revisions(&[replica_set(3, "web:3", "c")]);
        let back = rollback_target(&template("web:3"), Some(&good("web:1")), &all, &[]).unwrap();
        assert_eq!((back.revision, back.template), (None, template("web:1")));
        let back = rollback_target(&template("web:3"), None, &all, &[good("web:3"), good("web:2")]).unwrap();
        assert_eq!(back.template, template("web:2"));
    }

    #[test]
    fn never_to_one_that_failed() {
        let all = revisions(&[
            replica_set(1, "web:1", "a"),
            replica_set(2, "web:2", "b — failed: crash"),
            replica_set(3, "web:3", "c"),
        ]);
        assert_eq!(rollback_target(&template("web:3"), None, &all, &[]).unwrap().revision, Some(1));
        let back = rollback_target(&template("web:3"), Some(&good("web:2")), &all, &[]).unwrap();
        assert_eq!(back.revision, Some(1));
        let all = revisions(&[replica_set(2, "web:2", "b — failed: crash"), replica_set(3, "web:3", "c")]);
        assert_eq!(rollback_target(&template("web:3"), None, &all, &[]), Err(NoRollbackTarget::AllFailed));
    }
}
