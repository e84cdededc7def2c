//! `belay check [PATH]`

use std::path::PathBuf;

use super::answer::CheckAnswer;
use super::exit::Exit;
use super::output::{Format, counted, progress, say, say_value};
use super::{Globals, folder, plan};
use belay_core::manifest::Scopes;

/// What `belay check` understands.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder with the manifests, or one file
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(super) fn run(globals: &Globals, args: &Args) -> anyhow::Result<Exit> {
    let Args { path, output } = args;
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let folder = folder::read(path, Scopes::new(namespace))?;
    let objects: usize = folder.files.iter().map(|file| file.manifests.len()).sum();
    match output {
        Format::Json | Format::Yaml => {
            say_value(&CheckAnswer { objects, complaints: folder.complaints.clone() }, *output)?;
        }
        Format::Name => folder.complaints.iter().for_each(|complaint| say(complaint.place.to_string())),
        Format::Table | Format::Wide => {
            folder.complaints.iter().for_each(plan::complain);
            progress(match folder.complaints.len() {
                0 => format!(
                    "{} in {}, and nothing wrong.",
                    counted(objects, "object"),
                    counted(folder.files.len(), "file")
                ),
                1 => "1 complaint.".to_owned(),
                many => format!("{many} complaints."),
            });
        }
    }
    Ok(if folder.complaints.is_empty() { Exit::Done } else { Exit::Error })
}
