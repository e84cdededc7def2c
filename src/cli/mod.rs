//! The only room that prints. A command is a file or a folder of `commands`; each is described in the doc comment
//! of its arguments.

mod args;
mod commands;
mod exit;
mod output;
mod session;
mod worktree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use exit::Exit;
pub use output::answer::schemas;

use self::worktree::cause::ChangeArgs;
use crate::config::ConfigError;
use crate::git::InvalidLocation;
use crate::history::query::source_histories;
use crate::telemetry::{self, LogFormat};

/// Rolls out what a Git repository says, and takes back, by itself, what fails.
#[derive(Parser)]
#[command(name = "belay", version, max_term_width = 100, propagate_version = false, disable_help_subcommand = false)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// The options of every command.
#[derive(clap::Args, Clone, Debug)]
pub struct Globals {
    /// Use this kubeconfig file [default: as kubectl; in a pod, its service account]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub context: Option<String>,
    /// Use this namespace
    #[arg(short, long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub namespace: Option<String>,
    /// Use this folder with the mirror and the history [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/belay; to look, else the service's]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub state_dir: Option<PathBuf>,
    /// Impersonate this user
    #[arg(long = "as", global = true, value_name = "USER", help_heading = "Global options")]
    pub as_user: Option<String>,
    /// Impersonate this group, too; may be given several times
    #[arg(long, global = true, value_name = "GROUP", requires = "as_user", help_heading = "Global options")]
    pub as_group: Vec<String>,
    /// Give up a request after this time: 10s, 1m [default: 30s]
    #[arg(long, global = true, value_name = "TIME", value_parser = session::connect::request_timeout, help_heading = "Global options")]
    pub request_timeout: Option<std::time::Duration>,
    /// Log more; may be given several times
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Run a rollout and a rollback, with nothing installed
    Demo(commands::demo::Args),
    /// Follow Git repositories, and roll out their commits
    Run(commands::run::Args),
    /// Show the changes that a rollout would make
    Plan(commands::plan::Args),
    /// Check manifests without a cluster
    Check(commands::check::Args),
    /// Print the manifests that kustomize and Helm render
    Render(commands::render::Args),
    /// Print the configuration for an object of Flux or Argo CD
    Import(commands::import::Args),
    /// Show the state of each workload
    Status(commands::status::Args),
    /// List the rollouts, with their commits and outcomes
    History(commands::history::Args),
    /// Show one commit: its objects, outcomes and evidence
    Show(commands::show::Args),
    /// Answer an assistant by the Model Context Protocol
    Mcp(commands::mcp::Args),
    /// Release a hold, and apply the held manifest again
    Retry(commands::retry::Args),
    /// Replace the pods of a ReplicationController one by one
    RollingUpdate(Box<commands::rolling_update::Args>),
    /// Roll a workload back, and hold the manifest that it leaves
    Undo(commands::undo::Args),
    /// Stop applying commits to a workload
    Suspend(commands::suspend::SuspendArgs),
    /// Apply commits to a suspended workload again
    ResumeSync(commands::suspend::ResumeArgs),
    /// Roll out a head now that waits for a window
    Sync(commands::sync::Args),
    /// Let a canary go on with its next step
    Promote(ChangeArgs),
    /// Take a canary back, and hold its manifest
    Abort(ChangeArgs),
    /// Pause a Deployment: changes of its template wait
    Pause(ChangeArgs),
    /// Resume a paused Deployment
    Resume(ChangeArgs),
    /// Replace the pods of a workload, its template unchanged
    Restart(ChangeArgs),
    /// Change images, variables, ports and more, and commit that
    Set(commands::set::Args),
    /// Change the number of pods in a manifest, and commit that
    Scale(commands::scale::Args),
    /// Write a new manifest, and commit it
    New(commands::new::Args),
    /// Send a test notice to a receiver
    Notify(commands::notify_test::Args),
    /// Show a rollout step by step, in virtual time
    Simulate(Box<commands::simulate::Args>),
    /// Serve the embedded cluster to kubectl
    Cluster(commands::cluster::Args),
    /// Print the script that completes commands and names on Tab
    Completions(commands::completions::Args),
    /// Show or write the manual pages
    Man(commands::man::Args),
    /// Print the version
    Version(commands::version::Args),
}

/// Returns the whole command line as a value, for a list of every command and option.
#[must_use]
pub fn command() -> clap::Command {
    args::command_line::command()
}

/// Reads the command line and runs its command.
#[must_use]
pub fn main() -> ExitCode {
    crate::allocator::limit_arenas();
    if let Some(answered) = crate::git::answer_ssh() {
        return if answered { Exit::Done.into() } else { Exit::Error.into() };
    }
    if commands::completions::answered() {
        return Exit::Done.into();
    }
    let cli = match args::command_line::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers; everything else is wrong usage. Nobody is left to be told if printing fails.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    // kube asks for the process's default provider; a second installation is refused, and changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let is_daemon = matches!(cli.command, Command::Run(_));
    let blocking =
        if is_daemon { session::threads::BLOCKING_OF_THE_DAEMON } else { session::threads::BLOCKING_OF_A_COMMAND };
    let runtime = match session::threads::runtime(blocking) {
        Ok(runtime) => runtime,
        Err(error) => {
            output::progress(telemetry::as_error(&format!("error: {error}")));
            return Exit::Error.into();
        }
    };
    let exit = runtime.block_on(run(cli)).unwrap_or_else(|error| {
        for line in error_lines(&error) {
            output::progress(telemetry::as_error(&format!("error: {line}")));
        }
        // Trying again does not help: the unit keeps systemd from it.
        let unusable = error.is::<ConfigError>() || error.is::<InvalidLocation>();
        if is_daemon && unusable { Exit::Usage } else { Exit::Error }
    });
    // A blocking read of a repository that hangs must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    exit.into()
}

/// Returns an error with its causes; of a configuration each of its errors.
fn error_lines(error: &anyhow::Error) -> Vec<String> {
    match error.downcast_ref() {
        Some(ConfigError::Several(errors)) => errors.iter().map(ToString::to_string).collect(),
        _ => vec![output::with_causes(error)],
    }
}

async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { globals, command } = cli;
    if globals.verbose > 0 && !matches!(command, Command::Run(_)) {
        telemetry::start_logging(globals.verbose, LogFormat::Text);
    }
    match command {
        Command::Demo(args) => commands::demo::run(&globals, args).await,
        Command::Run(args) => commands::run::run(&globals, args).await,
        Command::Plan(args) => Box::pin(commands::plan::run(&globals, args)).await,
        Command::Check(args) => commands::check::run(&globals, &args),
        Command::Render(args) => commands::render::run(&globals, &args),
        Command::Import(args) => commands::import::run(&args),
        Command::Status(args) => commands::status::run(&globals, args).await,
        Command::History(args) => commands::history::run(&globals, args).await,
        Command::Show(args) => commands::show::run(&globals, args).await,
        Command::Mcp(args) => commands::mcp::run(&globals, args).await,
        Command::Retry(args) => commands::retry::run(&globals, args).await,
        Command::RollingUpdate(args) => commands::rolling_update::run(&globals, *args).await,
        Command::Undo(args) => commands::undo::run(&globals, args).await,
        Command::Sync(args) => commands::sync::run(&globals, args).await,
        Command::Suspend(args) => commands::suspend::suspend(&globals, args).await,
        Command::ResumeSync(args) => commands::suspend::resume(&globals, args).await,
        Command::Promote(args) => commands::promote::promote(&globals, args).await,
        Command::Abort(args) => commands::promote::abort(&globals, args).await,
        Command::Pause(args) => commands::pause::pause(&globals, args).await,
        Command::Resume(args) => commands::pause::resume(&globals, args).await,
        Command::Restart(args) => commands::restart::run(&globals, args).await,
        Command::Set(args) => commands::set::run(&globals, args).await,
        Command::Scale(args) => commands::scale::run(&globals, args).await,
        Command::New(args) => commands::new::run(&globals, args).await,
        Command::Notify(args) => commands::notify_test::run(args).await,
        Command::Simulate(args) => commands::simulate::run(&globals, *args).await,
        Command::Cluster(args) => commands::cluster::run(&globals, args).await,
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::Version(args) => commands::version::run(&args),
    }
}
