//! The API server's refusals beyond the shape of an object, as far as they are certain without a cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use super::report::{Report, Showing, Subject, Words};
use super::yaml::{At, Child, Span};

/// Checks for labels and annotations that no server takes, and fields that only a server may write.
pub(super) fn metadata(report: &mut Report<'_>, subject: &Subject, metadata: At<'_>) {
    labels(report, subject, metadata);
    for (field, refused) in
        [("managedFields", Value::is_array as fn(&Value) -> bool), ("uid", is_text), ("resourceVersion", is_text)]
    {
        if let Some(child) = metadata.entry(field).filter(|child| refused(child.at.value())) {
            let words =
                Words::at_key(child.key, format!("the cluster writes metadata.{field} itself")).hint("leave it out");
            report.add(subject, words);
        }
    }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn labels(report: &mut Report<'_>, subject: &Subject, metadata: At<'_>) {
    for label in metadata.get("labels").into_iter().flat_map(At::children) {
        if let Some(fault) = names::label_key(label.name) {
            report.add(subject, Words::at_key(label.key, format!("the label {} {fault}", subject.name(label.name))));
        }
        let value = label.at.value().as_str().unwrap_or_default();
        if let Some(fault) = names::label_value(value) {
            complain(report, subject, label, format!("the value of the label {} {fault}", subject.name(label.name)));
        }
    }
    let annotations = || metadata.get("annotations").into_iter().flat_map(At::children);
    for annotation in annotations() {
        if let Some(fault) = names::annotation_key(annotation.name) {
            report.add(
                subject,
                Words::at_key(annotation.key, format!("the annotation {} {fault}", subject.name(annotation.name))),
            );
        }
    }
    let size: usize = annotations().map(|one| one.name.len() + one.at.value().as_str().map_or(0, str::len)).sum();
    if size > 256 << 10
        && let Some(child) = metadata.entry("annotations")
    {
        report.add(subject, Words::at_key(child.key, "the annotations have more than 256 KiB together"));
    }
}

/// Rules of kinds that have a pod template, and of a few others.
pub(super) fn object(report: &mut Report<'_>, subject: &Subject, group: &str, kind: &str, root: At<'_>) {
    let Some(spec) = root.get("spec") else { return };
    let template = match (group, kind) {
        ("batch", "CronJob") => {
            spec.get("jobTemplate").and_then(|job| job.get("spec")).and_then(|job| job.get("template"))
        }
        ("", "Pod") => Some(root),
        ("apps", _) | ("batch", "Job") | ("", "ReplicationController") => spec.get("template"),
        _ => None,
    };
    if let Some(template) = template {
        pod_template(report, subject, spec, template, (group, kind));
    }
    match (group, kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => selector(report, subject, spec),
        ("", "ReplicationController") => {
            if let Some(selector) = spec.entry("selector") {
                matches_labels(report, subject, selector.at, spec);
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition_name(report, subject, root, spec),
        _ => {}
    }
}

fn pod_template(
    report: &mut Report<'_>,
    subject: &Subject,
    spec: At<'_>,
    template: At<'_>,
    (group, kind): (&str, &str),
) {
    if kind != "Pod"
        && let Some(metadata) = template.get("metadata")
    {
        labels(report, subject, metadata);
    }
    let Some(pod) = template.get("spec") else { return };
    let policy = pod.text("restartPolicy").filter(|policy| !policy.is_empty());
    let known = policy.is_none_or(|policy| matches!(policy, "Always" | "OnFailure" | "Never"));
    let fits = match group {
        "batch" => matches!(policy, Some("OnFailure" | "Never")),
        "apps" => matches!(policy, None | Some("Always")),
        _ => kind != "ReplicationController" || matches!(policy, None | Some("Always")),
    };
    if known && !fits {
        let needed = if group == "batch" { "OnFailure or Never" } else { "Always" };
        let span = pod.entry("restartPolicy").map_or_else(|| first_key(pod), |child| child.at.span());
        report.add(subject, Words::at_value(span, format!("the restartPolicy of a {kind} must be {needed}")));
    }
    volumes(report, subject, spec, pod, kind);
}

/// Checks that every mounted volume exists.
fn volumes(report: &mut Report<'_>, subject: &Subject, spec: At<'_>, pod: At<'_>, kind: &str) {
    let named = |list: Option<At<'_>>| {
        list.into_iter()
            .flat_map(At::children)
            .filter_map(|item| item.at.text("name").map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let mut volumes: BTreeSet<String> = named(pod.get("volumes")).into_iter().collect();
    if kind == "StatefulSet" {
        for claim in spec.get("volumeClaimTemplates").into_iter().flat_map(At::children) {
            volumes.extend(claim.at.get("metadata").and_then(|metadata| metadata.text("name")).map(str::to_owned));
        }
    }
    let names: Vec<&str> = volumes.iter().take(8).map(String::as_str).collect();
    let hint = match volumes.len() {
        0 => "the pod has no volumes".to_owned(),
        1..=8 => format!("its volumes are {}", names.join(", ")),
        _ => format!("its volumes are {}, …", names.join(", ")),
    };
    for containers in ["initContainers", "containers"] {
        for container in pod.get(containers).into_iter().flat_map(At::children) {
            for list in ["volumeMounts", "volumeDevices"] {
                for mount in container.at.get(list).into_iter().flat_map(At::children) {
                    let Some(name) = mount.at.entry("name") else { continue };
                    let Some(text) = name.at.value().as_str() else { continue };
                    if !volumes.contains(text) && !text.is_empty() {
                        let message = format!("there is no volume {text}");
                        report.add(subject, Words::at_value(name.at.span(), message).hint(hint.as_str()));
                    }
                }
            }
        }
    }
}

fn selector(report: &mut Report<'_>, subject: &Subject, spec: At<'_>) {
    let Some(selector) = spec.entry("selector") else { return };
    let empty = |name: &str| selector.at.get(name).is_none_or(|part| part.children().next().is_none());
    if selector.at.value().is_object() && empty("matchLabels") && empty("matchExpressions") {
        let words = Words::at_key(selector.key, "the selector is empty").hint("name the labels of the pod template");
        return report.add(subject, words);
    }
    if let Some(labels) = selector.at.get("matchLabels") {
        matches_labels(report, subject, labels, spec);
    }
    expressions(report, subject, selector.at, spec);
}

/// Checks that the selector selects the labels of the pod template.
fn matches_labels(report: &mut Report<'_>, subject: &Subject, wanted: At<'_>, spec: At<'_>) {
    let Some(template) = spec.get("template") else { return };
    let labels = template.get("metadata").and_then(|metadata| metadata.get("labels"));
    for wanted in wanted.children() {
        let Some(text) = wanted.at.value().as_str() else { continue };
        let value = labels.and_then(|labels| labels.value().get(wanted.name));
        if value.is_some_and(|value| value == text || !value.is_string()) || report.is_full() {
            continue;
        }
        match labels.and_then(|labels| labels.entry(wanted.name)) {
            Some(there) => {
                let words =
                    Words::at_value(wanted.at.span(), "the selector does not match the labels of the pod template")
                        .also(there.at.span(), "the label of the pods");
                report.add(subject, words);
            }
            None => {
                let message = format!("the pod template has no label {}, which the selector asks for", wanted.name);
                report.add(subject, Words::at_key(wanted.key, message).hint("add it under template.metadata.labels"));
            }
        }
    }
}

fn expressions(report: &mut Report<'_>, subject: &Subject, selector: At<'_>, spec: At<'_>) {
    let labels =
        spec.get("template").and_then(|template| template.get("metadata")).and_then(|metadata| metadata.get("labels"));
    for expression in selector.get("matchExpressions").into_iter().flat_map(At::children) {
        let (Some(key), Some(operator)) = (expression.at.text("key"), expression.at.text("operator")) else { continue };
        let value = labels.and_then(|labels| labels.text(key));
        let values = || {
            expression.at.get("values").into_iter().flat_map(At::children).filter_map(|item| item.at.value().as_str())
        };
        let fits = match operator {
            "In" => value.is_some_and(|value| values().any(|one| one == value)),
            "NotIn" => value.is_none_or(|value| values().all(|one| one != value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => {
                let span = expression.at.get("operator").map_or_else(|| expression.at.span(), At::span);
                let words = Words::at_value(span, "a selector has no such operator");
                report.add(subject, words.hint("one of In, NotIn, Exists, DoesNotExist"));
                continue;
            }
        };
        if !fits {
            let message = "the selector does not match the labels of the pod template";
            report.add(subject, Words::at_value(first_key(expression.at), message));
        }
    }
}

fn definition_name(report: &mut Report<'_>, subject: &Subject, root: At<'_>, spec: At<'_>) {
    let name = root.get("metadata").and_then(|metadata| metadata.get("name"));
    let plural = spec.get("names").and_then(|names| names.text("plural"));
    if let (Some(name), Some(plural), Some(group)) = (name, plural, spec.text("group")) {
        let expected = format!("{plural}.{group}");
        if name.value() != expected.as_str() {
            let words = Words::at_value(name.span(), "a definition is named by its plural and group");
            report.add(subject, words.hint(format!("write {expected}")));
        }
    }
}

/// Complains about a value, or about its key where values may not be shown.
fn complain(report: &mut Report<'_>, subject: &Subject, child: Child<'_>, message: String) {
    let words = match subject.showing {
        Showing::Everything => Words::at_value(child.at.span(), message),
        Showing::Keys | Showing::Nothing => Words::at_key(child.key, message),
    };
    report.add(subject, words);
}

/// Returns the first key of a mapping, for want of the one that is missing.
fn first_key(at: At<'_>) -> Span {
    let keys = at.children().map(|child| child.key);
    keys.min().unwrap_or_else(|| at.span())
}
