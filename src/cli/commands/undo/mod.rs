//! `belay undo WORKLOAD`: back to an earlier revision, or to the manifest of a commit; the workload is held.

use anyhow::bail;
use goal::Goal;
use memory::{Head, UndoHistory};
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, On, Target};
use crate::cli::exit::Exit;
use crate::cli::session::who;
use crate::cli::worktree::cause::{Cause, annotated};
use crate::clock::Clock;
use crate::cluster::{Cluster, Mode, Part, Patch};
use belay_core::rollout::canary::CanaryMark;
use belay_core::rollout::{
    Hold, IgnoredFields, TemplateMarks, Workload, applied_fields, as_kubectl_would, body, give_up_templates, marks,
    revisions, same_template, template, unchanged, with_template,
};

mod controller;
mod goal;
mod memory;

/// The arguments of `belay undo`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    on: On,
    /// Roll back to this revision, as `kubectl rollout history` numbers them [default: the one before the present]
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "to_commit")]
    to_revision: Option<i64>,
    /// Roll back to the manifest of this commit: its id, or the beginning of it
    #[arg(long, value_name = "COMMIT", value_parser = digits)]
    to_commit: Option<String>,
    /// Give the reason, for others who see the hold; the same as --note
    #[arg(long, value_name = "TEXT", conflicts_with = "note")]
    reason: Option<String>,
    #[command(flatten)]
    cause: Cause,
}

/// The kinds that an undo is for.
const TAKEN_BACK: &[(&str, &str)] =
    &[("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("v1", "ReplicationController")];

fn digits(text: &str) -> Result<String, String> {
    let fine = (4..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if fine { Ok(text.to_ascii_lowercase()) } else { Err("a commit is 4 to 40 hexadecimal digits".to_owned()) }
}

pub(in crate::cli) async fn run(globals: &Globals, mut args: Args) -> anyhow::Result<Exit> {
    let only = For { kinds: TAKEN_BACK, otherwise: "no rollbacker has been implemented for {kind}", verb: "Roll back" };
    let memory = UndoHistory::open(globals)?;
    args.cause.note = args.reason.take().or(args.cause.note);
    let why = args.cause.line(globals)?;
    let undo = Undo { args: &args, globals, memory: &memory, why, who: who::who(globals) };
    each(globals, &args.on, only, async |cluster, target, mode| undo.one(cluster, target, mode).await).await
}

struct Undo<'a> {
    args: &'a Args,
    globals: &'a Globals,
    memory: &'a UndoHistory,
    /// The reason that the person gives.
    why: Option<String>,
    /// The person, for the history.
    who: String,
}

impl Undo<'_> {
    async fn one(&self, cluster: &Cluster, target: &Target, mode: Mode) -> anyhow::Result<Act> {
        let workload = Workload::of(&target.key).filter(|workload| workload.can_go_back());
        let Some(workload) = workload else { bail!("no rollbacker has been implemented for {:?}", target.key.kind) };
        if workload == Workload::ReplicationController {
            return controller::take_back(self, cluster, target, mode).await;
        }
        self.to_revision(cluster, target, workload, mode).await
    }

    async fn to_revision(
        &self,
        cluster: &Cluster,
        target: &Target,
        workload: Workload,
        mode: Mode,
    ) -> anyhow::Result<Act> {
        let live = &target.live;
        let keepers = cluster.revision_keepers(&target.key, live).await?;
        let all = revisions(&keepers);
        let goal = match &self.args.to_commit {
            Some(commit) => goal::of_commit(self.memory, target, &all, commit)?,
            None => goal::of_revision(target, workload, &all, self.args.to_revision.unwrap_or_default())?,
        };
        match CanaryMark::on(live) {
            Some(mark) if mark.failed => {
                let (named, words) = (target.quoted(), mark.words());
                bail!("{named} is left at {words}, which has failed; revert its commit, or push a newer one");
            }
            Some(_) => {
                let (named, argument) = (target.quoted(), target.argument());
                bail!("{named} has a canary under way; take it back with 'belay abort {argument}'");
            }
            None => {}
        }
        if live["spec"]["paused"] == true {
            bail!(
                "you cannot rollback a paused deployment; resume it first with 'belay resume {}' and try again",
                target.argument()
            );
        }
        refuse_what_is_held(target, &goal)?;
        if template(live).is_some_and(|present| same_template(present, &goal.template)) {
            let done = format!("skipped rollback (current template already matches {})", goal.asked);
            return Ok(Act::done(live.clone(), &done));
        }
        match (marks::label(live, marks::SOURCE), applied_fields(live)) {
            (Some(source), Some(applied)) => self.take_back(cluster, target, mode, &goal, (source, &applied)).await,
            _ => {
                let keeper = keepers.iter().find(|keeper| keeper["metadata"]["name"] == goal.keeper.as_str());
                let patch = Patch::Json(as_kubectl_would(workload, live, keeper, &goal.template));
                let patch = annotated(patch, live, self.args.cause.annotations(self.globals, live)?);
                let written = cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?;
                Ok(Act::done(written.object, "rolled back"))
            }
        }
    }

    /// Undoes a change by the same apply that the daemon would make, with the hold in it.
    async fn take_back(
        &self,
        cluster: &Cluster,
        target: &Target,
        mode: Mode,
        goal: &Goal,
        (source, applied): (&str, &Value),
    ) -> anyhow::Result<Act> {
        let mut notes = Vec::new();
        let hold = self.hold(target, source, goal, &mut notes)?;
        let marks = self.marks(&target.live, goal, hold.as_ref())?;
        let sent = body(applied, source, &marks, hold.as_ref());
        let mut sent = with_template(sent, &goal.template);
        sent["metadata"]["resourceVersion"] = target.live["metadata"]["resourceVersion"].clone();
        if let Some(managers) = give_up_templates(&target.live) {
            self.one_owner(cluster, target, mode, managers, &mut sent, goal).await?;
        }
        let written = cluster.apply(&target.key, &target.served, &sent, mode).await?;
        notes.extend(written.warnings.iter().map(|warning| format!("Warning: {warning}")));
        if mode == Mode::Real && !template(&written.object).is_some_and(|now| same_template(now, &goal.template)) {
            notes.push(format!("note: {} keeps fields of its pod template that others own", target.named()));
        }
        Ok(Act { object: written.object, done: Some("rolled back".to_owned()), notes })
    }

    /// Takes over fields of the pod template that others own, if they would keep it from becoming that of the revision.
    async fn one_owner(
        &self,
        cluster: &Cluster,
        target: &Target,
        mode: Mode,
        managers: Value,
        sent: &mut Value,
        goal: &Goal,
    ) -> anyhow::Result<()> {
        let would_be = cluster.apply(&target.key, &target.served, &*sent, Mode::DryRun).await?;
        let fits = template(&would_be.object).is_some_and(|now| same_template(now, &goal.template));
        if fits || mode == Mode::DryRun {
            return Ok(());
        }
        let patch = Patch::Json(vec![
            unchanged(sent),
            json!({"op": "replace", "path": "/metadata/managedFields", "value": managers}),
        ]);
        let owned = cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?.object;
        sent["metadata"]["resourceVersion"] = owned["metadata"]["resourceVersion"].clone();
        Ok(())
    }

    /// Returns the hold on the workload, so that the daemon does not undo the undo.
    fn hold(
        &self,
        target: &Target,
        source: &str,
        goal: &Goal,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<Hold>> {
        let Some(head) = self.memory.head(source, target)? else {
            notes.push(format!(
                "note: there is no history of {} here, so that belay, when it sees this, finds out itself what to hold; \
                 say --state-dir DIR where its daemon keeps it",
                target.named()
            ));
            // It holds no manifest, but names the commit to the daemon.
            let commit = marks::annotation(&target.live, marks::COMMIT).and_then(|commit| commit.parse().ok());
            let is_held = |hold: Hold| goal.marks.commit.as_deref() == Some(hold.commit.as_str());
            if Hold::on(&target.live).is_some_and(is_held) {
                return Ok(None);
            }
            return Ok(commit.map(|commit| self.held(Head { commit, manifest: String::new(), config: None }, goal)));
        };
        if goal.marks.commit.as_deref() == Some(head.commit.as_str()) {
            notes.push(format!("note: this is what commit {} says, the newest; nothing is held", head.commit.short()));
            return Ok(None);
        }
        notes.push(format!(
            "note: back on {}; commit {} is held until a newer one changes {}, or belay retry {}",
            goal.describe,
            head.commit.short(),
            target.named(),
            target.argument()
        ));
        Ok(Some(self.held(head, goal)))
    }

    /// Returns the marks of the template that it goes back to. If nothing is held, its change-cause gives the reason.
    fn marks(&self, live: &Value, goal: &Goal, hold: Option<&Hold>) -> anyhow::Result<TemplateMarks> {
        let mut said = self.args.cause.annotations(self.globals, live)?;
        let said = said.remove(marks::CHANGE_CAUSE).filter(|_| hold.is_none());
        let said = said.and_then(|cause| cause.as_str().map(str::to_owned));
        let change_cause = said.or_else(|| goal.marks.change_cause.clone());
        Ok(TemplateMarks { change_cause, ..goal.marks.clone() })
    }

    fn held(&self, head: Head, goal: &Goal) -> Hold {
        let mut reason = format!("taken back by hand (belay undo) to {}", goal.describe);
        if let Some(why) = &self.why {
            reason.push_str(&format!(": {why}"));
        }
        let now = Clock::system().now();
        let hold = Hold::new(&head.manifest, head.config.as_deref(), &head.commit, &reason, now);
        hold.about(&goal.template, &IgnoredFields::default()).left_by(&self.who)
    }
}

/// Refuses a held manifest: it was rolled back for a reason, by belay or by somebody, and an undo would roll it out
/// again and release it, without a judge. `belay retry` does that, judged.
fn refuse_what_is_held(target: &Target, goal: &Goal) -> anyhow::Result<()> {
    let live = &target.live;
    let is_in_force = |hold: &Hold| template(live).is_some_and(|present| hold.is_about(present));
    match Hold::on(live).filter(is_in_force) {
        Some(hold) if goal.marks.commit.as_deref() == Some(hold.commit.as_str()) => bail!(
            "commit {} is held for {}: {}; belay retry {} rolls it out again, and takes it back if it fails",
            hold.commit.short(),
            target.quoted(),
            hold.reason,
            target.argument()
        ),
        _ => Ok(()),
    }
}
