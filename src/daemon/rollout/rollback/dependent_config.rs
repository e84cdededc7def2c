//! The ConfigMaps and Secrets that the commit of a failed workload changed too: their list, the workloads that need
//! them, their former manifests, and the tasks that roll them back.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tracing::error;

use crate::cluster::Served;
use crate::config::OnFailure;
use crate::daemon::rollout::apply_wave::Ranks;
use crate::daemon::rollout::patience::Patience;
use crate::daemon::rollout::rollout_task::{Cancelled, Findings, Resume, RolloutTask};
use crate::daemon::shared::rollout_slots::RolloutSlot;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::rollback::ChangedConfiguration;
use belay_core::rollout::{
    Apply, Companion, Hold, PlanStep, Planned, Reason, Record, RecordId, Trigger, Wanted, named_configuration, rank,
    template,
};

/// Returns the object that failed, if this one only goes back with it.
pub fn culprit(work: &RolloutTask) -> Option<Companion> {
    let Trigger::Together(object) = &work.planned.wanted.trigger else { return None };
    let manifest = work.context.repository.desired().hash(object)?.to_string();
    Some(Companion { object: object.clone(), manifest })
}

/// Returns the workloads that read this object.
pub fn readers(work: &RolloutTask) -> Vec<Companion> {
    let desired = work.context.repository.desired();
    let named = desired.named_by(&work.planned.wanted.key).into_iter();
    named.filter_map(|object| Some(Companion { manifest: desired.hash(&object)?.to_string(), object })).collect()
}

/// Returns the ConfigMaps and Secrets that a workload names and that its commit changed, and who else needs them as
/// they are.
pub async fn changed(work: &RolloutTask) -> Result<Vec<ChangedConfiguration>, Cancelled> {
    let wanted = &work.planned.wanted;
    let manifest = wanted.manifest.value();
    let mut changed = Vec::new();
    let names = template(&manifest).map(|template| named_configuration(template, wanted.key.namespace.as_deref()));
    for name in names.into_iter().flatten() {
        let Some(manifest) = turned(work, &name).await else { continue };
        // It goes back in any case where the whole commit does, and may be what the workload failed by.
        let others: Vec<ObjectKey> = match work.context.config.on_failure {
            OnFailure::RollBackCommit => Vec::new(),
            OnFailure::RollBack | OnFailure::Report => {
                let desired = work.context.repository.desired();
                desired.named_by(&name).into_iter().filter(|other| *other != wanted.key).collect()
            }
        };
        let mut needed_by = Vec::new();
        for other in others {
            if !failed_too(work, &other).await? {
                needed_by.push(other);
            }
        }
        changed.push(ChangedConfiguration { manifest, needed_by });
    }
    Ok(changed)
}

/// Returns the present manifest of a ConfigMap or Secret that the failed commit, or one before it that failed too, has
/// changed, and that no later one has.
async fn turned(work: &RolloutTask, key: &ObjectKey) -> Option<Manifest> {
    let context = &work.context;
    if !context.repository.desired().has(key) || !context.is_of_failed(key, &work.planned.wanted.commit.id).await {
        return None;
    }
    let desired = context.repository.desired();
    desired.manifest(key, |path, content, scopes| context.repository.read_lately(path, content, scopes)).ok().flatten()
}

/// Returns true when another workload that names the same configuration failed by the same commit.
async fn failed_too(work: &RolloutTask, other: &ObjectKey) -> Result<bool, Cancelled> {
    let context = &work.context;
    let manifest = context.repository.manifest(other).ok().flatten();
    let Some(manifest) = manifest else { return Ok(false) };
    let read = work.until_served(other, || async {
        let served = context.cluster.served(&manifest.api_version, &other.kind).await?;
        context.cluster.get(other, &served).await
    });
    let live = read.await?.unwrap_or_default();
    let hold = live.as_ref().and_then(Hold::on);
    let commit = &work.planned.wanted.commit.id;
    Ok(hold.is_some_and(|hold| hold.manifest == manifest.hash.to_string() && hold.commit == *commit))
}

/// Returns the task of an object that goes back with a workload, under a record of its own, and the object as it is.
/// `None` if it is not there, if it is back already, or if it can't be recorded.
pub async fn task(
    work: &RolloutTask,
    manifest: &Manifest,
    reason: &Reason,
) -> Result<Option<(RolloutTask, Arc<Value>)>, Cancelled> {
    let (context, key) = (&work.context, &manifest.key);
    let read = work.until_served(key, || async {
        let served = context.cluster.served(&manifest.api_version, &key.kind).await?;
        let live = context.cluster.get(key, &served).await?;
        Ok(live.map(|live| (served, live)))
    });
    let Ok(Some((served, live))) = read.await? else { return Ok(None) };
    if context.goes_back_already(manifest) {
        return Ok(None);
    }
    let record = begin(work, manifest, reason);
    Ok(record.map(|record| (dependent_task(work, manifest.clone(), served, record), Arc::new(live))))
}

/// Returns the record of an object that goes back with a workload. Without a record it does not: an unrecorded step
/// must not be taken.
fn begin(work: &RolloutTask, manifest: &Manifest, reason: &Reason) -> Option<RecordId> {
    let context = &work.context;
    let now = context.clock.now();
    let record = Record {
        trigger: Trigger::Together(work.planned.wanted.key.clone()),
        reason: Some(reason.clone()),
        manifest_hash: Some(manifest.hash.to_string()),
        ..Record::planned(&context.config.name, &work.planned.wanted.commit.id, manifest.key.clone(), now)
            .written_in(manifest.place.clone(), manifest.file())
    };
    let head = context.status.planned().unwrap_or_else(|| record.commit.clone());
    match context.begin_records(&head, &[record], now) {
        Ok(ids) => ids.into_iter().next(),
        Err(error) => {
            error!(object = %manifest.key, %error, "failed to write down that it goes back; it stays");
            None
        }
    }
}

fn dependent_task(work: &RolloutTask, manifest: Manifest, served: Served, record: RecordId) -> RolloutTask {
    let rank = rank(&manifest.key);
    let cause = &work.planned.wanted;
    let wanted = Wanted::of(manifest, Arc::clone(&cause.commit), Trigger::Together(cause.key.clone()));
    let apply = Apply::of_manifest(&wanted, &work.context.config.name);
    RolloutTask {
        context: Arc::clone(&work.context),
        planned: Planned { wanted, step: PlanStep::Apply(apply.clone()) },
        apply,
        served,
        record,
        turn: Ranks::new([rank]).turn(rank),
        cancel: work.cancel.clone(),
        live: watch::channel(None).1,
        give_up: watch::channel(None).1,
        resume: Resume::default(),
        canary: None,
        findings: Findings::default(),
        patience: Patience::default(),
        slot: RolloutSlot::uncounted(),
    }
}
