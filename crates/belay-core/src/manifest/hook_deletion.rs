//! When hooks of Helm's charts are deleted. Helm deletes one after each of its events and creates it again for the next. Here it is
//! deleted after the last of them: a hook that runs finds what is of one event with it.

use std::sync::Arc;

use serde_json::Value;

use super::helm_hooks::{HOOK, annotation, change, runs_to_its_end, waited_for};
use super::{Complaint, Manifest, ObjectKey, Place};

/// Annotation of Helm: when a hook is deleted, with commas between the policies.
const DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// The events of Helm that belay brings about.
const EVENTS: [&str; 4] = ["pre-install", "post-install", "pre-upgrade", "post-upgrade"];
/// The kinds that belay does not delete by itself.
const KEPT: [&str; 3] = ["PersistentVolumeClaim", "Namespace", "CustomResourceDefinition"];
/// The names of all of them that a chart may need, in bytes: each hook says its own. An API server takes as much of one object.
const NAMES: usize = 256 << 10;
/// Annotation on a hook that is deleted when it has succeeded, and that does not run itself: the Jobs and Pods that may need it.
pub const UNTIL: &str = "belay.dev/hook-until";

/// When a hook is deleted after its run. Before its next run it always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookDeletion {
    /// When it was complete.
    Succeeded,
    /// When it failed.
    Failed,
}

/// Returns true when an object is a hook that is deleted after such a run.
#[must_use]
pub fn deletes_hook(object: &Value, policy: HookDeletion) -> bool {
    let word = match policy {
        HookDeletion::Succeeded => "hook-succeeded",
        HookDeletion::Failed => "hook-failed",
    };
    let says = |policies: &str| policies.split(',').any(|policy| policy.trim() == word);
    annotation(object, HOOK).is_some() && annotation(object, DELETE_POLICY).is_some_and(says)
}

/// Writes on hooks of a chart that are deleted when they have succeeded the Jobs and Pods after which that is. Returns the first
/// hook on which it is not written, and that therefore stays until its next run.
pub(super) fn note_users(chart: &mut [Manifest]) -> Option<ObjectKey> {
    let needed = needed_by(chart);
    let left = needed.left.map(|at| chart[at].key.clone());
    for (at, users) in needed.by {
        change(&mut chart[at], |annotations| drop(annotations.insert(UNTIL.to_owned(), users.into())));
    }
    left
}

/// Returns the warning about a hook that is not deleted after its run.
pub(super) fn stays(unit: &Arc<str>, hook: ObjectKey) -> Complaint {
    let place = Place { path: Arc::clone(unit), line: 1, column: 1 };
    let message = format!(
        "{hook} and the hooks after it stay until their next run: their Jobs and Pods have names of more than {} KiB together",
        NAMES >> 10
    );
    let hint = "give the chart fewer hooks with the policy hook-succeeded".to_owned();
    Complaint { object: Some(hook), ..Complaint::of_file(place, message, Some(hint)) }
}

/// The hooks of a chart with the Jobs and Pods that need them.
struct Needed {
    by: Vec<(usize, String)>,
    /// The first hook for which there is no room.
    left: Option<usize>,
}

/// Returns the hooks of a chart that are deleted when they have succeeded, and that do not run themselves, each with the Jobs and
/// Pods of its events.
fn needed_by(chart: &[Manifest]) -> Needed {
    let users: Vec<(Value, String)> = chart
        .iter()
        .filter(|manifest| runs_to_its_end(manifest))
        .filter_map(|manifest| Some((manifest.value(), waited_for(manifest)?)))
        .collect();
    let (mut needed, mut room) = (Needed { by: Vec::new(), left: None }, NAMES);
    let may_go = |manifest: &Manifest| !runs_to_its_end(manifest) && !KEPT.contains(&&*manifest.key.kind);
    for (at, manifest) in chart.iter().enumerate().filter(|(_, manifest)| may_go(manifest)) {
        let hook = manifest.value();
        if deletes_hook(&hook, HookDeletion::Succeeded) {
            let of_one_event =
                users.iter().filter(|(user, _)| EVENTS.iter().any(|at| is_of(user, at) && is_of(&hook, at)));
            let mut names: Vec<&str> = Vec::new();
            for (_, name) in of_one_event {
                let Some(left) = room.checked_sub(name.len() + 2) else {
                    needed.left = Some(at);
                    return needed;
                };
                room = left;
                names.push(name);
            }
            needed.by.push((at, names.join(", ")));
        }
    }
    needed
}

fn is_of(hook: &Value, event: &str) -> bool {
    annotation(hook, HOOK).is_some_and(|events| events.split(',').any(|one| one.trim() == event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};
    use serde_json::json;

    #[test]
    fn a_hook_says_when_it_is_deleted() {
        let deletes = |annotations: Value| {
            let object = json!({"metadata": {"annotations": annotations}});
            [HookDeletion::Succeeded, HookDeletion::Failed].map(|policy| deletes_hook(&object, policy))
        };
        let policy = |policy: &str| deletes(json!({HOOK: "pre-install", DELETE_POLICY: policy}));
        assert_eq!(policy("hook-succeeded"), [true, false]);
        assert_eq!(policy("before-hook-creation, hook-failed"), [false, true]);
        assert_eq!(policy("before-hook-creation"), [false, false]);
        assert_eq!(deletes(json!({HOOK: "pre-install"})), [false, false]);
        assert_eq!(deletes(json!({DELETE_POLICY: "hook-succeeded"})), [false, false], "it is no hook");
    }

    #[test]
    fn a_hook_is_kept_for_all_that_run_at_one_of_its_events() {
        let runs = [
            ("Job", "create", "pre-install,pre-upgrade"),
            ("Job", "patch", "post-install, post-upgrade"),
            ("Pod", "smoke", "post-upgrade"),
            ("Job", "bye", "pre-delete"),
        ];
        const ALL: &str = "pre-install,pre-upgrade,post-install,post-upgrade";
        for (kind, events, policy, expected) in [
            ("ServiceAccount", ALL, "hook-succeeded", Some("create, patch, smoke")),
            ("ConfigMap", "pre-install,pre-upgrade", "before-hook-creation, hook-succeeded", Some("create")),
            ("Secret", "pre-install,pre-delete", "hook-succeeded", Some("create")),
            ("Secret", "post-upgrade", "hook-succeeded", Some("patch, smoke")),
            ("Secret", "post-install", "hook-failed", None),
            ("Secret", "pre-install", "before-hook-creation", None),
            ("Namespace", ALL, "hook-succeeded", None),
        ] {
            let hook = |kind: &str, name: &str, events: &str| {
                let (version, spec) = match kind {
                    "Job" => (
                        "batch/v1",
                        ", spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}",
                    ),
                    "Pod" => ("v1", ", spec: {containers: [{name: a, image: a}]}"),
                    _ => ("v1", ""),
                };
                let annotations = format!("helm.sh/hook: '{events}', helm.sh/hook-delete-policy: '{policy}'");
                format!(
                    "{{apiVersion: {version}, kind: {kind}, metadata: {{name: {name}, annotations: {{{annotations}}}}}{spec}}}\n---\n"
                )
            };
            let mut text = hook(kind, "account", events);
            text.extend(runs.map(|(kind, name, events)| hook(kind, name, events)));
            let file = read_file("a.yaml", text.as_bytes(), &Scopes::new("shop"));
            assert_eq!(file.complaints, []);
            let short = |names: &str| names.replace("shop/job/", "").replace("shop/pod/", "");
            let needed: Vec<(usize, String)> =
                needed_by(&file.manifests).by.iter().map(|(at, names)| (*at, short(names))).collect();
            let expected: Vec<(usize, String)> = expected.into_iter().map(|names| (0, names.to_owned())).collect();
            assert_eq!(needed, expected, "{kind} {events} {policy}");
        }
    }

    /// Each hook names all of them, which takes gigabytes for some thousands of both.
    #[test]
    fn a_chart_of_very_many_hooks_names_few_of_those_that_need_them() {
        const MANY: usize = 1_000;
        let hook = |number: usize| {
            let annotations = "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded";
            let name = format!("{}-{number}", "x".repeat(50));
            let job = format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: a}}]}}}}}}\n---\n"
            );
            format!(
                "{job}apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}, annotations: {{{annotations}}}}}\n---\n"
            )
        };
        let text: String = (0..MANY).map(hook).collect();
        let mut file = read_file("a.yaml", text.as_bytes(), &Scopes::new("shop"));
        assert_eq!((file.complaints.len(), file.manifests.len()), (0, 2 * MANY));
        let left = note_users(&mut file.manifests);
        assert_eq!(left.unwrap().kind, "ConfigMap");
        let bytes: usize = file.manifests.iter().map(|manifest| manifest.value().to_string().len()).sum();
        assert!(bytes < 2 * text.len() + NAMES, "{bytes} bytes");
    }
}
