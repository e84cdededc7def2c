//! The files with the Jobs of analyses, which the source does not apply itself.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cli::session::guard_notes::GuardNotes;
use crate::cli::worktree::disk_tree::DiskTree;
use crate::cli::worktree::folder::Folder;
use crate::config::{AnalysisSubject, SourceConfig};
use crate::render::Tree as _;
use belay_core::manifest::yaml::Limits;
use belay_core::manifest::{Complaint, Manifest};
use belay_core::rollout::Workload;
use belay_core::rollout::analysis::read_job;

/// Returns the complaints about the Jobs that the analyses of a folder's workloads make.
pub(super) fn complaints(
    path: Option<&Path>,
    folder: &Folder,
    source: &SourceConfig,
) -> anyhow::Result<Vec<Complaint>> {
    let asked = path.unwrap_or(Path::new("."));
    let asked = if asked.is_file() { asked.parent().filter(|parent| *parent != Path::new("")) } else { Some(asked) };
    let (tree, _) = DiskTree::around(asked.unwrap_or(Path::new(".")))?;
    let guards = GuardNotes::of(source);
    let mut seen = BTreeSet::new();
    let mut complaints = Vec::new();
    let can_go_back = |manifest: &&Manifest| Workload::of(&manifest.key).is_some_and(Workload::can_go_back);
    for manifest in folder.files.iter().flat_map(|file| &file.manifests).filter(can_go_back) {
        for config in guards.analyses(&manifest.value()) {
            let Ok(AnalysisSubject::Job { file }) = config.subject() else { continue };
            let namespace = manifest.key.namespace.as_deref().unwrap_or_default();
            if seen.insert((file.clone(), namespace.to_owned())) {
                complaints.extend(fault(&tree, &file, namespace, manifest, &config.name));
                complaints.extend(applied_by_itself(&tree, folder, &file));
            }
        }
    }
    Ok(complaints)
}

fn fault(tree: &DiskTree, file: &str, namespace: &str, manifest: &Manifest, analysis: &str) -> Option<Complaint> {
    let Ok(read) = tree.read(file, Limits::default().file_bytes as u64);
    match read {
        Some(bytes) => read_job(file, &bytes, namespace).err().map(|fault| *fault),
        None => {
            let message = format!("analysis {analysis:?}: the repository has no file {file}");
            let complaint = Complaint::of_file(manifest.place.clone(), message, None);
            Some(Complaint { object: Some(manifest.key.clone()), ..complaint })
        }
    }
}

/// Returns the complaint about a file that the source applies, too: as a manifest, or as a part of a rendered unit.
fn applied_by_itself(tree: &DiskTree, folder: &Folder, file: &str) -> Option<Complaint> {
    let job = tree.root().join(file).canonicalize().ok()?;
    let mut manifests = folder.files.iter().flat_map(|file| &file.manifests);
    let applied =
        manifests.find(|manifest| Path::new(&*manifest.place.path).canonicalize().is_ok_and(|path| path == job))?;
    let message = format!("{} is the Job of an analysis, and the source applies it, too", applied.key);
    let hint = Some(format!("add \"/{file}\" to exclude of the source, or leave it out of the kustomization"));
    let complaint = Complaint::of_file(applied.place.clone(), message, hint);
    Some(Complaint { object: Some(applied.key.clone()), ..complaint })
}
