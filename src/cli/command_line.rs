//! The whole command line as one value: for reading it, for its help, its manual pages and its completion.

use std::ffi::OsString;
use std::path::Path;

use clap::{Command, CommandFactory as _, FromArgMatches as _};

use super::{Cli, completions, help};

/// Reads a command line, the program's name first.
pub(super) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut command = command();
    if let Some(name) = plugin_name(args.first()) {
        command = command.bin_name(name);
    }
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The command line, its help long as clap makes it.
pub(super) fn full() -> Command {
    Cli::command()
}

/// The command line, its help one screen.
pub(super) fn command() -> Command {
    let command = completions::with_candidates(full());
    let text = help::overview(&command);
    command.override_help(text)
}

/// What usage lines say where kubectl runs belay as its plugin: its file is called `kubectl-belay`.
fn plugin_name(program: Option<&OsString>) -> Option<String> {
    let file = Path::new(program?).file_name()?.to_str()?;
    Some(format!("kubectl {}", file.strip_prefix("kubectl-")?.replace('_', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(program: &str, args: &[&str]) -> String {
        let all = std::iter::once(program).chain(args.iter().copied()).map(OsString::from);
        parse(all).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_plugin_of_kubectl_says_so() {
        let text = usage("/usr/local/bin/kubectl-belay", &["show"]);
        assert!(text.contains("Usage: kubectl belay show"), "{text}");
        assert!(usage("/usr/bin/belay", &["show"]).contains("Usage: belay show"));
    }

    #[test]
    fn what_is_nearly_a_command_is_named() {
        assert!(usage("belay", &["histroy"]).contains("'history'"), "{}", usage("belay", &["histroy"]));
        assert!(usage("belay", &["history", "--comit", "1"]).contains("'--commit'"));
    }
}
