//! The whole command line as one value: for reading it, for its help, its manual pages and its completion.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, FromArgMatches as _};

use super::candidates;
use crate::cli::Cli;
use crate::cli::commands::help;

/// Reads a command line, the program's name first.
pub(in crate::cli) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut command = command();
    if let Some(name) = plugin_name(args.first()) {
        command = command.bin_name(name);
    }
    let matches = command.try_get_matches_from_mut(args).map_err(name_what_does_it)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Verbs of other programs, with the commands of belay that do the same.
const OTHERS: [(&str, &str); 17] = [
    ("rollback", "'belay undo WORKLOAD' takes a workload back; what fails belay takes back by itself"),
    ("revert", "'belay undo WORKLOAD' takes a workload back; 'git revert' and a push do it in Git"),
    ("rollout", "'belay status', 'history', 'undo', 'pause', 'resume' and 'restart' are what 'kubectl rollout' does"),
    ("diff", "'belay plan' shows what would change"),
    ("reconcile", "the daemon looks by itself; 'belay run --once' rolls out once"),
    (
        "apply",
        "the daemon applies what is pushed; 'belay run --once' rolls out once, 'belay plan' shows what that would be",
    ),
    ("deploy", "the daemon applies what is pushed; 'belay run --once' rolls out once"),
    ("logs", "'belay show COMMIT' has the last lines of what failed; 'kubectl logs' has those of what runs"),
    ("get", "'belay status' shows each workload, 'belay history' what was rolled out"),
    ("list", "'belay status' shows each workload, 'belay history' what was rolled out"),
    ("describe", "'belay show COMMIT' tells all of a commit, 'belay status WORKLOAD' where a workload is"),
    ("top", "'belay status --watch' goes on showing each workload"),
    (
        "delete",
        "objects that leave the repository are deleted with 'prune = true'; 'kubectl delete' deletes all others",
    ),
    ("log", "'belay history' shows what was rolled out"),
    ("validate", "'belay check' reads manifests without a cluster"),
    ("lint", "'belay check' reads manifests without a cluster"),
    ("unsuspend", "'belay resume-sync WORKLOAD' takes a suspended workload up again"),
];

/// Returns an error about a verb that people bring along from other programs names the one that does it here.
fn name_what_does_it(error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let Some((_, does)) = OTHERS.iter().find(|(other, _)| other == verb) else { return error };
    let text = format!("there is no 'belay {verb}': {does}\n\nFor more, try 'belay --help'.\n");
    clap::Error::raw(ErrorKind::InvalidSubcommand, text)
}

/// Returns the command line, its help long as clap makes it.
pub(in crate::cli) fn full() -> Command {
    Cli::command()
}

/// Returns the command line, its help one screen.
pub(in crate::cli) fn command() -> Command {
    let command = candidates::with_candidates(full());
    let text = help::overview(&command);
    command.override_help(text)
}

/// Returns the name in usage lines when kubectl runs belay as its plugin: the file is called `kubectl-belay`.
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
    fn verbs_of_other_programs_name_what_does_it_here() {
        for (verb, command) in [
            ("rollback", "belay undo"),
            ("diff", "belay plan"),
            ("reconcile", "--once"),
            ("logs", "belay show"),
            ("get", "belay status"),
        ] {
            let text = usage("belay", &[verb]);
            assert!(text.contains(&format!("there is no 'belay {verb}'")) && text.contains(command), "{text}");
        }
        // A verb that is there is none of these.
        assert!(OTHERS.iter().all(|(verb, _)| full().find_subcommand(verb).is_none()));
    }

    #[test]
    fn what_is_nearly_a_command_is_named() {
        assert!(usage("belay", &["histroy"]).contains("'history'"), "{}", usage("belay", &["histroy"]));
        assert!(usage("belay", &["history", "--comit", "1"]).contains("'--commit'"));
    }
}
