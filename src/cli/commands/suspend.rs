//! `belay suspend WORKLOAD` and `belay resume-sync WORKLOAD`: the daemon leaves an object alone, and takes it up again.

use anyhow::{anyhow, bail};
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, On, Target};
use crate::cli::exit::Exit;
use crate::cli::worktree::cause::Cause;
use crate::cluster::{Cluster, Mode, Part, Patch, WORKLOADS};
use belay_core::rollout::{applied_fields, marks};

/// The arguments of `belay suspend`.
#[derive(clap::Args, Debug)]
pub struct SuspendArgs {
    #[command(flatten)]
    on: On,
    /// Give the reason, for others who see it; the same as --note
    #[arg(long, value_name = "TEXT", value_parser = reason, conflicts_with = "note")]
    reason: Option<String>,
    #[command(flatten)]
    cause: Cause,
}

/// The arguments of `belay resume-sync`.
#[derive(clap::Args, Debug)]
pub struct ResumeArgs {
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    cause: Cause,
}

/// The default reason of a suspension.
const BY_HAND: &str = "by hand (belay suspend)";
/// The longest reason, in characters: it stands in a table.
const REASON_LIMIT: usize = 200;

fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err("it says nothing".to_owned()),
        length if length > REASON_LIMIT => Err(format!("{length} characters are too many: at most {REASON_LIMIT}")),
        _ if text.chars().any(char::is_control) => Err("it must be one line of text".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Runs `belay suspend`.
pub(in crate::cli) async fn suspend(globals: &Globals, args: SuspendArgs) -> anyhow::Result<Exit> {
    let only = For { kinds: &WORKLOADS, otherwise: "is not rolled out by belay", verb: "Suspend" };
    let SuspendArgs { on, reason: given, mut cause } = args;
    cause.note = given.or(cause.note);
    let why =
        cause.line(globals)?.map(|why| reason(&why).map_err(|error| anyhow!("the reason can't be taken: {error}")));
    let why = why.transpose()?.unwrap_or_else(|| BY_HAND.to_owned());
    each(globals, &on, only, async |cluster, target, mode| begin(cluster, target, mode, &why).await).await
}

/// Runs `belay resume-sync`.
pub(in crate::cli) async fn resume(globals: &Globals, args: ResumeArgs) -> anyhow::Result<Exit> {
    let only = For { kinds: &WORKLOADS, otherwise: "is not rolled out by belay", verb: "Take up" };
    each(globals, &args.on, only, async |cluster, target, mode| {
        end(cluster, target, mode, args.cause.note(globals)?).await
    })
    .await
}

async fn begin(cluster: &Cluster, target: &Target, mode: Mode, why: &str) -> anyhow::Result<Act> {
    let Some(source) = marks::label(&target.live, marks::SOURCE) else {
        bail!("{} is not applied by belay; there is nothing to suspend", target.quoted());
    };
    if let Some(before) = marks::annotation(&target.live, marks::SUSPEND).filter(|before| *before == why) {
        bail!("{} is already suspended: {before}", target.quoted());
    }
    let object = annotate(cluster, target, mode, json!({marks::SUSPEND: why})).await?;
    let mut act = Act::done(object, "suspended");
    act.notes.push(format!(
        "note: commits of source {source} no longer change it until belay resume-sync {}",
        target.argument()
    ));
    Ok(act)
}

async fn end(cluster: &Cluster, target: &Target, mode: Mode, note: Value) -> anyhow::Result<Act> {
    if marks::annotation(&target.live, marks::SUSPEND).is_none() {
        bail!("{} is not suspended", target.quoted());
    }
    let in_git =
        applied_fields(&target.live).is_some_and(|applied| marks::annotation(&applied, marks::SUSPEND).is_some());
    if in_git {
        bail!("{} is suspended by its manifest; remove {} there, and commit", target.quoted(), marks::SUSPEND);
    }
    let object = annotate(cluster, target, mode, json!({marks::SUSPEND: null, marks::NOTE: note})).await?;
    Ok(Act::done(object, "taken up again"))
}

async fn annotate(cluster: &Cluster, target: &Target, mode: Mode, annotations: Value) -> anyhow::Result<Value> {
    let metadata = json!({"uid": marks::uid(&target.live), "annotations": annotations});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    Ok(cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?.object)
}
