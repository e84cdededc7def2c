//! `belay retry WORKLOAD`

mod refused;

use anyhow::bail;
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, On, Target};
use crate::cli::exit::Exit;
use crate::cli::worktree::cause::Cause;
use crate::cluster::{Cluster, Mode, Part, Patch, WORKLOADS};
use belay_core::rollout::{Hold, marks};

/// The arguments of `belay retry`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    cause: Cause,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { mut on, cause } = args;
    let cluster = globals.cluster("").await?;
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let refused = refused::take_refused(globals, &mut on, &namespace);
    if !refused.is_empty() {
        refused::ask(&cluster, &on, &refused).await?;
        if on.workloads.is_empty() {
            return Ok(Exit::Done);
        }
    }
    let only = For {
        kinds: &WORKLOADS,
        otherwise: "has no hold of its own: retry the workload that reads it",
        verb: "Try again",
    };
    each(globals, &on, only, async |cluster, target, mode| retry(cluster, target, mode, cause.note(globals)?).await)
        .await
}

async fn retry(cluster: &Cluster, target: &Target, mode: Mode, note: Value) -> anyhow::Result<Act> {
    if marks::label(&target.live, marks::SOURCE).is_none() {
        bail!("{} is not applied by belay; `belay status -A` lists what is", target.quoted());
    }
    let Some(hold) = Hold::on(&target.live) else {
        bail!("{} is not held; there is nothing to try again", target.quoted());
    };
    let metadata =
        json!({"uid": marks::uid(&target.live), "annotations": {marks::HOLD: Value::Null, marks::NOTE: note}});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let written = cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?;
    let mut act = Act::done(written.object, &format!("let go of commit {}", hold.commit.short()));
    let suspended = marks::suspension(&target.live);
    let when = suspended.map(|why| format!(" after belay resume-sync: {} is suspended ({why})", target.named()));
    let when = when.unwrap_or_default();
    act.notes.push(format!("note: it was held because {}; belay applies it again{when}", hold.reason));
    Ok(act)
}
