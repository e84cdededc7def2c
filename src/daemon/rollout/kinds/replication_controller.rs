//! A ReplicationController replaces no pod when its template changes, so the daemon does: by the rolling update of
//! [`belay_core::rollout::rolling_update`]. If it fails, the old controller grows again; it is the last good revision.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use tracing::{info, warn};

use super::rolled_pods::{Furthest, ask, asked_to_give_up, begun, fails_fast, observe, suspended};
use crate::cluster::{Backoff, Mode, ObservedWorkload, Pace, RollError};
use crate::daemon::publish::status::{UnderWay, put_or_remove};
use crate::daemon::rollout::rollback::failure::{DISTURBANCES, FailedRollout};
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutStart, RolloutTask};
use belay_core::manifest::Compact;
use belay_core::rollout::rolling_update::{Ask, Begun, Bounds, RollingUpdate, SOURCE_ID, To};
use belay_core::rollout::{
    Apply, Baseline, Counters, GRACE, Judge, Judgement, Outcome, Reason, ReasonCode, Step, StepKind, TemplateMarks,
    is_as_applied, marks, progress_deadline_seconds, same_template, template,
};

/// The period between two inspections of the controllers while pods come and go.
const LOOK: Duration = Duration::from_secs(3);
/// The least time for which new pods are left alone before old ones go.
const REST: Duration = Duration::from_secs(5);
/// The longest wait until the watch has seen the last write.
const UNTIL_SEEN: Duration = Duration::from_secs(5);

/// The end of one direction of a rolling update.
pub enum Rolled {
    /// At its end.
    Through,
    /// The commit failed.
    Failed(Reason, Box<ObservedWorkload>),
    /// Somebody asked to leave it alone, and why.
    Suspended(String),
    /// Others have deleted one of the two controllers, or made it again: what is there now decides how it goes on.
    Disturbed(Reason, Box<ObservedWorkload>),
}

/// Carries one manifest of a ReplicationController through, from wherever it is.
pub async fn roll_out(work: &mut RolloutTask, start: RolloutStart) -> Result<Outcome, Cancelled> {
    match start {
        RolloutStart::Resume(baseline) if matches!(begun(work).await?.0, Begun::Nothing) => {
            work.turn.through();
            let live = work.read().await?;
            work.step(StepKind::Resumed, "watching the rollout again").await?;
            if live.as_ref().is_none_or(|live| is_ours(work, live)) {
                return work.judge_from(baseline, live.as_deref().map(Compact::of)).await;
            }
        }
        RolloutStart::Resume(_) => work.step(StepKind::Resumed, "going on with the rolling update").await?,
        _ => work.unless_cancelled(work.turn.comes()).await?,
    }
    let mut disturbances = 0..DISTURBANCES;
    loop {
        let (update, rolled) = match next_update(work).await? {
            Some(update) => (update, carry_out(work, update).await?),
            None => return plainly(work).await,
        };
        match rolled {
            Rolled::Through if update == ControllerUpdate::Own => return plainly(work).await,
            Rolled::Through => {}
            // Somebody else has taken it away meanwhile.
            Rolled::Failed(..) | Rolled::Disturbed(..)
                if update == ControllerUpdate::Another && begun(work).await?.0 == Begun::Nothing => {}
            Rolled::Disturbed(..) if disturbances.next().is_some() => disturbed(work).await?,
            Rolled::Failed(reason, observed) | Rolled::Disturbed(reason, observed) => {
                return failed(work, reason, observed).await;
            }
            Rolled::Suspended(why) => return work.leave_alone(&why).await,
        }
    }
}

/// An update that is to be carried out now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ControllerUpdate {
    /// To this manifest.
    Own,
    /// Another one, which is taken back.
    Another,
    /// Another one, which can only go on to its end.
    Renaming,
}

/// Returns the update that comes next; `None` where the manifest replaces no pod.
async fn next_update(work: &RolloutTask) -> Result<Option<ControllerUpdate>, Cancelled> {
    let (so_far, live) = begun(work).await?;
    Ok(match so_far {
        Begun::Nothing => must_roll(work, live.as_ref()).await?.then_some(ControllerUpdate::Own),
        Begun::Growing { next, commit } => {
            // One that has begun from a controller which others have made again since is not its own.
            let is_from_it = live.is_some_and(|live| is_source_of(&live, &next));
            Some(if is_from_it && is_own(work, commit.as_deref()) {
                ControllerUpdate::Own
            } else {
                ControllerUpdate::Another
            })
        }
        // The pods of the failed version are not to get its name.
        Begun::Renaming if live.is_none() && work.apply.restores_held => {
            work.step(StepKind::Applying, "anew: it was deleted on the way back").await?;
            work.retry_apply(&work.apply.body.read()).await?.is_ok().then_some(ControllerUpdate::Own)
        }
        Begun::Renaming => Some(ControllerUpdate::Renaming),
    })
}

async fn carry_out(work: &mut RolloutTask, update: ControllerUpdate) -> Result<Rolled, Cancelled> {
    match update {
        ControllerUpdate::Own => {
            let (context, record) = (Arc::clone(&work.context), work.record);
            work.unless_cancelled(context.rolls(record, "by a rolling update")).await?;
            work.turn.through();
            if !work.apply.restores_held {
                work.apply = Apply::of_manifest(&work.planned.wanted, &work.context.config.name);
            }
            roll(work, ask(work), Outcome::UnderWay).await
        }
        ControllerUpdate::Another => {
            // Another commit's, or somebody's: its pods go before those of this one come.
            work.step(StepKind::Applying, "in the place of another update, whose pods go first").await?;
            info!(object = %work.planned.wanted.key, "takes the place of another update");
            take_other_back(work).await
        }
        ControllerUpdate::Renaming => {
            work.step(StepKind::Applying, "when another update has its name").await?;
            roll(work, ask(work), Outcome::UnderWay).await
        }
    }
}

/// Says that others have disturbed the rolling update, and waits a moment: it goes on from what is there then.
pub async fn disturbed(work: &RolloutTask) -> Result<(), Cancelled> {
    info!(object = %work.planned.wanted.key, "others have replaced a controller of the rolling update");
    work.step(StepKind::Applying, "again: others have replaced a controller of the rolling update").await?;
    work.unless_cancelled(tokio::time::sleep(LOOK)).await
}

/// Takes another update back. If the pods of the former template don't come up, those of the other update go without them.
async fn take_other_back(work: &RolloutTask) -> Result<Rolled, Cancelled> {
    match roll(work, back_ask(work), Outcome::UnderWay).await? {
        Rolled::Failed(reason, _) if reason.code == ReasonCode::ProgressDeadlineExceeded => {
            info!(object = %work.planned.wanted.key, %reason, "the pods of the other update go at once");
            work.step(StepKind::Applying, "the former pods do not come up: those of the other update go at once")
                .await?;
            roll(work, back_at_once_ask(work), Outcome::UnderWay).await
        }
        rolled => Ok(rolled),
    }
}

/// Begins again, unless only the controller that this one took the place of was reported to be gone.
pub async fn again(work: &mut RolloutTask) -> Result<Outcome, Cancelled> {
    let live = work.read().await?;
    let ignored_fields = &work.planned.wanted.ignored_fields;
    let as_written = live.filter(|live| is_as_applied(live, &ignored_fields.leave(work.apply.body.read(), Some(live))));
    let start = as_written
        .map_or(RolloutStart::Apply, |live| RolloutStart::Resume(Baseline::of(&work.planned.wanted.key, &live)));
    Box::pin(roll_out(work, start)).await
}

/// Applies the manifest to the controller that has its template, or that is new, and judges that.
async fn plainly(work: &mut RolloutTask) -> Result<Outcome, Cancelled> {
    let live = work.read().await?;
    if live.as_ref().is_some_and(|live| is_ours(work, live)) && !work.apply.restores_held {
        work.apply = Apply::of_manifest(&work.planned.wanted, &work.context.config.name);
    }
    let room = work.turn_and_room().await?;
    if let Some(why) = work.suspension() {
        return work.leave_alone(&why).await;
    }
    let written = match work.apply_manifest(room).await? {
        Ok(written) => written,
        Err(outcome) => return Ok(outcome),
    };
    until_seen(work, &written.read()).await?;
    work.follow(written).await
}

/// Back, as far as that is wanted.
async fn failed(work: &mut RolloutTask, reason: Reason, observed: Box<ObservedWorkload>) -> Result<Outcome, Cancelled> {
    let live = work.read().await?.unwrap_or_default();
    Box::pin(work.roll_back(FailedRollout { reason, observed: Some(observed), written: None }, Some(live))).await
}

/// Returns true when pods must be replaced for the manifest: a dry run decides.
async fn must_roll(work: &RolloutTask, live: Option<&Value>) -> Result<bool, Cancelled> {
    let Some(live) = live else { return Ok(false) };
    let wanted = &work.planned.wanted;
    let (has, wants) = (live["spec"]["replicas"].as_i64(), wanted.manifest.value()["spec"]["replicas"].as_i64());
    if has == Some(0) || wants == Some(0) {
        return Ok(false);
    }
    let (context, key) = (&work.context, &wanted.key);
    let sent = Compact::of(&wanted.ignored_fields.leave(work.apply.body.read(), Some(live)));
    let ask = || context.cluster.apply(key, &work.served, &sent, Mode::DryRun);
    let tried = work.until_served(key, ask).await?;
    // A refusal is reported when the manifest is applied.
    Ok(match (tried.ok().as_ref().and_then(|tried| template(&tried.object)), template(live)) {
        (Some(would_be), Some(present)) => !same_template(would_be, present),
        _ => false,
    })
}

/// Returns true when an update to this commit is what is wanted: it is not while its manifest is held.
fn is_own(work: &RolloutTask, commit: Option<&str>) -> bool {
    !work.apply.restores_held && commit == Some(work.planned.wanted.commit.id.as_str())
}

/// Returns true when an update has begun from this very controller: not from one of its name that was there before.
pub fn is_source_of(live: &Value, next: &Value) -> bool {
    let source = marks::annotation(next, SOURCE_ID).and_then(|source| source.split_once(':'));
    source.is_none_or(|(_, uid)| uid == marks::uid(live))
}

pub fn is_ours(work: &RolloutTask, live: &Value) -> bool {
    marks::annotation(live, marks::COMMIT) == Some(work.planned.wanted.commit.id.as_str())
}

pub fn back_ask(work: &RolloutTask) -> Ask {
    Ask { to: To::Back, marks: TemplateMarks::default(), ..ask(work) }
}

/// Returns the same for pods that nothing waits for: all of them go at once.
pub fn back_at_once_ask(work: &RolloutTask) -> Ask {
    Ask { bounds: Bounds { unavailable: i64::MAX, ..Bounds::default() }, ..back_ask(work) }
}

/// Carries a rolling update out, for as long as only an infrastructure fault is in its way.
pub async fn roll(work: &RolloutTask, ask: Ask, outcome: Outcome) -> Result<Rolled, Cancelled> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let mut judge = work.judge(Baseline::default()).with_deadline(deadline(work, outcome));
    let mut backoff = Backoff::default();
    let furthest = Mutex::new(Furthest::default());
    loop {
        judge.note_outages(&context.cluster.outages(), context.clock.steady());
        let pace = pace(work, &judge);
        let update = match RollingUpdate::new(ask.clone()) {
            Err(refused) => return Ok(Rolled::Failed(refused_reason(refused), Box::default())),
            Ok(update) => update,
        };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let rolling = context.cluster.roll(namespace, update, pace, |line, counters| {
            furthest.lock().unwrap_or_else(PoisonError::into_inner).note(counters, context.clock.steady());
            told(work, outcome, line, counters);
        });
        let rolled = tokio::select! {
            biased;
            () = work.cancel.cancelled() => return Err(Cancelled),
            why = suspended(work) => return Ok(Rolled::Suspended(why)),
            reason = asked_to_give_up(work, outcome) => {
                let seen = Box::new(observe(work, &ask.to).await?);
                return Ok(Rolled::Failed(reason, seen));
            }
            reason = fails_fast(work, outcome, &ask.to) => Err(reason),
            rolled = rolling => Ok(rolled),
        };
        let suspicion = match rolled {
            Ok(Ok(_)) => return Ok(Rolled::Through),
            Ok(Err(RollError::TimedOut { waiting_for })) => Reason::new(
                ReasonCode::ProgressDeadlineExceeded,
                format!("the rolling update made no progress within its deadline: {waiting_for}"),
            ),
            Ok(Err(RollError::Cluster(error))) if error.is_the_worlds() => {
                context.in_the_way(key)(&error);
                work.unless_cancelled(tokio::time::sleep(backoff.after(&error))).await?;
                judge.note_outages(&context.cluster.outages(), context.clock.steady());
                // An API server that comes and goes puts the verdict off by the time in which it did not answer.
                match judge.overdue(context.clock.steady()) {
                    Some(overdue) => overdue,
                    None => continue,
                }
            }
            Ok(Err(refused)) => {
                let seen = Box::new(observe(work, &ask.to).await?);
                let is_disturbed = matches!(&refused, RollError::Refused(refused) if refused.is_by_others());
                let reason = refused_reason(refused);
                return Ok(if is_disturbed { Rolled::Disturbed(reason, seen) } else { Rolled::Failed(reason, seen) });
            }
            Err(reason) => reason,
        };
        let seen = observe(work, &ask.to).await?;
        if let Some(at) = furthest.lock().unwrap_or_else(PoisonError::into_inner).moved.take() {
            judge = work.judge_since(Baseline::default(), at).with_deadline(deadline(work, outcome));
        }
        let now = context.clock.steady();
        judge.note_outages(&context.cluster.outages(), now);
        match judge.rule(suspicion, &seen.observation, now) {
            Judgement::Failed(reason) => {
                info!(object = %key, %reason, "failed");
                return Ok(Rolled::Failed(reason, Box::new(seen)));
            }
            Judgement::Infrastructure(reason) => {
                work.waits_for_infrastructure(&reason).await?;
            }
        }
    }
}

/// Returns the longest time that the pods may make no progress.
fn deadline(work: &RolloutTask, outcome: Outcome) -> SignedDuration {
    let seconds = progress_deadline_seconds(&work.planned.wanted.key, &work.planned.wanted.manifest.value());
    let deadline = seconds.map_or(SignedDuration::from_hours(24), SignedDuration::from_secs);
    deadline.saturating_add(match outcome {
        Outcome::RollingBack => work.context.config.rollback_budget.signed(),
        _ => GRACE,
    })
}

fn pace(work: &RolloutTask, judge: &Judge) -> Pace {
    let manifest = work.planned.wanted.manifest.value();
    let rest = manifest["spec"]["minReadySeconds"].as_u64().map_or(Duration::ZERO, Duration::from_secs);
    let now = work.context.clock.steady();
    let left = judge.due().and_then(|due| Duration::try_from(due.duration_since(now)).ok()).unwrap_or_default();
    Pace { update_period: REST.max(rest), poll_interval: LOOK, timeout: left.max(LOOK) }
}

fn refused_reason(refused: impl Display) -> Reason {
    Reason::new(ReasonCode::RollingUpdateRefused, refused.to_string())
}

/// Records and publishes the lines of a rolling update.
fn told(work: &RolloutTask, outcome: Outcome, line: &str, counters: Counters) {
    let (context, wanted) = (&work.context, &work.planned.wanted);
    let step = Step { at: context.clock.now(), kind: StepKind::Progress, detail: line.to_owned() };
    if let Err(error) = context.history.step(work.record, &step) {
        warn!(object = %wanted.key, %error, "failed to write down how far it is");
    }
    let under_way = UnderWay {
        commit: wanted.commit.id.clone(),
        outcome,
        counters: counters.into(),
        message: line.to_owned(),
        until: None,
        watched: None,
        in_the_way: None,
        wrong: None,
    };
    context.status.change(|source| put_or_remove(&mut source.under_way, &wanted.key, Some(under_way)));
}

/// Waits until the watch reports the controller that was written: the one of its name before it went while this one
/// came.
pub async fn until_seen(work: &mut RolloutTask, written: &Value) -> Result<(), Cancelled> {
    let uid = marks::uid(written).to_owned();
    let cancel = work.cancel.clone();
    let seen = work.live.wait_for(|live| live.as_ref().is_some_and(|live| marks::uid(&live.read()) == uid));
    tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(Cancelled),
        // The watch reports the rest while the rollout is judged.
        _ = tokio::time::timeout(UNTIL_SEEN, seen) => {}
    }
    // It may be newer than the write, and then nothing else would ever reach the judge.
    work.live.mark_changed();
    Ok(())
}
