//! Plans the effect of a commit's manifests on a cluster, for `belay plan`: it asks the API server in dry runs and
//! lists. Nothing is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use serde_json::Value;
use tracing::info;

use super::on_outage::OnOutage;
use super::planner::{Holds, Planner};
use crate::cluster::{Cluster, ClusterError, Served};
use crate::config::SourceConfig;
use crate::daemon::leadership::lease::lease_name;
use crate::daemon::shared::autoscalers::Autoscalers;
use crate::daemon::shared::finished_jobs::FinishedJobs;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{
    Commit, CommitId, Plan, PlanStep, Planned, Prunable, Reason, ReasonCode, RunFacts, Trigger, Wanted,
    allowed_by_trailer, is_job, is_over, marks, prunable, too_many,
};

/// The number of kinds that are listed at once.
const AT_ONCE: usize = 8;

/// The objects that the manifests of a commit leave out.
pub struct Leaving<'a> {
    /// The source that they are for.
    pub config: &'a SourceConfig,
    /// The commit.
    pub commit: &'a Arc<Commit>,
    /// The objects that they mention, valid or not.
    pub mentioned: &'a BTreeSet<ObjectKey>,
    /// True when a file can't be read: missing objects may be in there.
    pub unreadable: bool,
}

/// The plan for the objects that the manifests of a commit leave out.
pub struct LeavingPlan {
    /// The steps, one for each object.
    pub planned: Vec<Planned>,
    /// The message that more objects have left than `prune_limit` allows: then none of them is deleted.
    pub beyond_limit: Option<String>,
}

/// Returns the effect of a commit's manifests on a cluster.
///
/// # Errors
/// Fails when the API server does not answer.
pub async fn plan_once(
    cluster: &Cluster,
    source: &str,
    head: &CommitId,
    mut wanted: Vec<Wanted>,
) -> Result<Plan, ClusterError> {
    let holds = Holds::These(wanted.iter().map(|wanted| (wanted.key.clone(), wanted.hash.clone())).collect());
    Autoscalers::read(cluster, &wanted).await?.take_their_part(&mut wanted);
    let planner = Planner {
        cluster,
        source,
        on_outage: OnOutage::GiveUp,
        try_new: usize::MAX,
        holds,
        requests: None,
        memory: None,
        patience: None,
    };
    let prepared = planner.plan(wanted).await?;
    let planned = prepared.into_iter().map(|prepared| prepared.planned).collect();
    Ok(Plan::new(source.to_owned(), head.clone(), planned))
}

/// Takes out of a plan the Jobs and hooks that have run for their manifests and are gone, as the Lease of their source remembers
/// them: they are not made again.
pub async fn leave_finished(cluster: &Cluster, config: &SourceConfig, planned: &mut [Planned]) {
    let is_made = |planned: &&mut Planned| {
        let creates = matches!(&planned.step, PlanStep::Apply(apply) if apply.creates);
        let manifest = &planned.wanted.manifest;
        creates && (is_job(&manifest.key) || marks::annotation(&manifest.value(), marks::HOOK_RUN).is_some())
    };
    let mut made: Vec<&mut Planned> = planned.iter_mut().filter(is_made).collect();
    if made.is_empty() {
        return;
    }
    let finished = FinishedJobs::new(config.lease_namespace(), lease_name(&config.name));
    finished.recall(cluster).await;
    for one in &mut made {
        let remembered = finished.recalled(&one.wanted.key);
        let facts = RunFacts { remembered: remembered.as_deref(), installed: true, ..RunFacts::default() };
        if is_over(&one.wanted, &facts) {
            one.step = PlanStep::Unchanged;
        }
    }
}

/// Returns the objects of a source that its manifests do not mention: deleted, or left as they are, and why.
///
/// # Errors
/// Fails when the API server does not answer.
pub async fn plan_leaving(cluster: &Cluster, leaving: Leaving<'_>) -> Result<LeavingPlan, ClusterError> {
    let left = left_out(cluster, &leaving).await?;
    let may_go = |live: &Value, key: &ObjectKey| {
        prunable(key, live, &leaving.config.name, cluster.default_namespace()) == Prunable::Yes
            && marks::suspension(live).is_none()
    };
    let going: Vec<ObjectKey> =
        left.iter().filter(|(key, _, live)| may_go(live, key)).map(|(key, ..)| key.clone()).collect();
    let limit = leaving.config.prune_limit(leaving.mentioned.len() + going.len());
    let limit = limit.max(allowed_by_trailer(std::slice::from_ref(leaving.commit)).unwrap_or_default());
    let prunes = leaving.config.prune && !leaving.unreadable;
    let beyond_limit = (prunes && going.len() > limit).then(|| too_many(&going, limit));
    let refused = match (leaving.config.prune, leaving.unreadable) {
        (false, _) => Some("its manifest left the repository, and pruning is off: the object stays".to_owned()),
        (true, true) => {
            Some("its manifest left the repository; nothing is deleted while a file can't be read".to_owned())
        }
        (true, false) => beyond_limit.is_some().then(|| {
            let left = going.len();
            format!(
                "its manifest left the repository; prune_limit allows {limit} of {left} deletions: the object stays"
            )
        }),
    };
    let step = |key: &ObjectKey, live: &Value| {
        if let Some(why) = marks::suspension(live) {
            return PlanStep::Suspended(why.to_owned());
        }
        let stays = match prunable(key, live, &leaving.config.name, cluster.default_namespace()) {
            Prunable::Stays(why) => Some(format!("its manifest left the repository, and it stays: {why}")),
            _ => refused.clone(),
        };
        match stays {
            Some(why) => PlanStep::Rejected(Reason::new(ReasonCode::PruneRefused, why), Vec::new()),
            None => PlanStep::Prune,
        }
    };
    let planned = left.into_iter().map(|(key, served, live)| {
        let step = step(&key, &live);
        let manifest = Manifest::of_nothing_but(key, served.api_version());
        Planned { wanted: Wanted::of(manifest, Arc::clone(leaving.commit), Trigger::Commit), step }
    });
    Ok(LeavingPlan { planned: planned.collect(), beyond_limit })
}

/// Returns the live objects of the source that its manifests do not mention, as far as they may be listed.
async fn left_out(cluster: &Cluster, leaving: &Leaving<'_>) -> Result<Vec<(ObjectKey, Served, Value)>, ClusterError> {
    let source = &leaving.config.name;
    let labels = format!("{}={source}", marks::SOURCE);
    let namespaces: BTreeSet<String> = leaving.mentioned.iter().filter_map(|key| key.namespace.clone()).collect();
    let listed: Vec<_> = stream::iter(cluster.all_kinds().await?)
        .map(|served| async {
            let found = cluster.labelled(&served, &namespaces, &labels).await;
            (served, found)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut left = Vec::new();
    for (served, found) in listed {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                // One kind that can't be listed keeps no other from being planned; the daemon deletes none of it either.
                info!(kind = served.kind, %error, "not looked through for what has left the repository");
                continue;
            }
        };
        for (key, live) in found {
            let is_ours = prunable(&key, &live, source, cluster.default_namespace()) != Prunable::NotOurs;
            let stays_here = live["metadata"].get("deletionTimestamp").is_none();
            let is_named = |named: &ObjectKey| !key.is_built_in() && named.may_name(&key, served.namespaced);
            let is_mentioned = leaving.mentioned.contains(&key) || leaving.mentioned.iter().any(is_named);
            if is_ours && stays_here && !is_mentioned {
                left.push((key, served.clone(), live));
            }
        }
    }
    Ok(left)
}
