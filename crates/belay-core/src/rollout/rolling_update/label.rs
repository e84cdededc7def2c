//! Makes the old controller tell its pods from those of the next one: a label, in an order that may break off anywhere.
//!
//! First the template, so that new pods have the label; then the pods there are; then the selector; then those are deleted
//! that were made in between without it.

use serde_json::{Value, json};

use super::build::digits;
use super::names::{Controller, labels, owner};
use super::{Ask, Live, NEXT, Step, Write};

/// Returns the next step by which `old` gets the label, and remembers the name of the next controller.
pub(super) fn step(ask: &Ask, old: Controller<'_>, next: &str, live: &Live) -> Option<Step> {
    let key = &ask.label_key;
    let remembers = old.annotation(NEXT) == Some(next);
    if old.selector().contains_key(key.as_str()) {
        if let Some(stray) = stray(old, key, &live.pods) {
            return Some(stray);
        }
        return (!remembers).then(|| change(old, json!({"metadata": {"annotations": {NEXT: next}}})));
    }
    let Some(value) = old.template_label(key) else {
        let value = format!("{}-orig", digits(old.0));
        return Some(change(
            old,
            json!({"metadata": {"annotations": {NEXT: next}}, "spec": {"template": {"metadata": {"labels": {key: value}}}}}),
        ));
    };
    if !remembers {
        return Some(change(old, json!({"metadata": {"annotations": {NEXT: next}}})));
    }
    if !old.is_observed() {
        return Some(Step::wait(format!("{} to see its new pod template", old.name())));
    }
    let without = |pod: &&Value| old.owns(pod) && label(pod, key) != Some(value);
    if let Some(pod) = live.pods.iter().find(without) {
        let patch = json!({"metadata": {"uid": pod["metadata"]["uid"], "labels": {key: value}}});
        return Some(Step::write(Write::ChangePod { name: name(pod), patch }));
    }
    // The whole selector: one that was only the template's default is not stored as such everywhere.
    let mut selector = json!(old.selector());
    selector[key] = value.into();
    Some(change(old, json!({"spec": {"selector": selector}})))
}

/// Returns a pod that the controller made before it saw the label in its template, and that its selector no longer
/// chooses.
fn stray(old: Controller<'_>, key: &str, pods: &[Value]) -> Option<Step> {
    let made_by_it = format!("{}-", old.name());
    let is_stray = |pod: &&Value| {
        pod["metadata"]["generateName"] == made_by_it.as_str()
            && owner(pod).is_none_or(|owner| owner["uid"] == old.uid())
            && pod["metadata"].get("deletionTimestamp").is_none()
            && label(pod, key).is_none()
    };
    let pod = pods.iter().find(is_stray)?;
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    Some(Step::write(Write::DeletePod { name: name(pod), uid }))
}

/// Returns a change of a controller as it was seen, and of nothing else that may have taken its place since.
pub(super) fn change(of: Controller<'_>, patch: Value) -> Step {
    Step::write(Write::Change { name: of.name().to_owned(), patch: guarded(of, patch) })
}

pub(super) fn guarded(of: Controller<'_>, mut patch: Value) -> Value {
    patch["metadata"]["uid"] = of.uid().into();
    patch["metadata"]["resourceVersion"] = of.0["metadata"]["resourceVersion"].clone();
    patch
}

fn label<'p>(pod: &'p Value, key: &str) -> Option<&'p str> {
    labels(&pod["metadata"]["labels"]).get(key).copied()
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
