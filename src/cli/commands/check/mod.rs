//! `belay check [PATH]`

mod analysis_jobs;
mod cluster_fields;
mod empty_folder;
mod other_tools;
mod references;
mod server;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::server::Server;
use super::plan;
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::answer::CheckAnswer;
use crate::cli::output::{Format, counted, plain, progress, say, say_value};
use crate::cli::session::configured::SourceArgs;
use crate::cli::session::guard_notes::GuardNotes;
use crate::cli::worktree::folder::{self, Folder};
use crate::config::SourceConfig;
use belay_core::manifest::{Complaint, ObjectKey, Scopes};

/// The arguments of `belay check`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder with the manifests, or one file [default: the present folder, with --config all that its source follows]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(in crate::cli) fn run(globals: &Globals, args: &Args) -> anyhow::Result<Exit> {
    let Args { path, source, output } = args;
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let (reading, configured) = source.reading_and_source()?;
    let folder = folder::read(path.as_deref(), &reading, Scopes::new(namespace))?;
    let (mut complaints, mut warnings) = look(&folder);
    if let Some(source) = &configured {
        complaints.extend(analysis_jobs::complaints(path.as_deref(), &folder, source)?);
    }
    let notes = configured.map(|source| guards(&folder, &source, &mut warnings)).unwrap_or_default();
    let objects: usize = folder.files.iter().map(|file| file.manifests.len()).sum();
    let (wrong, doubtful) = (complaints.len(), warnings.len());
    match output {
        Format::Json | Format::Yaml => say_value(&CheckAnswer { objects, complaints, warnings, notes }, *output)?,
        Format::Name => complaints.iter().for_each(|complaint| say(complaint.place.to_string())),
        Format::Table | Format::Wide => {
            complaints.iter().for_each(plan::complain);
            warnings.iter().for_each(|warning| say(plain(&format!("warning: {warning}"))));
            notes.iter().for_each(|note| say(plain(&format!("note: {note}"))));
            let files = || format!("{} in {}", counted(objects, "object"), counted(folder.files.len(), "file"));
            progress(match (wrong, doubtful) {
                (0, 0) => format!("{}, and nothing wrong.", files()),
                (0, _) => format!("{}, nothing wrong, and {}.", files(), counted(doubtful, "warning")),
                (_, 0) => format!("{}.", counted(wrong, "complaint")),
                _ => format!("{} and {}.", counted(wrong, "complaint"), counted(doubtful, "warning")),
            });
            if (objects, wrong, doubtful) == (0, 0, 0) {
                let asked = path.as_deref().unwrap_or(Path::new("."));
                empty_folder::hint(asked, reading.followed.is_some()).iter().for_each(progress);
            }
        }
    }
    Ok(if wrong == 0 { Exit::Done } else { Exit::Error })
}

/// Returns the notes about the analyses of a folder's workloads, and adds a warning for each that can prove nothing.
fn guards(folder: &Folder, source: &SourceConfig, warnings: &mut Vec<Complaint>) -> Vec<Complaint> {
    let mut guards = GuardNotes::of(source);
    let mut notes = Vec::new();
    for manifest in folder.files.iter().flat_map(|file| &file.manifests) {
        for note in guards.about(manifest, |_| None) {
            let list = if note.is_blind { &mut *warnings } else { &mut notes };
            list.push(manifest.shown(note.complaint(manifest)));
        }
    }
    notes
}

/// Returns the complaints and warnings about the manifests of a folder: those about files first, then those about each
/// object.
fn look(folder: &Folder) -> (Vec<Complaint>, Vec<Complaint>) {
    let (mut complaints, mut warnings) = (folder.complaints.clone(), folder.warnings.clone());
    let manifests = || folder.files.iter().flat_map(|file| &file.manifests);
    // An object with a wrong manifest counts as present.
    let rejected = folder.files.iter().flat_map(|file| &file.rejected);
    let there: BTreeSet<&ObjectKey> = manifests().map(|manifest| &manifest.key).chain(rejected).collect();
    warnings.extend(folder.files.iter().flat_map(|file| file.warnings.iter().cloned()));
    let server = Server::with(manifests());
    for manifest in manifests() {
        let said = server.ask(manifest);
        complaints.extend(said.complaints.into_iter().map(|complaint| manifest.shown(complaint)));
        let doubts = cluster_fields::left_to_the_cluster(manifest);
        let doubts = said.warnings.into_iter().chain(doubts).chain(references::that_lead_nowhere(manifest, &there));
        warnings.extend(doubts.map(|warning| manifest.shown(warning)));
    }
    (complaints, other_tools::told_once(warnings))
}
