//! `belay completions SHELL`, and the completion itself.
//!
//! The shell asks belay for the candidates, so that workloads, commits and revisions are those of the cluster and the
//! history at that moment. Whatever goes wrong on Tab completes nothing, and says nothing.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::bail;
use clap_complete::engine::complete;
use clap_complete::env::{CompleteEnv, Shells};

use crate::cli::args::command_line;
use crate::cli::exit::Exit;
use crate::cli::output::say;

/// The variable by which a shell asks.
const VARIABLE: &str = "BELAY_COMPLETE";

/// The arguments of `belay completions`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  echo 'source <(belay completions bash)' >> ~/.bashrc
  echo 'source <(belay completions zsh)' >> ~/.zshrc
  belay completions fish > ~/.config/fish/completions/belay.fish

Tab asks the cluster for at most two seconds, and the history file; it never changes anything.")]
pub struct Args {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

pub(in crate::cli) fn run(args: &Args) -> anyhow::Result<Exit> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        bail!("there is no completion for {:?}", args.shell);
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "belay", "belay", "belay", &mut script)?;
    say(String::from_utf8_lossy(&script).trim_end());
    Ok(Exit::Done)
}

/// Answers a shell, or kubectl, that asks for candidates; returns `false` if neither asks.
pub(in crate::cli) fn answered() -> bool {
    let args: Vec<OsString> = std::env::args_os().collect();
    let program = args.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    if program.is_some_and(|name| name.starts_with("kubectl_complete-")) {
        answer_kubectl(&args);
        return true;
    }
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(command_line::command).var(VARIABLE).try_complete(args, here.as_deref()).unwrap_or(true)
}

/// Answers kubectl, which runs `kubectl_complete-belay` with the words after `kubectl belay`, the last of which is not
/// finished. It expects a candidate a line, and a directive at the end: 4 means no files.
fn answer_kubectl(args: &[OsString]) {
    let mut words = vec![OsString::from("belay")];
    words.extend(args.iter().skip(1).cloned());
    let last = words.len() - 1;
    let here = std::env::current_dir().ok();
    let found = complete(&mut command_line::command(), words, last, here.as_deref()).unwrap_or_default();
    for candidate in found {
        let help = candidate.get_help().map(|help| format!("\t{help}")).unwrap_or_default();
        say(format!("{}{help}", candidate.get_value().to_string_lossy()));
    }
    say(":4");
}
