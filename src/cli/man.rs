//! `belay man [COMMAND]`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Command;
use clap_mangen::Man;

use super::command_line;
use super::exit::Exit;
use super::output::progress;

/// What `belay man` understands.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  belay man | man -l -               # read belay(1)
  belay man history | man -l -       # read belay-history(1)
  belay man --dir /usr/local/share/man/man1")]
pub struct Args {
    /// The command whose page is printed [default: that of belay itself]
    command: Option<String>,
    /// Write all pages into this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let pages = pages();
    if let Some(folder) = &args.dir {
        write_all(folder, &pages)?;
        progress(format!("{} pages in {}", pages.len(), folder.display()));
        return Ok(Exit::Done);
    }
    let wanted = args.command.as_ref().map_or_else(|| "belay".to_owned(), |command| format!("belay-{command}"));
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let known: Vec<&str> = pages.iter().filter_map(|(name, _)| name.strip_prefix("belay-")).collect();
        bail!("there is no command {:?}; there are {}", args.command.clone().unwrap_or_default(), known.join(", "));
    };
    // A reader that has gone away is not an error.
    let _ = std::io::stdout().write_all(page);
    Ok(Exit::Done)
}

/// Every page, with its name.
fn pages() -> Vec<(String, Vec<u8>)> {
    // Without the overview that stands in for the help on a screen: a page has room for all of it.
    let mut whole = command_line::full();
    whole.build();
    let subs = whole.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    let mut pages = vec![("belay".to_owned(), page(&whole, "belay"))];
    pages.extend(subs.map(|sub| {
        let name = format!("belay-{}", sub.get_name());
        (name.clone(), page(sub, &name))
    }));
    pages
}

fn page(command: &Command, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let command = command.clone().display_name(name.to_owned());
    // Writing to memory can't fail.
    let _ = Man::new(command).title(name.to_uppercase()).manual("belay").render(&mut bytes);
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
