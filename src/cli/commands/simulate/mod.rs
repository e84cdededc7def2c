//! `belay simulate`: a rollout step by step, on the embedded cluster in virtual time.
//!
//! ```text
//! input ─▶ change ─▶ surroundings ─▶ scenario ──────▶ timeline ─▶ bounds ─▶ text, picture, json
//! files,   what the   nodes,          the embedded     steps,      did they
//! or live  flags say  what is         cluster with      sizes       hold?
//!                     assumed         paused time: Recording
//! ```

mod back;
mod bounds;
mod canary;
mod change;
mod counts;
mod ended;
mod input;
mod json;
mod timeline;
pub(in crate::cli) use json::SimulateAnswer;
mod picture;
mod recorder;
mod recording;
mod report;
mod scenario;
mod surroundings;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;

use anyhow::Context as _;

use super::plan::complain;
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::{Format, output_width, say, say_value};
use crate::cli::session::configured::SourceArgs;
use crate::config::Span;
use bounds::Bounds;
use change::{Amount, Flags, ImageChange};
use ended::SimulationEnd;
use input::Input;
use scenario::Scenario;
use timeline::Timeline;

/// The arguments of `belay simulate`.
///
/// One file: the workload in it gets a new version. Two files: from the first to the second. KIND/NAME: from what is live
/// in the cluster, which is only read, to the same with what the flags change. Pods start in a second unless a flag, or
/// the annotation kubelet.belay.dev/fate in the template, says otherwise; nothing runs, and no time passes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A file or folder with the workload, `-` for standard input, or KIND/NAME for a live one
    #[arg(value_name = "FILE|KIND/NAME")]
    from: String,
    /// The file with the workload after the change
    #[arg(value_name = "AFTER")]
    to: Option<String>,
    /// Select the workload, if the file has several
    #[arg(long, value_name = "KIND/NAME")]
    workload: Option<crate::cli::args::workload::Named>,
    /// Set the new image; with its container if there are several
    #[arg(long, value_name = "[CONTAINER=]IMAGE")]
    image: Vec<ImageChange>,
    /// Set the number of pods
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Set the number of pods that may exist beyond the number of replicas
    #[arg(long, value_name = "N|N%")]
    max_surge: Option<Amount>,
    /// Set the number of pods that may be unavailable
    #[arg(long, value_name = "N|N%")]
    max_unavailable: Option<Amount>,
    /// Make the new pods ready after this time
    #[arg(long, value_name = "TIME")]
    ready_after: Option<Span>,
    /// Let the new pods never become ready
    #[arg(long, conflicts_with = "ready_after")]
    broken: bool,
    /// Let each new pod crash after this time, again and again
    #[arg(long, value_name = "TIME")]
    crash_after: Option<Span>,
    /// Start without the workload: the first deployment
    #[arg(long, conflicts_with = "to")]
    first: bool,
    /// Set the number of nodes [default: as many as the pods need; 3 for a DaemonSet]
    #[arg(long, value_name = "N")]
    nodes: Option<NonZeroUsize>,
    /// Set the seed of everything random, such as names
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    source: SourceArgs,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let (output, seed, nodes) = (args.output, args.seed, args.nodes);
    let (scene, flags) = match input::read(globals, &args).await? {
        Input::ObservedWorkload(scene) => (*scene, flags(args)),
        Input::Complaints(complaints) => {
            complaints.iter().for_each(complain);
            return Ok(Exit::Error);
        }
    };
    let (before, after) = change::both(&scene, &flags)?;
    let surroundings = surroundings::set(&scene, before.as_ref(), &after, nodes);
    let assumed = surroundings.assumed;
    let scenario = Scenario {
        seed,
        nodes: surroundings.nodes,
        provided: surroundings.provided,
        key: scene.key.clone(),
        before,
        after,
        watch_on: flags.crash_after.map(|Span(after)| after),
    };
    // Virtual time needs a runtime of its own, whose only work this is.
    let played = tokio::task::spawn_blocking(move || scenario.run()).await.context("the simulation broke off")?;
    let recording = match played {
        Ok(recording) => recording,
        Err(scenario::Failed::Refused(refusal)) => {
            input::complaints(&scene, &refusal).iter().for_each(complain);
            return Ok(Exit::Error);
        }
        Err(scenario::Failed::Other(error)) => return Err(error),
    };
    let timeline = Timeline::of(&recording);
    let bounds = Bounds::of(&recording, &timeline);
    match output {
        Format::Json | Format::Yaml => say_value(&json::value(&recording, &timeline, &bounds, &assumed, seed), output)?,
        Format::Name => timeline.pods.iter().for_each(|pod| say(&pod.name)),
        Format::Table | Format::Wide => {
            report::lines(&recording, &timeline, &bounds, &assumed).iter().for_each(say);
            picture::lines(&timeline, &bounds, output_width()).iter().for_each(say);
            report::ending(&recording, &timeline, &bounds).iter().for_each(say);
        }
    }
    Ok(if matches!(recording.end, SimulationEnd::Complete { .. }) { Exit::Done } else { Exit::No })
}

fn flags(args: Args) -> Flags {
    let Args { image, replicas, max_surge, max_unavailable, ready_after, broken, crash_after, .. } = args;
    Flags { image, replicas, max_surge, max_unavailable, ready_after, broken, crash_after }
}
