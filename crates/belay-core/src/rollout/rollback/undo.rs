//! An undo by hand: the revision that is meant, and the treatment of a workload that belay has not applied.

use serde_json::{Map, Value, json};

use super::target::Revision;
use crate::rollout::{Workload, marks, same_template, template};

/// Annotations of a Deployment that are its own: an undo leaves them as they are, and takes none of them from a revision.
const ITS_OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    marks::REVISION,
    "deployment.kubernetes.io/revision-history",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
];

/// The reason for which no revision matches. The texts are kubectl's where kubectl refuses too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTarget {
    /// The cluster keeps none.
    #[error("no rollout history found for {0}")]
    NoHistory(String),
    /// There is only the present one.
    #[error("no last revision to roll back to")]
    NoLast,
    /// There is none of that number.
    #[error("unable to find specified revision {0} in history")]
    Unknown(i64),
    /// Each of them is marked as failed.
    #[error("every earlier revision has failed; --to-revision takes one of them all the same: {0}")]
    AllFailed(String),
}

/// Returns the revision that an undo means, of `all`, the newest first: the one with that number; or, with 0, the one
/// before the present, passing over those that are marked as failed. `named` is the workload in kubectl's words,
/// `deployment "web"`.
///
/// # Errors
/// [`NoTarget`].
pub fn target<'r>(
    workload: Workload,
    named: &str,
    live: &Value,
    all: &'r [Revision],
    number: i64,
) -> Result<&'r Revision, NoTarget> {
    if number < 0 {
        return Err(NoTarget::Unknown(number));
    }
    if all.is_empty() {
        return Err(match workload {
            Workload::Deployment => NoTarget::NoHistory(named.to_owned()),
            _ if number == 0 => NoTarget::NoLast,
            _ => NoTarget::Unknown(number),
        });
    }
    if number > 0 {
        return all.iter().find(|revision| revision.number == number).ok_or(NoTarget::Unknown(number));
    }
    let earlier = all.get(1..).unwrap_or_default();
    let present = template(live);
    let Some(before) = earlier.first() else {
        return Err(match workload {
            Workload::Deployment => NoTarget::NoHistory(named.to_owned()),
            _ => NoTarget::NoLast,
        });
    };
    let usable = |revision: &&Revision| {
        !revision.failed && !present.is_some_and(|present| same_template(present, &revision.template))
    };
    if !earlier.iter().any(|revision| revision.failed) {
        return Ok(before);
    }
    earlier.iter().find(usable).ok_or_else(|| {
        let numbers: Vec<String> = earlier.iter().map(|revision| revision.number.to_string()).collect();
        NoTarget::AllFailed(numbers.join(", "))
    })
}

/// Returns the operations of a JSON patch that take a workload back which belay has not applied, as kubectl would: the
/// template; and for a Deployment, whose revisions carry its annotations, those too. `keeper` is the object that keeps
/// the revision.
#[must_use]
pub fn as_kubectl_would(workload: Workload, live: &Value, keeper: Option<&Value>, template: &Value) -> Vec<Value> {
    let mut operations = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": marks::uid(live)}),
        json!({"op": "replace", "path": "/spec/template", "value": template}),
    ];
    if let (Workload::Deployment, Some(keeper)) = (workload, keeper) {
        let of = |object: &Value, own: bool| -> Map<String, Value> {
            let all = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            all.into_iter().filter(|(name, _)| ITS_OWN.contains(&name.as_str()) == own).collect()
        };
        let annotations: Map<String, Value> = of(live, true).into_iter().chain(of(keeper, false)).collect();
        operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": annotations}));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::revisions;

    fn all(marked: &[(i64, &str)]) -> Vec<Revision> {
        let keeper = |(number, cause): &(i64, &str)| {
            json!({"metadata": {"name": format!("web-{number}"), "annotations": {
                marks::REVISION: number.to_string(), marks::CHANGE_CAUSE: cause}},
                "spec": {"template": {"spec": {"containers": [{"name": "app", "image": format!("web:{number}")}]}}}})
        };
        revisions(&marked.iter().map(keeper).collect::<Vec<_>>())
    }

    fn live(number: i64) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": format!("web:{number}")}]}}}})
    }

    fn number(present: i64, marked: &[(i64, &str)], number: i64) -> Result<i64, NoTarget> {
        let all = all(marked);
        target(Workload::Deployment, "deployment \"web\"", &live(present), &all, number).map(|found| found.number)
    }

    #[test]
    fn the_one_before_the_present_is_meant() {
        assert_eq!(number(3, &[(1, ""), (2, ""), (3, "")], 0), Ok(2));
        assert_eq!(number(3, &[(1, ""), (3, "")], 1), Ok(1));
    }

    #[test]
    fn one_that_failed_only_when_it_is_named() {
        assert_eq!(number(3, &[(1, ""), (2, "x — failed: crash"), (3, "")], 0), Ok(1));
        assert_eq!(number(3, &[(1, ""), (2, "x — failed: crash"), (3, "")], 2), Ok(2));
        assert_eq!(number(3, &[(2, "x — failed: crash"), (3, "")], 0), Err(NoTarget::AllFailed("2".to_owned())));
    }

    #[test]
    fn what_kubectl_refuses_is_refused() {
        assert_eq!(number(1, &[(1, "")], -1), Err(NoTarget::Unknown(-1)));
        assert_eq!(number(1, &[(1, "")], 7), Err(NoTarget::Unknown(7)));
        let nothing = number(1, &[(1, "")], 0).unwrap_err();
        assert_eq!(nothing.to_string(), "no rollout history found for deployment \"web\"");
        let one = all(&[(1, "")]);
        let none = target(Workload::DaemonSet, "daemonset \"web\"", &live(1), &one, 0);
        assert_eq!(none.unwrap_err().to_string(), "no last revision to roll back to");
    }

    #[test]
    fn annotations_come_back_with_the_revision() {
        let live = json!({"metadata": {"uid": "1", "annotations": {marks::REVISION: "3", "mine": "gone"}}});
        let keeper = json!({"metadata": {"annotations": {marks::REVISION: "1", marks::CHANGE_CAUSE: "first"}}});
        let operations = as_kubectl_would(Workload::Deployment, &live, Some(&keeper), &json!({"spec": {}}));
        assert_eq!(operations[2]["value"], json!({marks::REVISION: "3", marks::CHANGE_CAUSE: "first"}));
    }
}
