//! The objects that may be deleted when their manifests have left the repository, and the limit for one commit.

use serde_json::Value;

use crate::manifest::ObjectKey;
use crate::rollout::{Commit, marks};

/// The trailer by which a commit allows more deletions than the limit: `Belay-Allow-Prune: 12`.
const TRAILER: &str = "Belay-Allow-Prune";

/// The decision if an object may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prunable {
    /// It may.
    Yes,
    /// It is not this source's, or belay did not put it there: nothing is done, and nothing said.
    NotOurs,
    /// It stays, and why.
    Stays(&'static str),
}

/// Decides if a live object whose manifest has left the repository may be deleted. `own_namespace` is the one that
/// belay itself is in.
#[must_use]
pub fn prunable(key: &ObjectKey, live: &Value, source: &str, own_namespace: &str) -> Prunable {
    let managed = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let applied =
        managed.clone().any(|entry| entry["manager"] == marks::FIELD_MANAGER && entry["operation"] == "Apply");
    if marks::label(live, marks::SOURCE) != Some(source) || !applied {
        return Prunable::NotOurs;
    }
    let kind = (key.group.as_str(), key.kind.as_str());
    if kind == ("", "Namespace") && key.name == own_namespace {
        return Prunable::Stays("it is belay's own namespace");
    }
    let precious =
        [("", "PersistentVolumeClaim"), ("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")];
    match marks::annotation(live, marks::PRUNE) {
        Some("false") => Prunable::Stays("its annotation belay.dev/prune says false"),
        Some("true") => Prunable::Yes,
        _ if precious.contains(&kind) => {
            Prunable::Stays("objects of its kind go only when their annotation belay.dev/prune says true")
        }
        _ => Prunable::Yes,
    }
}

/// Returns the most deletions that one of these commits allows by its trailer.
#[must_use]
pub fn allowed_by_trailer(commits: &[Commit]) -> Option<usize> {
    let trailers = commits.iter().flat_map(|commit| &commit.trailers);
    let allowed = trailers.filter(|(name, _)| name.eq_ignore_ascii_case(TRAILER));
    allowed.filter_map(|(_, number)| number.trim().parse().ok()).max()
}

/// Returns the message for a commit that would delete more than it may.
#[must_use]
pub fn too_many(objects: &[ObjectKey], limit: usize) -> String {
    const NAMED: usize = 20;
    let mut names: Vec<String> = objects.iter().take(NAMED).map(ToString::to_string).collect();
    if objects.len() > NAMED {
        names.push(format!("and {} more", objects.len() - NAMED));
    }
    let left = if objects.len() == 1 { "1 object has".to_owned() } else { format!("{} objects have", objects.len()) };
    format!(
        "{left} left the repository, and prune_limit allows {limit} to be deleted at once: nothing is deleted ({}); \
         if it is meant, say belay run --allow-prune, or push a commit with the trailer {TRAILER}: {}",
        names.join(", "),
        objects.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(group: &str, kind: &str, name: &str) -> ObjectKey {
        ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace: None, name: name.to_owned() }
    }

    fn live(source: &str, prune: Option<&str>) -> Value {
        json!({"metadata": {"labels": {marks::SOURCE: source}, "annotations": {marks::PRUNE: prune},
            "managedFields": [{"manager": marks::FIELD_MANAGER, "operation": "Apply"}]}})
    }

    #[test]
    fn only_what_belay_put_there_goes() {
        let pod = key("", "ConfigMap", "a");
        assert_eq!(prunable(&pod, &live("shop", None), "shop", "belay"), Prunable::Yes);
        assert_eq!(prunable(&pod, &live("other", None), "shop", "belay"), Prunable::NotOurs);
        let mut copied = live("shop", None);
        copied["metadata"]["managedFields"] = json!([{"manager": "kubectl-create", "operation": "Update"}]);
        assert_eq!(prunable(&pod, &copied, "shop", "belay"), Prunable::NotOurs);
        assert!(matches!(prunable(&pod, &live("shop", Some("false")), "shop", "belay"), Prunable::Stays(_)));
    }

    #[test]
    fn what_holds_data_goes_only_when_it_says_so() {
        for (group, kind) in
            [("", "PersistentVolumeClaim"), ("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")]
        {
            let key = key(group, kind, "a");
            assert!(matches!(prunable(&key, &live("shop", None), "shop", "belay"), Prunable::Stays(_)), "{kind}");
            assert_eq!(prunable(&key, &live("shop", Some("true")), "shop", "belay"), Prunable::Yes, "{kind}");
        }
        let own = key("", "Namespace", "belay");
        assert!(matches!(prunable(&own, &live("shop", Some("true")), "shop", "belay"), Prunable::Stays(_)));
    }
}
