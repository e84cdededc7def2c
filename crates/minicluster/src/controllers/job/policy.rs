//! The Job's own rules for failed pods, and for an early success. Pure.

use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicyRule,
};

use super::indexes::Indexes;
use crate::controllers::key::{is_terminating, name_of, namespace_of};
use crate::controllers::pod::Pod;

/// The meaning of a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureAction {
    /// One failure more, as without rules.
    Counts,
    /// The end of its index, whatever the index's limit; one failure more for the Job.
    FailsIndex,
    /// Nothing: it is not counted.
    Ignored,
    /// The end of the Job, and why.
    FailsJob(String),
}

/// Returns true when a pod counts as failed: as long as nobody asks to wait for it, also one that is going before it
/// has ended.
pub fn has_failed(job: &Job, pod: &Pod) -> bool {
    let waits = job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref()) == Some("Failed");
    pod.phase() == "Failed" || (!waits && is_terminating(&pod.metadata) && pod.phase() != "Succeeded")
}

/// Returns the action of the first rule that a failed pod matches.
pub fn failure_action(job: &Job, pod: &Pod) -> FailureAction {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        let Some(what) = matched(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => FailureAction::Ignored,
            "FailIndex" => FailureAction::FailsIndex,
            "FailJob" => FailureAction::FailsJob(format!("{what} matching FailJob rule at index {index}")),
            _ => FailureAction::Counts,
        };
    }
    FailureAction::Counts
}

/// Returns the first of a Job's success rules that these succeeded indexes fulfil.
pub fn fulfilled(job: &Job, done: &Indexes) -> Option<usize> {
    let spec = job.spec.as_ref()?;
    let completions = spec.completions?;
    let rules = &spec.success_policy.as_ref()?.rules;
    rules.iter().position(|rule| is_fulfilled(rule, done, completions))
}

fn is_fulfilled(rule: &SuccessPolicyRule, done: &Indexes, completions: i32) -> bool {
    match (&rule.succeeded_indexes, rule.succeeded_count) {
        (None, None) => false,
        (None, Some(count)) => done.count() >= count,
        (Some(wanted), count) => {
            let wanted = Indexes::read(wanted, completions);
            done.common(&wanted) >= count.unwrap_or(wanted.count())
        }
    }
}

/// Returns the part of a pod that matches a rule, in words.
fn matched(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let place = format!("{}/{}", namespace_of(&pod.metadata), name_of(&pod.metadata));
    if let Some(wanted) = &rule.on_exit_codes {
        let all = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        return all.clone().find_map(|container| {
            let code = container.state.terminated.as_ref()?.exit_code;
            let is_named = wanted.container_name.as_ref().is_none_or(|name| *name == container.name);
            (is_named && takes(wanted, code))
                .then(|| format!("Container {} for pod {place} failed with exit code {code}", container.name))
        });
    }
    let wanted = rule.on_pod_conditions.iter().flatten();
    let is_there = |kind: &str, status: &str| pod.condition(kind).is_some_and(|condition| condition.status == status);
    let mut wanted = wanted.filter(|wanted| is_there(&wanted.type_, wanted.status.as_deref().unwrap_or("True")));
    wanted.next().map(|wanted| format!("Pod {place} has condition {}", wanted.type_))
}

/// Only failures have codes.
fn takes(wanted: &PodFailurePolicyOnExitCodesRequirement, code: i32) -> bool {
    let listed = wanted.values.contains(&code);
    code != 0 && if wanted.operator == "NotIn" { !listed } else { listed }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{FailureAction, failure_action, fulfilled};
    use crate::controllers::job::indexes::Indexes;
    use crate::controllers::pod::Pod;

    fn job(spec: Value) -> k8s_openapi::api::batch::v1::Job {
        let mut spec = spec;
        spec["template"] = json!({});
        serde_json::from_value(json!({ "metadata": { "name": "job" }, "spec": spec })).unwrap()
    }

    fn pod(code: i32, condition: &str) -> Pod {
        let pod = json!({
            "metadata": { "name": "work-1", "namespace": "default" },
            "status": {
                "phase": "Failed", "conditions": [{ "type": condition, "status": "True" }],
                "containerStatuses": [{ "name": "app", "state": { "terminated": { "exitCode": code } } }],
            },
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let job = job(json!({ "podFailurePolicy": { "rules": [
            { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
            { "action": "FailJob", "onExitCodes": { "containerName": "app", "operator": "In", "values": [42] } },
            { "action": "FailJob", "onExitCodes": { "containerName": "other", "operator": "NotIn", "values": [1] } },
            { "action": "Count", "onExitCodes": { "operator": "NotIn", "values": [0] } },
        ] } }));
        assert_eq!(failure_action(&job, &pod(42, "DisruptionTarget")), FailureAction::Ignored);
        let why = "Container app for pod default/work-1 failed with exit code 42 matching FailJob rule at index 1";
        assert_eq!(failure_action(&job, &pod(42, "Ready")), FailureAction::FailsJob(why.to_owned()));
        assert_eq!(failure_action(&job, &pod(7, "Ready")), FailureAction::Counts);
        assert_eq!(failure_action(&job, &pod(0, "Ready")), FailureAction::Counts);
    }

    #[test]
    fn success_may_need_fewer() {
        let rules = |rules: Value| job(json!({ "completions": 5, "successPolicy": { "rules": rules } }));
        let done = Indexes::read("0,3", 5);
        assert_eq!(fulfilled(&rules(json!([{ "succeededIndexes": "0-2" }, { "succeededCount": 2 }])), &done), Some(1));
        assert_eq!(fulfilled(&rules(json!([{ "succeededIndexes": "0-3", "succeededCount": 2 }])), &done), Some(0));
        assert_eq!(fulfilled(&rules(json!([{ "succeededIndexes": "0,3" }])), &done), Some(0));
        assert_eq!(fulfilled(&rules(json!([{ "succeededCount": 3 }])), &done), None);
        assert_eq!(fulfilled(&job(json!({ "completions": 5 })), &done), None);
    }
}
