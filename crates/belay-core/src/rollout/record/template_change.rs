//! The change of a pod template by a commit, as it is reported.

use serde_json::Value;

use crate::rollout::marks::{CONFIG_HASH, RESTARTED_AT};
use crate::rollout::{Change, PlanStep, Trigger};

/// The path of the pod template in a workload.
const TEMPLATE: &str = "spec.template.";

/// The path of its annotations.
const ANNOTATIONS: &str = "spec.template.metadata.annotations";

impl Trigger {
    /// Returns the published trigger: of a commit, by the plan's change of the pod template.
    #[must_use]
    pub fn told(&self, action: &PlanStep) -> Trigger {
        match action {
            PlanStep::Apply(apply) if self.is_commit() && apply.replaces_template() => of_changes(&apply.changes),
            _ => self.clone(),
        }
    }
}

/// Returns the trigger for a commit that changes these fields of a workload which had a pod template before.
fn of_changes(changes: &[Change]) -> Trigger {
    let template: Vec<&Change> = changes.iter().filter(|change| change.path.starts_with(TEMPLATE)).collect();
    let only = |name: &str| !template.is_empty() && template.iter().all(|change| is_annotation(change, name));
    if template.iter().any(|change| is_image(change, &template)) {
        Trigger::NewImage
    } else if only(CONFIG_HASH) {
        Trigger::ConfigChange
    } else if only(RESTARTED_AT) {
        Trigger::Restart(None)
    } else {
        Trigger::Commit
    }
}

/// Returns true when it is the image of a container, and not another container in its place.
fn is_image(change: &Change, all: &[&Change]) -> bool {
    let Some(container) = change.path.strip_suffix(".image") else { return false };
    let of_pod = ["containers[", "initContainers["].iter().any(|list| {
        let index = container.strip_prefix("spec.template.spec.").and_then(|rest| rest.strip_prefix(list));
        index.and_then(|rest| rest.strip_suffix(']')).is_some_and(|index| index.bytes().all(|b| b.is_ascii_digit()))
    });
    of_pod && all.iter().all(|other| other.path != format!("{container}.name"))
}

/// Returns true when this annotation of the pod template is all that changes.
fn is_annotation(change: &Change, name: &str) -> bool {
    let only = |side: &Option<Value>| match side {
        Some(Value::Object(annotations)) => annotations.keys().all(|key| key == name),
        Some(_) => false,
        None => true,
    };
    match change.path.strip_prefix(ANNOTATIONS) {
        Some("") => only(&change.before) && only(&change.after),
        Some(entry) => entry == format!("[{name}]"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rollout::changes;

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {
            "initContainers": [{"name": "prepare", "image": "tool:1"}],
            "containers": [{"name": "app", "image": "web:1"}, {"name": "proxy", "image": "proxy:1"}],
            "volumes": [{"name": "site", "image": {"reference": "site:1"}}]}})
    }

    fn of(after: &Value) -> Trigger {
        let workload = |template: &Value| json!({"kind": "Deployment", "spec": {"template": template}});
        of_changes(&changes(&workload(&template()), &workload(after)))
    }

    #[test]
    fn what_a_commit_changes_says_what_it_is() {
        let changed = |pointer: &str, value: Value| {
            let mut template = template();
            *template.pointer_mut(pointer).unwrap() = value;
            of(&template)
        };
        assert_eq!(changed("/spec/containers/1/image", json!("proxy:2")), Trigger::NewImage);
        assert_eq!(changed("/spec/initContainers/0/image", json!("tool:2")), Trigger::NewImage);
        assert_eq!(changed("/spec/volumes/0/image/reference", json!("site:2")), Trigger::Commit);
        assert_eq!(changed("/spec/containers/1/name", json!("other")), Trigger::Commit);
        let (app, proxy) = (template()["spec"]["containers"][0].clone(), template()["spec"]["containers"][1].clone());
        assert_eq!(changed("/spec/containers", json!([proxy, app])), Trigger::Commit, "another order");
        let image = json!([{"name": "app", "image": "web:2", "env": [{"name": "A", "value": "b"}]}]);
        assert_eq!(changed("/spec/containers", image), Trigger::NewImage, "and something else");
    }

    #[test]
    fn an_annotation_that_is_all_that_changes_says_it_too() {
        let annotated = |annotations: Value| {
            let mut template = template();
            template["metadata"]["annotations"] = annotations;
            template
        };
        let hash = annotated(json!({CONFIG_HASH: "1"}));
        assert_eq!(of(&hash), Trigger::ConfigChange, "the first one");
        let restarted = annotated(json!({RESTARTED_AT: "2026-01-01T00:00:00Z"}));
        assert_eq!(of(&restarted), Trigger::Restart(None));
        assert_eq!(of(&annotated(json!({CONFIG_HASH: "1", "team": "a"}))), Trigger::Commit);
        let workload = |template: &Value| json!({"kind": "Deployment", "spec": {"template": template}});
        let before = workload(&annotated(json!({CONFIG_HASH: "1", "team": "a"})));
        let mut after = workload(&annotated(json!({CONFIG_HASH: "2", "team": "a"})));
        assert_eq!(of_changes(&changes(&before, &after)), Trigger::ConfigChange);
        after["spec"]["replicas"] = json!(3);
        assert_eq!(
            of_changes(&changes(&before, &after)),
            Trigger::ConfigChange,
            "replicas are no part of the template"
        );
        after["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
        assert_eq!(of_changes(&changes(&before, &after)), Trigger::NewImage);
        assert_eq!(of_changes(&[]), Trigger::Commit);
    }

    #[test]
    fn every_word_is_read_again() {
        let who = || "ada".to_owned();
        let object = || crate::manifest::ObjectKey {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: None,
            name: "web".into(),
        };
        let all = [
            Trigger::Commit,
            Trigger::NewImage,
            Trigger::ConfigChange,
            Trigger::Restart(None),
            Trigger::Restart(Some(who())),
            Trigger::Autoscaler(object()),
            Trigger::Retry,
            Trigger::UndoByHand(who()),
            Trigger::Drift(who()),
            Trigger::Together(object()),
            Trigger::After(who()),
            Trigger::RollingUpdate(who()),
            Trigger::Rebuilt,
        ];
        for trigger in all {
            let read = Trigger::of_word(trigger.word(), trigger.who().map(Into::into), trigger.object().cloned());
            assert_eq!(read.as_ref(), Some(&trigger));
            let json = serde_json::to_value(&trigger).unwrap();
            assert_eq!((json["by"].as_str(), json["who"].as_str()), (Some(trigger.word()), trigger.who().as_deref()));
        }
        assert_eq!(Trigger::of_word("weather", None, None), None);
    }

    #[test]
    fn only_a_commit_is_told_by_what_it_changes() {
        assert_eq!(Trigger::Commit.told(&PlanStep::Unchanged), Trigger::Commit);
        assert_eq!(Trigger::Retry.told(&PlanStep::Unchanged), Trigger::Retry);
    }
}
