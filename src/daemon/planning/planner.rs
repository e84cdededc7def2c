//! Makes a plan: reads the live objects, asks the server for the effect of each manifest, and decides nothing itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::made::other_label;
use super::on_outage::OnOutage;
use super::refused::complaints;
use crate::cluster::{Cluster, ClusterError, Mode, Served};
use crate::daemon::repository::desired_state::WrittenDefinition;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::live::{applied_at, digest, newest_other_manager};
use crate::daemon::shared::panics::internal_error;
use crate::daemon::shared::requests::Requests;
use belay_core::manifest::{Complaint, ObjectKey, other_tool};
use belay_core::rollout::{
    Change, ConfigHash, ForeignField, HookRun, Intent, PlanStep, Planned, Reason, ReasonCode, Trigger, UNKNOWN_MANAGER,
    Wanted, being_deleted, config_hash_in, foreign_fields, hook_run, intent, make, marks, run_hook_again, runs_once,
    settle, take_over, take_surplus, takeover, template, without_strategy,
};

use crate::daemon::repository::prepared::{Prepared, progress};

/// Up to how many new objects are tried before the first is made. More are checked by the server as they are made, since
/// a new object needs no dry run to know that something changes.
const TRY_NEW: usize = 50;

/// The planner of a source and a cluster.
pub struct Planner<'a> {
    pub cluster: &'a Cluster,
    pub source: &'a str,
    pub on_outage: OnOutage<'a>,
    /// Up to how many new objects are tried before the first is made.
    pub try_new: usize,
    /// The content of the repository.
    pub holds: Holds<'a>,
    /// The room for its requests, if others want some too.
    pub requests: Option<&'a Requests>,
    /// The source's memory of the objects that it created; a command has none.
    pub memory: Option<&'a Arc<Context>>,
    /// The longest time that one object may keep the others waiting; `None` if nobody else waits.
    pub patience: Option<Duration>,
}

/// The content of the repository, for the planner.
pub enum Holds<'a> {
    /// A followed repository.
    Repository(&'a Repository),
    /// These manifests, with their hashes, and nothing that was before.
    These(BTreeMap<ObjectKey, String>),
}

/// Plans these manifests for the daemon. Waits out an outage of the cluster; cancel by dropping. With `patience`, an object
/// that takes longer than the others is planned to wait.
pub async fn plan(context: &Arc<Context>, mut wanted: Vec<Wanted>, patience: Option<Duration>) -> Vec<Prepared> {
    context.autoscalers.known().await;
    context.autoscalers.take_their_part(&mut wanted);
    let holds = Holds::Repository(&context.repository);
    let planner = Planner {
        cluster: &context.cluster,
        source: &context.config.name,
        on_outage: OnOutage::Retry(&context.status),
        try_new: TRY_NEW,
        holds,
        requests: Some(&context.requests),
        memory: Some(context),
        patience,
    };
    // Asking again ends in an answer; a refusal is part of the plan.
    planner.plan(wanted).await.unwrap_or_default()
}

impl Planner<'_> {
    pub async fn prepare(
        &self,
        served: &Served,
        wanted: Wanted,
        live: Option<Value>,
        try_new: bool,
    ) -> Result<Prepared, ClusterError> {
        let config_hash = self.config_hash(&wanted, live.as_ref());
        let mut wanted = Wanted { config_hash, ..wanted };
        if live.as_ref().is_some_and(|live| self.is_released(&wanted, live)) {
            wanted.trigger = Trigger::Retry;
        }
        let step = self.plan_object(served, &wanted, live.as_ref(), try_new).await?;
        if matches!(&step, PlanStep::Apply(apply) if apply.rolls_out) {
            wanted = wanted.anew();
        }
        let step = match &self.holds {
            Holds::Repository(repository) => repository.dares(step, live.as_ref()),
            Holds::These(_) => step,
        };
        let settled = |live: &Value| self.memory.is_some_and(|memory| memory.has_settled(&wanted.key, live));
        let progress = live.as_ref().and_then(|live| progress(&wanted, live, settled(live)));
        let drifted = matches!(wanted.trigger, Trigger::Drift(_));
        let well = step == PlanStep::Unchanged || drifted && matches!(step, PlanStep::Held(_));
        let digest = live.as_ref().filter(|_| well).map(digest);
        let last_writer = live.as_ref().and_then(newest_other_manager);
        let applied = live.as_ref().and_then(applied_at);
        let owner = live.as_ref().and_then(|live| marks::label(live, marks::SOURCE)).map(str::to_owned);
        let foreign = live.as_ref().map(|live| differences(&wanted, &step, live)).unwrap_or_default();
        let planned = Planned { wanted, step };
        Ok(Prepared {
            live: progress,
            digest,
            last_writer,
            applied,
            foreign,
            owner,
            served: Some(served.clone()),
            ..Prepared::of(planned)
        })
    }

    /// Returns true when somebody has taken the hold of this manifest off an object that is compared with it: that asks for
    /// another try, also where other fields were changed at the same time.
    fn is_released(&self, wanted: &Wanted, live: &Value) -> bool {
        let is_compared = matches!(wanted.trigger, Trigger::Drift(_));
        let released =
            self.memory.filter(|_| is_compared).and_then(|memory| memory.holds.released_on(&wanted.key, live));
        released.is_some_and(|hold| hold.keeps(&wanted.hash, wanted.config.as_deref()))
    }

    /// Returns the configuration hash for the pod template, now that the live object is known.
    fn config_hash(&self, wanted: &Wanted, live: Option<&Value>) -> ConfigHash {
        let asked = wanted.config_hash.clone();
        let Some(live) = live else { return asked.decided(None) };
        let said = template(live).and_then(config_hash_in);
        if !matches!(wanted.trigger, Trigger::Drift(_)) {
            // A commit that is rolled out already was rolled out with its configuration.
            let changed = asked.changed && marks::annotation(live, marks::COMMIT) != Some(wanted.commit.id.as_str());
            return ConfigHash { changed, ..asked }.decided(Some(said));
        }
        if said == asked.asked.as_deref() {
            return asked.decided(Some(said));
        }
        // Drift is a difference from the template that was rolled out, not from the one that would be rolled out by
        // now.
        let rolled_out = self.memory.and_then(|memory| memory.rolled_out_hash(&wanted.key));
        ConfigHash::as_it_was(rolled_out.unwrap_or_else(|| asked.decided(Some(said)).sent))
    }

    /// Returns the result for an object whose planning panicked: only this object is not applied.
    pub fn faulty(&self, served: &Served, wanted: Wanted, panic: &str) -> Prepared {
        let reason = internal_error(&wanted.key, panic);
        if let OnOutage::Retry(publisher) = self.on_outage {
            publisher.object_trouble(&wanted.key, Some(reason.message.clone()));
        }
        let complaint = wanted.complaint("", &reason.message);
        let planned = Planned { wanted, step: PlanStep::Rejected(reason, vec![complaint]) };
        Prepared { served: Some(served.clone()), ..Prepared::of(planned) }
    }

    async fn plan_object(
        &self,
        served: &Served,
        wanted: &Wanted,
        live: Option<&Value>,
        try_new: bool,
    ) -> Result<PlanStep, ClusterError> {
        let source = self.source;
        let label = other_label(self.memory.map(|memory| &**memory), source, wanted, live).await;
        let kept = self.memory.and_then(|memory| memory.holds.of(&wanted.key));
        Ok(match intent(wanted, source, (live, kept.as_ref()), label, |key| self.hash(key)) {
            // Its chart deletes it, and nobody wants it back.
            Intent::Leave(PlanStep::Wait(_))
                if live.is_some_and(|live| being_deleted(live).is_some() && !runs_once(&wanted.key, live))
                    && self.memory.is_some_and(|memory| memory.is_over(wanted)) =>
            {
                PlanStep::Unchanged
            }
            Intent::Leave(step) => step,
            Intent::Keep(hold) => self.keep(served, wanted, live, (hold, kept)).await?,
            Intent::Make(_) if self.memory.is_some_and(|memory| memory.is_over(wanted)) => PlanStep::Unchanged,
            Intent::Make(body) if !try_new => make(wanted, &body),
            Intent::Try(_) if let Some(run) = live.and_then(|live| hook_run(wanted, live)) => {
                self.plan_hook(wanted, run).await
            }
            Intent::Try(body) if live.is_some_and(|live| self.is_as_applied(wanted, &body, live)) => {
                PlanStep::Unchanged
            }
            Intent::Make(body) | Intent::Try(body) => {
                let surplus = self.surplus(served, wanted, live, &body).await?;
                match self.try_without(served, wanted, live, &body, surplus.as_ref()).await {
                    Ok(would_be) => {
                        let over = live.and_then(|live| takeover(live, &body));
                        let step = settle(wanted, source, live, body, &would_be);
                        let step = if surplus.is_some() { take_surplus(step) } else { step };
                        match over {
                            Some(over) => take_over(wanted, source, &over, step),
                            None => step,
                        }
                    }
                    // Its namespace or kind may come with this very plan. One that is tried again is tried alone.
                    Err(ClusterError::Missing { .. }) if wanted.trigger != Trigger::Retry => {
                        self.cluster.forget_group(&wanted.key.group);
                        make(wanted, &body)
                    }
                    // The right for this one may still be on its way; the others go on.
                    Err(error) if error.is_the_worlds() => return Err(error),
                    Err(error) => PlanStep::Rejected(error.to_reason(), complaints(wanted, &error)),
                }
            }
        })
    }

    /// Plans a hook that is live. One that somebody else made is not run again: that would delete it.
    async fn plan_hook(&self, wanted: &Wanted, run: HookRun) -> PlanStep {
        match run {
            HookRun::Done => return PlanStep::Unchanged,
            HookRun::Watched => return run_hook_again(wanted, self.source),
            HookRun::Again => {}
        }
        let made = match self.memory {
            Some(memory) => memory.made(&[wanted.key.clone()].into()).await.contains(&wanted.key),
            None => true,
        };
        if made { run_hook_again(wanted, self.source) } else { not_made(wanted) }
    }

    /// Returns the object as it would be after an apply of `body`, with the steps that belay takes before that apply.
    pub async fn try_apply(
        &self,
        served: &Served,
        wanted: &Wanted,
        live: Option<&Value>,
        body: &Value,
    ) -> Result<Value, ClusterError> {
        let body = &wanted.ignored_fields.leave(body.clone(), live);
        let apart = live.and_then(|live| without_strategy(live, body));
        let tried = apart.as_ref().map_or(body, |(tried, _)| tried);
        let answer = self.ask(&wanted.key, || self.cluster.apply(&wanted.key, served, tried, Mode::DryRun)).await;
        let mut would_be = answer?.object;
        if let Some((_, complete)) = apart {
            complete(&mut would_be);
        }
        Ok(would_be)
    }

    /// Returns the hash of the repository's manifest of an object.
    fn hash(&self, key: &ObjectKey) -> Option<String> {
        match &self.holds {
            Holds::Repository(repository) => repository.desired().hash(key).map(|hash| hash.to_string()),
            Holds::These(hashes) => hashes.get(key).cloned(),
        }
    }

    /// Returns why a kind can't be applied, with the file that defines it, if the repository has one.
    pub fn unknown_kind(&self, key: &ObjectKey, error: &ClusterError) -> Reason {
        let reason = error.to_reason();
        let Holds::Repository(repository) = &self.holds else { return reason };
        if !matches!(error, ClusterError::Missing { .. }) {
            return reason;
        }
        let kind = &key.kind;
        let message = match repository.desired().written_definition(key) {
            Some(WrittenDefinition { place, .. }) => {
                format!("waits for the kind {kind}, which the cluster does not know yet: {place} defines it")
            }
            None if other_tool(&key.group, kind).is_some() => return reason,
            None if let Some(complaint) = repository.desired().refused_definition(&key.group) => {
                format!("waits for the kind {kind}, whose definition is refused: {complaint}")
            }
            None => format!(
                "waits for the kind {kind} of {}, which the cluster does not know and no file of the repository defines: add its \
                 CustomResourceDefinition to the repository, or install it",
                if key.group.is_empty() { "v1" } else { &key.group }
            ),
        };
        Reason { message, ..reason }
    }

    /// Asks the cluster, as soon as there is room for a request, and again as [`OnOutage`] says.
    pub async fn ask<T, F>(&self, key: &ObjectKey, mut attempt: impl FnMut() -> F) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let in_turn = || {
            // A request is large, and the planner holds many of them.
            let answer = Box::pin(attempt());
            async move {
                match self.requests {
                    Some(requests) => requests.carry(requests.room().await, answer).await,
                    None => answer.await,
                }
            }
        };
        Box::pin(self.on_outage.ask(key, in_turn)).await
    }

    pub fn gives_up(&self, error: &ClusterError) -> bool {
        self.on_outage.gives_up(error)
    }

    /// Returns the default for an answer that says "not found".
    pub fn or_nothing<T: Default>(&self, answer: Result<T, ClusterError>) -> Result<T, ClusterError> {
        match answer {
            Err(error) if error.is_own() || matches!(error, ClusterError::Denied { .. }) => Err(error),
            Err(error) if !self.gives_up(&error) => Ok(T::default()),
            answer => answer,
        }
    }
}

/// Returns the step for a hook that is to run again and that belay did not create: it is in its own way, and belay
/// deletes only its own objects.
fn not_made(wanted: &Wanted) -> PlanStep {
    let key = &wanted.key;
    let message = format!("the hook {key} is to run again, and the one that is there was not made by belay");
    let reason = Reason::new(ReasonCode::NotMadeByBelay, message);
    let namespace = key.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let hint = format!(
        "delete it, and belay makes it anew: kubectl delete {}/{}{namespace}",
        key.kind.to_lowercase(),
        key.name
    );
    let complaint = Complaint { hint: Some(hint), ..wanted.complaint("", &reason.message) };
    PlanStep::Rejected(reason, vec![complaint])
}

/// Returns the fields that are corrected, with their writers; if nobody owns them any more, with the last writer.
fn differences(wanted: &Wanted, step: &PlanStep, live: &Value) -> Vec<ForeignField> {
    let PlanStep::Apply(apply) = step else { return Vec::new() };
    let mut fields = foreign_fields(live, &apply.body.read(), &wanted.ignored_fields);
    if !fields.is_empty() {
        // A hold that the cluster has lost is not put off for a disagreement about another field.
        let hold = format!("metadata.annotations[{}]", marks::HOLD);
        if apply.keeps_hold && apply.changes.iter().any(|change| change.path == hold) {
            fields.push(ForeignField { path: hold, manager: UNKNOWN_MANAGER.to_owned() });
        }
        return fields;
    }
    let manager = newest_other_manager(live).unwrap_or_else(|| UNKNOWN_MANAGER.to_owned());
    let field = |change: &Change| ForeignField { path: change.path.clone(), manager: manager.clone() };
    apply.changes.iter().map(field).collect()
}
