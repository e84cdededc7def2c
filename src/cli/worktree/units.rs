//! The units of a folder on this machine, or of a revision, rendered for the commands that read manifests.

use std::convert::Infallible;
use std::sync::Arc;

use crate::cli::session::configured::Reading;
use crate::render::{Plan, Renderer, Tree, Unit, UnitWarning};
use belay_core::manifest::{Complaint, File, Place, Scopes};

/// The units of a tree, each rendered at most once.
pub(in crate::cli) struct FolderUnits<T> {
    pub tree: T,
    pub plan: Plan,
    renderer: Renderer,
}

impl<T: Tree<Error = Infallible>> FolderUnits<T> {
    /// Returns those below a folder, all of them rendered.
    pub(in crate::cli) fn below(tree: T, folder: &str, reading: &Reading) -> FolderUnits<T> {
        let units = FolderUnits::planned(tree, folder, reading);
        units.prepare(&units.plan.units.values().collect::<Vec<_>>());
        units
    }

    /// Returns those below a folder, none of which is rendered yet.
    pub(in crate::cli) fn planned(tree: T, folder: &str, reading: &Reading) -> FolderUnits<T> {
        let renderer = Renderer::new(reading.options.clone(), reading.tools.clone(), None);
        let Ok(plan) = renderer.plan(&tree, folder);
        FolderUnits { tree, plan, renderer }
    }

    /// Renders some of them, several at once.
    pub(in crate::cli) fn prepare(&self, units: &[&Unit]) {
        let Ok(()) = self.renderer.prepare(&self.tree, units);
    }

    /// Returns a unit's rendering, its places as `shown` shows them.
    pub(in crate::cli) fn read(&self, unit: &Unit, scopes: &Scopes, shown: impl Fn(&str) -> Arc<str>) -> File {
        let Ok(mut file) = self.renderer.file(&self.tree, unit, scopes);
        let show = |place: &mut Place| place.path = shown(&place.path);
        file.path = shown(&file.path);
        file.manifests.iter_mut().for_each(|manifest| show(&mut manifest.place));
        for complaint in file.complaints.iter_mut().chain(&mut file.warnings) {
            show(&mut complaint.place);
            complaint.also.iter_mut().for_each(|note| show(&mut note.place));
        }
        file
    }

    /// Returns the warnings about the units.
    pub(in crate::cli) fn warnings(&self, shown: impl Fn(&str) -> Arc<str>) -> Vec<Complaint> {
        let Ok(warnings) = self.renderer.warnings(&self.tree, &self.plan);
        let complaint = |UnitWarning { place, message, advice }: UnitWarning| {
            Complaint::of_file(Place { path: shown(&place.path), ..place }, message, Some(advice))
        };
        warnings.into_iter().map(complaint).collect()
    }
}
