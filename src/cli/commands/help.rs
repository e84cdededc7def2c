//! `belay help`: all commands, grouped by what people want to do.

use std::fmt::Write as _;

use clap::Command;

/// The groups of commands. A command that is in none of them stands at the end.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Get started", &["demo", "run", "cluster"]),
    ("Inspect", &["status", "history", "show", "mcp"]),
    ("Roll back and hold", &["undo", "retry", "suspend", "resume-sync", "promote", "abort", "sync"]),
    ("Edit manifests", &["set", "scale", "new"]),
    ("Operate workloads", &["pause", "resume", "restart", "rolling-update"]),
    ("Preview", &["plan", "check", "render", "simulate"]),
    ("Migrate and set up", &["import", "notify", "completions", "man", "version"]),
];

/// Returns the help of the program itself: a line for every command, on 80 columns.
pub(in crate::cli) fn overview(command: &Command) -> String {
    let shown = || command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    let mut text = String::from(
        "belay rolls out what a Git repository says, and takes back what fails.\n\n\
         Usage: belay COMMAND [OPTIONS]\n",
    );
    for (title, names) in GROUPS {
        let of_group: Vec<&Command> =
            names.iter().filter_map(|name| shown().find(|sub| sub.get_name() == *name)).collect();
        group(&mut text, command, title, &of_group);
    }
    let is_grouped = |sub: &Command| GROUPS.iter().any(|(_, names)| names.contains(&sub.get_name()));
    let others: Vec<&Command> = shown().filter(|sub| !is_grouped(sub)).collect();
    group(&mut text, command, "Other", &others);
    text.push_str(
        "\nbelay help COMMAND shows its options, belay man COMMAND its manual page. All\n\
         take --kubeconfig, --context, -n, --as, --request-timeout, --state-dir, -v, -h.\n",
    );
    text
}

/// Writes a title, and a line for each command: its name, and its description.
fn group(text: &mut String, command: &Command, title: &str, subs: &[&Command]) {
    const NAME: usize = 16;
    if subs.is_empty() {
        return;
    }
    let (heading, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    // Writing to a String can't fail.
    let _ = writeln!(text, "\n{heading}{title}{heading:#}");
    for sub in subs {
        let name = sub.get_name();
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let blanks = " ".repeat(NAME.saturating_sub(name.len()).max(1));
        let _ = writeln!(text, "  {literal}{name}{literal:#}{blanks}{about}");
    }
}
