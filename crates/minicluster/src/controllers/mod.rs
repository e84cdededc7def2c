//! Controllers: clients of the Kubernetes API that make status follow spec.
//!
//! They are built like those of a real cluster and can take their place, or be replaced by them: all that they are given
//! is a [`kube::Client`]. Informers keep the kinds in memory, work queues hold the keys of objects to reconcile,
//! workers bring one object at a time in order. The same seed on the same API server gives the same writes in the same
//! order.

mod claim_protection;
mod cluster_roles;
mod context;
mod cron_job;
mod daemon_set;
mod deployment;
#[cfg(test)]
mod determinism;
mod discovery;
mod disruption;
mod endpoints;
mod error;
mod events;
mod expectations;
#[cfg(test)]
mod foreground_deletion;
mod garbage_collector;
mod history;
mod informer;
mod informers;
mod job;
mod key;
mod namespace;
mod namespace_defaults;
mod node;
mod owner;
mod ownership;
mod pod;
mod pod_control;
mod replica_set;
mod requests;
mod resource_quota;
mod routing;
mod selector;
mod stateful_set;
mod taint_eviction;
mod template;
mod templated;
#[cfg(test)]
mod test_request;
mod volumes;
mod work_queue;
mod worker;

use std::collections::BTreeSet;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::Random;
use crate::Clock;
use context::{Context, ControllerStart};
use informers::Informers;
use requests::Requests;

/// One controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Controller {
    /// Rolls Deployments out.
    Deployment,
    /// Keeps as many pods as a ReplicaSet says.
    ReplicaSet,
    /// Keeps as many pods as a ReplicationController says.
    ReplicationController,
    /// Keeps the numbered pods of StatefulSets.
    StatefulSet,
    /// Keeps a pod of each DaemonSet on every node that it fits on.
    DaemonSet,
    /// Runs the pods of Jobs to their end.
    Job,
    /// Makes Jobs when they are due.
    CronJob,
    /// Deletes Jobs some time after they have ended.
    TimeToLive,
    /// Says how many pods may be evicted.
    Disruption,
    /// Counts the usage of namespaces against their quotas.
    ResourceQuota,
    /// Tells where the pods of Services are.
    EndpointSlice,
    /// Tells it in the old form.
    Endpoints,
    /// Keeps claims until no pod uses them.
    ClaimProtection,
    /// Makes the volumes that claims ask for.
    Volumes,
    /// Drives pods off nodes whose taints they don't bear.
    TaintEviction,
    /// Empties namespaces that are to go.
    Namespace,
    /// Makes the ServiceAccount `default` in every namespace.
    ServiceAccount,
    /// Makes the ConfigMap `kube-root-ca.crt` in every namespace.
    RootCertificate,
    /// Gathers the rules of ClusterRoles in others.
    ClusterRoleAggregation,
    /// Deletes objects that have lost their owners. The last, because it joins the watches of the others.
    GarbageCollector,
}

/// The set of controllers that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which(BTreeSet<Controller>);

impl Which {
    /// Every controller that there is.
    pub const EVERY: &[Controller] = &[
        Controller::Deployment,
        Controller::ReplicaSet,
        Controller::ReplicationController,
        Controller::StatefulSet,
        Controller::DaemonSet,
        Controller::Job,
        Controller::CronJob,
        Controller::TimeToLive,
        Controller::Disruption,
        Controller::ResourceQuota,
        Controller::EndpointSlice,
        Controller::Endpoints,
        Controller::ClaimProtection,
        Controller::Volumes,
        Controller::TaintEviction,
        Controller::Namespace,
        Controller::ServiceAccount,
        Controller::RootCertificate,
        Controller::ClusterRoleAggregation,
        Controller::GarbageCollector,
    ];

    /// Returns all of them.
    #[must_use]
    pub fn all() -> Which {
        Which::only(Which::EVERY)
    }

    /// Returns these, and no others.
    #[must_use]
    pub fn only(controllers: &[Controller]) -> Which {
        Which(controllers.iter().copied().collect())
    }

    /// Returns all but these.
    #[must_use]
    pub fn without(mut self, controllers: &[Controller]) -> Which {
        self.0.retain(|controller| !controllers.contains(controller));
        self
    }
}

/// The options of the controllers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The clock.
    pub clock: Clock,
    /// The source of everything random.
    pub random: Random,
    /// The controllers that run.
    pub which: Which,
    /// The cluster's root certificate, as PEM, for the ConfigMap `kube-root-ca.crt`.
    pub root_certificate: String,
}

impl Options {
    /// Returns all controllers, and no root certificate to speak of.
    #[must_use]
    pub fn new(clock: impl Into<Clock>, random: Random) -> Options {
        Options { clock: clock.into(), random, which: Which::all(), root_certificate: String::new() }
    }
}

/// Running controllers. They stop when it is dropped; [`Running::stop`] waits until they have.
#[derive(Debug)]
pub struct Running {
    tracker: TaskTracker,
    stop: DropGuard,
}

impl Running {
    /// Stops all controllers and waits until they have stopped; a reconciliation under way is finished first.
    pub async fn stop(self) {
        drop(self.stop);
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Starts controllers on the current tokio runtime; they work until they are stopped.
#[must_use]
pub fn start(client: kube::Client, options: &Options) -> Running {
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let (recorder, writers) = events::channel(options.clock.clone());
    let requests = Requests::new(client.clone());
    let context = Context {
        requests: requests.clone(),
        clock: options.clock.clone(),
        recorder,
        informers: Informers::new(),
        random: options.random.fork(),
    };
    for writer in writers {
        tracker.spawn(writer.run(requests.clone(), stop.clone()));
    }
    let mut workers: Vec<ControllerStart> = Vec::new();
    for controller in &options.which.0 {
        workers.push(match controller {
            Controller::Deployment => deployment::prepare(&context),
            Controller::ReplicaSet => replica_set::replica_sets(&context),
            Controller::ReplicationController => replica_set::replication_controllers(&context),
            Controller::StatefulSet => stateful_set::prepare(&context),
            Controller::DaemonSet => daemon_set::prepare(&context),
            Controller::Job => job::prepare(&context),
            Controller::CronJob => cron_job::prepare(&context),
            Controller::TimeToLive => job::time_to_live(&context),
            Controller::Disruption => disruption::prepare(&context),
            Controller::ResourceQuota => resource_quota::prepare(&context),
            Controller::EndpointSlice => endpoints::slices(&context),
            Controller::Endpoints => endpoints::old(&context),
            Controller::ClaimProtection => claim_protection::prepare(&context),
            Controller::Volumes => volumes::prepare(&context),
            Controller::TaintEviction => taint_eviction::prepare(&context),
            Controller::Namespace => namespace::prepare(&context),
            Controller::ServiceAccount => namespace_defaults::service_accounts(&context),
            Controller::RootCertificate => {
                namespace_defaults::root_certificates(&context, options.root_certificate.clone())
            }
            Controller::ClusterRoleAggregation => cluster_roles::prepare(&context),
            Controller::GarbageCollector => garbage_collector::prepare(&context),
        });
    }
    context.informers.run(&client, &options.random, &tracker, &stop);
    let (tasks, token) = (tracker.clone(), stop.clone());
    tracker.spawn(async move {
        tokio::select! {
            biased;
            () = token.cancelled() => return,
            () = context.informers.synced() => {}
        }
        for start in workers {
            start(&tasks, &token);
        }
    });
    Running { tracker, stop: stop.drop_guard() }
}
