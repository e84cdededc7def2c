//! `belay demo`

mod setup;
mod story;
mod witness;

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;

use super::history;
use super::show;
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::progress::Progress;
use crate::cli::output::{Format, cut, say};
use crate::cli::session::history_view::HistoryView;
use crate::cli::session::signals;
use crate::clock::Clock;
use crate::history::Query;
use crate::history::query::answers::HistoryAnswer;
use belay_core::rollout::Outcome;
use setup::DemoSetup;
use story::{Chapter, Ending, STORY, STORY_IN_STEPS};
use witness::Witness;

/// The arguments of `belay demo`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Keep the cluster and the daemon running afterwards, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Roll out in steps: a bad version reaches one pod, and goes back
    #[arg(long)]
    canary: bool,
}

/// The longest time for one step before the demo gives up.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The part of the evidence that is shown: lines, and columns of each; `belay show` has the whole.
const EVIDENCE_LINES: usize = 5;
const EVIDENCE_WIDTH: usize = 150;

pub(in crate::cli) async fn run(_globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { keep, canary } = args;
    let story: &[Chapter] = if canary { &STORY_IN_STEPS } else { &STORY };
    say("A Git repository, an embedded Kubernetes of three nodes that runs no containers, and belay between them.");
    let mut setup = DemoSetup::set().await?;
    let witness = Witness::new(setup.client());
    let mut previous_image = "";
    for (number, chapter) in (1..).zip(story) {
        tell(&mut setup, &witness, number, chapter, previous_image).await?;
        if chapter.ends == Ending::Complete {
            previous_image = chapter.image;
        }
    }
    epilogue(&setup, &witness).await?;
    if keep {
        let kept = setup.keep().await?;
        invite(&setup, &kept, previous_image);
        signals::asked_to_stop().await;
        kept.close().await;
    }
    setup.stop().await;
    Ok(Exit::Done)
}

/// Commits a chapter, and watches until the cluster itself shows how it ends.
async fn tell(
    setup: &mut DemoSetup,
    witness: &Witness,
    number: usize,
    chapter: &Chapter,
    before: &str,
) -> anyhow::Result<()> {
    let bold = Style::new().bold();
    say("");
    say(format!("{bold}{number}. {}{bold:#}", chapter.title));
    let commit = setup.commit(chapter)?;
    let dim = Style::new().dimmed();
    say(format!("{dim}   $ git commit --message {:?} && git push   # {}{dim:#}", chapter.subject, commit.short()));
    let mut progress = Progress::default();
    let watching = async {
        loop {
            let seen = witness.look().await?;
            progress.show(&format!("   {}", seen.line()));
            let ended = match chapter.ends {
                Ending::Complete => seen.runs(&commit, chapter.image),
                Ending::TakenBack => seen.is_back(&commit, before),
            };
            // The record ends a moment after the cluster does.
            if ended && setup.is_recorded(&commit) {
                return anyhow::Ok(seen);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let seen = tokio::time::timeout(STEP_TIMEOUT, watching).await.with_context(|| {
        format!("the cluster did not show within {} s what was to happen", STEP_TIMEOUT.as_secs())
    })??;
    match chapter.ends {
        Ending::Complete => {
            let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
            progress.done(&format!("   {green}complete{green:#}: {}", seen.line()));
        }
        Ending::TakenBack => {
            let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
            progress.done(&format!("   {red}rolled-back{red:#}: {}", seen.line()));
            explain(setup, &commit)?;
        }
    }
    Ok(())
}

/// Explains why it was rolled back, with the evidence that belay kept.
fn explain(setup: &DemoSetup, commit: &belay_core::rollout::CommitId) -> anyhow::Result<()> {
    let query = Query { commit: Some(commit.to_string()), outcomes: [Outcome::RolledBack].into(), ..Query::default() };
    let record = setup.history().records(&query)?.into_iter().next().context("the history has no record of it")?;
    let reason = record.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    say(format!("   why: {reason}"));
    if let Some(evidence) = &record.evidence {
        for line in show::evidence_lines(evidence, record.ended.unwrap_or_else(|| Clock::system().now()))
            .iter()
            .take(EVIDENCE_LINES)
        {
            say(format!("   {}", cut(line, EVIDENCE_WIDTH)));
        }
    }
    say(format!("   {} is held: nothing applies it again until it changes in Git, or `belay retry`.", commit.short()));
    Ok(())
}

/// Returns the history by commit, and as kubectl shows it.
async fn epilogue(setup: &DemoSetup, witness: &Witness) -> anyhow::Result<()> {
    let bold = Style::new().bold();
    say("");
    say(format!("{bold}$ belay history deploy/web{bold:#}"));
    let query = Query { name: Some("web".to_owned()), kind: Some("Deployment".to_owned()), ..Query::default() };
    let records = HistoryView::from(setup.history().clone()).answers(&query)?;
    history::print(&HistoryAnswer { records, missing: Vec::new() }, Format::Table, Clock::system().now())?;
    say("");
    say(format!("{bold}$ kubectl rollout history deploy/web{bold:#}"));
    witness.rollout_history().await?.iter().for_each(say);
    Ok(())
}

/// Prints suggestions for the parts that were left running.
fn invite(setup: &DemoSetup, kept: &setup::Kept, image: &str) {
    let (repository, clone) = (setup.repository().display().to_string(), setup.working_copy().display().to_string());
    let (kubeconfig, state) = (kept.kubeconfig.display().to_string(), setup.state().display().to_string());
    let tag = image.rsplit('/').next().unwrap_or_default();
    // Nobody has installed it yet.
    let belay = std::env::current_exe().map_or_else(|_| "belay".to_owned(), |path| path.display().to_string());
    for line in [
        String::new(),
        "All of it is still running. In another terminal:".to_owned(),
        String::new(),
        format!("  export KUBECONFIG={kubeconfig}"),
        "  kubectl -n shop get deploy,rs,pods".to_owned(),
        String::new(),
        "Three things to try:".to_owned(),
        format!("  cd {clone} && sed -i 's/{tag}/web:1.3/' web.yaml && git commit -am 'A newer image' && git push"),
        "  kubectl -n shop rollout undo deploy/web   # respected: recorded, and held like any other".to_owned(),
        "  kubectl -n shop scale deploy/web --replicas 7   # put right: Git says 3".to_owned(),
        String::new(),
        format!("See what became of it: {belay} history --state-dir {state}"),
        format!("The repository to push to: {repository}"),
        "Ctrl-C ends it.".to_owned(),
    ] {
        say(line);
    }
}
