//! Deletes what has left the repository, where the source says so: within its limit, and only what belay put there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::context::{Context, Pruning};
use super::judging::Cancelled;
use super::look::{Charged, News};
use super::planner::Prepared;
use super::roll_out::Work;
use super::source::Source;
use crate::cluster::{Backoff, EventKind, Served};
use crate::manifest::{Manifest, ObjectKey, read_file};
use crate::rollout::{
    Action, Outcome, Planned, Prunable, Reason, Replicas, StepKind, Trigger, Wanted, allowed_by_trailer, marks,
    prunable, too_many,
};

/// After how long an object that is being deleted is said to hang.
const HANGS: SignedDuration = SignedDuration::from_secs(15);
/// After how long belay no longer waits for it.
const GIVES_UP: SignedDuration = SignedDuration::from_mins(10);
/// What is said where deletions are refused.
const REFUSED: &str = "PruneRefused";

/// What may have to be deleted.
pub(super) struct Candidates {
    /// Each with the commit that took it away.
    objects: Vec<Charged>,
    /// Those that a new head took away: where deleting them is refused, each gets a record that says so.
    new: BTreeSet<ObjectKey>,
    /// The most that may be deleted.
    limit: usize,
}

impl Source {
    /// What a new head has taken away, and what is left from before. `None` where the source deletes nothing.
    pub(super) fn leavers(&self, news: Option<&News>) -> Option<Candidates> {
        let removed = news.map(|news| news.removed.clone()).unwrap_or_default();
        if !self.context.config.prune {
            if !removed.is_empty() {
                info!(objects = removed.len(), "left the repository and stay: prune is off");
            }
            return None;
        }
        if self.is_away() {
            return None;
        }
        let new: BTreeSet<ObjectKey> = removed.keys().cloned().collect();
        let mut objects: BTreeMap<ObjectKey, Charged> = removed;
        let unreadable: Vec<String> = self.shelf().unreadable().map(ToString::to_string).collect();
        if !unreadable.is_empty() {
            // What only was in such a file is not known to have left; it is an orphan until the file is mended.
            if !objects.is_empty() {
                let names = unreadable.join(", ");
                let message =
                    format!("nothing is deleted while {names} can't be read: what has left may have moved there");
                warn!(message, "refused to delete");
                self.context.status.trouble("prune", Some(message));
            }
            return None;
        }
        for key in self.orphans() {
            if let Some(charged) = self.charge_orphan(&key) {
                objects.entry(key).or_insert(charged);
            }
        }
        let count = self.shelf().keys().count() + objects.len();
        let trailer = news.and_then(|news| allowed_by_trailer(&news.commits));
        let limit = match self.context.pruning {
            Pruning::Unlimited => usize::MAX,
            Pruning::Limited => self.context.config.prune_limit(count).max(trailer.unwrap_or_default()),
        };
        Some(Candidates { objects: objects.into_values().collect(), new, limit })
    }

    /// Live objects of this source that the repository does not mention.
    fn orphans(&self) -> Vec<ObjectKey> {
        let shelf = self.shelf();
        self.live.keys().filter(|key| !shelf.mentions(key) && !self.rollouts.contains_key(key)).cloned().collect()
    }

    /// An orphan is charged to the head: whoever took it away is not known any more.
    fn charge_orphan(&self, key: &ObjectKey) -> Option<Charged> {
        let served = self.watched.serving_group(&key.group, &key.kind)?;
        let commit = self.commit(self.planned.as_ref().or(self.shelf().at.as_ref())?)?;
        Some(Charged { manifest: stub(key, &served, self)?, commit })
    }
}

/// A manifest that says nothing but which object it is.
fn stub(key: &ObjectKey, served: &Served, source: &Source) -> Option<Manifest> {
    let object = json!({"apiVersion": served.api_version(), "kind": key.kind,
        "metadata": {"name": key.name, "namespace": key.namespace}});
    let scopes = source.shelf().scopes.clone();
    let file = read_file("", object.to_string().as_bytes(), &scopes);
    file.manifests.into_iter().find(|manifest| manifest.key == *key)
}

/// Plans what is deleted.
pub(super) async fn plan(context: &Context, candidates: Option<Candidates>) -> Vec<Prepared> {
    let Some(Candidates { objects, new, limit }) = candidates else { return Vec::new() };
    let mut leaving: Vec<(Charged, Served)> = Vec::new();
    let mut prepared = Vec::new();
    for charged in objects {
        let key = charged.manifest.key.clone();
        let Some((served, live)) = find(context, &charged.manifest).await else { continue };
        if let Some(why) = marks::annotation(&live, marks::SUSPEND) {
            if new.contains(&key) {
                prepared.push(of(charged, served, Action::Suspended(why.to_owned())));
            }
            continue;
        }
        match prunable(&key, &live, &context.config.name, context.cluster.default_namespace()) {
            Prunable::Yes => leaving.push((charged, served)),
            Prunable::NotOurs => {}
            Prunable::Stays(why) => info!(object = %key, why, "left the repository and stays"),
        }
    }
    if leaving.len() <= limit {
        context.status.trouble("prune", None);
        prepared.extend(leaving.into_iter().map(|(charged, served)| of(charged, served, Action::Prune)));
        return prepared;
    }
    let names: Vec<ObjectKey> = leaving.iter().map(|(charged, _)| charged.manifest.key.clone()).collect();
    let message = too_many(&names, limit);
    warn!(message, "refused to delete");
    context.status.trouble("prune", Some(message.clone()));
    let refused = leaving.into_iter().filter(|(charged, _)| new.contains(&charged.manifest.key));
    prepared.extend(refused.map(|(charged, served)| {
        let reason = Reason { code: REFUSED.to_owned(), message: message.clone() };
        of(charged, served, Action::Rejected(reason, Vec::new()))
    }));
    prepared
}

async fn find(context: &Context, manifest: &Manifest) -> Option<(Served, Value)> {
    let key = &manifest.key;
    let read = Backoff::insist(context.in_the_way(key), || async {
        let served = context.cluster.served(&manifest.api_version, &key.kind).await?;
        let live = context.cluster.get(key, &served).await?;
        Ok(live.map(|live| (served, live)))
    });
    let found = read.await.ok().flatten();
    context.status.trouble(&key.to_string(), None);
    // What is on its way out already needs nobody's help.
    found.filter(|(_, live)| live["metadata"].get("deletionTimestamp").is_none())
}

fn of(charged: Charged, served: Served, action: Action) -> Prepared {
    let Charged { manifest, commit } = charged;
    let wanted = Wanted {
        key: manifest.key.clone(),
        hash: manifest.hash.to_string(),
        manifest: Arc::new(manifest),
        config: None,
        commit,
        trigger: Trigger::Commit,
        replicas: Replicas::AsWritten,
    };
    let planned = Planned { wanted, action };
    let served = Some(served);
    Prepared { planned, served, standing: None, digest: None, last_writer: None, owner: None, carries_on: false }
}

/// Deletes one object and waits until it is gone.
pub(super) async fn delete(work: &mut Work) -> Result<Outcome, Cancelled> {
    work.unless_cancelled(work.turn.comes()).await?;
    let (context, key) = (Arc::clone(&work.context), work.planned.wanted.key.clone());
    let Some(live) = work.read().await? else { return work.end(Outcome::Pruned, None).await };
    // It may have been made somebody else's since it was planned.
    if prunable(&key, &live, &context.config.name, context.cluster.default_namespace()) != Prunable::Yes {
        let message = "it is not to be deleted any more: somebody changed it meanwhile".to_owned();
        return work.end(Outcome::Rejected, Some(Reason { code: REFUSED.to_owned(), message })).await;
    }
    work.step(StepKind::Applying, "about to delete it").await?;
    let uid = marks::uid(&live).to_owned();
    let delete = || async {
        let _room = context.requests.room().await;
        context.cluster.delete(&key, &work.served, &uid).await
    };
    let deleted = Backoff::insist(context.in_the_way(&key), delete).await;
    work.turn.through();
    if let Err(error) = deleted {
        return work.end(Outcome::Failed, Some(error.to_reason())).await;
    }
    let message = format!("{}: its manifest left the repository", work.planned.wanted.commit.change_cause());
    info!(object = %key, message, "deleted");
    until_gone(work, &uid).await
}

/// Waits until an object is gone; says what it hangs on where it does not go.
async fn until_gone(work: &mut Work, uid: &str) -> Result<Outcome, Cancelled> {
    let (context, key) = (Arc::clone(&work.context), work.planned.wanted.key.clone());
    let began = context.clock.now();
    let mut wait = Duration::from_millis(200);
    let mut told = false;
    loop {
        let live = work.read().await?;
        let Some(live) = live.filter(|live| marks::uid(live) == uid) else {
            return work.end(Outcome::Pruned, None).await;
        };
        let waited = context.clock.now().duration_since(began);
        if waited >= HANGS {
            let finalizers = live["metadata"]["finalizers"].as_array().into_iter().flatten();
            let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
            let message = format!("is being deleted and does not go: its finalizers are {}", finalizers.join(", "));
            context.status.trouble(&key.to_string(), Some(message.clone()));
            if !std::mem::replace(&mut told, true) {
                warn!(object = %key, message, "hangs");
                work.step(StepKind::Waiting, &message).await?;
                context.tell(&key, &live, EventKind::Warning, "DeletionHangs", message.clone()).await;
            }
            if waited >= GIVES_UP {
                return work.end(Outcome::Failed, Some(Reason { code: "DeletionHangs".to_owned(), message })).await;
            }
        }
        work.unless_cancelled(tokio::time::sleep(wait)).await?;
        wait = (wait * 2).min(Duration::from_secs(15));
    }
}
