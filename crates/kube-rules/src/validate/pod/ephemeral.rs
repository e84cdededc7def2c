//! Containers that are added to a running pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::value_ext::{ValueExt, texts};
use super::super::errors::{Errors, Path};
use super::containers::{self, ValidatedPod};

/// The fields that such a container can't have.
const NOT_FOR_THEM: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks the ephemeral containers of a pod.
pub fn containers(pod: &ValidatedPod<'_>, at: &Path<'_>, errors: &mut Errors) {
    let others = ["containers", "initContainers"].iter().flat_map(|name| pod.spec.list(name));
    let others: BTreeSet<&str> = others.map(|container| container.text("name")).collect();
    let (mut names, targets) = (BTreeSet::new(), texts(pod.spec.list("containers"), "name"));
    for (index, container) in pod.spec.list("ephemeralContainers").iter().enumerate() {
        let at = at.index(index);
        containers::all(pod, container, &at, errors);
        let name = container.text("name");
        if others.contains(name) || !names.insert(name) {
            errors.duplicate(&at.field("name"), name);
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !targets.contains(target) {
            errors.not_found(&at.field("targetContainerName"), target);
        }
        for field in NOT_FOR_THEM {
            let there = match container.get(field) {
                None | Some(Value::Null) => false,
                Some(Value::Array(items)) => !items.is_empty(),
                Some(Value::Object(fields)) => !fields.is_empty() || field != "resources",
                Some(_) => true,
            };
            if there {
                errors.forbidden(&at.field(field), "cannot be set for an Ephemeral Container");
            }
        }
        let mounts = at.field("volumeMounts");
        for (index, mount) in container.list("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    errors.forbidden(&mounts.index(index).field(field), "cannot be set for an Ephemeral Container");
                }
            }
        }
        let image = container.text("image");
        if image.trim() != image {
            errors.invalid(&at.field("image"), image, "must not have leading or trailing whitespace");
        }
    }
}
