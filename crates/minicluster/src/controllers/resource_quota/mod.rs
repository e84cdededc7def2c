//! Counts the usage of namespaces against the limits of their quotas. The API server counts new and deleted objects;
//! this controller counts again when a quota changes, when something goes that nobody else counts, and now and then.

mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use kube_rules::Quantity;

use super::context::{Context, ControllerStart};
use super::discovery;
use super::error::Error;
use super::informer::{CacheChange, Cached, Informer};
use super::key::{Key, namespace_of};
use super::pod::Pod;
use super::requests::Ignored;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};

/// The number of quotas that are handled side by side.
const WORKERS: usize = 5;
/// Everything is counted again after this time: nothing is watched only because a quota may name it.
const ANEW: Duration = Duration::from_mins(5);

/// Amounts by the names that quotas give them.
pub type Amounts = BTreeMap<String, Quantity>;

struct ResourceQuotas {
    context: Context,
    quotas: Informer<ResourceQuota>,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(ResourceQuotas {
        context: context.clone(),
        quotas: context.informers.resource_quotas.clone(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.quotas.on_change(move |change| match change {
        CacheChange::Added(quota) => this.queue.add(Key::of(&quota.metadata)),
        CacheChange::Modified { old, new } if old.spec != new.spec => this.queue.add(Key::of(&new.metadata)),
        CacheChange::Modified { .. } | CacheChange::Deleted(_) => {}
    });
    let informers = &context.informers;
    let this = controller.clone();
    informers.pods.on_change(move |change| {
        let frees = match change {
            CacheChange::Added(_) => false,
            CacheChange::Modified { old, new } => !old.is_finished() && new.is_finished(),
            CacheChange::Deleted(_) => true,
        };
        if frees {
            this.count_anew(namespace_of(&change.object().metadata));
        }
    });
    controller.count_when_gone(&informers.services);
    controller.count_when_gone(&informers.persistent_volume_claims);
    controller.count_when_gone(&informers.deployments);
    controller.count_when_gone(&informers.replica_sets);
    controller.count_when_gone(&informers.replication_controllers);
    controller.count_when_gone(&informers.stateful_sets);
    controller.count_when_gone(&informers.daemon_sets);
    controller.count_when_gone(&informers.jobs);
    controller.count_when_gone(&informers.cron_jobs);
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl ResourceQuotas {
    fn count_when_gone<K: Cached>(self: &Arc<Self>, informer: &Informer<K>) {
        let this = self.clone();
        informer.on_change(move |change| {
            if let CacheChange::Deleted(gone) = change {
                this.count_anew(namespace_of(gone.metadata()));
            }
        });
    }

    fn count_anew(&self, namespace: &str) {
        for quota in self.quotas.in_namespace(namespace) {
            self.queue.add(Key::of(&quota.metadata));
        }
    }

    /// Returns the use of the quota's namespace, of the things that it limits.
    async fn used(&self, quota: &ResourceQuota, hard: &BTreeSet<String>) -> Result<Amounts, Error> {
        let namespace = namespace_of(&quota.metadata);
        let mut used: Amounts = hard.iter().map(|name| (name.clone(), Quantity::ZERO)).collect();
        for pod in self.context.informers.pods.in_namespace(namespace).iter().filter(|pod| covers(quota, pod)) {
            add(&mut used, usage::of_pod(pod));
        }
        if has_scopes(quota) {
            return Ok(used);
        }
        for service in self.context.informers.services.in_namespace(namespace) {
            add(&mut used, usage::of_service(&service));
        }
        for claim in self.context.informers.persistent_volume_claims.in_namespace(namespace) {
            add(&mut used, usage::of_claim(&claim));
        }
        // All others are only counted, and asked for only if a quota names them.
        let others: Vec<&String> = hard.iter().filter(|name| usage::is_counted_by_number(name)).collect();
        if others.is_empty() {
            return Ok(used);
        }
        let kinds = discovery::kinds(&self.context.requests).await?;
        for name in others {
            let Some(kind) = kinds.iter().find(|kind| usage::names(name, &kind.group, &kind.plural)) else { continue };
            let there = self.context.requests.list_metadata(&kind.path_in(namespace)).await?.unwrap_or_default();
            used.insert(name.clone(), Quantity::from_whole(i64::try_from(there.len()).unwrap_or(i64::MAX)));
        }
        Ok(used)
    }
}

impl Reconciler for ResourceQuotas {
    type Key = Key;

    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(quota) = self.quotas.get(key) else { return Ok(()) };
        let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
        let used = self.used(&quota, &hard.keys().cloned().collect()).await?;
        let known = quota.status.clone().unwrap_or_default();
        let told = |name: &String| known.used.as_ref().and_then(|used| Quantity::parse(&used.get(name)?.0).ok());
        let is_told = known.hard.as_ref() == Some(&hard)
            && known.used.as_ref().is_some_and(|told| told.len() == hard.len())
            && hard.keys().all(|name| told(name) == used.get(name).cloned());
        if !is_told {
            let used = hard.keys().map(|name| {
                let amount = used.get(name).unwrap_or(&Quantity::ZERO);
                (name.clone(), Written(amount.to_string()))
            });
            let status = ResourceQuotaStatus { used: Some(used.collect()), hard: Some(hard) };
            let changed = ResourceQuota { status: Some(status), ..ResourceQuota::clone(&quota) };
            let _: Ignored = match self.context.requests.replace_status(&changed).await {
                Err(error) if error.is_not_found() => return Ok(()),
                written => written?,
            };
        }
        self.queue.add_after(key.clone(), ANEW);
        Ok(())
    }
}

fn add(used: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        if let Some(sum) = used.get_mut(&name) {
            *sum = sum.plus(&amount);
        }
    }
}

fn has_scopes(quota: &ResourceQuota) -> bool {
    let Some(spec) = &quota.spec else { return false };
    let expressions = spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || expressions.is_some_and(|all| !all.is_empty())
}

/// Returns true when the quota is about the pod.
fn covers(quota: &ResourceQuota, pod: &Pod) -> bool {
    let Some(spec) = &quota.spec else { return false };
    let selector = spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    spec.scopes.iter().flatten().all(|scope| usage::describes(scope, "Exists", &[], pod))
        && selector.into_iter().flatten().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            usage::describes(&expression.scope_name, &expression.operator, values, pod)
        })
}
