//! Revisions: their numbers, and the annotations that go from a Deployment to its ReplicaSet. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::sizes::ScalePlan;
use crate::controllers::key::annotation;

/// The revision's number.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that it had before, oldest first.
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's size when the ReplicaSet was last scaled.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The Deployment's greatest size when the ReplicaSet was last scaled.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// A request to go back to a revision; 0 for the one before.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The history of a revision's numbers has at most so many characters.
const LONGEST_HISTORY: usize = 2000;

/// Annotations that stay where they are.
const NOT_COPIED: [&str; 6] = [LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, ROLLBACK_TO];

/// Returns the revision's number: 0 if there is none, `None` if it is no number.
pub fn number(metadata: &ObjectMeta) -> Option<i64> {
    annotation(metadata, REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// Returns the greatest number of all; texts that are no number do not count.
pub fn greatest<'a>(of: impl Iterator<Item = &'a ObjectMeta>) -> i64 {
    of.filter_map(number).max().unwrap_or(0).max(0)
}

/// Returns the second greatest number of all, 0 if there is none: the revision before the present one.
pub fn second_greatest<'a>(of: impl Iterator<Item = &'a ObjectMeta>) -> i64 {
    let (mut first, mut second) = (0, 0);
    for number in of.filter_map(number) {
        if number >= first {
            second = first;
            first = number;
        } else if number > second {
            second = number;
        }
    }
    second
}

/// Returns a number in an annotation, if it is there and is one.
pub fn annotated(metadata: &ObjectMeta, name: &str) -> Option<i32> {
    annotation(metadata, name)?.parse().ok()
}

/// The choice if the new ReplicaSet exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does.
    There,
    /// It is about to be made.
    ToBeMade,
}

/// Brings the annotations of the new ReplicaSet up to date: the Deployment's own are copied, its number is raised to
/// `target` (never lowered), a number that it had before goes to its history. Returns whether something changed.
pub fn annotate(
    deployment: &ObjectMeta,
    set: &mut ObjectMeta,
    target: i64,
    presence: Presence,
    plan: &ScalePlan,
) -> bool {
    let mut changed = copy(deployment, set);
    let annotations = set.annotations.get_or_insert_default();
    let before = annotations.get(REVISION).cloned();
    let before_number = match before.as_deref() {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return false,
        },
    };
    if before_number < target {
        annotations.insert(REVISION.to_owned(), target.to_string());
        changed = true;
        if let Some(before) = before {
            remember(annotations, &before);
        }
    }
    if presence == Presence::ToBeMade && set_sizes(set, plan) {
        changed = true;
    }
    changed
}

fn copy(deployment: &ObjectMeta, set: &mut ObjectMeta) -> bool {
    let mut changed = false;
    for (name, value) in deployment.annotations.iter().flatten() {
        if NOT_COPIED.contains(&name.as_str()) {
            continue;
        }
        let annotations = set.annotations.get_or_insert_default();
        if annotations.get(name) != Some(value) {
            annotations.insert(name.clone(), value.clone());
            changed = true;
        }
    }
    changed
}

/// Appends a number to the history; the oldest are dropped if it would grow too long.
fn remember(annotations: &mut BTreeMap<String, String>, number: &str) {
    let history = annotations.get(HISTORY).cloned().unwrap_or_default();
    if history.is_empty() {
        annotations.insert(HISTORY.to_owned(), number.to_owned());
        return;
    }
    let mut kept = history.as_str();
    while kept.len() + number.len() + 1 > LONGEST_HISTORY {
        match kept.split_once(',') {
            Some((_, rest)) => kept = rest,
            None => {
                kept = "";
                break;
            }
        }
    }
    let line = if kept.is_empty() { number.to_owned() } else { format!("{kept},{number}") };
    if line.len() <= LONGEST_HISTORY {
        annotations.insert(HISTORY.to_owned(), line);
    }
}

/// Notes the Deployment's sizes on a ReplicaSet. Returns whether that changed something.
pub fn set_sizes(set: &mut ObjectMeta, plan: &ScalePlan) -> bool {
    let needed = sizes_differ(set, plan);
    if needed {
        let annotations = set.annotations.get_or_insert_default();
        annotations.insert(DESIRED.to_owned(), plan.size.to_string());
        annotations.insert(MAX.to_owned(), plan.max_size().to_string());
    }
    needed
}

/// Returns true when the sizes noted on a ReplicaSet are not the Deployment's.
pub fn sizes_differ(set: &ObjectMeta, plan: &ScalePlan) -> bool {
    annotation(set, DESIRED) != Some(plan.size.to_string().as_str())
        || annotation(set, MAX) != Some(plan.max_size().to_string().as_str())
}

/// Returns the annotations of a Deployment after going back to a ReplicaSet: its own bookkeeping stays, the rest is the
/// ReplicaSet's.
pub fn annotations_after_rollback(deployment: &ObjectMeta, set: &ObjectMeta) -> BTreeMap<String, String> {
    let is_ours = |name: &str| NOT_COPIED.contains(&name);
    let own = deployment.annotations.iter().flatten().filter(|(name, _)| is_ours(name));
    let from_set = set.annotations.iter().flatten().filter(|(name, _)| !is_ours(name));
    own.chain(from_set).map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::{DESIRED, HISTORY, LAST_APPLIED, LONGEST_HISTORY, MAX, ObjectMeta, Presence, REVISION, ScalePlan};
    use super::{annotate, annotations_after_rollback, greatest, second_greatest};

    const PLAN: ScalePlan = ScalePlan { size: 3, rolling: None };

    fn annotated(pairs: &[(&str, &str)]) -> ObjectMeta {
        let annotations = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() }
    }

    fn get<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
        metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    #[test]
    fn the_new_one_gets_the_deployments_annotations_and_the_next_number() {
        let deployment = annotated(&[("test", "x"), (LAST_APPLIED, "y"), (REVISION, "7")]);
        let mut set = annotated(&[("mine", "z")]);
        assert!(annotate(&deployment, &mut set, 3, Presence::ToBeMade, &PLAN));
        let expected = [("test", Some("x")), (LAST_APPLIED, None), (REVISION, Some("3")), ("mine", Some("z"))];
        for (name, value) in expected.into_iter().chain([(DESIRED, Some("3")), (MAX, Some("3")), (HISTORY, None)]) {
            assert_eq!(get(&set, name), value, "{name}");
        }
        assert!(!annotate(&deployment, &mut set, 2, Presence::There, &PLAN), "never lowered");
        assert!(annotate(&deployment, &mut set, 5, Presence::There, &PLAN));
        assert_eq!((get(&set, REVISION), get(&set, HISTORY)), (Some("5"), Some("3")));
        annotate(&deployment, &mut set, 6, Presence::There, &PLAN);
        assert_eq!(get(&set, HISTORY), Some("3,5"));
        let mut odd = annotated(&[(REVISION, "first")]);
        assert!(!annotate(&deployment, &mut odd, 6, Presence::There, &PLAN));
    }

    #[test]
    fn the_history_stays_short() {
        let deployment = ObjectMeta::default();
        let mut set = annotated(&[(REVISION, "100000")]);
        for target in 100_001..101_000 {
            annotate(&deployment, &mut set, target, Presence::There, &PLAN);
        }
        let history = get(&set, HISTORY).unwrap();
        assert!(history.len() <= LONGEST_HISTORY && history.ends_with(",100998"), "{history}");
        assert_eq!(history.split(',').count(), 285);
    }

    #[test]
    fn revisions_are_numbers_of_64_bits() {
        let all = [
            annotated(&[(REVISION, "3546343826724305832")]),
            annotated(&[(REVISION, "x")]),
            ObjectMeta::default(),
            annotated(&[(REVISION, "9")]),
        ];
        assert_eq!(greatest(all.iter()), 3_546_343_826_724_305_832);
        assert_eq!(second_greatest(all.iter()), 9);
        assert_eq!(second_greatest(all[..1].iter()), 0);
    }

    #[test]
    fn going_back_replaces_all_annotations_but_the_bookkeeping() {
        let deployment = annotated(&[("a", "1"), (REVISION, "4"), (LAST_APPLIED, "l")]);
        let set = annotated(&[("b", "2"), (REVISION, "2"), (DESIRED, "3")]);
        let after = annotations_after_rollback(&deployment, &set);
        let names: Vec<(&str, &str)> = after.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(names, [("b", "2"), (REVISION, "4"), (LAST_APPLIED, "l")]);
    }
}
