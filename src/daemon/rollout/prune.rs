//! Deletes objects that have left the repository, if the source says so: within its limit, and only those that belay
//! put there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::SignedDuration;
use serde_json::Value;
use tracing::{info, warn};

use super::rollout_task::{Cancelled, RolloutTask};
use super::until_served::NotServedSince;
use crate::cluster::{Backoff, ClusterError, EventKind, Sent, Served};
use crate::daemon::planning::plan_parts::PATIENCE;
use crate::daemon::planning::prune_candidates::{Candidate, Candidates, PlannedDeletion};
use crate::daemon::planning::revision_references::RevisionReferences;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::live::newest_other_manager;
use crate::daemon::shared::requests::OF_ONE_SOURCE;
use belay_core::manifest::{HookDeletion, Manifest, ObjectKey, deletes_hook};
use belay_core::rollout::{
    HookRun, Outcome, PlanStep, Prunable, Reason, ReasonCode, StepKind, finalizers, hook_run, is_pod, marks, prunable,
    runs_once, too_many,
};

/// The time after which a deletion is reported to hang.
const HANGS: SignedDuration = SignedDuration::from_secs(15);
/// The time after which belay no longer waits for it.
const GIVES_UP: SignedDuration = SignedDuration::from_mins(10);
/// The waits between two checks that an object is gone.
const STILL_THERE: Backoff = Backoff::between(Duration::from_millis(200), Duration::from_secs(15));

/// The deletions.
#[derive(Default)]
pub struct PrunePlan {
    pub prepared: Vec<Prepared>,
    /// True when all kinds were searched; `None` if they were not to be.
    pub searched: Option<bool>,
    /// The kinds of suspended objects that have left: a watch hears the end of the suspension, also if the head has no
    /// object of that kind.
    pub suspended: Vec<Served>,
}

/// Plans the deletions.
pub async fn plan(context: &Arc<Context>, candidates: Option<Candidates>) -> PrunePlan {
    let Some(candidates) = candidates else { return PrunePlan::default() };
    let plan = deletions(context, candidates).await;
    PrunePlan { prepared: context.with_last_places(plan.prepared).await, ..plan }
}

async fn deletions(context: &Arc<Context>, mut candidates: Candidates) -> PrunePlan {
    let (mut prepared, mut searched) = candidates.search(context).await;
    let (limit, new) = (candidates.limit(context), &candidates.new);
    let mut leaving: Vec<PlannedDeletion> = Vec::new();
    let keys: BTreeSet<ObjectKey> = candidates.objects.keys().filter(|key| !new.contains(key)).cloned().collect();
    let made = context.made(&keys).await;
    let (mut unmanaged, mut suspended): (Vec<ObjectKey>, Vec<Served>) = Default::default();
    let mut references = RevisionReferences::default();
    let objects = std::mem::take(&mut candidates.objects).into_values();
    let objects = stream::iter(objects).map(|candidate| async move {
        let found = find(context, &candidate.manifest).await;
        (candidate, found)
    });
    let objects: Vec<(Candidate, FoundObject)> = objects.buffered(OF_ONE_SOURCE).collect().await;
    for (candidate, found) in objects {
        let key = candidate.manifest.key.clone();
        let (served, live) = match found {
            FoundObject::Live(served, live) => (served, *live),
            FoundObject::Nothing => continue,
            FoundObject::NotServed => {
                searched = Some(false);
                continue;
            }
        };
        let is_new = candidates.new.contains(&key);
        let writer = newest_other_manager(&live);
        let leaves = |step| PlannedDeletion { candidate, served: Some(served.clone()), step, writer };
        if let Some(why) = marks::suspension(&live) {
            suspended.push(served.clone());
            if is_new {
                prepared.push(leaves(PlanStep::Suspended(why.to_owned())));
            }
            continue;
        }
        match prunable(&key, &live, &context.config.name, context.cluster.default_namespace()) {
            Prunable::NotOurs if is_new => {
                warn!(object = %key, "left the repository and stays: its label or its field managers are not this source's any more");
            }
            Prunable::NotOurs => {}
            // Anybody who can write one object can write its label, and the name of a field manager.
            _ if !is_new && !made.contains(&key) => unmanaged.push(key),
            Prunable::Yes if references.has(context, &key).await => {
                info!(object = %key, "left the repository and stays for now: a revision that a workload may go back to names it");
            }
            Prunable::Yes => leaving.push(leaves(PlanStep::Prune)),
            Prunable::Stays(why) => info!(object = %key, why, "left the repository and stays"),
        }
    }
    context.warn_unmanaged(&unmanaged);
    let names =
        |leaving: &[PlannedDeletion]| leaving.iter().map(|one| one.candidate.manifest.key.clone()).collect::<Vec<_>>();
    let lost = context.in_lost_folders(names(&leaving).into_iter().collect()).await;
    leaving.retain(|one| !lost.contains_key(&one.candidate.manifest.key));
    if leaving.len() <= limit {
        context.status.trouble(&Obstacle::Prune, said_of_lost(&lost));
    } else {
        let message = too_many(&names(&leaving), limit);
        warn!(message, "refused to delete");
        context.status.trouble(&Obstacle::Prune, Some(message.clone()));
        leaving.retain(|one| candidates.new.contains(&one.candidate.manifest.key));
        let reason = Reason::new(ReasonCode::PruneRefused, message);
        leaving.iter_mut().for_each(|one| one.step = PlanStep::Rejected(reason.clone(), Vec::new()));
    }
    prepared.extend(leaving);
    PrunePlan { prepared: context.charge(prepared, candidates).await, searched, suspended }
}

/// Returns the sentence about objects that stay because the folder that they were in is lost.
fn said_of_lost(lost: &BTreeMap<ObjectKey, String>) -> Option<String> {
    let (key, why) = lost.first_key_value()?;
    let more = if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() };
    let message = format!("{key}{more}: {why}; it is not deleted");
    warn!(message, "refused to delete");
    Some(message)
}

/// The object that is to be deleted, as far as it can be found.
enum FoundObject {
    Live(Served, Box<Value>),
    /// It is not there, is on its way out, may not be read, or is in the repository under another name.
    Nothing,
    /// It can't be read now. It is searched for again.
    NotServed,
}

/// Finds an object. One that the API server can't serve, or is slow to, keeps nothing else waiting.
async fn find(context: &Context, manifest: &Manifest) -> FoundObject {
    let key = &manifest.key;
    let read = Backoff::until_answered(context.in_the_way(key), || async {
        let served = context.cluster.served(&manifest.api_version, &key.kind).await?;
        Ok(context.cluster.get(key, &served).await?.map(|live| (served, live)))
    });
    let Some(found) = in_patience(read, || context.cluster.is_ready()).await else { return FoundObject::NotServed };
    context.status.trouble(
        &Obstacle::Object(key.clone()),
        found.as_ref().err().filter(|error| error.is_own()).map(ToString::to_string),
    );
    let desired = context.repository.desired();
    match found {
        // An object that is being deleted already needs no second deletion.
        Ok(Some((_, live))) if live["metadata"].get("deletionTimestamp").is_some() => FoundObject::Nothing,
        Ok(Some((served, _))) if desired.written_as(key, served.namespaced).is_some() => {
            info!(object = %key, "the repository has it under another name");
            FoundObject::Nothing
        }
        Ok(Some((served, live))) => FoundObject::Live(served, Box::new(live)),
        Err(error) if error.is_own() => {
            warn!(object = %key, %error, "its manifest has left, and it can't be read: it is looked for again");
            FoundObject::NotServed
        }
        // An object that belay may not even read is not deleted, and nothing else waits for that.
        Err(error @ ClusterError::Denied { .. }) => {
            warn!(object = %key, %error, "its manifest has left, and belay may not read it: it is left alone");
            FoundObject::Nothing
        }
        Ok(None) | Err(_) => FoundObject::Nothing,
    }
}

/// Returns an answer; `None` if it takes longer than patience lasts while the API server is ready. The answer is still
/// waited for while the server is asked that: a request that nobody looks after outlasts its limit.
async fn in_patience<T, R: Future<Output = bool>>(
    answer: impl Future<Output = T>,
    is_ready: impl Fn() -> R,
) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    loop {
        let stalled = async {
            tokio::time::sleep(PATIENCE).await;
            is_ready().await
        };
        tokio::select! {
            biased;
            answer = &mut answer => return Some(answer),
            is_ready = stalled => if is_ready { return None },
        }
    }
}

/// Deletes one object and waits until it is gone.
pub async fn delete(work: &mut RolloutTask) -> Result<Outcome, Cancelled> {
    work.unless_cancelled(work.turn.comes()).await?;
    let key = work.planned.wanted.key.clone();
    let Some(live) = work.read().await? else { return work.end(Outcome::Pruned, None).await };
    if let Some(reason) = not_any_more(work, &live).or_else(|| written_otherwise(work)) {
        return work.end(Outcome::Rejected, Some(reason)).await;
    }
    work.step(StepKind::Applying, "about to delete it").await?;
    let uid = marks::uid(&live).to_owned();
    let sent = send(work, &uid).await?;
    work.turn.through();
    let answer = match sent {
        Ok(answer) => answer,
        Err(reason) => return work.end(Outcome::Failed, Some(reason)).await,
    };
    let message = format!("{}: its manifest left the repository", work.planned.wanted.commit.change_cause());
    info!(object = %key, message, "deleted");
    match until_gone(work, &uid, answer).await? {
        Ok(()) => {
            work.context.holds.forget(&key);
            work.end(Outcome::Pruned, None).await
        }
        Err((outcome, reason)) => work.end(outcome, Some(reason)).await,
    }
}

/// Deletes the last run of a hook that is to run again. The outcome, if it can't be.
pub async fn delete_last_run(work: &mut RolloutTask) -> Result<Option<Outcome>, Cancelled> {
    let key = work.planned.wanted.key.clone();
    let Some(live) = work.read().await? else { return Ok(None) };
    if hook_run(&work.planned.wanted, &live) != Some(HookRun::Again) {
        return Ok(None);
    }
    let is_made = work.context.made(&BTreeSet::from([key.clone()])).await.contains(&key);
    if let Some(reason) = not_any_more(work, &live).or_else(|| (!is_made).then(changed_meanwhile)) {
        return Ok(Some(work.end(Outcome::Rejected, Some(reason)).await?));
    }
    let uid = marks::uid(&live).to_owned();
    let deleted = match send(work, &uid).await? {
        Ok(answer) => until_gone(work, &uid, answer).await?,
        Err(reason) => Err((Outcome::Failed, reason)),
    };
    info!(object = %key, "the last run of the hook is deleted: it runs again");
    match deleted {
        Ok(()) => Ok(None),
        Err((outcome, reason)) => Ok(Some(work.end(outcome, Some(reason)).await?)),
    }
}

/// Asks for the deletion of a hook that has come to its end, if its chart says that it is deleted then. If that fails
/// it stays until its next run.
pub async fn delete_finished_hook(work: &RolloutTask, outcome: Outcome) {
    let policy = match outcome {
        Outcome::Complete => HookDeletion::Succeeded,
        Outcome::Failed => HookDeletion::Failed,
        _ => return,
    };
    let wanted = &work.planned.wanted;
    let manifest = wanted.manifest.value();
    if !runs_once(&wanted.key, &manifest) || !deletes_hook(&manifest, policy) {
        return;
    }
    let deleted = async {
        let Some(live) = work.read().await? else { return Ok(Ok(Sent::Done)) };
        let run = |object: &Value| marks::annotation(object, marks::HOOK_RUN).map(str::to_owned);
        let is_its = work.is_ours(&live) || is_pod(&wanted.key) && run(&live) == run(&manifest);
        let may = is_its && not_any_more(work, &live).is_none();
        if may { send(work, marks::uid(&live)).await } else { Ok(Ok(Sent::Done)) }
    };
    if let Ok(Err(reason)) = deleted.await {
        warn!(object = %wanted.key, %reason, "the hook has ended, and can't be deleted; it stays until its next run");
    }
}

/// Returns why an object must not be deleted: somebody else may have taken it over since it was planned.
fn not_any_more(work: &RolloutTask, live: &Value) -> Option<Reason> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let may = prunable(key, live, &context.config.name, context.cluster.default_namespace()) == Prunable::Yes;
    (!may).then(changed_meanwhile)
}

/// Returns the reason not to delete an object that the repository has under another name by now.
fn written_otherwise(work: &RolloutTask) -> Option<Reason> {
    let desired = work.context.repository.desired();
    let name = desired.written_as(&work.planned.wanted.key, work.served.namespaced)?;
    let message = format!("it is not to be deleted any more: the repository has it as {name}");
    Some(Reason::new(ReasonCode::PruneRefused, message))
}

fn changed_meanwhile() -> Reason {
    let message = "it is not to be deleted any more: somebody changed it meanwhile".to_owned();
    Reason::new(ReasonCode::PruneRefused, message)
}

/// Asks for the deletion, for as long as only an infrastructure fault is in its way. A conflict is not the end of it: whether there is
/// anything left to delete shows when the object is read again.
async fn send(work: &RolloutTask, uid: &str) -> Result<Result<Sent, Reason>, Cancelled> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let since = NotServedSince::default();
    let delete = || async {
        let room = context.requests.room().await;
        match context.requests.carry(room, context.cluster.delete(key, &work.served, uid)).await {
            Err(error) if work.is_beyond(&since, &error) => Ok(Err(error)),
            answer => answer.map(Ok),
        }
    };
    Ok(match Backoff::retry(context.in_the_way(key), delete).await.and_then(|answer| answer) {
        Err(error) if error.is_own() => Err(work.not_served(&error)),
        Err(ClusterError::Refused(refusal)) if refusal.code == 409 => {
            info!(object = %key, %refusal, "not deleted for now");
            Ok(Sent::Outdated)
        }
        Err(error) => Err(error.to_reason()),
        Ok(()) => Ok(Sent::Done),
    })
}

/// Waits until an object is gone for whose deletion the API server was asked; reports the obstacle if it does not go. It is
/// asked again after each wait. `Err` has the outcome.
async fn until_gone(
    work: &mut RolloutTask,
    uid: &str,
    answer: Sent,
) -> Result<Result<(), (Outcome, Reason)>, Cancelled> {
    let (context, key) = (Arc::clone(&work.context), work.planned.wanted.key.clone());
    let began = context.clock.now();
    let mut waits = STILL_THERE;
    let (mut answer, mut told, mut has_waited) = (answer, false, false);
    loop {
        let live = work.read().await?;
        let Some(live) = live.filter(|live| marks::uid(live) == uid) else {
            return Ok(Ok(()));
        };
        let waited = context.clock.now().duration_since(began);
        let is_going = live["metadata"].get("deletionTimestamp").is_some();
        if !is_going && has_waited {
            if let Some(reason) = not_any_more(work, &live) {
                return Ok(Err((Outcome::Rejected, reason)));
            }
            answer = match send(work, uid).await? {
                Ok(answer) => answer,
                Err(reason) => return Ok(Err((Outcome::Failed, reason))),
            };
        }
        if waited >= HANGS {
            let message = hangs(&live, answer);
            context.status.object_trouble(&key, Some(message.clone()));
            if !std::mem::replace(&mut told, true) {
                warn!(object = %key, message, "hangs");
                work.step(StepKind::Waiting, &message).await?;
                context.tell(&key, &live, EventKind::Warning, "DeletionHangs", message.clone());
            }
            if waited >= GIVES_UP {
                return Ok(Err((Outcome::Failed, Reason::new(ReasonCode::DeletionHangs, message))));
            }
        }
        work.unless_cancelled(tokio::time::sleep(waits.wait())).await?;
        has_waited = true;
    }
}

/// Says why an object does not go, after this answer to its deletion.
fn hangs(live: &Value, answer: Sent) -> String {
    match (live["metadata"].get("deletionTimestamp"), answer) {
        (Some(_), _) => format!("is being deleted and does not go: its finalizers are {}", finalizers(live)),
        (None, Sent::Outdated) => {
            "can't be deleted for now: the API server says that there is a conflict".to_owned()
        }
        (None, Sent::Done) => {
            "can't be deleted: the API server answers that it is deleted, and it is still there; a webhook, a proxy or an \
             aggregated API server may be in between"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_that_comes_while_the_server_is_asked_if_it_is_ready() {
        let second = Duration::from_secs(1);
        for (answers_after, ready_after, is_ready, expected, ends_after) in [
            (1, 0, true, Some("found"), 1),
            (3, 5, true, Some("found"), 3),
            (9, 5, true, None, 7),
            (9, 0, true, None, 2),
            (9, 5, false, Some("found"), 9),
            (90, 0, false, Some("found"), 90),
        ] {
            let began = Instant::now();
            let answer = async {
                sleep(answers_after * second).await;
                "found"
            };
            let asked = || async {
                sleep(ready_after * second).await;
                is_ready
            };
            assert_eq!(in_patience(answer, asked).await, expected, "after {answers_after} s");
            assert_eq!(began.elapsed(), ends_after * second, "after {answers_after} s");
        }
    }
}
