//! SAY. The only room that prints. One file a command; each says what it is in its arguments' doc comments.

mod check;
mod cluster;
mod connect;
mod demo;
mod diff;
mod embedded;
mod exit;
mod folder;
mod history;
mod output;
mod plan;
mod progress;
mod retry;
mod run;
mod show;
mod signals;
mod stats;
mod status;
mod version;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use exit::Exit;

/// Rolls out what a Git repository says, and takes back, by itself, what fails.
#[derive(Parser)]
#[command(name = "belay", version, max_term_width = 100, propagate_version = false, disable_help_subcommand = false)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// What every command understands.
#[derive(clap::Args, Clone, Debug)]
pub struct Globals {
    /// The kubeconfig file [default: as kubectl; in a pod, its service account]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub context: Option<String>,
    /// The namespace
    #[arg(short, long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub namespace: Option<String>,
    /// The folder with the mirror and the history [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/belay]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub state_dir: Option<PathBuf>,
    /// Say more; may be given several times
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// The whole story in half a minute, with nothing installed
    Demo(demo::Args),
    /// Follow repositories and roll out what they say
    Run(run::Args),
    /// Show what would change
    Plan(plan::Args),
    /// Check manifests without a cluster
    Check(check::Args),
    /// Show where each workload is
    Status(status::Args),
    /// Show what was rolled out, by which commit, and what became of it
    History(history::Args),
    /// Show one commit: what it touched, outcome, evidence
    Show(show::Args),
    /// Let go of a hold, so that the held manifest is applied again
    Retry(retry::Args),
    /// Serve the embedded cluster
    Cluster(cluster::Args),
    /// Print the version
    Version(version::Args),
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers; everything else is wrong usage. Nobody is left to be told if printing fails.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    // kube asks for the process's default provider; a second installation is refused, and changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::progress(format!("error: failed to start: {error}"));
            return Exit::Error.into();
        }
    };
    let exit = runtime.block_on(run(cli)).unwrap_or_else(|error| {
        output::progress(format!("error: {error:#}"));
        Exit::Error
    });
    // A blocking read of a repository that hangs must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    exit.into()
}

async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { globals, command } = cli;
    match command {
        Command::Demo(args) => demo::run(&globals, args).await,
        Command::Run(args) => run::run(&globals, args).await,
        Command::Plan(args) => plan::run(&globals, args).await,
        Command::Check(args) => check::run(&globals, &args),
        Command::Status(args) => status::run(&globals, args).await,
        Command::History(args) => history::run(&globals, args).await,
        Command::Show(args) => show::run(&globals, args).await,
        Command::Retry(args) => retry::run(&globals, args).await,
        Command::Cluster(args) => cluster::run(&globals, args).await,
        Command::Version(args) => version::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
