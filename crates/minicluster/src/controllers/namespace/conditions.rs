//! The conditions of a namespace that is going, about the objects that hold it. Pure.

use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::contents::Remains;

/// Brings the conditions up to date. Returns whether one of them changed.
pub fn update(conditions: &mut Option<Vec<NamespaceCondition>>, remains: &Remains, now: &Time) -> bool {
    let list = conditions.get_or_insert_default();
    let mut changed = false;
    for new in wanted(remains, now) {
        match list.iter_mut().find(|present| present.type_ == new.type_) {
            Some(present) if present.status == new.status && present.message == new.message => {}
            Some(present) => {
                let since = (present.status == new.status).then(|| present.last_transition_time.clone()).flatten();
                *present = NamespaceCondition { last_transition_time: since.or(new.last_transition_time), ..new };
                changed = true;
            }
            None => {
                list.push(new);
                changed = true;
            }
        }
    }
    changed
}

fn wanted(remains: &Remains, now: &Time) -> Vec<NamespaceCondition> {
    let condition = |kind: &str, held: bool, reason: &str, message: String| NamespaceCondition {
        type_: kind.to_owned(),
        status: if held { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(now.clone()),
    };
    let fine = |kind: &str, reason: &str, message: &str| condition(kind, false, reason, message.to_owned());
    let deleted = if remains.errors.is_empty() {
        let message = "All content successfully deleted, may be waiting on finalization";
        fine("NamespaceDeletionContentFailure", "ContentDeleted", message)
    } else {
        let message = format!(
            "Failed to delete all resource types, {} remaining: {}",
            remains.errors.len(),
            remains.errors.join(", ")
        );
        condition("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", message)
    };
    let remaining = if remains.objects.is_empty() {
        fine("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed")
    } else {
        let each: Vec<String> =
            remains.objects.iter().map(|(kind, count)| format!("{kind} has {count} resource instances")).collect();
        let message = format!("Some resources are remaining: {}", each.join(", "));
        condition("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
    };
    let finalizers = if remains.finalizers.is_empty() {
        let message = "All content-preserving finalizers finished";
        fine("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", message)
    } else {
        let each: Vec<String> =
            remains.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
        let message = format!("Some content in the namespace has finalizers remaining: {}", each.join(", "));
        condition("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
    };
    vec![
        fine("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        fine(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        deleted,
        remaining,
        finalizers,
    ]
}

#[cfg(test)]
mod tests {
    use super::{Remains, Time, update};

    #[test]
    fn what_is_left_is_told_until_it_is_gone() {
        let now = |second| Time(jiff::Timestamp::from_second(second).unwrap());
        let mut conditions = None;
        let held = Remains {
            objects: [("pods".to_owned(), 2)].into(),
            finalizers: [("example.com/hold".to_owned(), 1)].into(),
            errors: Vec::new(),
        };
        assert!(update(&mut conditions, &held, &now(1)));
        assert!(!update(&mut conditions, &held, &now(2)));
        let list = conditions.as_ref().unwrap();
        assert_eq!(list.len(), 5);
        assert_eq!(list[3].message.as_deref(), Some("Some resources are remaining: pods has 2 resource instances"));
        assert!(update(&mut conditions, &Remains::default(), &now(3)));
        let list = conditions.unwrap();
        assert!(list.iter().all(|condition| condition.status == "False"));
        let times: Vec<i64> =
            list.iter().map(|condition| condition.last_transition_time.as_ref().unwrap().0.as_second()).collect();
        assert_eq!(times, [1, 1, 1, 3, 3]);
    }
}
