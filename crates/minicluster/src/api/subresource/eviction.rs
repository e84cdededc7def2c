//! Evictions: a pod is deleted if its disruption budget allows it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::binding::set_condition;
use super::{body, done};
use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::store::{Page, Scope, Stored};
use crate::api::time::rfc3339;
use crate::api::write_context::own_write_context;
use crate::api::{ApiError, ApiServer, Cause};
use kube_rules::LabelSelector;
use kube_rules::{Read, WriteContext};

/// Pods that may be on their way out by eviction at once, under one budget.
const MOST_DISRUPTED: usize = 2000;

impl ApiServer {
    /// Answers a POST of an Eviction to a pod's `eviction`.
    pub(super) fn evict(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let mut options = WriteOptions::create(call)?;
        let eviction = body(call, "Eviction")?;
        if target.name.as_deref() != Some(text(&eviction, "/metadata/name")) {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let delete = DeleteOptions::from_value(&eviction["deleteOptions"])?;
        options.dry_run |= delete.dry_run;
        let delete = DeleteOptions { dry_run: options.dry_run, ..delete };
        let pod_target = Target { subresource: None, ..target.clone() };
        let stored = self.find(&pod_target)?;
        let pod = stored.value();
        Self::check_preconditions(&pod_target, &pod, &delete)?;
        let phase = text(&pod, "/status/phase");
        let free =
            matches!(phase, "Succeeded" | "Failed" | "Pending") || pod["metadata"]["deletionTimestamp"].is_string();
        if !free {
            self.take_from_budget(target, &stored, &pod, &options)?;
        }
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": rfc3339(self.now()), "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        self.change_object(&pod_target, &options, |old| {
            let mut object = old.clone();
            set_condition(&mut object, condition.clone());
            Ok(Read { object, warnings: Vec::new() })
        })?;
        self.delete_object(&pod_target, &delete)?;
        Ok(done())
    }

    /// Takes one disruption from the pod's budget, if it has one.
    fn take_from_budget(
        &self,
        target: &Target,
        stored: &Stored,
        pod: &Value,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        let registry = self.registry();
        let Some(budgets) = registry.any_version("policy", "poddisruptionbudgets") else { return Ok(()) };
        let scope = Scope::Namespace(target.namespace.clone().unwrap_or_default());
        let Ok(all) = self.store().snapshot(&budgets.group_resource, &scope, &Page::default()) else { return Ok(()) };
        let selects = |budget: &Arc<Stored>| {
            let selector = LabelSelector::from_object(&budget.value()["spec"]["selector"]);
            selector.is_some_and(|selector| selector.matches(|key| stored.label(key)))
        };
        let mut selecting = all.objects.into_iter().filter(selects);
        let Some(budget) = selecting.next() else { return Ok(()) };
        if selecting.next().is_some() {
            return Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if !is_ready(pod) && ignores_unhealthy(&budget.value()) {
            return Ok(());
        }
        let budget_target = Target {
            resource: Arc::clone(budgets),
            name: Some(budget.name().to_owned()),
            subresource: Some("status".to_owned()),
            ..target.clone()
        };
        let now = self.now();
        let write = WriteContext { subresource: Some("status"), ..own_write_context(budgets, now) };
        self.change_object(&budget_target, options, |old| {
            let reduced = take(old, stored.name(), &rfc3339(now))?;
            kube_rules::update(&write, old, reduced)
        })?;
        Ok(())
    }
}

/// Returns a budget after one more disruption, or why there can be none.
fn take(budget: &Value, pod: &str, now: &str) -> Result<Value, ApiError> {
    let name = text(budget, "/metadata/name");
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    if number("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(ApiError { retry_after_seconds: Some(10), ..refused(why) });
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(ApiError::forbidden("policy", "poddisruptionbudgets", name, "pdb disruptions allowed is negative"));
    }
    if budget["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden("policy", "poddisruptionbudgets", name, why));
    }
    if allowed == 0 {
        let (needs, has) = (number("desiredHealthy"), number("currentHealthy"));
        let why = format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently");
        return Err(refused(why));
    }
    let mut budget = budget.clone();
    budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
    budget["status"]["disruptedPods"][pod] = json!(now);
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": now, "observedGeneration": number("observedGeneration"),
        });
        set_condition(&mut budget, condition);
    }
    Ok(budget)
}

fn refused(why: String) -> ApiError {
    let cause = Cause { reason: "DisruptionBudget", message: why, field: None };
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError { causes: vec![cause], ..ApiError::new(429, "TooManyRequests", message) }
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns true when pods that are not ready may go although the budget is used up.
fn ignores_unhealthy(budget: &Value) -> bool {
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy")
}
