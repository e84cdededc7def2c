//! `belay render [DIR]`

use std::path::PathBuf;

use serde_json::Value;

use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::{counted, plain, progress, say, say_data};
use crate::cli::session::configured::SourceArgs;
use crate::cli::worktree::folder;
use belay_core::manifest::yaml::to_text;
use belay_core::manifest::{File, Manifest, Scopes};
use belay_core::rollout::presentable;

/// The arguments of `belay render`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder with the manifests, kustomizations and charts [default: the present one, with --config all that its source
    /// follows]
    #[arg(value_name = "DIR")]
    path: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: RenderFormat,
}

/// The format of rendered manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RenderFormat {
    /// One document an object, with a comment that says where it comes from.
    #[default]
    Yaml,
    /// One list of objects.
    Json,
    /// The names of the objects.
    Name,
}

pub(in crate::cli) fn run(globals: &Globals, args: &Args) -> anyhow::Result<Exit> {
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let folder = folder::read(args.path.as_deref(), &args.source.reading()?, Scopes::new(namespace))?;
    let objects = || folder.files.iter().flat_map(|file| file.manifests.iter().map(move |manifest| (file, manifest)));
    match args.output {
        RenderFormat::Name => objects().for_each(|(_, manifest)| say(plain(&manifest.key.to_string()))),
        RenderFormat::Json => {
            let items: Vec<Value> = objects().map(|(_, manifest)| presentable(&manifest.value())).collect();
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
            say_data(&serde_json::to_string_pretty(&list)?);
        }
        RenderFormat::Yaml => {
            for (file, manifest) in objects() {
                say_data(&format!(
                    "---\n{}\n{}",
                    origin(file, manifest),
                    to_text(&presentable(&manifest.value()))?.trim_end()
                ));
            }
        }
    }
    // Standard output has only the manifests that would be applied.
    folder.complaints.iter().for_each(|complaint| progress(plain(&format!("error: {complaint}"))));
    if folder.complaints.is_empty() {
        return Ok(Exit::Done);
    }
    progress(counted(folder.complaints.len(), "complaint"));
    Ok(Exit::Error)
}

/// Returns the comment that says where an object comes from, as Helm writes it.
fn origin(file: &File, manifest: &Manifest) -> String {
    let path = &manifest.place.path;
    let unit = if *path == file.path { String::new() } else { format!(" (rendered by {})", file.path) };
    plain(&format!("# Source: {path}{unit}"))
}
