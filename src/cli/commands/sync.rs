//! `belay sync --now SOURCE`: the head that waits for a window is rolled out now.

use anyhow::bail;

use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::say;
use crate::cli::session::source_leases::SourceLeases;
use crate::cli::session::who::who;
use crate::clock::Clock;
use crate::cluster::Mode;
use crate::daemon::{ask_daemon, is_window_wait};
use belay_core::rollout::{SyncRequest, marks};

/// The arguments of `belay sync`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Source; may be left out where the cluster has only one
    source: Option<String>,
    /// Roll out the present head of the source, once, though it waits for a window
    #[arg(long, required = true)]
    now: bool,
    /// Ask the API server without changing anything
    #[arg(long)]
    dry_run: bool,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { source, dry_run, now: _ } = args;
    let cluster = globals.cluster("").await?;
    let leases = SourceLeases::read(&cluster).await?;
    let source = match (source, &leases.sources()[..]) {
        (Some(source), _) => source,
        (None, [only]) => (*only).to_owned(),
        (None, []) => bail!("no daemon follows a source on this cluster: there is no Lease of belay's"),
        (None, several) => bail!("name a source: this cluster has {}", several.join(", ")),
    };
    // A daemon on another machine looks for itself, and logs that nothing waits.
    let published = ask_daemon(&globals.state_to_look_at()?).await;
    if let Some(known) = published.as_ref().and_then(|published| published.get(&source)) {
        let waits = known.standing.waits.as_deref().is_some_and(is_window_wait);
        if !waits {
            bail!("source {source} waits for no window; there is nothing to let through");
        }
    }
    let request = SyncRequest { by: who(globals), at: Clock::system().now() };
    let mode = if dry_run { Mode::DryRun } else { Mode::Real };
    leases.annotate(&source, marks::SYNC_NOW, &request, mode).await?;
    let tried = if dry_run { " (server dry run)" } else { "" };
    say(format!("asked the daemon of source {source} to roll out its head now{tried}"));
    Ok(Exit::Done)
}
