//! Gathers in a ClusterRole that asks for it the rules of others, which it selects by their labels.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::json;

use super::context::{Context, ControllerStart};
use super::error::Error;
use super::informer::{Cached as _, Informer};
use super::key::Key;
use super::requests::Ignored;
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};

/// The number of roles that are handled side by side.
const WORKERS: usize = 5;
/// The controller's name, under which it owns the rules.
const NAME: &str = "clusterrole-aggregation-controller";

struct Aggregation {
    context: Context,
    roles: Informer<ClusterRole>,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(Aggregation {
        context: context.clone(),
        roles: context.informers.cluster_roles.clone(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    // Any role may be one that others gather.
    controller.roles.on_change(move |_| {
        for role in this.roles.all().iter().filter(|role| role.aggregation_rule.is_some()) {
            this.queue.add(Key::of(role.metadata()));
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Aggregation {
    /// Returns the rules that a role gathers: selector by selector, in the order of the roles' names, each once.
    fn gathered(&self, role: &ClusterRole) -> Result<Vec<PolicyRule>, Error> {
        let mut others = self.roles.all();
        others.retain(|other| other.metadata.name != role.metadata.name);
        others.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let mut rules: Vec<PolicyRule> = Vec::new();
        let selectors = role.aggregation_rule.iter().flat_map(|rule| rule.cluster_role_selectors.iter().flatten());
        for selector in selectors {
            let selector = Selector::read(selector)?;
            let selected = others.iter().filter(|other| selector.matches(other.metadata.labels.as_ref()));
            for rule in selected.flat_map(|other| other.rules.iter().flatten()) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
        Ok(rules)
    }
}

impl Reconciler for Aggregation {
    type Key = Key;

    fn name(&self) -> &'static str {
        NAME
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(role) = self.roles.get(key).filter(|role| role.aggregation_rule.is_some()) else { return Ok(()) };
        let rules = self.gathered(&role)?;
        if role.rules.as_deref().unwrap_or_default() == rules {
            return Ok(());
        }
        let mut fields = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": key.name },
        });
        // If there are none, none are owned either.
        if !rules.is_empty() {
            fields["rules"] = json!(rules);
        }
        match self.context.requests.apply::<ClusterRole, _, Ignored>(key, NAME, fields).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
