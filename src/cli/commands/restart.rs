//! `belay restart WORKLOAD`

use anyhow::bail;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, REVISED, Target};
use crate::cli::exit::Exit;
use crate::cli::worktree::cause::{ChangeArgs, annotated};
use crate::clock::Clock;
use crate::cluster::{Cluster, Mode, Part, Patch};
use belay_core::rollout::{Hold, applied_fields, marks, template};

pub(in crate::cli) async fn run(globals: &Globals, args: ChangeArgs) -> anyhow::Result<Exit> {
    let only = For { kinds: REVISED, otherwise: "restarting is not supported", verb: "Restart" };
    let now = restarted_at(Clock::system().now(), &TimeZone::system());
    each(globals, &args.on, only, async |cluster, target, mode| {
        let why = args.cause.annotations(globals, &target.live)?;
        restart(cluster, target, mode, &now, why).await
    })
    .await
}

async fn restart(
    cluster: &Cluster,
    target: &Target,
    mode: Mode,
    now: &str,
    why: Map<String, Value>,
) -> anyhow::Result<Act> {
    if target.live["spec"]["paused"] == true {
        bail!("{} can't restart paused deployment (run belay resume {} first)", target.quoted(), target.argument());
    }
    let annotations = &target.live["spec"]["template"]["metadata"]["annotations"];
    if annotations[marks::RESTARTED_AT] == now {
        bail!("{} was restarted in this very second; wait a second and try again", target.quoted());
    }
    if let Some(held) = Hold::on(&target.live).zip(applied_fields(&target.live)) {
        let done = restart_held(cluster, target, mode, now, held).await?;
        if mode == Mode::DryRun || why.is_empty() {
            return Ok(done);
        }
        let patch = annotated(Patch::Merge(json!({})), &done.object, why);
        let written = cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?;
        return Ok(Act { object: written.object, ..done });
    }
    let template = json!({"metadata": {"annotations": {marks::RESTARTED_AT: now}}});
    let patch = annotated(Patch::Strategic(json!({"spec": {"template": template}})), &target.live, why);
    let written = cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?;
    Ok(Act::done(written.object, "restarted"))
}

/// Restarts a held workload: its template while it is held is written into the hold in the same write, or the daemon
/// would take the restart for drift.
async fn restart_held(
    cluster: &Cluster,
    target: &Target,
    mode: Mode,
    now: &str,
    (hold, mut sent): (Hold, Value),
) -> anyhow::Result<Act> {
    let mut present = template(&target.live).cloned().unwrap_or_default();
    present["metadata"]["annotations"][marks::RESTARTED_AT] = json!(now);
    let hold = hold.moved_to(&present);
    sent["spec"]["template"]["metadata"]["annotations"][marks::RESTARTED_AT] = json!(now);
    sent["metadata"]["annotations"][marks::HOLD] = json!(hold.to_annotation());
    sent["metadata"]["resourceVersion"] = target.live["metadata"]["resourceVersion"].clone();
    let written = cluster.apply(&target.key, &target.served, &sent, mode).await?;
    Ok(Act::done(written.object, "restarted"))
}

/// Returns a time as kubectl writes it: RFC 3339, to the second, in local time.
fn restarted_at(now: Timestamp, zone: &TimeZone) -> String {
    let local = now.to_zoned(zone.clone());
    let written = local.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    match zone.to_offset(now).seconds() {
        0 => format!("{written}Z"),
        _ => format!("{written}{}", local.strftime("%:z")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_written_as_kubectl_does() {
        let now: Timestamp = "2026-11-21T04:30:05.7Z".parse().unwrap();
        assert_eq!(restarted_at(now, &TimeZone::UTC), "2026-11-21T04:30:05Z");
        let berlin = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(restarted_at(now, &berlin), "2026-11-21T05:30:05+01:00");
    }
}
