//! The undo of a ReplicationController, which keeps no revisions and replaces no pod by itself: a rolling update to the
//! template of an earlier commit, from the history or Git, and then the hold.

use std::time::Duration;

use anyhow::{anyhow, bail};
use serde_json::Value;

use super::goal::{self, Goal};
use super::{Undo, refuse_what_is_held};
use crate::cli::args::target::{Act, Target};
use crate::cli::output::progress;
use crate::clock::Clock;
use crate::cluster::{Cluster, Mode, Pace, RollError};
use belay_core::rollout::rolling_update::{Ask, Begun, ByHand, Live, RollingUpdate, To};
use belay_core::rollout::{Hold, TemplateMarks, applied_fields, body, marks, same_template, template, with_template};

/// The period between two reads of the cluster while pods come and go.
const LOOK: Duration = Duration::from_secs(1);
/// The number of times that the live object is read again before the command leaves it to the other writer.
const ROUNDS: usize = 5;

/// Takes one back.
pub(super) async fn take_back(undo: &Undo<'_>, cluster: &Cluster, target: &Target, mode: Mode) -> anyhow::Result<Act> {
    let Some(source) = marks::label(&target.live, marks::SOURCE) else {
        // As kubectl says it: without a history there is nothing to go back to.
        bail!("no rollbacker has been implemented for {:?}", target.key.kind);
    };
    let goal = goal(undo, target, source)?;
    refuse_what_is_held(target, &goal)?;
    let mut notes = Vec::new();
    let hold = undo.hold(target, source, &goal, &mut notes)?;
    let rolling = Rolling { cluster, target, goal: &goal, by: by(undo, hold.is_some()) };
    if is_there(&target.live, &goal) && !hold_is_missing(&target.live) {
        let done = format!("skipped rollback (current template already matches {})", goal.asked);
        return Ok(Act::done(target.live.clone(), &done));
    }
    if mode == Mode::DryRun {
        let mut update = RollingUpdate::new(rolling.ask())?;
        if let (Begun::Nothing, live) = rolling.look().await? {
            let (from, to) = update.dry_run(&live)?;
            notes.push(format!("note: the pods of {from} would be replaced by those of {to}"));
        }
        return Ok(Act { object: target.live.clone(), done: Some("rolled back".to_owned()), notes });
    }
    rolling.roll_to_goal().await?;
    let marks = undo.marks(&target.live, &goal, hold.as_ref())?;
    let written = rolling.write(source, hold, &marks).await?;
    Ok(Act { object: written, done: Some("rolled back".to_owned()), notes })
}

fn by(undo: &Undo<'_>, hold_follows: bool) -> ByHand {
    ByHand { by: undo.who.clone(), since: Clock::system().now(), source: None, from: None, hold_follows }
}

/// Returns the template to go back to: a commit's, or the last one before the present that was seen complete.
fn goal(undo: &Undo<'_>, target: &Target, source: &str) -> anyhow::Result<Goal> {
    if undo.args.to_revision.is_some_and(|number| number != 0) {
        bail!("{} keeps no revisions; say --to-commit COMMIT (belay history {})", target.quoted(), target.argument());
    }
    if let Some(digits) = &undo.args.to_commit {
        return goal::of_commit(undo.memory, target, &[], digits);
    }
    let Some(commit) = undo.memory.good_before(source, target)? else {
        bail!(
            "{} keeps no revisions, and there is no history here of an earlier commit that was complete; say --to-commit \
             COMMIT, or --state-dir DIR where its daemon keeps the history",
            target.quoted()
        );
    };
    goal::of_commit(undo.memory, target, &[], commit.as_str())
}

/// Returns true when the controller has the goal's template, by the commit that it names; without one, by the template
/// itself.
fn is_there(live: &Value, goal: &Goal) -> bool {
    match marks::annotation(live, marks::COMMIT) {
        Some(commit) => goal.marks.commit.as_deref() == Some(commit),
        None => template(live).is_some_and(|present| same_template(present, &goal.template)),
    }
}

/// Returns the template without replicas: the controller keeps the size that it has.
fn without_replicas(mut manifest: Value) -> Value {
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    manifest
}

/// Returns true when an undo was broken off between the last pod and the hold.
fn hold_is_missing(live: &Value) -> bool {
    ByHand::on(live).is_some_and(|hand| hand.hold_follows) && Hold::on(live).is_none()
}

struct Rolling<'a> {
    cluster: &'a Cluster,
    target: &'a Target,
    goal: &'a Goal,
    by: ByHand,
}

impl Rolling<'_> {
    fn ask(&self) -> Ask {
        let manifest = without_replicas(with_template(self.applied(), &self.goal.template));
        Ask { by: Some(self.by.clone()), ..Ask::template(manifest, self.goal.marks.clone()) }
    }

    /// Returns the controller as belay has applied it; one that was rolled by hand since, as it is.
    fn applied(&self) -> Value {
        let live = &self.target.live;
        applied_fields(live).filter(|applied| template(applied).is_some()).unwrap_or_else(|| live.clone())
    }

    async fn look(&self) -> anyhow::Result<(Begun, Live)> {
        let update = RollingUpdate::new(self.ask())?;
        let live = self.cluster.look_at_controllers(&update, self.namespace()).await?;
        Ok((Begun::of(&self.target.key.name, &live), live))
    }

    fn namespace(&self) -> &str {
        self.target.key.namespace.as_deref().unwrap_or_default()
    }

    /// Rolls until the controller has the template of the goal, from wherever it is.
    async fn roll_to_goal(&self) -> anyhow::Result<()> {
        for _ in 0..ROUNDS {
            let (begun, live) = self.look().await?;
            let present = live.controllers.iter().find(|one| one["metadata"]["name"] == self.target.key.name.as_str());
            match begun {
                Begun::Nothing => {
                    let Some(present) = present else { bail!("{} not found", self.target.quoted()) };
                    let no_pods = present["spec"]["replicas"] == 0;
                    if is_there(present, self.goal) || no_pods {
                        return Ok(());
                    }
                    self.roll(self.ask()).await?;
                }
                Begun::Growing { next, commit } => {
                    if ByHand::on(&next).is_none() {
                        let commit = commit.unwrap_or_default();
                        bail!(
                            "belay is just rolling {} to commit {}; it takes that back by itself if it fails; undo it when it \
                             is through, or push a commit",
                            self.target.quoted(),
                            commit.chars().take(7).collect::<String>()
                        );
                    }
                    let ours = commit == self.goal.marks.commit;
                    let to = if ours { self.ask().to } else { To::Back };
                    self.roll(Ask { to, ..self.ask() }).await?;
                }
                Begun::Renaming => self.roll(self.ask()).await?,
            }
        }
        bail!("{} is being changed by others all the time; try again", self.target.quoted())
    }

    async fn roll(&self, ask: Ask) -> anyhow::Result<()> {
        let update = RollingUpdate::new(ask)?;
        let pace = self.pace();
        let rolled = self.cluster.roll(self.namespace(), update, pace, |line: &str, _| progress(line)).await;
        match rolled {
            Ok(_) => Ok(()),
            Err(error @ RollError::TimedOut { .. }) => {
                Err(anyhow::Error::from(error).context("the same command goes on from here"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a pace as fast as readiness allows: an undo is in a hurry.
    fn pace(&self) -> Pace {
        let rest = self.target.live["spec"]["minReadySeconds"].as_u64().map_or(Duration::ZERO, Duration::from_secs);
        Pace { update_period: rest.max(LOOK), poll_interval: LOOK, ..Pace::default() }
    }

    /// Writes the marks and the hold, as the daemon would apply them; and the template, if there were no pods to roll.
    async fn write(&self, source: &str, hold: Option<Hold>, marks: &TemplateMarks) -> anyhow::Result<Value> {
        let Target { key, served, .. } = self.target;
        let gone = || anyhow!("{} was deleted meanwhile", self.target.quoted());
        let mut live = self.cluster.get(key, served).await?.ok_or_else(gone)?;
        let mut there = template(&live).cloned().unwrap_or_default();
        if live["spec"]["replicas"] == 0 && !is_there(&live, self.goal) {
            there = self.goal.template.clone();
        }
        // The server's version of the template counts, and is only known after the write.
        for _ in 0..2 {
            let hold = hold.clone().map(|hold| hold.moved_to(&there));
            let sent = body(&without_replicas(self.applied()), source, marks, hold.as_ref());
            live = self.cluster.apply(key, served, &with_template(sent, &there), Mode::Real).await?.object;
            let now = template(&live).cloned().unwrap_or_default();
            if same_template(&now, &there) {
                break;
            }
            there = now;
        }
        Ok(live)
    }
}
