//! Fields that the cluster writes itself, whatever a manifest says. belay leaves them to it: two that write the same field
//! would do so for ever.

use serde_json::Value;

use super::field_path::Step;

/// A field of a manifest that the cluster writes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterField {
    /// The place, as API servers write it in errors.
    pub path: String,
    /// The sentence for people: who writes it.
    pub why: &'static str,
    pub(in crate::rollout) steps: Vec<Step>,
}

/// The prefix of the annotations in which the Deployment controller counts.
const DEPLOYMENT: &str = "deployment.kubernetes.io/";
/// The prefix of the labels that the Job controller puts on Jobs and their pods.
const JOB: &str = "batch.kubernetes.io/";
/// The older names of two of those labels.
const OLDER_JOB_LABELS: [&str; 2] = ["controller-uid", "job-name"];
/// Other annotations that controllers write.
const WRITTEN_BY_CONTROLLERS: [&str; 12] = [
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    "batch.kubernetes.io/job-tracking",
    "control-plane.alpha.kubernetes.io/leader",
    "deprecated.daemonset.template.generation",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubernetes.io/service-account.uid",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
];
/// Base64 of a line break: a placeholder that means the same as an empty text.
const LINE_BREAK: &str = "Cg==";

/// Returns the fields of an object that the cluster writes itself.
#[must_use]
pub fn cluster_fields(object: &Value) -> Vec<ClusterField> {
    let mut found = Vec::new();
    let is_said = |value: &Value| !value.is_null() && value.as_object().is_none_or(|fields| !fields.is_empty());
    if is_said(&object["status"]) {
        found.push(field(&["status"], "the cluster writes the status itself"));
    }
    for name in object["metadata"]["annotations"].as_object().into_iter().flat_map(|entries| entries.keys()) {
        if name.starts_with(DEPLOYMENT) || WRITTEN_BY_CONTROLLERS.contains(&name.as_str()) {
            found.push(field(&["metadata", "annotations", name], "a controller writes this annotation"));
        }
    }
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("rbac.authorization.k8s.io", "ClusterRole")
            if !object["aggregationRule"].is_null() && !object["rules"].is_null() =>
        {
            let why = "the control plane fills in the rules of a ClusterRole with an aggregationRule";
            found.push(field(&["rules"], why));
        }
        ("batch", "Job") => job(object, &[], &mut found),
        ("batch", "CronJob") => job(&object["spec"]["jobTemplate"], &["spec", "jobTemplate"], &mut found),
        ("admissionregistration.k8s.io", _) => webhooks(object, &mut found),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            bundle(object, &["spec", "conversion", "webhook", "clientConfig"], &mut found);
        }
        ("apiregistration.k8s.io", "APIService") => bundle(object, &["spec"], &mut found),
        _ => {}
    }
    found
}

fn job(job: &Value, at: &[&str], found: &mut Vec<ClusterField>) {
    const WHY: &str = "the Job controller writes it, with the uid of the Job";
    for labels in [&["metadata", "labels"][..], &["spec", "template", "metadata", "labels"]] {
        let there = labels.iter().fold(job, |value, name| &value[*name]).as_object();
        for name in there.into_iter().flat_map(|labels| labels.keys()).filter(|name| is_job_label(name)) {
            found.push(field(&[at, labels, &[name.as_str()]].concat(), WHY));
        }
    }
    let selector = job["spec"]["selector"]["matchLabels"].as_object();
    let is_generated = selector.is_some_and(|labels| labels.keys().any(|name| is_job_label(name)));
    if is_generated && job["spec"]["manualSelector"] != true {
        found.push(field(&[at, &["spec", "selector"]].concat(), WHY));
    }
}

fn is_job_label(name: &str) -> bool {
    name.starts_with(JOB) || OLDER_JOB_LABELS.contains(&name)
}

/// Finds an empty `caBundle` of each webhook of a configuration.
fn webhooks(object: &Value, found: &mut Vec<ClusterField>) {
    for (at, webhook) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
        if !is_empty_bundle(&webhook["clientConfig"]) {
            continue;
        }
        let item = match webhook["name"].as_str() {
            Some(name) => Step::ItemWith("name".to_owned(), name.to_owned()),
            None => Step::Name(at.to_string()),
        };
        let steps = vec![name("webhooks"), item, name("clientConfig"), name("caBundle")];
        found.push(ClusterField { path: format!("webhooks[{at}].clientConfig.caBundle"), why: BUNDLE, steps });
    }
}

const BUNDLE: &str = "an empty caBundle is filled in by who has the certificate";

fn bundle(object: &Value, config: &[&str], found: &mut Vec<ClusterField>) {
    if is_empty_bundle(config.iter().fold(object, |value, name| &value[*name])) {
        found.push(field(&[config, &["caBundle"]].concat(), BUNDLE));
    }
}

fn is_empty_bundle(config: &Value) -> bool {
    let is_empty = |bundle: &Value| bundle.is_null() || bundle == "" || bundle == LINE_BREAK;
    config.get("caBundle").is_some_and(is_empty)
}

fn field(names: &[&str], why: &'static str) -> ClusterField {
    let segment = |name: &&str| if name.contains(['.', '/']) { format!("[{name}]") } else { format!(".{name}") };
    let path: String = names.iter().map(segment).collect();
    let steps = names.iter().map(|text| name(text)).collect();
    ClusterField { path: path.trim_start_matches('.').to_owned(), why, steps }
}

fn name(text: &str) -> Step {
    Step::Name(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::IgnoredFields;
    use serde_json::json;

    fn object(api_version: &str, kind: &str, fields: Value) -> Value {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        for (name, value) in fields.as_object().unwrap() {
            object[name] = value.clone();
        }
        object
    }

    #[test]
    fn what_the_cluster_writes_is_found_and_not_sent() {
        let rules = json!([{"verbs": ["get"]}]);
        let annotated = |name: &str| json!({"metadata": {"annotations": {name: "1", "team": "a"}}});
        let webhook = |bundle: Value| json!({"webhooks": [{"name": "x", "clientConfig": {"caBundle": bundle}}]});
        let labels = json!({"batch.kubernetes.io/controller-uid": "u", "job-name": "a", "app": "a"});
        let hooks = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration");
        let role = ("rbac.authorization.k8s.io/v1", "ClusterRole");
        type Case = ((&'static str, &'static str), Value, Vec<&'static str>);
        let cases: Vec<Case> = vec![
            (role, json!({"aggregationRule": {}, "rules": rules}), vec!["rules"]),
            (role, json!({"aggregationRule": {}, "rules": []}), vec!["rules"]),
            (role, json!({"rules": rules}), vec![]),
            (role, json!({"aggregationRule": null, "rules": rules}), vec![]),
            (
                ("apps/v1", "Deployment"),
                annotated("deployment.kubernetes.io/revision"),
                vec!["metadata.annotations[deployment.kubernetes.io/revision]"],
            ),
            (
                ("v1", "PersistentVolumeClaim"),
                annotated("pv.kubernetes.io/bind-completed"),
                vec!["metadata.annotations[pv.kubernetes.io/bind-completed]"],
            ),
            (("apps/v1", "Deployment"), annotated("kubernetes.io/description"), vec![]),
            (("apps/v1", "Deployment"), json!({"status": {"replicas": 1}}), vec!["status"]),
            (("apps/v1", "Deployment"), json!({"status": {}}), vec![]),
            (hooks, webhook(json!("")), vec!["webhooks[0].clientConfig.caBundle"]),
            (hooks, webhook(json!("Cg==")), vec!["webhooks[0].clientConfig.caBundle"]),
            (hooks, webhook(Value::Null), vec!["webhooks[0].clientConfig.caBundle"]),
            (hooks, webhook(json!("Y2VydA==")), vec![]),
            (("apiregistration.k8s.io/v1", "APIService"), json!({"spec": {"caBundle": ""}}), vec!["spec.caBundle"]),
            (
                ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
                json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": ""}}}}}),
                vec!["spec.conversion.webhook.clientConfig.caBundle"],
            ),
            (
                ("batch/v1", "Job"),
                json!({"metadata": {"labels": labels}, "spec": {"selector": {"matchLabels": labels}}}),
                vec![
                    "metadata.labels[batch.kubernetes.io/controller-uid]",
                    "metadata.labels.job-name",
                    "spec.selector",
                ],
            ),
            (
                ("batch/v1", "Job"),
                json!({"spec": {"manualSelector": true, "selector": {"matchLabels": labels}}}),
                vec![],
            ),
            (
                ("batch/v1", "CronJob"),
                json!({"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {"job-name": "a"}}}}}}}),
                vec!["spec.jobTemplate.spec.template.metadata.labels.job-name"],
            ),
        ];
        for ((api_version, kind), fields, expected) in cases {
            let object = object(api_version, kind, fields);
            let found = cluster_fields(&object);
            assert_eq!(found.iter().map(|field| field.path.as_str()).collect::<Vec<_>>(), expected, "{object}");
            let sent = IgnoredFields::default().leave(object.clone(), None);
            assert_eq!(cluster_fields(&sent), [], "{sent}");
            assert_eq!(sent == object, expected.is_empty(), "{sent}");
        }
    }

    #[test]
    fn what_belay_owns_of_it_stays_as_it_is_until_the_cluster_writes_it() {
        let body = object("rbac.authorization.k8s.io/v1", "ClusterRole", json!({"aggregationRule": {}, "rules": []}));
        let live = |fields: Value| {
            json!({"metadata": {"managedFields": [{"manager": "belay", "operation": "Apply", "fieldsV1": fields}]},
                "rules": [{"verbs": ["get"]}]})
        };
        let sent = |live: Value| IgnoredFields::default().leave(body.clone(), Some(&live));
        assert_eq!(sent(live(json!({"f:rules": {}})))["rules"], json!([{"verbs": ["get"]}]));
        assert_eq!(sent(live(json!({"f:aggregationRule": {}}))).get("rules"), None);
    }
}
