//! `belay simulate`: a rollout step by step, on the embedded cluster in virtual time.
//!
//! ```text
//! input ─▶ change ─▶ stage ─▶ play ─────────────▶ film ─▶ bounds ─▶ text, picture, json
//! files,   what the  nodes,   the embedded cluster  steps,  did they
//! or live  flags say what is  with paused time:     sizes   hold?
//!                    assumed  Recording
//! ```

mod back;
mod bounds;
mod change;
mod counts;
mod ended;
mod film;
mod input;
mod json;
pub(super) use json::SimulateAnswer;
mod picture;
mod play;
mod recording;
mod reel;
mod stage;
mod story;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;

use anyhow::Context as _;

use super::Globals;
use super::exit::Exit;
use super::output::{Format, output_width, say, say_value};
use super::plan::complain;
use crate::config::Span;
use bounds::Bounds;
use change::{Amount, Flags, Image};
use ended::Ended;
use film::Film;
use input::Input;
use play::Play;

/// What `belay simulate` understands.
///
/// One file: the workload in it gets a new version. Two files: from the first to the second. KIND/NAME: from what is live
/// in the cluster, which is only read, to the same with what the flags change. Pods start in a second unless a flag, or
/// the annotation kubelet.belay.dev/fate in the template, says otherwise; nothing runs, and no time passes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A file or folder with the workload, `-` for standard input; or KIND/NAME for a live one
    #[arg(value_name = "FILE|KIND/NAME")]
    from: String,
    /// The file after the change
    #[arg(value_name = "AFTER")]
    to: Option<String>,
    /// Which workload, where the file has several
    #[arg(long, value_name = "KIND/NAME")]
    workload: Option<super::workload::Named>,
    /// The new image; with its container where there are several
    #[arg(long, value_name = "[CONTAINER=]IMAGE")]
    image: Vec<Image>,
    /// How many pods
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// How many pods there may be beyond the number of replicas
    #[arg(long, value_name = "N|N%")]
    max_surge: Option<Amount>,
    /// How many pods may be unavailable
    #[arg(long, value_name = "N|N%")]
    max_unavailable: Option<Amount>,
    /// When the new pods are ready
    #[arg(long, value_name = "TIME")]
    ready_after: Option<Span>,
    /// The new pods never get ready
    #[arg(long, conflicts_with = "ready_after")]
    broken: bool,
    /// When each new pod crashes, again and again
    #[arg(long, value_name = "TIME")]
    crash_after: Option<Span>,
    /// From nothing: the first deployment
    #[arg(long, conflicts_with = "to")]
    first: bool,
    /// How many nodes there are [default: as many as the pods need; 3 for a DaemonSet]
    #[arg(long, value_name = "N")]
    nodes: Option<NonZeroUsize>,
    /// The seed of everything random, such as names
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let (output, seed, nodes) = (args.output, args.seed, args.nodes);
    let (scene, flags) = match input::read(globals, &args).await? {
        Input::Scene(scene) => (*scene, flags(args)),
        Input::Complaints(complaints) => {
            complaints.iter().for_each(complain);
            return Ok(Exit::Error);
        }
    };
    let (before, after) = change::both(&scene, &flags)?;
    let stage = stage::set(&scene, before.as_ref(), &after, nodes);
    let assumed = stage.assumed;
    let play = Play {
        seed,
        nodes: stage.nodes,
        provided: stage.provided,
        key: scene.key.clone(),
        before,
        after,
        watch_on: flags.crash_after.map(|Span(after)| after),
    };
    // Virtual time needs a runtime of its own, whose only work this is.
    let played = tokio::task::spawn_blocking(move || play.run()).await.context("the simulation broke off")?;
    let recording = match played {
        Ok(recording) => recording,
        Err(play::Failed::Refused(refusal)) => {
            input::complaints(&scene, &refusal).iter().for_each(complain);
            return Ok(Exit::Error);
        }
        Err(play::Failed::Other(error)) => return Err(error),
    };
    let film = Film::of(&recording);
    let bounds = Bounds::of(&recording, &film);
    match output {
        Format::Json | Format::Yaml => say_value(&json::value(&recording, &film, &bounds, &assumed, seed), output)?,
        Format::Name => film.pods.iter().for_each(|pod| say(&pod.name)),
        Format::Table | Format::Wide => {
            story::lines(&recording, &film, &bounds, &assumed).iter().for_each(say);
            picture::lines(&film, &bounds, output_width()).iter().for_each(say);
            story::ending(&recording, &film, &bounds).iter().for_each(say);
        }
    }
    Ok(if matches!(recording.end, Ended::Complete { .. }) { Exit::Done } else { Exit::No })
}

fn flags(args: Args) -> Flags {
    let Args { image, replicas, max_surge, max_unavailable, ready_after, broken, crash_after, .. } = args;
    Flags { image, replicas, max_surge, max_unavailable, ready_after, broken, crash_after }
}
