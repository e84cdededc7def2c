//! `belay retry WORKLOAD`

mod many;
mod refused;

use anyhow::bail;
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, On, Target};
use crate::cli::exit::Exit;
use crate::cli::output::Format;
use crate::cli::worktree::cause::Cause;
use crate::cluster::{Cluster, Mode, Part, Patch, WORKLOADS};
use belay_core::rollout::{Hold, marks};

/// The arguments of `belay retry`.
#[derive(clap::Args, Debug)]
#[command(
    group = clap::ArgGroup::new("many").args(["selector", "all"]),
    after_help = "\
Examples:
  belay retry deployment/web -n shop
  belay retry --all                  # all that is held or refused in the namespace
  belay retry --all -A --dry-run     # the same of every namespace, tried and not done
  belay retry -l app=web -A --yes"
)]
pub struct Args {
    /// The workloads: KIND/NAME …, KIND NAME …, or NAME …
    #[arg(value_name = "WORKLOAD", required_unless_present = "many", conflicts_with = "all")]
    workloads: Vec<String>,
    /// Retry the held workloads with these labels: app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Retry every held workload, and every object that was rejected or given up
    #[arg(long)]
    all: bool,
    /// Retry in all namespaces; with --all or -l
    #[arg(short = 'A', long, requires = "many")]
    all_namespaces: bool,
    /// Retry several without a question
    #[arg(short, long)]
    yes: bool,
    /// Let the API server try the change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Select the output format for the changed objects
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
    #[command(flatten)]
    cause: Cause,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { workloads, selector, all, all_namespaces, yes, dry_run, output, cause } = args;
    let mut on = On { workloads, selector, yes, dry_run, output };
    let cluster = globals.cluster("").await?;
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let act = async |cluster: &Cluster, target: &Target, mode| retry(cluster, target, mode, cause.note(globals)?).await;
    if all || on.selector.is_some() {
        let namespace = (!all_namespaces).then_some(namespace);
        let refused = if all { refused::all(globals, namespace.as_deref()) } else { refused::Refused::new() };
        return many::run(&cluster, &on, (namespace.as_deref(), refused), act).await;
    }
    let refused = refused::take_refused(globals, &mut on, &namespace);
    if !refused.is_empty() {
        let is_alone = on.workloads.is_empty();
        refused::ask(&cluster, &on, &refused, is_alone).await?;
        if is_alone {
            return Ok(Exit::Done);
        }
    }
    let only = For {
        kinds: &WORKLOADS,
        otherwise: "has no hold of its own: retry the workload that reads it",
        verb: many::VERB,
    };
    each(globals, &on, only, act).await
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
    let when = suspended.map(|why| format!(" after belay resume-sync {}: it is suspended ({why})", target.argument()));
    let when = when.unwrap_or_default();
    act.notes.push(format!("note: it was held because {}; belay applies it again{when}", hold.reason));
    Ok(act)
}
