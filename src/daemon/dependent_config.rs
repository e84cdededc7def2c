//! What goes back with a failed workload: the ConfigMaps and Secrets that its commit changed and that nobody else needs as
//! they are now, and, where the source says so, everything that the commit touched.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::apply_wave::Ranks;
use super::failure::{fail, rollback_failed};
use super::previous_manifest::PreviousManifest;
use super::resume_point::resumed_apply;
use super::rollout_task::{Cancelled, Findings, Resume, RolloutTask};
use crate::cluster::{Backoff, EventKind, Served};
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{
    Action, Companion, Hold, Outcome, Planned, Reason, Record, RecordId, TemplateMarks, Trigger, Wanted, held_body,
    named_configuration, rank, template,
};

/// The configuration of a failed workload.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// What goes back with it.
    goes: Vec<Manifest>,
    /// What its commit changed too and can't go back, and why.
    pub stays: Vec<String>,
}

impl Company {
    /// What goes back.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.goes.iter().map(|manifest| manifest.key.clone()).collect()
    }

    /// What goes back besides these; of what stays, nothing needs to be said again.
    pub(super) fn besides(mut self, gone: &[ObjectKey]) -> Company {
        self.goes.retain(|manifest| !gone.contains(&manifest.key));
        self.stays.clear();
        self
    }
}

/// The object that failed, where this one only goes back with it.
pub(super) fn culprit(work: &RolloutTask) -> Option<Companion> {
    let Trigger::Together(object) = &work.planned.wanted.trigger else { return None };
    let manifest = work.context.repository.desired().hash(object)?.to_string();
    Some(Companion { object: object.clone(), manifest })
}

/// Which ConfigMaps and Secrets go back with a workload, and which can't.
pub(super) async fn company(work: &RolloutTask) -> Result<Company, Cancelled> {
    let wanted = &work.planned.wanted;
    let manifest = wanted.manifest.value();
    let Some(template) = template(&manifest) else { return Ok(Company::default()) };
    let mut company = Company::default();
    for name in named_configuration(template, wanted.key.namespace.as_deref()) {
        let Some(manifest) = turned(work, &name).await else { continue };
        let others: Vec<ObjectKey> = {
            let desired = work.context.repository.desired();
            desired.named_by(&name).into_iter().filter(|other| *other != wanted.key).collect()
        };
        let mut well = Vec::new();
        for other in others {
            if !failed_too(work, &other).await? {
                well.push(other.to_string());
            }
        }
        if well.is_empty() {
            company.goes.push(manifest);
        } else {
            let users = well.join(", ");
            company
                .stays
                .push(format!("{name}, which the commit changed too, stays: {users} names it and has not failed"));
        }
    }
    Ok(company)
}

/// The present manifest of a ConfigMap or Secret that the failed commit changed, and that no later one has.
async fn turned(work: &RolloutTask, key: &ObjectKey) -> Option<Manifest> {
    let context = &work.context;
    if !context.repository.desired().has(key) {
        return None;
    }
    let (asked, commit) = (key.clone(), work.planned.wanted.commit.id.clone());
    let PreviousManifest { now, .. } = context.ask_git(move |repository| repository.turned_by(&asked, &commit)).await?;
    let desired = context.repository.desired();
    desired
        .manifest(key, |path, content, scopes| context.repository.read(path, content, scopes))
        .ok()
        .flatten()
        .filter(|manifest| manifest.hash == now)
}

/// Whether another workload that names the same configuration failed by the same commit.
async fn failed_too(work: &RolloutTask, other: &ObjectKey) -> Result<bool, Cancelled> {
    let context = &work.context;
    let manifest = context.repository.manifest(other).ok().flatten();
    let Some(manifest) = manifest else { return Ok(false) };
    let read = Backoff::insist(context.in_the_way(other), || async {
        let served = context.cluster.served(&manifest.api_version, &other.kind).await?;
        context.cluster.get(other, &served).await
    });
    let live = work.unless_cancelled(read).await?.unwrap_or_default();
    let hold = live.as_ref().and_then(Hold::on);
    let commit = &work.planned.wanted.commit.id;
    Ok(hold.is_some_and(|hold| hold.manifest == manifest.hash.to_string() && hold.commit == *commit))
}

/// Takes the configuration back, each under a record of its own. Where that fails it is said, and the workload goes back
/// without it.
pub(super) async fn take_company_back(work: &RolloutTask, company: Company, reason: &Reason) -> Result<(), Cancelled> {
    for stays in &company.stays {
        warn!(object = %work.planned.wanted.key, stays, "does not go back with it");
    }
    for manifest in company.goes {
        let context = &work.context;
        let key = manifest.key.clone();
        let read = Backoff::insist(context.in_the_way(&key), || async {
            let served = context.cluster.served(&manifest.api_version, &key.kind).await?;
            let live = context.cluster.get(&key, &served).await?;
            Ok(live.map(|live| (served, live)))
        });
        let Ok(Some((served, live))) = work.unless_cancelled(read).await? else { continue };
        let Some(record) = begin(work, &manifest, reason) else { continue };
        let mut own = own_work(work, manifest, served, record);
        Box::pin(take_back(&mut own, reason.clone(), &live)).await?;
    }
    Ok(())
}

/// The record of what goes back with a workload. Without one it does not: what has not been recorded must not be done.
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
    match context.history.begin(&context.config.name, &head, &[record], now) {
        Ok(ids) => ids.into_iter().next(),
        Err(error) => {
            error!(object = %manifest.key, %error, "failed to write down that it goes back; it stays");
            None
        }
    }
}

fn own_work(work: &RolloutTask, manifest: Manifest, served: Served, record: RecordId) -> RolloutTask {
    let rank = rank(&manifest.key);
    let cause = &work.planned.wanted;
    let wanted = Wanted::of(manifest, Arc::clone(&cause.commit), Trigger::Together(cause.key.clone()));
    let apply = resumed_apply(&wanted, &work.context.config.name);
    RolloutTask {
        context: Arc::clone(&work.context),
        planned: Planned { wanted, action: Action::Apply(apply.clone()) },
        apply,
        served,
        record,
        turn: Ranks::new([rank]).turn(rank),
        cancel: work.cancel.clone(),
        live: watch::channel(None).1,
        give_up: watch::channel(None).1,
        resume: Resume::default(),
        findings: Findings::default(),
    }
}

/// Takes an object without a pod template back to its former manifest, and holds the present one.
pub(super) async fn take_back(work: &mut RolloutTask, reason: Reason, live: &Value) -> Result<Outcome, Cancelled> {
    let wanted = work.planned.wanted.clone();
    let context = Arc::clone(&work.context);
    if Hold::on(live).is_some_and(|hold| hold.keeps(&wanted.hash, wanted.config.as_deref())) {
        return work.end(Outcome::RolledBack, Some(reason)).await;
    }
    let (key, commit) = (wanted.key.clone(), wanted.commit.id.clone());
    let turned = context.ask_git(move |repository| repository.turned_by(&key, &commit)).await;
    let Some(PreviousManifest { former, .. }) = turned else {
        let message =
            format!("{}; {} is new with this commit: there is nothing to go back to", reason.message, wanted.key);
        return fail(work, live, Reason { message, ..reason }).await;
    };
    let users: Vec<Companion> = {
        let desired = context.repository.desired();
        let named = desired.named_by(&wanted.key).into_iter();
        named.filter_map(|object| Some(Companion { manifest: desired.hash(&object)?.to_string(), object })).collect()
    };
    let culprit = culprit(work).filter(|culprit| !users.contains(culprit));
    let hold = Hold {
        manifest: wanted.hash.clone(),
        config: None,
        template: String::new(),
        left_alone: Vec::new(),
        commit: wanted.commit.id.clone(),
        reason: reason.message.clone(),
        since: context.clock.now(),
        with: Vec::new(),
        by: None,
    }
    .together_with(culprit.into_iter().chain(users));
    let marks = TemplateMarks::default();
    let sent = held_body(&former.manifest.value(), &context.config.name, &marks, &hold, None);
    let to = former.commit.change_cause();
    context.going_back(work.record, &reason, Some(&former.commit.id), None, &to).await;
    match work.insist_on_apply(&sent).await? {
        Ok(written) => {
            info!(object = %wanted.key, to, "went back with what failed");
            let message = format!("back on {to}; {} is held: {reason}", wanted.commit.change_cause());
            context.tell(&wanted.key, &written, EventKind::Warning, "RolledBack", message);
            work.end(Outcome::RolledBack, Some(reason)).await
        }
        Err(error) => rollback_failed(work, live, reason.and(format!("the way back was refused: {error}"))).await,
    }
}
