//! `belay pause WORKLOAD` and `belay resume WORKLOAD`

use anyhow::bail;
use serde_json::{Map, Value, json};

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, Target};
use crate::cli::exit::Exit;
use crate::cli::worktree::cause::{ChangeArgs, annotated};
use crate::cluster::{Cluster, Mode, Part, Patch};
use belay_core::rollout::applied_fields;
use belay_core::rollout::canary::CanaryMark;

/// The wanted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseState {
    Paused,
    Running,
}

const KINDS: &[(&str, &str)] = &[("apps/v1", "Deployment")];

/// Runs `belay pause`.
pub(in crate::cli) async fn pause(globals: &Globals, args: ChangeArgs) -> anyhow::Result<Exit> {
    let only = For { kinds: KINDS, otherwise: "pausing is not supported", verb: "Pause" };
    each(globals, &args.on, only, async |cluster, target, mode| {
        let why = args.cause.annotations(globals, &target.live)?;
        set(cluster, target, mode, PauseState::Paused, why).await
    })
    .await
}

/// Runs `belay resume`.
pub(in crate::cli) async fn resume(globals: &Globals, args: ChangeArgs) -> anyhow::Result<Exit> {
    let only = For { kinds: KINDS, otherwise: "resuming is not supported", verb: "Resume" };
    each(globals, &args.on, only, async |cluster, target, mode| {
        let why = args.cause.annotations(globals, &target.live)?;
        set(cluster, target, mode, PauseState::Running, why).await
    })
    .await
}

async fn set(
    cluster: &Cluster,
    target: &Target,
    mode: Mode,
    wanted: PauseState,
    why: Map<String, Value>,
) -> anyhow::Result<Act> {
    if wanted == PauseState::Paused && CanaryMark::on(&target.live).is_some() {
        bail!("{} has a canary under way; belay promote or belay abort ends its step", target.quoted());
    }
    let is_paused = target.live["spec"]["paused"] == true;
    let (value, done) = match wanted {
        PauseState::Paused if is_paused => bail!("{} is already paused", target.quoted()),
        PauseState::Running if !is_paused => bail!("{} is not paused", target.quoted()),
        PauseState::Paused => (json!(true), "paused"),
        // Left out, as it was before, so that nobody owns the field.
        PauseState::Running => (Value::Null, "resumed"),
    };
    let patch = annotated(Patch::Strategic(json!({"spec": {"paused": value}})), &target.live, why);
    let written = cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?;
    let mut act = Act::done(written.object, done);
    if applied_fields(&target.live).is_some_and(|applied| applied["spec"].get("paused").is_some()) {
        act.notes.push(format!(
            "note: the manifest of {} says itself whether it is paused; belay will put that back unless the manifest \
             changes, or it is suspended (belay suspend)",
            target.named()
        ));
    }
    Ok(act)
}
