//! The body that is sent for a manifest: the manifest, belay's marks, and no field that belay must not set.

use serde_json::{Value, json};

use crate::rollout::marks::say;
use crate::rollout::ownership::string_data;
use crate::rollout::{Commit, CommitId, Hold, marks, template, workload};

/// The marks of a workload about its pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateMarks {
    /// `kubernetes.io/change-cause`
    pub change_cause: Option<String>,
    /// `belay.dev/commit`
    pub commit: Option<String>,
}

impl TemplateMarks {
    /// Returns the marks of a template that `commit` made.
    #[must_use]
    pub fn of(commit: &Commit) -> TemplateMarks {
        TemplateMarks { change_cause: Some(commit.change_cause()), commit: Some(commit.id.to_string()) }
    }

    /// Returns the commit, if it is one.
    #[must_use]
    pub fn commit(&self) -> Option<CommitId> {
        self.commit.as_deref()?.parse().ok()
    }

    /// Returns the marks that a live object, or a revision, carries. A mark of failure is not carried on.
    #[must_use]
    pub fn on(object: &Value) -> TemplateMarks {
        let cause = marks::annotation(object, marks::CHANGE_CAUSE);
        TemplateMarks {
            change_cause: cause.map(|cause| cause.split(marks::FAILED).next().unwrap_or_default().to_owned()),
            commit: marks::annotation(object, marks::COMMIT).map(str::to_owned),
        }
    }
}

/// Returns the body that is sent for `manifest` in the name of `source`, before
/// [`crate::rollout::IgnoredFields::leave`] takes ignored fields out of it. `template_marks` are those of the template
/// that it has; they must be repeated in every apply, or the server would take them away.
#[must_use]
pub fn body(manifest: &Value, source: &str, template_marks: &TemplateMarks, hold: Option<&Hold>) -> Value {
    let mut body = manifest.clone();
    // The server's to say, and refused or misread in an apply.
    if let Some(object) = body.as_object_mut() {
        object.remove("status");
    }
    let metadata = &mut body["metadata"];
    if let Some(metadata) = metadata.as_object_mut() {
        for field in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"] {
            metadata.remove(field);
        }
    }
    say(metadata, "labels", marks::SOURCE, Some(source));
    // Only belay writes these; a manifest copied from a cluster may carry old ones.
    say(metadata, "annotations", marks::COMMIT, template_marks.commit.as_deref());
    for name in [marks::CANARY_STEP, marks::CANARY_REQUEST] {
        say(metadata, "annotations", name, None);
    }
    say(metadata, "annotations", marks::HOLD, hold.map(Hold::to_annotation).as_deref());
    if template_marks.change_cause.is_some() {
        say(metadata, "annotations", marks::CHANGE_CAUSE, template_marks.change_cause.as_deref());
    }
    string_data::as_data(&mut body);
    with_both_accounts(body)
}

/// Returns the body for an object whose manifest is held, so that everything but the held template follows the
/// manifest. `template` is the pod template that it is to have meanwhile.
#[must_use]
pub fn held_body(
    manifest: &Value,
    source: &str,
    template_marks: &TemplateMarks,
    hold: &Hold,
    template: Option<&Value>,
) -> Value {
    let sent = body(manifest, source, template_marks, Some(hold));
    match template {
        Some(template) => with_template(sent, template),
        None => sent,
    }
}

/// Returns `body` with another pod template: for a rollback, and while it is held.
#[must_use]
pub fn with_template(mut body: Value, template: &Value) -> Value {
    if workload::template(&body).is_some() {
        body["spec"]["template"] = template::without_controllers_labels(template);
    }
    with_both_accounts(body)
}

/// Returns the body with the account of its pods under both names. An apply that leaves both out then removes both. If
/// only one name were left out, the server would keep the other, which nobody owns, and set the first from it again.
fn with_both_accounts(mut body: Value) -> Value {
    let api_version = body["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let path = workload::pod_spec_path(group, body["kind"].as_str().unwrap_or_default()).unwrap_or_default();
    let spec = path.iter().try_fold(&mut body, |value, name| value.get_mut(*name));
    let Some(spec) = spec.filter(|spec| !path.is_empty() && spec.is_object()) else { return body };
    let Some(account) = workload::service_account(spec).map(|(_, name)| name.to_owned()) else { return body };
    for name in workload::ACCOUNT_FIELDS {
        // The server refuses anything but a text.
        if spec.get(name).is_none_or(|value| value.is_string() || value.is_null()) {
            spec[name] = json!(account);
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_added_and_the_servers_fields_left_out() {
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "resourceVersion": "7", "annotations": {marks::HOLD: "old", "a": "b"}},
            "spec": {"replicas": 3, "template": {}}, "status": {"replicas": 3},
        });
        let marks =
            TemplateMarks { change_cause: Some("1a2b3c4 First (Ada)".to_owned()), commit: Some("1a2b".to_owned()) };
        let sent = body(&manifest, "shop", &marks, None);
        assert_eq!(
            sent,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "labels": {"belay.dev/source": "shop"}, "annotations": {
                    "a": "b", "belay.dev/commit": "1a2b", "kubernetes.io/change-cause": "1a2b3c4 First (Ada)"}},
                "spec": {"replicas": 3, "template": {}},
            })
        );
    }

    #[test]
    fn an_account_is_sent_under_both_names() {
        let sent = |spec: Value| {
            let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {"template": {"spec": spec}}});
            let sent = body(&manifest, "shop", &TemplateMarks::default(), None);
            sent["spec"]["template"]["spec"].clone()
        };
        let both = json!({"serviceAccountName": "robot", "serviceAccount": "robot"});
        assert_eq!(sent(json!({"serviceAccountName": "robot"})), both);
        assert_eq!(sent(json!({"serviceAccount": "robot"})), both);
        assert_eq!(sent(json!({"serviceAccountName": "robot", "serviceAccount": "other"})), both);
        assert_eq!(sent(json!({"serviceAccountName": "", "serviceAccount": "robot"})), both);
        for untouched in [json!({}), json!({"serviceAccountName": ""}), json!({"serviceAccountName": 4})] {
            assert_eq!(sent(untouched.clone()), untouched);
        }
        let wrong = json!({"serviceAccountName": "robot", "serviceAccount": 4});
        assert_eq!(sent(wrong.clone()), wrong, "it is for the server to refuse");
    }

    #[test]
    fn a_template_brings_its_account_under_both_names() {
        let of = |kind: &str, api: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "spec": spec});
        let template = json!({"spec": {"serviceAccountName": "robot"}});
        let back = with_template(of("Deployment", "apps/v1", json!({"template": {}})), &template);
        assert_eq!(back["spec"]["template"]["spec"]["serviceAccount"], "robot");
        let job = of("CronJob", "batch/v1", json!({"jobTemplate": {"spec": {"template": template}}}));
        let sent = body(&job, "shop", &TemplateMarks::default(), None);
        assert_eq!(sent["spec"]["jobTemplate"]["spec"]["template"]["spec"]["serviceAccount"], "robot");
        let widget = of("Widget", "example.com/v1", json!({"template": template}));
        let sent = body(&widget, "shop", &TemplateMarks::default(), None);
        assert_eq!(sent["spec"]["template"]["spec"].get("serviceAccount"), None, "not a pod's, for all that is known");
    }

    #[test]
    fn a_mark_of_failure_is_not_carried_on() {
        let revision =
            json!({"metadata": {"annotations": {marks::CHANGE_CAUSE: "1a2b3c4 Faster (Ada) — failed: crash"}}});
        assert_eq!(TemplateMarks::on(&revision).change_cause.as_deref(), Some("1a2b3c4 Faster (Ada)"));
    }
}
