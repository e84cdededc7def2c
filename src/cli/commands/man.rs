//! `belay man [COMMAND]`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Command;
use clap_mangen::Man;

use crate::cli::args::command_line;
use crate::cli::exit::Exit;
use crate::cli::output::progress;

/// The date of the last revision of the pages, as readers expect one.
const DATE: &str = "2026-11-21";

/// The arguments of `belay man`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  belay man | man -l -               # read belay(1)
  belay man history | man -l -       # read belay-history(1)
  belay man --dir /usr/local/share/man/man1")]
pub struct Args {
    /// The command whose page is printed: history, set image [default: that of belay itself]
    command: Vec<String>,
    /// Write all pages into this folder instead
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
    // A reader that has gone away is not an error.
    let _ = std::io::stdout().write_all(page);
    Ok(Exit::Done)
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
