//! `belay help`: all commands on one screen.

use std::fmt::Write as _;

use clap::Command;

/// The groups of commands. A command that is in none of them stands at the end.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Begin", &["demo", "run", "check", "render", "plan"]),
    ("Look", &["status", "history", "show"]),
    ("Take back", &["undo", "retry", "suspend", "resume-sync", "sync"]),
    ("By hand", &["set", "new", "scale", "pause", "resume", "restart", "rolling-update"]),
    ("Around it", &["import", "notify", "simulate", "cluster", "completions", "man", "version"]),
];

/// The width of the overview.
const WIDTH: usize = 79;

/// Returns the help of the program itself: every command by name, on 24 lines of 80 columns.
pub(in crate::cli) fn overview(command: &Command) -> String {
    let present: Vec<&str> =
        command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
    let mut text = String::from(
        "belay rolls out what a Git repository says, and takes back what fails.\n\n\
         Usage: belay COMMAND [OPTIONS]\n\n",
    );
    let grouped = |name: &&str| GROUPS.iter().any(|(_, names)| names.contains(name));
    for (title, names) in GROUPS {
        let names: Vec<&str> = names.iter().copied().filter(|name| present.contains(name)).collect();
        line(&mut text, title, &names);
    }
    let others: Vec<&str> = present.iter().copied().filter(|name| !grouped(name) && *name != "help").collect();
    line(&mut text, "Other", &others);
    text.push_str(
        "\n  belay demo                the whole story in half a minute, nothing installed\n\
         \x20 belay help COMMAND        what a command does, and its options\n\
         \x20 belay man COMMAND         the same as a manual page\n\n\
         Everywhere: --kubeconfig FILE, --context NAME, -n NAMESPACE, --as USER,\n\
         --request-timeout TIME, --state-dir DIR, -v, -h, --version\n",
    );
    text
}

/// Writes `  Begin       demo, run, check, plan`, broken if it is too wide.
fn line(text: &mut String, title: &str, names: &[&str]) {
    const INDENT: usize = 14;
    if names.is_empty() {
        return;
    }
    let mut line = format!("  {title:<width$}", width = INDENT - 2);
    for (index, name) in names.iter().enumerate() {
        let comma = if index + 1 == names.len() { "" } else { ", " };
        if line.len() + name.len() + comma.len() > WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(INDENT);
        }
        line.push_str(name);
        line.push_str(comma);
    }
    // Writing to a String can't fail.
    let _ = writeln!(text, "{line}");
}
