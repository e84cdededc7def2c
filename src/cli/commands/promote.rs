//! `belay promote WORKLOAD` and `belay abort WORKLOAD`: the canary of a workload goes on, or back.

use anyhow::bail;
use serde_json::json;

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, Target};
use crate::cli::exit::Exit;
use crate::cli::session::who::who;
use crate::cli::worktree::cause::ChangeArgs;
use crate::clock::Clock;
use crate::cluster::{Cluster, Mode, Part, Patch};
use belay_core::rollout::canary::{CanaryAnswer, CanaryMark, request};
use belay_core::rollout::marks;

const KINDS: &[(&str, &str)] = &[("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet")];

/// Runs `belay promote`.
pub(in crate::cli) async fn promote(globals: &Globals, args: ChangeArgs) -> anyhow::Result<Exit> {
    answer(globals, &args, CanaryAnswer::Promote).await
}

/// Runs `belay abort`.
pub(in crate::cli) async fn abort(globals: &Globals, args: ChangeArgs) -> anyhow::Result<Exit> {
    answer(globals, &args, CanaryAnswer::Abort).await
}

async fn answer(globals: &Globals, args: &ChangeArgs, answer: CanaryAnswer) -> anyhow::Result<Exit> {
    let verb = match answer {
        CanaryAnswer::Promote => "Promote",
        CanaryAnswer::Abort => "Abort",
    };
    let only = For { kinds: KINDS, otherwise: "only a Deployment, a StatefulSet or a DaemonSet has a canary", verb };
    each(globals, &args.on, only, async |cluster, target, mode| {
        let person = (who(globals), args.cause.line(globals)?);
        ask(cluster, target, mode, (answer, person)).await
    })
    .await
}

async fn ask(
    cluster: &Cluster,
    target: &Target,
    mode: Mode,
    (answer, person): (CanaryAnswer, (String, Option<String>)),
) -> anyhow::Result<Act> {
    let asked = match request(&target.live, answer, person, Clock::system().now()) {
        Ok(asked) => asked,
        Err(refusal) => bail!("{}: {refusal}; `belay status` shows what is", target.quoted()),
    };
    let metadata = json!({"uid": marks::uid(&target.live),
        "resourceVersion": target.live["metadata"]["resourceVersion"],
        "annotations": {marks::CANARY_REQUEST: marks::written(&asked)}});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let written = cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?;
    let of = CanaryMark::on(&target.live).map_or(asked.step, |mark| mark.of);
    let (done, then) = match answer {
        CanaryAnswer::Promote if asked.step < of => ("promoted", format!("step {} of {of} follows", asked.step + 1)),
        CanaryAnswer::Promote => ("promoted", "all pods are replaced".to_owned()),
        CanaryAnswer::Abort => ("aborted", "its pods go back, and the manifest is held".to_owned()),
    };
    let mut act = Act::done(written.object, &format!("{done} at canary step {} of {of}", asked.step));
    let when = match answer {
        CanaryAnswer::Promote => "when the new pods of the step are ready",
        CanaryAnswer::Abort => "as soon as its daemon sees this",
    };
    act.notes.push(format!("note: {then} {when}"));
    Ok(act)
}
