//! `belay man [COMMAND]`

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use anyhow::{Context as _, bail};
use clap::Command;
use clap_mangen::Man;

use crate::cli::args::command_line;
use crate::cli::exit::Exit;
use crate::cli::output::{progress, say};

/// The date of the last revision of the pages, as readers expect one.
const DATE: &str = "2026-11-30";

/// The arguments of `belay man`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  belay man                          # belay(1)
  belay man set image                # belay-set-image(1)
  belay man history > history.1      # in a pipe or file: the source of the page
  belay man --dir /usr/local/share/man/man1")]
pub struct Args {
    /// The command whose page to show: history, set image [default: belay itself]
    command: Vec<String>,
    /// Write all pages into this folder, and show none
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(in crate::cli) fn run(args: &Args) -> anyhow::Result<Exit> {
    let pages = pages();
    if let Some(folder) = &args.dir {
        write_all(folder, &pages)?;
        progress(format!("{} pages in {}", pages.len(), folder.display()));
        return Ok(Exit::Done);
    }
    let wanted = std::iter::once("belay").chain(args.command.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let known: Vec<&str> = pages.iter().filter_map(|(name, _)| name.strip_prefix("belay-")).collect();
        bail!("there is no command {:?}; there are {}", args.command.join(" "), known.join(", "));
    };
    if std::io::stdout().is_terminal() {
        show(&wanted, page, &args.command)?;
    } else {
        // A reader that has gone away is not an error.
        let _ = std::io::stdout().write_all(page);
    }
    Ok(Exit::Done)
}

/// Shows a page with the machine's `man`. If there is none, the help of the command says the same in plain text.
fn show(name: &str, page: &[u8], command: &[String]) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder for the page")?;
    // A name with a slash is a file to `man`.
    let file = folder.path().join(format!("{name}.1"));
    std::fs::write(&file, page).with_context(|| format!("failed to write {}", file.display()))?;
    match Program::new("man").arg(&file).status() {
        // A reader that leaves the pager early is not an error.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            progress("note: this machine has no man, which shows manual pages; this is the help of the command");
            say(help_of(command).trim_end());
            Ok(())
        }
        Err(error) => Err(error).context("failed to run man; belay man > FILE writes the page into a file"),
    }
}

/// Returns the help of a command in full.
fn help_of(words: &[String]) -> String {
    let mut command = command_line::full();
    command.build();
    for word in words {
        if let Some(below) = command.find_subcommand(word).cloned() {
            command = below;
        }
    }
    command.render_long_help().ansi().to_string()
}

/// Returns every page, with its name.
fn pages() -> Vec<(String, Vec<u8>)> {
    // Without the overview that stands in for the help on a screen: a page has room for all of it.
    let mut whole = command_line::full();
    whole.build();
    let subs = whole.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    let mut pages = vec![("belay".to_owned(), page(&whole, "belay"))];
    subs.for_each(|sub| below(sub, "belay", &mut pages));
    pages
}

/// Adds the page of a command, and those of the commands below it: `belay-set`, `belay-set-image`.
fn below(command: &Command, of: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = format!("{of}-{}", command.get_name());
    pages.push((name.clone(), page(command, &name)));
    let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    subs.for_each(|sub| below(sub, &name, pages));
}

fn page(command: &Command, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let command = command.clone().display_name(name.to_owned());
    // Writing to memory can't fail.
    let page = Man::new(command).title(name.to_uppercase()).manual("belay").date(DATE);
    let _ = page.source(concat!("belay ", env!("CARGO_PKG_VERSION"))).render(&mut bytes);
    bytes
}

fn write_all(folder: &Path, pages: &[(String, Vec<u8>)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("failed to make the folder {}", folder.display()))?;
    for (name, page) in pages {
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, page).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}
