//! Decides if a pod template that somebody else wrote is one of the workload's own earlier ones: then the workload was
//! rolled back by hand, which is respected. Everything else by hand is drift.
//!
//! The order of revisions follows from their numbers, the numbers that they had before (a revision that is used again
//! gets a new one), and belay's records of its commits. Two revisions may be made within one second.

use serde_json::Value;

use crate::rollout::{Revision, same_template, template_hash};

/// The template that belay had rolled out when somebody else wrote the template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledOut {
    /// The hash of its template, as applied or as recorded; the surest first.
    pub templates: Vec<String>,
    /// The commits that may have made it, the surest first.
    pub commits: Vec<String>,
}

/// The recorded facts about one commit and the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// True when it was rolled out.
    pub rolled_out: bool,
    /// The hash of its template, if that was seen complete.
    pub template: Option<String>,
}

impl RolledOut {
    /// Returns its revision.
    fn find<'a>(&self, revisions: &'a [Revision]) -> Option<&'a Revision> {
        let by_hash = |hash: &String| revisions.iter().find(|one| template_hash(&one.template) == *hash);
        let by_commit = |commit: &String| {
            let of_it = revisions.iter().filter(|one| one.marks.commit.as_ref() == Some(commit));
            // A template that somebody else wrote on top of it bears its mark, too, and came later.
            of_it.min_by_key(|one| one.first_number())
        };
        let known = self.templates.iter().find_map(by_hash);
        known.or_else(|| self.commits.iter().find_map(by_commit))
    }
}

/// Returns the earlier revision that a workload with the template `present` was rolled back to by hand. `recorded`
/// knows belay's records of a commit. `None` for a template that is no earlier revision of the workload, and if nothing
/// is known to have been rolled out: a template that never was live can't be undone.
#[must_use]
pub fn manual_rollback<'a>(
    present: &Value,
    rolled_out: &RolledOut,
    revisions: &'a [Revision],
    recorded: impl Fn(&str) -> Recorded,
) -> Option<&'a Revision> {
    let ours = rolled_out.find(revisions)?;
    let back_to = revisions.iter().find(|one| same_template(&one.template, present))?;
    let is_earlier = back_to.name != ours.name
        && match &back_to.marks.commit {
            Some(commit) => {
                let recorded = recorded(commit);
                // The mark of a commit that belay knows nothing of is as good as none.
                let known = recorded.rolled_out || was_there_before(back_to, ours);
                known && !is_made_by_hand(back_to, commit, revisions, recorded.template.as_deref())
            }
            None => was_there_before(back_to, ours),
        };
    is_earlier.then_some(back_to)
}

/// Returns true when a revision that bears the mark of a commit is not the one that the commit made: somebody has
/// changed the template, and left the mark.
fn is_made_by_hand(revision: &Revision, commit: &str, revisions: &[Revision], recorded: Option<&str>) -> bool {
    if let Some(recorded) = recorded {
        return recorded != template_hash(&revision.template);
    }
    let bears_it = |other: &&Revision| other.marks.commit.as_deref() == Some(commit) && other.name != revision.name;
    revisions.iter().filter(bears_it).any(|other| other.first_number() < revision.first_number())
}

/// Returns true when a revision of which belay knows nothing existed before `ours`: it is from before belay's time.
fn was_there_before(revision: &Revision, ours: &Revision) -> bool {
    if revision.first_number() < ours.number {
        return true;
    }
    // A ControllerRevision that is used again does not say which number it had. Only one that is certain to be older counts.
    revision.formerly.is_empty() && revision.created.zip(ours.created).is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::{marks, revisions};
    use serde_json::json;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn template(image: u32) -> Value {
        json!({"spec": {"containers": [{"name": "app", "image": format!("web:{image}")}]}})
    }

    /// Returns a ReplicaSet: its image, number, former numbers, and the commit whose mark it bears.
    fn set(image: u32, number: u32, formerly: &str, commit: Option<&str>) -> Value {
        let mut annotations = json!({marks::REVISION: number.to_string()});
        if !formerly.is_empty() {
            annotations[marks::REVISION_HISTORY] = json!(formerly);
        }
        if let Some(commit) = commit {
            annotations[marks::COMMIT] = json!(commit);
        }
        json!({"metadata": {"name": format!("web-{image}"), "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"template": template(image)}})
    }

    fn back_to(present: u32, ours: u32, sets: &[Value], kept: &[(&str, u32)]) -> Option<String> {
        let all = revisions(sets);
        let rolled_out = RolledOut { templates: vec![template_hash(&template(ours))], commits: Vec::new() };
        let kept = |commit: &str| {
            let found = kept.iter().find(|(of, _)| *of == commit);
            let template = found.map(|(_, image)| template_hash(&template(*image)));
            Recorded { rolled_out: commit == A || commit == B, template }
        };
        manual_rollback(&template(present), &rolled_out, &all, kept).map(|one| one.name.clone())
    }

    #[test]
    fn an_earlier_revision_counts_though_it_was_made_in_the_same_second() {
        let sets = [set(1, 1, "", Some(A)), set(2, 2, "", Some(B))];
        assert_eq!(back_to(1, 2, &sets, &[]).as_deref(), Some("web-1"));
        assert_eq!(back_to(2, 2, &sets, &[]), None, "it is what was rolled out");
        assert_eq!(back_to(9, 2, &sets, &[]), None, "it is no revision");
    }

    #[test]
    fn what_a_revert_came_after_is_earlier() {
        let sets = [set(1, 3, "1", Some(A)), set(2, 2, "", Some(B))];
        assert_eq!(back_to(2, 1, &sets, &[]).as_deref(), Some("web-2"));
    }

    #[test]
    fn what_somebody_wrote_by_hand_is_no_earlier_one() {
        let fresh = [set(1, 1, "", Some(A)), set(2, 2, "", Some(B)), set(9, 3, "", Some(B))];
        assert_eq!(back_to(9, 2, &fresh, &[]), None);
        let put_right = [set(1, 1, "", Some(A)), set(2, 4, "2", Some(B)), set(9, 5, "3", Some(B))];
        assert_eq!(back_to(9, 2, &put_right, &[]), None, "also when it was put right before");
        assert_eq!(back_to(9, 2, &[set(9, 3, "", Some(B)), set(2, 4, "", Some(B))], &[(B, 2)]), None, "as recorded");
        let unmarked = [set(1, 1, "", Some(A)), set(2, 2, "", Some(B)), set(9, 3, "", None)];
        assert_eq!(back_to(9, 2, &unmarked, &[]), None, "without any mark");
        let unknown = [set(1, 1, "", Some(A)), set(2, 2, "", Some(B)), set(9, 3, "", Some("ffff"))];
        assert_eq!(back_to(9, 2, &unknown, &[]), None, "with the mark of a commit that nobody knows");
    }

    #[test]
    fn what_was_there_before_belay_is_earlier() {
        assert_eq!(back_to(1, 2, &[set(1, 1, "", None), set(2, 2, "", Some(B))], &[]).as_deref(), Some("web-1"));
        assert_eq!(back_to(1, 2, &[set(1, 3, "1", None), set(2, 2, "", Some(B))], &[]).as_deref(), Some("web-1"));
    }

    #[test]
    fn what_was_rolled_out_is_known_by_its_commit_too() {
        let all = revisions(&[set(1, 1, "", Some(A)), set(2, 2, "", Some(B)), set(9, 3, "", Some(B))]);
        let by_commit = |commit: &str| RolledOut { templates: Vec::new(), commits: vec![commit.to_owned()] };
        let to = |present: u32, commit: &str| {
            manual_rollback(&template(present), &by_commit(commit), &all, |_| Recorded::default())
        };
        assert_eq!(to(1, B).map(|one| one.number), Some(1));
        assert_eq!(to(9, B), None);
        assert_eq!(to(1, "cccc"), None, "nothing is known to have been rolled out");
    }
}
